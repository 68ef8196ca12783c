//! INA3221: the three-channel power monitor of Jetson boards, as hwmon (JetPack 5 and later) or as an industrial
//! IO device (JetPack 4).
//!
//! A board has one rail that carries all (`VDD_IN`, `POM_5V_IN`), or none; then its rails are added up.

use std::path::PathBuf;

use super::{Found, Reading, Sensor};
use crate::Roots;
use crate::file::{self, Held};

/// Rails that carry the whole board.
const WHOLE: [&str; 3] = ["VDD_IN", "POM_5V_IN", "VIN"];

/// Voltage and current of one channel, in millivolts and milliamperes.
struct Channel {
    voltage: Held,
    current: Held,
}

impl Sensor for Channel {
    fn read(&mut self) -> Option<Reading> {
        Some(Reading::Power(self.voltage.number()? as f64 * self.current.number()? as f64 / 1e6))
    }
}

/// Power of one channel, in milliwatts.
struct Power {
    power: Held,
}

impl Sensor for Power {
    fn read(&mut self) -> Option<Reading> {
        Some(Reading::Power(self.power.number()? as f64 / 1e3))
    }
}

pub(super) fn open(roots: &Roots, found: &mut Found) {
    let mut rails: Vec<(String, Box<dyn Sensor>)> = Vec::new();
    for folder in crate::host::numbered(&roots.sys.join("class/hwmon"), "hwmon") {
        if file::text(folder.join("name")).as_deref() != Some("ina3221") {
            continue;
        }
        for channel in 1..=3 {
            let name = file::text(folder.join(format!("in{channel}_label")));
            let voltage = Held::open(folder.join(format!("in{channel}_input")));
            let current = Held::open(folder.join(format!("curr{channel}_input")));
            if let (Some(name), Some(voltage), Some(current)) = (name, voltage, current)
                && name != "NC"
            {
                rails.push((name, Box::new(Channel { voltage, current })));
            }
        }
    }
    if rails.is_empty() {
        for folder in iio_folders(roots) {
            for channel in 0..3 {
                let name = file::text(folder.join(format!("rail_name_{channel}")));
                let power = Held::open(folder.join(format!("in_power{channel}_input")));
                if let (Some(name), Some(power)) = (name, power) {
                    rails.push((name, Box::new(Power { power })));
                }
            }
        }
    }
    let has_whole = rails.iter().any(|(name, _)| WHOLE.contains(&name.as_str()));
    for (name, sensor) in rails {
        let counted = !has_whole || WHOLE.contains(&name.as_str());
        found.add("ina3221", name, counted, sensor);
    }
}

/// `…/bus/i2c/drivers/ina3221x/1-0040/iio:device0`.
fn iio_folders(roots: &Roots) -> Vec<PathBuf> {
    let below = |folder: PathBuf| {
        std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect::<Vec<_>>()
    };
    let mut folders: Vec<PathBuf> = below(roots.sys.join("bus/i2c/drivers/ina3221x"))
        .into_iter()
        .flat_map(below)
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("iio:device")))
        .collect();
    folders.sort();
    folders
}
