//! A graph as stored in its file, before any inference.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

/// The type of a tensor's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum DataType {
    Float,
    Uint8,
    Int8,
    Uint16,
    Int16,
    Int32,
    Int64,
    String,
    Bool,
    Float16,
    Double,
    Uint32,
    Uint64,
    Complex64,
    Complex128,
    Bfloat16,
    Float8,
    Uint4,
    Int4,
    Float4,
    Uint2,
    Int2,
    Float6,
    /// A type of a later version.
    Other,
}

impl DataType {
    /// The type for a number in the file format.
    pub fn from_number(number: u64) -> Self {
        match number {
            1 => Self::Float,
            2 => Self::Uint8,
            3 => Self::Int8,
            4 => Self::Uint16,
            5 => Self::Int16,
            6 => Self::Int32,
            7 => Self::Int64,
            8 => Self::String,
            9 => Self::Bool,
            10 => Self::Float16,
            11 => Self::Double,
            12 => Self::Uint32,
            13 => Self::Uint64,
            14 => Self::Complex64,
            15 => Self::Complex128,
            16 => Self::Bfloat16,
            17..=20 | 24 => Self::Float8,
            21 => Self::Uint4,
            22 => Self::Int4,
            23 => Self::Float4,
            25 => Self::Uint2,
            26 => Self::Int2,
            27 | 28 => Self::Float6,
            _ => Self::Other,
        }
    }

    /// Its number in the file format; `None` for types that this enum merges.
    pub fn number(self) -> Option<u64> {
        let is_several = matches!(self, Self::Float8 | Self::Float6 | Self::Other);
        (1..=26).find(|number| Self::from_number(*number) == self && !is_several)
    }

    /// Bits of one element; `None` if elements have no fixed size.
    pub fn bits(self) -> Option<u64> {
        Some(match self {
            Self::Uint2 | Self::Int2 => 2,
            Self::Uint4 | Self::Int4 | Self::Float4 => 4,
            Self::Float6 => 6,
            Self::Uint8 | Self::Int8 | Self::Bool | Self::Float8 => 8,
            Self::Uint16 | Self::Int16 | Self::Float16 | Self::Bfloat16 => 16,
            Self::Float | Self::Int32 | Self::Uint32 => 32,
            Self::Int64 | Self::Double | Self::Uint64 | Self::Complex64 => 64,
            Self::Complex128 => 128,
            Self::String | Self::Other => return None,
        })
    }

    /// Whether it is a floating-point type, as weights have.
    pub fn is_float(self) -> bool {
        matches!(
            self,
            Self::Float
                | Self::Float16
                | Self::Double
                | Self::Bfloat16
                | Self::Float8
                | Self::Float6
                | Self::Float4
        )
    }

    /// Whether it is an integer type of quantised weights.
    pub fn is_quantised(self) -> bool {
        matches!(self, Self::Int8 | Self::Uint8 | Self::Int4 | Self::Uint4 | Self::Int2 | Self::Uint2)
    }
}

/// One dimension of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TensorDimension {
    Known(u64),
    /// A size that is chosen at run time; equal names have equal sizes.
    Named(String),
    Unknown,
}

impl fmt::Display for TensorDimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(size) => write!(f, "{size}"),
            Self::Named(name) => f.write_str(name),
            Self::Unknown => f.write_str("?"),
        }
    }
}

/// A value's declaration in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueInfo {
    pub name: String,
    /// Type of its elements.
    pub data_type: Option<DataType>,
    /// Its dimensions, if the file declares them.
    pub shape: Option<Vec<TensorDimension>>,
}

/// Elements of a small tensor, kept because shapes are computed from them.
#[derive(Debug, Clone, PartialEq)]
pub enum SmallElements {
    /// Integers and booleans.
    Integers(Vec<i64>),
    Floats(Vec<f64>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct ConstantTensor {
    /// Name; empty for the value of an attribute.
    pub name: String,
    /// Type of its elements.
    pub data_type: DataType,
    pub dims: Vec<u64>,
    /// Its elements, if they are few.
    pub small: Option<SmallElements>,
    /// The external file with its elements, if any.
    pub external: Option<String>,
    /// Offset in the external file, and length in bytes if declared.
    pub external_span: (u64, Option<u64>),
    /// Whether the file declares both offset and length, which the format makes optional but some
    /// readers require.
    pub is_span_told: bool,
    /// Byte range in the file.
    pub span: Range<usize>,
    /// Whether it is stored as a sparse list of non-zero elements.
    pub is_sparse: bool,
}

impl ConstantTensor {
    /// Number of elements; the reader has bounded the dimensions.
    pub fn elements(&self) -> u64 {
        self.dims.iter().product()
    }

    /// Bytes of its elements; `None` if they have no fixed size.
    pub fn bytes(&self) -> Option<u64> {
        Some(self.elements().checked_mul(self.data_type.bits()?)?.div_ceil(8))
    }
}

/// Value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeAttribute {
    Integer(i64),
    Float(f64),
    Text(String),
    Integers(Vec<i64>),
    Floats(Vec<f64>),
    Texts(Vec<String>),
    /// A constant, shared because calls of a function copy it.
    Tensor(Arc<ConstantTensor>),
    Graph(Box<Graph>),
    Graphs(Vec<Graph>),
    /// Inside a function: a reference to the caller's attribute of this name.
    Outer(String),
    /// An unused attribute type.
    Other,
}

#[derive(Debug, Clone, PartialEq)]
pub struct GraphNode {
    /// Name, often empty.
    pub name: String,
    /// Operator type, for example `Conv`.
    pub kind: String,
    /// Domain of the operator type; empty for ONNX's own.
    pub domain: String,
    /// Selects one of several functions of that name; usually empty.
    pub overload: String,
    /// Names of its inputs; empty for an omitted optional input.
    pub inputs: Vec<String>,
    /// Names of its outputs; empty for an omitted optional output.
    pub outputs: Vec<String>,
    pub attributes: BTreeMap<String, NodeAttribute>,
    /// Byte range in the file.
    pub span: Range<usize>,
}

impl GraphNode {
    /// Whether its type is one of ONNX's own.
    pub fn is_standard(&self) -> bool {
        matches!(self.domain.as_str(), "" | "ai.onnx")
    }

