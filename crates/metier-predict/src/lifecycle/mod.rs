//! One life of every predictor, whatever it predicts: latency, memory, power, and contention when
//! it comes.
//!
//! ```text
//! fit ─► [`UnseenPredictions`] ─► [`PredictorComparison`] ─► [`standing`]: in use or aside
//!  ▲      score, baselines         margin on unseen groups    successor, roll-back, prune
//!  └── [`retrain`], one at a time ([`training_lock`])         [`portable`]: to other hosts
//! ```
//!
//! A predictor is a [`GraphTimePredictor`](metier_types::GraphTimePredictor) record and a file whose SHA-256 is its
//! id. At most one of a [`PredictorScope`] (kind, device, runtime or pipeline) is in use; the
//! others are kept aside to go back to. A kind says with [`PredictorKind`] how its files are
//! checked; what its files hold and how they are scored is its own. The comparison and the margin
//! work on errors by group alone, so a trainer without a store follows the same rules. Reads and
//! writes the store and nothing else.

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

/// A kind of predictors, as the lifecycle needs it.
pub trait PredictorKind: Sync {
    /// What `kind` says in its records.
    fn name(&self) -> &'static str;
    /// The field of a record that tells apart what is predicted on one device: a runtime, a
    /// pipeline.
    fn variant_field(&self) -> &'static str;
    /// Trivial answers, as named in `held_out`, that a predictor has to beat before it answers.
    fn baselines(&self) -> &'static [&'static str];
    /// Checks a file as it is checked before it answers.
    fn check(&self, id: &ContentDigest, file: &[u8]) -> Result<PredictorFileScope, LifecycleError>;
}

/// What a predictor's file says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictorFileScope {
    /// Where it was learned; `None` where files of that kind do not say.
    pub device: Option<DeviceRef>,
    /// The runtime or pipeline that it predicts.
    pub variant: String,
}

/// The kind of that name.
pub fn kind_named<'a>(kinds: &[&'a dyn PredictorKind], name: &str) -> Option<&'a dyn PredictorKind> {
    kinds.iter().copied().find(|kind| kind.name() == name)
}
