//! Power and energy inputs of hwmon chips: board monitors, GPUs, AMD's energy counters.
//!
//! INA3221 has its own module. AMD's `amd_energy` duplicates RAPL, so it counts only without RAPL.
//! Batteries are excluded, because they also feed the screen.

use super::{EnergySensor, MeterReading, SensorInventory};
use metier_linux::KernelRoots;
use metier_linux::kernel_file::{self, KernelFile};

/// Largest number of inputs of each kind per chip.
const MAX_INPUTS: u32 = 32;

struct HwmonEnergy(KernelFile);

impl EnergySensor for HwmonEnergy {
    fn read(&mut self) -> Option<MeterReading> {
        Some(MeterReading::Counter { microjoules: self.0.read_number()?, largest: u64::MAX })
    }
}

struct HwmonPower(KernelFile);

impl EnergySensor for HwmonPower {
    fn read(&mut self) -> Option<MeterReading> {
        Some(MeterReading::Power(self.0.read_number()? as f64 / 1e6))
    }
}

pub(super) fn open(roots: &KernelRoots, found: &mut SensorInventory) {
    for folder in metier_linux::host::numbered_folders(&roots.sys.join("class/hwmon"), "hwmon") {
        let Some(chip) = kernel_file::read_text(folder.join("name")) else { continue };
        if chip == "ina3221" || chip.starts_with("BAT") {
            continue;
        }
        let label = |input: &str| {
            let name = kernel_file::read_text(folder.join(format!("{input}_label")))
                .unwrap_or_else(|| input.to_string());
            format!("{chip}-{name}")
        };
        let mut has_energy = false;
        for number in 1..=MAX_INPUTS {
            let input = format!("energy{number}");
            if let Some(held) = KernelFile::open(folder.join(format!("{input}_input"))) {
                has_energy = true;
                let name = label(&input);
                // A socket's counter includes its cores.
                let counted = !(chip == "amd_energy" && (found.has_source("rapl") || name.contains("core")));
                found.add_sensor("hwmon", name, counted, Box::new(HwmonEnergy(held)));
            }
        }
        for number in (1..=MAX_INPUTS).take_while(|_| !has_energy) {
            let input = format!("power{number}");
            let file = ["input", "average"]
                .iter()
                .find_map(|kind| KernelFile::open(folder.join(format!("{input}_{kind}"))));
            if let Some(held) = file {
                found.add_sensor("hwmon", label(&input), true, Box::new(HwmonPower(held)));
            }
        }
    }
}
