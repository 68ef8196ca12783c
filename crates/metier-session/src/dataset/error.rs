//! Why a dataset could not be had. Texts end up in records: no user, password, query or signature is ever in them.

use std::io;
use std::path::{Path, PathBuf};

use metier_types::{Bytes, ContentDigest};

/// Why a dataset could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// Its content is not what was asked for.
    #[error("the dataset {source_name} has the digest {got}; want {want}")]
    Mismatch {
        /// Where it came from.
        source_name: String,
        /// What it should be.
        want: ContentDigest,
        got: ContentDigest,
    },
    /// The store or server has no such thing, or does not give it to us.
    #[error("the dataset {source_name} cannot be fetched: {reason}; {advice}")]
    Refused {
        /// Where it should come from.
        source_name: String,
        reason: String,
        /// What would be right.
        advice: &'static str,
    },
    /// The store or server does not answer, or breaks off again and again.
    #[error("the dataset {source_name} cannot be fetched: {reason}; is the store up, and the address right?")]
    Unreachable {
        /// Where it should come from.
        source_name: String,
        /// What happened, after so many tries.
        reason: String,
    },
    /// There is not enough room.
    #[error("no room for the dataset {source_name} in {}: {reason}; free some, or name another folder with --dataset-cache", folder.display())]
    Space {
        /// Where it comes from.
        source_name: String,
        /// Where it should go.
        folder: PathBuf,
        /// How much is missing.
        reason: String,
    },
    /// A file of ours, or the dataset itself where it is a path, cannot be used.
    #[error("{doing} {}: {reason}", path.display())]
    File {
        /// What was being done.
        doing: &'static str,
        path: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// It is not a dataset that we can handle.
    #[error("the dataset {source_name} {what}; want {want}")]
    Unfit {
        /// Where it comes from.
        source_name: String,
        /// What is wrong with it.
        what: String,
        /// What would be right.
        want: &'static str,
    },
    /// Somebody asked us to stop.
    #[error("asked to stop while the dataset {source_name} was being fetched")]
    Interrupted {
        /// Where it comes from.
        source_name: String,
    },
    /// Its files could not be read for a digest.
    #[error(transparent)]
    Digest(#[from] metier_store::digest::DigestError),
}

/// What became of a file operation; a full disk has its own cause.
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

/// Refuses to begin what cannot end: so many bytes are to come.
pub(super) fn check_free_space(bytes: u64, folder: &Path, source_name: &str) -> Result<(), DatasetError> {
    let Some(free) = free(folder) else { return Ok(()) };
    if bytes <= free {
        return Ok(());
    }
    Err(DatasetError::Space {
        source_name: source_name.to_string(),
        folder: folder.to_path_buf(),
        reason: format!("{} are to come, {} are free", Bytes(bytes), Bytes(free)),
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
