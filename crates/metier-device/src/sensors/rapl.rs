//! RAPL: running average power limit counters of x86 processors, under `/sys/class/powercap`.
//!
//! A package counter excludes memory (`dram`), so both are added; `core` and `uncore` are parts of
//! the package. The platform counter (`psys`) includes all of them where it exists.
//! `intel-rapl-mmio` repeats the same packages and is skipped.

use std::path::Path;

use metier_types::Missing;

use super::{Found, Reading, Sensor};
use metier_linux::Roots;
use metier_linux::file::{self, Held};

struct Zone {
    energy: Held,
    largest: u64,
}

impl Sensor for Zone {
    fn read(&mut self) -> Option<Reading> {
        Some(Reading::Counter { microjoules: self.energy.number()?, largest: self.largest })
    }
}

pub(super) fn open(roots: &Roots, found: &mut Found) {
    let mut zones: Vec<_> = std::fs::read_dir(roots.sys.join("class/powercap"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| is_zone(path))
        .collect();
    zones.sort();
    let names: Vec<String> =
        zones.iter().map(|zone| file::text(zone.join("name")).unwrap_or_default()).collect();
    let has_platform = names.iter().any(|name| name.starts_with("psys"));
    for (zone, name) in zones.iter().zip(names) {
        let path = zone.join("energy_uj");
        let Some(energy) = Held::open(&path) else {
            if path.exists() {
                found.refused.push(Missing::fixable(
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
        let largest = file::number(zone.join("max_energy_range_uj")).unwrap_or(u64::MAX);
        // Zones of two packages share names such as `dram`; the folder distinguishes them.
        let place =
            zone.file_name().map(|n| n.to_string_lossy().replace("intel-rapl:", "")).unwrap_or_default();
        let name = if name.starts_with("package") { name } else { format!("{name}-{place}") };
        found.add("rapl", name, counted, Box::new(Zone { energy, largest }));
    }
}

fn is_zone(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("intel-rapl:"))
}
