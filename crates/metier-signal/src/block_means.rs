//! Averages over blocks that are long enough to be nearly independent.
//!
//! Tests of trend and level assume values whose order is exchangeable where nothing changes.
//! Samples of a machine are not: a high one follows a high one. Means over blocks of three times
//! the correlation time are nearly so. A random walk has a correlation time near its own length,
//! which leaves too few blocks for any finding: it has neither trend nor levels, however much it
//! looks like it.

/// Most blocks; more add time to the tests, not power.
const MAX_BLOCKS: usize = 200;
/// Block length relative to the correlation time.
const LENGTH_FACTOR: f64 = 3.0;

/// Means of consecutive blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockMeans {
    /// Samples of a block.
    pub length: usize,
    pub means: Vec<f64>,
}

impl BlockMeans {
    /// Averages values; `rest` is what they are without the structure under test, which would
    /// otherwise count as correlation. The last, unfinished block is left out.
    pub fn new(values: &[f64], rest: &[f64]) -> Self {
        let time = correlation_time(rest);
        let shortest = values.len().div_ceil(MAX_BLOCKS).max(1);
        let length = if time <= 1.0 { 1 } else { (LENGTH_FACTOR * time).ceil() as usize };
        let length = length.max(shortest).min(values.len().max(1));
        let means =
            values.chunks_exact(length).map(|some| some.iter().sum::<f64>() / length as f64).collect();
        Self { length, means }
    }
}

/// The integrated correlation time in samples: `1 + 2 Σ r(k)` up to the first negative `r` (the
/// initial positive sequence of Geyer 1992).
fn correlation_time(rest: &[f64]) -> f64 {
    let count = rest.len();
    let mean = rest.iter().sum::<f64>() / count.max(1) as f64;
    let flat: Vec<f64> = rest.iter().map(|value| value - mean).collect();
    let square: f64 = flat.iter().map(|value| value * value).sum();
    if square <= 0.0 {
        return 1.0;
    }
    let mut time = 1.0;
    for lag in 1..count / 2 {
        let product: f64 = flat[..count - lag].iter().zip(&flat[lag..]).map(|(x, y)| x * y).sum();
        if product <= 0.0 {
            break;
        }
        time += 2.0 * product / square;
    }
    time
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn independent_values_stay_single_and_slow_ones_are_joined() {
        let mut random = metier_types::random::SplitMix64::new(3);
        let white: Vec<f64> = (0..400).map(|_| random.next_fraction()).collect();
        assert!(BlockMeans::new(&white, &white).length <= 4);
        let mut state = 0.0;
        let red: Vec<f64> = (0..400)
            .map(|_| {
                state = 0.9 * state + random.next_fraction() - 0.5;
                state
            })
            .collect();
        // The correlation time of AR(1) is (1 + a) / (1 - a) = 19.
        let length = BlockMeans::new(&red, &red).length;
        assert!((20..=120).contains(&length), "{length}");
    }
}
