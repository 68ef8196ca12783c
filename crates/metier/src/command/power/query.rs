//! `metier power query`: saves Kepler's series from Prometheus in one file. An interrupted query
//! resumes.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use metier_power::query::{self, BenchmarkTimes, KeplerQuery, ResumableQuery, TimeSpan};
use metier_prom::query::{BlockingClient, PromCredentials, PromEndpoint};
use metier_types::UtcTimestamp;
use serde_json::json;

use super::power_files::DataFolder;
use super::shared_args::PathArgs;
use super::validate;
use crate::command::{CommandContext, up};
use crate::exit::{CliExitCode, usage_error};
use crate::time::parse_whole_seconds_flag;

const EXAMPLES: &str = "Examples:
  metier power query -s http://127.0.0.1:9090 -o kepler_query --id node1                the last 300 s
  metier power query -s prometheus:9090 --start-time 2026-11-17T10:00:00Z --end-time 2026-11-17T11:00:00Z --benchmark load -o kepler_query
  metier power query -i load -o kepler_query --to-csv                                   the times that load.json tells";

/// Save Kepler's series from Prometheus
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct PowerQueryArgs {
    /// Prometheus [PROM_SERVER; default http://localhost:9090]
    #[arg(short, long, value_name = "URL")]
    server: Option<String>,
    /// File of the only certificate authority to accept for that Prometheus
    #[arg(long, value_name = "FILE")]
    prometheus_ca: Option<PathBuf>,
    /// File with the token for that Prometheus
    #[arg(long, value_name = "FILE")]
    prometheus_token_file: Option<PathBuf>,
    /// Accept any certificate of that Prometheus [PROM_SSL_DISABLE]
    #[arg(long)]
    prometheus_insecure: bool,
    /// Benchmark file with startTimeUTC and endTimeUTC: `NAME` or `NAME.json`
    #[arg(short, long, value_name = "NAME")]
    input: Option<String>,
    /// Start, as 2026-11-17T15:40:00Z
    #[arg(long, value_name = "TIME", requires = "end_time")]
    start_time: Option<String>,
    /// End
    #[arg(long, value_name = "TIME", requires = "start_time")]
    end_time: Option<String>,
    /// Length of time up to now, as 5m or a number of seconds [PROM_QUERY_INTERVAL; default 300]
    #[arg(long, value_name = "DURATION", value_parser = parse_whole_seconds_flag)]
    interval: Option<u64>,
    /// Time between two values, as 3s or a number of seconds [PROM_QUERY_STEP; default 3]
    #[arg(long, value_name = "DURATION", value_parser = parse_whole_seconds_flag)]
    step: Option<u64>,
    /// Prefix or part of metric names
    #[arg(long, value_name = "PART", default_value = "kepler_")]
    metric_prefix: String,
    /// Only series with that label, as instance=node1; can be repeated
    #[arg(long, value_name = "LABEL=VALUE", value_parser = crate::command::serve::parse_label)]
    only: Vec<(String, String)>,
    /// Save each metric as `NAME_csv/METRIC.csv` too
    #[arg(long)]
    to_csv: bool,
    /// Save the times as this benchmark file
    #[arg(long, value_name = "NAME")]
    benchmark: Option<String>,
    /// Save this machine's description as `machine_spec/ID.json`
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    #[command(flatten)]
    paths: PathArgs,
}

fn from_environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

fn seconds_setting(flag: &str, given: Option<u64>, variable: &str, default: u64) -> anyhow::Result<u64> {
    let value = match (given, from_environment(variable)) {
        (Some(value), _) => value,
        (None, Some(text)) => text
            .trim()
            .parse()
            .map_err(|_| usage_error(format!("{variable} is {text:?}; want whole seconds")))?,
        (None, None) => default,
    };
    match value {
        0 => Err(usage_error(format!("{flag} is 0; want at least 1 second"))),
        value => Ok(value),
    }
}

