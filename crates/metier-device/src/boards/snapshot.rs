//! A board at one moment.

use metier_types::{Bytes, Celsius, Hertz, Ratio, Watts};
use serde::Serialize;

use metier_linux::throttling::Throttling;

/// What a board shows of itself at one moment.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Snapshot {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ram: Option<Memory>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<Memory>,
    /// Memory inside of the chip (TX1, Nano).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iram: Option<Memory>,
    /// Cores in their order; those that are off are in the list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<Core>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emc: Option<Engine>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<Engine>,
    /// Video, image, audio and inference engines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<Engine>,
    /// Share of time of the code-morphing cores' translator (TX2, Xavier).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mts: Option<Morphing>,
    /// Temperatures in the order in which they were shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub temperatures: Vec<Temperature>,
    /// Power rails in the order in which they were shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rails: Vec<Rail>,
    /// Why the firmware holds the board back (Raspberry Pi).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttling: Option<Throttling>,
}

impl Snapshot {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The temperature with that name, in any case; `None` also where its sensor is off or a placeholder.
    pub fn temperature(&self, name: &str) -> Option<Celsius> {
        let same = |sensor: &&Temperature| sensor.name.eq_ignore_ascii_case(name);
        let sensor = self.temperatures.iter().find(same)?;
        sensor.celsius.filter(|_| !sensor.placeholder)
    }

    /// The rail with that name.
    pub fn rail(&self, name: &str) -> Option<&Rail> {
        self.rails.iter().find(|rail| rail.name == name)
    }

    /// Mean load of the cores that are on; `None` where none shows one.
    pub fn cpu_load(&self) -> Option<Ratio> {
        let loads: Vec<f64> =
            self.cores.iter().filter_map(|core| core.load_ratio).map(|load| load.get()).collect();
        (!loads.is_empty()).then(|| Ratio(loads.iter().sum::<f64>() / loads.len() as f64))
    }

    /// Load of the first graphics processor.
    pub fn gpu_load(&self) -> Option<Ratio> {
        self.gpus.first()?.load_ratio
    }

    /// Whether every core that is on shows a load, and each of them is 0: what some boards print first, before
    /// there is an earlier sample to compare with.
    pub fn is_idle_in_all_cores(&self) -> bool {
        let mut on = self.cores.iter().filter(|core| !core.off).peekable();
        on.peek().is_some() && on.all(|core| core.load_ratio == Some(Ratio(0.0)))
    }
}

/// A kind of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Memory {
    pub used_bytes: Bytes,
    pub total_bytes: Bytes,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_free: Option<Blocks>,
    /// Of swap: what is in memory as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_bytes: Option<Bytes>,
}

/// Free blocks of the largest size there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Blocks {
    /// How many; `None` where only their size is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    pub size_bytes: Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Core {
    /// Whether it is switched off; it has no load then, which is not the same as none.
    pub off: bool,
    /// Share of time in which it worked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_ratio: Option<Ratio>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_hertz: Option<Hertz>,
}

/// Something with a clock and a load of its own: a GPU, the memory controller, an encoder.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Engine {
    /// As it was shown, for example `GR3D_FREQ`, `NVENC`.
    pub name: String,
    /// Whether it is switched off.
    pub off: bool,
    /// Share of time in which it worked; `None` where it is not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_ratio: Option<Ratio>,
    /// Its clocks, one for each cluster; empty where they are not shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frequencies_hertz: Vec<Hertz>,
}

impl Engine {
    /// The name without the suffix that some releases add: `VIC_FREQ` and `VIC` are the same engine.
    pub fn engine(&self) -> &str {
        self.name.strip_suffix("_FREQ").unwrap_or(&self.name)
    }

    /// The fastest of its clocks.
    pub fn frequency(&self) -> Option<Hertz> {
        self.frequencies_hertz.iter().copied().reduce(|a, b| if b > a { b } else { a })
    }
}

/// Time of the code-morphing cores' translator.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Morphing {
    #[serde(rename = "foreground_ratio")]
    pub foreground: Ratio,
    #[serde(rename = "background_ratio", skip_serializing_if = "Option::is_none")]
    pub background: Option<Ratio>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Temperature {
    /// As it was shown; upper or lower case differs between releases.
    pub name: String,
    /// What it shows; `None` where the sensor is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub celsius: Option<Celsius>,
    /// The largest since the start, where it is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_celsius: Option<Celsius>,
    /// Whether it is a constant that measures nothing (the power chip's 50 °C or 100 °C).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub placeholder: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rail {
    /// Its name, for example `VDD_IN`.
    pub name: String,
    #[serde(rename = "watts")]
    pub now: Watts,
    /// Mean since the recording program started.
    #[serde(rename = "mean_watts", skip_serializing_if = "Option::is_none")]
    pub mean: Option<Watts>,
    /// Largest since the recording program started.
    #[serde(rename = "peak_watts", skip_serializing_if = "Option::is_none")]
    pub peak: Option<Watts>,
}

impl Rail {
    /// Power now in whole milliwatts, as it was printed.
    pub fn milliwatts(&self) -> i64 {
        milli(self.now)
    }

    /// The mean in whole milliwatts, as it was printed.
    pub fn mean_milliwatts(&self) -> Option<i64> {
        self.mean.map(milli)
    }
}

fn milli(watts: Watts) -> i64 {
    (watts.get() * 1e3).round() as i64
}
