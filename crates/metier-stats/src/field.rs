//! The fields of a run's summary that are compared.

use std::fmt;
use std::str::FromStr;

use metier_types::{Run, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Error;

/// A field of a run's summary, written as it is named there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Field {
    /// From start to end of the main process.
    WallSeconds,
    /// CPU time of all processes.
    CpuSeconds,
    /// Of that, in the program.
    CpuUserSeconds,
    /// Of that, in the kernel.
    CpuSystemSeconds,
    /// High-water mark of memory.
    PeakMemoryBytes,
    /// Read from storage.
    ReadBytes,
    /// Written to storage.
    WrittenBytes,
    /// Energy that the device's meters counted.
    EnergyJoules,
    /// Processes that existed.
    Processes,
}

impl Field {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 9] = [
        Self::WallSeconds,
        Self::CpuSeconds,
        Self::CpuUserSeconds,
        Self::CpuSystemSeconds,
        Self::PeakMemoryBytes,
        Self::ReadBytes,
        Self::WrittenBytes,
        Self::EnergyJoules,
        Self::Processes,
    ];

    /// Those that cost something each time and stand for themselves: what a regression is looked for in unless
    /// the caller names others. User and system time are parts of CPU time; bytes read and written depend on
    /// what the page cache held; the number of processes is a fact, not a cost.
    pub const WATCHED: [Self; 4] =
        [Self::WallSeconds, Self::CpuSeconds, Self::PeakMemoryBytes, Self::EnergyJoules];

    /// Its name in the summary.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WallSeconds => "wall_seconds",
            Self::CpuSeconds => "cpu_seconds",
            Self::CpuUserSeconds => "cpu_user_seconds",
            Self::CpuSystemSeconds => "cpu_system_seconds",
            Self::PeakMemoryBytes => "peak_memory_bytes",
            Self::ReadBytes => "read_bytes",
            Self::WrittenBytes => "written_bytes",
            Self::EnergyJoules => "energy_joules",
            Self::Processes => "processes",
        }
    }

    /// The word that people type and read: `wall`, `cpu`, `memory`, …
    pub const fn word(self) -> &'static str {
        match self {
            Self::WallSeconds => "wall",
            Self::CpuSeconds => "cpu",
            Self::CpuUserSeconds => "user",
            Self::CpuSystemSeconds => "system",
            Self::PeakMemoryBytes => "memory",
            Self::ReadBytes => "read",
            Self::WrittenBytes => "written",
            Self::EnergyJoules => "energy",
            Self::Processes => "processes",
        }
    }

    pub const fn unit(self) -> Unit {
        match self {
            Self::WallSeconds | Self::CpuSeconds | Self::CpuUserSeconds | Self::CpuSystemSeconds => {
                Unit::Seconds
            }
            Self::PeakMemoryBytes | Self::ReadBytes | Self::WrittenBytes => Unit::Bytes,
            Self::EnergyJoules => Unit::Joules,
            Self::Processes => Unit::Count,
        }
    }

    /// Its dotted path in a run, as `quality` and `missing` name it.
    pub fn path(self) -> String {
        format!("summary.{}", self.name())
    }

    /// Its value in a run, in its unit; `None` where it was not measured.
    pub fn value(self, run: &Run) -> Result<Option<f64>, Error> {
        let summary = &run.summary;
        let value = match self {
            Self::WallSeconds => summary.wall_seconds.map(|x| x.get()),
            Self::CpuSeconds => summary.cpu_seconds.map(|x| x.get()),
            Self::CpuUserSeconds => summary.cpu_user_seconds.map(|x| x.get()),
            Self::CpuSystemSeconds => summary.cpu_system_seconds.map(|x| x.get()),
            Self::PeakMemoryBytes => summary.peak_memory_bytes.map(|x| x.get() as f64),
            Self::ReadBytes => summary.read_bytes.map(|x| x.get() as f64),
            Self::WrittenBytes => summary.written_bytes.map(|x| x.get() as f64),
            Self::EnergyJoules => summary.energy_joules.map(|x| x.get()),
            Self::Processes => summary.processes.map(|x| x as f64),
        };
        match value {
            // Squares of values are summed below, so those that would overflow are refused as well.
            Some(got) if !(0.0..1e100).contains(&got) => {
                Err(Error::WrongValue { run: run.id, field: self, got })
            }
            value => Ok(value),
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Field {
    type Err = Error;

    /// From the word or the name.
    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|field| field.word() == text || field.name() == text).ok_or_else(|| {
            let words: Vec<&str> = Self::ALL.iter().map(|field| field.word()).collect();
            Error::WrongField { got: text.chars().take(80).collect(), want: words.join(", ") }
        })
    }
}
