//! `metier power validate`: how much a query response holds.

use clap::Args;
use metier_power::query::Benchmark;
use metier_power::validate::{Row, count};
use serde_json::json;

use super::extract::short;
use super::flags::Paths;
use crate::command::Room;
use crate::exit::{Code, usage};
use crate::output::{self, Cell, Format, Paint, Table};

const EXAMPLES: &str = "Examples:
  metier power validate -i kepler_query                          samples of each metric
  metier power validate -i kepler_query --benchmark load -o check  the same in check.csv, by pod and scenario where load.json tells them";

/// Count what a query response holds
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Validate {
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
    paths: Paths,
}

const HEADER: [&str; 6] = ["pod", "scenarioID", "query", "count", ">0", "total"];

fn cells(row: &Row) -> Vec<String> {
    let counts = [row.count.to_string(), row.positive.to_string(), row.total.to_string()];
    [row.pod.clone(), row.scenario.clone(), row.metric.clone()].into_iter().chain(counts).collect()
}

pub fn csv(rows: &[Row]) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    output::csv(&mut bytes, &HEADER, rows.iter().map(cells))?;
    Ok(bytes)
}

impl Validate {
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let data = self.paths.data();
        let response = data.response("--input", &self.input)?;
        let mut pods = Vec::new();
        if let Some(name) = &self.benchmark {
            let (path, text) = data.read("--benchmark", name, "json")?;
            pods = Benchmark::read(&text)
                .map_err(|error| usage(format!("--benchmark {}: {error}", path.display())))?
                .pods;
            if !self.scenario.is_empty() {
                pods.retain(|(_, scenario)| {
                    self.scenario.iter().any(|part| scenario.contains(part.as_str()))
                });
                if pods.is_empty() {
                    let parts = self.scenario.join(", ");
                    return Err(usage(format!(
                        "--scenario {parts}: {} has no such scenario",
                        path.display()
                    )));
                }
            }
        }
        let rows = count(&response, &pods);
        if rows.iter().all(|row| row.count == 0) {
            return Err(usage(format!("--input {}: has no samples", self.input)));
        }
        data.write(&data.path(&self.paths.out, "csv"), &csv(&rows)?)?;
        show(room, &rows)?;
        Ok(Code::OK)
    }
}

pub fn show(room: &Room, rows: &[Row]) -> anyhow::Result<()> {
    let console = &room.console;
    let record = || {
        let one = |row: &Row| json!({ "pod": row.pod, "scenario": row.scenario, "metric": row.metric, "samples": row.count, "above_zero": row.positive, "total": row.total });
        json!({ "schema": "metier.power-validation/1", "metrics": rows.iter().map(one).collect::<Vec<_>>() })
    };
    match console.format {
        Format::Json => console.data(|out| output::json(out, &record())),
        Format::Yaml => console.data(|out| output::yaml(out, &record())),
        Format::Csv => console.data(|out| output::csv(out, &HEADER, rows.iter().map(cells))),
        Format::Table => {
            let has_pods = rows.iter().any(|row| !row.pod.is_empty());
            let mut head = if has_pods { vec!["POD", "SCENARIO"] } else { Vec::new() };
            head.extend(["METRIC", "SAMPLES", "ABOVE 0", "SUM"]);
            let mut table = Table::with_header(&head);
            for row in rows {
                let mut line = Vec::new();
                if has_pods {
                    line.extend([Cell::text(&row.pod), Cell::text(&row.scenario)]);
                }
                let above = Cell::number(row.positive.to_string());
                line.extend([
                    Cell::text(&row.metric),
                    Cell::number(row.count.to_string()),
                    if row.positive == 0 { above.styled(Paint::yellow) } else { above },
                    Cell::number(short(row.total)),
                ]);
                table.row(line);
            }
            console.print(&table.render(console.paint))
        }
    }
}
