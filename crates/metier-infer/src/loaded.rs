//! Engines, and graphs that are ready to run in one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use crate::error::panic_text;
use crate::timing::{Clock, Spent};
use crate::{Error, OperatorTime, Tensor, onnxruntime, rten};

#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// The one that is built in.
    Rten,
    /// ONNX Runtime, by its shared library; [`crate::library::find`] finds it.
    OnnxRuntime(PathBuf),
}

impl Engine {
    /// Its name, as it is typed and recorded.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Rten => "rten",
            Self::OnnxRuntime(_) => "onnxruntime",
        }
    }
}

/// Where a graph comes from.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// A file; weights in files beside it are found.
    File(&'a Path),
    /// Its content; it has no weights elsewhere.
    Bytes(&'a [u8]),
}

/// An engine with its threads, ready for graphs.
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

/// Most threads that a runtime is given.
pub const MOST_THREADS: usize = 1024;

impl Runtime {
    /// Makes an engine ready.
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

/// A graph in an engine.
pub struct Loaded {
    engine: &'static str,
    inner: Graph,
}

enum Graph {
    Rten(Box<rten::Graph>),
    OnnxRuntime(Box<onnxruntime::Graph>),
}

impl Loaded {
    /// Loads one graph in an engine of its own; for many of them use one [`Runtime`].
    pub fn new(engine: &Engine, bytes: &[u8], threads: usize) -> Result<Self, Error> {
        Runtime::open(engine, threads)?.load(Source::Bytes(bytes))
    }

    /// Gives it its inputs, for all runs that follow.
    pub fn give(&mut self, inputs: &[Tensor]) -> Result<(), Error> {
        match &mut self.inner {
            Graph::Rten(graph) => graph.give(inputs),
            Graph::OnnxRuntime(graph) => graph.give(inputs),
        }
    }

    /// One inference on the inputs that it was given: what it took.
    pub fn run_once(&mut self) -> Result<Spent, Error> {
        guarded(self.engine, || {
            // What it gives is freed within the time, as it is in a program that serves.
            let clock = Clock::start();
            match &mut self.inner {
                Graph::Rten(graph) => drop(graph.run()?),
                Graph::OnnxRuntime(graph) => graph.run()?,
            }
            Ok(clock.stop())
        })
    }

    /// One inference: what it gives.
    pub fn outputs(&mut self) -> Result<Vec<Tensor>, Error> {
        guarded(self.engine, || match &mut self.inner {
            Graph::Rten(graph) => graph.outputs(),
            Graph::OnnxRuntime(graph) => graph.outputs(),
        })
    }

    /// Inferences with a look at each operator, in the order in which they ran; the looking takes time itself.
    ///
    /// The built-in engine can only print what it sees: for so long, whatever this process prints to stdout is not printed.
    pub fn operators(&mut self, runs: usize) -> Result<Vec<OperatorTime>, Error> {
        guarded(self.engine, || match &mut self.inner {
            Graph::Rten(graph) => graph.operators(runs),
            Graph::OnnxRuntime(graph) => graph.operators(runs),
        })
    }
}

/// An engine's panic as an error.
fn guarded<T>(engine: &'static str, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(Error::Defect { engine, why: panic_text(panic) }))
}
