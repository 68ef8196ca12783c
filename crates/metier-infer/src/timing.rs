//! Plan for timing a graph, and its results.

use std::time::Instant;

use metier_types::Seconds;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::{Engine, Error, OperatorTime, Runtime, Source, Tensor};

/// Time of one inference.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    pub wall: Seconds,
    /// CPU time of all threads of this process.
    pub cpu: Seconds,
}

pub(crate) struct Clock {
    wall: Instant,
    cpu: f64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let cpu = process_seconds();
        Self { wall: Instant::now(), cpu }
    }

    pub(crate) fn stop(&self) -> Spent {
        let wall = self.wall.elapsed().as_secs_f64();
        Spent { wall: Seconds(wall), cpu: Seconds(process_seconds() - self.cpu) }
    }
}

fn process_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Plan for timing a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub engine: Engine,
    /// Number of threads.
    pub threads: usize,
    /// Inputs of the graph.
    pub inputs: Vec<Tensor>,
    /// Uncounted inferences after the first.
    pub warmup: usize,
    /// Smallest number of counted inferences.
    pub repeats: usize,
    /// Smallest total duration; more inferences are run until then, bounded by [`MOST_RUNS`].
    pub least: Seconds,
    /// Inferences with operator profiling after the others; 0 for none.
    pub looks: usize,
    /// Whether to return the outputs.
    pub outputs: bool,
}

/// Largest number of counted inferences.
pub const MOST_RUNS: usize = 1_000_000;

impl Plan {
    /// One thread, two warm-up inferences, ten counted ones.
    pub fn new(engine: Engine, inputs: Vec<Tensor>) -> Self {
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
    pub fn check(&self) -> Result<(), Error> {
        let bounds = [("warmup", self.warmup, 0), ("repeats", self.repeats, 1), ("looks", self.looks, 0)];
        for (field, got, least) in bounds {
            if got < least || got > MOST_RUNS {
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
pub struct Timing {
    /// Loading the graph, including reading its file.
    pub load: Spent,
    pub first: Spent,
    /// Counted inferences in order.
    pub runs: Vec<Spent>,
    /// Operator times, if requested.
    pub operators: Vec<OperatorTime>,
    /// Outputs of the graph, if requested.
    pub outputs: Vec<Tensor>,
}

/// Times a graph by a plan; calls `tell` after each step.
pub fn time(source: Source<'_>, plan: &Plan, tell: &mut dyn FnMut(&Step)) -> Result<Timing, Error> {
    plan.check()?;
    let runtime = Runtime::open(&plan.engine, plan.threads)?;
    let clock = Clock::start();
    let mut graph = runtime.load(source)?;
    let load = clock.stop();
    tell(&Step::Load(load));
    graph.give(&plan.inputs)?;
    let first = graph.run_once()?;
    tell(&Step::First(first));
    for _ in 0..plan.warmup {
        tell(&Step::Warmup(graph.run_once()?));
    }
    let mut runs = Vec::with_capacity(plan.repeats.min(10_000));
    let begin = Instant::now();
    while runs.len() < plan.repeats
        || (begin.elapsed().as_secs_f64() < plan.least.0 && runs.len() < MOST_RUNS)
    {
        let spent = graph.run_once()?;
        tell(&Step::Inference(spent));
        runs.push(spent);
    }
    let operators = if plan.looks > 0 { graph.operators(plan.looks)? } else { Vec::new() };
    let outputs = if plan.outputs { graph.outputs()? } else { Vec::new() };
    Ok(Timing { load, first, runs, operators, outputs })
}

/// A completed step of [`time`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// The graph is loaded.
    Load(Spent),
    First(Spent),
    /// An uncounted inference.
    Warmup(Spent),
    Inference(Spent),
}
