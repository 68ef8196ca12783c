//! INA3221, the three-channel power monitor of Jetson boards, as hwmon (JetPack 5 and later) or as
//! an industrial IO device (JetPack 4).
//!
//! [`crate::boards::board_power`] selects the rails that make up the whole board. If it does not
//! recognise them, all rails are added. A rail near 0 A may report a negative current. Unused
//! channels are called `NC`.

use std::path::PathBuf;

use super::{EnergySensor, MeterReading, SensorInventory};
use crate::boards::board_power;
use metier_linux::KernelRoots;
use metier_linux::kernel_file::{self, KernelFile};

/// Name of an unconnected channel.
const UNUSED_CHANNEL: &str = "NC";

/// Voltage and current of one channel, in millivolts and milliamperes.
struct Ina3221Channel {
    voltage: KernelFile,
    current: KernelFile,
}

impl EnergySensor for Ina3221Channel {
    fn read(&mut self) -> Option<MeterReading> {
        Some(MeterReading::Power(
            self.voltage.read_signed()? as f64 * self.current.read_signed()? as f64 / 1e6,
        ))
    }
}

/// Power of one channel, in milliwatts.
struct Ina3221Power {
    power: KernelFile,
}

impl EnergySensor for Ina3221Power {
    fn read(&mut self) -> Option<MeterReading> {
        Some(MeterReading::Power(self.power.read_signed()? as f64 / 1e3))
    }
}

pub(super) fn open(roots: &KernelRoots, found: &mut SensorInventory) {
    let mut rails: Vec<(String, Box<dyn EnergySensor>)> = Vec::new();
    for folder in metier_linux::host::numbered_folders(&roots.sys.join("class/hwmon"), "hwmon") {
        if kernel_file::read_text(folder.join("name")).as_deref() != Some("ina3221") {
            continue;
        }
        for channel in 1..=3 {
            let name = kernel_file::read_text(folder.join(format!("in{channel}_label")));
            let voltage = KernelFile::open(folder.join(format!("in{channel}_input")));
            let current = KernelFile::open(folder.join(format!("curr{channel}_input")));
            if let (Some(name), Some(voltage), Some(current)) = (name, voltage, current)
                && name != UNUSED_CHANNEL
            {
                rails.push((name, Box::new(Ina3221Channel { voltage, current })));
            }
        }
    }
    if rails.is_empty() {
        for folder in iio_folders(roots) {
            for channel in 0..3 {
                let name = kernel_file::read_text(folder.join(format!("rail_name_{channel}")));
                let power = KernelFile::open(folder.join(format!("in_power{channel}_input")));
                if let (Some(name), Some(power)) = (name, power)
                    && name != UNUSED_CHANNEL
                {
                    rails.push((name, Box::new(Ina3221Power { power })));
                }
            }
        }
    }
    let names: Vec<&str> = rails.iter().map(|(name, _)| name.as_str()).collect();
    let whole: Option<Vec<String>> =
        board_power::find_board_rails(&names).map(|rails| rails.into_iter().map(str::to_string).collect());
    for (name, sensor) in rails {
        let counted = whole.as_ref().is_none_or(|rails| rails.contains(&name));
        found.add_sensor("ina3221", name, counted, sensor);
    }
}

/// `…/bus/i2c/drivers/ina3221x/1-0040/iio:device0`; in the oldest releases the last part is
/// `iio_device`.
fn iio_folders(roots: &KernelRoots) -> Vec<PathBuf> {
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
        .filter(|path| {
            path.file_name().is_some_and(|name| {
                let name = name.to_string_lossy();
                name.starts_with("iio:device") || name == "iio_device"
            })
        })
        .collect();
    folders.sort();
    folders
}
