//! Where the kernel's file systems are. Every reader takes it, so that tests use trees of their own.

use std::path::PathBuf;

/// Where the kernel's file systems are mounted; tests point it at trees of their own.
#[derive(Debug, Clone)]
pub struct Roots {
    /// Usually `/proc`.
    pub proc: PathBuf,
    /// Usually `/sys`.
    pub sys: PathBuf,
    /// Usually `/etc`.
    pub etc: PathBuf,
}

impl Roots {
    /// Usually `/var`: beside `/etc`, wherever that is.
    pub fn var(&self) -> PathBuf {
        self.etc.with_file_name("var")
    }
}

impl Default for Roots {
    fn default() -> Self {
        Self { proc: "/proc".into(), sys: "/sys".into(), etc: "/etc".into() }
    }
}
