//! `metier train`: trains predictors on this device.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use metier_infer::library;
use metier_linux::KernelRoots;
use metier_onnx::{ShapeBindings, TensorDimension};
use metier_predict::latency::conditions::{ONNX_RUNTIME, RTEN};
use metier_predict::latency::fit::{self, HeldOutPrediction, LatencyFit};
use metier_predict::latency::trial::{InferenceEngine, StressCoverage, TrialCampaign, UserGraph, collect};
use metier_predict::latency::{learned_predictor, memory, run_trials};
use metier_predict::lifecycle::standing;
use metier_predict::lifecycle::training_lock::TrainingLock;
use metier_store::RecordStore;
use metier_types::{Device, HeldOutError, Passport, Predictor, Ratio};

use super::CommandContext;
use super::inspect::BindingArgs;
use crate::config::data_folder;
use crate::exit::{CliExitCode, usage_error};
use crate::output::{self, BudgetProgress, DataFormat, StreamPaint, TableCell as Field, TextTable};
use crate::time;

const EXAMPLES: &str = "Examples:
  metier train latency                                 ten minutes of trials, then train
  metier train latency --graphs *.onnx                 your own graphs are timed first
  metier train latency --budget 0s                     train on earlier trials only
  metier train latency --from-runs                     train on earlier trials and new runs of `metier bench`
  metier train latency --runtime onnxruntime           the predictor of ONNX Runtime
  metier train latency --threads 1,4 --load            with four threads too, and under load";

/// Train predictors on this device
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct TrainArgs {
    #[command(subcommand)]
    what: TrainCommand,
}

#[derive(Debug, Subcommand)]
enum TrainCommand {
    /// Train the latency predictor of this device
    Latency(TrainLatencyArgs),
}

/// Train the latency predictor of this device
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
struct TrainLatencyArgs {
    /// Time for trials; the results of earlier trials are used too
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    budget: String,
    /// Runtime: rten or onnxruntime; each has its own predictor
    #[arg(long, value_name = "RUNTIME", default_value = "rten")]
    runtime: String,
    /// ONNX Runtime's shared library [METIER_ONNXRUNTIME, ORT_DYLIB_PATH; default the usual places]
    #[arg(long, value_name = "FILE")]
    onnxruntime: Option<PathBuf>,
    /// Numbers of threads [default: 1 and all of this device]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    threads: Vec<u32>,
    /// Your own graphs, timed before generated ones; only they give a held-out error
    #[arg(long, value_name = "FILE", num_args = 1..)]
    graphs: Vec<PathBuf>,
    #[command(flatten)]
    binding: BindingArgs,
    /// Graphs with shapes, as a JSON list of {graph, shapes, values}; in addition to --graphs
    #[arg(long, value_name = "FILE")]
    points: Option<PathBuf>,
    /// Time the graphs under processor and memory load, too; generated networks are at times anyway
    #[arg(long)]
    load: bool,
    /// Generate no load; the predictor then assumes a fair share of the processors under load
    #[arg(long, conflicts_with = "load")]
    no_load: bool,
    /// Time known graphs once more, to learn how far two measurements differ
    #[arg(long)]
    remeasure: bool,
    /// Generate no networks; time only the given graphs
    #[arg(long)]
    only_graphs: bool,
    /// Run no trials; train on earlier trials and all runs of `metier bench`, including runs left
    /// out before
    #[arg(long, conflicts_with_all = ["budget", "graphs", "points", "load", "remeasure", "no_learn"])]
    from_runs: bool,
    /// Run trials only, without training
    #[arg(long)]
    no_learn: bool,
    /// Write the held-out predictions as CSV
    #[arg(long, value_name = "FILE")]
    held_out: Option<PathBuf>,
}

impl TrainArgs {
    /// Trains the requested predictor.
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        match &self.what {
            TrainCommand::Latency(latency) => latency.run(context),
        }
    }
}

/// The engine of a runtime. ONNX Runtime's library is the given one, else one in the usual places.
fn find_engine(name: &str, given: Option<&Path>) -> anyhow::Result<InferenceEngine> {
    match name {
        RTEN => Ok(InferenceEngine::Rten),
        ONNX_RUNTIME => {
            let found = library::find_library(given, |name| std::env::var_os(name));
            let found =
                found.ok_or_else(|| anyhow::anyhow!("ONNX Runtime was not found; {}", library::FIX))?;
            Ok(InferenceEngine::OnnxRuntime(std::path::absolute(found)?))
        }
        other => Err(usage_error(format!("--runtime is {other:?}; want {RTEN} or {ONNX_RUNTIME}"))),
    }
}

