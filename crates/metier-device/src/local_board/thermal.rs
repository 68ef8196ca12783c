//! Thermal zones, under the names that `tegrastats` gives them.

use metier_types::Celsius;

use crate::boards::BoardTemperature;
use metier_linux::KernelRoots;
use metier_linux::host::numbered_folders;
use metier_linux::kernel_file::{self, KernelFile};

/// Suffixes of zone names that carry no meaning.
const ZONE_NAME_SUFFIXES: [&str; 6] = ["-thermal", "_thermal", "-therm", "-fan-est", "-Die", "_zone"];

/// Largest number of zones read.
const MAX_ZONES: usize = 64;

/// A switched-off zone reads -256 °C.
const ZONE_OFF_MILLIDEGREES: i64 = -256_000;

pub(super) struct ThermalZones(Vec<(String, KernelFile)>);

impl ThermalZones {
    pub(super) fn open(roots: &KernelRoots) -> Self {
        let folder = roots.sys.join("class/thermal");
        let zones = numbered_folders(&folder, "thermal_zone").take(MAX_ZONES);
        Self(
            zones
                .filter_map(|zone| {
                    Some((
                        zone_name(&kernel_file::read_text(zone.join("type"))?),
                        KernelFile::open(zone.join("temp"))?,
                    ))
                })
                .collect(),
        )
    }

    pub(super) fn read(&mut self) -> Vec<BoardTemperature> {
        let one = |(name, held): &mut (String, KernelFile)| {
            let milli = held.read_signed().filter(|milli| *milli > ZONE_OFF_MILLIDEGREES);
            BoardTemperature {
                name: name.clone(),
                celsius: milli.map(|milli| Celsius(milli as f64 / 1e3)),
                largest_celsius: None,
                placeholder: name == "PMIC" && milli.is_some_and(|milli| milli == 50_000 || milli == 100_000),
            }
        };
        self.0.iter_mut().map(one).collect()
    }
}

/// Strips the suffix: `CPU-therm`, `cpu-thermal` and `PMIC-Die` become `CPU`, `cpu` and `PMIC`.
fn zone_name(kind: &str) -> String {
    ZONE_NAME_SUFFIXES.iter().find_map(|suffix| kind.strip_suffix(suffix)).unwrap_or(kind).to_string()
}
