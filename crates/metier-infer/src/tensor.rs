//! Input and output tensors of a graph.

use metier_onnx::DataType;

/// Elements in row-major order.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum TensorValues {
    Float(Vec<f32>),
    Double(Vec<f64>),
    Int8(Vec<i8>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Uint8(Vec<u8>),
    Uint16(Vec<u16>),
    Uint32(Vec<u32>),
    Uint64(Vec<u64>),
    Bool(Vec<bool>),
}

/// Applies one expression to each element type.
macro_rules! each {
    ($values:expr, $list:ident => $then:expr) => {
        match $values {
            TensorValues::Float($list) => $then,
            TensorValues::Double($list) => $then,
            TensorValues::Int8($list) => $then,
            TensorValues::Int16($list) => $then,
            TensorValues::Int32($list) => $then,
            TensorValues::Int64($list) => $then,
            TensorValues::Uint8($list) => $then,
            TensorValues::Uint16($list) => $then,
            TensorValues::Uint32($list) => $then,
            TensorValues::Uint64($list) => $then,
            TensorValues::Bool($list) => $then,
        }
    };
}

impl TensorValues {
    pub fn len(&self) -> usize {
        each!(self, list => list.len())
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn data_type(&self) -> DataType {
        match self {
            Self::Float(_) => DataType::Float,
            Self::Double(_) => DataType::Double,
            Self::Int8(_) => DataType::Int8,
            Self::Int16(_) => DataType::Int16,
            Self::Int32(_) => DataType::Int32,
            Self::Int64(_) => DataType::Int64,
            Self::Uint8(_) => DataType::Uint8,
            Self::Uint16(_) => DataType::Uint16,
            Self::Uint32(_) => DataType::Uint32,
            Self::Uint64(_) => DataType::Uint64,
            Self::Bool(_) => DataType::Bool,
        }
    }

    /// Converts numbers to a type, rounded and clamped to its range; `None` for an unsupported
    /// type.
    pub fn from_numbers(data_type: DataType, numbers: impl Iterator<Item = f64>) -> Option<Self> {
        // Rust's cast saturates.
        Some(match data_type {
            DataType::Float => Self::Float(numbers.map(|number| number as f32).collect()),
            DataType::Double => Self::Double(numbers.collect()),
            DataType::Int8 => Self::Int8(numbers.map(|number| number as i8).collect()),
            DataType::Int16 => Self::Int16(numbers.map(|number| number as i16).collect()),
            DataType::Int32 => Self::Int32(numbers.map(|number| number as i32).collect()),
            DataType::Int64 => Self::Int64(numbers.map(|number| number as i64).collect()),
            DataType::Uint8 => Self::Uint8(numbers.map(|number| number as u8).collect()),
            DataType::Uint16 => Self::Uint16(numbers.map(|number| number as u16).collect()),
            DataType::Uint32 => Self::Uint32(numbers.map(|number| number as u32).collect()),
            DataType::Uint64 => Self::Uint64(numbers.map(|number| number as u64).collect()),
            DataType::Bool => Self::Bool(numbers.map(|number| number != 0.0).collect()),
            _ => return None,
        })
    }

    /// All elements as numbers, for comparison.
    pub fn to_numbers(&self) -> Vec<f64> {
        match self {
            Self::Float(list) => list.iter().map(|value| f64::from(*value)).collect(),
            Self::Double(list) => list.clone(),
            Self::Int8(list) => list.iter().map(|value| f64::from(*value)).collect(),
            Self::Int16(list) => list.iter().map(|value| f64::from(*value)).collect(),
            Self::Int32(list) => list.iter().map(|value| f64::from(*value)).collect(),
            Self::Int64(list) => list.iter().map(|value| *value as f64).collect(),
            Self::Uint8(list) => list.iter().map(|value| f64::from(*value)).collect(),
            Self::Uint16(list) => list.iter().map(|value| f64::from(*value)).collect(),
            Self::Uint32(list) => list.iter().map(|value| f64::from(*value)).collect(),
            Self::Uint64(list) => list.iter().map(|value| *value as f64).collect(),
            Self::Bool(list) => list.iter().map(|value| f64::from(u8::from(*value))).collect(),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct NamedTensor {
    /// Name in the graph.
    pub name: String,
    pub shape: Vec<usize>,
    /// The elements, as many as the shape requires.
    pub values: TensorValues,
}
