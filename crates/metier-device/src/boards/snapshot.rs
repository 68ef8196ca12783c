//! A board at one moment.

use metier_types::{Bytes, Celsius, Hertz, Ratio, Watts};
use serde::Serialize;

use metier_linux::firmware_throttling::FirmwareThrottling;

/// State of a board at one moment.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct BoardSnapshot {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ram: Option<BoardMemory>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<BoardMemory>,
    /// On-chip memory (TX1, Nano).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iram: Option<BoardMemory>,
    /// Cores in order, including those that are off.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<BoardCore>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emc: Option<BoardEngine>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<BoardEngine>,
    /// Video, image, audio and inference engines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<BoardEngine>,
    /// Share of time of the code-morphing translator (TX2, Xavier).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mts: Option<CodeMorphing>,
    /// Temperatures in the order printed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub temperatures: Vec<BoardTemperature>,
    /// Power rails in the order printed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rails: Vec<PowerRail>,
    /// Why the firmware throttles the board (Raspberry Pi).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttling: Option<FirmwareThrottling>,
}

impl BoardSnapshot {
    /// Whether no value is known.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The temperature with that name, ignoring case; `None` also if its sensor is off or a
    /// placeholder.
    pub fn temperature(&self, name: &str) -> Option<Celsius> {
        let same = |sensor: &&BoardTemperature| sensor.name.eq_ignore_ascii_case(name);
        let sensor = self.temperatures.iter().find(same)?;
        sensor.celsius.filter(|_| !sensor.placeholder)
    }

    pub fn rail(&self, name: &str) -> Option<&PowerRail> {
        self.rails.iter().find(|rail| rail.name == name)
    }

    /// Mean load of the cores that are on; `None` if none reports a load.
    pub fn cpu_load(&self) -> Option<Ratio> {
        let loads: Vec<f64> =
            self.cores.iter().filter_map(|core| core.load_ratio).map(|load| load.get()).collect();
        (!loads.is_empty()).then(|| Ratio(loads.iter().sum::<f64>() / loads.len() as f64))
    }

    /// Load of the first GPU.
    pub fn gpu_load(&self) -> Option<Ratio> {
        self.gpus.first()?.load_ratio
    }

    /// Whether every core that is on reports a load of 0. Some boards print this first, before
    /// there is an earlier sample.
    pub fn is_idle_in_all_cores(&self) -> bool {
        let mut on = self.cores.iter().filter(|core| !core.off).peekable();
        on.peek().is_some() && on.all(|core| core.load_ratio == Some(Ratio(0.0)))
    }
}

/// Use of one kind of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BoardMemory {
    pub used_bytes: Bytes,
    pub total_bytes: Bytes,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_free: Option<FreeBlocks>,
    /// Swap only: bytes that are in memory as well (`SwapCached`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_bytes: Option<Bytes>,
}

/// Free blocks of the largest available size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FreeBlocks {
    /// Number of blocks; `None` if only their size is printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    pub size_bytes: Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct BoardCore {
    /// Whether it is switched off; then its load is unknown, not 0.
    pub off: bool,
    /// Share of time in which it was busy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_ratio: Option<Ratio>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_hertz: Option<Hertz>,
}

/// A unit with its own clock and load: a GPU, the memory controller, an encoder.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct BoardEngine {
    /// Name as printed, for example `GR3D_FREQ`, `NVENC`.
    pub name: String,
    /// Whether it is switched off.
    pub off: bool,
    /// Share of time in which it was busy; `None` if not printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_ratio: Option<Ratio>,
    /// Clocks, one for each cluster; empty if not printed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frequencies_hertz: Vec<Hertz>,
}

impl BoardEngine {
    /// The name without the suffix that some releases add; `VIC_FREQ` and `VIC` are the same
    /// engine.
    pub fn base_name(&self) -> &str {
        self.name.strip_suffix("_FREQ").unwrap_or(&self.name)
    }

    /// Its highest clock.
    pub fn highest_frequency(&self) -> Option<Hertz> {
        self.frequencies_hertz.iter().copied().reduce(|a, b| if b > a { b } else { a })
    }
}

/// Time share of the code-morphing translator.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CodeMorphing {
    #[serde(rename = "foreground_ratio")]
    pub foreground: Ratio,
    #[serde(rename = "background_ratio", skip_serializing_if = "Option::is_none")]
    pub background: Option<Ratio>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BoardTemperature {
    /// Name as printed; its case differs between releases.
    pub name: String,
    /// Present value; `None` if the sensor is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub celsius: Option<Celsius>,
    /// Largest value since the start, if printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_celsius: Option<Celsius>,
    /// Whether it is a constant placeholder (50 °C or 100 °C of the power chip).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub placeholder: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PowerRail {
    /// Its name, for example `VDD_IN`.
    pub name: String,
    #[serde(rename = "watts")]
    pub now: Watts,
    /// Mean since `tegrastats` started.
    #[serde(rename = "mean_watts", skip_serializing_if = "Option::is_none")]
    pub mean: Option<Watts>,
    /// Largest value since `tegrastats` started.
    #[serde(rename = "peak_watts", skip_serializing_if = "Option::is_none")]
    pub peak: Option<Watts>,
}

impl PowerRail {
    /// Present power in whole milliwatts, as printed.
    pub fn milliwatts(&self) -> i64 {
        to_milliwatts(self.now)
    }

    /// Mean power in whole milliwatts, as printed.
    pub fn mean_milliwatts(&self) -> Option<i64> {
        self.mean.map(to_milliwatts)
    }
}

fn to_milliwatts(watts: Watts) -> i64 {
    (watts.get() * 1e3).round() as i64
}