impl TrainLatencyArgs {
    fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let budget = time::parse_duration(&self.budget)
            .filter(|budget| *budget <= Duration::from_secs(86_400))
            .ok_or_else(|| {
                usage_error(format!(
                    "--budget is {:?}; want a time such as 90s or 10m, at most a day",
                    self.budget
                ))
            })?;
        crate::allocator::tune_for_inference();
        let budget = if self.from_runs { Duration::ZERO } else { budget };
        let engine = match self.from_runs && self.runtime == ONNX_RUNTIME {
            // No graph runs, so the library may be missing.
            true => InferenceEngine::OnnxRuntime(PathBuf::new()),
            false => find_engine(&self.runtime, self.onnxruntime.as_deref())?,
        };
        if let Some(odd) = self.threads.iter().find(|threads| !(1..=1024).contains(*threads)) {
            return Err(usage_error(format!("--threads has {odd}; want numbers from 1 to 1024")));
        }
        let graphs = self.load_given_graphs()?;
        let store = context.writable_store()?;
        let roots = KernelRoots::default();
        let device = metier_device::identity::identify_device(&roots, data_folder().as_deref())?;
        store.put_device(&device)?;
        let passport = Some(super::predict::own_passport(&store, &roots, device.clone())?);
        let threads = match self.threads.as_slice() {
            // Callers use all threads by default. One thread gives the most training points per
            // time.
            [] if device.cpu.threads > 1 => vec![1, device.cpu.threads],
            [] => vec![1],
            given => given.to_vec(),
        };
        add_run_points(context, &store, &device, self.from_runs)?;
        if self.from_runs {
            return self.fit_and_print(context, &store, &device, passport, engine.name());
        }
        // Every point is stored as it is measured; an interruption loses none.
        let is_stopped = || false;
        let campaign = TrialCampaign {
            store: &store,
            device: &device.id,
            cores: device.cpu.threads,
            engine: engine.clone(),
            threads: &threads,
            budget,
            graphs: &graphs,
            load: match (self.load, self.no_load) {
                (true, _) => StressCoverage::All,
                (_, true) => StressCoverage::None,
                _ => StressCoverage::Some,
            },
            again: self.remeasure,
            only_graphs: self.only_graphs,
            is_stopped: &is_stopped,
        };
        // Other training of this device waits until the lock is released.
        let lock = TrainingLock::acquire(&store, &device, learned_predictor::KIND)?;
        let bar = BudgetProgress::new(budget, context.console.quiet);
        let done = collect(&campaign, &mut |progress| {
            bar.report(&format!("{} points, last {}", progress.points, progress.last));
        });
        let took = bar.finish();
        drop(lock);
        let done = done?;
        if !budget.is_zero() {
            let disturbed = match done.failed {
                0 => String::new(),
                failed => {
                    format!("; {failed} made-up networks more were disturbed by others or cannot run here")
                }
            };
            context.console.note(format!("{} points in {took}{disturbed}", done.points));
        }
        for (name, why) in &done.refused {
            context.console.warn(format!("{name} was not timed: {why}"));
        }
        // Refused graphs make the exit code PARTIAL; training uses the rest.
        let code = if done.refused.is_empty() { CliExitCode::OK } else { CliExitCode::PARTIAL };
        if self.no_learn {
            return Ok(code);
        }
        self.fit_and_print(context, &store, &device, passport, engine.name())?;
        Ok(code)
    }

    fn fit_and_print(
        &self,
        context: &CommandContext,
        store: &RecordStore,
        device: &Device,
        passport: Option<Passport>,
        runtime: &str,
    ) -> anyhow::Result<CliExitCode> {
        if let Some(record) = memory::fit(store, device, runtime)? {
            let because = standing::reason(&record).unwrap_or_default();
            context.console.note(format!("memory: learned from {}; {because}", record.provenance));
        }
        let fitted = fit::fit(store, device, passport, runtime)?;
        if let Some(path) = &self.held_out {
            write_held_out_csv(path, &fitted.rows)?;
        }
        print_fitted(context, &fitted)?;
        Ok(CliExitCode::OK)
    }

    fn load_given_graphs(&self) -> anyhow::Result<Vec<UserGraph>> {
        let bindings = self.binding.bindings()?;
        let mut all = self
            .graphs
            .iter()
            .map(|path| {
                let bytes = self.binding.read_graph(path)?;
                let mut own = bindings.clone();
                let model = self.binding.name_file_in_error(
                    path,
                    metier_onnx::read_onnx(&bytes, &metier_onnx::OnnxLimits::default()),
                )?;
                // Drops shapes that belong to another graph of the list.
                let has = |name: &String| model.graph.inputs.iter().any(|input| input.name == *name);
                own.shapes.retain(|name, _| has(name));
                own.values.retain(|name, _| has(name));
                let dims = || model.graph.inputs.iter().flat_map(|input| input.shape.iter().flatten());
                own.dims.retain(|name, _| {
                    dims().any(|dim| matches!(dim, TensorDimension::Named(text) if text == name))
                });
                Ok(UserGraph {
                    name: file_stem(path)?,
                    path: path.clone(),
                    bytes: Arc::new(bytes),
                    bindings: own,
                })
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        if let Some(path) = &self.points {
            all.extend(self.load_listed_points(path)?);
        }
        Ok(all)
    }

    /// Reads the points of a file; relative graph paths start at its folder.
    fn load_listed_points(&self, path: &Path) -> anyhow::Result<Vec<UserGraph>> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let list: Vec<TrainingPointEntry> = serde_json::from_str(&text).map_err(|error| {
            usage_error(format!("{}: {error}; want a list of {{graph, shapes, values}}", path.display()))
        })?;
        let mut read: BTreeMap<PathBuf, Arc<Vec<u8>>> = BTreeMap::new();
        list.into_iter()
            .map(|entry| {
                let file = path.parent().unwrap_or(Path::new(".")).join(&entry.graph);
                let bytes = match read.get(&file) {
                    Some(bytes) => bytes.clone(),
                    None => {
                        let bytes = Arc::new(self.binding.read_graph(&file)?);
                        read.insert(file.clone(), bytes.clone());
                        bytes
                    }
                };
                let bindings =
                    ShapeBindings { shapes: entry.shapes, values: entry.values, ..ShapeBindings::default() };
                Ok(UserGraph { name: file_stem(&file)?, path: file, bytes, bindings })
            })
            .collect()
    }
}

