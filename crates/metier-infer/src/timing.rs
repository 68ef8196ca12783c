//! A plan of how to time a graph, and what came of it.

use std::time::Instant;

use metier_types::Seconds;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::{Engine, Error, OperatorTime, Runtime, Source, Tensor};

/// Time of one inference.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    pub wall: Seconds,
    /// Of all threads of this process.
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

/// How a graph is timed.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub engine: Engine,
    /// How many threads it may use.
    pub threads: usize,
    /// What it is given.
    pub inputs: Vec<Tensor>,
    /// Inferences after the first that are not counted.
    pub warmup: usize,
    /// Inferences that are counted, at least.
    pub repeats: usize,
    /// For how long it goes on, however many that are; bounded by [`MOST_RUNS`].
    pub least: Seconds,
    /// Inferences with a look at each operator, after the others; 0 for none.
    pub looks: usize,
    /// Whether the outputs are kept.
    pub outputs: bool,
}

/// Most inferences that are counted.
pub const MOST_RUNS: usize = 1_000_000;

impl Plan {
    /// One thread, ten inferences after two for warming up.
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

    /// Whether it can be done.
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

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Timing {
    /// Loading the graph, file included.
    pub load: Spent,
    pub first: Spent,
    /// Those that count, in their order.
    pub runs: Vec<Spent>,
    /// Time by operator, where wanted.
    pub operators: Vec<OperatorTime>,
    /// What the graph gave, where wanted.
    pub outputs: Vec<Tensor>,
}

/// Times a graph by a plan; `tell` hears of each step as it is done.
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

/// Something that [`time`] has done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// The graph is loaded.
    Load(Spent),
    First(Spent),
    /// One that is not counted.
    Warmup(Spent),
    Inference(Spent),
}
