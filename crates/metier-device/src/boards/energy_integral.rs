//! Energy integrated from power samples, with estimates of its error.
//!
//! Uses the trapezoid rule at the sample times. Power between two samples is unknown, so the sum
//! has an error that no integrator removes. Three figures bound it:
//!
//! - `aliasing_joules`: the change of the sum when only every second sample is used, the larger of
//!   the two choices. It is small when the sampling interval resolves the signal, and large
//!   otherwise.
//! - `bound_joules`: the sum over intervals of half the power step times the interval. It bounds
//!   the error while power stays between its two neighbouring samples. Peaks inside one interval
//!   are not bounded.
//! - `clock_joules`: the error from inexact times, for samples without a receipt time.

use metier_types::{Joules, Seconds, Watts};
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct IntegratedEnergy {
    #[serde(rename = "energy_joules")]
    pub joules: Joules,
    /// Covered time, without gaps.
    #[serde(rename = "covered_seconds")]
    pub covered: Seconds,
    pub samples: u64,
    /// Uninterrupted stretches.
    pub stretches: u64,
    /// Mean over the samples.
    pub mean_watts: Watts,
    pub peak_watts: Watts,
    /// Mean time between samples.
    pub interval_seconds: Seconds,
    /// Change of the sum when only every second sample is used.
    pub aliasing_joules: Joules,
    /// Upper bound of the error while power stays between neighbouring samples.
    pub bound_joules: Joules,
    /// Error from inexact sample times.
    pub clock_joules: Joules,
}

impl IntegratedEnergy {
    /// The error to report with the energy: aliasing plus clock error.
    pub fn error(&self) -> Joules {
        self.aliasing_joules + self.clock_joules
    }
}

/// A sample: seconds on a monotonic clock, and watts.
type PowerPoint = (f64, f64);

/// Integrates power sample by sample in bounded memory.
#[derive(Debug, Clone, Default)]
pub struct EnergyIntegrator {
    joules: f64,
    covered: f64,
    intervals: u64,
    samples: u64,
    stretches: u64,
    sum: f64,
    peak: Option<f64>,
    bound: f64,
    /// Fine minus coarse sums over pairs of intervals, indexed by the parity of the middle sample.
    skipped: [f64; 2],
    before: [Option<PowerPoint>; 2],
    /// Number of the next sample in its stretch.
    number: u64,
}

impl EnergyIntegrator {
    /// Adds a sample. Rejects it and returns `false` if it is not finite or not later than the
    /// previous sample.
    pub fn add_sample(&mut self, at: Seconds, power: Watts) -> bool {
        let (time, watts) = (at.get(), power.get());
        let [older, last] = self.before;
        if !time.is_finite() || !watts.is_finite() || last.is_some_and(|(then, _)| time <= then) {
            return false;
        }
        let now = (time, watts);
        match last {
            None => self.stretches += 1,
            Some(last) => {
                self.joules += trapezoid_area(last, now);
                self.covered += time - last.0;
                self.intervals += 1;
                self.bound += (watts - last.1).abs() / 2.0 * (time - last.0);
                if let Some(older) = older {
                    let difference =
                        trapezoid_area(older, last) + trapezoid_area(last, now) - trapezoid_area(older, now);
                    // The middle of the three is the sample before this one.
                    self.skipped[(self.number % 2) as usize] += difference;
                }
            }
        }
        self.samples += 1;
        self.number += 1;
        self.sum += watts;
        self.peak = Some(self.peak.map_or(watts, |peak| peak.max(watts)));
        self.before = [last, Some(now)];
        true
    }

    /// Ends a stretch, so that no energy is integrated up to the next sample.
    pub fn interrupt(&mut self) {
        self.before = [None, None];
        self.number = 0;
    }

    /// The energy integrated so far; `None` without a sample.
    pub fn energy(&self) -> Option<IntegratedEnergy> {
        let peak = self.peak?;
        Some(IntegratedEnergy {
            joules: Joules(self.joules),
            covered: Seconds(self.covered),
            samples: self.samples,
            stretches: self.stretches,
            mean_watts: Watts(self.sum / self.samples as f64),
            peak_watts: Watts(peak),
            interval_seconds: Seconds(self.covered / self.intervals.max(1) as f64),
            aliasing_joules: Joules(self.skipped[0].abs().max(self.skipped[1].abs())),
            bound_joules: Joules(self.bound),
            clock_joules: Joules(0.0),
        })
    }
}

fn trapezoid_area(a: PowerPoint, b: PowerPoint) -> f64 {
    (a.1 + b.1) / 2.0 * (b.0 - a.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(points: &[PowerPoint]) -> IntegratedEnergy {
        let mut integrator = EnergyIntegrator::default();
        for (time, watts) in points {
            integrator.add_sample(Seconds(*time), Watts(*watts));
        }
        integrator.energy().unwrap()
    }

    #[test]
    fn a_straight_line_has_no_aliasing_and_a_zigzag_has_all_of_it() {
        let line: Vec<PowerPoint> = (0..101).map(|i| (f64::from(i), f64::from(i))).collect();
        let energy = of(&line);
        assert_eq!((energy.joules, energy.covered), (Joules(5000.0), Seconds(100.0)));
        assert!(energy.aliasing_joules.get() < 1e-9);
        assert_eq!(energy.bound_joules, Joules(50.0));
        let zigzag: Vec<PowerPoint> = (0..101).map(|i| (f64::from(i), f64::from(i % 2) * 10.0)).collect();
        let energy = of(&zigzag);
        assert_eq!(energy.joules, Joules(500.0));
        // One choice of every second sample reads 0 W throughout, the other 10 W.
        assert_eq!(energy.aliasing_joules, Joules(500.0));
    }

    #[test]
    fn aliasing_is_the_difference_to_every_second_sample_taken_by_itself() {
        let all: Vec<PowerPoint> = (0..41)
            .map(|i| (f64::from(i) * 1.03 + f64::from(i % 3) * 0.1, f64::from((i * i * 7) % 23)))
            .collect();
        let even: Vec<PowerPoint> = all.iter().copied().step_by(2).collect();
        let odd: Vec<PowerPoint> = all.iter().copied().skip(1).step_by(2).collect();
        let middle = &all[1..all.len() - 1];
        let value = (of(&all).joules.get() - of(&even).joules.get())
            .abs()
            .max((of(middle).joules.get() - of(&odd).joules.get()).abs());
        assert!((of(&all).aliasing_joules.get() - value).abs() < 1e-9);
    }

    #[test]
    fn a_gap_is_not_bridged_and_time_never_goes_back() {
        let mut integrator = EnergyIntegrator::default();
        assert!(integrator.add_sample(Seconds(0.0), Watts(2.0)));
        assert!(integrator.add_sample(Seconds(1.0), Watts(2.0)));
        assert!(!integrator.add_sample(Seconds(1.0), Watts(9.0)));
        assert!(!integrator.add_sample(Seconds(f64::NAN), Watts(9.0)));
        integrator.interrupt();
        assert!(integrator.add_sample(Seconds(0.5), Watts(4.0)), "another clock may begin after a break");
        assert!(integrator.add_sample(Seconds(1.5), Watts(4.0)));
        let energy = integrator.energy().unwrap();
        assert_eq!((energy.joules, energy.covered, energy.stretches), (Joules(6.0), Seconds(2.0), 2));
        assert_eq!(EnergyIntegrator::default().energy(), None);
    }
}
