//! Reads ONNX graphs: which operators, of which shapes, how many multiply-adds, how many bytes.
//!
//! The way of a file: [`wire`] takes the bytes apart, [`proto`] makes a [`Model`] of them within [`Limits`],
//! [`shape`] gives every value its type and size, [`cost`] says what each operator does, and [`analysis`] puts it
//! together: the whole graph's parameters, multiply-adds, peak activation memory, and the characteristics that the SOPRANO
//! profiler knew, by its rules and corrected.
//!
//! [`split`] cuts a graph into parts, [`rewrite`] changes operators of a file, [`build`] makes small ones. Nothing here runs a graph. No bytes make it panic, loop or take more memory than a small multiple of the file:
//! counts, depths and sizes are bounded before anything is kept. This crate reads no files by itself: whoever has
//! the bytes passes them, so external weights are known by their description only.

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
