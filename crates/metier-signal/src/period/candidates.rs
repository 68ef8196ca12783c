//! Periods that are worth a test: combs of the spectrum, and peaks of the autocorrelation.
//!
//! The spectrum finds short periods with many cycles, also at fractions of a sample; the
//! autocorrelation finds long ones with few (the two halves of AUTOPERIOD, Vlachos, Yu and Castelli
//! 2005). Both only propose: the tests decide.

use crate::period::comb_test::MIN_CYCLES;
use crate::period::spectrum::FineSpectrum;

/// Proposals of the spectrum.
const MAX_COMBS: usize = 5;
/// Proposals of the autocorrelation.
const MAX_PEAKS: usize = 5;
/// Harmonics of a comb at most.
const MAX_TEETH: usize = 12;
/// Harmonics that a refinement adds up at most.
const MAX_REFINED: usize = 6;
/// Shape of the logarithm that keeps one line from deciding alone.
const SATURATION: f64 = 6.0;
/// Fewest cycles of a proposal; a little below [`MIN_CYCLES`] for unfinished last cycles.
const LEAST_CYCLES: f64 = MIN_CYCLES as f64 - 0.15;

/// Proposed periods in samples.
pub fn propose_periods(flat: &[f64], spectrum: &FineSpectrum) -> Vec<f64> {
    let samples = flat.len() as f64;
    let mut periods: Vec<f64> = propose_combs(spectrum);
    let mut peaks = autocorrelation_peaks(flat);
    // The highest peak can be a multiple of the period.
    let top = peaks.first().copied().unwrap_or_default();
    peaks.extend([top / 2.0, top / 3.0].into_iter().filter(|period| *period >= 2.0));
    for period in peaks {
        if periods.iter().all(|near| (1.0 / near - 1.0 / period).abs() * samples > 0.35) {
            periods.push(period);
        }
    }
    periods.retain(|period| samples / period >= LEAST_CYCLES);
    periods
}

/// Moves a period to where its harmonics are strongest, at most half an independent frequency.
pub fn refine_period(spectrum: &FineSpectrum, period: f64) -> f64 {
    let harmonics = ((period / 2.0) as usize).clamp(1, MAX_REFINED);
    let power = |frequency: f64| -> f64 {
        (1..=harmonics).map(|order| spectrum.power_at(frequency * order as f64)).sum()
    };
    let mut best = (power(1.0 / period), 1.0 / period);
    for step in -8..=8 {
        let frequency = 1.0 / period + f64::from(step) * 0.05 / spectrum.samples as f64;
        let strength = power(frequency);
        if strength > best.0 {
            best = (strength, frequency);
        }
    }
    1.0 / best.1
}

fn propose_combs(spectrum: &FineSpectrum) -> Vec<f64> {
    let (half, density) = (spectrum.size / 2, spectrum.density());
    let lines = line_evidence(spectrum);
    let first = (2.7 * density) as usize;
    let scores: Vec<f64> = (0..=half)
        .map(|at| if at < first.max(1) { 0.0 } else { score_teeth(&lines, at, spectrum.size) })
        .collect();
    let mut peaks: Vec<usize> = (first + 1..half)
        .filter(|at| scores[*at] >= scores[at - 1] && scores[*at] > scores[at + 1])
        .collect();
    peaks.sort_by(|left, right| scores[*right].total_cmp(&scores[*left]));
    let mut chosen: Vec<usize> = Vec::new();
    for at in peaks {
        if chosen.iter().all(|near| near.abs_diff(at) as f64 > 0.8 * density) {
            chosen.push(at);
        }
        if chosen.len() == MAX_COMBS {
            break;
        }
    }
    chosen.into_iter().map(|at| spectrum.size as f64 / at as f64).collect()
}

/// How strongly the teeth of a comb stand out; the best number of teeth counts.
fn score_teeth(lines: &[f64], first: usize, size: usize) -> f64 {
    let half = size / 2;
    let folds = (half as f64) < 4.0 * first as f64;
    let (mut evidence, mut best) = (0.0, 0.0_f64);
    for order in 1..=MAX_TEETH {
        let place = order * first;
        if place > half && !folds {
            break;
        }
        let place = place % size;
        evidence += lines[place.min(size - place)];
        let surplus = evidence - order as f64;
        if surplus > 0.0 {
            // Bernstein's form of the bound that the comb test uses; it needs no logarithm.
            best = best.max(surplus * surplus / (2.0 * (order as f64 + surplus)));
        }
    }
    best
}

/// Power relative to a background that is a line in logarithms, with saturation.
fn line_evidence(spectrum: &FineSpectrum) -> Vec<f64> {
    let half = spectrum.size / 2;
    let density = spectrum.density();
    // ln 2 is the median of the exponential distribution that noise has.
    let (mut points, mut from) = (Vec::new(), density);
    while from < half as f64 {
        let to = (from * 1.5).max(from + 3.0 * density).min(half as f64);
        let mut band = spectrum.powers[from as usize..=to as usize].to_vec();
        let middle = band.len() / 2;
        let median = *band.select_nth_unstable_by(middle, f64::total_cmp).1;
        points.push((((from + to) / 2.0).ln(), (median / std::f64::consts::LN_2).max(1e-300).ln()));
        from = to;
    }
    let count = points.len().max(1) as f64;
    let x_mean = points.iter().map(|point| point.0).sum::<f64>() / count;
    let y_mean = points.iter().map(|point| point.1).sum::<f64>() / count;
    let product: f64 = points.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
    let square: f64 = points.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
    let slope = if square > 0.0 { (product / square).clamp(-3.0, 1.0) } else { 0.0 };
    let mut lines: Vec<f64> = spectrum
        .powers
        .iter()
        .enumerate()
        .map(|(at, power)| {
            let background = (y_mean + slope * ((at.max(1) as f64).ln() - x_mean)).exp();
            SATURATION * (1.0 + power / background / SATURATION).ln()
        })
        .collect();
    lines[0] = 0.0;
    lines
}

/// Local peaks of the autocorrelation, highest first, refined by a parabola.
fn autocorrelation_peaks(flat: &[f64]) -> Vec<f64> {
    let correlations = autocorrelation(flat, (flat.len() as f64 / LEAST_CYCLES) as usize + 2);
    let mut peaks: Vec<(f64, f64)> = correlations
        .windows(3)
        .enumerate()
        .skip(1)
        .filter(|(_, around)| around[1] >= around[0] && around[1] > around[2])
        .map(|(before, around)| {
            let bend = around[0] - 2.0 * around[1] + around[2];
            let shift = if bend < 0.0 { 0.5 * (around[0] - around[2]) / bend } else { 0.0 };
            (around[1], (before + 1) as f64 + shift)
        })
        .collect();
    peaks.sort_by(|left, right| right.0.total_cmp(&left.0));
    peaks.into_iter().take(MAX_PEAKS).map(|peak| peak.1).collect()
}

/// Correlation of the series with itself, lag by lag; each part has its own variance.
fn autocorrelation(flat: &[f64], lags: usize) -> Vec<f64> {
    let count = flat.len();
    let mut squares = vec![0.0; count + 1];
    for (at, value) in flat.iter().enumerate() {
        squares[at + 1] = squares[at] + value * value;
    }
    (0..lags.min(count.saturating_sub(1)))
        .map(|lag| {
            let product: f64 = flat[..count - lag].iter().zip(&flat[lag..]).map(|(x, y)| x * y).sum();
            let norm = (squares[count - lag] * (squares[count] - squares[lag])).sqrt();
            if norm > 0.0 { product / norm } else { 0.0 }
        })
        .collect()
}
