//! `metier power extract`: a table from a query response.

use std::path::PathBuf;

use clap::Args;
use metier_power::extract::{self, Extracted, Settings};
use metier_power::frame::Frame;
use metier_power::response::Response;
use metier_power::vocabulary::{FeatureGroup, OutputType, Source};
use serde_json::json;

use super::files::Data;
use super::flags::{self, Paths, Rows};
use crate::command::Room;
use crate::exit::{Code, usage};
use crate::output::{self, Cell, Format, Table};

const EXAMPLES: &str = "Examples:
  metier power extract -i idle -o node -e acpi --feature-group BPFOnly            extracted_node.csv, extracted_node_raw.csv
  metier power extract -i idle -o work --output-type DynPower --extractor smooth  rows of single containers";

/// Make a table of features and watts from a query response
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Extract {
    #[command(flatten)]
    pub of: Of,
    #[command(flatten)]
    pub rows: Rows,
    #[command(flatten)]
    pub paths: Paths,
}

/// Which table.
#[derive(Debug, Args)]
pub struct Of {
    /// Query response: `NAME` or `NAME.json`
    #[arg(short, long, value_name = "NAME")]
    pub input: String,
    /// Where energy was read
    #[arg(short, long, value_name = "SOURCE", default_value = "rapl-sysfs", value_parser = flags::source)]
    pub energy_source: Source,
    /// Which features [default: the first group that the response has all of]
    #[arg(long, value_name = "GROUP")]
    pub feature_group: Option<FeatureGroup>,
    /// AbsPower: rows of the node; DynPower: rows of single containers
    #[arg(long, value_name = "TYPE", default_value = "AbsPower")]
    pub output_type: OutputType,
}

/// A table, and what was chosen for it.
pub struct Made {
    pub group: FeatureGroup,
    pub extracted: Extracted,
    pub files: Vec<PathBuf>,
}

impl Of {
    /// The group that was asked for, or the first that is whole.
    fn group(&self, response: &Response, vm: bool) -> anyhow::Result<FeatureGroup> {
        let whole = extract::groups(response, vm);
        let names: Vec<&str> = whole.iter().map(|group| group.name()).collect();
        match self.feature_group {
            Some(group) if whole.contains(&group) => Ok(group),
            Some(group) if group.features().is_empty() => Err(usage(format!(
                "--feature-group {}: --thirdparty-metrics is missing; want names of metrics that --input has",
                group.name()
            ))),
            Some(group) => {
                let missing: Vec<String> = group
                    .features()
                    .iter()
                    .map(|feature| extract::metric(feature, vm))
                    .filter(|name| !response.has(name))
                    .collect();
                let want = match names.is_empty() {
                    true => whole_elsewhere(response, vm),
                    false => format!("one of: {}", names.join(", ")),
                };
                let (input, missing, name) = (&self.input, missing.join(", "), group.name());
                Err(usage(format!("--feature-group {name}: --input {input} has no {missing}; want {want}")))
            }
            None => whole.first().copied().ok_or_else(|| {
                let (input, want) = (&self.input, whole_elsewhere(response, vm));
                usage(format!("--input {input}: has all metrics of no feature group; want {want}"))
            }),
        }
    }

    /// Makes the table and keeps it.
    pub fn make(&self, rows: &Rows, data: &Data, out: &str, by_container: bool) -> anyhow::Result<Made> {
        let response = data.response("--input", &self.input)?;
        let group = self.group(&response, rows.vm_train)?;
        let settings = Settings {
            by_container,
            vm: rows.vm_train,
            extractor: rows.extractor,
            ..Settings::new(self.energy_source, group)
        };
        let extracted = extract::extract(&response, &settings)
            .map_err(|error| usage(format!("--input {}: {error}", self.input)))?;
        if extracted.frame.is_empty() {
            let why = "features and power have no time in common, or too few samples";
            return Err(usage(format!("--input {}: the table has no rows: {why}", self.input)));
        }
        let stem = out.strip_suffix(".csv").unwrap_or(out);
        let raw = raw(&response, group, rows.vm_train)?;
        let files = vec![
            data.write_table(&format!("extracted_{stem}"), &extracted.frame)?,
            data.write_table(&format!("extracted_{stem}_raw"), &raw)?,
        ];
        Ok(Made { group, extracted, files })
    }
}

