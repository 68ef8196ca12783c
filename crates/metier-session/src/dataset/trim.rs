//! Keeps the dataset cache within a size limit: least recently used entries are removed first.
//!
//! Interrupted fetches count and are removed like datasets; a running fetch is locked. Readers hold
//! a shared lock on an entry, and removal takes an exclusive one. So an entry in use is never
//! removed.

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use metier_types::Bytes;

use super::DatasetCacheFolder;
use super::cache::entry_in;
use super::folder::size_of;

/// Result of trimming the cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RemovedDatasets {
    /// Number of removed datasets and interrupted fetches.
    pub datasets: u64,
    /// Their total size.
    pub bytes: Bytes,
    /// Bytes still above the limit, because their entries are in use.
    pub beyond: Bytes,
}

impl fmt::Display for RemovedDatasets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.datasets == 1 { "dataset" } else { "datasets" };
        write!(f, "the cache was over its limit: {} {noun} ({}) removed", self.datasets, self.bytes)
    }
}

/// A cache entry or interrupted fetch that may be removed.
struct TrimCandidate {
    used: SystemTime,
    size: u64,
    /// Lock file; a held lock marks the entry as in use.
    lock: PathBuf,
    /// Paths to remove, in this order.
    paths: Vec<PathBuf>,
}

impl DatasetCacheFolder {
    /// Removes the least recently used entries until the rest is within the limit.
    pub fn trim(&self, limit: Bytes) -> RemovedDatasets {
        let mut candidates = self.candidates();
        candidates.sort_by_key(|candidate| candidate.used);
        let mut size = candidates.iter().fold(0u64, |sum, candidate| sum.saturating_add(candidate.size));
        let mut removed = RemovedDatasets::default();
        for candidate in candidates {
            if size <= limit.get() {
                break;
            }
            if remove(&candidate) {
                size = size.saturating_sub(candidate.size);
                removed.datasets += 1;
                removed.bytes = Bytes(removed.bytes.get().saturating_add(candidate.size));
            }
        }
        removed.beyond = Bytes(size.saturating_sub(limit.get()));
        removed
    }

    fn candidates(&self) -> Vec<TrimCandidate> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| self.candidate(entry.file_name().to_str()?)).collect()
    }

    fn candidate(&self, name: &str) -> Option<TrimCandidate> {
        let is_digest = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let path = self.folder.join(name);
        let used = fs::symlink_metadata(&path).ok()?.modified().ok()?;
        if let Some(hex) = name.strip_suffix(".json").filter(|hex| is_digest(hex)) {
            let size = entry_in(&mut File::open(&path).ok()?)?.size_bytes.get();
            // The JSON file goes first: without it the entry does not exist.
            let paths = vec![path.clone(), self.folder.join(hex)];
            return Some(TrimCandidate { used, size, lock: path, paths });
        }
        name.strip_prefix("part-").filter(|key| is_digest(key))?;
        let lock = self.folder.join(format!("{name}.lock"));
        let size = size_of(&path, name).map_or(0, Bytes::get);
        Some(TrimCandidate { used, size, lock, paths: vec![path] })
    }
}

/// Removes a candidate that is not locked. Returns whether that worked.
fn remove(candidate: &TrimCandidate) -> bool {
    let Ok(lock) = File::open(&candidate.lock) else { return false };
    if lock.try_lock().is_err() {
        return false;
    }
    candidate.paths.iter().all(|path| remove_path(path))
}

fn remove_path(path: &Path) -> bool {
    let done = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    done.is_ok() || !path.exists()
}
