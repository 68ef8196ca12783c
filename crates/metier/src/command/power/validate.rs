//! `metier power validate`: counts the samples of a query response.

use clap::Args;
use metier_power::query::BenchmarkTimes;
use metier_power::response_counts::{MetricCountRow, count};
use serde_json::json;

use super::extract::short_number;
use super::shared_args::PathArgs;
use crate::command::CommandContext;
use crate::exit::{CliExitCode, usage_error};
use crate::output::{self, DataFormat, StreamPaint, TableCell, TextTable};

const EXAMPLES: &str = "Examples:
  metier power validate -i kepler_query                          samples of each metric
  metier power validate -i kepler_query --benchmark load -o check  the same in check.csv, by pod and scenario where load.json tells them";

/// Count the samples of a query response
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct PowerValidateArgs {
    /// Query response: `NAME` or `NAME.json`
    #[arg(short, long, value_name = "NAME")]
    input: String,
    /// Benchmark file of the CPE operator, to count by pod
    #[arg(long, value_name = "NAME")]
    benchmark: Option<String>,
    /// Only scenarios with one of these in their name
    #[arg(long, value_name = "PART", value_delimiter = ',', requires = "benchmark")]
    scenario: Vec<String>,
    #[command(flatten)]
    paths: PathArgs,
}

const CSV_COLUMNS: [&str; 6] = ["pod", "scenarioID", "query", "count", ">0", "total"];

fn row_cells(row: &MetricCountRow) -> Vec<String> {
    let counts = [row.count.to_string(), row.positive.to_string(), row.total.to_string()];
    [row.pod.clone(), row.scenario.clone(), row.metric.clone()].into_iter().chain(counts).collect()
}

pub fn rows_as_csv(rows: &[MetricCountRow]) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    output::write_csv(&mut bytes, CSV_COLUMNS, rows.iter().map(row_cells))?;
    Ok(bytes)
}

impl PowerValidateArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let data = self.paths.data_folder();
        let response = data.read_response("--input", &self.input)?;
        let mut pods = Vec::new();
        if let Some(name) = &self.benchmark {
            let (path, text) = data.read_file("--benchmark", name, "json")?;
            pods = BenchmarkTimes::read(&text)
                .map_err(|error| usage_error(format!("--benchmark {}: {error}", path.display())))?
                .pods;
            if !self.scenario.is_empty() {
                pods.retain(|(_, scenario)| {
                    self.scenario.iter().any(|part| scenario.contains(part.as_str()))
                });
                if pods.is_empty() {
                    let parts = self.scenario.join(", ");
                    return Err(usage_error(format!(
                        "--scenario {parts}: {} has no such scenario",
                        path.display()
                    )));
                }
            }
        }
        let rows = count(&response, &pods);
        if rows.iter().all(|row| row.count == 0) {
            return Err(usage_error(format!("--input {}: has no samples", self.input)));
        }
        data.write_file(&data.file_path(&self.paths.out, "csv"), &rows_as_csv(&rows)?)?;
        print_rows(context, &rows)?;
        Ok(CliExitCode::OK)
    }
}

pub fn print_rows(context: &CommandContext, rows: &[MetricCountRow]) -> anyhow::Result<()> {
    let console = &context.console;
    let record = || {
        let one = |row: &MetricCountRow| json!({ "pod": row.pod, "scenario": row.scenario, "metric": row.metric, "samples": row.count, "above_zero": row.positive, "total": row.total });
        json!({ "schema": "metier.power-validation/1", "metrics": rows.iter().map(one).collect::<Vec<_>>() })
    };
    match console.format {
        DataFormat::Json => console.write_data(|out| output::write_json(out, &record())),
        DataFormat::Yaml => console.write_data(|out| output::write_yaml(out, &record())),
        DataFormat::Csv => {
            console.write_data(|out| output::write_csv(out, CSV_COLUMNS, rows.iter().map(row_cells)))
        }
        DataFormat::Table => {
            let has_pods = rows.iter().any(|row| !row.pod.is_empty());
            let mut head = if has_pods { vec!["POD", "SCENARIO"] } else { Vec::new() };
            head.extend(["METRIC", "SAMPLES", "ABOVE 0", "SUM"]);
            let mut table = TextTable::with_header(&head);
            for row in rows {
                let mut line = Vec::new();
                if has_pods {
                    line.extend([TableCell::text(&row.pod), TableCell::text(&row.scenario)]);
                }
                let above = TableCell::number(row.positive.to_string());
                line.extend([
                    TableCell::text(&row.metric),
                    TableCell::number(row.count.to_string()),
                    if row.positive == 0 { above.styled(StreamPaint::yellow) } else { above },
                    TableCell::number(short_number(row.total)),
                ]);
                table.add_row(line);
            }
            console.print(&table.render(console.paint))
        }
    }
}
