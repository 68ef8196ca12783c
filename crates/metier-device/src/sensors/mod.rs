//! Energy meters of the device behind one interface.
//!
//! A new kind of sensor needs a file with an `open` function and an entry in [`SENSOR_KINDS`].

mod hwmon;
mod ina3221;
mod node_energy;
mod rapl;
mod tegrastats;

use std::time::Instant;

use metier_types::{EnergyMeterReading, ExtraFields, Joules, MissingReason, Seconds, Watts};

use crate::boards::{EnergyIntegrator, IntegratedEnergy};
use metier_linux::KernelRoots;

pub use node_energy::{MeterScope, NodeEnergy};

/// Kinds of sensor: kernel files first, and last a program that starts only if no earlier sensor
/// fits.
const SENSOR_KINDS: [fn(&KernelRoots, &mut SensorInventory); 4] =
    [rapl::open, ina3221::open, hwmon::open, tegrastats::open];
/// Number of kinds that are files.
const FILE_SENSOR_KINDS: usize = 3;

/// Reading of a meter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MeterReading {
    /// An energy counter.
    Counter {
        microjoules: u64,
        /// The largest value; the next one is 0.
        largest: u64,
    },
    /// Present power in watts, integrated to energy.
    Power(f64),
}

/// One meter of the device.
pub trait EnergySensor: Send {
    /// Reads the meter; `None` if that fails at the moment.
    fn read(&mut self) -> Option<MeterReading>;
}

/// A sensor with its name and accumulated energy.
struct MeterAccount {
    name: String,
    source: &'static str,
    /// Whether the sum over meters includes it.
    counted: bool,
    sensor: Box<dyn EnergySensor>,
    last: Option<(MeterReading, Instant)>,
    joules: f64,
    /// Mean power between the last two counter readings, or the power last read.
    watts: Option<f64>,
    /// Integrated power with its error estimates; unused for counters.
    integral: EnergyIntegrator,
}

impl MeterAccount {
    /// Whether it is ACPI's `power_meter` hwmon chip, which measures the whole machine including
    /// plugged-in devices.
    fn is_machine_meter(&self) -> bool {
        self.source == "hwmon" && self.name.starts_with("power_meter")
    }
}

/// Detected sensors, and reasons why others are unusable.
#[derive(Default)]
pub struct SensorInventory {
    accounts: Vec<MeterAccount>,
    /// Sensors that exist but cannot be read.
    pub refused: Vec<MissingReason>,
}

impl SensorInventory {
    fn add_sensor(
        &mut self,
        source: &'static str,
        name: String,
        counted: bool,
        sensor: Box<dyn EnergySensor>,
    ) {
        self.accounts.push(MeterAccount {
            name,
            source,
            counted,
            sensor,
            last: None,
            joules: 0.0,
            watts: None,
            integral: EnergyIntegrator::default(),
        });
    }

    /// Prevents double counting: ACPI's meter is slow and includes all other meters. A run uses the
    /// RAPL counters if present, else ACPI's meter alone.
    fn exclude_double_counting(&mut self) {
        if !self.accounts.iter().any(MeterAccount::is_machine_meter) {
            return;
        }
        let has_counters = self.has_source("rapl");
        for account in &mut self.accounts {
            account.counted &= account.is_machine_meter() != has_counters;
        }
    }

    fn has_source(&self, source: &str) -> bool {
        self.accounts.iter().any(|account| account.source == source)
    }
}

/// All energy meters of the device.
pub struct EnergyMeters {
    found: SensorInventory,
    begun: Instant,
    /// Time of the last reading.
    ticked: Instant,
}

impl EnergyMeters {
    /// Opens every kind of sensor.
    pub fn open(roots: &KernelRoots) -> Self {
        Self::open_kinds(SENSOR_KINDS.len(), roots)
    }

    /// Opens only file-based sensors, which cost nothing between readings; for continuous sampling.
    pub fn open_files(roots: &KernelRoots) -> Self {
        Self::open_kinds(FILE_SENSOR_KINDS, roots)
    }

    fn open_kinds(first: usize, roots: &KernelRoots) -> Self {
        let mut found = SensorInventory::default();
        for open in SENSOR_KINDS.iter().take(first) {
            open(roots, &mut found);
        }
        found.exclude_double_counting();
        let now = Instant::now();
        Self { found, begun: now, ticked: now }
    }

    /// Whether there are no meters.
    pub fn is_empty(&self) -> bool {
        self.found.accounts.is_empty()
    }

    /// Whether some meter reports power only, so that energy has to be integrated.
    pub fn has_power_sensor(&self) -> bool {
        self.found.accounts.iter().any(|account| matches!(account.last, Some((MeterReading::Power(_), _))))
    }

