//! Runs ONNX graphs in this process, and times them.
//!
//! [`EngineRuntime`] is an [`InferenceEngine`] initialised once with a number of threads; loading
//! graphs into it is cheap. A [`LoadedGraph`] gets its inputs once and can run repeatedly.
//! [`time_graph`] follows a [`TimingPlan`]: load, first inference, warm-up, repeats, operator
//! times, outputs. [`make_inputs`] creates tensors that fit a graph's declarations.
//!
//! There are two engines: `rten`, built in and pure Rust, and ONNX Runtime, if its library is on
//! this host ([`library`]). An unsupported operator gives an error that names it, and an engine's
//! panic gives an error too. A crash of an engine ends this process, so untrusted files must run in
//! a child process.
//!
//! Reads only files with a given path, and prints nothing.

mod bench_report;
mod engine;
mod error;
pub mod graph_inputs;
mod graph_timing;
pub mod inference_job;
pub mod library;
pub mod memory;
pub mod npy;
mod onnxruntime;
mod operator_times;
mod output_difference;
mod rten;
pub mod tensor;

pub use bench_report::{BenchReport, RuntimeComparison, RuntimeTimes};
pub use engine::{EngineRuntime, GraphSource, InferenceEngine, LoadedGraph, MAX_THREADS};
pub use error::Error;
pub use graph_timing::{GraphTiming, InferenceTime, MAX_RUNS, TimingPlan, TimingStep, time_graph};
pub use operator_times::{EngineOperatorTime, OperatorTimeShare, match_operators};
pub use output_difference::{OutputDifference, compare_outputs};
pub use tensor::{NamedTensor, TensorValues};
