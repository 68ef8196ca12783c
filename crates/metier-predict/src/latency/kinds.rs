//! Latency and memory as kinds of the lifecycle.

use metier_types::Digest;

use super::learned::{self, File};
use super::{fit, memory};
use crate::lifecycle::{Error, FileScope, PredictorKind};

/// Both.
pub const KINDS: [&dyn PredictorKind; 2] = [&LatencyKind, &MemoryKind];

/// How long graphs take.
#[derive(Debug, Clone, Copy)]
pub struct LatencyKind;

impl PredictorKind for LatencyKind {
    fn name(&self) -> &'static str {
        learned::KIND
    }

    fn variant_field(&self) -> &'static str {
        "runtime"
    }

    fn baselines(&self) -> &'static [&'static str] {
        &[fit::BASELINE]
    }

    fn check(&self, id: &Digest, file: &[u8]) -> Result<FileScope, Error> {
        let file = File::read(id, file)?;
        Ok(FileScope { device: Some(file.device), variant: file.law.runtime })
    }
}

/// How much memory graphs need.
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
        &[memory::ESTIMATE]
    }

    fn check(&self, id: &Digest, file: &[u8]) -> Result<FileScope, Error> {
        let law = memory::Law::read(id, file)?;
        Ok(FileScope { device: Some(law.device), variant: law.runtime })
    }
}
