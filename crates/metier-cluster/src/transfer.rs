//! What goes to a pod on another machine and what comes back from it, as it is asked for.

use std::path::PathBuf;
use std::time::Duration;

use metier_measure::RunSpec;
use metier_types::PageCacheState;

/// What goes to a pod on another machine beside the launcher, and what comes back from it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodTransfer {
    /// What is listened to there, as the launcher's ears take it; empty: nothing.
    pub ears: String,
    /// Whether files are to be fetched.
    pub has_files: bool,
    /// What is brought before the start.
    pub dataset: Option<DatasetTransfer>,
    /// How long that may take.
    pub within: Duration,
}

impl PodTransfer {
    /// Whether something is to be fetched at the end, so that the container has to be held for it.
    pub fn holds_container(&self) -> bool {
        self.has_files || !self.ears.is_empty()
    }
}

/// A dataset that is to be brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetTransfer {
    /// Where it is here.
    pub path: PathBuf,
    /// Where the run sees it.
    pub target: PathBuf,
    /// Whether its pages are to be dropped from memory there.
    pub is_cold: bool,
}

impl DatasetTransfer {
    /// That of a specification, whose mount is then not one of the node's any more.
    pub fn from_spec(spec: &mut RunSpec) -> Option<Self> {
        let path = spec.dataset_path.clone()?;
        let at = spec.mounts.iter().rposition(|mount| mount.source == path && mount.read_only)?;
        let target = spec.mounts.remove(at).target;
        let is_cold = spec.dataset.as_ref().is_some_and(|dataset| dataset.page_cache == PageCacheState::Cold);
        Some(Self { path, target, is_cold })
    }
}
