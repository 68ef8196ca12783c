//! `metier power train`, `train-from-data`: train predictors from responses and tables. Existing
//! results are reused.

use std::ops::ControlFlow;
use std::path::Path;

use clap::Args;
use metier_power::kepler_terms::{EnergySource, FeatureGroup, OutputType, PowerTrainer};
use metier_power::trainers::ComponentHeldOut;
use metier_power::training::{
    self, PipelinePlan, PowerTables, TrainingKnowledge, TrainingOutcome, TrainingStep,
};
use metier_types::UtcTimestamp;
use serde_json::{Value, json};

use super::shared_args::{self, IsolationArgs, MachineArgs, PathArgs, RowArgs};
use crate::command::CommandContext;
use crate::exit::{CliExitCode, usage_error};
use crate::output::{self, DataFormat, StreamPaint, TableCell, TextTable, csv_cell};

const EXAMPLES: &str = "Examples:
  metier power train -i kepler_query -p mine --id node1                             every group and all ten trainers, into mine/ and mine.zip
  metier power train -i day1,day2 -p mine -e rapl-sysfs,acpi --abs-trainers auto --dyn-trainers auto
  metier power train-from-data -i extracted_node -p mine -e acpi --feature-group CounterOnly --trainers auto,XgboostFitTrainer
The same command goes on where it was broken off, and learns again only from rows that are new.";

/// Default name of the pipeline, as in Kepler.
const DEFAULT_PIPELINE: &str = "std_v0.7.11";

/// Train a pipeline from query responses: every source, group and trainer
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct PowerTrainArgs {
    /// Query responses; the rows of several are combined
    #[arg(short, long, value_name = "NAME", value_delimiter = ',', required = true)]
    input: Vec<String>,
    /// Name of the pipeline, its folder and its zip
    #[arg(short, long, value_name = "NAME", default_value = DEFAULT_PIPELINE)]
    pipeline_name: String,
    /// Energy source
    #[arg(short, long, value_name = "SOURCE", value_delimiter = ',', default_value = "rapl-sysfs", value_parser = shared_args::parse_source)]
    energy_source: Vec<EnergySource>,
    /// Only these feature groups [default: all whose metrics the response has]
    #[arg(long, value_name = "GROUP", value_delimiter = ',')]
    feature_group: Vec<FeatureGroup>,
    /// Trainers of power with idle [default: all ten of Kepler; `auto` is metier's]
    #[arg(long, value_name = "TRAINER", value_delimiter = ',', value_parser = shared_args::parse_trainer)]
    abs_trainers: Option<Vec<PowerTrainer>>,
    /// Trainers of power without idle [default: all ten of Kepler]
    #[arg(long, value_name = "TRAINER", value_delimiter = ',', value_parser = shared_args::parse_trainer)]
    dyn_trainers: Option<Vec<PowerTrainer>>,
    #[command(flatten)]
    rows: RowArgs,
    #[command(flatten)]
    isolation: IsolationArgs,
    #[command(flatten)]
    which: MachineArgs,
    #[command(flatten)]
    learning: LearningArgs,
    #[command(flatten)]
    paths: PathArgs,
}

/// Options of training.
#[derive(Debug, Args)]
struct LearningArgs {
    /// Number of parallel trainings [default: one per core]
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    threads: usize,
    /// Hold out every fifth row for the errors, instead of whole time ranges
    #[arg(long)]
    hold_out_rows: bool,
}

impl LearningArgs {
    fn apply(&self, plan: &mut PipelinePlan) {
        plan.threads = self.threads;
        if self.hold_out_rows {
            plan.validation = metier_power::trainers::HoldOutMethod::Rows;
        }
    }
}

