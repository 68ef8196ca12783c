//! What can go wrong in the life of a predictor.

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LifecycleError {
    /// A predictor whose file cannot be used.
    #[error("predictor {id}: {why}; `metier predictors remove {id}` removes it")]
    Unusable { id: String, why: String },
    /// A predictor from elsewhere that is not imported.
    #[error("the predictor is refused: {why}")]
    Refused { why: String },
    /// The record of a training lock that cannot be written.
    #[error("training lock: {0}")]
    Lock(serde_json::Error),
    #[error(transparent)]
    Store(#[from] metier_store::Error),
}

impl LifecycleError {
    /// A file that cannot be used.
    pub fn unusable(id: &metier_types::ContentDigest, why: impl ToString) -> Self {
        Self::Unusable { id: id.to_string(), why: why.to_string() }
    }
}
