//! Baseline of a control group whose use before the run is not the run's, such as the engine's own
//! work in a container's group.
//!
//! The memory high-water mark cannot be subtracted, so it is reset if the kernel allows it, after
//! reclaimable pages are released. Version 1 resets on any write; version 2 from Linux 6.12, only
//! for the open file that requested it.

use std::fs::{self, File, OpenOptions};
use std::io::Write;

use super::{CgroupTotals, RunCgroup};

/// Reads the counters and resets the memory high-water mark.
pub fn read_baseline(group: &mut RunCgroup) -> CgroupTotals {
    let mut is_reset = false;
    if let Some(folder) = group.v1.get("memory") {
        let _ = fs::write(folder.join("memory.force_empty"), "0");
        is_reset = fs::write(folder.join("memory.max_usage_in_bytes"), "0").is_ok();
    } else if let Some(folder) = &group.v2 {
        let cache = fs::read_to_string(folder.join("memory.current"));
        if let Ok(bytes) = cache {
            let _ = fs::write(folder.join("memory.reclaim"), bytes.trim());
        }
        group.peak = reset_peak(&folder.join("memory.peak"));
        is_reset = group.peak.is_some();
    }
    let mut totals = CgroupTotals::read(group);
    totals.is_peak_foreign = !is_reset && totals.peak_memory.is_some();
    totals
}

fn reset_peak(file: &std::path::Path) -> Option<File> {
    let mut file: File = OpenOptions::new().read(true).write(true).open(file).ok()?;
    file.write_all(b"reset").ok()?;
    Some(file)
}
