//! Energy meters of the device, all through one interface.
//!
//! Adding a kind of sensor: one file of the same shape with an `open` function, one entry in [`KINDS`].

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

/// Kinds of sensor that are looked for: files of the kernel, and last a program, which asks what came before.
const KINDS: [fn(&Roots, &mut Found); 4] = [rapl::open, ina3221::open, hwmon::open, tegrastats::open];
/// How many of them are files.
const FILES: usize = 3;

/// What a meter shows at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reading {
    /// A counter of energy.
    Counter {
        microjoules: u64,
        /// The value after which it starts again from 0.
        largest: u64,
    },
    /// Power now, in watts; energy is integrated from it.
    Power(f64),
}

/// One meter of the device.
pub trait Sensor: Send {
    /// What it shows now; `None` if it cannot be read at the moment.
    fn read(&mut self) -> Option<Reading>;
}

/// A sensor with its name and its account.
struct Account {
    name: String,
    source: &'static str,
    /// Whether the sum over meters takes it.
    counted: bool,
    sensor: Box<dyn Sensor>,
    last: Option<(Reading, Instant)>,
    joules: f64,
    /// Power between the last two readings of a counter, or as last read.
    watts: Option<f64>,
    /// Of power that is integrated: what is known of the sum's error.
    integral: Integrator,
}

impl Account {
    /// Whether it is ACPI's power meter, by its name among hwmon chips: of the whole machine, with all that is plugged into it.
    fn is_of_machine(&self) -> bool {
        self.source == "hwmon" && self.name.starts_with("power_meter")
    }
}

/// Sensors that were found, and why others were not.
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

    /// The meter of ACPI is of everything that the others are of, too, and slow: what a run used is told by counters where there are some,
    /// else by it alone.
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
    /// When all were read last.
    ticked: Instant,
}

impl Meters {
    /// Looks for every kind of sensor.
    pub fn open(roots: &Roots) -> Self {
        Self::of(KINDS.len(), roots)
    }

    /// Looks only for sensors that cost nothing between two readings: no program is run for them. For who looks all day long.
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

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.found.accounts.is_empty()
    }

    /// Whether one of them shows power only, from which energy has to be integrated.
    pub fn has_power(&self) -> bool {
        self.found.accounts.iter().any(|account| matches!(account.last, Some((Reading::Power(_), _))))
    }

    /// Names of the meters, for the device's record.
    pub fn names(&self) -> Vec<String> {
        self.found.accounts.iter().map(|account| format!("{}:{}", account.source, account.name)).collect()
    }

    /// Whether the sum over meters holds everything in the machine, graphics cards with it.
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

    /// Starts the accounts anew.
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

    /// Reads every meter. Must be called more often than a counter can wrap (a minute at full power).
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

    /// Power of each meter in watts as of the last two looks, where it is known.
    pub fn powers(&self) -> Vec<(String, f64)> {
        let known = |account: &Account| Some((account.name.clone(), account.watts?));
        self.found.accounts.iter().filter_map(known).collect()
    }

    /// Power of the device: the sum over those meters that are not part of another; `None` where one is unknown.
    pub fn power(&self) -> Option<f64> {
        let counted: Vec<&Account> = self.found.accounts.iter().filter(|account| account.counted).collect();
        (!counted.is_empty()).then(|| counted.iter().map(|account| account.watts).sum())?
    }

    /// What each meter counted since [`Meters::start`], and whether the figures come from counters only.
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

/// What was integrated, with its error; a counter has none.
fn integral(account: &Account) -> Option<Energy> {
    match account.last {
        Some((Reading::Power(_), _)) => account.integral.energy(),
        _ => None,
    }
}

/// Energy between two readings of a meter that are `seconds` apart.
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
