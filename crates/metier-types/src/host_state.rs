//! State of the host around a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Bytes, Celsius, ExtraFields, Hertz, Ratio};

/// State of the host at one moment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct HostReading {
    /// One-minute load average.
    pub load1: Option<f64>,
    /// Runnable tasks at that moment.
    pub runnable: Option<u64>,
    /// Memory available without swapping.
    pub memory_available_bytes: Option<Bytes>,
    /// Mean of the cores' current frequencies.
    pub frequency_hertz: Option<Hertz>,
    /// Temperature of the hottest zone.
    pub temperature_celsius: Option<Celsius>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// State of the host before, during and after a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct HostState {
    /// Just before the start.
    pub before: HostReading,
    /// Just after the end.
    pub after: HostReading,
    /// Frequency governor, if all cores have the same.
    pub governor: Option<String>,
    /// Share of all cores' time that the hypervisor gave to other guests during the run.
    pub steal_ratio: Option<Ratio>,
    /// Share of all cores' time that other processes used.
    pub others_ratio: Option<Ratio>,
    /// Share of the run's wall time in which some task on the host waited for a core.
    pub cpu_pressure_ratio: Option<Ratio>,
    /// Share of the run's wall time in which some task on the host waited for memory.
    pub memory_pressure_ratio: Option<Ratio>,
    /// Share of the run's wall time in which some task on the host waited for IO.
    pub io_pressure_ratio: Option<Ratio>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}
