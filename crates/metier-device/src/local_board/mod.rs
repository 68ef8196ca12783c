//! The local board, read from kernel files, without a child process or a timer.
//!
//! A Jetson provides the values of its `tegrastats`, a Raspberry Pi adds why its firmware throttles
//! it, and other hosts provide a subset. Every reader takes the roots as a parameter; missing files
//! are skipped.

mod cores;
mod gpu;
mod memory;
mod thermal;

use metier_linux::file::{self, Held};
use metier_linux::{Roots, throttling};
use metier_types::{Hertz, Watts};

use self::cores::Cores;
pub use self::gpu::IntegratedGpu;
use self::memory::MemoryFiles;
use self::thermal::Zones;
use crate::boards::{Engine, Kind, Rail, Snapshot, kind, of_tree};
use crate::sensors::Meters;

/// Files with the memory controller's clock in hertz, by kernel; all need root.
const EMC_CLOCKS: [&str; 3] = [
    "kernel/debug/bpmp/debug/clk/emc/rate",
    "kernel/debug/clk/emc/clk_rate",
    "kernel/debug/tegra_bwmgr/emc_rate",
];

/// The local board with its files held open.
pub struct Board {
    pub kind: Kind,
    /// Model name from the firmware.
    pub model: Option<String>,
    cores: Cores,
    memory: MemoryFiles,
    zones: Zones,
    gpus: Vec<IntegratedGpu>,
    emc: Option<Held>,
    meters: Meters,
    throttled: Option<Held>,
}

impl Board {
    /// Opens the files that exist.
    pub fn open(roots: &Roots) -> Self {
        Self {
            kind: kind(roots),
            model: of_tree(roots, "model")
                .or_else(|| file::text(roots.sys.join("class/dmi/id/product_name"))),
            cores: Cores::open(roots),
            memory: MemoryFiles::open(roots),
            zones: Zones::open(roots),
            gpus: IntegratedGpu::find(roots),
            emc: EMC_CLOCKS.iter().find_map(|path| Held::open(roots.sys.join(path))),
            meters: Meters::open(roots),
            throttled: throttling::open(roots),
        }
    }

    /// Reads the board. Core loads and counter-based power cover the time since the last call; the
    /// first call has none.
    pub fn snapshot(&mut self) -> Snapshot {
        self.meters.tick();
        let clock = self.emc.as_mut().and_then(Held::number);
        let rails = self.meters.powers().into_iter().map(|(name, watts)| Rail {
            name,
            now: Watts(watts),
            mean: None,
            peak: None,
        });
        Snapshot {
            ram: self.memory.ram(),
            swap: self.memory.swap(),
            cores: self.cores.read(),
            emc: clock.map(|hertz| Engine {
                name: "EMC".into(),
                frequencies_hertz: vec![Hertz(hertz as f64)],
                ..Engine::default()
            }),
            gpus: self.gpus.iter_mut().map(IntegratedGpu::read).collect(),
            temperatures: self.zones.read(),
            rails: rails.collect(),
            throttling: self.throttled.as_mut().and_then(throttling::read),
            ..Snapshot::default()
        }
    }

    /// Power of the whole device at the last snapshot: the sum over meters that are not part of
    /// another.
    pub fn power(&self) -> Option<Watts> {
        self.meters.power().map(Watts)
    }
}

#[cfg(test)]
mod tests;
