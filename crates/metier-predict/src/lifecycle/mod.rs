//! The common lifecycle of all predictors: latency, memory, power, and later contention.
//!
//! ```text
//! fit ─► [`UnseenPredictions`] ─► [`PredictorComparison`] ─► [`standing`]: in use or superseded
//!  ▲      score, baselines         margin on unseen groups    successor, roll-back, prune
//!  └── [`retrain`], one at a time ([`training_lock`])         [`portable`]: to other hosts
//! ```
//!
//! A predictor is a [`GraphTimePredictor`](metier_types::GraphTimePredictor) record and a file; its
//! id is the file's SHA-256. At most one predictor of a [`PredictorScope`] (kind, device, runtime
//! or pipeline) is in use; others are stored for roll-back. A kind implements [`PredictorKind`] to
//! check its files; the file format and the scoring are its own. Comparison and margin use errors
//! by group only, so trainers without a store follow the same rules. Reads and writes the store
//! only.

mod comparison;
mod error;
pub mod portable;
pub mod retrain;
mod score;
pub mod standing;
pub mod training_lock;

pub use comparison::{GroupErrors, PredictorComparison, PromotionDecision, PromotionMargin};
pub use error::LifecycleError;
pub use score::UnseenPredictions;
pub use standing::PredictorScope;

use metier_types::{ContentDigest, DeviceRef};

/// A kind of predictors.
pub trait PredictorKind: Sync {
    /// The record's `kind`.
    fn name(&self) -> &'static str;
    /// Record field that separates predictors of one device: a runtime, a pipeline.
    fn variant_field(&self) -> &'static str;
    /// Baselines, as named in `held_out`, that a predictor must beat before it answers.
    fn baselines(&self) -> &'static [&'static str];
    /// Checks a file like before its use for predictions.
    fn check(&self, id: &ContentDigest, file: &[u8]) -> Result<PredictorFileScope, LifecycleError>;
}

/// Scope stated in a predictor's file.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictorFileScope {
    /// Device of the training data; `None` if files of the kind do not state it.
    pub device: Option<DeviceRef>,
    /// Runtime or pipeline.
    pub variant: String,
}

/// The kind of that name.
pub fn kind_named<'a>(kinds: &[&'a dyn PredictorKind], name: &str) -> Option<&'a dyn PredictorKind> {
    kinds.iter().copied().find(|kind| kind.name() == name)
}
