//! Runs ONNX graphs in this process, and times them.
//!
//! [`Runtime`] is an [`Engine`] that has been made ready once, with a number of threads; it loads graphs one after the other, cheaply.
//! A [`Loaded`] graph is given its inputs once and run as often as wanted. [`time`] does all of it by a [`Plan`]: load, first
//! inference, warm-up, repeats, time by operator, outputs. [`inputs`] makes tensors that fit what a graph declares.
//!
//! Two engines: `rten`, built in and pure Rust, and ONNX Runtime, where its library is found on this host
//! ([`library`]). What an engine cannot run is an error that names the operator; a panic inside of one is an error too. A
//! crash is a crash of this process: whoever runs files of strangers does so in a child.
//!
//! Reads files only where it is given a path, and prints nothing.

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
