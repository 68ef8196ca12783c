//! Queries series of a Prometheus, by pieces of time.

use std::time::Duration;

use metier_prom::query::{BlockingClient, MetricLabels, PromEndpoint, QueryRange, QueryValues};
use metier_types::UtcTimestamp;

use crate::command::signal::SignalColumn;
use crate::exit::usage_error;

/// Values of one series in a request; Prometheus refuses more than 11,000.
const STEPS_PER_REQUEST: u32 = 5_000;
/// Most values of one series.
const MAX_STEPS: u32 = 500_000;

/// The series of a query over the time up to now.
pub fn query_columns(
    address: &str,
    query: &str,
    range: Duration,
    step: Duration,
) -> anyhow::Result<Vec<SignalColumn>> {
    let endpoint: PromEndpoint =
        address.parse().map_err(|error| usage_error(format!("--prometheus: {error}")))?;
    let steps = range.as_secs_f64() / step.as_secs_f64();
    if !(2.0..=f64::from(MAX_STEPS)).contains(&steps) {
        return Err(usage_error(format!(
            "--range {range:?} with --step {step:?} is {steps:.0} values; want 2 to {MAX_STEPS}"
        )));
    }
    let client = BlockingClient::new(endpoint)?;
    let end = UtcTimestamp::now();
    let start = end.checked_sub(range)?;
    let mut columns: Vec<(MetricLabels, SignalColumn)> = Vec::new();
    let mut from = start;
    while from <= end {
        let piece_end = from.checked_add(step * (STEPS_PER_REQUEST - 1))?.min(end);
        let piece = QueryRange { start: from, end: piece_end, step };
        let response = client.block_on(async |client| client.query_range(query, piece).await)?;
        let QueryValues::Matrix(found) = response.values else {
            return Err(usage_error(format!("--query {query:?} gives no series over time")));
        };
        for series in found {
            let times = series.points.iter().map(|point| point.at.as_millisecond() as f64 / 1000.0);
            let values = series.points.iter().map(|point| point.value);
            match columns.iter_mut().find(|(labels, _)| *labels == series.metric) {
                Some((_, column)) => {
                    column.times.extend(times);
                    column.values.extend(values);
                }
                None => {
                    let name = labels_text(&series.metric);
                    let (times, values) = (times.collect(), values.collect());
                    columns.push((series.metric, SignalColumn { name, times, values, defect: None }));
                }
            }
        }
        from = piece_end.checked_add(step)?;
    }
    if columns.is_empty() {
        anyhow::bail!(
            "--query {query:?} gives no series in the last {range:?}; try it on the page of {address}"
        );
    }
    Ok(columns.into_iter().map(|(_, column)| column).collect())
}

/// The name and labels as PromQL writes them.
fn labels_text(labels: &MetricLabels) -> String {
    let pairs: Vec<String> = labels
        .labels()
        .filter(|(name, _)| *name != "__name__")
        .map(|(name, value)| format!("{name}={value:?}"))
        .collect();
    let name = labels.name().unwrap_or_default();
    if pairs.is_empty() && !name.is_empty() {
        name.to_string()
    } else {
        format!("{name}{{{}}}", pairs.join(","))
    }
}
