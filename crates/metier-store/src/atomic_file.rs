//! Files that appear whole or not at all.
//!
//! The content is written to a temporary file in the same folder and synchronised. A rename then
//! puts it in place, and the folder is synchronised. So a reader sees the old file or the new one,
//! even after a power loss. A temporary file that is dropped before the rename is deleted. I/O
//! errors carry no path: the caller names the final file, not the temporary one.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// Mode of files that other users may read; the umask is applied to it.
pub const PUBLIC_FILE_MODE: u32 = 0o666;
/// Mode of files that only the owner may read.
pub const PRIVATE_FILE_MODE: u32 = 0o600;

/// A file that is being written next to its final path.
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    file: NamedTempFile,
}

impl AtomicFile {
    /// Creates a uniquely named temporary file in the folder of `path`.
    pub fn create(path: &Path, mode: u32) -> io::Result<Self> {
        let file = tempfile::Builder::new()
            .prefix(".metier-")
            .suffix(".part")
            // Unlike `tempfile_in`, `make_in` returns the system's error unchanged.
            .make_in(parent_folder(path), |part| {
                OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(part)
            })?;
        Ok(Self { path: path.to_path_buf(), file })
    }

    /// The open temporary file, for a library that needs to seek in it.
    pub fn file(&self) -> &File {
        self.file.as_file()
    }

    /// Path of the temporary file, to check its content before the rename.
    pub fn part_path(&self) -> &Path {
        self.file.path()
    }

    /// Renames the temporary file over its final path and replaces an existing file.
    pub fn persist(self) -> io::Result<()> {
        self.file.as_file().sync_all()?;
        self.file.persist(&self.path).map_err(|error| error.error)?;
        sync_folder(&self.path);
        Ok(())
    }

    /// Renames the temporary file unless the final path exists; returns `false` if it does.
    pub fn persist_new(self) -> io::Result<bool> {
        self.file.as_file().sync_all()?;
        match self.file.persist_noclobber(&self.path) {
            Ok(_) => sync_folder(&self.path),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            Err(error) => return Err(error.error),
        }
        Ok(true)
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.as_file_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_file_mut().flush()
    }
}

/// Replaces the file's content atomically.
pub fn replace_file(path: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
    write_part_file(path, mode, content)?.persist()
}

/// Writes the file unless it exists; returns `false` if it does.
pub fn create_new_file(path: &Path, mode: u32, content: &[u8]) -> io::Result<bool> {
    write_part_file(path, mode, content)?.persist_new()
}

fn write_part_file(path: &Path, mode: u32, content: &[u8]) -> io::Result<AtomicFile> {
    let mut file = AtomicFile::create(path, mode)?;
    file.write_all(content)?;
    Ok(file)
}

fn parent_folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the rename durable. An error is ignored: the file is already in place, and some file
/// systems cannot synchronise folders.
fn sync_folder(path: &Path) {
    let _ = File::open(parent_folder(path)).and_then(|folder| folder.sync_all());
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn content_replaces_what_was_there_and_nothing_is_left_beside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        replace_file(&path, PRIVATE_FILE_MODE, b"first").unwrap();
        replace_file(&path, PRIVATE_FILE_MODE, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn a_new_file_never_replaces_and_the_first_of_many_writers_wins() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let placed: usize = std::thread::scope(|scope| {
            let write = |n: u8| create_new_file(&path, PUBLIC_FILE_MODE, &[n; 1000]).unwrap();
            let writers: Vec<_> = (0..8).map(|n| scope.spawn(move || write(n))).collect();
            writers.into_iter().map(|writer| usize::from(writer.join().unwrap())).sum()
        });
        assert_eq!(placed, 1);
        let content = fs::read(&path).unwrap();
        assert!(content.len() == 1000 && content.iter().all(|byte| *byte == content[0]));
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn a_failure_leaves_nothing_and_the_old_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        replace_file(&path, PUBLIC_FILE_MODE, b"old").unwrap();
        let mut dropped = AtomicFile::create(&path, PUBLIC_FILE_MODE).unwrap();
        dropped.write_all(b"half").unwrap();
        drop(dropped);
        assert_eq!((fs::read(&path).unwrap().as_slice(), names(folder.path()).len()), (b"old".as_slice(), 1));
        // A folder cannot be replaced by a file.
        let taken = folder.path().join("folder");
        fs::create_dir_all(taken.join("inner")).unwrap();
        replace_file(&taken, PUBLIC_FILE_MODE, b"x").unwrap_err();
        assert_eq!(names(folder.path()).len(), 2);
        let absent = replace_file(&folder.path().join("absent/a"), PUBLIC_FILE_MODE, b"x").unwrap_err();
        assert_eq!(absent.to_string(), "No such file or directory (os error 2)");
    }
}
