//! Temporary folders that a later process removes when their owner was killed.
//!
//! The name holds the owner: process id, start time, boot id, and the PID namespace, since another
//! container may share the folder of temporary files. A folder is removed on drop, else by
//! [`sweep_scratch_folders`] at the next start of a program of the same user.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::KernelRoots;
use crate::group_owner::{is_owner_gone, owner_mark};

const PREFIX: &str = "metier-scratch_";

/// A temporary folder of this process, for this user only; removed on drop.
#[derive(Debug)]
pub struct ScratchFolder(PathBuf);

impl ScratchFolder {
    /// Makes a folder among the temporary files; `purpose` is a word in its name.
    pub fn new(purpose: &str) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let roots = KernelRoots::default();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let (owner, namespace) = (owner_mark(&roots), pid_namespace(&roots));
        let name = format!("{PREFIX}{purpose}_{number}_{namespace}_{owner}");
        let path = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&path).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot make {}: {error}", path.display()))
        })?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // A folder that stays is removed at the next start.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Removes the scratch folders of this user whose owner is gone.
pub fn sweep_scratch_folders(roots: &KernelRoots) {
    let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) else { return };
    // SAFETY: `geteuid` has no preconditions and cannot fail.
    let user = unsafe { libc::geteuid() };
    let namespace = pid_namespace(roots);
    for entry in entries.flatten() {
        let is_left =
            owner_of(&entry.file_name(), &namespace).is_some_and(|mark| is_owner_gone(roots, &mark));
        // The entry itself, not the target of a link.
        let is_own = entry.metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == user);
        if is_left && is_own {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// The owner in the name of a scratch folder of this PID namespace.
fn owner_of(name: &OsStr, namespace: &str) -> Option<String> {
    let mut parts = name.to_str()?.strip_prefix(PREFIX)?.splitn(4, '_').skip(2);
    (parts.next()? == namespace).then_some(())?;
    parts.next().map(str::to_string)
}

/// The number of the PID namespace; 0 where the kernel shows none.
fn pid_namespace(roots: &KernelRoots) -> String {
    let link = std::fs::read_link(roots.proc.join("self/ns/pid")).unwrap_or_default();
    let digits: String = link.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    if digits.is_empty() { "0".to_string() } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_value_and_its_name_holds_its_owner() {
        let folder = ScratchFolder::new("test").unwrap();
        let path = folder.path().to_path_buf();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o700);
        let roots = KernelRoots::default();
        let mark = owner_of(path.file_name().unwrap(), &pid_namespace(&roots)).unwrap();
        assert_eq!(mark, owner_mark(&roots));
        assert!(!is_owner_gone(&roots, &mark));
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn foreign_names_have_no_owner() {
        for name in
            ["metier-scratch_", "metier-scratch_bench_0_1", "metier-bench-x", "metier-scratch_a_0_2_1-2-b"]
        {
            assert_eq!(owner_of(OsStr::new(name), "1"), None, "{name}");
        }
        assert_eq!(owner_of(OsStr::new("metier-scratch_a_0_1_7-9-b_c"), "1"), Some("7-9-b_c".into()));
    }
}