impl PowerTrainArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let data = self.paths.data_folder();
        let responses = self.input.iter().map(|name| data.read_response("--input", name));
        let responses: Vec<_> = responses.collect::<Result<_, _>>()?;
        let idle = self.isolation.load_idle(&data)?;
        let judges = self.isolation.load_abs_pipeline(&data)?;
        let machine = self.which.load_machine(&data)?;
        let every = || PowerTrainer::KEPLER.to_vec();
        let mut plan = PipelinePlan {
            extractor: self.rows.extractor,
            isolator: self.isolation.isolator,
            hints: self.isolation.hints(),
            sources: self.energy_source.clone(),
            groups: self.feature_group.clone(),
            abs_trainers: self.abs_trainers.clone().unwrap_or_else(every),
            dyn_trainers: self.dyn_trainers.clone().unwrap_or_else(every),
            vm: self.rows.vm_train,
            machine,
            ..PipelinePlan::new(&self.pipeline_name, UtcTimestamp::now())
        };
        self.learning.apply(&mut plan);
        plan.check().map_err(|error| usage_error(error.to_string()))?;
        let known = TrainingKnowledge { idle: idle.as_ref(), judges: judges.as_ref() };
        let outcome = with_progress(context, |progress| {
            training::train_from_responses(&responses, known, &plan, &data.0, progress)
        })?;
        if plan.machine.is_none() {
            context.console.note("metier: no --id: the rows are of node type 0, and the pipeline does not know which machine that is");
        }
        let arguments = json!({
            "input": self.input, "pipeline_name": plan.name, "extractor": plan.extractor.name(), "isolator": plan.isolator.name(),
            "energy_source": plan.sources.iter().map(|source| source.name()).collect::<Vec<_>>(),
            "abs_trainers": plan.abs_trainers.iter().map(|trainer| trainer.name()).collect::<Vec<_>>(),
            "dyn_trainers": plan.dyn_trainers.iter().map(|trainer| trainer.name()).collect::<Vec<_>>(),
            "id": self.which.id, "vm_train": plan.vm,
        });
        data.write_file(&outcome.folder.join("train_arguments.json"), arguments.to_string().as_bytes())?;
        pack_and_print(context, &outcome)
    }
}

/// Train predictors of one group from one table
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct TrainTableArgs {
    /// Table of `extract` or `isolate`: `NAME` or `NAME.csv`
    #[arg(short, long, value_name = "NAME")]
    input: String,
    /// Name of the pipeline, its folder and its zip
    #[arg(short, long, value_name = "NAME", default_value = DEFAULT_PIPELINE)]
    pipeline_name: String,
    /// Energy source
    #[arg(short, long, value_name = "SOURCE", default_value = "rapl-sysfs", value_parser = shared_args::parse_source)]
    energy_source: EnergySource,
    /// Feature group [default: that of the table]
    #[arg(long, value_name = "GROUP")]
    feature_group: Option<FeatureGroup>,
    /// Power with idle (AbsPower) or without (DynPower)
    #[arg(long, value_name = "TYPE", default_value = "AbsPower")]
    output_type: OutputType,
    /// Trainers
    #[arg(long, value_name = "TRAINER", value_delimiter = ',', default_value = "XgboostFitTrainer", value_parser = shared_args::parse_trainer)]
    trainers: Vec<PowerTrainer>,
    #[command(flatten)]
    which: MachineArgs,
    #[command(flatten)]
    learning: LearningArgs,
    #[command(flatten)]
    paths: PathArgs,
}

impl TrainTableArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let data = self.paths.data_folder();
        let frame = data.read_table("--input", &self.input)?;
        let group = shared_args::choose_group(&frame, self.feature_group, &self.input)?;
        training::check(&frame, self.energy_source, group)
            .map_err(|error| usage_error(format!("--input {}: {error}", self.input)))?;
        let mut plan = PipelinePlan {
            sources: vec![self.energy_source],
            groups: vec![group],
            abs_trainers: Vec::new(),
            dyn_trainers: Vec::new(),
            machine: self.which.load_machine(&data)?,
            ..PipelinePlan::new(&self.pipeline_name, UtcTimestamp::now())
        };
        match self.output_type {
            OutputType::AbsPower => plan.abs_trainers = self.trainers.clone(),
            OutputType::DynPower => plan.dyn_trainers = self.trainers.clone(),
        }
        self.learning.apply(&mut plan);
        plan.check().map_err(|error| usage_error(error.to_string()))?;
        let mut table =
            training::PowerTable { source: self.energy_source, output_type: self.output_type, group, frame };
        if plan.machine.is_some() {
            let node_type = training::join(&data.0.join(&plan.name), plan.machine.as_ref())?;
            let rows = table.frame.len();
            table.frame.set("node_type", vec![f64::from(node_type); rows])?;
        }
        let tables = PowerTables { list: vec![table], warnings: Vec::new() };
        let outcome =
            with_progress(context, |progress| training::train_pipeline(&tables, &plan, &data.0, progress))?;
        pack_and_print(context, &outcome)
    }
}

