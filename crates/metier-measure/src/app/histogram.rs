//! A histogram in bounded memory whose quantiles are within one per cent of the true ones.
//!
//! Bucket `i` holds values in (γⁱ⁻¹, γⁱ] with γ = (1 + α) / (1 − α); its middle is then within α of
//! every value in it (DDSketch, Masson et al. 2019). α is slightly below one per cent, so that
//! rounding in the logarithm cannot exceed the bound. Only the span between the smallest and the
//! largest used bucket is stored. Magnitudes below [`MIN_MAGNITUDE`] count as zero; those above
//! [`MAX_MAGNITUDE`] fall into the last bucket.

/// Maximum relative error of a quantile.
pub const RELATIVE_ERROR: f64 = 0.01;
const BUCKET_ERROR: f64 = 0.0098;
/// Smaller magnitudes count as zero.
pub const MIN_MAGNITUDE: f64 = 1e-12;
/// Upper end of the last bucket; the smallest and the largest value are stored exactly besides.
pub const MAX_MAGNITUDE: f64 = 1e18;

/// Counts of values on one side of zero, by bucket.
#[derive(Debug, Clone, Default, PartialEq)]
struct HistogramSide {
    /// Index of the first bucket in `counts`.
    first: i32,
    counts: Vec<u64>,
}

impl HistogramSide {
    fn add(&mut self, magnitude: f64, times: u64) {
        let index = bucket_index(magnitude);
        if self.counts.is_empty() {
            self.first = index;
        }
        if index < self.first {
            let more = (self.first - index) as usize;
            self.counts.splice(0..0, std::iter::repeat_n(0, more));
            self.first = index;
        }
        let at = (index - self.first) as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += times;
    }

    /// Buckets as (middle, count), from the smallest magnitude on.
    fn buckets(&self) -> impl DoubleEndedIterator<Item = (f64, u64)> {
        self.counts.iter().enumerate().map(|(at, count)| (bucket_middle(self.first + at as i32), *count))
    }
}

fn log_gamma() -> f64 {
    ((1.0 + BUCKET_ERROR) / (1.0 - BUCKET_ERROR)).ln()
}

fn bucket_index(magnitude: f64) -> i32 {
    (magnitude.min(MAX_MAGNITUDE).ln() / log_gamma()).ceil() as i32
}

fn bucket_middle(index: i32) -> f64 {
    let gamma = (1.0 + BUCKET_ERROR) / (1.0 - BUCKET_ERROR);
    2.0 * (f64::from(index) * log_gamma()).exp() / (1.0 + gamma)
}

/// Histogram of values of both signs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogHistogram {
    negative: HistogramSide,
    zeros: u64,
    positive: HistogramSide,
    count: u64,
    smallest: f64,
    largest: f64,
}

impl LogHistogram {
    /// Counts a value; values that are not finite are ignored.
    pub fn add(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        if self.count == 0 {
            (self.smallest, self.largest) = (value, value);
        }
        self.smallest = self.smallest.min(value);
        self.largest = self.largest.max(value);
        self.count += 1;
        match value {
            v if v.abs() < MIN_MAGNITUDE => self.zeros += 1,
            v if v > 0.0 => self.positive.add(v, 1),
            v => self.negative.add(-v, 1),
        }
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The smallest value, exactly.
    pub fn smallest(&self) -> Option<f64> {
        (self.count > 0).then_some(self.smallest)
    }

    /// The largest value, exactly.
    pub fn largest(&self) -> Option<f64> {
        (self.count > 0).then_some(self.largest)
    }

    /// The nearest-rank `q` quantile, within [`RELATIVE_ERROR`].
    pub fn quantile(&self, q: f64) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        let rank = ((q.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).clamp(1, self.count);
        // The two extremes are exact.
        match rank {
            1 => return Some(self.smallest),
            rank if rank == self.count => return Some(self.largest),
            _ => {}
        }
        let mut seen = 0;
        let found = self.ascending_buckets().find(|(_, count)| {
            seen += count;
            seen >= rank
        });
        found.map(|(value, _)| value.clamp(self.smallest, self.largest))
    }

    /// Memory of the buckets in bytes.
    pub fn memory_bytes(&self) -> usize {
        (self.negative.counts.capacity() + self.positive.counts.capacity()) * size_of::<u64>()
    }

    fn ascending_buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let below = self.negative.buckets().rev().map(|(value, count)| (-value, count));
        below.chain(std::iter::once((0.0, self.zeros))).chain(self.positive.buckets())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn exact(values: &mut [f64], q: f64) -> f64 {
        values.sort_by(f64::total_cmp);
        let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
        values[rank - 1]
    }

    proptest! {
        #[test]
        fn quantiles_are_within_one_per_cent_of_the_exact_ones(
            mut values in prop::collection::vec(
                prop_oneof![1e-9..1e9f64, -1e6..1e6f64, 1e-3..2e-3f64, Just(0.0)], 1..400),
            q in 0.0..=1.0f64,
        ) {
            let mut histogram = LogHistogram::default();
            values.iter().for_each(|value| histogram.add(*value));
            for q in [q, 0.5, 0.95, 0.99] {
                let (want, got) = (exact(&mut values, q), histogram.quantile(q).unwrap());
                prop_assert!((got - want).abs() <= RELATIVE_ERROR * want.abs() + MIN_MAGNITUDE, "{want} {got}");
            }
            prop_assert_eq!(histogram.quantile(1.0), histogram.largest());
        }

        #[test]
        fn memory_is_bounded_whatever_comes(values in prop::collection::vec(any::<f64>(), 0..2000)) {
            let mut histogram = LogHistogram::default();
            values.iter().for_each(|value| histogram.add(*value));
            prop_assert!(histogram.memory_bytes() <= 2 * 2 * 3600 * 8, "{}", histogram.memory_bytes());
            prop_assert_eq!(histogram.count(), values.iter().filter(|v| v.is_finite()).count() as u64);
        }
    }
}
