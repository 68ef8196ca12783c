//! The comparable fields of a run's summary.

use std::fmt;
use std::str::FromStr;

use metier_types::{ColumnUnit, Run};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Error;

/// A field of a run's summary, serialised with the name of the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SummaryField {
    /// Wall time from start to end of the main process.
    WallSeconds,
    /// CPU time of all processes.
    CpuSeconds,
    /// Part of the CPU time in user mode.
    CpuUserSeconds,
    /// Part of the CPU time in kernel mode.
    CpuSystemSeconds,
    /// Memory high-water mark.
    PeakMemoryBytes,
    /// Bytes read from storage.
    ReadBytes,
    /// Bytes written to storage.
    WrittenBytes,
    /// Energy counted by the device's meters.
    EnergyJoules,
    /// Number of processes.
    Processes,
}

impl SummaryField {
    /// All fields, in display order.
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

    /// Fields checked for regressions by default: independent costs. User and system time are parts
    /// of CPU time. Bytes read and written depend on the page cache. The number of processes is not
    /// a cost.
    pub const REGRESSION_FIELDS: [Self; 4] =
        [Self::WallSeconds, Self::CpuSeconds, Self::PeakMemoryBytes, Self::EnergyJoules];

    /// Name of the field in the summary.
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

    /// Short name for users: `wall`, `cpu`, `memory`, …
    pub const fn short_name(self) -> &'static str {
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

    pub const fn unit(self) -> ColumnUnit {
        match self {
            Self::WallSeconds | Self::CpuSeconds | Self::CpuUserSeconds | Self::CpuSystemSeconds => {
                ColumnUnit::Seconds
            }
            Self::PeakMemoryBytes | Self::ReadBytes | Self::WrittenBytes => ColumnUnit::Bytes,
            Self::EnergyJoules => ColumnUnit::Joules,
            Self::Processes => ColumnUnit::Count,
        }
    }

    /// Dotted path in a run, as used in `quality` and `missing`.
    pub fn record_path(self) -> String {
        format!("summary.{}", self.name())
    }

    /// Value in a run, in the field's unit; `None` if it was not measured.
    pub fn value_of(self, run: &Run) -> Result<Option<f64>, Error> {
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
            // Squares of values are summed later, so values that would overflow are rejected too.
            Some(got) if !(0.0..1e100).contains(&got) => {
                Err(Error::WrongValue { run: run.id, field: self, got })
            }
            value => Ok(value),
        }
    }
}

impl fmt::Display for SummaryField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for SummaryField {
    type Err = Error;

    /// Parses the short or the full name.
    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|field| field.short_name() == text || field.name() == text).ok_or_else(
            || {
                let words: Vec<&str> = Self::ALL.iter().map(|field| field.short_name()).collect();
                Error::WrongField { got: text.chars().take(80).collect(), want: words.join(", ") }
            },
        )
    }
}
