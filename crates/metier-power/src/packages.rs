//! Container shares of the CPU packages. Only old exporters report them
//! (`kepler_container_cpu_usage_per_package_ratio`). With them, a table has a watts column for each
//! package, and each package's share of the work.
//!
//! Trainers use the watts of all packages together ([`FeatureFrame::watts`]); shares that add up to
//! 1 leave the features unchanged.

use std::collections::BTreeMap;

use crate::Error;
use crate::frame::FeatureFrame;
use crate::kepler_terms::{EnergySource, PowerComponent};
use crate::response::{KeplerResponse, KeplerSeries};

const PACKAGE_RATIO_METRIC: &str = "kepler_container_cpu_usage_per_package_ratio";
/// Largest number of packages.
const MAX_PACKAGES: usize = 64;

/// Shares of all packages by time and container.
pub struct PackageShares {
    /// The packages, by name.
    pub packages: Vec<String>,
    by_time: BTreeMap<u64, BTreeMap<String, Vec<f64>>>,
}

impl PackageShares {
    /// Reads the shares of a response; `None` if it has none, or the source has no packages.
    pub fn from_response(
        response: &KeplerResponse,
        source: EnergySource,
        id: impl Fn(&KeplerSeries) -> String,
    ) -> Option<Self> {
        let list = response.metric(PACKAGE_RATIO_METRIC);
        if source.components().len() < 2 || list.is_empty() {
            return None;
        }
        let energy = response.metric(&format!("kepler_node_{}_joules_total", PowerComponent::Package.name()));
        let of_source = energy.iter().filter(|series| series.label("source") == source.name());
        let mut packages: Vec<String> = of_source.map(|series| series.label("package").to_string()).collect();
        packages.sort_unstable();
        packages.dedup();
        if packages.is_empty() || packages.len() > MAX_PACKAGES || packages[0].is_empty() {
            return None;
        }
        let mut by_time: BTreeMap<u64, BTreeMap<String, Vec<f64>>> = BTreeMap::new();
        for series in list {
            let Some(place) = packages.iter().position(|package| package == series.label("pkg_id")) else {
                continue;
            };
            let id = id(series);
            for (time, value) in series.samples.iter().filter(|(time, _)| *time >= 0.0) {
                let of_time = by_time.entry(time.to_bits()).or_default();
                of_time.entry(id.clone()).or_insert_with(|| vec![0.0; packages.len()])[place] += value;
            }
        }
        Some(Self { packages, by_time })
    }

    /// Share of each package at a time, for one container or all; `None` if unknown. Without work,
    /// all packages have equal shares.
    pub fn at(&self, time: u64, id: Option<&str>) -> Option<Vec<f64>> {
        let of_time = self.by_time.get(&time)?;
        let mut sum = vec![0.0; self.packages.len()];
        for (_, values) in of_time.iter().filter(|(known, _)| id.is_none_or(|id| id == known.as_str())) {
            sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
        if id.is_some_and(|id| !of_time.contains_key(id)) {
            return None;
        }
        let all: f64 = sum.iter().sum();
        let even = 1.0 / self.packages.len() as f64;
        Some(sum.iter().map(|value| if all > 0.0 { value / all } else { even }).collect())
    }

    /// Column name of a component's watts in one package.
    pub fn column(package: &str, component: PowerComponent) -> String {
        format!("package_{package}_{}", component.column())
    }

    /// Column name of a package's share, spelled as in the original.
    pub fn ratio(package: &str) -> String {
        format!("packge_ratio_{package}")
    }
}

/// The table with the watts of all packages summed into one column for each component.
pub fn merge_packages(frame: &FeatureFrame, source: EnergySource) -> Result<FeatureFrame, Error> {
    let is_whole = |component: &PowerComponent| frame.column(&component.column()).is_some();
    if source.components().iter().all(is_whole) {
        return Ok(frame.clone());
    }
    let mut out = FeatureFrame::new(frame.timestamps.clone(), frame.ids.clone())?;
    let is_part = |name: &str| name.starts_with("package_") && name != PowerComponent::Package.column();
    for name in frame.names().filter(|name| !is_part(name)) {
        out.set(name, frame.need(name)?.to_vec())?;
    }
    for component in source.components() {
        if let Some(watts) = frame.watts(*component) {
            out.set(&component.column(), watts)?;
        }
    }
    Ok(out)
}
