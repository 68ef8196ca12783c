//! The cache of fetched datasets, by digest.
//!
//! ```text
//! FOLDER/<64 digits>/NAME       the dataset: a file, or a folder; complete, verified, immutable
//! FOLDER/<64 digits>.json       its size and source; written last: without it there is no entry
//! FOLDER/source-<64 digits>.json   for a source without a required digest: HTTP validator and digest of the last fetch
//! FOLDER/part-<64 digits>/      a running or interrupted fetch, by source
//! FOLDER/part-<64 digits>.lock  lock of the fetching process; the kernel releases it when the process ends
//! ```
//!
//! Entries appear by rename, so a reader never sees a partial entry. A lock serialises fetches of
//! one source. The folder is private (0700), files are read-only (0400). A user of an entry holds a
//! shared lock on its `.json`, whose modification time is the time of last use. Entries are removed
//! only if a limit is set ([`DatasetCacheFolder::trim`]), and never while they are locked.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use metier_store::{atomic_file, digest};
use metier_types::{Bytes, ContentDigest};
use serde::{Deserialize, Serialize};

use super::error::file_error;
use super::http::HttpValidator;
use super::{DatasetError, FetchWatch};

/// Interval between attempts to take a lock.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The folder of fetched datasets.
#[derive(Debug, Clone)]
pub struct DatasetCacheFolder {
    pub(super) folder: PathBuf,
}

/// A shared lock on a cache entry. The kernel releases it when the last holder ends for any reason.
#[derive(Debug, Clone)]
pub struct DatasetHold {
    #[allow(dead_code, reason = "held for its drop")]
    lock: Arc<File>,
}

/// Metadata of a cache entry.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CacheEntry {
    name: String,
    pub size_bytes: Bytes,
    source: String,
}

/// Digest and validator at the last fetch of a source without a required digest.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct CachedSource {
    pub digest: ContentDigest,
    pub validator: HttpValidator,
}

/// A fetch in progress: at most one per source.
pub(super) struct PartialFetch {
    pub folder: PathBuf,
    path: PathBuf,
    #[allow(dead_code, reason = "held for its drop")]
    lock: File,
}

