//! The sensors of a session, opened once and used by all runs of a batch.

use std::path::PathBuf;

use crate::MeasureOptions;
use metier_device::gpu_meters::GpuMeters;
use metier_device::sensors::EnergyMeters;
use metier_linux::host::{HostCounters, HostMeter};
use metier_types::HostReading;

/// The readers of host, energy and GPUs, with the session's options.
pub(crate) struct HostInstruments {
    pub options: MeasureOptions,
    pub host: HostMeter,
    pub meters: EnergyMeters,
    pub gpus: GpuMeters,
    /// The kernel's version line.
    pub kernel: Option<String>,
}

impl HostInstruments {
    pub fn open(options: MeasureOptions) -> Self {
        let library = std::env::var_os("METIER_NVML").map(PathBuf::from);
        Self {
            host: HostMeter::open(&options.roots),
            meters: EnergyMeters::open(&options.roots),
            gpus: GpuMeters::find(&options.roots, library.as_deref()),
            kernel: metier_linux::kernel_file::read_text(options.roots.proc.join("version")),
            options,
        }
    }

    /// The present state and counters of the host.
    pub fn host_moment(&mut self) -> (HostReading, HostCounters) {
        (self.host.read(), self.host.read_counters())
    }
}
