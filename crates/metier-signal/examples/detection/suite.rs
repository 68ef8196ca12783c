//! Made-up series with and without a period.

use metier_types::random::SplitMix64;

/// Standard deviations of the noise; the amplitude is 50 to 60.
pub const NOISE_LEVELS: [f64; 4] = [0.0, 5.0, 15.0, 30.0];

/// The cycles of the suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CycleShape {
    Sine,
    Square,
    /// A training step: a plateau, a dip, and a pause.
    Plateau,
    /// A pulse of a tenth of the cycle, at least one sample.
    Spike,
    Saw,
}

pub const SHAPES: [CycleShape; 5] =
    [CycleShape::Sine, CycleShape::Square, CycleShape::Plateau, CycleShape::Spike, CycleShape::Saw];

impl CycleShape {
    fn at(self, phase: f64, cycle: f64) -> f64 {
        match self {
            Self::Sine => 0.5 + 0.5 * (std::f64::consts::TAU * phase).sin(),
            Self::Square => f64::from(u8::from(phase < 0.5)),
            Self::Plateau if phase < 0.7 => 1.0,
            Self::Plateau if phase < 0.8 => 0.4,
            Self::Plateau => 0.0,
            Self::Spike => f64::from(u8::from(phase < (1.0 / cycle).max(0.1))),
            Self::Saw => phase,
        }
    }
}

/// What disturbs a period besides noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disturbance {
    None,
    /// A rise by 50 over the series.
    Trend,
    /// Each cycle's length varies by 5 % (standard deviation).
    Jitter,
}

pub const DISTURBANCES: [Disturbance; 3] = [Disturbance::None, Disturbance::Trend, Disturbance::Jitter];

/// Integer and fractional periods for a length: from 5 samples to a third of the series.
pub fn periods(samples: usize) -> [f64; 7] {
    if samples < 300 {
        [5.0, 7.5, 10.0, 13.3, 20.0, 28.6, 40.0]
    } else {
        let end = samples as f64 / 3.0;
        [5.0, 12.0, 20.5, 40.0, 75.3, 0.6 * end, end]
    }
}

pub fn periodic_series(
    random: &mut SplitMix64,
    samples: usize,
    shape: CycleShape,
    period: f64,
    noise: f64,
    disturbance: Disturbance,
) -> Vec<f64> {
    let amplitude = 50.0 + 10.0 * random.next_fraction();
    let mut phase = random.next_fraction();
    let mut cycle = period;
    (0..samples)
        .map(|at| {
            let drift =
                if disturbance == Disturbance::Trend { 50.0 * at as f64 / samples as f64 } else { 0.0 };
            let value = 20.0 + amplitude * shape.at(phase, cycle) + drift + noise * normal(random);
            phase += 1.0 / cycle;
            if phase >= 1.0 {
                phase -= 1.0;
                if disturbance == Disturbance::Jitter {
                    cycle = (period * (1.0 + 0.05 * normal(random))).max(2.0);
                }
            }
            value
        })
        .collect()
}

/// Series without a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aperiodic {
    Constant,
    Zero,
    White,
    /// AR(1) with a coefficient of 0.9.
    Red,
    RandomWalk,
    Ramp,
    Step,
    Bursts,
    NearlyFlat,
}

pub const APERIODIC: [Aperiodic; 9] = [
    Aperiodic::Constant,
    Aperiodic::Zero,
    Aperiodic::White,
    Aperiodic::Red,
    Aperiodic::RandomWalk,
    Aperiodic::Ramp,
    Aperiodic::Step,
    Aperiodic::Bursts,
    Aperiodic::NearlyFlat,
];

pub fn aperiodic_series(random: &mut SplitMix64, samples: usize, kind: Aperiodic) -> Vec<f64> {
    let count = samples as f64;
    match kind {
        Aperiodic::Constant => vec![42.0; samples],
        Aperiodic::Zero => vec![0.0; samples],
        Aperiodic::White => (0..samples).map(|_| 50.0 + 15.0 * normal(random)).collect(),
        Aperiodic::Red => {
            let mut state = 0.0;
            let mut next = || {
                state = 0.9 * state + normal(random);
                50.0 + 10.0 * state
            };
            (0..100).for_each(|_| {
                next();
            });
            (0..samples).map(|_| next()).collect()
        }
        Aperiodic::RandomWalk => {
            let mut level = 50.0;
            (0..samples)
                .map(|_| {
                    level += 3.0 * normal(random);
                    level
                })
                .collect()
        }
        Aperiodic::Ramp => {
            let (rise, noise) = (50.0 + 50.0 * random.next_fraction(), 5.0 * random.next_fraction());
            (0..samples).map(|at| 20.0 + rise * at as f64 / count + noise * normal(random)).collect()
        }
        Aperiodic::Step => {
            let (edge, noise) = (count * (0.2 + 0.6 * random.next_fraction()), 5.0 * random.next_fraction());
            (0..samples)
                .map(|at| 20.0 + if at as f64 >= edge { 50.0 } else { 0.0 } + noise * normal(random))
                .collect()
        }
        Aperiodic::Bursts => {
            let noise = 3.0 * random.next_fraction();
            let mut values: Vec<f64> = (0..samples).map(|_| 10.0 + noise * normal(random)).collect();
            for _ in 0..2 + random.next_below(samples / 12) {
                let (from, length) = (random.next_below(samples), 1 + random.next_below(samples / 20));
                let height = 30.0 + 40.0 * random.next_fraction();
                values.iter_mut().skip(from).take(length).for_each(|value| *value += height);
            }
            values
        }
        Aperiodic::NearlyFlat => (0..samples).map(|_| 50.0 + 0.01 * normal(random)).collect(),
    }
}

/// A standard normal number (Box and Muller 1958).
pub fn normal(random: &mut SplitMix64) -> f64 {
    let radius = (-2.0 * (1.0 - random.next_fraction()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.next_fraction()).cos()
}
