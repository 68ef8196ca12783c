//! Queries Prometheus for Kepler's series: every metric whose name contains the prefix, as plain
//! range queries of at most the number of steps that Prometheus allows.
//!
//! [`model_server`] returns a [`KeplerResponse`] for immediate training. [`ResumableQuery`] stores
//! each metric in a file as it arrives, so that an interrupted query resumes, and finally writes
//! the original's response file.

mod resumable_query;
mod times;

pub use resumable_query::ResumableQuery;
pub use times::{BenchmarkTimes, TimeSpan, time};

use std::ops::ControlFlow;
use std::time::Duration;

use metier_prom::query::{PromClient, QueryRange, RangeSeries};
use metier_types::UtcTimestamp;
use serde_json::{Map, Value, json};

use crate::Error;
use crate::response::KeplerResponse;

/// Largest number of steps of one query; Prometheus allows 11 000.
const MAX_RANGE_STEPS: u32 = 3600;
/// The metrics of a node's energy, as PromQL matches them.
const NODE_ENERGY_PATTERN: &str = "kepler_node_.+_joules_total";
/// Largest number of steps in total.
const MAX_TOTAL_STEPS: u64 = 10_000_000;

/// A query for a node's series.
#[derive(Debug, Clone, PartialEq)]
pub struct KeplerQuery {
    /// Text that the metric names contain.
    pub prefix: String,
    /// Further metrics by full name.
    pub others: Vec<String>,
    /// The time range.
    pub span: TimeSpan,
    /// Time between two values.
    pub step: Duration,
    /// Labels of all series, since a Prometheus may hold many nodes.
    pub only: Vec<(String, String)>,
}

impl KeplerQuery {
    /// A query for Kepler's metrics, every three seconds.
    pub fn new(span: TimeSpan) -> Self {
        Self {
            prefix: "kepler_".to_string(),
            others: Vec::new(),
            span,
            step: Duration::from_secs(3),
            only: Vec::new(),
        }
    }

    /// PromQL selector: the name and the common labels.
    fn selector(&self, name: &str) -> String {
        let only = self.only.iter().map(|(label, value)| format!(",{label}={}", quoted(value)));
        format!("{{__name__{name}{}}}", only.collect::<String>())
    }

    /// Consecutive ranges that each fit into one query.
    fn stretches(&self) -> Result<Vec<QueryRange>, Error> {
        let wrong = |field, got: String, want: &str| Err(Error::Word { field, got, want: want.to_string() });
        if self.step.is_zero() {
            return wrong("step", "0".to_string(), "more than 0 seconds");
        }
        let span = self.span.end.duration_since(self.span.start);
        if span.is_negative() || span.is_zero() {
            return wrong("end time", self.span.end.to_string(), "after the start");
        }
        let steps = span.as_millis_f64() / (self.step.as_secs_f64() * 1e3);
        if steps > MAX_TOTAL_STEPS as f64 {
            return wrong(
                "step",
                format!("{:?}", self.step),
                &format!("at most {MAX_TOTAL_STEPS} steps from start to end"),
            );
        }
        let mut stretches = Vec::new();
        let mut start = self.span.start;
        while start <= self.span.end {
            // The next range starts one step after the end of this one.
            let last = start.checked_add(self.step * (MAX_RANGE_STEPS - 1)).unwrap_or(self.span.end);
            stretches.push(QueryRange { start, end: last.min(self.span.end), step: self.step });
            start = match last.checked_add(self.step) {
                Ok(next) => next,
                Err(_) => break,
            };
        }
        Ok(stretches)
    }
}

/// Names of the available metrics.
pub async fn names(client: &PromClient, question: &KeplerQuery) -> Result<Vec<String>, Error> {
    let mut names = client.label_values("__name__").await?;
    names.retain(|name| name.contains(&question.prefix) || question.others.contains(name));
    names.sort_unstable();
    match names.is_empty() {
        true => Err(Error::Word {
            field: "metric prefix",
            got: question.prefix.clone(),
            want: format!("a part of a name that {} has", client.endpoint()),
        }),
        false => Ok(names),
    }
}

