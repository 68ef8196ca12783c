//! Errors of obtaining a dataset. Their texts are stored in records, so they never contain a user,
//! password, query or signature.

use std::io;
use std::path::{Path, PathBuf};

use metier_types::{Bytes, ContentDigest};

/// Error of obtaining a dataset.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// The content does not have the required digest.
    #[error("the dataset {source_name} has the digest {got}; want {want}")]
    Mismatch {
        /// Source of the dataset.
        source_name: String,
        /// The required digest.
        want: ContentDigest,
        got: ContentDigest,
    },
    /// The store or server has no such object, or denies access.
    #[error("the dataset {source_name} cannot be fetched: {reason}; {advice}")]
    Refused {
        /// Source of the dataset.
        source_name: String,
        reason: String,
        /// What to check.
        advice: &'static str,
    },
    /// The store or server does not answer, or the connection breaks repeatedly.
    #[error("the dataset {source_name} cannot be fetched: {reason}; is the store up, and the address right?")]
    Unreachable {
        /// Source of the dataset.
        source_name: String,
        /// The last failure and the number of attempts.
        reason: String,
    },
    /// Not enough disk space.
    #[error("no room for the dataset {source_name} in {}: {reason}; free some, or name another folder with --dataset-cache", folder.display())]
    Space {
        /// Source of the dataset.
        source_name: String,
        /// Target folder.
        folder: PathBuf,
        /// Needed and free space.
        reason: String,
    },
    /// A file of the cache, or a dataset that is a local path, cannot be used.
    #[error("{doing} {}: {reason}", path.display())]
    File {
        /// The operation that failed.
        doing: &'static str,
        path: PathBuf,
        /// The system's error.
        reason: io::Error,
    },
    /// The dataset has an unsupported form.
    #[error("the dataset {source_name} {what}; want {want}")]
    Unfit {
        /// Source of the dataset.
        source_name: String,
        /// The problem.
        what: String,
        /// The supported form.
        want: &'static str,
    },
    /// A stop was requested.
    #[error("asked to stop while the dataset {source_name} was being fetched")]
    Interrupted {
        /// Source of the dataset.
        source_name: String,
    },
    /// The files could not be read to compute the digest.
    #[error(transparent)]
    Digest(#[from] metier_store::digest::DigestError),
}

/// Maps an error of a file operation; a full disk becomes [`DatasetError::Space`].
pub(super) fn file_error<'a>(
    doing: &'static str,
    path: &'a Path,
    source_name: &'a str,
) -> impl Fn(io::Error) -> DatasetError + 'a {
    move |reason| match reason.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            DatasetError::Space {
                source_name: source_name.to_string(),
                folder: path.parent().unwrap_or(path).to_path_buf(),
                reason: reason.to_string(),
            }
        }
        _ => DatasetError::File { doing, path: path.to_path_buf(), reason },
    }
}

/// Fails early if the bytes to come exceed the free space.
pub(super) fn check_free_space(bytes: u64, folder: &Path, source_name: &str) -> Result<(), DatasetError> {
    let Some(free) = free(folder) else { return Ok(()) };
    if bytes <= free {
        return Ok(());
    }
    Err(DatasetError::Space {
        source_name: source_name.to_string(),
        folder: folder.to_path_buf(),
        reason: format!("{} are needed, {} are free", Bytes(bytes), Bytes(free)),
    })
}

fn free(folder: &Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(folder.as_os_str().as_bytes()).ok()?;
    // SAFETY: all zeroes is a valid value of this plain structure.
    let mut state: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a path that ends with NUL, and a structure for the call to fill.
    let done = unsafe { libc::statvfs(path.as_ptr(), &mut state) };
    (done == 0).then(|| (state.f_bavail as u64).saturating_mul(state.f_frsize as u64))
}
