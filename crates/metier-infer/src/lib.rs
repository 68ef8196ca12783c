//! Runs ONNX graphs in this process, and times them.
//!
//! [`Runtime`] is an [`Engine`] initialised once with a number of threads; loading graphs into it
//! is cheap. A [`Loaded`] graph gets its inputs once and can run repeatedly. [`time`] follows a
//! [`Plan`]: load, first inference, warm-up, repeats, operator times, outputs. [`inputs`] creates
//! tensors that fit a graph's declarations.
//!
//! There are two engines: `rten`, built in and pure Rust, and ONNX Runtime, if its library is on
//! this host ([`library`]). An unsupported operator gives an error that names it, and an engine's
//! panic gives an error too. A crash of an engine ends this process, so untrusted files must run in
//! a child process.
//!
//! Reads only files with a given path, and prints nothing.

mod bench_report;
mod difference;
mod error;
pub mod inputs;
pub mod job;
pub mod library;
mod loaded;
pub mod memory;
pub mod npy;
mod onnxruntime;
mod operators;
mod rten;
pub mod tensor;
mod timing;

pub use bench_report::{BenchReport, RuntimeComparison, RuntimeTimes};
pub use difference::{Difference, differences};
pub use error::Error;
pub use loaded::{Engine, Loaded, MOST_THREADS, Runtime, Source};
pub use operators::{OperatorTime, Share, shares};
pub use tensor::{Tensor, Values};
pub use timing::{MOST_RUNS, Plan, Spent, Step, Timing, time};
