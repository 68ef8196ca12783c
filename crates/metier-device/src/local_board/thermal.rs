//! Thermal zones, under the names that `tegrastats` gives them.

use metier_types::Celsius;

use crate::boards::Temperature;
use metier_linux::Roots;
use metier_linux::file::{self, Held};
use metier_linux::host::numbered;

/// Suffixes of zone names that carry no meaning.
const SUFFIXES: [&str; 6] = ["-thermal", "_thermal", "-therm", "-fan-est", "-Die", "_zone"];

/// Largest number of zones read.
const MOST: usize = 64;

/// A switched-off zone reads -256 °C.
const OFF: i64 = -256_000;

pub(super) struct Zones(Vec<(String, Held)>);

impl Zones {
    pub(super) fn open(roots: &Roots) -> Self {
        let folder = roots.sys.join("class/thermal");
        let zones = numbered(&folder, "thermal_zone").take(MOST);
        Self(
            zones
                .filter_map(|zone| {
                    Some((name(&file::text(zone.join("type"))?), Held::open(zone.join("temp"))?))
                })
                .collect(),
        )
    }

    pub(super) fn read(&mut self) -> Vec<Temperature> {
        let one = |(name, held): &mut (String, Held)| {
            let milli = held.signed().filter(|milli| *milli > OFF);
            Temperature {
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
fn name(kind: &str) -> String {
    SUFFIXES.iter().find_map(|suffix| kind.strip_suffix(suffix)).unwrap_or(kind).to_string()
}
