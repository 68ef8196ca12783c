//! `metier bench`: runs an ONNX graph in a measured child process and reports the latency of an
//! inference.
//!
//! The child is this program with a job file (`--job`). It reports each inference by the line
//! protocol, so that the run's record has stages. Its `inference.json` is stored with the run.

mod table;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use metier_infer::inference_job::{InferenceJob, InferenceOutcome, RESULT_FILE};
use metier_infer::{BenchReport, Error, RuntimeComparison, compare_outputs, graph_inputs, library};
use metier_linux::scratch_folder::ScratchFolder;
use metier_onnx::{GraphAnalysis, OnnxLimits};
use metier_predict::latency::{measured_graph, run_trials};
use metier_types::{ContentDigest, GraphUse, Run as Record, Seconds};

use super::CommandContext;
use super::inspect::{BindingArgs, parse_pairs};
use super::run::{flags, inference_run, report_faults};
use crate::console::print_error;
use crate::exit::{CliExitCode, usage_error};
use crate::output::DataFormat;
use crate::time::parse_duration_flag;

const EXAMPLES: &str = "Examples:
  metier bench net.onnx                              latency of an inference
  metier bench net.onnx --shape x=1x3x640x640 --threads 1
  metier bench net.onnx --batch 8 --operators        with the time of each operator
  metier bench net.onnx --runtime both               with ONNX Runtime; compares the outputs
  metier bench net.onnx --page-cache cold --runs 5   cold starts
  metier bench net.onnx --with 'stress-ng --cpu 1'   with a co-runner
  metier bench net.onnx --input image=cat.npy --value sr=16000 -o json";

const AFTER: &str = "The graph runs in a process of its own, and that is a run in the store: `metier show last` shows its memory, energy and stages, \
`metier compare` compares two. ONNX Runtime is used where its shared library is found: --onnxruntime, METIER_ONNXRUNTIME, ORT_DYLIB_PATH, the usual \
folders, or an installed Python package. docs/reference/graphs.md has more.";

/// Run an ONNX graph here and time it
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = AFTER)]
pub struct BenchArgs {
    /// The graph's file
    #[arg(required_unless_present = "job")]
    graph: Option<PathBuf>,
    #[command(flatten)]
    binding: BindingArgs,
    /// Runtime; rten is built in
    #[arg(long, value_name = "RUNTIME", default_value = "rten")]
    runtime: BenchRuntime,
    /// ONNX Runtime's shared library [METIER_ONNXRUNTIME, ORT_DYLIB_PATH; default the usual places]
    #[arg(long, value_name = "FILE")]
    onnxruntime: Option<PathBuf>,
    /// Number of threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Size of the first dimension, if the graph leaves it open
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    batch: Option<u64>,
    /// Input from a NumPy file (.npy) or a number; can be repeated [default: random numbers]
    #[arg(long, value_name = "NAME=FILE|NUMBER")]
    input: Vec<String>,
    /// Seed of the random inputs
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Inferences after the first that are not counted
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    warmup: u32,
    /// Smallest number of counted inferences
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    repeat: u32,
    /// Shortest time that the counted inferences take together: 0s to 1h
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_duration_flag)]
    least: Duration,
    /// Time each operator too, in extra inferences
    #[arg(long)]
    operators: bool,
    /// Write the graph's outputs to this folder, as output-N.npy
    #[arg(long, value_name = "FOLDER")]
    outputs: Option<PathBuf>,
    /// Page cache before the start: cold drops the file from it, warm reads the file in
    #[arg(long, value_name = "STATE")]
    page_cache: Option<String>,
    /// Number of processes to measure, one after the other
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    #[command(flatten)]
    flags: flags::RunFileFlags<flags::SetupFlagGroups>,
    #[command(flatten)]
    keeping: flags::RecordKeepingArgs,
    /// Job file of the child process
    #[arg(long, hide = true, value_name = "FILE")]
    job: Option<PathBuf>,
}

/// Runtime of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BenchRuntime {
    // Not doc comments: those would make `--help` twice as long.
    Rten,
    Onnxruntime,
    Both,
}

/// Inferences that time each operator.
const OPERATOR_RUNS: usize = 10;

