//! Why there is no answer.

use crate::lifecycle;

/// What is in the way.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LatencyError {
    /// The sizes of operators that cost time are open.
    #[error(
        "the sizes of {operators} operators are not known ({first} is the first); give the shapes of all inputs, and where they are given, `metier inspect` names what is not known here"
    )]
    Open {
        operators: u64,
        /// The first of them.
        first: String,
    },
    /// The graph does nothing at all.
    #[error("the graph has no operators that run")]
    Empty,
    /// A passport that says nothing of the device's speed.
    #[error("the passport of {device} has {missing}; `metier device bench` measures it there")]
    Passport { device: String, missing: &'static str },
    /// A condition that cannot be.
    #[error("{field} is {got}; want {want}")]
    Condition {
        field: &'static str,
        got: String,
        /// What would be right.
        want: &'static str,
    },
    /// A predictor that cannot be read, kept or compared.
    #[error(transparent)]
    Lifecycle(lifecycle::LifecycleError),
    /// A trial that cannot be made or kept.
    #[error("{name}: {why}")]
    Trial { name: String, why: String },
    /// A graph that cannot be read.
    #[error(transparent)]
    Graph(#[from] metier_onnx::Error),
    /// A graph that cannot be run.
    #[error(transparent)]
    Infer(#[from] metier_infer::Error),
    #[error(transparent)]
    Store(#[from] metier_store::Error),
    #[error(transparent)]
    Learn(#[from] metier_learn::Error),
    /// A number without sense came out.
    #[error("the answer is not a number: {0}")]
    Answer(#[from] metier_types::PredictionError),
}

impl From<lifecycle::LifecycleError> for LatencyError {
    fn from(error: lifecycle::LifecycleError) -> Self {
        match error {
            lifecycle::LifecycleError::Store(error) => Self::Store(error),
            other => Self::Lifecycle(other),
        }
    }
}
