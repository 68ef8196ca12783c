//! RAPL: running average power limit counters of x86 processors, under `/sys/class/powercap`.
//!
//! A package counter excludes memory (`dram`), so both are added; `core` and `uncore` are parts of
//! the package. The platform counter (`psys`) includes all of them where it exists.
//! `intel-rapl-mmio` repeats the same packages and is skipped.

use std::path::Path;

use metier_types::MissingReason;

use super::{EnergySensor, MeterReading, SensorInventory};
use metier_linux::KernelRoots;
use metier_linux::kernel_file::{self, KernelFile};

struct RaplZone {
    energy: KernelFile,
    largest: u64,
}

impl EnergySensor for RaplZone {
    fn read(&mut self) -> Option<MeterReading> {
        Some(MeterReading::Counter { microjoules: self.energy.read_number()?, largest: self.largest })
    }
}

pub(super) fn open(roots: &KernelRoots, found: &mut SensorInventory) {
    let mut zones: Vec<_> = std::fs::read_dir(roots.sys.join("class/powercap"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| is_zone(path))
        .collect();
    zones.sort();
    let names: Vec<String> =
        zones.iter().map(|zone| kernel_file::read_text(zone.join("name")).unwrap_or_default()).collect();
    let has_platform = names.iter().any(|name| name.starts_with("psys"));
    for (zone, name) in zones.iter().zip(names) {
        let path = zone.join("energy_uj");
        let Some(energy) = KernelFile::open(&path) else {
            if path.exists() {
                found.refused.push(MissingReason::with_fix(
                    format!("{} exists but only root may read it", path.display()),
                    "run as root, or: chmod a+r /sys/class/powercap/intel-rapl*/energy_uj",
                ));
            }
            continue;
        };
        let counted = if has_platform {
            name.starts_with("psys")
        } else {
            name.starts_with("package") || name.starts_with("dram")
        };
        let largest = kernel_file::read_number(zone.join("max_energy_range_uj")).unwrap_or(u64::MAX);
        // Zones of two packages share names such as `dram`; the folder distinguishes them.
        let place =
            zone.file_name().map(|n| n.to_string_lossy().replace("intel-rapl:", "")).unwrap_or_default();
        let name = if name.starts_with("package") { name } else { format!("{name}-{place}") };
        found.add_sensor("rapl", name, counted, Box::new(RaplZone { energy, largest }));
    }
}

fn is_zone(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("intel-rapl:"))
}
