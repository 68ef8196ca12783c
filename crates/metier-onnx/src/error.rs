//! Reasons why a file is not a supported graph.

/// An error in a file or a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes end inside a field, or are not a protocol buffer.
    #[error("not an ONNX file: {what} at byte {at}")]
    MalformedBytes {
        at: usize,
        /// The malformed part.
        what: &'static str,
    },
    /// The file is readable but not a network.
    #[error("not an ONNX graph: {what}")]
    NoGraph { what: String },
    /// A constant's content does not match its dimensions: the file is truncated or malformed.
    #[error("constant {name:?} holds {got} bytes; want {want} for its elements, {sizes}")]
    ConstantSize {
        /// Name of the constant; empty for the value of an attribute.
        name: String,
        /// Bytes of its content.
        got: u64,
        sizes: String,
        /// Bytes that its dimensions require.
        want: u64,
    },
    /// The file exceeds a limit.
    #[error("{what} is {got}; at most {most} are read")]
    LimitExceeded {
        what: &'static str,
        /// The requested amount.
        got: u64,
        /// The limit.
        most: u64,
    },
    /// The operators are not in an executable order.
    #[error(
        "operator {node} needs {value:?} before any operator produces it: the graph has a cycle or a gap"
    )]
    ValueUsedBeforeMade {
        /// The operator's name, or its type and number.
        node: String,
        value: String,
    },
    /// Two operators produce the same value.
    #[error("{value:?} is made twice, the second time by operator {node}")]
    DuplicateValue { node: String, value: String },
    /// An operator's inputs do not fit.
    #[error("operator {node}: {why}")]
    OperatorMismatch {
        /// The operator's name, or its type and number.
        node: String,
        /// The mismatch.
        why: String,
    },
    /// A user-given size for a dimension that no input has.
    #[error("dimension {name:?} is given; want {want}")]
    Dimension {
        name: String,
        /// Description of valid values.
        want: String,
    },
    /// A user-given shape does not fit the graph.
    #[error("shape of input {input:?} is {got}; want {want}")]
    Shape {
        input: String,
        got: String,
        /// Description of valid values.
        want: String,
    },
}
