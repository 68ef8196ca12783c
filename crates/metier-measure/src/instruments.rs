//! What a session reads beside the run itself, opened once and used by all runs of a batch.

use std::path::PathBuf;

use crate::Options;
use metier_device::gpu::Gpus;
use metier_device::sensors::Meters;
use metier_linux::host::{HostCounters, HostMeter};
use metier_types::HostReading;

/// The readers of host, energy and GPUs, with what the session was given.
pub(crate) struct Instruments {
    pub options: Options,
    pub host: HostMeter,
    pub meters: Meters,
    pub gpus: Gpus,
    /// The kernel's version line.
    pub kernel: Option<String>,
}

impl Instruments {
    pub fn open(options: Options) -> Self {
        let library = std::env::var_os("METIER_NVML").map(PathBuf::from);
        Self {
            host: HostMeter::open(&options.roots),
            meters: Meters::open(&options.roots),
            gpus: Gpus::find(&options.roots, library.as_deref()),
            kernel: metier_linux::file::text(options.roots.proc.join("version")),
            options,
        }
    }

    /// State and counters of the host now.
    pub fn host_moment(&mut self) -> (HostReading, HostCounters) {
        (self.host.reading(), self.host.counters())
    }
}
