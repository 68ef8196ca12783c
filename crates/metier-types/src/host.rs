//! The state of the host around a run: what else was going on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Bytes, Celsius, Extra, Hertz, Ratio};

/// The host at one moment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct HostReading {
    /// Load average over one minute.
    pub load1: Option<f64>,
    /// Tasks that could run at that moment.
    pub runnable: Option<u64>,
    /// Memory that could be had without swapping.
    pub memory_available_bytes: Option<Bytes>,
    /// Mean of the cores' current frequencies.
    pub frequency_hertz: Option<Hertz>,
    /// Hottest zone.
    pub temperature_celsius: Option<Celsius>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The host before, during and after a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct HostState {
    /// Just before the start.
    pub before: HostReading,
    /// Just after the end.
    pub after: HostReading,
    /// Frequency governor, where all cores have the same.
    pub governor: Option<String>,
    /// Share of all cores' time that the hypervisor gave to others during the run.
    pub steal_ratio: Option<Ratio>,
    /// Share of all cores' time that was used by others than this run.
    pub others_ratio: Option<Ratio>,
    /// Share of the run's wall time in which some task on the host waited for a core.
    pub cpu_pressure_ratio: Option<Ratio>,
    /// The same for memory.
    pub memory_pressure_ratio: Option<Ratio>,
    /// The same for IO.
    pub io_pressure_ratio: Option<Ratio>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}