/// What would be right where a response has no whole group: the other kind of series, where it has one of those.
fn whole_elsewhere(response: &Response, vm: bool) -> String {
    let is_whole = !extract::groups(response, !vm).is_empty();
    match (vm, is_whole) {
        (false, true) => "--vm-train: its series are of virtual machines".to_string(),
        (true, true) => "no --vm-train: its series are of containers".to_string(),
        (false, false) => "kepler_container_…_total of one group".to_string(),
        (true, false) => "kepler_process_…_total of one group".to_string(),
    }
}

/// The first feature of the group as the counter that it was, added up at each time.
fn raw(response: &Response, group: FeatureGroup, vm: bool) -> anyhow::Result<Frame> {
    let mut sums: std::collections::BTreeMap<u64, f64> = std::collections::BTreeMap::new();
    let name = extract::metric(group.features().first().copied().unwrap_or_default(), vm);
    for series in response.metric(&name) {
        for (time, value) in series.samples.iter().filter(|(time, _)| *time >= 0.0) {
            *sums.entry(time.to_bits()).or_default() += value;
        }
    }
    let mut frame = Frame::new(sums.keys().map(|time| f64::from_bits(*time)).collect(), None)?;
    frame.set(&name, sums.into_values().collect())?;
    Ok(frame)
}

impl Extract {
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let by_container = self.of.output_type == OutputType::DynPower;
        let made = self.of.make(&self.rows, &self.paths.data(), &self.paths.out, by_container)?;
        show(room, "extract", &self.of, &made, &made.extracted.frame)?;
        Ok(Code::OK)
    }
}

/// Says what a table holds.
pub fn show(room: &Room, command: &str, of: &Of, made: &Made, frame: &Frame) -> anyhow::Result<()> {
    let console = &room.console;
    let columns: Vec<Column> =
        frame.names().filter_map(|name| Column::of(frame, name, &made.extracted)).collect();
    let files: Vec<String> = made.files.iter().map(|path| path.display().to_string()).collect();
    let record = || {
        json!({
            "schema": "metier.power-table/1", "command": command, "files": files, "rows": frame.len(),
            "energy_source": of.energy_source.name(), "feature_group": made.group.name(), "output_type": of.output_type.name(),
            "columns": columns.iter().map(Column::record).collect::<Vec<_>>(),
        })
    };
    match console.format {
        Format::Json => console.data(|out| output::json(out, &record())),
        Format::Yaml => console.data(|out| output::yaml(out, &record())),
        Format::Csv => console.data(|out| Ok(frame.write_csv(out)?)),
        Format::Table => {
            let mut table = Table::with_header(&["COLUMN", "LEAST", "MEAN", "MOST", "CORRELATION"]);
            for column in &columns {
                table.row(vec![
                    Cell::text(&column.name),
                    Cell::number(short(column.least)),
                    Cell::number(short(column.mean)),
                    Cell::number(short(column.most)),
                    Cell::quantity(column.correlation.map(|value| format!("{value:.3}"))),
                ]);
            }
            console.note(format!(
                "{} rows of {} {} in {}",
                frame.len(),
                of.energy_source.name(),
                made.group.name(),
                files.join(", ")
            ));
            console.print(&table.render(console.paint))
        }
    }
}

struct Column {
    name: String,
    least: f64,
    mean: f64,
    most: f64,
    correlation: Option<f64>,
}

impl Column {
    fn of(frame: &Frame, name: &str, extracted: &Extracted) -> Option<Self> {
        let values = frame.column(name).filter(|values| !values.is_empty())?;
        let correlation =
            extracted.correlations.iter().find(|(known, _)| known == name).and_then(|(_, value)| *value);
        Some(Self {
            name: name.to_string(),
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            mean: values.iter().sum::<f64>() / values.len() as f64,
            most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            correlation,
        })
    }

    fn record(&self) -> serde_json::Value {
        json!({ "name": self.name, "least": self.least, "mean": self.mean, "most": self.most, "correlation": self.correlation })
    }
}

/// A number for people: four digits, with a letter for thousands, millions and milliards.
pub fn short(value: f64) -> String {
    let size = value.abs();
    let (by, letter) = match size {
        _ if size >= 1e9 => (1e9, "G"),
        _ if size >= 1e6 => (1e6, "M"),
        _ if size >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let value = value / by;
    let digits = if value.abs() >= 100.0 { 1 } else { 2 };
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{letter}")
}
