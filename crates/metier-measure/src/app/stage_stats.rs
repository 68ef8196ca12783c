//! Statistics of one stage: all that its record needs, and no messages.

use metier_types::{AppStage, ExtraFields, StageKind, StageSource};

use super::histogram::LogHistogram;
use super::message::{AppMessage, MessageNumber};

/// A scraped histogram: how many values fell at or below each bound, between the first scrape and
/// the last.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ScrapedBuckets {
    /// Upper bounds with the number of values at or below each, ascending.
    pub cumulative: Vec<(f64, u64)>,
}

impl ScrapedBuckets {
    /// The `q` quantile, interpolated within its bucket; in the open last bucket, its lower bound.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let total = self.cumulative.last().map(|(_, count)| *count).filter(|total| *total > 0)?;
        let rank = q.clamp(0.0, 1.0) * total as f64;
        let at = self.cumulative.iter().position(|(_, count)| *count as f64 >= rank)?;
        let (upper, count) = self.cumulative[at];
        let (lower, before) = match at {
            0 => (if upper > 0.0 { 0.0 } else { upper }, 0),
            at => self.cumulative[at - 1],
        };
        if !upper.is_finite() {
            return Some(lower);
        }
        let inside = count.saturating_sub(before).max(1) as f64;
        Some(lower + (upper - lower) * ((rank - before as f64) / inside).clamp(0.0, 1.0))
    }
}

/// Upper bounds in seconds; durations are counted exactly for each of them on arrival.
pub const DURATION_BOUNDS: [f64; 16] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Statistics of one stage.
#[derive(Debug, Clone, PartialEq)]
pub struct StageStats {
    pub name: String,
    /// Its labels as text.
    pub labels: String,
    /// The kind of its numbers.
    pub kind: StageKind,
    pub source: StageSource,
    /// Number of values, or the growth of a counter.
    pub count: f64,
    /// The sum of the values.
    pub sum: f64,
    pub last: f64,
    /// Distribution of the values; empty for counters.
    pub histogram: LogHistogram,
    /// Count of durations per bucket of [`DURATION_BOUNDS`]; those beyond the last bound are in
    /// none. `None` for other kinds.
    bounded: Option<Box<[u64; DURATION_BOUNDS.len()]>>,
    /// Buckets of a scraped histogram, which then give the quantiles.
    pub buckets: Option<ScrapedBuckets>,
    /// Count after the first message, for the rate.
    after_first: f64,
    /// Time of the first and the last message, in nanoseconds of the source's clock.
    moments: Option<(i64, i64)>,
    /// Last value of a counter.
    stood: Option<f64>,
}

impl StageStats {
    /// Empty statistics for the stage of this message.
    pub fn new(message: &AppMessage<'_>) -> Self {
        Self {
            name: message.name.to_string(),
            labels: message.labels.to_string(),
            kind: message.kind,
            source: message.source,
            count: 0.0,
            sum: 0.0,
            last: 0.0,
            histogram: LogHistogram::default(),
            bounded: (message.kind == StageKind::Duration).then(Box::default),
            buckets: None,
            after_first: 0.0,
            moments: None,
            stood: None,
        }
    }

    /// Adds a number of this stage.
    pub fn add_number(&mut self, number: MessageNumber, at_ns: Option<i64>) {
        let items = match number {
            MessageNumber::Observation(value) => {
                self.sum += value;
                self.last = value;
                self.histogram.add(value);
                let place = DURATION_BOUNDS.partition_point(|bound| *bound < value);
                if let Some(count) = self.bounded.as_mut().and_then(|counts| counts.get_mut(place)) {
                    *count += 1;
                }
                1.0
            }
            MessageNumber::Increment(items) => {
                self.last = items;
                items
            }
            MessageNumber::CounterValue(now) => {
                // A decreasing counter has restarted from zero.
                let grown = match self.stood {
                    Some(before) if now >= before => now - before,
                    Some(_) => now,
                    None => 0.0,
                };
                self.stood = Some(now);
                self.last = now;
                grown
            }
        };
        self.count += items;
        if let Some(at) = at_ns {
            match &mut self.moments {
                None => self.moments = Some((at, at)),
                Some((first, last)) => {
                    (*first, *last) = ((*first).min(at), (*last).max(at));
                    self.after_first += items;
                }
            }
        }
    }

    /// Adds a scraped histogram: growth of count and sum since the last scrape, growth of the
    /// buckets since the first.
    pub fn add_histogram(&mut self, grown: f64, sum: f64, buckets: ScrapedBuckets, at_ns: i64) {
        self.add_number(MessageNumber::Increment(grown), Some(at_ns));
        self.sum += sum;
        if grown > 0.0 {
            self.last = sum / grown;
        }
        self.buckets = Some(buckets);
    }

