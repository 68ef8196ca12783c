//! Reads ONNX graphs: operators, shapes, multiply-adds, bytes.
//!
//! [`protobuf_reader`] decodes the bytes, and [`onnx_reader`] builds an [`OnnxFile`] within
//! [`OnnxLimits`]. [`shape`] infers the type and size of every value, and [`operator_cost`] the
//! multiply-adds of each operator. [`part_analysis`] combines them: parameters, multiply-adds, peak
//! activation memory, and the characteristics of the SOPRANO profiler, by its rules and corrected.
//!
//! [`split`] partitions a graph, [`graph_rewrite`] changes operators of a file, and
//! [`graph_builder`] creates small graphs. This crate runs no graph. No input makes it panic, loop
//! forever, or take more memory than a small multiple of the file: counts, depths and sizes are
//! checked before anything is stored. This crate reads no files; the caller passes the bytes, so
//! only the description of external weights is available.

pub mod analysis;
pub mod constants;
mod error;
pub mod graph;
pub mod graph_builder;
pub mod graph_rewrite;
pub mod limits;
pub mod onnx_reader;
pub mod operator_cost;
mod protobuf_reader;
mod protobuf_writer;
pub mod shape;
pub mod soprano;
pub mod split;

pub use analysis::{GraphAnalysis, OperatorCost, ShapeBindings, analyse_graph};
pub use error::Error;
pub use graph::{
    ConstantTensor, DataType, Graph, GraphNode, NodeAttribute, OnnxFile, TensorDimension, ValueInfo,
};
pub use limits::OnnxLimits;
pub use onnx_reader::read_onnx;

use std::path::{Component, Path, PathBuf};

/// The file of external weights that a graph names; `None` outside of the graph's folder, because
/// names in graphs are not to be trusted.
pub fn external_file(folder: &Path, name: &str) -> Option<PathBuf> {
    let is_below = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    (is_below && !name.is_empty()).then(|| folder.join(name))
}
