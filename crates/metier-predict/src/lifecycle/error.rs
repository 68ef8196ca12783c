//! Errors of the predictor lifecycle.

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LifecycleError {
    /// A predictor's file is unusable.
    #[error("predictor {id}: {why}; `metier predictors remove {id}` removes it")]
    Unusable { id: String, why: String },
    /// An import was rejected.
    #[error("the predictor is refused: {why}")]
    Refused { why: String },
    /// The record of a training lock cannot be serialised.
    #[error("training lock: {0}")]
    Lock(serde_json::Error),
    #[error(transparent)]
    Store(#[from] metier_store::Error),
}

impl LifecycleError {
    /// An error for an unusable file.
    pub fn unusable(id: &metier_types::ContentDigest, why: impl ToString) -> Self {
        Self::Unusable { id: id.to_string(), why: why.to_string() }
    }
}
