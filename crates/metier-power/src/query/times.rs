//! Time ranges: given directly, or read from a benchmark's file.

use metier_types::UtcTimestamp;
use serde_json::{Value, json};

use crate::Error;

/// A time range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeSpan {
    pub start: UtcTimestamp,
    pub end: UtcTimestamp,
}

/// Content of a benchmark's file: its time range, and the pods of each scenario.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BenchmarkTimes {
    /// The time range.
    pub span: Option<TimeSpan>,
    /// Pods with their scenario, if the file is of the CPE operator.
    pub pods: Vec<(String, String)>,
}

impl TimeSpan {
    pub fn to_json(self) -> Value {
        let text = |at: UtcTimestamp| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        json!({ "startTimeUTC": text(self.start), "endTimeUTC": text(self.end) })
    }
}

/// Parses a time such as `2026-11-17T15:40:00Z`.
pub fn time(field: &'static str, text: &str) -> Result<UtcTimestamp, Error> {
    text.trim().parse().map_err(|_| Error::Word {
        field,
        got: crate::kepler_terms::shorten(text),
        want: "a time in UTC as 2026-11-17T15:40:00Z".to_string(),
    })
}

impl BenchmarkTimes {
    /// Reads a file with `startTimeUTC` and `endTimeUTC`, or one of the CPE operator
    /// (`status.results[].scenarioID`, `.repetitions[].pod`, `.pushedTime`).
    pub fn read(text: &[u8]) -> Result<Self, Error> {
        let file: Value =
            serde_json::from_slice(text).map_err(|error| Error::table(format!("benchmark: {error}")))?;
        if let Some(results) = file["status"]["results"].as_array() {
            return Ok(Self { span: cpe_span(&file, results), pods: pods(results) });
        }
        let of = |field: &'static str| match file[field].as_str() {
            Some(text) => time(field, text),
            None => Err(Error::Word {
                field,
                got: crate::kepler_terms::shorten(&file[field].to_string()),
                want: "a time in UTC as 2026-11-17T15:40:00Z".to_string(),
            }),
        };
        Ok(Self {
            span: Some(TimeSpan { start: of("startTimeUTC")?, end: of("endTimeUTC")? }),
            pods: Vec::new(),
        })
    }
}

fn pods(results: &[Value]) -> Vec<(String, String)> {
    let mut pods = Vec::new();
    for result in results {
        let scenario = result["scenarioID"].as_str().unwrap_or_default();
        for repetition in result["repetitions"].as_array().into_iter().flatten() {
            if let Some(pod) = repetition["pod"].as_str() {
                pods.push((pod.to_string(), scenario.to_string()));
            }
        }
    }
    pods
}

/// From the creation of the benchmark to its last pushed result.
fn cpe_span(file: &Value, results: &[Value]) -> Option<TimeSpan> {
    let start = file["metadata"]["creationTimestamp"].as_str()?.parse().ok()?;
    let pushed = |result: &Value| {
        let all = result["repetitions"].as_array()?.iter();
        all.filter_map(|value| value["pushedTime"].as_str()?.parse::<UtcTimestamp>().ok()).max()
    };
    let end = results.iter().filter_map(pushed).max()?;
    Some(TimeSpan { start, end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_benchmark_survives_the_way_there_and_back() {
        let text = br#"{"startTimeUTC": "2024-07-25T20:05:43Z", "endTimeUTC": "2024-07-25T21:05:43Z"}"#;
        let read = BenchmarkTimes::read(text).unwrap();
        let span = read.span.unwrap();
        assert_eq!(span.end.as_second() - span.start.as_second(), 3600);
        assert_eq!(BenchmarkTimes::read(span.to_json().to_string().as_bytes()).unwrap(), read);
    }

    #[test]
    fn pods_of_scenarios_are_found() {
        let text = br#"{"metadata":{"creationTimestamp":"2024-01-01T00:00:00Z"},"status":{"results":[
            {"scenarioID":"cpu-4","repetitions":[{"pod":"a","pushedTime":"2024-01-01T00:10:00Z"},{"pod":"b"}]}]}}"#;
        let read = BenchmarkTimes::read(text).unwrap();
        assert_eq!(
            read.pods,
            [("a".to_string(), "cpu-4".to_string()), ("b".to_string(), "cpu-4".to_string())]
        );
        assert_eq!(read.span.unwrap().end.as_second() - read.span.unwrap().start.as_second(), 600);
    }

    #[test]
    fn what_has_no_times_is_refused_by_field() {
        for (text, word) in
            [("[]", "startTimeUTC"), (r#"{"startTimeUTC":"noon"}"#, "noon"), ("{", "benchmark")]
        {
            let error = BenchmarkTimes::read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
