//! Third-party metrics: a feature group whose names the user sets once per process
//! (`PROM_THIRDPARTY_METRICS`).
//!
//! A name is a Prometheus counter without Kepler's prefix. The names are the features of
//! [`FeatureGroup::ThirdParty`] and are added to those of [`FeatureGroup::WorkloadOnly`], both in
//! alphabetical order.

use std::sync::OnceLock;

use super::{FeatureGroup, shorten};
use crate::Error;

pub const MAX_METRICS: usize = 64;
const MAX_NAME_LENGTH: usize = 200;

static CONFIGURED_METRICS: OnceLock<ThirdPartyMetrics> = OnceLock::new();

/// Third-party names, and the workload features including them.
struct ThirdPartyMetrics {
    names: Vec<&'static str>,
    workload: Vec<&'static str>,
}

/// Sets the third-party metrics. Only the first call with names counts in a process: groups must
/// not change while a predictor uses them.
pub fn set(names: &[String]) -> Result<(), Error> {
    let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.is_empty() {
        return Ok(());
    }
    let wrong = |got: &str, want: &str| {
        Err(Error::Word { field: "thirdparty-metrics", got: shorten(got), want: want.to_string() })
    };
    if sorted.len() > MAX_METRICS {
        return wrong(&format!("{} names", sorted.len()), "at most 64");
    }
    for name in &sorted {
        let is_letter = |at: usize, byte: u8| {
            byte.is_ascii_alphabetic() || byte == b'_' || byte == b':' || (at > 0 && byte.is_ascii_digit())
        };
        let is_name = !name.is_empty()
            && name.len() <= MAX_NAME_LENGTH
            && name.bytes().enumerate().all(|(at, byte)| is_letter(at, byte));
        if !is_name {
            return wrong(name, "a name of a metric: letters, digits, _ and :");
        }
        if FeatureGroup::Full.features().contains(name) || name.ends_with("_power") {
            return wrong(name, "a metric that is neither a feature of Kepler's nor a column of watts");
        }
    }
    if let Some(metrics) = CONFIGURED_METRICS.get() {
        return match metrics.names == sorted {
            true => Ok(()),
            false => wrong(
                &sorted.join(","),
                &format!("{}, as set earlier in this process", metrics.names.join(",")),
            ),
        };
    }
    let names: Vec<&'static str> =
        sorted.iter().map(|name| -> &'static str { Box::leak(name.to_string().into_boxed_str()) }).collect();
    let mut workload = FeatureGroup::WORKLOAD.to_vec();
    workload.extend(&names);
    workload.sort_unstable();
    CONFIGURED_METRICS.get_or_init(|| ThirdPartyMetrics { names, workload });
    Ok(())
}

/// The names in alphabetical order; empty if none are set.
pub fn names() -> &'static [&'static str] {
    CONFIGURED_METRICS.get().map_or(&[], |metrics| metrics.names.as_slice())
}

/// Whether a feature is a third-party metric.
pub fn has(feature: &str) -> bool {
    names().contains(&feature)
}

/// The workload features with third-party metrics; `None` if none are set.
pub fn workload() -> Option<&'static [&'static str]> {
    CONFIGURED_METRICS.get().map(|metrics| metrics.workload.as_slice())
}
