//! Reads an uploaded graph: parsing, binding of shapes, and counts.

use std::collections::BTreeMap;

use metier_onnx::soprano::GraphCharacteristics;
use metier_onnx::{GraphAnalysis, OnnxLimits, ShapeBindings};

/// A parsed graph.
#[derive(Debug)]
pub struct AnalysedGraph {
    pub analysis: GraphAnalysis,
    /// The corrected counts of the SOPRANO profiler.
    pub counted: GraphCharacteristics,
}

/// Reason why a graph cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphReadError {
    /// Shapes in the wrong syntax.
    #[error("{got:?} gives no sizes to an input")]
    Written { got: String },
    /// Error of the ONNX reader.
    #[error(transparent)]
    Graph(#[from] metier_onnx::Error),
}

impl GraphReadError {
    /// Whether the given shapes are at fault rather than the file.
    pub const fn is_shape(&self) -> bool {
        matches!(self, Self::Written { .. } | Self::Graph(metier_onnx::Error::Shape { .. }))
    }

    /// The accepted input.
    pub const fn want(&self) -> &'static str {
        match self.is_shape() {
            true => "INPUT=1x3x224x224 for inputs that the graph has, by commas",
            false => "an ONNX graph",
        }
    }
}

/// Reads a graph; `shapes` is `INPUT=1x3x224x224`, separated by commas.
pub fn read(bytes: &[u8], shapes: Option<&str>) -> Result<AnalysedGraph, GraphReadError> {
    let limits = OnnxLimits::default();
    let bindings =
        ShapeBindings { shapes: parse_shapes(shapes.unwrap_or_default())?, ..ShapeBindings::default() };
    let model = metier_onnx::read_onnx(bytes, &limits)?;
    let analysis = metier_onnx::analyse_graph(&model, &bindings, &limits)?;
    let counted = analysis.characteristics;
    Ok(AnalysedGraph { analysis, counted })
}

fn parse_shapes(text: &str) -> Result<BTreeMap<String, Vec<u64>>, GraphReadError> {
    let parse_shape = |part: &str| {
        let (name, sizes) = part.rsplit_once('=')?;
        let sizes = sizes.split('x').map(|size| size.parse().ok()).collect::<Option<Vec<u64>>>()?;
        Some((name.to_string(), sizes))
    };
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            parse_shape(part).ok_or_else(|| GraphReadError::Written { got: part.chars().take(100).collect() })
        })
        .collect()
}
