//! Errors of latency and memory prediction.

use crate::lifecycle;

/// Reason why there is no prediction.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LatencyError {
    /// Operators of unknown size that take time.
    #[error(
        "the sizes of {operators} operators are not known ({first} is the first); give the shapes of all inputs, and where they are given, `metier inspect` names what is not known here"
    )]
    Open {
        operators: u64,
        /// Name of the first such operator.
        first: String,
    },
    /// The graph has no operators that take time.
    #[error("the graph has no operators that run")]
    Empty,
    /// The passport lacks the device's speed.
    #[error("the passport of {device} has {missing}; `metier device bench` measures it there")]
    Passport { device: String, missing: &'static str },
    /// An impossible condition.
    #[error("{field} is {got}; want {want}")]
    Condition {
        field: &'static str,
        got: String,
        /// The accepted values.
        want: &'static str,
    },
    /// A predictor cannot be read, stored or compared.
    #[error(transparent)]
    Lifecycle(lifecycle::LifecycleError),
    /// A trial cannot be made or stored.
    #[error("{name}: {why}")]
    Trial { name: String, why: String },
    /// The graph cannot be read.
    #[error(transparent)]
    Graph(#[from] metier_onnx::Error),
    /// The graph cannot be run.
    #[error(transparent)]
    Infer(#[from] metier_infer::Error),
    #[error(transparent)]
    Store(#[from] metier_store::Error),
    #[error(transparent)]
    Learn(#[from] metier_learn::Error),
    /// The prediction is not a plausible number.
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
