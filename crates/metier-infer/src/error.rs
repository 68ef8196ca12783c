//! Why a graph did not run.

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
    /// The file is no graph, or the shapes that were given do not fit it.
    #[error(transparent)]
    Graph(#[from] metier_onnx::Error),
    /// The library of an engine cannot be used.
    #[error("cannot use {} as ONNX Runtime: {why}; {}", path.display(), crate::library::FIX)]
    Library {
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The engine does not take the graph.
    #[error("{engine} cannot load the graph: {why}")]
    Load {
        engine: &'static str,
        /// What it says; names the operator.
        why: String,
    },
    /// The engine took the graph, and failed in an inference.
    #[error("{engine} cannot run the graph: {why}")]
    Run {
        engine: &'static str,
        /// What it says; names the operator.
        why: String,
    },
    /// The engine panicked, which is a defect of it.
    #[error("{engine} failed on the graph with a defect of its own: {why}")]
    Defect { engine: &'static str, why: String },
    /// An input does not fit.
    #[error("input {name:?} is {got}; want {want}")]
    Input {
        name: String,
        got: String,
        /// What would be right.
        want: String,
    },
    /// A plan that makes no sense.
    #[error("{field} is {got}; want {want}")]
    Plan {
        field: &'static str,
        got: String,
        /// What would be right.
        want: &'static str,
    },
    /// The graph needs more memory than there is: an engine would end the whole process in the attempt.
    #[error(
        "the graph needs at least {needed} of memory, {weights} of it for weights, and {available} are available here; want smaller shapes, or a host with more"
    )]
    Memory {
        needed: Bytes,
        weights: Bytes,
        /// What a program could have now.
        available: Bytes,
    },
    /// What an engine says by the way could not be read.
    #[error("cannot time operators: {0}")]
    Operators(String),
}

/// The message of a panic.
pub(crate) fn panic_text(panic: Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a word".into())
}
