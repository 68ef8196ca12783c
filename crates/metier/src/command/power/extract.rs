//! `metier power extract`: makes a table from a query response.

use std::path::PathBuf;

use clap::Args;
use metier_power::extract::{self, ExtractSettings, ExtractedFrame};
use metier_power::frame::FeatureFrame;
use metier_power::kepler_terms::{EnergySource, FeatureGroup, OutputType};
use metier_power::response::KeplerResponse;
use serde_json::json;

use super::power_files::DataFolder;
use super::shared_args::{self, PathArgs, RowArgs};
use crate::command::CommandContext;
use crate::exit::{CliExitCode, usage_error};
use crate::output::{self, DataFormat, TableCell, TextTable};

const EXAMPLES: &str = "Examples:
  metier power extract -i idle -o node -e acpi --feature-group BPFOnly            extracted_node.csv, extracted_node_raw.csv
  metier power extract -i idle -o work --output-type DynPower --extractor smooth  rows of single containers";

/// Make a table of features and watts from a query response
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct PowerExtractArgs {
    #[command(flatten)]
    pub of: ExtractTableArgs,
    #[command(flatten)]
    pub rows: RowArgs,
    #[command(flatten)]
    pub paths: PathArgs,
}

/// Selects the table.
#[derive(Debug, Args)]
pub struct ExtractTableArgs {
    /// Query response: `NAME` or `NAME.json`
    #[arg(short, long, value_name = "NAME")]
    pub input: String,
    /// Energy source
    #[arg(short, long, value_name = "SOURCE", default_value = "rapl-sysfs", value_parser = shared_args::parse_source)]
    pub energy_source: EnergySource,
    /// Feature group [default: the first group that the response has completely]
    #[arg(long, value_name = "GROUP")]
    pub feature_group: Option<FeatureGroup>,
    /// AbsPower: rows of the node; DynPower: rows of single containers
    #[arg(long, value_name = "TYPE", default_value = "AbsPower")]
    pub output_type: OutputType,
}

/// A table and its selection.
pub struct ExtractedTable {
    pub group: FeatureGroup,
    pub extracted: ExtractedFrame,
    pub files: Vec<PathBuf>,
}

