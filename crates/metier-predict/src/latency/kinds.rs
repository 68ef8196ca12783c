//! Latency and memory as lifecycle kinds.

use metier_types::ContentDigest;

use super::learned_predictor::{self, LatencyPredictorFile};
use super::{fit, memory};
use crate::lifecycle::{LifecycleError, PredictorFileScope, PredictorKind};

/// Both kinds.
pub const KINDS: [&dyn PredictorKind; 2] = [&LatencyKind, &MemoryKind];

/// Predictors of inference time.
#[derive(Debug, Clone, Copy)]
pub struct LatencyKind;

impl PredictorKind for LatencyKind {
    fn name(&self) -> &'static str {
        learned_predictor::KIND
    }

    fn variant_field(&self) -> &'static str {
        "runtime"
    }

    fn baselines(&self) -> &'static [&'static str] {
        &[fit::BASELINE]
    }

    fn check(&self, id: &ContentDigest, file: &[u8]) -> Result<PredictorFileScope, LifecycleError> {
        let file = LatencyPredictorFile::read(id, file)?;
        Ok(PredictorFileScope { device: Some(file.device), variant: file.law.runtime })
    }
}

/// Predictors of memory use.
#[derive(Debug, Clone, Copy)]
pub struct MemoryKind;

impl PredictorKind for MemoryKind {
    fn name(&self) -> &'static str {
        memory::KIND
    }

    fn variant_field(&self) -> &'static str {
        "runtime"
    }

    fn baselines(&self) -> &'static [&'static str] {
        &[memory::ESTIMATE_BASELINE]
    }

    fn check(&self, id: &ContentDigest, file: &[u8]) -> Result<PredictorFileScope, LifecycleError> {
        let law = memory::MemoryPredictor::read(id, file)?;
        Ok(PredictorFileScope { device: Some(law.device), variant: law.runtime })
    }
}
