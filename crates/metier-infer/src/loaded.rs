//! Inference engines, and graphs loaded into them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use crate::error::panic_text;
use crate::timing::{Clock, Spent};
use crate::{Error, OperatorTime, Tensor, onnxruntime, rten};

#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// The built-in engine.
    Rten,
    /// ONNX Runtime, by its shared library; [`crate::library::find`] finds it.
    OnnxRuntime(PathBuf),
}

impl Engine {
    /// Name on the command line and in records.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Rten => "rten",
            Self::OnnxRuntime(_) => "onnxruntime",
        }
    }
}

/// Source of a graph.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// A file; weights in files beside it are found.
    File(&'a Path),
    /// The file's content; external weights are not supported.
    Bytes(&'a [u8]),
}

/// An initialised engine with its threads.
#[derive(Debug)]
pub struct Runtime {
    engine: Engine,
    inner: Opened,
}

#[derive(Debug)]
enum Opened {
    Rten(rten::Pool),
    OnnxRuntime(onnxruntime::Opened),
}

/// Largest number of threads of a runtime.
pub const MOST_THREADS: usize = 1024;

impl Runtime {
    /// Initialises an engine.
    pub fn open(engine: &Engine, threads: usize) -> Result<Self, Error> {
        if threads == 0 || threads > MOST_THREADS {
            return Err(Error::Plan { field: "threads", got: threads.to_string(), want: "1 to 1024" });
        }
        let inner = match engine {
            Engine::Rten => Opened::Rten(rten::Pool::new(threads)),
            Engine::OnnxRuntime(library) => {
                guarded(engine.name(), || onnxruntime::Opened::new(library, threads))
                    .map(Opened::OnnxRuntime)?
            }
        };
        Ok(Self { engine: engine.clone(), inner })
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub fn load(&self, source: Source<'_>) -> Result<Loaded, Error> {
        let name = self.engine.name();
        let inner = guarded(name, || match &self.inner {
            Opened::Rten(pool) => pool.load(source).map(|graph| Graph::Rten(Box::new(graph))),
            Opened::OnnxRuntime(opened) => {
                opened.load(source).map(|graph| Graph::OnnxRuntime(Box::new(graph)))
            }
        })?;
        Ok(Loaded { engine: name, inner })
    }
}

/// A graph loaded into an engine.
pub struct Loaded {
    engine: &'static str,
    inner: Graph,
}

enum Graph {
    Rten(Box<rten::Graph>),
    OnnxRuntime(Box<onnxruntime::Graph>),
}

impl Loaded {
    /// Loads one graph into its own engine; use a [`Runtime`] for several graphs.
    pub fn new(engine: &Engine, bytes: &[u8], threads: usize) -> Result<Self, Error> {
        Runtime::open(engine, threads)?.load(Source::Bytes(bytes))
    }

    /// Sets the inputs for all following runs.
    pub fn give(&mut self, inputs: &[Tensor]) -> Result<(), Error> {
        match &mut self.inner {
            Graph::Rten(graph) => graph.give(inputs),
            Graph::OnnxRuntime(graph) => graph.give(inputs),
        }
    }

    /// Runs one inference and returns its time.
    pub fn run_once(&mut self) -> Result<Spent, Error> {
        guarded(self.engine, || {
            // The outputs are freed within the measured time, as in a serving program.
            let clock = Clock::start();
            match &mut self.inner {
                Graph::Rten(graph) => drop(graph.run()?),
                Graph::OnnxRuntime(graph) => graph.run()?,
            }
            Ok(clock.stop())
        })
    }

    /// Runs one inference and returns its outputs.
    pub fn outputs(&mut self) -> Result<Vec<Tensor>, Error> {
        guarded(self.engine, || match &mut self.inner {
            Graph::Rten(graph) => graph.outputs(),
            Graph::OnnxRuntime(graph) => graph.outputs(),
        })
    }

    /// Runs inferences with profiling and returns the operator times in execution order; profiling
    /// adds overhead.
    ///
    /// The built-in engine can only print these times, so meanwhile anything that this process
    /// prints to stdout is lost.
    pub fn operators(&mut self, runs: usize) -> Result<Vec<OperatorTime>, Error> {
        guarded(self.engine, || match &mut self.inner {
            Graph::Rten(graph) => graph.operators(runs),
            Graph::OnnxRuntime(graph) => graph.operators(runs),
        })
    }
}

/// Converts an engine's panic to an error.
fn guarded<T>(engine: &'static str, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(Error::Defect { engine, why: panic_text(panic) }))
}
