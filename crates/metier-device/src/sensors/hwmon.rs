//! Power and energy inputs of hwmon chips: board monitors, GPUs, AMD's energy counters.
//!
//! INA3221 has its own module. AMD's `amd_energy` duplicates RAPL, so it counts only without RAPL.
//! Batteries are excluded, because they also feed the screen.

use super::{Found, Reading, Sensor};
use metier_linux::Roots;
use metier_linux::file::{self, Held};

/// Largest number of inputs of each kind per chip.
const INPUTS: u32 = 32;

struct Energy(Held);

impl Sensor for Energy {
    fn read(&mut self) -> Option<Reading> {
        Some(Reading::Counter { microjoules: self.0.number()?, largest: u64::MAX })
    }
}

struct Power(Held);

impl Sensor for Power {
    fn read(&mut self) -> Option<Reading> {
        Some(Reading::Power(self.0.number()? as f64 / 1e6))
    }
}

pub(super) fn open(roots: &Roots, found: &mut Found) {
    for folder in metier_linux::host::numbered(&roots.sys.join("class/hwmon"), "hwmon") {
        let Some(chip) = file::text(folder.join("name")) else { continue };
        if chip == "ina3221" || chip.starts_with("BAT") {
            continue;
        }
        let label = |input: &str| {
            let name = file::text(folder.join(format!("{input}_label"))).unwrap_or_else(|| input.to_string());
            format!("{chip}-{name}")
        };
        let mut has_energy = false;
        for number in 1..=INPUTS {
            let input = format!("energy{number}");
            if let Some(held) = Held::open(folder.join(format!("{input}_input"))) {
                has_energy = true;
                let name = label(&input);
                // A socket's counter includes its cores.
                let counted = !(chip == "amd_energy" && (found.has("rapl") || name.contains("core")));
                found.add("hwmon", name, counted, Box::new(Energy(held)));
            }
        }
        for number in (1..=INPUTS).take_while(|_| !has_energy) {
            let input = format!("power{number}");
            let file = ["input", "average"]
                .iter()
                .find_map(|kind| Held::open(folder.join(format!("{input}_{kind}"))));
            if let Some(held) = file {
                found.add("hwmon", label(&input), true, Box::new(Power(held)));
            }
        }
    }
}