    /// Whether its type is in a known domain: ONNX's own or ONNX Runtime's. Other domains may
    /// define the name differently.
    pub fn is_known_domain(&self) -> bool {
        let is_runtime = |rest: &str| rest.is_empty() || rest.starts_with('.');
        self.is_standard() || self.domain.strip_prefix("com.microsoft").is_some_and(is_runtime)
    }

    /// An integer attribute.
    pub fn integer(&self, name: &str) -> Option<i64> {
        match self.attributes.get(name) {
            Some(NodeAttribute::Integer(value)) => Some(*value),
            _ => None,
        }
    }

    /// An integer list attribute.
    pub fn integers(&self, name: &str) -> Option<&[i64]> {
        match self.attributes.get(name) {
            Some(NodeAttribute::Integers(values)) => Some(values),
            _ => None,
        }
    }

    /// A string attribute.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.attributes.get(name) {
            Some(NodeAttribute::Text(value)) => Some(value),
            _ => None,
        }
    }

    /// A subgraph attribute.
    pub fn graph(&self, name: &str) -> Option<&Graph> {
        match self.attributes.get(name) {
            Some(NodeAttribute::Graph(graph)) => Some(graph),
            _ => None,
        }
    }

    pub fn graphs(&self) -> impl Iterator<Item = &Graph> {
        self.attributes.values().flat_map(|attribute| match attribute {
            NodeAttribute::Graph(graph) => std::slice::from_ref(graph.as_ref()),
            NodeAttribute::Graphs(graphs) => graphs.as_slice(),
            _ => &[],
        })
    }

    /// Display name: the name, or the type and number. A long name is truncated, because the name
    /// is repeated in the path of every operator in its subgraphs.
    pub fn display_name(&self, number: usize) -> String {
        let kind = truncate_name(&self.kind);
        let name = truncate_name(&self.name);
        if name.is_empty() {
            format!("{kind} #{number}")
        } else if name.len() < self.name.len() {
            format!("{name:?}… #{number} ({kind})")
        } else {
            format!("{name:?} ({kind})")
        }
    }
}

/// Largest number of characters of a displayed name.
const MAX_NAME_CHARS: usize = 120;

fn truncate_name(name: &str) -> &str {
    name.char_indices().nth(MAX_NAME_CHARS).and_then(|(end, _)| name.get(..end)).unwrap_or(name)
}

/// Operators and the values between them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Graph {
    pub name: String,
    /// Its operators in an executable order.
    pub nodes: Vec<GraphNode>,
    pub initializers: Vec<ConstantTensor>,
    /// Its inputs, without constants that are listed there.
    pub inputs: Vec<ValueInfo>,
    pub outputs: Vec<ValueInfo>,
    /// Declarations of inner values.
    pub values: Vec<ValueInfo>,
}

/// An operator that the file defines itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LocalFunction {
    /// Name, which is the type of the operators that call it.
    pub name: String,
    pub domain: String,
    /// Selects one of several functions of that name.
    pub overload: String,
    /// Body; its inputs and outputs have names only.
    pub graph: Graph,
    /// Version of ONNX's own operators in it, if declared.
    pub opset: Option<i64>,
    /// Default values of attributes that a call may omit.
    pub defaults: BTreeMap<String, NodeAttribute>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct OnnxFile {
    /// Version of the file format.
    pub ir_version: i64,
    pub producer: String,
    /// Operator set version of each domain.
    pub opsets: BTreeMap<String, i64>,
    pub graph: Graph,
    /// Operators that the file defines itself.
    pub functions: Vec<LocalFunction>,
}

impl OnnxFile {
    /// Version of ONNX's own operators.
    pub fn opset(&self) -> i64 {
        self.opsets.get("").or_else(|| self.opsets.get("ai.onnx")).copied().unwrap_or(1)
    }
}