/// One entry of `--points`.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct TrainingPointEntry {
    graph: PathBuf,
    #[serde(default)]
    shapes: BTreeMap<String, Vec<u64>>,
    #[serde(default)]
    values: BTreeMap<String, Vec<i64>>,
}

/// Writes the held-out predictions.
fn write_held_out_csv(path: &Path, rows: &[HeldOutPrediction]) -> anyhow::Result<()> {
    let mut file = std::fs::File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    let names: Vec<&str> =
        rows.first().map(|row| row.baselines.keys().copied().collect()).unwrap_or_default();
    let mut header = vec![
        "graph",
        "point",
        "threads",
        "loaded",
        "sharing",
        "cpu_load",
        "memory_load",
        "measured",
        "again",
        "predicted",
        "factor",
    ];
    header.extend(&names);
    let lines = rows.iter().map(|row| {
        let mut line = vec![
            row.name.clone(),
            row.graph.clone(),
            row.threads.to_string(),
            row.is_loaded.to_string(),
            row.pressure.sharing.to_string(),
            row.pressure.cpu.to_string(),
            row.pressure.memory.to_string(),
            row.measured.to_string(),
            output::csv_cell(row.again),
            row.predicted.to_string(),
            row.factor.to_string(),
        ];
        line.extend(names.iter().map(|name| output::csv_cell(row.baselines.get(name).copied())));
        line
    });
    output::write_csv(&mut file, header, lines)
}

