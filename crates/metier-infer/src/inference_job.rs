//! An inference job as a file for a child process, and its outcome as another file.
//!
//! `metier bench` runs graphs in a child. A crash of the engine then affects only the child, which
//! is measured as a run. The child reports each inference by the line protocol (`load`, `first`,
//! `warmup`, `inference`, in seconds).

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use metier_onnx::{Graph, OnnxLimits, ShapeBindings, TensorDimension, ValueInfo};
use metier_types::Seconds;
use serde::{Deserialize, Serialize};

use crate::graph_inputs::{self, InputOptions};
use crate::{
    EngineOperatorTime, Error, GraphSource, InferenceEngine, InferenceTime, NamedTensor, TimingPlan,
    TimingStep, npy, time_graph,
};

/// The file that a child writes into its folder.
pub const RESULT_FILE: &str = "inference.json";
/// Largest number of inferences with recorded times.
const MAX_LISTED_RUNS: usize = 100_000;

/// Job of a child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InferenceJob {
    pub graph: PathBuf,
    /// The library of ONNX Runtime; without it the built-in engine is used.
    pub onnxruntime: Option<PathBuf>,
    pub threads: usize,
    pub shapes: BTreeMap<String, Vec<u64>>,
    /// Sizes of named dimensions.
    pub dims: BTreeMap<String, u64>,
    /// Seed of the random numbers.
    pub seed: u64,
    pub zeros: bool,
    pub numbers: BTreeMap<String, Vec<f64>>,
    /// NumPy files for inputs.
    pub files: BTreeMap<String, PathBuf>,
    /// Inferences before counting starts.
    pub warmup: usize,
    /// Smallest number of counted inferences.
    pub repeats: usize,
    /// Smallest total duration of the counted inferences.
    pub least_seconds: Seconds,
    /// Inferences with operator times.
    pub looks: usize,
    /// Folder for outputs, written as `output-N.npy`.
    pub outputs: Option<PathBuf>,
}

/// Outcome of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InferenceOutcome {
    /// `metier.inference/1`.
    pub schema: String,
    /// Reason of a failure; the other fields then cover the steps before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub load: Option<InferenceTime>,
    pub first: Option<InferenceTime>,
    /// Times of counted inferences, at most the first 100,000.
    pub runs: Vec<InferenceTime>,
    /// Number of counted inferences.
    pub inferences: u64,
    pub operators: Vec<EngineOperatorTime>,
    /// Names of the outputs; their elements are in `output-N.npy`, if requested.
    pub outputs: Vec<String>,
}

impl InferenceJob {
    pub fn engine(&self) -> InferenceEngine {
        self.onnxruntime.clone().map_or(InferenceEngine::Rten, InferenceEngine::OnnxRuntime)
    }

    /// The analysed graph, its inputs, and notes about assumptions.
    pub fn prepare_inputs(
        &self,
    ) -> Result<(metier_onnx::GraphAnalysis, Vec<NamedTensor>, Vec<String>), Error> {
        let bytes =
            std::fs::read(&self.graph).map_err(|source| Error::Read { path: self.graph.clone(), source })?;
        let limits = OnnxLimits::default();
        let model = metier_onnx::read_onnx(&bytes, &limits)?;
        let bindings = self.bindings(&model.graph);
        let analysis = metier_onnx::analyse_graph(&model, &bindings, &limits)?;
        let tensors = self.files.iter().map(|(name, path)| Ok((name.clone(), npy::read_npy(name, path)?)));
        let making = InputOptions {
            seed: self.seed,
            zeros: self.zeros,
            numbers: self.numbers.clone(),
            tensors: tensors.collect::<Result<_, Error>>()?,
        };
        let (made, notes) = graph_inputs::make_inputs(&analysis, &making)?;
        Ok((analysis, made, notes))
    }