/// Trains with a progress bar.
pub fn with_progress<T>(
    context: &CommandContext,
    learn: impl FnOnce(&mut dyn FnMut(TrainingStep<'_>) -> ControlFlow<()>) -> Result<T, metier_power::Error>,
) -> anyhow::Result<T> {
    let mut steps = None;
    let learned = learn(&mut |step| {
        steps
            .get_or_insert_with(|| context.console.step_progress(step.of as u64, "predictors", "learned"))
            .advance();
        ControlFlow::Continue(())
    });
    if let Some(steps) = steps {
        steps.finish();
    }
    Ok(learned?)
}

/// Packs the pipeline and prints its predictors.
pub fn pack_and_print(context: &CommandContext, outcome: &TrainingOutcome) -> anyhow::Result<CliExitCode> {
    let mut zip = outcome.folder.as_os_str().to_owned();
    zip.push(".zip");
    let zip = Path::new(&zip);
    metier_power::pipeline::pack_file(&outcome.folder, zip)?;
    for warning in &outcome.warnings {
        context.console.warn(warning);
    }
    // The pipeline is complete without a store.
    match context.writable_store().and_then(super::pipeline_recorder) {
        Ok(recorder) => recorder.record_aside(&outcome.folder),
        Err(error) => context.console.warn(format!("`metier predictors` does not list it: {error}")),
    }
    let console = &context.console;
    let entries = &outcome.entries;
    match console.format {
        DataFormat::Json => {
            console.write_data(|out| output::write_json(out, &outcome_record(outcome, zip)))?
        }
        DataFormat::Yaml => {
            console.write_data(|out| output::write_yaml(out, &outcome_record(outcome, zip)))?
        }
        DataFormat::Csv => {
            let header = [
                "source",
                "output_type",
                "feature_group",
                "model_name",
                "state",
                "rows",
                "component",
                "mae",
                "mape",
                "coverage",
            ];
            let row = |entry: &training::TrainedEntry, component_held_out: &ComponentHeldOut| {
                vec![
                    entry.source.name().to_string(),
                    entry.output_type.name().to_string(),
                    entry.group.name().to_string(),
                    entry.name.to_string(),
                    entry.state.name().to_string(),
                    entry.rows.to_string(),
                    component_held_out.component.name().to_string(),
                    component_held_out.mae.to_string(),
                    csv_cell(component_held_out.mape.map(|ratio| ratio * 100.0)),
                    csv_cell(component_held_out.coverage),
                ]
            };
            let rows = entries.iter().flat_map(|entry| entry.held_out.iter().map(move |out| row(entry, out)));
            console.write_data(|out| output::write_csv(out, header, rows))?;
        }
        DataFormat::Table => {
            let mut table = TextTable::with_header(&[
                "SOURCE",
                "TYPE",
                "FEATURES",
                "PREDICTOR",
                "COMPONENT",
                "MAE",
                "MAPE",
                "INSIDE 90 %",
                "ROWS",
                "STATE",
            ]);
            // One line per component, largest error first, so that each figure belongs to its
            // line's component.
            for (entry, out) in entries.iter().flat_map(|entry| {
                entry.held_out.iter().map(move |component_held_out| (entry, component_held_out))
            }) {
                table.add_row(vec![
                    TableCell::text(entry.source.name()),
                    TableCell::text(entry.output_type.name()),
                    TableCell::text(entry.group.name()),
                    TableCell::text(entry.name.to_string()),
                    TableCell::text(out.component.name()),
                    TableCell::number(format!("{:.2} W", out.mae)),
                    TableCell::quantity(out.mape.map(|ratio| format!("{:.2} %", ratio * 100.0))),
                    TableCell::quantity(out.coverage.map(|share| format!("{:.1} %", share * 100.0))),
                    TableCell::number(entry.rows.to_string()),
                    TableCell::text(entry.state.name()).styled(StreamPaint::dim),
                ]);
            }
            console.print(&table.render(console.paint))?;
            console.note(format!("{} and {}", outcome.folder.display(), zip.display()));
        }
    }
    Ok(CliExitCode::OK)
}

fn outcome_record(outcome: &TrainingOutcome, zip: &Path) -> Value {
    json!({
        "schema": "metier.power-training/1", "folder": outcome.folder.display().to_string(), "zip": zip.display().to_string(),
        "predictors": outcome.entries.iter().map(training::TrainedEntry::record).collect::<Vec<_>>(), "warnings": outcome.warnings,
    })
}