/// Adds runs of `metier bench` to the training points.
fn add_run_points(
    context: &CommandContext,
    store: &RecordStore,
    device: &Device,
    again: bool,
) -> anyhow::Result<()> {
    let taken = run_trials::import_runs(store, &device.id, again)?;
    if taken.points > 0 || again {
        context.console.note(format!("{} runs of graphs were new", taken.points));
    }
    for (why, count) in taken.left_out.iter().filter(|_| again) {
        context.console.note(format!("{count} runs were left out: {why}"));
    }
    // Imported runs add training points of other devices.
    for other in store.devices()?.iter().filter(|other| other.id != device.id) {
        let taken = run_trials::import_runs(store, &other.id, again)?;
        if taken.points > 0 {
            context.console.note(format!("{} runs of graphs on {} were new", taken.points, other.name));
        }
    }
    Ok(())
}

fn file_stem(path: &Path) -> anyhow::Result<String> {
    let name = path.file_stem().and_then(|name| name.to_str());
    name.map(String::from).with_context(|| format!("{} has no name that can be written", path.display()))
}

fn print_fitted(context: &CommandContext, fitted: &LatencyFit) -> anyhow::Result<()> {
    let console = &context.console;
    match console.format {
        DataFormat::Json => console.write_data(|out| output::write_json(out, &fitted.record)),
        DataFormat::Yaml => console.write_data(|out| output::write_yaml(out, &fitted.record)),
        DataFormat::Csv => console.write_data(|out| {
            output::write_csv(out, CSV_COLUMNS, fitted.record.held_out.iter().map(held_out_row))
        }),
        DataFormat::Table => console.print(&predictor_sheet(&fitted.record, console.paint)),
    }
}

const CSV_COLUMNS: [&str; 7] =
    ["target", "rows", "graphs", "mean_error_ratio", "within_10_percent", "within_20_percent", "coverage"];

fn held_out_row(error: &HeldOutError) -> Vec<String> {
    let ratio = |value: Option<Ratio>| output::csv_cell(value.map(|value| value.get()));
    vec![
        error.target.clone(),
        error.rows.to_string(),
        error.groups.to_string(),
        ratio(error.mean_absolute_error_ratio),
        ratio(error.within_10_percent),
        ratio(error.within_20_percent),
        ratio(error.coverage),
    ]
}

/// A predictor as text.
pub fn predictor_sheet(record: &Predictor, paint: StreamPaint) -> String {
    let mut table = TextTable::default();
    let mut line = |label: &str, text: String| {
        table.add_row(vec![Field::text(label).styled(StreamPaint::dim), Field::text(text)])
    };
    line("predictor", record.id.to_string());
    line("of", format!("{} ({})", record.name, record.kind));
    line("learned", format!("{}, {}", time::local_time(record.made), record.provenance));
    let because = standing::reason(record).map(|why| format!(": {why}")).unwrap_or_default();
    line("standing", format!("{}{because}", output::serialised_word(&record.standing)));
    let mut text = table.render(paint);
    if record.held_out.is_empty() {
        text.push_str(
            "\nNothing could be held out, so how far off it is is not known; for latency --graphs gives graphs.\n",
        );
        return text;
    }
    let groups = record.held_out[0].held_out.to_uppercase();
    let mut table = TextTable::with_header(&[
        &format!("ON {groups} NOT SEEN"),
        "POINTS",
        &groups,
        "MEAN ERROR",
        "WITHIN 10 %",
        "WITHIN 20 %",
        "COVERAGE OF 90 %",
    ]);
    for held_out_error in &record.held_out {
        let mut cells = vec![
            Field::text(&held_out_error.target),
            Field::number(held_out_error.rows.to_string()),
            // Published power predictors do not include their number of rows.
            Field::number(if held_out_error.groups > 0 {
                held_out_error.groups.to_string()
            } else {
                String::new()
            }),
        ];
        for ratio in [
            held_out_error.mean_absolute_error_ratio,
            held_out_error.within_10_percent,
            held_out_error.within_20_percent,
            held_out_error.coverage,
        ] {
            cells.push(Field::quantity(ratio));
        }
        table.add_row(cells);
        for (name, error) in &held_out_error.baselines {
            table.add_row(vec![
                Field::text(format!("  {name}")).styled(StreamPaint::dim),
                Field::text(""),
                Field::text(""),
                Field::quantity(Some(Ratio(*error))),
            ]);
        }
    }
    text.push_str(&format!("\n{}", table.render(paint)));
    text
}
