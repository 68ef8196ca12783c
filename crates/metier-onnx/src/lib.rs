//! Reads ONNX graphs: operators, shapes, multiply-adds, bytes.
//!
//! [`wire`] decodes the bytes, and [`proto`] builds a [`Model`] within [`Limits`]. [`shape`] infers
//! the type and size of every value, and [`cost`] the multiply-adds of each operator. [`analysis`]
//! combines them: parameters, multiply-adds, peak activation memory, and the characteristics of the
//! SOPRANO profiler, by its rules and corrected.
//!
//! [`split`] partitions a graph, [`rewrite`] changes operators of a file, and [`build`] creates
//! small graphs. This crate runs no graph. No input makes it panic, loop forever, or take more
//! memory than a small multiple of the file: counts, depths and sizes are checked before anything
//! is stored. This crate reads no files; the caller passes the bytes, so only the description of
//! external weights is available.

pub mod analysis;
pub mod build;
pub mod constants;
pub mod cost;
mod error;
pub mod graph;
pub mod limits;
pub mod proto;
pub mod rewrite;
pub mod shape;
pub mod soprano;
pub mod split;
mod wire;
mod write;

pub use analysis::{Analysis, Bindings, OperatorCost, analyse};
pub use error::Error;
pub use graph::{Attribute, DataType, Dim, Graph, Model, Node, Tensor, ValueInfo};
pub use limits::Limits;
pub use proto::read;

use std::path::{Component, Path, PathBuf};

/// The file of external weights that a graph names; `None` outside of the graph's folder, because names in graphs
/// are not to be trusted.
pub fn external_file(folder: &Path, name: &str) -> Option<PathBuf> {
    let is_below = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    (is_below && !name.is_empty()).then(|| folder.join(name))
}
