//! `metier power train`, `train-from-data`: predictors from responses and tables. What is there already is not learned again.

use std::ops::ControlFlow;
use std::path::Path;

use clap::Args;
use metier_power::trainers::HeldOut;
use metier_power::training::{self, Known, Outcome, Plan, Step, Tables};
use metier_power::vocabulary::{FeatureGroup, OutputType, Source, Trainer};
use metier_types::Timestamp;
use serde_json::{Value, json};

use super::flags::{self, Isolation, Paths, Rows, Which};
use crate::command::Room;
use crate::exit::{Code, usage};
use crate::output::{self, Cell, Format, Paint, Table, plain};

const EXAMPLES: &str = "Examples:
  metier power train -i kepler_query -p mine --id node1                             every group and all ten trainers, into mine/ and mine.zip
  metier power train -i day1,day2 -p mine -e rapl-sysfs,acpi --abs-trainers auto --dyn-trainers auto
  metier power train-from-data -i extracted_node -p mine -e acpi --feature-group CounterOnly --trainers auto,XgboostFitTrainer
The same command goes on where it was broken off, and learns again only from rows that are new.";

/// The pipeline's name where none is given, as the original has it.
const PIPELINE: &str = "std_v0.7.11";

/// Learn a pipeline from query responses: every source, group and trainer
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Train {
    /// Query responses; the rows of several are learned from together
    #[arg(short, long, value_name = "NAME", value_delimiter = ',', required = true)]
    input: Vec<String>,
    /// Name of the pipeline, which becomes a folder and a zip
    #[arg(short, long, value_name = "NAME", default_value = PIPELINE)]
    pipeline_name: String,
    /// Where energy was read
    #[arg(short, long, value_name = "SOURCE", value_delimiter = ',', default_value = "rapl-sysfs", value_parser = flags::source)]
    energy_source: Vec<Source>,
    /// Only these groups [default: all that the response has all metrics of]
    #[arg(long, value_name = "GROUP", value_delimiter = ',')]
    feature_group: Vec<FeatureGroup>,
    /// Who learns power with idle [default: all ten of Kepler; `auto` is ours]
    #[arg(long, value_name = "TRAINER", value_delimiter = ',', value_parser = flags::trainer)]
    abs_trainers: Option<Vec<Trainer>>,
    /// Who learns power without idle [default: all ten of Kepler]
    #[arg(long, value_name = "TRAINER", value_delimiter = ',', value_parser = flags::trainer)]
    dyn_trainers: Option<Vec<Trainer>>,
    #[command(flatten)]
    rows: Rows,
    #[command(flatten)]
    isolation: Isolation,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    learning: Learning,
    #[command(flatten)]
    paths: Paths,
}

/// How learning is done.
#[derive(Debug, Args)]
struct Learning {
    /// How many learn at once [default: as many as there are cores]
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    threads: usize,
    /// Hold out every fifth row for the errors, and not whole stretches of time
    #[arg(long)]
    hold_out_rows: bool,
}

impl Learning {
    fn apply(&self, plan: &mut Plan) {
        plan.threads = self.threads;
        if self.hold_out_rows {
            plan.validation = metier_power::trainers::Validation::Rows;
        }
    }
}

impl Train {
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let data = self.paths.data();
        let responses = self.input.iter().map(|name| data.response("--input", name));
        let responses: Vec<_> = responses.collect::<Result<_, _>>()?;
        let idle = self.isolation.idle(&data)?;
        let judges = self.isolation.judges(&data)?;
        let machine = self.which.machine(&data)?;
        let every = || Trainer::KEPLER.to_vec();
        let mut plan = Plan {
            extractor: self.rows.extractor,
            isolator: self.isolation.isolator,
            hints: self.isolation.hints(),
            sources: self.energy_source.clone(),
            groups: self.feature_group.clone(),
            abs_trainers: self.abs_trainers.clone().unwrap_or_else(every),
            dyn_trainers: self.dyn_trainers.clone().unwrap_or_else(every),
            vm: self.rows.vm_train,
            machine,
            ..Plan::new(&self.pipeline_name, Timestamp::now())
        };
        self.learning.apply(&mut plan);
        plan.check().map_err(|error| usage(error.to_string()))?;
        let known = Known { idle: idle.as_ref(), judges: judges.as_ref() };
        let outcome = with_progress(room, |progress| {
            training::train_from_responses(&responses, known, &plan, &data.0, progress)
        })?;
        if plan.machine.is_none() {
            room.console.note("metier: no --id: the rows are of node type 0, and the pipeline does not know which machine that is");
        }
        let arguments = json!({
            "input": self.input, "pipeline_name": plan.name, "extractor": plan.extractor.name(), "isolator": plan.isolator.name(),
            "energy_source": plan.sources.iter().map(|one| one.name()).collect::<Vec<_>>(),
            "abs_trainers": plan.abs_trainers.iter().map(|one| one.name()).collect::<Vec<_>>(),
            "dyn_trainers": plan.dyn_trainers.iter().map(|one| one.name()).collect::<Vec<_>>(),
            "id": self.which.id, "vm_train": plan.vm,
        });
        data.write(&outcome.folder.join("train_arguments.json"), arguments.to_string().as_bytes())?;
        finish(room, &outcome)
    }
}