impl PowerQueryArgs {
    /// Runs the query, including these metrics.
    pub fn run(&self, context: &CommandContext, others: Vec<String>) -> anyhow::Result<CliExitCode> {
        let data = self.paths.data_folder();
        let server = self.server.clone().or_else(|| from_environment("PROM_SERVER"));
        let server = server.unwrap_or_else(|| "http://localhost:9090".to_string());
        let mut endpoint: PromEndpoint =
            server.parse().map_err(|error| usage_error(format!("--server: {error}")))?;
        endpoint.authority.clone_from(&self.prometheus_ca);
        if let Some(path) = &self.prometheus_token_file {
            endpoint.credentials = PromCredentials::Bearer(up::read_token(path)?);
        }
        endpoint.accept_any_certificate = self.prometheus_insecure
            || from_environment("PROM_SSL_DISABLE").is_some_and(|value| value.trim() == "true");
        let step = Duration::from_secs(seconds_setting("--step", self.step, "PROM_QUERY_STEP", 3)?);
        let interval = seconds_setting("--interval", self.interval, "PROM_QUERY_INTERVAL", 300)?;
        let span = self.query_span(&data, interval)?;
        let stem = self.paths.out.strip_suffix(".json").unwrap_or(&self.paths.out);
        let asked = json!({
            "server": endpoint.to_string(), "prefix": self.metric_prefix, "others": others, "step": step.as_secs(),
            "only": self.only, "input": self.input, "start_time": self.start_time, "end_time": self.end_time, "interval": interval,
        });
        let folder = data.0.join(format!("{stem}.parts"));
        let (query, held) =
            ResumableQuery::open(&folder, &json!({ "asked": asked, "times": span.to_json() }), |before| {
                before["asked"] == asked && before["times"].is_object()
            })?;
        // A resumed query keeps its time range: "the last 300 s" are those of its first start.
        let span = BenchmarkTimes::read(held["times"].to_string().as_bytes())?.span.unwrap_or(span);
        let only = self.only.clone();
        let question = KeplerQuery { prefix: self.metric_prefix.clone(), others, span, step, only };
        let client = BlockingClient::new(endpoint)?;
        let names = match ask_prometheus(&client, async |client| query::names(client, &question).await) {
            Ok(names) => names,
            Err(error) => {
                query.discard_if_empty()?;
                return Err(error);
            }
        };
        let there = names.iter().filter(|name| query.has(name)).count();
        if there > 0 {
            context
                .console
                .note(format!("metier: going on: {there} of {} metrics are here already", names.len()));
        }
        let mut nodes = BTreeSet::new();
        let steps = context.console.step_progress(names.len() as u64, "metrics", "saved");
        for name in &names {
            if !query.has(name) {
                let series =
                    ask_prometheus(&client, async |client| query::metric(client, name, &question).await);
                match series {
                    Ok(series) => {
                        let instances = series.iter().filter_map(|one| one.metric.label("instance"));
                        nodes.extend(instances.filter(|_| query::is_energy(name)).map(str::to_string));
                        query.put(name, &query::value(&series))?;
                    }
                    Err(error) => {
                        query.discard_if_empty()?;
                        return Err(error);
                    }
                }
            }
            steps.advance();
        }
        steps.finish();
        let to = data.file_path(stem, "json");
        query.finish(&names, &to)?;
        self.write_benchmark_and_machine(context, &data, stem, span)?;
        let response = data.read_response("--out", stem)?;
        let rows = metier_power::response_counts::count(&response, &[]);
        data.write_file(
            &data.file_path(&format!("{stem}_validate_result"), "csv"),
            &validate::rows_as_csv(&rows)?,
        )?;
        if self.to_csv {
            for (name, list) in &response.0 {
                data.write_file(
                    &data.0.join(format!("{stem}_csv")).join(format!("{name}.csv")),
                    &metric_csv(name, list)?,
                )?;
            }
        }
        context.console.note(format!(
            "{} metrics from {} to {} in {}",
            names.len(),
            span.start,
            span.end,
            to.display()
        ));
        if nodes.len() > 1 {
            let names: Vec<&str> = nodes.iter().take(5).map(String::as_str).collect();
            context.console.warn(format!(
                "energy is of {} nodes ({}), which tables add up; --only instance={} saves that of one",
                nodes.len(),
                names.join(", "),
                names[0]
            ));
        }
        validate::print_rows(context, &rows)?;
        Ok(CliExitCode::OK)
    }

