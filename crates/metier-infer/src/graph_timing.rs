//! Plan for timing a graph, and its results.

use std::time::Instant;

use metier_types::Seconds;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::{EngineOperatorTime, EngineRuntime, Error, GraphSource, InferenceEngine, NamedTensor};

/// Time of one inference.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct InferenceTime {
    pub wall: Seconds,
    /// CPU time of all threads of this process.
    pub cpu: Seconds,
}

pub(crate) struct InferenceClock {
    wall: Instant,
    cpu: f64,
}

impl InferenceClock {
    pub(crate) fn start() -> Self {
        let cpu = process_seconds();
        Self { wall: Instant::now(), cpu }
    }

    pub(crate) fn stop(&self) -> InferenceTime {
        let wall = self.wall.elapsed().as_secs_f64();
        InferenceTime { wall: Seconds(wall), cpu: Seconds(process_seconds() - self.cpu) }
    }
}

fn process_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Plan for timing a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct TimingPlan {
    pub engine: InferenceEngine,
    /// Number of threads.
    pub threads: usize,
    /// Inputs of the graph.
    pub inputs: Vec<NamedTensor>,
    /// Uncounted inferences after the first.
    pub warmup: usize,
    /// Smallest number of counted inferences.
    pub repeats: usize,
    /// Smallest total duration; more inferences are run until then, bounded by [`MAX_RUNS`].
    pub least: Seconds,
    /// Inferences with operator profiling after the others; 0 for none.
    pub looks: usize,
    /// Whether to return the outputs.
    pub outputs: bool,
}

/// Largest number of counted inferences.
pub const MAX_RUNS: usize = 1_000_000;

impl TimingPlan {
    /// One thread, two warm-up inferences, ten counted ones.
    pub fn new(engine: InferenceEngine, inputs: Vec<NamedTensor>) -> Self {
        Self {
            engine,
            threads: 1,
            inputs,
            warmup: 2,
            repeats: 10,
            least: Seconds(0.0),
            looks: 0,
            outputs: false,
        }
    }

    /// Validates the plan.
    pub fn validate(&self) -> Result<(), Error> {
        let bounds = [("warmup", self.warmup, 0), ("repeats", self.repeats, 1), ("looks", self.looks, 0)];
        for (field, got, least) in bounds {
            if got < least || got > MAX_RUNS {
                let want = if least == 0 { "0 to 1000000" } else { "1 to 1000000" };
                return Err(Error::Plan { field, got: got.to_string(), want });
            }
        }
        if !(0.0..=86_400.0).contains(&self.least.0) {
            return Err(Error::Plan {
                field: "least",
                got: self.least.0.to_string(),
                want: "0 to 86400 seconds",
            });
        }
        Ok(())
    }
}

/// Results of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphTiming {
    /// Loading the graph, including reading its file.
    pub load: InferenceTime,
    pub first: InferenceTime,
    /// Counted inferences in order.
    pub runs: Vec<InferenceTime>,
    /// Operator times, if requested.
    pub operators: Vec<EngineOperatorTime>,
    /// Outputs of the graph, if requested.
    pub outputs: Vec<NamedTensor>,
}

/// Times a graph by a plan; calls `report_step` after each step.
pub fn time_graph(
    source: GraphSource<'_>,
    plan: &TimingPlan,
    report_step: &mut dyn FnMut(&TimingStep),
) -> Result<GraphTiming, Error> {
    plan.validate()?;
    let runtime = EngineRuntime::open(&plan.engine, plan.threads)?;
    let clock = InferenceClock::start();
    let mut graph = runtime.load(source)?;
    let load = clock.stop();
    report_step(&TimingStep::Load(load));
    graph.set_inputs(&plan.inputs)?;
    let first = graph.run_once()?;
    report_step(&TimingStep::First(first));
    for _ in 0..plan.warmup {
        report_step(&TimingStep::Warmup(graph.run_once()?));
    }
    let mut runs = Vec::with_capacity(plan.repeats.min(10_000));
    let begin = Instant::now();
    while runs.len() < plan.repeats || (begin.elapsed().as_secs_f64() < plan.least.0 && runs.len() < MAX_RUNS)
    {
        let spent = graph.run_once()?;
        report_step(&TimingStep::Inference(spent));
        runs.push(spent);
    }
    let operators = if plan.looks > 0 { graph.time_operators(plan.looks)? } else { Vec::new() };
    let outputs = if plan.outputs { graph.run_for_outputs()? } else { Vec::new() };
    Ok(GraphTiming { load, first, runs, operators, outputs })
}

/// A completed step of [`time_graph`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TimingStep {
    /// The graph is loaded.
    Load(InferenceTime),
    First(InferenceTime),
    /// An uncounted inference.
    Warmup(InferenceTime),
    Inference(InferenceTime),
}
