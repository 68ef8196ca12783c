//! CPU and memory limits for the run's group. A limit that the host cannot enforce is refused
//! before the start, since an ineffective limit would invalidate the run's figures.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use metier_types::{Bytes, MissingReason};

use super::{CgroupMembership, RunCgroup};

/// Period of the CPU quota, in microseconds.
const PERIOD_US: u64 = 100_000;

/// Resource limits of a group.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CgroupLimits {
    /// Number of cores, for example 0.5.
    pub cpu: Option<f64>,
    pub memory: Option<Bytes>,
}

/// A limit that this host cannot enforce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitRefusal {
    /// The flag that requested it.
    pub limit: &'static str,
    pub reason: String,
}

/// Applies limits to a group and returns them as the record shows them.
pub fn apply_limits(
    group: &mut Result<RunCgroup, MissingReason>,
    limits: CgroupLimits,
    name: &str,
) -> Result<BTreeMap<String, String>, LimitRefusal> {
    let mut shown = BTreeMap::new();
    let refuse = |limit: &'static str, reason: String| LimitRefusal { limit, reason };
    let group = match group {
        Ok(group) => group,
        Err(missing) => return Err(refuse("--cpus or --memory", missing.to_string())),
    };
    if let Some(memory) = limits.memory {
        let file = match (group.v1.get("memory"), &group.v2) {
            (Some(folder), _) => folder.join("memory.limit_in_bytes"),
            (None, Some(folder)) => folder.join("memory.max"),
            (None, None) => {
                return Err(refuse("--memory", "the run has no group with the memory controller".into()));
            }
        };
        write_limit(&file, &memory.0.to_string()).map_err(|reason| refuse("--memory", reason))?;
        // Without this, a run would swap instead of reaching its limit.
        if let Some(folder) = group.v1.get("memory") {
            let _ = fs::write(folder.join("memory.memsw.limit_in_bytes"), memory.0.to_string());
        } else if let Some(folder) = &group.v2 {
            let _ = fs::write(folder.join("memory.swap.max"), "0");
        }
        shown.insert("memory".to_string(), memory.to_string());
    }
    if let Some(cores) = limits.cpu {
        let quota = ((cores * PERIOD_US as f64).round() as u64).max(1000);
        if group.v1.is_empty() {
            let Some(folder) = &group.v2 else { return Err(refuse("--cpus", "the run has no group".into())) };
            write_limit(&folder.join("cpu.max"), &format!("{quota} {PERIOD_US}"))
                .map_err(|reason| refuse("--cpus", reason))?;
            group.around = CgroupMembership { v2: Some(folder.clone()), ..CgroupMembership::default() };
        } else {
            let folder =
                group.add_v1_folder("cpu", name).map_err(|missing| refuse("--cpus", missing.to_string()))?;
            write_limit(&folder.join("cpu.cfs_period_us"), &PERIOD_US.to_string())
                .and_then(|()| write_limit(&folder.join("cpu.cfs_quota_us"), &quota.to_string()))
                .map_err(|reason| refuse("--cpus", reason))?;
            group.around.v1.insert("cpu".to_string(), folder);
        }
        shown.insert("cpu".to_string(), format!("{cores} cores"));
    }
    Ok(shown)
}

fn write_limit(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            format!("{} does not exist: the controller is not delegated to the run's group", file.display())
        }
        _ => format!("{} does not accept {text} ({error})", file.display()),
    })
}
