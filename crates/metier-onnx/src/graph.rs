//! A graph as its file says it, before anything is concluded from it.

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
    /// A later version's.
    Other,
}

impl DataType {
    /// By the number that stands for it in files.
    pub fn of(number: u64) -> Self {
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

    /// The number that stands for it in files; `None` for a type of which we do not keep it exactly.
    pub fn number(self) -> Option<u64> {
        let is_several = matches!(self, Self::Float8 | Self::Float6 | Self::Other);
        (1..=26).find(|number| Self::of(*number) == self && !is_several)
    }

    /// Bits of one element; `None` where elements have no fixed size.
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

    /// Whether it stands for real numbers: what weights are made of.
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

    /// Whether it stands for whole numbers that quantised weights are made of.
    pub fn is_quantised(self) -> bool {
        matches!(self, Self::Int8 | Self::Uint8 | Self::Int4 | Self::Uint4 | Self::Int2 | Self::Uint2)
    }
}

/// One dimension of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dim {
    Known(u64),
    /// As many as whoever runs it says; equal names, equal numbers.
    Named(String),
    Unknown,
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(size) => write!(f, "{size}"),
            Self::Named(name) => f.write_str(name),
            Self::Unknown => f.write_str("?"),
        }
    }
}

/// What a file says of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueInfo {
    pub name: String,
    /// Type of its elements.
    pub data_type: Option<DataType>,
    /// Its dimensions, where the file says so.
    pub shape: Option<Vec<Dim>>,
}

/// Elements of a small tensor, kept because shapes are computed from them.
#[derive(Debug, Clone, PartialEq)]
pub enum Small {
    /// Whole numbers and truth values.
    Integers(Vec<i64>),
    Floats(Vec<f64>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Its name; empty for the value of an attribute.
    pub name: String,
    /// Type of its elements.
    pub data_type: DataType,
    pub dims: Vec<u64>,
    /// Its elements, where they are few.
    pub small: Option<Small>,
    /// The file that holds its elements, where they are outside.
    pub external: Option<String>,
    /// Where they start in that file, and how many bytes they are, where it is said.
    pub external_span: (u64, Option<u64>),
    /// Whether both are said: the format leaves that open, and not every reader does.
    pub is_span_told: bool,
    /// Where it stands in the file.
    pub span: Range<usize>,
    /// Whether it stands there as a list of the elements that are not 0.
    pub is_sparse: bool,
}

impl Tensor {
    /// How many elements it has; dimensions were bounded when it was read.
    pub fn elements(&self) -> u64 {
        self.dims.iter().product()
    }

    /// Bytes of its elements; `None` where they have no fixed size.
    pub fn bytes(&self) -> Option<u64> {
        Some(self.elements().checked_mul(self.data_type.bits()?)?.div_ceil(8))
    }
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Attribute {
    Integer(i64),
    Float(f64),
    Text(String),
    Integers(Vec<i64>),
    Floats(Vec<f64>),
    Texts(Vec<String>),
    /// A constant; shared, since calls of a function repeat it.
    Tensor(Arc<Tensor>),
    Graph(Box<Graph>),
    Graphs(Vec<Graph>),
    /// Inside of a function: what the operator that calls it has under this name.
    Outer(String),
    /// What we have no use for.
    Other,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its name; often empty.
    pub name: String,
    /// Its kind, for example `Conv`.
    pub kind: String,
    /// Whose kind: empty for ONNX's own.
    pub domain: String,
    /// Which one of several functions of that name; mostly empty.
    pub overload: String,
    /// Names of what it takes; empty where an optional one is left out.
    pub inputs: Vec<String>,
    /// Names of what it makes; empty where an optional one is left out.
    pub outputs: Vec<String>,
    pub attributes: BTreeMap<String, Attribute>,
    /// Where it stands in the file.
    pub span: Range<usize>,
}

impl Node {
    /// Whether it is one of ONNX's own kinds.
    pub fn is_standard(&self) -> bool {
        matches!(self.domain.as_str(), "" | "ai.onnx")
    }

    /// Whether its kind is one that is known by its name here: ONNX's own and those of ONNX Runtime. Others may mean anything by it.
    pub fn is_familiar(&self) -> bool {
        let is_runtime = |rest: &str| rest.is_empty() || rest.starts_with('.');
        self.is_standard() || self.domain.strip_prefix("com.microsoft").is_some_and(is_runtime)
    }

    /// A whole number among its attributes.
    pub fn integer(&self, name: &str) -> Option<i64> {
        match self.attributes.get(name) {
            Some(Attribute::Integer(value)) => Some(*value),
            _ => None,
        }
    }

    /// Whole numbers among its attributes.
    pub fn integers(&self, name: &str) -> Option<&[i64]> {
        match self.attributes.get(name) {
            Some(Attribute::Integers(values)) => Some(values),
            _ => None,
        }
    }

    /// A text among its attributes.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.attributes.get(name) {
            Some(Attribute::Text(value)) => Some(value),
            _ => None,
        }
    }

    /// A sub-graph among its attributes.
    pub fn graph(&self, name: &str) -> Option<&Graph> {
        match self.attributes.get(name) {
            Some(Attribute::Graph(graph)) => Some(graph),
            _ => None,
        }
    }

    pub fn graphs(&self) -> impl Iterator<Item = &Graph> {
        self.attributes.values().flat_map(|attribute| match attribute {
            Attribute::Graph(graph) => std::slice::from_ref(graph.as_ref()),
            Attribute::Graphs(graphs) => graphs.as_slice(),
            _ => &[],
        })
    }

    /// Its name, or its kind and number, for people; of a very long one the beginning. Operators inside of sub-graphs are told with the names of all
    /// around them, so a long name must not cost once more for each.
    pub fn called(&self, number: usize) -> String {
        let kind = beginning(&self.kind);
        let name = beginning(&self.name);
        if name.is_empty() {
            format!("{kind} #{number}")
        } else if name.len() < self.name.len() {
            format!("{name:?}… #{number} ({kind})")
        } else {
            format!("{name:?} ({kind})")
        }
    }
}

/// Characters of a name that people are told.
const TOLD: usize = 120;

fn beginning(name: &str) -> &str {
    name.char_indices().nth(TOLD).and_then(|(end, _)| name.get(..end)).unwrap_or(name)
}

/// Operators and what flows between them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Graph {
    pub name: String,
    /// Its operators, in an order in which they can run.
    pub nodes: Vec<Node>,
    pub initializers: Vec<Tensor>,
    /// What it is given, constants that are listed there left out.
    pub inputs: Vec<ValueInfo>,
    pub outputs: Vec<ValueInfo>,
    /// What the file says of values inside.
    pub values: Vec<ValueInfo>,
}

/// An operator that a file defines itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Function {
    /// Its name: the kind of the operators that call it.
    pub name: String,
    pub domain: String,
    /// Which one of several of that name.
    pub overload: String,
    /// What it does; inputs and outputs have names only.
    pub graph: Graph,
    /// Version of ONNX's own operators in it, where it says so.
    pub opset: Option<i64>,
    /// Attributes that a call may leave away.
    pub defaults: BTreeMap<String, Attribute>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Model {
    /// Version of the file format.
    pub ir_version: i64,
    pub producer: String,
    /// Version of each domain's operators.
    pub opsets: BTreeMap<String, i64>,
    pub graph: Graph,
    /// Operators that the file defines itself.
    pub functions: Vec<Function>,
}

impl Model {
    /// Version of ONNX's own operators.
    pub fn opset(&self) -> i64 {
        self.opsets.get("").or_else(|| self.opsets.get("ai.onnx")).copied().unwrap_or(1)
    }
}
