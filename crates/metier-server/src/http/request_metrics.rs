//! Request counters for `/metrics`, in the Prometheus text format (version 0.0.4).
//!
//! Label sets are bounded: routes are those of the table and three words more, methods five,
//! statuses those of this server. No client input becomes a label.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use metier_prom::{ExpositionFormat, MetricKind, MetricsPage};
use metier_types::LockUnpoisoned;

/// The media type of the text format.
pub const TEXT_FORMAT: &str = ExpositionFormat::Text.media_type();

/// Upper bounds of the histogram's buckets, in seconds: from a cached response to the time limit.
const BUCKET_BOUNDS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0];

/// Requests answered since the start.
#[derive(Debug, Default)]
pub struct RequestMetrics {
    counts: Mutex<RequestCounts>,
}

#[derive(Debug, Default)]
struct RequestCounts {
    answered: BTreeMap<(&'static str, &'static str, u16), u64>,
    durations: BTreeMap<&'static str, DurationHistogram>,
}

#[derive(Debug, Default)]
struct DurationHistogram {
    buckets: [u64; BUCKET_BOUNDS.len()],
    count: u64,
    seconds: f64,
}

impl RequestMetrics {
    pub fn record(&self, route: &'static str, method: &'static str, status: u16, took: Duration) {
        let mut counts = self.counts.lock_unpoisoned();
        *counts.answered.entry((route, method, status)).or_default() += 1;
        let histogram = counts.durations.entry(route).or_default();
        let seconds = took.as_secs_f64();
        histogram.count += 1;
        histogram.seconds += seconds;
        if let Some(at) = BUCKET_BOUNDS.iter().position(|bound| seconds <= *bound) {
            histogram.buckets[at] += 1;
        }
    }

    /// Writes the counters.
    pub fn write(&self, page: &mut MetricsPage) {
        let counts = self.counts.lock_unpoisoned();
        let mut answered = page.begin_family(
            "metier_http_requests_total",
            MetricKind::Counter,
            "Requests answered, by route, method and status.",
        );
        for ((route, method, status), count) in &counts.answered {
            let status = status.to_string();
            answered.add_sample(&[("route", *route), ("method", *method), ("status", &status)], *count);
        }
        let mut durations = page.begin_family(
            "metier_http_request_duration_seconds",
            MetricKind::Histogram,
            "Time from a request's head to its response, by route.",
        );
        for (route, histogram) in &counts.durations {
            let below = BUCKET_BOUNDS.iter().zip(histogram.buckets).scan(0, |below, (bound, count)| {
                *below += count;
                Some((*bound, *below))
            });
            durations.add_histogram(&[("route", *route)], below, histogram.count, histogram.seconds);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_end_with_the_count() {
        let requests = RequestMetrics::default();
        for millis in [0, 1, 3, 80, 60_000] {
            requests.record("/api/v1/runs", "GET", 200, Duration::from_millis(millis));
        }
        let mut page = MetricsPage::new(ExpositionFormat::Text);
        requests.write(&mut page);
        let text = page.finish();
        for line in [
            r#"metier_http_requests_total{route="/api/v1/runs",method="GET",status="200"} 5"#,
            r#"metier_http_request_duration_seconds_bucket{route="/api/v1/runs",le="0.001"} 2"#,
            r#"metier_http_request_duration_seconds_bucket{route="/api/v1/runs",le="10"} 4"#,
            r#"metier_http_request_duration_seconds_bucket{route="/api/v1/runs",le="+Inf"} 5"#,
            r#"metier_http_request_duration_seconds_count{route="/api/v1/runs"} 5"#,
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in:\n{text}");
        }
    }
}
