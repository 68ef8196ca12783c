//! What a session is given: this host's roots, a private folder, and the device.

use std::path::PathBuf;

use metier_types::Device;

use metier_linux::KernelRoots;

/// What a session needs to know.
#[derive(Debug, Clone)]
pub struct MeasureOptions {
    /// Where the kernel's file systems are.
    pub roots: KernelRoots,
    /// A private folder for files that live as long as the session.
    pub runtime_dir: PathBuf,
    pub device: Device,
}
