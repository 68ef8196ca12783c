//! Runs ONNX graphs in this process, and times them.
//!
//! [`Runtime`] is an [`Engine`] that has been made ready once, with a number of threads; it loads graphs one after the other, cheaply.
//! A [`Loaded`] graph is given its inputs once and run as often as wanted. [`time`] does all of it by a [`Plan`]: load, first
//! inference, warm-up, repeats, time by operator, outputs. [`inputs`] makes tensors that fit what a graph declares.
//!
//! The engine is `rten`, built in and pure Rust. What it cannot run is an error that names the operator; a panic inside of it is an error too. A
//! crash is a crash of this process: whoever runs files of strangers does so in a child.
//!
//! Reads files only where it is given a path, and prints nothing.

mod error;
pub mod inputs;
mod loaded;
mod operators;
mod rten;
pub mod tensor;
mod timing;

pub use error::Error;
pub use loaded::{Engine, Loaded, MOST_THREADS, Runtime, Source};
pub use operators::OperatorTime;
pub use tensor::{Tensor, Values};
pub use timing::{MOST_RUNS, Plan, Spent, Step, Timing, time};
