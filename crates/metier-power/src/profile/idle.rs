//! The idle profile of a node: its power and features while no workload runs. It has the background
//! containers, the smallest and largest power of each component, and the scalers of each feature.
//!
//! One file holds all of it (`metier.power-profile/1`); `profile/<source>.json` of a pipeline is
//! the part that the original reads. Watts are watts here; the original divides them by time once
//! more.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{IdleLevel, IdleLevels};
use crate::Error;
use crate::extract::{self, ExtractSettings};
use crate::kepler_terms::{EnergySource, PowerComponent};
use crate::node::MachineSpec;
use crate::response::KeplerResponse;

/// Value of the file's first field.
pub const SCHEMA: &str = "metier.power-profile/1";

/// Range and deviation of a feature on the idle machine, in units per second: `min` and `max` scale
/// it to 0…1, mean and deviation standardise it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FeatureScaler {
    pub min: f64,
    pub max: f64,
    pub mean: f64,
    pub deviation: f64,
}

impl FeatureScaler {
    fn of(values: &[f64]) -> Option<Self> {
        let (min, max) = super::range(values.iter().copied())?;
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let deviation = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
        Some(Self { min, max, mean, deviation })
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct IdleProfile {
    pub levels: BTreeMap<EnergySource, IdleLevels>,
    /// Names of the background containers.
    pub background: BTreeSet<String>,
    /// Features summed over all containers, by name.
    pub scalers: BTreeMap<String, FeatureScaler>,
    pub rows: usize,
    /// Time from the first to the last sample, in seconds.
    pub seconds: f64,
}

/// The file format.
#[derive(Serialize, Deserialize)]
struct IdleProfileFile {
    schema: String,
    node_type: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    machine_spec: Option<MachineSpec>,
    rows: usize,
    seconds: f64,
    sources: BTreeMap<String, BTreeMap<PowerComponent, WattsRange>>,
    features: BTreeMap<String, FeatureScaler>,
    background: BTreeSet<String>,
}

#[derive(Serialize, Deserialize)]
struct WattsRange {
    min_watt: f64,
    max_watt: f64,
    #[serde(rename = "#unit", default = "default_units")]
    units: u32,
}

const fn default_units() -> u32 {
    1
}

impl IdleProfile {
    /// Builds a profile from a Prometheus response of the idle machine.
    pub fn of(response: &KeplerResponse) -> Result<Self, Error> {
        let sources = extract::sources(response);
        if sources.is_empty() {
            return Err(Error::table(
                "no energy source: the response has no kepler_node_…_joules_total with more than one sample",
            ));
        }
        let mut idle = Self { background: super::background(response), ..Self::default() };
        for source in sources {
            let all = super::watts(response, source)?;
            // A row without counted energy means that the meter was not read, not that power was 0.
            let counted = |row: &usize| {
                source
                    .components()
                    .iter()
                    .any(|component| all.column(&component.column()).is_some_and(|watts| watts[*row] > 0.0))
            };
            let rows: Vec<usize> = (0..all.len()).filter(counted).collect();
            let watts = all.select(&rows);
            if let (Some(first), Some(last)) = (watts.timestamps.first(), watts.timestamps.last()) {
                idle.rows = idle.rows.max(watts.len());
                idle.seconds = idle.seconds.max(last - first);
            }
            idle.levels.insert(source, IdleLevels::of(&watts, source)?);
            for group in extract::groups(response, false) {
                let Ok(extracted) = extract::extract(response, &ExtractSettings::new(source, group)) else {
                    continue;
                };
                for name in group.features() {
                    if let Some(scaler) = extracted.frame.column(name).and_then(FeatureScaler::of) {
                        idle.scalers.insert((*name).to_string(), scaler);
                    }
                }
            }
        }
        Ok(idle)
    }

    /// Reads a profile, or builds one from a response.
    pub fn read(text: &[u8]) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct SchemaProbe {
            schema: Option<Value>,
        }
        let is_profile =
            serde_json::from_slice::<SchemaProbe>(text).is_ok_and(|sniff| sniff.schema.is_some());
        if !is_profile {
            return Self::of(&KeplerResponse::read(text)?);
        }
        let wrong = |why: String| Error::table(format!("profile: {why}"));
        let file: IdleProfileFile = serde_json::from_slice(text).map_err(|error| wrong(error.to_string()))?;
        if file.schema != SCHEMA {
            return Err(wrong(format!("schema is {:?}; want {SCHEMA:?}", file.schema)));
        }
        let mut idle = Self {
            background: file.background,
            scalers: file.features,
            rows: file.rows,
            seconds: file.seconds,
            ..Self::default()
        };
        for (name, levels) in file.sources {
            let source = EnergySource::named(&name).ok_or_else(|| wrong(format!("sources has {name:?}")))?;
            let level = |watts: WattsRange| IdleLevel {
                min_watt: watts.min_watt,
                max_watt: watts.max_watt,
                units: watts.units,
            };
            let levels = levels.into_iter().map(|(component, watts)| (component, level(watts)));
            idle.levels.insert(source, IdleLevels(levels.collect()));
        }
        Ok(idle)
    }

    pub fn to_json(&self, node_type: u32, machine_spec: Option<MachineSpec>) -> Result<Value, Error> {
        let watts = |level: &IdleLevel| WattsRange {
            min_watt: level.min_watt,
            max_watt: level.max_watt,
            units: level.units,
        };
        let of = |profile: &IdleLevels| {
            profile.0.iter().map(|(component, level)| (*component, watts(level))).collect()
        };
        let file = IdleProfileFile {
            schema: SCHEMA.to_string(),
            node_type,
            machine_spec,
            rows: self.rows,
            seconds: self.seconds,
            sources: self
                .levels
                .iter()
                .map(|(source, profile)| (source.name().to_string(), of(profile)))
                .collect(),
            features: self.scalers.clone(),
            background: self.background.clone(),
        };
        serde_json::to_value(file).map_err(|error| Error::table(error.to_string()))
    }
}
