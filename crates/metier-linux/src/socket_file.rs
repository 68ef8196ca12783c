//! The file of a bound unix socket, which only its own process removes.
//!
//! A successor may have bound its socket at the same path before the predecessor ends. The file is
//! therefore identified by its inode. An open descriptor keeps the inode, so that the file system
//! cannot give its number to the successor's file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file of a socket that this process bound.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    inode: File,
}

impl SocketFile {
    /// Takes charge of the socket file at a path.
    pub fn new(path: &Path) -> io::Result<Self> {
        let inode = OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(path)?;
        Ok(Self { path: path.to_path_buf(), inode })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the file if it is still this one.
    pub fn remove(&self) {
        let identity = |metadata: io::Result<std::fs::Metadata>| metadata.ok().map(|it| (it.dev(), it.ino()));
        let there = identity(std::fs::symlink_metadata(&self.path));
        if there.is_some() && there == identity(self.inode.metadata()) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_the_own_file_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let _first = UnixListener::bind(&path).unwrap();
        let file = SocketFile::new(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.remove();
        let _successor = UnixListener::bind(&path).unwrap();
        file.remove();
        assert!(path.exists(), "the successor's file stays");
        SocketFile::new(&path).unwrap().remove();
        assert!(!path.exists());
        assert!(SocketFile::new(&path).is_err());
    }
}
