//! Energy meters of the device behind one interface.
//!
//! A new kind of sensor needs a file with an `open` function and an entry in [`KINDS`].

mod hwmon;
mod ina3221;
mod node;
mod rapl;
mod tegrastats;

use std::time::Instant;

use metier_types::{Extra, Joules, Meter, Missing, Seconds, Watts};

use crate::boards::{Energy, Integrator};
use metier_linux::Roots;

pub use node::{Covers, Node};

/// Kinds of sensor: kernel files first, and last a program that starts only if no earlier sensor
/// fits.
const KINDS: [fn(&Roots, &mut Found); 4] = [rapl::open, ina3221::open, hwmon::open, tegrastats::open];
/// Number of kinds that are files.
const FILES: usize = 3;

/// Reading of a meter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reading {
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
pub trait Sensor: Send {
    /// Reads the meter; `None` if that fails at the moment.
    fn read(&mut self) -> Option<Reading>;
}

/// A sensor with its name and accumulated energy.
struct Account {
    name: String,
    source: &'static str,
    /// Whether the sum over meters includes it.
    counted: bool,
    sensor: Box<dyn Sensor>,
    last: Option<(Reading, Instant)>,
    joules: f64,
    /// Mean power between the last two counter readings, or the power last read.
    watts: Option<f64>,
    /// Integrated power with its error estimates; unused for counters.
    integral: Integrator,
}

impl Account {
    /// Whether it is ACPI's `power_meter` hwmon chip, which measures the whole machine including
    /// plugged-in devices.
    fn is_of_machine(&self) -> bool {
        self.source == "hwmon" && self.name.starts_with("power_meter")
    }
}

/// Detected sensors, and reasons why others are unusable.
#[derive(Default)]
pub struct Found {
    accounts: Vec<Account>,
    /// Sensors that exist but cannot be read.
    pub refused: Vec<Missing>,
}

impl Found {
    fn add(&mut self, source: &'static str, name: String, counted: bool, sensor: Box<dyn Sensor>) {
        self.accounts.push(Account {
            name,
            source,
            counted,
            sensor,
            last: None,
            joules: 0.0,
            watts: None,
            integral: Integrator::default(),
        });
    }

    /// Prevents double counting: ACPI's meter is slow and includes all other meters. A run uses the
    /// RAPL counters if present, else ACPI's meter alone.
    fn count_once(&mut self) {
        if !self.accounts.iter().any(Account::is_of_machine) {
            return;
        }
        let has_counters = self.has("rapl");
        for account in &mut self.accounts {
            account.counted &= account.is_of_machine() != has_counters;
        }
    }

    fn has(&self, source: &str) -> bool {
        self.accounts.iter().any(|account| account.source == source)
    }
}

/// All energy meters of the device.
pub struct Meters {
    found: Found,
    begun: Instant,
    /// Time of the last reading.
    ticked: Instant,
}

impl Meters {
    /// Opens every kind of sensor.
    pub fn open(roots: &Roots) -> Self {
        Self::of(KINDS.len(), roots)
    }

    /// Opens only file-based sensors, which cost nothing between readings; for continuous sampling.
    pub fn open_files(roots: &Roots) -> Self {
        Self::of(FILES, roots)
    }

    fn of(first: usize, roots: &Roots) -> Self {
        let mut found = Found::default();
        for open in KINDS.iter().take(first) {
            open(roots, &mut found);
        }
        found.count_once();
        let now = Instant::now();
        Self { found, begun: now, ticked: now }
    }

    /// Whether there are no meters.
    pub fn is_empty(&self) -> bool {
        self.found.accounts.is_empty()
    }

    /// Whether some meter reports power only, so that energy has to be integrated.
    pub fn has_power(&self) -> bool {
        self.found.accounts.iter().any(|account| matches!(account.last, Some((Reading::Power(_), _))))
    }

    /// Meter names, for the device record.
    pub fn names(&self) -> Vec<String> {
        self.found.accounts.iter().map(|account| format!("{}:{}", account.source, account.name)).collect()
    }

    /// Whether the sum over meters covers the whole machine, including graphics cards.
    pub fn sum_holds_all(&self) -> bool {
        self.found.accounts.iter().any(|account| account.counted && account.is_of_machine())
    }

    /// Why there is no energy figure.
    pub fn missing(&self) -> Option<Missing> {
        if !self.is_empty() {
            return None;
        }
        Some(self.found.refused.first().cloned().unwrap_or_else(|| {
            Missing::because("this host shows no energy meter (no RAPL, no hwmon power sensor, no INA3221); virtual machines rarely do")
        }))
    }

    /// Resets all accounts.
    pub fn start(&mut self) {
        for account in &mut self.found.accounts {
            account.last = None;
            account.joules = 0.0;
            account.watts = None;
            account.integral = Integrator::default();
        }
        self.begun = Instant::now();
        self.tick();
    }

    /// Reads every meter. Must be called before a counter can wrap (a minute at full power).
    pub fn tick(&mut self) {
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
            if let Reading::Power(watts) = reading {
                account.watts = Some(watts);
                account.integral.add(Seconds((now - self.begun).as_secs_f64()), Watts(watts));
            }
            account.last = Some((reading, now));
        }
    }

    /// Energy so far by meter, in microjoules, for the time line.
    pub fn microjoules(&self) -> Vec<(String, i64)> {
        self.found.accounts.iter().map(|a| (a.name.clone(), (a.joules * 1e6) as i64)).collect()
    }

    /// Known power of each meter in watts at the last reading.
    pub fn powers(&self) -> Vec<(String, f64)> {
        let known = |account: &Account| Some((account.name.clone(), account.watts?));
        self.found.accounts.iter().filter_map(known).collect()
    }

    /// Power of the device: the sum over meters that are not part of another; `None` if one is
    /// unknown.
    pub fn power(&self) -> Option<f64> {
        let counted: Vec<&Account> = self.found.accounts.iter().filter(|account| account.counted).collect();
        (!counted.is_empty()).then(|| counted.iter().map(|account| account.watts).sum())?
    }

    /// Energy of each meter since [`Meters::start`], and whether all of it comes from counters.
    pub fn result(&self) -> (Vec<Meter>, bool) {
        let meters =
            self.found.accounts.iter().filter(|account| account.last.is_some()).map(|account| Meter {
                name: account.name.clone(),
                source: account.source.to_string(),
                energy_joules: Joules(account.joules),
                counted: account.counted,
                error_joules: integral(account).map(|energy| energy.error()),
                error_bound_joules: integral(account).map(|energy| energy.bound_joules),
                interval_seconds: integral(account).map(|energy| energy.interval_seconds),
                extra: Extra::new(),
            });
        let counters = |account: &Account| matches!(account.last, Some((Reading::Counter { .. }, _)) | None);
        (meters.collect(), self.found.accounts.iter().filter(|a| a.counted).all(counters))
    }
}

/// Integrated energy with its error; `None` for a counter.
fn integral(account: &Account) -> Option<Energy> {
    match account.last {
        Some((Reading::Power(_), _)) => account.integral.energy(),
        _ => None,
    }
}

/// Energy in joules between two readings that are `seconds` apart.
fn energy_between(before: Reading, after: Reading, seconds: f64) -> f64 {
    match (before, after) {
        (Reading::Counter { microjoules: a, .. }, Reading::Counter { microjoules: b, largest }) => {
            let grown = if b >= a { b - a } else { (largest.max(a) - a).saturating_add(b) };
            grown as f64 / 1e6
        }
        (Reading::Power(a), Reading::Power(b)) => (a + b) / 2.0 * seconds,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests;