impl DatasetCacheFolder {
    /// Opens the cache in a folder, which is created if missing.
    pub fn open(folder: &Path) -> Result<Self, DatasetError> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|reason| {
            DatasetError::File { doing: "making the folder for datasets", path: folder.into(), reason }
        })?;
        Ok(Self { folder: folder.to_path_buf() })
    }

    fn path(&self, name: String) -> PathBuf {
        self.folder.join(name)
    }

    /// Finds a cached dataset; it stays in the cache while the returned lock is held.
    pub(super) fn find(&self, digest: &ContentDigest) -> Option<(PathBuf, Bytes, DatasetHold)> {
        let hex = hex(digest);
        let mut lock = File::open(self.path(format!("{hex}.json"))).ok()?;
        // Blocks only during a removal; afterwards the entry is gone.
        lock.lock_shared().ok()?;
        let entry: CacheEntry = entry_in(&mut lock)?;
        let path = self.path(hex).join(&entry.name);
        let meta = fs::metadata(&path).ok()?;
        // A changed size means that the read-only file was modified: treat it as absent.
        let is_whole = meta.is_dir() || meta.len() == entry.size_bytes.0;
        // Records the time of use. On failure the entry only looks older than it is.
        let _ = lock.set_modified(SystemTime::now());
        is_whole.then_some((path, entry.size_bytes, DatasetHold { lock: Arc::new(lock) }))
    }

    pub(super) fn cached_source(&self, source: &str) -> Option<CachedSource> {
        serde_json::from_slice(&fs::read(self.path(format!("source-{}.json", source_key(source)))).ok()?).ok()
    }

    pub(super) fn record_source(&self, source: &str, known: &CachedSource) {
        // On failure the source is fetched again next time.
        let _ = write_whole(&self.path(format!("source-{}.json", source_key(source))), known);
    }

    /// Opens the folder for a fetch of this source. Waits while another process fetches it.
    pub(super) fn open_part(
        &self,
        source: &str,
        watch: &FetchWatch<'_>,
    ) -> Result<PartialFetch, DatasetError> {
        let key = source_key(source);
        let path = self.path(format!("part-{key}.lock"));
        let open = || {
            let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
            file.map_err(file_error("opening", &path, &watch.source))
        };
        let mut lock = open()?;
        let mut has_notified = false;
        loop {
            match lock.try_lock() {
                Ok(()) if is_at(&lock, &path) => break,
                // The previous holder removed the lock file, and another process may have created a
                // new one.
                Ok(()) => lock = open()?,
                Err(TryLockError::Error(reason)) => {
                    return Err(DatasetError::File { doing: "locking", path, reason });
                }
                Err(TryLockError::WouldBlock) => {
                    if !has_notified {
                        watch.progress.note("another process fetches the same dataset; waiting for it");
                        has_notified = true;
                    }
                    watch.check_stop()?;
                    std::thread::sleep(LOCK_RETRY_INTERVAL);
                }
            }
        }
        let folder = self.path(format!("part-{key}"));
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(file_error("making", &folder, &watch.source))?;
        Ok(PartialFetch { folder, path, lock })
    }

    /// Moves the verified file or folder from the part folder into the cache.
    pub(super) fn commit_fetch(
        &self,
        digest: &ContentDigest,
        fetched: &Path,
        name: &str,
        size: Bytes,
        watch: &FetchWatch<'_>,
    ) -> Result<PathBuf, DatasetError> {
        let hex = hex(digest);
        let home = self.path(hex.clone());
        let failed = |doing| file_error(doing, &home, &watch.source);
        seal(fetched).map_err(failed("sealing"))?;
        match fs::create_dir(&home) {
            Ok(()) => {}
            // Left by a killed process, or another process has just fetched the same content from
            // another source.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                if let Some((path, _, _)) = self.find(digest) {
                    return Ok(path);
                }
            }
            Err(error) => return Err(failed("making")(error)),
        }
        let path = home.join(name);
        if fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir()) {
            fs::remove_dir_all(&path).map_err(failed("clearing"))?;
        }
        fs::rename(fetched, &path).map_err(failed("moving the dataset into"))?;
        let entry = CacheEntry { name: name.to_string(), size_bytes: size, source: watch.source.clone() };
        let json = self.path(format!("{hex}.json"));
        write_whole(&json, &entry).map_err(file_error("writing", &json, &watch.source))?;
        Ok(path)
    }
}

/// Reads the metadata of an entry.
pub(super) fn entry_in(file: &mut File) -> Option<CacheEntry> {
    let mut text = Vec::new();
    file.take(1 << 16).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

impl PartialFetch {
    /// Removes the fetched data.
    pub fn clear(&self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Drop for PartialFetch {
    /// Removes the lock file too if no data is left for a later fetch to resume.
    fn drop(&mut self) {
        let is_gone = match fs::remove_dir(&self.folder) {
            Ok(()) => true,
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        if is_gone {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether an open file is still the file at a path.
fn is_at(file: &File, path: &Path) -> bool {
    let place = |meta: &fs::Metadata| (meta.dev(), meta.ino());
    matches!((file.metadata(), fs::metadata(path)), (Ok(own), Ok(there)) if place(&own) == place(&there))
}

/// Writes JSON atomically: a reader sees the old or the new content, never a part.
pub(super) fn write_whole(path: &Path, content: &impl Serialize) -> std::io::Result<()> {
    let text = serde_json::to_vec_pretty(content).map_err(std::io::Error::other)?;
    atomic_file::replace_file(path, atomic_file::PRIVATE_FILE_MODE, &text)
}

/// Syncs all files to disk and makes them read-only.
fn seal(path: &Path) -> std::io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            seal(&entry?.path())?;
        }
        return Ok(());
    }
    let file = File::open(path)?;
    file.sync_all()?;
    file.set_permissions(Permissions::from_mode(0o400))
}

fn hex(digest: &ContentDigest) -> String {
    digest.to_string().trim_start_matches("sha256:").to_string()
}

fn source_key(source: &str) -> String {
    hex(&digest::digest_bytes(source.as_bytes()))
}
