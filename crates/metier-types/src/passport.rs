//! A device passport: hardware description and results of small benchmarks, portable as a file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{RecordSchema, VersionedRecord};
use crate::{Bytes, Celsius, Device, ExtraFields, Hertz, MissingFields, Ratio, Seconds, UtcTimestamp};

/// Source of a passport's figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PassportOrigin {
    /// Measured on the device by `metier device bench`.
    Measured,
    /// Taken from public specifications, not measured.
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
    pub origin: PassportOrigin,
}

impl PassportUse {
    /// The use of a passport.
    pub fn without_figures(passport: &Passport) -> Self {
        Self { id: passport.id.clone(), name: passport.name.clone(), origin: passport.origin }
    }
}

/// The format of the numbers that are computed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NumberPrecision {
    /// 64-bit floating point.
    F64,
    /// 32-bit floating point.
    F32,
    /// 16-bit floating point.
    F16,
    /// 8-bit integers, accumulated in 32 bits.
    I8,
}

/// Multiply-add rate of the processor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComputeRate {
    /// Number format.
    pub precision: NumberPrecision,
    /// Number of threads.
    pub threads: u32,
    /// Multiply-adds per second of all threads together.
    pub multiply_adds_per_second: f64,
    /// Instruction set extension, for example `AVX-512`; `null` if unknown.
    #[serde(default)]
    pub instructions: Option<String>,
    /// Multiply-adds per core and cycle assumed for a specified figure.
    #[serde(default)]
    pub per_core_and_cycle: Option<f64>,
    /// Clock frequency assumed for a specified figure.
    #[serde(default)]
    pub clock_hertz: Option<Hertz>,
    /// Spread between the slowest and the fastest repetition; the fastest is the figure. `null` if
    /// not measured.
    #[serde(default)]
    pub spread_ratio: Option<Ratio>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Memory read bandwidth at a number of threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryBandwidth {
    /// Number of threads.
    pub threads: u32,
    /// Bytes that each thread reads repeatedly; `null` means far more than the caches hold.
    pub working_set_bytes: Option<Bytes>,
    /// Bytes per second of all threads together.
    pub bytes_per_second: f64,
    /// Memory bus width assumed for a specified figure.
    #[serde(default)]
    pub bus_bits: Option<u32>,
    /// Bus transfers per second assumed for a specified figure.
    #[serde(default)]
    pub transfers_per_second: Option<f64>,
    /// Spread between the slowest and the fastest repetition; the fastest is the figure. `null` if
    /// not measured.
    #[serde(default)]
    pub spread_ratio: Option<Ratio>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Latency of dependent memory accesses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryLatency {
    /// Size of the accessed memory.
    pub working_set_bytes: Bytes,
    /// Duration of one access.
    pub seconds: Seconds,
    /// Spread between the slowest and the fastest repetition; the fastest is the figure. `null` if
    /// not measured.
    #[serde(default)]
    pub spread_ratio: Option<Ratio>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Speed of the storage under the data folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StorageRate {
    /// Bytes read per second, without the page cache.
    pub read_bytes_per_second: Option<f64>,
    /// Bytes written per second, synchronised to the medium.
    pub write_bytes_per_second: Option<f64>,
    /// Duration of one small synchronised write.
    pub sync_seconds: Option<Seconds>,
    /// Size of the test file.
    #[serde(default)]
    pub file_bytes: Option<Bytes>,
    /// File system of the folder, for example `ext4`.
    #[serde(default)]
    pub file_system: Option<String>,
    /// Spread between the slowest and the fastest repetition of writing or reading.
    #[serde(default)]
    pub spread_ratio: Option<Ratio>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Change of speed under sustained load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThrottlingResult {
    /// Duration of the load on all cores.
    pub seconds: Seconds,
    /// Speed at the end divided by speed at the start; 1 without throttling.
    pub kept_ratio: Ratio,
    /// Mean frequency of the cores at the start.
    #[serde(default)]
    pub frequency_before_hertz: Option<Hertz>,
    /// Mean frequency of the cores at the end.
    #[serde(default)]
    pub frequency_after_hertz: Option<Hertz>,
    /// Temperature of the hottest sensor at the start.
    #[serde(default)]
    pub temperature_before_celsius: Option<Celsius>,
    /// Temperature of the hottest sensor at the end.
    #[serde(default)]
    pub temperature_after_celsius: Option<Celsius>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Multiply-add rate of an accelerator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AcceleratorRate {
    /// Name of the accelerator, from the device's `accelerators`.
    pub name: String,
    /// Number format.
    pub precision: NumberPrecision,
    /// Multiply-adds per second of the whole accelerator.
    pub multiply_adds_per_second: f64,
    /// Number of units, each of which does one multiply-add of that format per cycle.
    #[serde(default)]
    pub units: Option<u32>,
    /// Clock frequency of the units.
    #[serde(default)]
    pub clock_hertz: Option<Hertz>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// A device and its performance figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Passport {
    /// `metier.passport/1`.
    pub schema: RecordSchema<Passport>,
    /// Id of the device; for a specified passport, a short name such as `raspberry-pi-4b`.
    pub id: String,
    /// Display name of the device or board.
    pub name: String,
    /// Alternative names used by exporters and firmware; compared without case.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Measured or specified.
    pub origin: PassportOrigin,
    /// Whether it was measured in two seconds, without being asked for; such figures may be too
    /// low.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_quick: bool,
    /// Time when the figures were made.
    pub made: UtcTimestamp,
    /// Hardware description.
    pub device: Device,
    /// Multiply-add rates of the processor by number format and threads.
    #[serde(default)]
    pub compute: Vec<ComputeRate>,
    /// Multiply-add rates of accelerators by accelerator and number format.
    #[serde(default)]
    pub accelerators: Vec<AcceleratorRate>,
    /// Memory bandwidth by number of threads and working set.
    #[serde(default)]
    pub bandwidth: Vec<MemoryBandwidth>,
    /// Memory latency by working set.
    #[serde(default)]
    pub latency: Vec<MemoryLatency>,
    /// Storage speed.
    pub storage: Option<StorageRate>,
    /// Time to start an empty process and wait for its end.
    pub spawn_seconds: Option<Seconds>,
    /// Spread between the slowest and the fastest start; the fastest is the figure.
    #[serde(default)]
    pub spawn_spread_ratio: Option<Ratio>,
    /// Behaviour under sustained load.
    pub throttling: Option<ThrottlingResult>,
    /// Public documents of specified figures, or the measuring program.
    #[serde(default)]
    pub sources: Vec<String>,
    /// Limitations of the figures.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Facts that could not be determined, with the reason.
    #[serde(default)]
    pub missing: MissingFields,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

impl VersionedRecord for Passport {
    const SCHEMA: &'static str = "metier.passport/1";
}

impl ComputeRate {
    /// A rate without details.
    pub fn new(precision: NumberPrecision, threads: u32, multiply_adds_per_second: f64) -> Self {
        Self {
            precision,
            threads,
            multiply_adds_per_second,
            instructions: None,
            per_core_and_cycle: None,
            clock_hertz: None,
            spread_ratio: None,
            extra: ExtraFields::new(),
        }
    }
}

impl MemoryBandwidth {
    /// A bandwidth without details.
    pub fn new(threads: u32, working_set_bytes: Option<Bytes>, bytes_per_second: f64) -> Self {
        Self {
            threads,
            working_set_bytes,
            bytes_per_second,
            bus_bits: None,
            transfers_per_second: None,
            spread_ratio: None,
            extra: ExtraFields::new(),
        }
    }
}

impl MemoryLatency {
    /// A latency without details.
    pub fn new(working_set_bytes: Bytes, seconds: Seconds) -> Self {
        Self { working_set_bytes, seconds, spread_ratio: None, extra: ExtraFields::new() }
    }
}

impl Passport {
    /// A passport of a device, without figures.
    pub fn without_figures(device: Device, origin: PassportOrigin) -> Self {
        Self {
            schema: RecordSchema::new(),
            id: device.id.to_string(),
            name: device.name.clone(),
            aliases: Vec::new(),
            origin,
            is_quick: false,
            made: UtcTimestamp::now(),
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
            extra: ExtraFields::new(),
        }
    }

    /// Multiply-adds per second at this number of threads, or at the largest smaller number with a
    /// figure.
    pub fn multiply_adds_per_second(&self, precision: NumberPrecision, threads: u32) -> Option<f64> {
        let fitting =
            self.compute.iter().filter(|rate| rate.precision == precision && rate.threads <= threads);
        fitting.max_by_key(|rate| rate.threads).map(|rate| rate.multiply_adds_per_second)
    }

    /// Memory bandwidth at this number of threads, or at the largest smaller number with a figure.
    pub fn memory_bytes_per_second(&self, threads: u32) -> Option<f64> {
        let fitting =
            self.bandwidth.iter().filter(|rate| rate.working_set_bytes.is_none() && rate.threads <= threads);
        fitting.max_by_key(|rate| rate.threads).map(|rate| rate.bytes_per_second)
    }
}
