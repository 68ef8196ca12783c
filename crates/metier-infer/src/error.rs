//! Reasons why a graph did not run.

use std::path::PathBuf;

use metier_types::Bytes;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    /// The file is not a graph, or the given shapes do not fit it.
    #[error(transparent)]
    Graph(#[from] metier_onnx::Error),
    /// An engine's library is not usable.
    #[error("cannot use {} as ONNX Runtime: {why}; {}", path.display(), crate::library::FIX)]
    Library {
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The engine rejects the graph.
    #[error("{engine} cannot load the graph: {why}")]
    Load {
        engine: &'static str,
        /// The engine's message, which names the operator.
        why: String,
    },
    /// The engine loaded the graph, and failed in an inference.
    #[error("{engine} cannot run the graph: {why}")]
    Run {
        engine: &'static str,
        /// The engine's message, which names the operator.
        why: String,
    },
    /// The engine panicked, which is a defect in it.
    #[error("{engine} panicked on the graph, a defect in the engine: {why}")]
    Defect { engine: &'static str, why: String },
    /// An input does not fit the graph.
    #[error("input {name:?} is {got}; want {want}")]
    Input {
        name: String,
        got: String,
        /// Description of valid values.
        want: String,
    },
    /// An invalid timing plan.
    #[error("{field} is {got}; want {want}")]
    Plan {
        field: &'static str,
        got: String,
        /// Description of valid values.
        want: &'static str,
    },
    /// The graph needs more memory than is available, and would make the engine abort the whole
    /// process.
    #[error(
        "the graph needs at least {needed} of memory, {weights} of it for weights, but only {available} are available; want smaller shapes, or a host with more memory"
    )]
    Memory {
        needed: Bytes,
        weights: Bytes,
        /// Available memory, swap included.
        available: Bytes,
    },
    /// An engine's operator times could not be read.
    #[error("cannot time operators: {0}")]
    Operators(String),
}

/// The message of a panic.
pub(crate) fn panic_text(panic: Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".into())
}
