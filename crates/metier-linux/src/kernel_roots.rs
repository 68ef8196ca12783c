//! Mount points of the kernel's file systems.

use std::path::PathBuf;

/// Mount points of the kernel's file systems, a parameter of every reader; tests use synthetic
/// trees.
#[derive(Debug, Clone)]
pub struct KernelRoots {
    /// Usually `/proc`.
    pub proc: PathBuf,
    /// Usually `/sys`.
    pub sys: PathBuf,
    /// Usually `/etc`.
    pub etc: PathBuf,
}

impl KernelRoots {
    /// `/var` as the sibling of `/etc`.
    pub fn var(&self) -> PathBuf {
        self.etc.with_file_name("var")
    }
}

impl Default for KernelRoots {
    fn default() -> Self {
        Self { proc: "/proc".into(), sys: "/sys".into(), etc: "/etc".into() }
    }
}
