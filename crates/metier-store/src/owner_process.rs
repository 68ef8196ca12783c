//! Identifies the process that measures an active run, so that a later process can detect its end.

use serde::{Deserialize, Serialize};

/// The process that measures a run. A pid alone is reused after a reboot or an overflow; boot id
/// and start time make it unique.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerProcess {
    /// Id of the device that it runs on.
    pub host: String,
    /// Boot id, from `/proc/sys/kernel/random/boot_id`.
    pub boot: String,
    pub pid: u32,
    /// Start time in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub started: u64,
}
