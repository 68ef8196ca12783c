//! A file that a flag names, written whole or not at all.
//!
//! A temporary file is created in the target folder at once, so that an unwritable folder is
//! noticed before any work. It replaces the target at the end. Pipes and devices are written
//! directly.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use metier_store::atomic_file::{self, AtomicFile};

/// A file that is being written.
pub struct OutputFile {
    path: PathBuf,
    target: OutputTarget,
}

enum OutputTarget {
    Atomic(AtomicFile),
    Stream(File),
}

impl OutputFile {
    /// Opens the file for writing; errors name `flag`.
    pub fn open(flag: &str, path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let cannot =
            || format!("{flag} {shown}: cannot be written; name a file in a folder that you may write");
        let is_stream = std::fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir());
        let target = if is_stream {
            OutputTarget::Stream(OpenOptions::new().write(true).open(path).with_context(cannot)?)
        } else if path.is_dir() {
            anyhow::bail!("{flag} {shown}: is a folder; name a file in it");
        } else {
            OutputTarget::Atomic(
                AtomicFile::create(path, atomic_file::PUBLIC_FILE_MODE).with_context(cannot)?,
            )
        };
        Ok(Self { path: path.to_path_buf(), target })
    }

    /// Moves the complete file to its target path.
    pub fn commit(self) -> anyhow::Result<()> {
        let cannot = || format!("cannot write {}", self.path.display());
        if let OutputTarget::Atomic(file) = self.target {
            file.persist().with_context(cannot)?;
        }
        Ok(())
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.target {
            OutputTarget::Atomic(file) => file.write(bytes),
            OutputTarget::Stream(file) => file.write(bytes),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        match &mut self.target {
            OutputTarget::Atomic(file) => file.flush(),
            OutputTarget::Stream(file) => file.flush(),
        }
    }
}
