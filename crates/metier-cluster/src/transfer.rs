//! Requested transfers to and from a pod on another machine.

use std::path::PathBuf;
use std::time::Duration;

use metier_measure::RunSpec;
use metier_types::PageCacheState;

/// Transfers to and from a pod on another machine, in addition to the launcher.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodTransfer {
    /// Letters of the message sources for the launcher's listener; empty for none.
    pub ears: String,
    /// Whether files are downloaded.
    pub has_files: bool,
    /// Dataset to upload before the start.
    pub dataset: Option<DatasetTransfer>,
    /// Time limit of the upload.
    pub within: Duration,
}

impl PodTransfer {
    /// Whether the container must stay after the command's end for a download.
    pub fn holds_container(&self) -> bool {
        self.has_files || !self.ears.is_empty()
    }
}

/// A dataset to upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetTransfer {
    /// Local path.
    pub path: PathBuf,
    /// Path in the run's container.
    pub target: PathBuf,
    /// Whether its pages are dropped from the page cache in the pod.
    pub is_cold: bool,
}

impl DatasetTransfer {
    /// Takes the dataset from a specification and removes its bind mount, since the node lacks the
    /// path.
    pub fn from_spec(spec: &mut RunSpec) -> Option<Self> {
        let path = spec.dataset_path.clone()?;
        let at = spec.mounts.iter().rposition(|mount| mount.source == path && mount.read_only)?;
        let target = spec.mounts.remove(at).target;
        let is_cold = spec.dataset.as_ref().is_some_and(|dataset| dataset.page_cache == PageCacheState::Cold);
        Some(Self { path, target, is_cold })
    }
}
