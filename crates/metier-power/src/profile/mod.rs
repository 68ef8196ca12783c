//! Idle levels: the smallest and largest power of each component while nothing runs.
//!
//! [`IdleLevels::of`] is correct. [`IdleLevels::as_published`] reproduces the original, which
//! divides by time twice and counts `uncore` as a part of `core`.

mod idle;

pub use idle::{FeatureScaler, IdleProfile, SCHEMA};

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::Error;
use crate::extract::{self, ExtractSettings};
use crate::frame::{FeatureFrame, container_name};
use crate::kepler_terms::{EnergySource, FeatureGroup, PowerComponent};
use crate::response::KeplerResponse;

/// The idle level of a component.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IdleLevel {
    pub min_watt: f64,
    pub max_watt: f64,
    /// Number of averaged columns.
    pub units: u32,
}

/// The idle level of each component.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct IdleLevels(pub BTreeMap<PowerComponent, IdleLevel>);

impl IdleLevels {
    /// Levels from the watts of an idle machine.
    pub fn of(watts: &FeatureFrame, source: EnergySource) -> Result<Self, Error> {
        let mut profile = BTreeMap::new();
        for component in source.components() {
            let values = watts.need(&component.column())?;
            if let Some((min_watt, max_watt)) = range(values.iter().copied()) {
                profile.insert(*component, IdleLevel { min_watt, max_watt, units: 1 });
            }
        }
        Ok(Self(profile))
    }

    /// Levels as the original computes them from the same rows.
    pub fn as_published(watts: &FeatureFrame, source: EnergySource) -> Result<Self, Error> {
        let mut profile = BTreeMap::new();
        let step = match watts.timestamps[..] {
            [first, second, ..] if second > first => second - first,
            _ => 1.0,
        };
        for component in source.components() {
            let related: Vec<&[f64]> = source
                .components()
                .iter()
                .filter(|other| other.name().contains(component.name()))
                .map(|other| watts.need(&other.column()))
                .collect::<Result<_, _>>()?;
            let mean =
                |row: usize| related.iter().map(|values| values[row]).sum::<f64>() / related.len() as f64;
            if let Some((min, max)) = range((0..watts.len()).map(mean)) {
                let units = u32::try_from(related.len()).unwrap_or(u32::MAX);
                profile.insert(*component, IdleLevel { min_watt: min / step, max_watt: max / step, units });
            }
        }
        Ok(Self(profile))
    }

    /// JSON in the form of `profile/<source>.json`, for one node type.
    pub fn to_json(&self, node_type: u32) -> Value {
        let of = |level: &IdleLevel| json!({ "min_watt": level.min_watt, "max_watt": level.max_watt, "#unit": level.units });
        let components = self.0.iter().map(|(component, level)| {
            (component.name().to_string(), json!({ node_type.to_string(): of(level) }))
        });
        Value::Object(components.collect())
    }

    /// Merges the levels into an existing file: other node types stay. An invalid file is replaced.
    pub fn added_to(&self, before: &[u8], node_type: u32) -> Value {
        let before: Map<String, Value> = serde_json::from_slice(before).unwrap_or_default();
        let mut all: Map<String, Value> = before.into_iter().filter(|(_, of)| of.is_object()).collect();
        let key = node_type.to_string();
        // Components that the node type no longer has are removed.
        for levels in all.values_mut().filter_map(Value::as_object_mut) {
            levels.remove(&key);
        }
        let own = self.to_json(node_type);
        for (component, levels) in own.as_object().into_iter().flatten() {
            all.entry(component).or_insert_with(|| json!({}))[&key] = levels[&key].clone();
        }
        all.retain(|_, levels| levels.as_object().is_some_and(|levels| !levels.is_empty()));
        Value::Object(all)
    }
}

impl IdleLevels {
    /// Reads `profile/<source>.json`, for one node type.
    pub fn read(text: &[u8], node_type: u32) -> Result<Self, Error> {
        let wrong = |why: String| Error::table(format!("profile: {why}"));
        let object: BTreeMap<String, Value> =
            serde_json::from_slice(text).map_err(|error| wrong(error.to_string()))?;
        let mut levels = BTreeMap::new();
        for (name, by_type) in &object {
            let Some(component) = PowerComponent::named(name) else {
                return Err(wrong(format!("{name:?} is no component")));
            };
            let Some(level) = by_type.get(node_type.to_string()) else { continue };
            let number = |field: &str| {
                let value = level[field].as_f64().filter(|value| value.is_finite() && *value >= 0.0);
                value.ok_or_else(|| wrong(format!("{name}.{node_type}.{field} is no number of watts")))
            };
            let units =
                level.get("#unit").and_then(Value::as_u64).and_then(|units| u32::try_from(units).ok());
            let (min_watt, max_watt) = (number("min_watt")?, number("max_watt")?);
            levels.insert(component, IdleLevel { min_watt, max_watt, units: units.unwrap_or(1) });
        }
        Ok(Self(levels))
    }
}

fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |range, value| match range {
        None => Some((value, value)),
        Some((least, most)) => Some((f64::min(least, value), f64::max(most, value))),
    })
}

/// Watts of an idle machine, row by row, including rows without counted energy.
pub fn watts(idle: &KeplerResponse, source: EnergySource) -> Result<FeatureFrame, Error> {
    extract::node_watts(idle, source)
}

/// The names of the containers that run on an idle machine.
pub fn background(idle: &KeplerResponse) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for group in extract::groups(idle, false) {
        for source in extract::sources(idle) {
            let settings = ExtractSettings { by_container: true, ..ExtractSettings::new(source, group) };
            let Ok(extracted) = extract::extract(idle, &settings) else { continue };
            names.extend(extracted.frame.ids.iter().flatten().map(|id| container_name(id).to_string()));
        }
        if group == FeatureGroup::Basic {
            break;
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_machine_leaves_the_first_ones_profile() {
        let profile = |watts: f64| {
            let level = IdleLevel { min_watt: watts, max_watt: watts + 1.0, units: 1 };
            IdleLevels(BTreeMap::from([(PowerComponent::Platform, level)]))
        };
        let mut file = Vec::new();
        for (watts, node_type) in [(10.0, 0), (20.0, 1), (30.0, 0)] {
            file = profile(watts).added_to(&file, node_type).to_string().into_bytes();
        }
        assert_eq!(IdleLevels::read(&file, 0).unwrap(), profile(30.0));
        assert_eq!(IdleLevels::read(&file, 1).unwrap(), profile(20.0));
        assert_eq!(profile(1.0).added_to(b"[]", 2), profile(1.0).to_json(2));
    }
}
