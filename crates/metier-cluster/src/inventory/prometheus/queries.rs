//! The three queries of a snapshot: values, their sample times, and the load.
//!
//! Sample times need their own query, since an instant query returns the evaluation time. All three
//! keep the labels that identify the node; no value is summed over nodes.

use std::time::Duration;

use futures_util::future::try_join3;
use metier_prom::query::{BlockingClient, InstantSample, PromClient, PromEndpoint, QueryError};

use super::{PrometheusSnapshot, SampleAgeLimits, join};

/// Label that distinguishes the results of one query.
pub(super) const KIND_LABEL: &str = "metier_kind";

/// Properties of devices. `or` compares label sets without metric names. The file systems have
/// additional labels, so `or` does not drop them.
const VALUE_QUERY: &str = r#"{__name__=~"char_node_device_model|char_node_ram_total_bytes|char_node_cpu_total_cores|node_uname_info|node_memory_MemAvailable_bytes|node_memory_MemTotal_bytes|metier_device_memory_available_bytes|metier_device_disk_size_bytes|metier_device_disk_available_bytes"} or {__name__=~"node_filesystem_size_bytes|node_filesystem_avail_bytes",mountpoint="/",fstype!="rootfs"}"#;

/// Times of the samples.
const TIME_QUERIES: [(&str, &str); 7] = [
    ("device", "timestamp(char_node_device_model)"),
    ("cpu", r#"max without (cpu, mode) (timestamp(node_cpu_seconds_total{mode="idle"}))"#),
    ("cpu-agent", r#"max without (mode) (timestamp(metier_device_cpu_seconds_total))"#),
    ("disk", r#"timestamp(node_filesystem_avail_bytes{mountpoint="/",fstype!="rootfs"})"#),
    ("disk-agent", "timestamp(metier_device_disk_available_bytes)"),
    ("memory", "timestamp(node_memory_MemAvailable_bytes)"),
    ("memory-agent", "timestamp(metier_device_memory_available_bytes)"),
];

/// Load of nodes, and the core count of nodes that do not report it: idle time over total time.
/// Both are rates of the same samples, so a node with few samples is correct too: the idle rate
/// alone would be too low there, and the node would seem busy. The window is one minute, or five
/// minutes for nodes scraped less than twice a minute. `iowait` counts as idle, as in the training
/// data (`host.others_ratio`); `steal` does not.
const LOAD_QUERIES: [(&str, &str); 3] = [
    (
        "cpu",
        r#"1 - (sum without (cpu, mode) (rate(node_cpu_seconds_total{mode=~"idle|iowait"}[1m]) or rate(node_cpu_seconds_total{mode=~"idle|iowait"}[5m])) / sum without (cpu, mode) (rate(node_cpu_seconds_total[1m]) or rate(node_cpu_seconds_total[5m])))"#,
    ),
    (
        "cpu-agent",
        r#"1 - (sum without (mode) (rate(metier_device_cpu_seconds_total{mode=~"idle|iowait"}[1m]) or rate(metier_device_cpu_seconds_total{mode=~"idle|iowait"}[5m])) / sum without (mode) (rate(metier_device_cpu_seconds_total[1m]) or rate(metier_device_cpu_seconds_total[5m])))"#,
    ),
    ("cores", r#"count without (cpu, mode) (node_cpu_seconds_total{mode="idle"})"#),
];

/// Series and labels that are read from responses.
pub(super) struct NodeQueryAnswers {
    pub values: Vec<InstantSample>,
    pub times: Vec<InstantSample>,
    pub loads: Vec<InstantSample>,
    pub warnings: Vec<String>,
}

pub async fn take_snapshot(
    client: &PromClient,
    ages: SampleAgeLimits,
) -> Result<PrometheusSnapshot, QueryError> {
    let (times, loads) = (union_query(&TIME_QUERIES), union_query(&LOAD_QUERIES));
    let asked = (
        client.query_instant(VALUE_QUERY, None),
        client.query_instant(&times, None),
        client.query_instant(&loads, None),
    );
    let (values, times, loads) = try_join3(asked.0, asked.1, asked.2).await?;
    let warnings = [&values, &times, &loads].into_iter().flat_map(|answer| answer.warnings.clone()).collect();
    let readings = |answer: metier_prom::query::QueryResponse| match answer.values {
        metier_prom::query::QueryValues::Vector(readings) => readings,
        _ => Vec::new(),
    };
    let answers = NodeQueryAnswers {
        values: readings(values),
        times: readings(times),
        loads: readings(loads),
        warnings,
    };
    Ok(join::join_nodes(answers, ages))
}

/// Takes a snapshot for a program without an async runtime: 2 seconds and two attempts per query,
/// as in the snapshot cache.
pub fn take_snapshot_blocking(mut endpoint: PromEndpoint) -> Result<PrometheusSnapshot, QueryError> {
    endpoint.bounds.time = QUERY_TIMEOUT;
    endpoint.bounds.tries = QUERY_TRIES;
    BlockingClient::new(endpoint)?
        .block_on(async |client| take_snapshot(client, SampleAgeLimits::default()).await)
}

/// Joins the expressions into one query, each with a label.
fn union_query(expressions: &[(&str, &str)]) -> String {
    let marked = |(kind, expression): &(&str, &str)| {
        format!(r#"label_replace({expression}, "{KIND_LABEL}", "{kind}", "", "")"#)
    };
    expressions.iter().map(marked).collect::<Vec<_>>().join(" or ")
}

/// Timeout of one query; no request waits for it.
pub(super) const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
/// Attempts per query.
pub(super) const QUERY_TRIES: u32 = 2;