    /// Meter names, for the device record.
    pub fn names(&self) -> Vec<String> {
        self.found.accounts.iter().map(|account| format!("{}:{}", account.source, account.name)).collect()
    }

    /// Whether the sum over meters covers the whole machine, including graphics cards.
    pub fn includes_whole_machine(&self) -> bool {
        self.found.accounts.iter().any(|account| account.counted && account.is_machine_meter())
    }

    /// Why there is no energy figure.
    pub fn missing(&self) -> Option<MissingReason> {
        if !self.is_empty() {
            return None;
        }
        Some(self.found.refused.first().cloned().unwrap_or_else(|| {
            MissingReason::without_fix("this host shows no energy meter (no RAPL, no hwmon power sensor, no INA3221); virtual machines rarely do")
        }))
    }

    /// Resets all accounts.
    pub fn reset(&mut self) {
        for account in &mut self.found.accounts {
            account.last = None;
            account.joules = 0.0;
            account.watts = None;
            account.integral = EnergyIntegrator::default();
        }
        self.begun = Instant::now();
        self.sample();
    }

    /// Reads every meter. Must be called before a counter can wrap (a minute at full power).
    pub fn sample(&mut self) {
        let now = Instant::now();
        self.ticked = now;
        for account in &mut self.found.accounts {
            let Some(reading) = account.sensor.read() else { continue };
            if let Some((before, then)) = account.last {
                let seconds = (now - then).as_secs_f64();
                let joules = energy_between(before, reading, seconds);
                account.joules += joules;
                if seconds > 0.0 {
                    account.watts = Some(joules / seconds);
                }
            }
            if let MeterReading::Power(watts) = reading {
                account.watts = Some(watts);
                account.integral.add_sample(Seconds((now - self.begun).as_secs_f64()), Watts(watts));
            }
            account.last = Some((reading, now));
        }
    }

    /// Energy so far by meter, in microjoules, for the time line.
    pub fn microjoules(&self) -> Vec<(String, i64)> {
        self.found.accounts.iter().map(|a| (a.name.clone(), (a.joules * 1e6) as i64)).collect()
    }

    /// Known power of each meter in watts at the last reading.
    pub fn watts_by_meter(&self) -> Vec<(String, f64)> {
        let known = |account: &MeterAccount| Some((account.name.clone(), account.watts?));
        self.found.accounts.iter().filter_map(known).collect()
    }

    /// Power of the device: the sum over meters that are not part of another; `None` if one is
    /// unknown.
    pub fn device_watts(&self) -> Option<f64> {
        let counted: Vec<&MeterAccount> =
            self.found.accounts.iter().filter(|account| account.counted).collect();
        (!counted.is_empty()).then(|| counted.iter().map(|account| account.watts).sum())?
    }

    /// Energy of each meter since [`EnergyMeters::start`], and whether all of it comes from
    /// counters.
    pub fn usage(&self) -> (Vec<EnergyMeterReading>, bool) {
        let meters = self.found.accounts.iter().filter(|account| account.last.is_some()).map(|account| {
            EnergyMeterReading {
                name: account.name.clone(),
                source: account.source.to_string(),
                energy_joules: Joules(account.joules),
                counted: account.counted,
                error_joules: integrated_energy(account).map(|energy| energy.error()),
                error_bound_joules: integrated_energy(account).map(|energy| energy.bound_joules),
                interval_seconds: integrated_energy(account).map(|energy| energy.interval_seconds),
                extra: ExtraFields::new(),
            }
        });
        let counters =
            |account: &MeterAccount| matches!(account.last, Some((MeterReading::Counter { .. }, _)) | None);
        (meters.collect(), self.found.accounts.iter().filter(|a| a.counted).all(counters))
    }
}

/// Integrated energy with its error; `None` for a counter.
fn integrated_energy(account: &MeterAccount) -> Option<IntegratedEnergy> {
    match account.last {
        Some((MeterReading::Power(_), _)) => account.integral.energy(),
        _ => None,
    }
}

/// Energy in joules between two readings that are `seconds` apart.
fn energy_between(before: MeterReading, after: MeterReading, seconds: f64) -> f64 {
    match (before, after) {
        (MeterReading::Counter { microjoules: a, .. }, MeterReading::Counter { microjoules: b, largest }) => {
            let grown = if b >= a { b - a } else { (largest.max(a) - a).saturating_add(b) };
            grown as f64 / 1e6
        }
        (MeterReading::Power(a), MeterReading::Power(b)) => (a + b) / 2.0 * seconds,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests;