impl ExtractTableArgs {
    /// The requested group, or the first complete one.
    fn choose_group(&self, response: &KeplerResponse, vm: bool) -> anyhow::Result<FeatureGroup> {
        let whole = extract::groups(response, vm);
        let names: Vec<&str> = whole.iter().map(|group| group.name()).collect();
        match self.feature_group {
            Some(group) if whole.contains(&group) => Ok(group),
            Some(group) if group.features().is_empty() => Err(usage_error(format!(
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
                    true => suggest_series_kind(response, vm),
                    false => format!("one of: {}", names.join(", ")),
                };
                let (input, missing, name) = (&self.input, missing.join(", "), group.name());
                Err(usage_error(format!(
                    "--feature-group {name}: --input {input} has no {missing}; want {want}"
                )))
            }
            None => whole.first().copied().ok_or_else(|| {
                let (input, want) = (&self.input, suggest_series_kind(response, vm));
                usage_error(format!("--input {input}: has all metrics of no feature group; want {want}"))
            }),
        }
    }

    /// Makes the table and writes it.
    pub fn extract_table(
        &self,
        rows: &RowArgs,
        data: &DataFolder,
        out: &str,
        by_container: bool,
    ) -> anyhow::Result<ExtractedTable> {
        let response = data.read_response("--input", &self.input)?;
        let group = self.choose_group(&response, rows.vm_train)?;
        let settings = ExtractSettings {
            by_container,
            vm: rows.vm_train,
            extractor: rows.extractor,
            ..ExtractSettings::new(self.energy_source, group)
        };
        let extracted = extract::extract(&response, &settings)
            .map_err(|error| usage_error(format!("--input {}: {error}", self.input)))?;
        if extracted.frame.is_empty() {
            let why = "features and power have no time in common, or too few samples";
            return Err(usage_error(format!("--input {}: the table has no rows: {why}", self.input)));
        }
        let stem = out.strip_suffix(".csv").unwrap_or(out);
        let raw = raw_counter_frame(&response, group, rows.vm_train)?;
        let files = vec![
            data.write_table(&format!("extracted_{stem}"), &extracted.frame)?,
            data.write_table(&format!("extracted_{stem}_raw"), &raw)?,
        ];
        Ok(ExtractedTable { group, extracted, files })
    }
}

/// Suggestion for a response without a complete group: the other kind of series, if it has one.
fn suggest_series_kind(response: &KeplerResponse, vm: bool) -> String {
    let is_whole = !extract::groups(response, !vm).is_empty();
    match (vm, is_whole) {
        (false, true) => "--vm-train: its series are of virtual machines".to_string(),
        (true, true) => "no --vm-train: its series are of containers".to_string(),
        (false, false) => "kepler_container_…_total of one group".to_string(),
        (true, false) => "kepler_process_…_total of one group".to_string(),
    }
}

/// The first feature of the group as an accumulated counter.
fn raw_counter_frame(
    response: &KeplerResponse,
    group: FeatureGroup,
    vm: bool,
) -> anyhow::Result<FeatureFrame> {
    let mut sums: std::collections::BTreeMap<u64, f64> = std::collections::BTreeMap::new();
    let name = extract::metric(group.features().first().copied().unwrap_or_default(), vm);
    for series in response.metric(&name) {
        for (time, value) in series.samples.iter().filter(|(time, _)| *time >= 0.0) {
            *sums.entry(time.to_bits()).or_default() += value;
        }
    }
    let mut frame = FeatureFrame::new(sums.keys().map(|time| f64::from_bits(*time)).collect(), None)?;
    frame.set(&name, sums.into_values().collect())?;
    Ok(frame)
}

impl PowerExtractArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let by_container = self.of.output_type == OutputType::DynPower;
        let made =
            self.of.extract_table(&self.rows, &self.paths.data_folder(), &self.paths.out, by_container)?;
        print_table(context, "extract", &self.of, &made, &made.extracted.frame)?;
        Ok(CliExitCode::OK)
    }
}

/// Prints a summary of a table.
pub fn print_table(
    context: &CommandContext,
    command: &str,
    of: &ExtractTableArgs,
    made: &ExtractedTable,
    frame: &FeatureFrame,
) -> anyhow::Result<()> {
    let console = &context.console;
    let columns: Vec<ColumnSummary> =
        frame.names().filter_map(|name| ColumnSummary::summarise(frame, name, &made.extracted)).collect();
    let files: Vec<String> = made.files.iter().map(|path| path.display().to_string()).collect();
    let record = || {
        json!({
            "schema": "metier.power-table/1", "command": command, "files": files, "rows": frame.len(),
            "energy_source": of.energy_source.name(), "feature_group": made.group.name(), "output_type": of.output_type.name(),
            "columns": columns.iter().map(ColumnSummary::record).collect::<Vec<_>>(),
        })
    };
    match console.format {
        DataFormat::Json => console.write_data(|out| output::write_json(out, &record())),
        DataFormat::Yaml => console.write_data(|out| output::write_yaml(out, &record())),
        DataFormat::Csv => console.write_data(|out| Ok(frame.write_csv(out)?)),
        DataFormat::Table => {
            let mut table = TextTable::with_header(&["COLUMN", "LEAST", "MEAN", "MOST", "CORRELATION"]);
            for column in &columns {
                table.add_row(vec![
                    TableCell::text(&column.name),
                    TableCell::number(short_number(column.least)),
                    TableCell::number(short_number(column.mean)),
                    TableCell::number(short_number(column.most)),
                    TableCell::quantity(column.correlation.map(|value| format!("{value:.3}"))),
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

struct ColumnSummary {
    name: String,
    least: f64,
    mean: f64,
    most: f64,
    correlation: Option<f64>,
}

impl ColumnSummary {
    fn summarise(frame: &FeatureFrame, name: &str, extracted: &ExtractedFrame) -> Option<Self> {
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

/// Four significant digits with a suffix for thousands, millions and 10⁹.
pub fn short_number(value: f64) -> String {
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