    /// Given numbers enter the analysis only with one number for each element of the input.
    fn bindings(&self, graph: &Graph) -> ShapeBindings {
        let elements = |input: &ValueInfo| match self.shapes.get(&input.name) {
            Some(shape) => Some(shape.iter().product::<u64>()),
            None => input.shape.as_ref()?.iter().try_fold(1u64, |count, dim| match dim {
                TensorDimension::Known(size) => count.checked_mul(*size),
                _ => None,
            }),
        };
        let whole = |input: &ValueInfo| {
            let numbers = self.numbers.get(&input.name)?;
            (elements(input) == Some(numbers.len() as u64))
                .then(|| numbers.iter().map(|number| *number as i64).collect())
        };
        let values = graph.inputs.iter().filter_map(|input| Some((input.name.clone(), whole(input)?)));
        ShapeBindings { shapes: self.shapes.clone(), dims: self.dims.clone(), values: values.collect() }
    }

    /// Runs the job; writes a line to `lines` for each inference, and the outcome into `folder`.
    pub fn run(&self, folder: &Path, lines: &mut dyn Write) -> Result<(), Error> {
        let mut outcome = InferenceOutcome {
            schema: "metier.inference/1".to_string(),
            error: None,
            load: None,
            first: None,
            runs: Vec::new(),
            inferences: 0,
            operators: Vec::new(),
            outputs: Vec::new(),
        };
        let done = self.run_timed(&mut outcome, lines);
        outcome.error = done.as_ref().err().map(ToString::to_string);
        let file = folder.join(RESULT_FILE);
        let text = serde_json::to_vec(&outcome).map_err(|error| Error::Operators(error.to_string()))?;
        std::fs::write(&file, text).map_err(|source| Error::Write { path: file, source })?;
        done
    }

    fn run_timed(&self, outcome: &mut InferenceOutcome, lines: &mut dyn Write) -> Result<(), Error> {
        let (_, inputs, _) = self.prepare_inputs()?;
        let plan = TimingPlan {
            engine: self.engine(),
            threads: self.threads,
            inputs,
            warmup: self.warmup,
            repeats: self.repeats,
            least: self.least_seconds,
            looks: self.looks,
            outputs: self.outputs.is_some(),
        };
        let mut tell = |step: &TimingStep| {
            let (name, spent) = match step {
                TimingStep::Load(spent) => {
                    outcome.load = Some(*spent);
                    ("load", spent)
                }
                TimingStep::First(spent) => {
                    outcome.first = Some(*spent);
                    ("first", spent)
                }
                TimingStep::Warmup(spent) => ("warmup", spent),
                TimingStep::Inference(spent) => {
                    outcome.inferences += 1;
                    if outcome.runs.len() < MAX_LISTED_RUNS {
                        outcome.runs.push(*spent);
                    }
                    ("inference", spent)
                }
            };
            // A closed reader is no reason to stop.
            let _ = lines.write_all(format!("{name} {:.9} s\n", spent.wall.get()).as_bytes());
        };
        let timing = time_graph(GraphSource::File(&self.graph), &plan, &mut tell)?;
        outcome.operators = timing.operators;
        if let Some(folder) = &self.outputs {
            for (number, output) in timing.outputs.iter().enumerate() {
                let path = output_path(folder, number);
                std::fs::write(&path, npy::encode_npy(output))
                    .map_err(|source| Error::Write { path, source })?;
            }
        }
        outcome.outputs = timing.outputs.into_iter().map(|output| output.name).collect();
        Ok(())
    }
}

/// Path of an output file.
pub fn output_path(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("output-{number}.npy"))
}

impl InferenceOutcome {
    /// Reads a child's outcome from its folder; `None` if the child did not write one.
    pub fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(folder.join(RESULT_FILE)).ok()?).ok()
    }

    /// Reads the outputs that the child wrote.
    pub fn read_outputs(&self, folder: &Path) -> Result<Vec<NamedTensor>, Error> {
        let named = self.outputs.iter().enumerate();
        named.map(|(number, name)| npy::read_npy(name, &output_path(folder, number))).collect()
    }
}
