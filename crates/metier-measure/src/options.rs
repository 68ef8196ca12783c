//! Options of a session: this host's roots, a private folder, and the device.

use std::path::PathBuf;

use metier_types::Device;

use metier_linux::KernelRoots;

/// Options of a session.
#[derive(Debug, Clone)]
pub struct MeasureOptions {
    /// Where the kernel's file systems are.
    pub roots: KernelRoots,
    /// A private folder for files that live as long as the session.
    pub runtime_dir: PathBuf,
    pub device: Device,
}
