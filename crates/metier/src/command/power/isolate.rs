//! `metier power isolate`, `isolate-from-data`: tables without idle and background power.

use clap::Args;
use metier_power::extract::Extracted;
use metier_power::frame::Frame;
use metier_power::isolate::About;
use metier_power::training::{self, Known, Plan};
use metier_power::vocabulary::{FeatureGroup, OutputType, Source};

use super::extract::{Made, Of, show};
use super::files::Data;
use super::flags::{self, Isolation, Paths, Rows};
use crate::command::Room;
use crate::exit::{Code, usage};

const EXAMPLES: &str = "Examples:
  metier power isolate -i query -o work -e acpi --feature-group CounterOnly                        without the smallest power
  metier power isolate -i query -o work --isolator profile --profile idle                          without what idle says
  metier power isolate -i query -o work --isolator joint --target-hints stress                     idle, background and work told apart
  metier power isolate-from-data -i work -o work --isolator none --feature-group CounterOnly       from extracted_work.csv";

/// The same without idle and background power
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Isolate {
    #[command(flatten)]
    of: Of,
    #[command(flatten)]
    rows: Rows,
    #[command(flatten)]
    isolation: Isolation,
    #[command(flatten)]
    paths: Paths,
}

impl Isolate {
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let data = self.paths.data();
        let mut made = self.of.make(&self.rows, &data, &self.paths.out, true)?;
        let about = About { source: self.of.energy_source, group: made.group };
        let frame = isolated(&made.extracted.frame, about, &self.isolation, &data)?;
        let stem = self.paths.out.strip_suffix(".csv").unwrap_or(&self.paths.out);
        made.files.push(data.write_table(&format!("isolated_{stem}"), &frame)?);
        show(room, "isolate", &self.of, &made, &frame)?;
        Ok(Code::OK)
    }
}

/// Take idle and background power out of a table of `extract`
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct FromData {
    /// Table of `extract --output-type DynPower`: `extracted_NAME.csv`
    #[arg(short, long, value_name = "NAME")]
    input: String,
    /// Where energy was read
    #[arg(short, long, value_name = "SOURCE", default_value = "rapl-sysfs", value_parser = flags::source)]
    energy_source: Source,
    /// Which features [default: those of the table]
    #[arg(long, value_name = "GROUP")]
    feature_group: Option<FeatureGroup>,
    #[command(flatten)]
    isolation: Isolation,
    #[command(flatten)]
    paths: Paths,
}

impl FromData {
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let data = self.paths.data();
        let name = match self.input.starts_with("extracted_") {
            true => self.input.clone(),
            false => format!("extracted_{}", self.input),
        };
        let extracted = data.table("--input", &name)?;
        let group = flags::group_of(&extracted, self.feature_group, &self.input)?;
        let about = About { source: self.energy_source, group };
        training::check(&extracted, about.source, about.group)
            .map_err(|error| usage(format!("--input {}: {error}", self.input)))?;
        let frame = isolated(&extracted, about, &self.isolation, &data)?;
        let stem = self.paths.out.strip_suffix(".csv").unwrap_or(&self.paths.out);
        let files = vec![data.write_table(&format!("isolated_{stem}"), &frame)?];
        let made = Made { group, extracted: Extracted { frame: extracted, correlations: Vec::new() }, files };
        let of = Of {
            input: self.input.clone(),
            energy_source: self.energy_source,
            feature_group: Some(group),
            output_type: OutputType::DynPower,
        };
        show(room, "isolate-from-data", &of, &made, &frame)?;
        Ok(Code::OK)
    }
}

/// Has the isolator do it.
fn isolated(frame: &Frame, about: About, isolation: &Isolation, data: &Data) -> anyhow::Result<Frame> {
    let (idle, judges) = (isolation.idle(data)?, isolation.judges(data)?);
    let plan = Plan {
        isolator: isolation.isolator,
        hints: isolation.hints(),
        ..Plan::new("isolate", metier_types::Timestamp::now())
    };
    let known = Known { idle: idle.as_ref(), judges: judges.as_ref() };
    let name = isolation.isolator.name();
    let made = training::isolated(frame, about, known, &plan)
        .map_err(|error| usage(format!("--isolator {name}: {error}")))?;
    match made.filter(|frame| !frame.is_empty()) {
        Some(frame) => Ok(frame),
        None => Err(usage(format!(
            "--isolator {name}: no rows are left; every container is background, or the profile or predictors do not fit the table"
        ))),
    }
}