    /// Number of durations at or below each of [`DURATION_BOUNDS`]: exact and monotonic.
    pub fn cumulative_durations(&self) -> impl Iterator<Item = (f64, u64)> {
        let counts = self.bounded.as_deref().copied().unwrap_or_default();
        DURATION_BOUNDS.into_iter().zip(counts).scan(0, |sum, (bound, count)| {
            *sum += count;
            Some((bound, *sum))
        })
    }

    /// Items per second: the count after the first message over the time since then.
    pub fn rate(&self) -> Option<f64> {
        let (first, last) = self.moments?;
        let seconds = last.checked_sub(first)? as f64 * 1e-9;
        (seconds > 0.0).then(|| self.after_first / seconds)
    }

    /// The stage for a record; costs per item are added later.
    pub fn to_stage(&self) -> AppStage {
        let is_counter = self.kind == StageKind::Counter;
        let of_values = |value: Option<f64>| value.filter(|v| !is_counter && v.is_finite());
        let counted = self.count > 0.0;
        let quantile = |q| match &self.buckets {
            Some(buckets) => buckets.quantile(q),
            None => self.histogram.quantile(q),
        };
        AppStage {
            name: self.name.clone(),
            labels: self.labels.clone(),
            kind: self.kind,
            source: self.source,
            count: self.count.round() as u64,
            rate_per_second: self.rate(),
            sum: of_values(counted.then_some(self.sum)),
            mean: of_values(counted.then(|| self.sum / self.count)),
            min: of_values(self.histogram.smallest()),
            p50: of_values(quantile(0.50)),
            p95: of_values(quantile(0.95)),
            p99: of_values(quantile(0.99)),
            max: of_values(self.histogram.largest()),
            cpu_seconds_per_item: None,
            joules_per_item: None,
            extra: ExtraFields::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(kind: StageKind) -> StageStats {
        StageStats::new(&AppMessage {
            name: "x".into(),
            labels: "".into(),
            kind,
            source: StageSource::Lines,
            number: MessageNumber::Observation(0.0),
            at_ns: None,
        })
    }

    #[test]
    fn the_rate_is_what_came_after_the_first_over_the_time_since_in_any_order() {
        let mut frames = tally(StageKind::Duration);
        for at in [3, 1, 5, 2, 4] {
            frames.add_number(MessageNumber::Observation(0.5), Some(at * 1_000_000_000));
        }
        assert_eq!(frames.rate(), Some(1.0));
        assert_eq!((frames.count, frames.sum), (5.0, 2.5));
    }

    #[test]
    fn a_counter_counts_its_growth_also_over_a_restart() {
        let mut counter = tally(StageKind::Counter);
        for (at, value) in [(0, 100.0), (1, 110.0), (2, 5.0), (3, 8.0)] {
            counter.add_number(MessageNumber::CounterValue(value), Some(at * 1_000_000_000));
        }
        let stage = counter.to_stage();
        assert_eq!((stage.count, stage.rate_per_second), (18, Some(6.0)));
        assert_eq!((stage.p50, stage.mean), (None, None), "a counter has no sizes");
    }

    #[test]
    fn durations_at_a_bound_are_counted_there_whatever_comes_later() {
        let mut stage = tally(StageKind::Duration);
        (0..100).for_each(|_| stage.add_number(MessageNumber::Observation(0.01), None));
        let before: Vec<_> = stage.cumulative_durations().collect();
        assert_eq!(before[3..5], [(0.005, 0), (0.01, 100)]);
        [0.5, 0.010_000_1, 100.0]
            .into_iter()
            .for_each(|late| stage.add_number(MessageNumber::Observation(late), None));
        let after: Vec<_> = stage.cumulative_durations().collect();
        assert_eq!(after[3..6], [(0.005, 0), (0.01, 100), (0.025, 101)]);
        assert_eq!(after[15], (60.0, 102), "what took longer is only in the count of all");
        assert!(before.iter().zip(&after).all(|(before, after)| before.1 <= after.1));
    }

    #[test]
    fn quantiles_of_scraped_buckets_are_interpolated() {
        let buckets = ScrapedBuckets { cumulative: vec![(0.1, 50), (0.2, 100), (f64::INFINITY, 101)] };
        assert!((buckets.quantile(0.25).unwrap() - 0.0505).abs() < 1e-9);
        assert_eq!(buckets.quantile(1.0), Some(0.2), "the open bucket has no upper bound");
        assert_eq!(ScrapedBuckets::default().quantile(0.5), None);
    }
}
