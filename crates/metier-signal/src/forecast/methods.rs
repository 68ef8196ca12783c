//! Point forecasts that cost a fixed amount for each new sample.
//!
//! - Simple exponential smoothing (Brown 1956; Hyndman and Athanasopoulos, *Forecasting: Principles
//!   and Practice*, 3rd ed., section 8.1) for several smoothing parameters, and the running mean.
//! - Damped trend (Gardner and McKenzie 1985; same book, section 8.2).
//! - Additive seasonal profile on a smoothed level (Holt-Winters without trend; same book,
//!   section 8.3), seasonal naive, and the mean of the last cycles.
//!
//! A gain is never below 1/(samples + 1): a method starts as a running mean and needs no other
//! initial value.

/// Smoothing parameters of the level.
const LEVEL_GAINS: [f64; 8] = [0.0, 0.03, 0.07, 0.15, 0.3, 0.5, 0.75, 1.0];
/// Level gain, trend gain and damping of the damped trends.
const DAMPED_TRENDS: [(f64, f64, f64); 3] = [(0.3, 0.05, 0.9), (0.6, 0.1, 0.9), (0.9, 0.3, 0.8)];
/// Level gain and profile gain of the seasonal methods.
const SEASONAL_PROFILES: [(f64, f64); 4] = [(0.02, 0.1), (0.1, 0.1), (0.3, 0.1), (0.6, 0.1)];
/// Cycles that a seasonal mean takes.
const SEASONAL_CYCLES: [usize; 3] = [1, 3, 7];
/// Most phases of a seasonal profile.
const MAX_PHASES: usize = 512;

/// A method with its state after the samples so far.
#[derive(Debug, Clone)]
pub enum PointMethod {
    Level { gain: f64, level: f64 },
    DampedTrend { gain: f64, trend_gain: f64, damping: f64, level: f64, trend: f64 },
    SeasonalProfile { gain: f64, profile_gain: f64, period: f64, level: f64, profile: Vec<PhaseMean> },
    SeasonalMean { cycles: usize, period: f64 },
}

/// Mean departure from the level at one phase of the cycle.
#[derive(Debug, Clone, Copy, Default)]
pub struct PhaseMean {
    departure: f64,
    samples: f64,
}

/// The methods that apply to a series with or without a period.
pub fn list_methods(period: Option<f64>) -> Vec<PointMethod> {
    let levels = LEVEL_GAINS.iter().map(|&gain| PointMethod::Level { gain, level: 0.0 });
    let trends = DAMPED_TRENDS.iter().map(|&(gain, trend_gain, damping)| PointMethod::DampedTrend {
        gain,
        trend_gain,
        damping,
        level: 0.0,
        trend: 0.0,
    });
    let seasonal = period.into_iter().flat_map(|period| {
        let phases = (period.round() as usize).clamp(1, MAX_PHASES);
        let profiles = SEASONAL_PROFILES.iter().map(move |&(gain, profile_gain)| {
            let profile = vec![PhaseMean::default(); phases];
            PointMethod::SeasonalProfile { gain, profile_gain, period, level: 0.0, profile }
        });
        profiles
            .chain(SEASONAL_CYCLES.iter().map(move |&cycles| PointMethod::SeasonalMean { cycles, period }))
    });
    levels.chain(trends).chain(seasonal).collect()
}

/// Samples of the past that the methods read.
pub fn history_needed(period: Option<f64>) -> usize {
    let cycles = SEASONAL_CYCLES.iter().max().map_or(0, |most| most + 1);
    period.map_or(1, |period| (period * cycles as f64).ceil() as usize + 1)
}

fn phase_of(time: usize, period: f64, phases: usize) -> usize {
    ((time as f64 / period).fract() * phases as f64) as usize % phases
}

impl PointMethod {
    /// Takes the sample at a time (its number from 0).
    pub fn update(&mut self, time: usize, value: f64) {
        let start = 1.0 / (time as f64 + 1.0);
        match self {
            Self::Level { gain, level } => *level += gain.max(start) * (value - *level),
            Self::DampedTrend { gain, trend_gain, damping, level, trend } => {
                let expected = *level + *damping * *trend;
                let before = *level;
                *level = expected + gain.max(start) * (value - expected);
                if time > 0 {
                    *trend = *damping * *trend + *trend_gain * (*level - before - *damping * *trend);
                }
            }
            Self::SeasonalProfile { gain, profile_gain, period, level, profile } => {
                let phases = profile.len();
                let phase = &mut profile[phase_of(time, *period, phases)];
                *level += gain.max(start) * (value - phase.departure - *level);
                phase.samples += 1.0;
                let share = profile_gain.max(1.0 / (phase.samples + 1.0));
                phase.departure += share * (value - *level - phase.departure);
            }
            Self::SeasonalMean { .. } => {}
        }
    }

    /// Forecasts the next steps in turn; `history` ends with the sample at `time`.
    pub fn predict<'a>(&self, time: usize, history: &[f64], steps: impl Iterator<Item = &'a mut f64>) {
        match self {
            Self::Level { level, .. } => steps.for_each(|step| *step = *level),
            Self::DampedTrend { damping, level, trend, .. } => {
                let (mut factor, mut sum) = (1.0, 0.0);
                for step in steps {
                    factor *= damping;
                    sum += factor;
                    *step = level + sum * trend;
                }
            }
            Self::SeasonalProfile { period, level, profile, .. } => {
                for (ahead, step) in steps.enumerate() {
                    *step = level + profile[phase_of(time + 1 + ahead, *period, profile.len())].departure;
                }
            }
            Self::SeasonalMean { cycles, period } => {
                for (ahead, step) in steps.enumerate() {
                    *step = seasonal_mean(history, ahead + 1, *period, *cycles);
                }
            }
        }
    }
}

/// Mean of the values whole cycles before a step; of the last value where there is no cycle yet.
fn seasonal_mean(history: &[f64], ahead: usize, period: f64, cycles: usize) -> f64 {
    let last = history.len() - 1;
    let first_cycle = (ahead as f64 / period).ceil() as usize;
    let (mut mean, mut count) = (history[last], 0.0);
    for cycle in first_cycle..first_cycle + cycles {
        let back = (cycle as f64 * period).round() as usize;
        let Some(at) = (last + ahead).checked_sub(back).filter(|&at| at <= last) else { break };
        count += 1.0;
        mean += (history[at] - mean) / count;
    }
    mean
}
