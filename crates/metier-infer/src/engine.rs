//! Inference engines, and graphs loaded into them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use crate::error::panic_text;
use crate::graph_timing::{InferenceClock, InferenceTime};
use crate::{EngineOperatorTime, Error, NamedTensor, onnxruntime, rten};

#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InferenceEngine {
    /// The built-in engine.
    Rten,
    /// ONNX Runtime, by its shared library; [`crate::library::find_library`] finds it.
    OnnxRuntime(PathBuf),
}

impl InferenceEngine {
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
pub enum GraphSource<'a> {
    /// A file; weights in files beside it are found.
    File(&'a Path),
    /// The file's content; external weights are not supported.
    Bytes(&'a [u8]),
}

/// An initialised engine with its threads.
#[derive(Debug)]
pub struct EngineRuntime {
    engine: InferenceEngine,
    inner: RuntimeBackend,
}

#[derive(Debug)]
enum RuntimeBackend {
    Rten(rten::RtenRuntime),
    OnnxRuntime(onnxruntime::OrtLibrary),
}

/// Largest number of threads of a runtime.
pub const MAX_THREADS: usize = 1024;

impl EngineRuntime {
    /// Initialises an engine.
    pub fn open(engine: &InferenceEngine, threads: usize) -> Result<Self, Error> {
        if threads == 0 || threads > MAX_THREADS {
            return Err(Error::Plan { field: "threads", got: threads.to_string(), want: "1 to 1024" });
        }
        let inner = match engine {
            InferenceEngine::Rten => RuntimeBackend::Rten(rten::RtenRuntime::new(threads)),
            InferenceEngine::OnnxRuntime(library) => {
                catch_engine_panic(engine.name(), || onnxruntime::OrtLibrary::new(library, threads))
                    .map(RuntimeBackend::OnnxRuntime)?
            }
        };
        Ok(Self { engine: engine.clone(), inner })
    }

    pub fn engine(&self) -> &InferenceEngine {
        &self.engine
    }

    pub fn load(&self, source: GraphSource<'_>) -> Result<LoadedGraph, Error> {
        let name = self.engine.name();
        let inner = catch_engine_panic(name, || match &self.inner {
            RuntimeBackend::Rten(pool) => pool.load(source).map(|graph| GraphBackend::Rten(Box::new(graph))),
            RuntimeBackend::OnnxRuntime(opened) => {
                opened.load(source).map(|graph| GraphBackend::OnnxRuntime(Box::new(graph)))
            }
        })?;
        Ok(LoadedGraph { engine: name, inner })
    }
}

/// A graph loaded into an engine.
pub struct LoadedGraph {
    engine: &'static str,
    inner: GraphBackend,
}

enum GraphBackend {
    Rten(Box<rten::RtenGraph>),
    OnnxRuntime(Box<onnxruntime::OrtGraph>),
}

impl LoadedGraph {
    /// Loads one graph into its own engine; use a [`EngineRuntime`] for several graphs.
    pub fn new(engine: &InferenceEngine, bytes: &[u8], threads: usize) -> Result<Self, Error> {
        EngineRuntime::open(engine, threads)?.load(GraphSource::Bytes(bytes))
    }

    /// Sets the inputs for all following runs.
    pub fn set_inputs(&mut self, inputs: &[NamedTensor]) -> Result<(), Error> {
        match &mut self.inner {
            GraphBackend::Rten(graph) => graph.set_inputs(inputs),
            GraphBackend::OnnxRuntime(graph) => graph.set_inputs(inputs),
        }
    }

    /// Runs one inference and returns its time.
    pub fn run_once(&mut self) -> Result<InferenceTime, Error> {
        catch_engine_panic(self.engine, || {
            // The outputs are freed within the measured time, as in a serving program.
            let clock = InferenceClock::start();
            match &mut self.inner {
                GraphBackend::Rten(graph) => drop(graph.run()?),
                GraphBackend::OnnxRuntime(graph) => graph.run()?,
            }
            Ok(clock.stop())
        })
    }

    /// Runs one inference and returns its outputs.
    pub fn run_for_outputs(&mut self) -> Result<Vec<NamedTensor>, Error> {
        catch_engine_panic(self.engine, || match &mut self.inner {
            GraphBackend::Rten(graph) => graph.run_for_outputs(),
            GraphBackend::OnnxRuntime(graph) => graph.run_for_outputs(),
        })
    }

    /// Runs inferences with profiling and returns the operator times in execution order; profiling
    /// adds overhead.
    ///
    /// The built-in engine can only print these times, so meanwhile anything that this process
    /// prints to stdout is lost.
    pub fn time_operators(&mut self, runs: usize) -> Result<Vec<EngineOperatorTime>, Error> {
        catch_engine_panic(self.engine, || match &mut self.inner {
            GraphBackend::Rten(graph) => graph.time_operators(runs),
            GraphBackend::OnnxRuntime(graph) => graph.time_operators(runs),
        })
    }
}

/// Converts an engine's panic to an error.
fn catch_engine_panic<T>(engine: &'static str, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(Error::Defect { engine, why: panic_text(panic) }))
}
