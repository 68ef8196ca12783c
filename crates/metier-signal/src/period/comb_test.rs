//! The test of one period: are its harmonics stronger than their surroundings?
//!
//! A series of `m` whole cycles has `m - 1` independent frequencies between two harmonics, where a
//! strictly periodic component has no power. For a harmonic of power `a` and `c` surrounding
//! frequencies of mean power `w`, noise of a locally even spectrum gives
//! `P(a / w > r) = (1 + r / c)^-c` (the F distribution with 2 and 2c degrees of freedom). So
//! `e = c ln(1 + a / (c w))` is exponential with mean 1 whatever the noise, its level or its
//! colour, and the sum over `k` harmonics has a Gamma distribution. The score is Chernoff's bound
//! of that distribution, the best over `k`: sharp pulses have many harmonics, sines one.
//!
//! Comparing with neighbours only is what keeps red noise from being taken for a period: its
//! spectrum is high near a slow harmonic, too. Thomson's F test (1982) does the same for one line.
//!
//! Sources: Fisher 1929 (the test of one line in white noise), Thomson 1982, Percival and Walden
//! 1993 section 10.

use crate::line::without_trend;
use crate::period::spectrum::powers_at;

/// Harmonics that are tested at most.
const MAX_HARMONICS: usize = 12;
/// Frequencies on each side of a harmonic.
const SIDE_FREQUENCIES: usize = 5;
/// Independent frequencies nearer than this are one.
const SAME_FREQUENCY: f64 = 0.6;
/// Below this period, harmonics beyond half a cycle a sample are strong and fold back.
const FOLDING_PERIOD: f64 = 8.0;
/// Share of a cycle that may be missing at the end.
const MISSING_SHARE: f64 = 0.1;

/// Fewest whole cycles for a test.
pub const MIN_CYCLES: usize = 3;

/// The number of whole cycles in a series.
pub fn whole_cycles(samples: usize, period: f64) -> usize {
    (samples as f64 / period + MISSING_SHARE).floor() as usize
}

/// Minus the logarithm of a bound of the probability that noise has harmonics this strong.
pub fn score_comb(values: &[f64], period: f64) -> f64 {
    let cycles = whole_cycles(values.len(), period);
    if period < 2.0 || cycles < MIN_CYCLES {
        return 0.0;
    }
    let span = cycles as f64 * period;
    let length = (span.round() as usize).min(values.len());
    let from = (values.len() - length) / 2;
    let flat = without_trend(&values[from..from + length]);
    let comb = CombFrequencies::new(period, cycles);
    let powers = powers_at(&flat, &comb.frequencies);
    let (mut evidence, mut best) = (0.0, 0.0_f64);
    for (index, &(at, around)) in comb.harmonics.iter().enumerate() {
        let sum: f64 = powers[at + 1..=at + around].iter().sum();
        let count = around as f64;
        // A millionth of a millionth: the bound of what rounding leaves of an exact period.
        let level = sum / count + 1e-12 * powers[at];
        if level > 0.0 {
            evidence += count * (1.0 + powers[at] / level / count).ln();
        }
        best = best.max(chernoff_bound(evidence, (index + 1) as f64));
    }
    best
}

/// `-ln` of Chernoff's bound of the upper tail of a Gamma distribution of that shape.
fn chernoff_bound(evidence: f64, shape: f64) -> f64 {
    if evidence <= shape { 0.0 } else { evidence - shape - shape * (evidence / shape).ln() }
}

/// The frequencies that a test compares.
struct CombFrequencies {
    /// Cycles a sample: each harmonic, followed by those around it.
    frequencies: Vec<f64>,
    /// Place of each harmonic in `frequencies`, and how many follow around it.
    harmonics: Vec<(usize, usize)>,
}

impl CombFrequencies {
    fn new(period: f64, cycles: usize) -> Self {
        let span = cycles as f64 * period;
        let folds = period < FOLDING_PERIOD;
        let most = if folds { period - 0.5 } else { period / 2.0 }.floor().max(1.0) as usize;
        let offsets = side_offsets(cycles);
        let (mut frequencies, mut harmonics) = (Vec::<f64>::new(), Vec::<(usize, usize)>::new());
        for order in 1..=most.min(MAX_HARMONICS) {
            let turn = (order as f64 / period).fract();
            let harmonic = turn.min(1.0 - turn);
            let is_repeated =
                harmonics.iter().any(|&(at, _)| (frequencies[at] - harmonic).abs() * span < SAME_FREQUENCY);
            if harmonic * span < SAME_FREQUENCY || is_repeated {
                break;
            }
            let at = frequencies.len();
            frequencies.push(harmonic);
            for offset in &offsets {
                for frequency in [harmonic - offset / span, harmonic + offset / span] {
                    let mirror = period - frequency * period;
                    let is_folded =
                        folds && (mirror - mirror.round()).abs() * (cycles as f64) < SAME_FREQUENCY;
                    if frequency * span >= 0.5 && frequency <= 0.5 && !is_folded {
                        frequencies.push(frequency);
                    }
                }
            }
            let around = frequencies.len() - at - 1;
            if around == 0 {
                frequencies.truncate(at);
                break;
            }
            harmonics.push((at, around));
        }
        Self { frequencies, harmonics }
    }
}

/// Distances from a harmonic, in independent frequencies: the nearest ones that are no harmonics
/// with few cycles, else evenly spread between two harmonics.
fn side_offsets(cycles: usize) -> Vec<f64> {
    if cycles <= SIDE_FREQUENCIES + 1 {
        return (1..)
            .filter(|offset| offset % cycles != 0)
            .take(SIDE_FREQUENCIES)
            .map(|o| o as f64)
            .collect();
    }
    let step = cycles as f64 / SIDE_FREQUENCIES as f64;
    let mut offsets: Vec<f64> = (0..SIDE_FREQUENCIES)
        .map(|index| ((index as f64 + 0.5) * step).round().clamp(1.0, cycles as f64 - 1.0))
        .collect();
    offsets.dedup();
    offsets
}
