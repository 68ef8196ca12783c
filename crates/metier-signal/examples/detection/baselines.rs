//! Known methods, written again from their publications, for comparison.

use std::f64::consts::TAU;

use metier_types::random::SplitMix64;

/// A method: a series in, a period in samples out, if it sees one.
pub type PeriodMethod = fn(&[f64]) -> Option<f64>;

pub const METHODS: [(&str, PeriodMethod); 4] = [
    ("Alnair", alnair),
    ("Fisher's g, 5 %", fisher),
    ("highest peak of the autocorrelation", highest_peak),
    ("AUTOPERIOD", autoperiod),
];

/// The method of the Alnair profiler: lags whose Pearson correlation is above mean + 1.96 deviations.
fn alnair(values: &[f64]) -> Option<f64> {
    if values.iter().fold(f64::NEG_INFINITY, |most, value| most.max(*value)) == 0.0 {
        return None;
    }
    let count = values.len();
    let correlations: Vec<f64> =
        (0..count / 2).map(|lag| pearson(&values[lag..], &values[..count - lag])).collect();
    let mean = correlations.iter().sum::<f64>() / correlations.len() as f64;
    let variance = correlations.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / correlations.len() as f64;
    let critical = mean + 1.95996 * variance.sqrt();
    let peaks: Vec<usize> = (0..correlations.len()).filter(|lag| correlations[*lag] > critical).collect();
    if peaks.len() <= 2 {
        return None;
    }
    let mut gaps: Vec<usize> = peaks.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    let middle = gaps.len() / 2;
    Some(if gaps.len() % 2 == 1 {
        gaps[middle] as f64
    } else {
        (gaps[middle - 1] + gaps[middle]) as f64 / 2.0
    })
}

fn pearson(left: &[f64], right: &[f64]) -> f64 {
    let count = left.len() as f64;
    let (x, y) = (left.iter().sum::<f64>() / count, right.iter().sum::<f64>() / count);
    let (mut product, mut xs, mut ys) = (0.0, 0.0, 0.0);
    for (l, r) in left.iter().zip(right) {
        product += (l - x) * (r - y);
        xs += (l - x).powi(2);
        ys += (r - y).powi(2);
    }
    product / (xs * ys).sqrt()
}

/// The periodogram at whole numbers of cycles; index 0 is one cycle.
fn periodogram(flat: &[f64]) -> Vec<f64> {
    let count = flat.len();
    (1..=count / 2)
        .map(|cycles| {
            let factor = 2.0 * (TAU * cycles as f64 / count as f64).cos();
            let (mut last, mut before) = (0.0, 0.0);
            for value in flat {
                let next = value + factor * last - before;
                before = last;
                last = next;
            }
            last * last + before * before - factor * last * before
        })
        .collect()
}

/// Fisher's exact test of the largest ordinate (1929), at 5 %.
fn fisher(values: &[f64]) -> Option<f64> {
    let flat = metier_signal::line::without_trend(values);
    let powers = periodogram(&flat);
    let total: f64 = powers.iter().sum();
    let top = (0..powers.len()).max_by(|left, right| powers[*left].total_cmp(&powers[*right]))?;
    if total <= 0.0 || top < 1 {
        return None;
    }
    let share = powers[top] / total;
    let p_value = powers.len() as f64 * (1.0 - share).powi(powers.len() as i32 - 1);
    (p_value < 0.05).then(|| values.len() as f64 / (top + 1) as f64)
}

fn autocorrelation(flat: &[f64]) -> Vec<f64> {
    let count = flat.len();
    let square: f64 = flat.iter().map(|value| value * value).sum();
    (0..count / 2 + 2)
        .map(|lag| {
            let product: f64 = flat[..count - lag].iter().zip(&flat[lag..]).map(|(x, y)| x * y).sum();
            product / square * count as f64 / (count - lag) as f64
        })
        .collect()
}

/// The highest local peak above the bound of white noise.
fn highest_peak(values: &[f64]) -> Option<f64> {
    let flat = metier_signal::line::without_trend(values);
    let r = autocorrelation(&flat);
    let bound = 1.96 / (values.len() as f64).sqrt();
    (2..r.len() - 1)
        .filter(|lag| r[*lag] > r[lag - 1] && r[*lag] >= r[lag + 1] && r[*lag] > bound)
        .max_by(|left, right| r[*left].total_cmp(&r[*right]))
        .map(|lag| lag as f64)
}

/// AUTOPERIOD (Vlachos, Yu and Castelli 2005): hints above the 99th percentile of the largest powers
/// of 100 permutations, kept where the autocorrelation has a hill, moved to its top.
fn autoperiod(values: &[f64]) -> Option<f64> {
    let flat = metier_signal::line::without_trend(values);
    if flat.iter().all(|value| value.abs() < 1e-9) {
        return None;
    }
    let powers = periodogram(&flat);
    let mut random = SplitMix64::new(1);
    let mut shuffled = flat.clone();
    let mut largest: Vec<f64> = (0..100)
        .map(|_| {
            random.shuffle(&mut shuffled);
            periodogram(&shuffled).into_iter().fold(0.0, f64::max)
        })
        .collect();
    largest.sort_unstable_by(f64::total_cmp);
    let bound = largest[98];
    let r = autocorrelation(&flat);
    let count = values.len() as f64;
    let mut hints: Vec<usize> = (1..powers.len()).filter(|at| powers[*at] > bound).collect();
    hints.sort_by(|left, right| powers[*right].total_cmp(&powers[*left]));
    hints.into_iter().find_map(|at| {
        let cycles = (at + 1) as f64;
        let low = ((count / (cycles + 1.0) + count / cycles) / 2.0 - 1.0).floor().max(1.0) as usize;
        let high = ((count / cycles + count / (cycles - 1.0).max(0.5)) / 2.0 + 1.0).ceil() as usize;
        let high = high.min(r.len() - 2);
        if high <= low + 1 {
            return None;
        }
        let top = (low..=high).max_by(|left, right| r[*left].total_cmp(&r[*right]))?;
        let is_hill = top > low && top < high && r[top] > r[low] && r[top] > r[high] && r[top] > 0.0;
        is_hill.then_some(top as f64)
    })
}
