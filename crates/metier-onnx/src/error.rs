//! Why a file is not a graph that we can speak of.

/// What is wrong with a file or a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes end inside a field, or are no protocol buffer at all.
    #[error("not an ONNX file: {what} at byte {at}")]
    Bytes {
        at: usize,
        /// What was found there.
        what: &'static str,
    },
    /// It can be read, and is no network.
    #[error("not an ONNX graph: {what}")]
    NoGraph { what: String },
    /// A constant has more or less content than its dimensions want: the file is cut or was put together wrongly.
    #[error("constant {name:?} holds {got} bytes; want {want} for its elements, {sizes}")]
    Content {
        /// The constant; empty for the value of an attribute.
        name: String,
        /// Bytes that it has.
        got: u64,
        sizes: String,
        /// Bytes that these want.
        want: u64,
    },
    /// It asks for more than is allowed.
    #[error("{what} is {got}; at most {most} are read")]
    TooMuch {
        what: &'static str,
        /// How much it asks for.
        got: u64,
        /// How much is allowed.
        most: u64,
    },
    /// Its operators do not come in an order in which they can run.
    #[error("operator {node} needs {value:?} before anything has made it: the graph has a cycle or a gap")]
    Order {
        /// The operator's name, or its kind and number.
        node: String,
        value: String,
    },
    /// Two operators make the same value.
    #[error("{value:?} is made twice, the second time by operator {node}")]
    Twice { node: String, value: String },
    /// What an operator is given does not fit.
    #[error("operator {node}: {why}")]
    Misfit {
        /// The operator's name, or its kind and number.
        node: String,
        /// What does not fit.
        why: String,
    },
    /// A size that the user gave to a dimension that no input has.
    #[error("dimension {name:?} is given; want {want}")]
    Dimension {
        name: String,
        /// What would be right.
        want: String,
    },
    /// A shape that the user gave does not fit the graph.
    #[error("shape of input {input:?} is {got}; want {want}")]
    Shape {
        input: String,
        got: String,
        /// What would be right.
        want: String,
    },
}
