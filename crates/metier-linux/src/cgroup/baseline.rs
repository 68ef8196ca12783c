//! What a group had used before the run began, which is not the run's: the engine's own work in a container's group.
//!
//! The high-water mark of memory cannot be subtracted; it is set back where the kernel lets us (version 1: by writing
//! to it; version 2: from Linux 6.12, for the file that asked), after pages that nobody needs have been given back.

use std::fs::{self, File, OpenOptions};
use std::io::Write;

use super::{Group, Totals};

/// Reads the counters, and sets back the high-water mark of memory.
pub fn take(group: &mut Group) -> Totals {
    let mut is_reset = false;
    if let Some(folder) = group.v1.get("memory") {
        let _ = fs::write(folder.join("memory.force_empty"), "0");
        is_reset = fs::write(folder.join("memory.max_usage_in_bytes"), "0").is_ok();
    } else if let Some(folder) = &group.v2 {
        let cache = fs::read_to_string(folder.join("memory.current"));
        if let Ok(bytes) = cache {
            let _ = fs::write(folder.join("memory.reclaim"), bytes.trim());
        }
        group.peak = reset(&folder.join("memory.peak"));
        is_reset = group.peak.is_some();
    }
    let mut totals = Totals::read(group);
    totals.is_peak_foreign = !is_reset && totals.peak_memory.is_some();
    totals
}

fn reset(file: &std::path::Path) -> Option<File> {
    let mut file: File = OpenOptions::new().read(true).write(true).open(file).ok()?;
    file.write_all(b"reset").ok()?;
    Some(file)
}
