//! What a device can do: its characteristics and the results of small benchmarks, portable as a file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{Schema, Versioned};
use crate::{Bytes, Celsius, Device, Extra, Hertz, MissingFields, Ratio, Seconds, Timestamp};

/// Where the figures of a passport come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Origin {
    /// Measured on the device by `metier device bench`.
    Measured,
    /// Taken from public specifications; nothing was measured.
    Specified,
}

/// A passport that was used.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PassportUse {
    /// Its id.
    pub id: String,
    /// What people call the device.
    pub name: String,
    /// Measured or specified.
    pub origin: Origin,
}

impl PassportUse {
    /// The use of a passport.
    pub fn of(passport: &Passport) -> Self {
        Self { id: passport.id.clone(), name: passport.name.clone(), origin: passport.origin }
    }
}

/// The format of the numbers that are computed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Precision {
    /// 64-bit floating point.
    F64,
    /// 32-bit floating point.
    F32,
    /// 16-bit floating point.
    F16,
    /// 8-bit integers, added up in 32 bits.
    I8,
}

/// How fast it multiplies and adds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComputeRate {
    /// Of which numbers.
    pub precision: Precision,
    /// With how many threads at once.
    pub threads: u32,
    /// Multiply-adds in a second, of all threads together.
    pub multiply_adds_per_second: f64,
    /// With which instructions, for example `AVX-512`; `None` where it is not told.
    #[serde(default)]
    pub instructions: Option<String>,
    /// Multiply-adds of one core in one cycle that a specified figure was computed from.
    #[serde(default)]
    pub per_core_and_cycle: Option<f64>,
    /// The clock that a specified figure was computed from.
    #[serde(default)]
    pub clock_hertz: Option<Hertz>,
    /// How far the slowest repetition was from the fastest, which is the figure; `None` where it was not measured.
    #[serde(default)]
    pub spread_ratio: Option<Ratio>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// How fast memory is read by a number of threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bandwidth {
    /// With how many threads at once.
    pub threads: u32,
    /// How many bytes each of them goes through again and again; `None` for far more than the caches hold.
    pub working_set_bytes: Option<Bytes>,
    /// Bytes in a second, of all threads together.
    pub bytes_per_second: f64,
    /// Width of the memory's bus that a specified figure was computed from.
    #[serde(default)]
    pub bus_bits: Option<u32>,
    /// Transfers of the bus in a second that it was computed from.
    #[serde(default)]
    pub transfers_per_second: Option<f64>,
    /// How far the slowest repetition was from the fastest, which is the figure; `None` where it was not measured.
    #[serde(default)]
    pub spread_ratio: Option<Ratio>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// How long one access to memory takes that must wait for the one before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Over how many bytes the accesses go.
    pub working_set_bytes: Bytes,
    /// One access.
    pub seconds: Seconds,
    /// How far the slowest repetition was from the fastest, which is the figure; `None` where it was not measured.
    #[serde(default)]
    pub spread_ratio: Option<Ratio>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The storage that the data folder is on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StorageRate {
    /// Bytes read in a second, past the page cache.
    pub read_bytes_per_second: Option<f64>,
    /// Bytes written in a second, until they are on the medium.
    pub write_bytes_per_second: Option<f64>,
    /// One small write until it is on the medium.
    pub sync_seconds: Option<Seconds>,
    /// How large the file was that was written and read.
    #[serde(default)]
    pub file_bytes: Option<Bytes>,
    /// What the folder is on, for example `ext4`.
    #[serde(default)]
    pub file_system: Option<String>,
    /// How far the slowest repetition of writing or reading was from the fastest.
    #[serde(default)]
    pub spread_ratio: Option<Ratio>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What happens to the speed under load that lasts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Throttling {
    /// How long all cores were kept busy.
    pub seconds: Seconds,
    /// Speed at the end over speed at the start; 1 where nothing throttles.
    pub kept_ratio: Ratio,
    /// Mean frequency of the cores at the start.
    #[serde(default)]
    pub frequency_before_hertz: Option<Hertz>,
    /// Mean frequency of the cores at the end.
    #[serde(default)]
    pub frequency_after_hertz: Option<Hertz>,
    /// The hottest sensor at the start.
    #[serde(default)]
    pub temperature_before_celsius: Option<Celsius>,
    /// The hottest sensor at the end.
    #[serde(default)]
    pub temperature_after_celsius: Option<Celsius>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// How fast an accelerator beside the processor multiplies and adds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AcceleratorRate {
    /// Its name, one of the device's `accelerators`.
    pub name: String,
    /// Of which numbers.
    pub precision: Precision,
    /// Multiply-adds in a second, of the whole accelerator.
    pub multiply_adds_per_second: f64,
    /// Units that each do one multiply-add of that precision in a cycle.
    #[serde(default)]
    pub units: Option<u32>,
    /// Their clock.
    #[serde(default)]
    pub clock_hertz: Option<Hertz>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A device with what it can do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Passport {
    /// `metier.passport/1`.
    pub schema: Schema<Passport>,
    /// The device's id; of a specified passport a short name such as `raspberry-pi-4b`.
    pub id: String,
    /// What people call this device or board.
    pub name: String,
    /// Other names it goes by, as exporters and firmware write them; compared without case.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Measured or specified.
    pub origin: Origin,
    /// When the figures were made.
    pub made: Timestamp,
    /// What it is made of.
    pub device: Device,
    /// Multiply-adds of the processor by precision and number of threads.
    #[serde(default)]
    pub compute: Vec<ComputeRate>,
    /// Multiply-adds of accelerators, by accelerator and precision.
    #[serde(default)]
    pub accelerators: Vec<AcceleratorRate>,
    /// Memory bandwidth by number of threads and working set.
    #[serde(default)]
    pub bandwidth: Vec<Bandwidth>,
    /// Memory latency by working set.
    #[serde(default)]
    pub latency: Vec<Latency>,
    /// Storage.
    pub storage: Option<StorageRate>,
    /// Starting a process that does nothing, until it has ended.
    pub spawn_seconds: Option<Seconds>,
    /// How far the slowest start was from the quickest, which is the figure.
    #[serde(default)]
    pub spawn_spread_ratio: Option<Ratio>,
    /// Load that lasts.
    pub throttling: Option<Throttling>,
    /// Public documents that specified figures come from, or what measured them.
    #[serde(default)]
    pub sources: Vec<String>,
    /// What one should know before relying on the figures.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What could not be found out, and why.
    #[serde(default)]
    pub missing: MissingFields,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Versioned for Passport {
    const SCHEMA: &'static str = "metier.passport/1";
}

impl ComputeRate {
    /// A bare figure.
    pub fn new(precision: Precision, threads: u32, multiply_adds_per_second: f64) -> Self {
        Self {
            precision,
            threads,
            multiply_adds_per_second,
            instructions: None,
            per_core_and_cycle: None,
            clock_hertz: None,
            spread_ratio: None,
            extra: Extra::new(),
        }
    }
}

impl Bandwidth {
    /// A bare figure.
    pub fn new(threads: u32, working_set_bytes: Option<Bytes>, bytes_per_second: f64) -> Self {
        Self {
            threads,
            working_set_bytes,
            bytes_per_second,
            bus_bits: None,
            transfers_per_second: None,
            spread_ratio: None,
            extra: Extra::new(),
        }
    }
}

impl Latency {
    /// A bare figure.
    pub fn new(working_set_bytes: Bytes, seconds: Seconds) -> Self {
        Self { working_set_bytes, seconds, spread_ratio: None, extra: Extra::new() }
    }
}

impl Passport {
    /// A passport without figures, of the device as it names itself.
    pub fn of(device: Device, origin: Origin) -> Self {
        Self {
            schema: Schema::new(),
            id: device.id.to_string(),
            name: device.name.clone(),
            aliases: Vec::new(),
            origin,
            made: Timestamp::now(),
            device,
            compute: Vec::new(),
            accelerators: Vec::new(),
            bandwidth: Vec::new(),
            latency: Vec::new(),
            storage: None,
            spawn_seconds: None,
            spawn_spread_ratio: None,
            throttling: None,
            sources: Vec::new(),
            notes: Vec::new(),
            missing: MissingFields::new(),
            extra: Extra::new(),
        }
    }

    /// Multiply-adds in a second with that many threads, or with the most threads below it that there is a figure of.
    pub fn multiply_adds_per_second(&self, precision: Precision, threads: u32) -> Option<f64> {
        let fitting =
            self.compute.iter().filter(|rate| rate.precision == precision && rate.threads <= threads);
        fitting.max_by_key(|rate| rate.threads).map(|rate| rate.multiply_adds_per_second)
    }

    /// Bytes from memory in a second with that many threads, or with the most threads below it that there is a figure of.
    pub fn memory_bytes_per_second(&self, threads: u32) -> Option<f64> {
        let fitting =
            self.bandwidth.iter().filter(|rate| rate.working_set_bytes.is_none() && rate.threads <= threads);
        fitting.max_by_key(|rate| rate.threads).map(|rate| rate.bytes_per_second)
    }
}