    /// The time range: the input's, else start and end, else the last interval.
    fn query_span(&self, data: &DataFolder, interval: u64) -> anyhow::Result<TimeSpan> {
        if let Some(name) = &self.input {
            let (path, text) = data.read_file("--input", name, "json")?;
            let wrong = |why: String| usage_error(format!("--input {}: {why}", path.display()));
            let read = BenchmarkTimes::read(&text).map_err(|error| wrong(error.to_string()))?;
            return read.span.ok_or_else(|| wrong("has no times".to_string()));
        }
        if let (Some(start), Some(end)) = (&self.start_time, &self.end_time) {
            let of = |flag: &str, text: &str| {
                query::time("time", text).map_err(|error| usage_error(format!("{flag}: {error}")))
            };
            let span = TimeSpan { start: of("--start-time", start)?, end: of("--end-time", end)? };
            return match span.start < span.end {
                true => Ok(span),
                false => {
                    Err(usage_error(format!("--end-time is {end}; want one after --start-time {start}")))
                }
            };
        }
        let now = UtcTimestamp::from_second(UtcTimestamp::now().as_second())?;
        Ok(TimeSpan { start: now.checked_sub(Duration::from_secs(interval))?, end: now })
    }

    /// Saves the time range and the machine.
    fn write_benchmark_and_machine(
        &self,
        context: &CommandContext,
        data: &DataFolder,
        stem: &str,
        span: TimeSpan,
    ) -> anyhow::Result<()> {
        if let Some(name) = &self.benchmark {
            data.write_file(&data.file_path(name, "json"), span.to_json().to_string().as_bytes())?;
        }
        if let Some(id) = &self.id {
            let path = data.machine_spec_path(id)?;
            data.write_file(&path, super::node::discover_machine_json()?.as_bytes())?;
            context
                .console
                .note(format!("this machine: {}; check that {stem} is of the same machine", path.display()));
        }
        Ok(())
    }
}

/// Runs the query; maps errors of the request to usage errors.
fn ask_prometheus<T>(
    client: &BlockingClient,
    question: impl AsyncFnOnce(&metier_prom::query::PromClient) -> Result<T, metier_power::Error>,
) -> anyhow::Result<T> {
    let mut own = None;
    let answer = client.block_on(async |client| {
        own = Some(question(client).await);
        Ok(())
    });
    match own {
        Some(answer) => Ok(answer?),
        None => Err(answer.err().map_or_else(|| anyhow::anyhow!("no answer"), Into::into)),
    }
}

/// A metric as a table: labels, time, value.
fn metric_csv(name: &str, list: &[metier_power::response::KeplerSeries]) -> anyhow::Result<Vec<u8>> {
    let mut labels: Vec<&str> =
        list.iter().flat_map(|series| series.labels.labels().map(|(name, _)| name)).collect();
    labels.sort_unstable();
    labels.dedup();
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(labels.iter().copied().chain(["timestamp", name]))?;
    for series in list {
        for (time, value) in &series.samples {
            let mut row: Vec<String> = labels.iter().map(|name| series.label(name).to_string()).collect();
            row.extend([time.to_string(), value.to_string()]);
            writer.write_record(row)?;
        }
    }
    writer.into_inner().map_err(|error| anyhow::anyhow!("{error}"))
}
