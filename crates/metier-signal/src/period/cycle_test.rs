//! The test of single cycles: does every cycle have the shape of the others?
//!
//! The comb test alone takes a few bursts at lucky distances for a period, because their sum is
//! large. Here each cycle is projected on the mean of the *other* cycles. In noise these
//! projections scatter around 0; Student's t says how far their mean is from it. A burst makes one
//! projection large and so raises the scatter with the mean.

/// Phases into which a cycle is cut at most.
const MAX_PHASES: usize = 16;

/// Minus the logarithm of the density of Student's t at the mean projection, relative to 0.
pub fn score_cycles(flat: &[f64], period: f64, cycles: usize) -> f64 {
    let phases = (period.floor() as usize).clamp(2, MAX_PHASES);
    let table = centred_cycles(flat, period, cycles, phases);
    let mut total = vec![0.0; phases];
    for cycle in table.chunks(phases) {
        total.iter_mut().zip(cycle).for_each(|(sum, value)| *sum += value);
    }
    let projections: Vec<f64> = table
        .chunks(phases)
        .map(|cycle| {
            let (mut product, mut square) = (0.0, 0.0);
            for (value, sum) in cycle.iter().zip(&total) {
                let rest = sum - value;
                product += rest * value;
                square += rest * rest;
            }
            if square > 0.0 { product / square.sqrt() } else { 0.0 }
        })
        .collect();
    let count = projections.len() as f64;
    let mean = projections.iter().sum::<f64>() / count;
    if mean <= 0.0 {
        return 0.0;
    }
    let freedom = count - 1.0;
    let variance = projections.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / freedom;
    // A millionth of the mean: equal cycles have no scatter.
    let t_squared = mean * mean * count / (variance + 1e-6 * mean * mean);
    (freedom + 1.0) / 2.0 * (1.0 + t_squared / freedom).ln()
}

/// The mean of each phase of each cycle, with the mean of the cycle removed.
fn centred_cycles(flat: &[f64], period: f64, cycles: usize, phases: usize) -> Vec<f64> {
    let mut sums = vec![(0.0, 0.0); cycles * phases];
    for (at, value) in flat.iter().enumerate() {
        let turn = (at as f64 + 0.5) / period;
        let phase = ((turn.fract() * phases as f64) as usize).min(phases - 1);
        if let Some(cell) = sums.get_mut(turn as usize * phases + phase) {
            cell.0 += value;
            cell.1 += 1.0;
        }
    }
    let mut table: Vec<f64> =
        sums.iter().map(|(sum, count)| if *count > 0.0 { sum / count } else { 0.0 }).collect();
    for cycle in table.chunks_mut(phases) {
        let mean = cycle.iter().sum::<f64>() / phases as f64;
        cycle.iter_mut().for_each(|value| *value -= mean);
    }
    table
}