/// All series of one metric.
pub async fn metric(
    client: &PromClient,
    name: &str,
    question: &KeplerQuery,
) -> Result<Vec<RangeSeries>, Error> {
    let mut all: Vec<RangeSeries> = Vec::new();
    for stretch in question.stretches()? {
        let answer = client.query_range(&question.selector(&format!("={}", quoted(name))), stretch).await?;
        for series in answer.as_matrix().unwrap_or_default() {
            match all.iter_mut().find(|known| known.metric == series.metric) {
                Some(known) => known.points.extend_from_slice(&series.points),
                None => all.push(series.clone()),
            }
        }
    }
    Ok(all)
}

/// Instances that export node energy at the end of the range, by name.
pub async fn instances(client: &PromClient, question: &KeplerQuery) -> Result<Vec<String>, Error> {
    let energy = question.selector(&format!("=~{}", quoted(NODE_ENERGY_PATTERN)));
    let answer =
        client.query_instant(&format!("count by (instance) ({energy})"), Some(question.span.end)).await?;
    let all = answer.as_vector().unwrap_or_default().iter();
    let mut names: Vec<String> =
        all.filter_map(|sample| sample.metric.label("instance")).map(str::to_string).collect();
    names.sort_unstable();
    Ok(names)
}

/// Whether a metric is node energy.
pub fn is_energy(name: &str) -> bool {
    name.starts_with("kepler_node_") && name.ends_with("_joules_total")
}

/// A PromQL string literal.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// Series in the format of the original's response file.
pub fn value(series: &[RangeSeries]) -> Value {
    let series_json = |series: &RangeSeries| {
        let labels: Map<String, Value> =
            series.metric.labels().map(|(name, value)| (name.to_string(), json!(value))).collect();
        let values: Vec<Value> =
            series.points.iter().map(|point| json!([seconds(point.at), text(point.value)])).collect();
        json!({ "metric": labels, "values": values })
    };
    Value::Array(series.iter().map(series_json).collect())
}

/// Whole seconds have no decimal point.
fn seconds(at: UtcTimestamp) -> Value {
    match at.as_millisecond() {
        whole if whole % 1000 == 0 => json!(whole / 1000),
        part => json!(part as f64 / 1000.0),
    }
}

/// A number in Prometheus' notation.
fn text(value: f64) -> String {
    match value {
        _ if value == f64::INFINITY => "+Inf".to_string(),
        _ if value == f64::NEG_INFINITY => "-Inf".to_string(),
        value => value.to_string(),
    }
}

/// Runs all queries and returns one response. `progress` receives (done, total, name) for each
/// metric, and may stop the query.
pub async fn ask(
    client: &PromClient,
    question: &KeplerQuery,
    progress: &mut (dyn FnMut(usize, usize, &str) -> ControlFlow<()> + Send),
) -> Result<KeplerResponse, Error> {
    let names = names(client, question).await?;
    let mut response = KeplerResponse::default();
    for (done, name) in names.iter().enumerate() {
        let series = metric(client, name, question).await?;
        response.0.insert(
            name.clone(),
            series.iter().map(crate::response::KeplerSeries::from_query_series).collect(),
        );
        if progress(done + 1, names.len(), name).is_break() {
            return Err(Error::table("the query was stopped"));
        }
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_has_all_labels_and_no_way_out_of_their_quotes() {
        let span = TimeSpan { start: UtcTimestamp::UNIX_EPOCH, end: UtcTimestamp::UNIX_EPOCH };
        let mut question = KeplerQuery::new(span);
        assert_eq!(question.selector(&format!("={}", quoted("a"))), r#"{__name__="a"}"#);
        question.only.push(("instance".to_string(), "a\"} or {b=\"\\".to_string()));
        assert_eq!(question.selector("=\"x\""), r#"{__name__="x",instance="a\"} or {b=\"\\"}"#);
    }
}