/// Learn predictors of one group from one table
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct FromData {
    /// Table of `extract` or `isolate`: `NAME` or `NAME.csv`
    #[arg(short, long, value_name = "NAME")]
    input: String,
    /// Name of the pipeline, which becomes a folder and a zip
    #[arg(short, long, value_name = "NAME", default_value = PIPELINE)]
    pipeline_name: String,
    /// Where energy was read
    #[arg(short, long, value_name = "SOURCE", default_value = "rapl-sysfs", value_parser = flags::source)]
    energy_source: Source,
    /// Which features [default: those of the table]
    #[arg(long, value_name = "GROUP")]
    feature_group: Option<FeatureGroup>,
    /// Whether idle power is part of it
    #[arg(long, value_name = "TYPE", default_value = "AbsPower")]
    output_type: OutputType,
    /// Who learns
    #[arg(long, value_name = "TRAINER", value_delimiter = ',', default_value = "XgboostFitTrainer", value_parser = flags::trainer)]
    trainers: Vec<Trainer>,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    learning: Learning,
    #[command(flatten)]
    paths: Paths,
}

impl FromData {
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let data = self.paths.data();
        let frame = data.table("--input", &self.input)?;
        let group = flags::group_of(&frame, self.feature_group, &self.input)?;
        training::check(&frame, self.energy_source, group)
            .map_err(|error| usage(format!("--input {}: {error}", self.input)))?;
        let mut plan = Plan {
            sources: vec![self.energy_source],
            groups: vec![group],
            abs_trainers: Vec::new(),
            dyn_trainers: Vec::new(),
            machine: self.which.machine(&data)?,
            ..Plan::new(&self.pipeline_name, Timestamp::now())
        };
        match self.output_type {
            OutputType::AbsPower => plan.abs_trainers = self.trainers.clone(),
            OutputType::DynPower => plan.dyn_trainers = self.trainers.clone(),
        }
        self.learning.apply(&mut plan);
        plan.check().map_err(|error| usage(error.to_string()))?;
        let mut table =
            training::Table { source: self.energy_source, output_type: self.output_type, group, frame };
        if plan.machine.is_some() {
            let node_type = training::join(&data.0.join(&plan.name), plan.machine.as_ref())?;
            let rows = table.frame.len();
            table.frame.set("node_type", vec![f64::from(node_type); rows])?;
        }
        let tables = Tables { list: vec![table], warnings: Vec::new() };
        let outcome =
            with_progress(room, |progress| training::train_pipeline(&tables, &plan, &data.0, progress))?;
        finish(room, &outcome)
    }
}

/// Learns with a bar.
pub fn with_progress<T>(
    room: &Room,
    learn: impl FnOnce(&mut dyn FnMut(Step<'_>) -> ControlFlow<()>) -> Result<T, metier_power::Error>,
) -> anyhow::Result<T> {
    let mut steps = None;
    let learned = learn(&mut |step| {
        steps.get_or_insert_with(|| room.console.steps(step.of as u64, "predictors", "learned")).one();
        ControlFlow::Continue(())
    });
    if let Some(steps) = steps {
        steps.end();
    }
    Ok(learned?)
}

/// Packs the pipeline and says what was learned.
pub fn finish(room: &Room, outcome: &Outcome) -> anyhow::Result<Code> {
    let mut zip = outcome.folder.as_os_str().to_owned();
    zip.push(".zip");
    let zip = Path::new(&zip);
    metier_power::pipeline::pack_file(&outcome.folder, zip)?;
    for warning in &outcome.warnings {
        room.console.warn(warning);
    }
    // The pipeline is whole without a store.
    match room.writable_store().and_then(super::recorder) {
        Ok(recorder) => recorder.record_aside(&outcome.folder),
        Err(error) => room.console.warn(format!("`metier predictors` does not list it: {error}")),
    }
    let console = &room.console;
    let entries = &outcome.entries;
    match console.format {
        Format::Json => console.data(|out| output::json(out, &record(outcome, zip)))?,
        Format::Yaml => console.data(|out| output::yaml(out, &record(outcome, zip)))?,
        Format::Csv => {
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
            let row = |entry: &training::Entry, one: &HeldOut| {
                vec![
                    entry.source.name().to_string(),
                    entry.output_type.name().to_string(),
                    entry.group.name().to_string(),
                    entry.name.to_string(),
                    entry.state.name().to_string(),
                    entry.rows.to_string(),
                    one.component.name().to_string(),
                    one.mae.to_string(),
                    plain(one.mape.map(|ratio| ratio * 100.0)),
                    plain(one.coverage),
                ]
            };
            let rows = entries.iter().flat_map(|entry| entry.held_out.iter().map(move |one| row(entry, one)));
            console.data(|out| output::csv(out, &header, rows))?;
        }
        Format::Table => {
            let mut table = Table::with_header(&[
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
            // A line for each component, the worst first: no figure is of another component than its line says.
            for (entry, one) in
                entries.iter().flat_map(|entry| entry.held_out.iter().map(move |one| (entry, one)))
            {
                table.row(vec![
                    Cell::text(entry.source.name()),
                    Cell::text(entry.output_type.name()),
                    Cell::text(entry.group.name()),
                    Cell::text(entry.name.to_string()),
                    Cell::text(one.component.name()),
                    Cell::number(format!("{:.2} W", one.mae)),
                    Cell::quantity(one.mape.map(|ratio| format!("{:.2} %", ratio * 100.0))),
                    Cell::quantity(one.coverage.map(|share| format!("{:.1} %", share * 100.0))),
                    Cell::number(entry.rows.to_string()),
                    Cell::text(entry.state.name()).styled(Paint::dim),
                ]);
            }
            console.print(&table.render(console.paint))?;
            console.note(format!("{} and {}", outcome.folder.display(), zip.display()));
        }
    }
    Ok(Code::OK)
}

fn record(outcome: &Outcome, zip: &Path) -> Value {
    json!({
        "schema": "metier.power-training/1", "folder": outcome.folder.display().to_string(), "zip": zip.display().to_string(),
        "predictors": outcome.entries.iter().map(training::Entry::record).collect::<Vec<_>>(), "warnings": outcome.warnings,
    })
}
