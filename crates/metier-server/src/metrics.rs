//! What `/metrics` says, in the Prometheus text format (version 0.0.4).
//!
//! Label sets are bounded: routes are those of the table and three words more, methods three, statuses those that
//! this server gives. Nothing that a client chooses becomes a label.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The media type of the text format.
pub const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Upper bounds of the histogram's buckets, in seconds: from a cached answer to the time limit.
const BOUNDS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0];

/// Requests answered since the start.
#[derive(Debug, Default)]
pub struct Requests {
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    answered: BTreeMap<(&'static str, &'static str, u16), u64>,
    durations: BTreeMap<&'static str, Histogram>,
}

#[derive(Debug, Default)]
struct Histogram {
    buckets: [u64; BOUNDS.len()],
    count: u64,
    seconds: f64,
}

impl Requests {
    /// Counts one answer.
    pub fn note(&self, route: &'static str, method: &'static str, status: u16, took: Duration) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.answered.entry((route, method, status)).or_default() += 1;
        let histogram = counts.durations.entry(route).or_default();
        let seconds = took.as_secs_f64();
        histogram.count += 1;
        histogram.seconds += seconds;
        if let Some(at) = BOUNDS.iter().position(|bound| seconds <= *bound) {
            histogram.buckets[at] += 1;
        }
    }

    /// Writes what was counted.
    pub fn write(&self, into: &mut Exposition) {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        into.family(
            "metier_http_requests_total",
            "counter",
            "Requests answered, by route, method and status.",
        );
        for ((route, method, status), count) in &counts.answered {
            let status = status.to_string();
            let labels = [("route", *route), ("method", *method), ("status", status.as_str())];
            into.sample("metier_http_requests_total", &labels, count);
        }
        const DURATION: &str = "metier_http_request_duration_seconds";
        into.family(DURATION, "histogram", "Time from a request's head to its response, by route.");
        for (route, histogram) in &counts.durations {
            let mut below = 0;
            for (bound, count) in BOUNDS.iter().zip(histogram.buckets) {
                below += count;
                let bound = bound.to_string();
                into.sample(&format!("{DURATION}_bucket"), &[("route", route), ("le", &bound)], below);
            }
            into.sample(&format!("{DURATION}_bucket"), &[("route", route), ("le", "+Inf")], histogram.count);
            into.sample(&format!("{DURATION}_sum"), &[("route", route)], histogram.seconds);
            into.sample(&format!("{DURATION}_count"), &[("route", route)], histogram.count);
        }
    }
}

/// A text in the Prometheus format that is being written.
#[derive(Debug, Default)]
pub struct Exposition(String);

impl Exposition {
    /// Begins a family; its samples follow.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing to a String does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// One sample.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            self.0.push(if at == 0 { '{' } else { ',' });
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{label}=\"{text}\"");
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    /// A family of one sample without labels.
    pub fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// The text.
    pub fn into_text(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_end_with_the_count() {
        let requests = Requests::default();
        for millis in [0, 1, 3, 80, 60_000] {
            requests.note("/api/v1/runs", "GET", 200, Duration::from_millis(millis));
        }
        let mut text = Exposition::default();
        requests.write(&mut text);
        let text = text.into_text();
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

    #[test]
    fn label_values_are_escaped() {
        let mut text = Exposition::default();
        text.sample("x", &[("a", "q\"\\\n")], 1);
        assert_eq!(text.into_text(), "x{a=\"q\\\"\\\\\\n\"} 1\n");
    }
}
