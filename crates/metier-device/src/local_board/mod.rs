//! The local board, read from kernel files, without a child process or a timer.
//!
//! A Jetson provides the values of its `tegrastats`, a Raspberry Pi adds why its firmware throttles
//! it, and other hosts provide a subset. Every reader takes the roots as a parameter; missing files
//! are skipped.

mod cores;
mod integrated_gpu;
mod memory;
mod thermal;

use metier_linux::kernel_file::{self, KernelFile};
use metier_linux::{KernelRoots, firmware_throttling};
use metier_types::{Hertz, Watts};

use self::cores::CoreReader;
pub use self::integrated_gpu::IntegratedGpu;
use self::memory::MemoryFiles;
use self::thermal::ThermalZones;
use crate::boards::{
    BoardEngine, BoardKind, BoardSnapshot, PowerRail, detect_board_kind, device_tree_property,
};
use crate::sensors::EnergyMeters;

/// Files with the memory controller's clock in hertz, by kernel; all need root.
const EMC_CLOCKS: [&str; 3] = [
    "kernel/debug/bpmp/debug/clk/emc/rate",
    "kernel/debug/clk/emc/clk_rate",
    "kernel/debug/tegra_bwmgr/emc_rate",
];

/// The local board with its files held open.
pub struct LocalBoard {
    pub kind: BoardKind,
    /// Model name from the firmware.
    pub model: Option<String>,
    cores: CoreReader,
    memory: MemoryFiles,
    zones: ThermalZones,
    gpus: Vec<IntegratedGpu>,
    emc: Option<KernelFile>,
    meters: EnergyMeters,
    throttled: Option<KernelFile>,
}

impl LocalBoard {
    /// Opens the files that exist.
    pub fn open(roots: &KernelRoots) -> Self {
        Self {
            kind: detect_board_kind(roots),
            model: device_tree_property(roots, "model")
                .or_else(|| kernel_file::read_text(roots.sys.join("class/dmi/id/product_name"))),
            cores: CoreReader::open(roots),
            memory: MemoryFiles::open(roots),
            zones: ThermalZones::open(roots),
            gpus: IntegratedGpu::find(roots),
            emc: EMC_CLOCKS.iter().find_map(|path| KernelFile::open(roots.sys.join(path))),
            meters: EnergyMeters::open(roots),
            throttled: firmware_throttling::open_flags(roots),
        }
    }

    /// Reads the board. Core loads and counter-based power cover the time since the last call; the
    /// first call has none.
    pub fn read_snapshot(&mut self) -> BoardSnapshot {
        self.meters.sample();
        let clock = self.emc.as_mut().and_then(KernelFile::read_number);
        let rails = self.meters.watts_by_meter().into_iter().map(|(name, watts)| PowerRail {
            name,
            now: Watts(watts),
            mean: None,
            peak: None,
        });
        BoardSnapshot {
            ram: self.memory.read_ram(),
            swap: self.memory.read_swap(),
            cores: self.cores.read(),
            emc: clock.map(|hertz| BoardEngine {
                name: "EMC".into(),
                frequencies_hertz: vec![Hertz(hertz as f64)],
                ..BoardEngine::default()
            }),
            gpus: self.gpus.iter_mut().map(IntegratedGpu::read).collect(),
            temperatures: self.zones.read(),
            rails: rails.collect(),
            throttling: self.throttled.as_mut().and_then(firmware_throttling::read_flags),
            ..BoardSnapshot::default()
        }
    }

    /// Power of the whole device at the last snapshot: the sum over meters that are not part of
    /// another.
    pub fn device_watts(&self) -> Option<Watts> {
        self.meters.device_watts().map(Watts)
    }
}

#[cfg(test)]
mod tests;