impl BenchArgs {
    /// Runs the graph and prints its latency.
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        match &self.job {
            Some(job) => run_child(job),
            None => self.run_parent(context).or_else(report_faults),
        }
    }

    fn run_parent(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let path = self.graph.as_deref().ok_or_else(|| usage_error("want the file of a graph"))?;
        let path = std::path::absolute(path).with_context(|| format!("cannot read {}", path.display()))?;
        let bytes = self.binding.read_graph(&path)?;
        let digest = metier_store::digest::digest_bytes(&bytes);
        let job = self.build_job(&path, &bytes)?;
        drop(bytes);
        let (analysis, made, notes) = job.prepare_inputs().map_err(|error| graph_error(&path, error))?;
        notes.iter().for_each(|note| context.console.note(note));
        let mut report = BenchReport::new(&path, digest, &analysis, &made, job.threads, notes);
        let folder = ScratchFolder::new("bench").context("no folder for a run")?;
        let mut outputs = Vec::new();
        let mut worst = CliExitCode::OK;
        for library in self.libraries(context)? {
            let job = InferenceJob { onnxruntime: library, ..job.clone() };
            let name = job.engine().name();
            let own = folder.path().join(name);
            let (records, outcome, code) = self.measure_runtime(context, &own, job, &digest, &analysis)?;
            match outcome.filter(|outcome| outcome.error.is_none() && outcome.first.is_some()) {
                Some(outcome) if code == CliExitCode::OK => {
                    outputs.push(outcome.read_outputs(&own)?);
                    if !self.keeping.no_store {
                        add_training_points(context, &records)?;
                    }
                    report.add_runtime(name, &records, &outcome, &analysis, !self.keeping.no_store);
                }
                _ => {
                    report.add_failure(name, records.last().map(|run| (run, metier_measure::verdict(run))));
                    worst = code;
                }
            }
            if code == CliExitCode::from_raw(130) {
                return Ok(code);
            }
        }
        if let [first, second] = outputs.as_slice() {
            report.comparison = RuntimeComparison::of(&report.results, compare_outputs(first, second));
        }
        // Programs that read the output get the failures too.
        if !report.results.is_empty() || matches!(context.console.format, DataFormat::Json | DataFormat::Yaml)
        {
            context.console.print_record(
                &report,
                table::HEADER.split(','),
                table::csv_rows(&report),
                |paint| table::report_text(&report, self.operators, paint),
            )?;
        }
        Ok(worst)
    }

    /// The runtime libraries; `None` is the built-in runtime.
    fn libraries(&self, context: &CommandContext) -> anyhow::Result<Vec<Option<PathBuf>>> {
        if self.runtime == BenchRuntime::Rten {
            return Ok(vec![None]);
        }
        let found = library::find_library(self.onnxruntime.as_deref(), |name| std::env::var_os(name));
        match (found, self.runtime) {
            (Some(found), BenchRuntime::Onnxruntime) => Ok(vec![Some(std::path::absolute(found)?)]),
            (Some(found), _) => Ok(vec![None, Some(std::path::absolute(found)?)]),
            (None, BenchRuntime::Both) => {
                context
                    .console
                    .warn(format!("ONNX Runtime was not found, so rten runs alone; {}", library::FIX));
                Ok(vec![None])
            }
            (None, _) => Err(anyhow::anyhow!("ONNX Runtime was not found; {}", library::FIX)),
        }
    }

    fn build_job(&self, path: &Path, bytes: &[u8]) -> anyhow::Result<InferenceJob> {
        let mut bindings = self.binding.bindings()?;
        let model =
            self.binding.name_file_in_error(path, metier_onnx::read_onnx(bytes, &OnnxLimits::default()))?;
        if let Some(size) = self.batch {
            graph_inputs::bind_batch_size(&model.graph, size, &mut bindings)
                .map_err(|error| graph_error(path, error))?;
        }
        let mut numbers: BTreeMap<String, Vec<f64>> = bindings
            .values
            .iter()
            .map(|(name, values)| (name.clone(), values.iter().map(|value| *value as f64).collect()))
            .collect();
        let mut files = BTreeMap::new();
        for (name, text) in parse_pairs("--input", &self.input, "NAME=FILE.npy or NAME=NUMBER", |text| {
            Some(text.to_string())
        })? {
            match text.parse::<f64>() {
                Ok(number) => drop(numbers.insert(name, vec![number])),
                Err(_) => drop(files.insert(name, std::path::absolute(text)?)),
            }
        }
        if self.least > Duration::from_secs(3600) {
            return Err(usage_error(format!("--least is {}s; want 0s to 1h", self.least.as_secs())));
        }
        if let Some(folder) = &self.outputs {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(InferenceJob {
            graph: path.to_path_buf(),
            onnxruntime: None,
            threads: self.threads.map_or(cores, |threads| threads as usize),
            shapes: bindings.shapes,
            dims: bindings.dims,
            seed: self.seed,
            zeros: false,
            numbers,
            files,
            warmup: self.warmup as usize,
            repeats: self.repeat as usize,
            least_seconds: Seconds(self.least.as_secs_f64()),
            looks: if self.operators { OPERATOR_RUNS } else { 0 },
            outputs: None,
        })
    }

    /// Measures one runtime as runs of the store.
    fn measure_runtime(
        &self,
        context: &CommandContext,
        folder: &Path,
        mut job: InferenceJob,
        digest: &ContentDigest,
        analysis: &GraphAnalysis,
    ) -> anyhow::Result<(Vec<Record>, Option<InferenceOutcome>, CliExitCode)> {
        std::fs::create_dir(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        job.outputs = Some(folder.to_path_buf());
        let file = folder.join("job.json");
        std::fs::write(&file, serde_json::to_vec_pretty(&job)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
        let program = std::env::current_exe().context("cannot tell which program this is")?;
        let words: [&std::ffi::OsStr; 4] =
            ["bench".as_ref(), "--job".as_ref(), file.as_ref(), "--quiet".as_ref()];
        let command: Vec<OsString> =
            std::iter::once(program.as_os_str()).chain(words).map(Into::into).collect();
        let measured = inference_run::GraphMeasurement {
            graph: GraphUse {
                file: job.graph.display().to_string(),
                digest: *digest,
                runtime: job.engine().name().to_string(),
                threads: job.threads as u32,
                shapes: measured_graph::input_shapes(analysis),
                extra: Default::default(),
            },
            command,
            // The built-in engine folds constants at load, on its own threads.
            variable: ("RTEN_NUM_THREADS".to_string(), job.threads.to_string()),
            folder,
            artefacts: vec![RESULT_FILE.to_string()],
            runs: self.runs,
            beside: external_weight_files(&job.graph, analysis),
            page_cache: self.page_cache.clone(),
            flags: &self.flags,
            keeping: &self.keeping,
        };
        let (records, code) = inference_run::measure_graph(context, measured)?;
        let outcome = InferenceOutcome::read(folder);
        if let Some(error) = outcome.as_ref().and_then(|outcome| outcome.error.as_ref()) {
            print_error(&format!("{}: {error}", job.graph.display()));
        } else if code.is_some()
            && let Some(record) = records.last()
        {
            print_error(&format!("{}: {}", job.engine().name(), metier_measure::verdict(record)));
        }
        if let (Some(to), Some(outcome)) = (&self.outputs, &outcome) {
            self.keep_outputs(folder, to, outcome, job.engine().name())?;
        }
        let failed = outcome.as_ref().is_some_and(|outcome| outcome.error.is_some());
        let code = code.unwrap_or(CliExitCode::OK);
        Ok((records, outcome, if failed { CliExitCode::FAILED } else { code }))
    }

    fn keep_outputs(
        &self,
        from: &Path,
        to: &Path,
        outcome: &InferenceOutcome,
        engine: &str,
    ) -> anyhow::Result<()> {
        for number in 0..outcome.outputs.len() {
            let source = metier_infer::inference_job::output_path(from, number);
            let target = match self.runtime {
                BenchRuntime::Both => to.join(format!("{engine}-output-{number}.npy")),
                _ => metier_infer::inference_job::output_path(to, number),
            };
            std::fs::copy(&source, &target).with_context(|| format!("cannot write {}", target.display()))?;
        }
        Ok(())
    }
}

/// Existing weight files of a graph. Missing ones are reported by the runtime. The graph names
/// these files, so only those in its folder or below count.
fn external_weight_files(graph: &Path, analysis: &GraphAnalysis) -> Vec<PathBuf> {
    let folder = graph.parent().unwrap_or(Path::new(""));
    let files = analysis.external_files.iter().filter_map(|name| metier_onnx::external_file(folder, name));
    files.filter(|file| file.is_file()).collect()
}

/// Adds the runs to the training points of latency. Runs without a training point are no error.
fn add_training_points(context: &CommandContext, records: &[Record]) -> anyhow::Result<()> {
    let store = context.writable_store()?;
    for record in records {
        // The stored record includes the run's files.
        let Some(run) = store.run(record.id)? else { continue };
        match run_trials::import_run(&store, &run) {
            Ok(Ok(())) => {}
            Ok(Err(why)) => tracing::debug!(run = %run.id, why, "nothing to learn from"),
            Err(error) => tracing::debug!(run = %run.id, %error, "nothing to learn from"),
        }
    }
    Ok(())
}

/// Adds the file's name to an error; invalid input is a usage error.
fn graph_error(path: &Path, error: Error) -> anyhow::Error {
    let text = format!("{}: {error}", path.display());
    match error {
        Error::Graph(metier_onnx::Error::Dimension { .. }) => usage_error(text),
        Error::Input { .. } | Error::Plan { .. } | Error::Graph(metier_onnx::Error::Shape { .. }) => {
            let how = if text.contains("dimension") { "; --shape NAME=1x3x224x224 gives one" } else { "" };
            usage_error(format!("{text}{how}"))
        }
        _ => anyhow::anyhow!("{text}"),
    }
}

/// Runs the child: executes the job, reports lines to the measuring parent, writes the result
/// beside the job.
fn run_child(file: &Path) -> anyhow::Result<CliExitCode> {
    // A panic of the engine is part of the result; it is no defect of metier.
    std::panic::set_hook(Box::new(|_| {}));
    metier_linux::allocator::tune_for_inference();
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let job: InferenceJob =
        serde_json::from_slice(&bytes).with_context(|| format!("{} is no job", file.display()))?;
    let folder = file.parent().unwrap_or(Path::new("."));
    let lines = std::env::var_os("METIER_LINES").unwrap_or_else(|| "/dev/null".into());
    let mut lines =
        std::fs::OpenOptions::new().append(true).open(&lines).context("cannot tell of inferences")?;
    // The result contains the error, and the parent prints it.
    Ok(if job.run(folder, &mut lines).is_ok() { CliExitCode::OK } else { CliExitCode::FAILED })
}
