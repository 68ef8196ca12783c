//! The three questions that a snapshot is made of.
//!
//! Values, the times of the samples behind them, and the load. Times need a question of their own:
//! an instant answer is stamped with the time that was asked for. All three carry the labels that
//! say whose they are; nothing is summed over nodes.

use std::time::Duration;

use futures_util::future::try_join3;
use metier_prom::query::{BlockingClient, InstantSample, PromClient, PromEndpoint, QueryError};

use super::{PrometheusSnapshot, SampleAges, join};

/// Label that tells the answers of one question apart.
pub(super) const KIND_LABEL: &str = "metier_kind";

/// What devices are and hold. `or` compares without names, so the file systems, which have labels
/// that the others lack, stand apart.
const VALUE_QUERY: &str = r#"{__name__=~"char_node_device_model|char_node_ram_total_bytes|char_node_cpu_total_cores|node_uname_info|node_memory_MemAvailable_bytes|node_memory_MemTotal_bytes|metier_device_memory_available_bytes|metier_device_disk_size_bytes|metier_device_disk_available_bytes"} or {__name__=~"node_filesystem_size_bytes|node_filesystem_avail_bytes",mountpoint="/",fstype!="rootfs"}"#;

/// When the samples were taken.
const TIME_QUERIES: [(&str, &str); 7] = [
    ("device", "timestamp(char_node_device_model)"),
    ("cpu", r#"max without (cpu, mode) (timestamp(node_cpu_seconds_total{mode="idle"}))"#),
    ("cpu-agent", r#"max without (mode) (timestamp(metier_device_cpu_seconds_total))"#),
    ("disk", r#"timestamp(node_filesystem_avail_bytes{mountpoint="/",fstype!="rootfs"})"#),
    ("disk-agent", "timestamp(metier_device_disk_available_bytes)"),
    ("memory", "timestamp(node_memory_MemAvailable_bytes)"),
    ("memory-agent", "timestamp(metier_device_memory_available_bytes)"),
];

/// How busy nodes are, and how many cores those have that do not say: idle time over all time. Both
/// are rates of the same samples, so that a node that was first asked a moment ago is told right
/// too: a rate alone is too low there, and the node would seem busy. Over a minute; over five where
/// nodes are asked more rarely than twice a minute. A processor that waits for a disk (`iowait`) is
/// idle, as it was where the load was learned from (`host.others_ratio`); one that a hypervisor
/// keeps for others (`steal`) is not.
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

/// Series and labels that answers are read into.
pub(super) struct NodeQueryAnswers {
    pub values: Vec<InstantSample>,
    pub times: Vec<InstantSample>,
    pub loads: Vec<InstantSample>,
    pub warnings: Vec<String>,
}

pub async fn take_snapshot(client: &PromClient, ages: SampleAges) -> Result<PrometheusSnapshot, QueryError> {
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

/// Takes a snapshot for a program that has no runtime, and waits for it: 2 seconds and two tries,
/// as where one is kept warm.
pub fn take_snapshot_blocking(mut endpoint: PromEndpoint) -> Result<PrometheusSnapshot, QueryError> {
    endpoint.bounds.time = QUERY_TIMEOUT;
    endpoint.bounds.tries = QUERY_TRIES;
    BlockingClient::new(endpoint)?.block_on(async |client| take_snapshot(client, SampleAges::default()).await)
}

/// One expression for all, each marked.
fn union_query(expressions: &[(&str, &str)]) -> String {
    let marked = |(kind, expression): &(&str, &str)| {
        format!(r#"label_replace({expression}, "{KIND_LABEL}", "{kind}", "", "")"#)
    };
    expressions.iter().map(marked).collect::<Vec<_>>().join(" or ")
}

/// What one question may take; a request never waits for it.
pub(super) const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
/// How often it is put.
pub(super) const QUERY_TRIES: u32 = 2;
