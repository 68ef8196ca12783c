//! SHA-256 digests of bytes, files, folders and environments.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use metier_types::ContentDigest;
use sha2::{Digest as _, Sha256};

/// A file or folder whose digest cannot be computed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DigestError {
    #[error("cannot read {path}: {reason}")]
    Read {
        path: PathBuf,
        /// The system's error.
        reason: std::io::Error,
    },
    #[error("input is {path}; want a file, or a folder of at most {FILES} files")]
    TooManyFiles { path: PathBuf },
}

/// Maximum number of files in an input folder; with more, the digest would take longer than most
/// runs.
const FILES: usize = 100_000;

/// Digest of a byte slice.
pub fn digest_bytes(bytes: &[u8]) -> ContentDigest {
    ContentDigest::from_bytes(Sha256::digest(bytes).into())
}

/// Digest of a file's content.
pub fn digest_file(path: &Path) -> Result<ContentDigest, DigestError> {
    let read = |reason| DigestError::Read { path: path.into(), reason };
    let mut file = File::open(path).map_err(read)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer).map_err(read)? {
            0 => return Ok(ContentDigest::from_bytes(hash.finalize().into())),
            length => hash.update(&buffer[..length]),
        }
    }
}

/// Digest of a file, or of a folder: names and contents of all files below it, in sorted order.
pub fn digest_input(path: &Path) -> Result<ContentDigest, DigestError> {
    let read = |reason| DigestError::Read { path: path.into(), reason };
    if !fs::metadata(path).map_err(read)?.is_dir() {
        return digest_file(path);
    }
    let mut files = Vec::new();
    let mut folders = vec![path.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in
            fs::read_dir(&folder).map_err(|reason| DigestError::Read { path: folder.clone(), reason })?
        {
            let entry = entry.map_err(|reason| DigestError::Read { path: folder.clone(), reason })?;
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                _ => files.push(entry.path()),
            }
        }
        if files.len() > FILES {
            return Err(DigestError::TooManyFiles { path: path.to_path_buf() });
        }
    }
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        let name = file.strip_prefix(path).unwrap_or(&file).as_os_str().as_bytes();
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
        hash.update(digest_file(&file)?.as_bytes());
    }
    Ok(ContentDigest::from_bytes(hash.finalize().into()))
}

/// Digest of an environment: its names and values, sorted.
pub fn digest_environment<K: AsRef<OsStr>, V: AsRef<OsStr>>(
    variables: impl Iterator<Item = (K, V)>,
) -> ContentDigest {
    let mut entries: Vec<Vec<u8>> = variables
        .map(|(name, value)| [name.as_ref().as_bytes(), b"=", value.as_ref().as_bytes(), b"\0"].concat())
        .collect();
    entries.sort();
    digest_bytes(&entries.concat())
}

/// Text that changes when a file is replaced or modified: device, inode, size and modification
/// time.
pub fn file_fingerprint(path: &Path) -> Option<String> {
    let meta = fs::metadata(path).ok()?;
    Some(format!("{}:{}:{}:{}.{:09}", meta.dev(), meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_is_the_same_in_any_order() {
        let (a, b) = (("A", "1"), ("B", "2"));
        assert_eq!(digest_environment([a, b].into_iter()), digest_environment([b, a].into_iter()));
        assert_ne!(digest_environment([a].into_iter()), digest_environment([b].into_iter()));
        assert_ne!(
            digest_environment([("A", "B=1")].into_iter()),
            digest_environment([("A=B", "2")].into_iter())
        );
    }

    #[test]
    fn a_folder_changes_with_names_and_contents_of_its_files() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        fs::write(folder.path().join("sub/a"), "1").unwrap();
        let first = digest_input(folder.path()).unwrap();
        assert_eq!(digest_input(folder.path()).unwrap(), first);
        fs::write(folder.path().join("sub/a"), "2").unwrap();
        let second = digest_input(folder.path()).unwrap();
        fs::rename(folder.path().join("sub/a"), folder.path().join("sub/b")).unwrap();
        assert!(second != first && digest_input(folder.path()).unwrap() != second);
        assert!(digest_input(&folder.path().join("absent")).unwrap_err().to_string().contains("absent"));
    }
}
