//! Who measures a run that is under way, so that a later start can tell whether they are still there.

use serde::{Deserialize, Serialize};

/// The process that measures a run. A pid alone comes back after a restart or an overflow; with the boot and
/// the start time it does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The device it runs on (its id).
    pub host: String,
    /// The boot it belongs to, as `/proc/sys/kernel/random/boot_id` says.
    pub boot: String,
    pub pid: u32,
    /// When it started, in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub started: u64,
}
