//! Default speeds for a device with only cores and instruction set known.
//!
//! The rates are those of a plain core of the family (a Cortex-A72 or a Skylake-class server core
//! at a moderate clock), rounded. Real devices are up to several times faster or slower. So
//! intervals are widened by [`GENERIC_INTERVAL_FACTOR`] to either side, and no prediction counts as in range.

use metier_types::{Passport, UtcTimestamp};
use serde_json::json;

/// Factor by which an interval is widened to either side.
pub const GENERIC_INTERVAL_FACTOR: f64 = 3.0;
/// Number of threads that saturates the memory bandwidth.
const MEMORY_THREADS: u32 = 4;

/// Rates of a core: 32-bit multiply-adds per second, and bytes per second of one thread.
struct GenericCore {
    name: &'static str,
    adds: f64,
    bytes: f64,
}

fn family(architecture: &str) -> Option<GenericCore> {
    Some(match architecture.to_ascii_lowercase().as_str() {
        "aarch64" | "arm64" | "arm_8" => GenericCore { name: "aarch64", adds: 6e9, bytes: 3e9 },
        "arm" | "armv7l" | "armv6l" | "arm_7" => GenericCore { name: "arm", adds: 2e9, bytes: 1.5e9 },
        "x86_64" | "amd64" => GenericCore { name: "x86_64", adds: 30e9, bytes: 8e9 },
        _ => return None,
    })
}

/// Multiply-adds and bytes per second with this many threads; `None` for an unknown instruction
/// set.
pub fn rates(architecture: &str, threads: u32) -> Option<(f64, f64)> {
    let GenericCore { adds, bytes, .. } = family(architecture)?;
    Some((adds * f64::from(threads), bytes * f64::from(threads.min(MEMORY_THREADS))))
}

/// A passport without measurements for a generic device; `None` for an unknown instruction set.
pub fn passport(architecture: &str, cores: u32) -> Option<Passport> {
    let GenericCore { name, .. } = family(architecture)?;
    let cores = cores.clamp(1, 1024);
    let id = format!("generic-{name}-{cores}");
    let seen = UtcTimestamp::UNIX_EPOCH;
    let written = json!({
        "schema": "metier.passport/1",
        "id": id,
        "name": format!("a device with {cores} {name} cores"),
        "origin": "specified",
        "made": seen,
        "device": {
            "schema": "metier.device/1",
            "id": id,
            "name": id,
            "class": "unknown",
            "cpu": {"architecture": name, "threads": cores},
            "seen": seen,
        },
        "sources": ["defaults for such devices; only the cores of this one are known"],
    });
    serde_json::from_value(written).ok()
}

#[cfg(test)]
mod tests {
    use metier_types::NumberPrecision;

    use super::*;
    use crate::latency::passport_estimate::{self, DeviceSpeeds};

    #[test]
    fn known_instruction_sets_have_a_passport_and_others_none() {
        for (name, cores) in [("X86_64", 64), ("aarch64", 4), ("ARM_8", 4), ("armv7l", 1), ("amd64", 100_000)]
        {
            let passport = passport(name, cores).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(passport.device.cpu.threads, cores.min(1024));
            let speeds = DeviceSpeeds::of(&passport, cores.min(1024), NumberPrecision::F32).unwrap();
            assert_eq!(speeds.reach(), passport_estimate::STATED_INTERVAL_FACTOR * GENERIC_INTERVAL_FACTOR);
        }
        assert_eq!(passport("VAX", 1), None);
    }
}
