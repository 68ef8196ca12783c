//! `metier power isolate`, `isolate-from-data`: tables without idle and background power.

use clap::Args;
use metier_power::extract::ExtractedFrame;
use metier_power::frame::FeatureFrame;
use metier_power::isolate::TableSubject;
use metier_power::kepler_terms::{EnergySource, FeatureGroup, OutputType};
use metier_power::training::{self, PipelinePlan, TrainingKnowledge};

use super::extract::{ExtractTableArgs, ExtractedTable, print_table};
use super::power_files::DataFolder;
use super::shared_args::{self, IsolationArgs, PathArgs, RowArgs};
use crate::command::CommandContext;
use crate::exit::{CliExitCode, usage_error};

const EXAMPLES: &str = "Examples:
  metier power isolate -i query -o work -e acpi --feature-group CounterOnly                        without the smallest power
  metier power isolate -i query -o work --isolator profile --profile idle                          without what idle says
  metier power isolate -i query -o work --isolator joint --target-hints stress                     separates idle, background and work
  metier power isolate-from-data -i work -o work --isolator none --feature-group CounterOnly       from extracted_work.csv";

/// Like extract, without idle and background power
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct PowerIsolateArgs {
    #[command(flatten)]
    of: ExtractTableArgs,
    #[command(flatten)]
    rows: RowArgs,
    #[command(flatten)]
    isolation: IsolationArgs,
    #[command(flatten)]
    paths: PathArgs,
}

impl PowerIsolateArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let data = self.paths.data_folder();
        let mut made = self.of.extract_table(&self.rows, &data, &self.paths.out, true)?;
        let about = TableSubject { source: self.of.energy_source, group: made.group };
        let frame = isolate_frame(&made.extracted.frame, about, &self.isolation, &data)?;
        let stem = self.paths.out.strip_suffix(".csv").unwrap_or(&self.paths.out);
        made.files.push(data.write_table(&format!("isolated_{stem}"), &frame)?);
        print_table(context, "isolate", &self.of, &made, &frame)?;
        Ok(CliExitCode::OK)
    }
}

/// Remove idle and background power from a table of `extract`
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct IsolateTableArgs {
    /// Table of `extract --output-type DynPower`: `extracted_NAME.csv`
    #[arg(short, long, value_name = "NAME")]
    input: String,
    /// Energy source
    #[arg(short, long, value_name = "SOURCE", default_value = "rapl-sysfs", value_parser = shared_args::parse_source)]
    energy_source: EnergySource,
    /// Feature group [default: that of the table]
    #[arg(long, value_name = "GROUP")]
    feature_group: Option<FeatureGroup>,
    #[command(flatten)]
    isolation: IsolationArgs,
    #[command(flatten)]
    paths: PathArgs,
}

impl IsolateTableArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let data = self.paths.data_folder();
        let name = match self.input.starts_with("extracted_") {
            true => self.input.clone(),
            false => format!("extracted_{}", self.input),
        };
        let extracted = data.read_table("--input", &name)?;
        let group = shared_args::choose_group(&extracted, self.feature_group, &self.input)?;
        let about = TableSubject { source: self.energy_source, group };
        training::check(&extracted, about.source, about.group)
            .map_err(|error| usage_error(format!("--input {}: {error}", self.input)))?;
        let frame = isolate_frame(&extracted, about, &self.isolation, &data)?;
        let stem = self.paths.out.strip_suffix(".csv").unwrap_or(&self.paths.out);
        let files = vec![data.write_table(&format!("isolated_{stem}"), &frame)?];
        let made = ExtractedTable {
            group,
            extracted: ExtractedFrame { frame: extracted, correlations: Vec::new() },
            files,
        };
        let of = ExtractTableArgs {
            input: self.input.clone(),
            energy_source: self.energy_source,
            feature_group: Some(group),
            output_type: OutputType::DynPower,
        };
        print_table(context, "isolate-from-data", &of, &made, &frame)?;
        Ok(CliExitCode::OK)
    }
}

/// Runs the isolator.
fn isolate_frame(
    frame: &FeatureFrame,
    about: TableSubject,
    isolation: &IsolationArgs,
    data: &DataFolder,
) -> anyhow::Result<FeatureFrame> {
    let (idle, judges) = (isolation.load_idle(data)?, isolation.load_abs_pipeline(data)?);
    let plan = PipelinePlan {
        isolator: isolation.isolator,
        hints: isolation.hints(),
        ..PipelinePlan::new("isolate", metier_types::UtcTimestamp::now())
    };
    let known = TrainingKnowledge { idle: idle.as_ref(), judges: judges.as_ref() };
    let name = isolation.isolator.name();
    let made = training::isolate_power(frame, about, known, &plan)
        .map_err(|error| usage_error(format!("--isolator {name}: {error}")))?;
    match made.filter(|frame| !frame.is_empty()) {
        Some(frame) => Ok(frame),
        None => Err(usage_error(format!(
            "--isolator {name}: no rows are left; every container is background, or the profile or predictors do not fit the table"
        ))),
    }
}
