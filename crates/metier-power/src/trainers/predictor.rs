//! The file format of a power predictor: JSON with its training data's properties, its errors and
//! its parameters.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::held_out::ComponentHeldOut;
use super::{LearnedFormula, TrainerSettings};
use crate::Error;
use crate::kepler_terms::PowerComponent;

/// Value of the file's first field.
pub const SCHEMA: &str = "metier.power-predictor/1";
/// Largest file that is read.
const MAX_PREDICTOR_BYTES: usize = 256 << 20;
/// Largest number of features; some formulas use all pairs.
const MAX_FEATURES: usize = 1024;
/// Features beyond this multiple of the largest training value are reported as out of range.
pub const RANGE_MARGIN: f64 = 1.05;

/// Watts with an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PredictedWatts {
    /// The value, never below 0.
    pub value: f64,
    pub low: f64,
    pub high: f64,
    /// Whether all features are within the range of the training data.
    pub in_range: bool,
}

/// The predictor of one component.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComponentPredictor {
    pub learned: LearnedFormula,
    /// Interval factor: half width of the 90 % interval in units of the predicted error size.
    pub reach: Option<f64>,
    pub held_out: ComponentHeldOut,
}

/// A predictor of power.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PowerPredictorFile {
    schema: String,
    pub trainer: String,
    /// Feature names in the order of a row.
    pub features: Vec<String>,
    /// Largest training value of each feature.
    pub scale: Vec<f64>,
    pub components: BTreeMap<PowerComponent, ComponentPredictor>,
}

impl PowerPredictorFile {
    pub(super) fn new(settings: &TrainerSettings, scale: Vec<f64>) -> Self {
        Self {
            schema: SCHEMA.to_string(),
            trainer: settings.trainer.name().to_string(),
            features: settings.features.clone(),
            scale,
            components: BTreeMap::new(),
        }
    }

    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() > MAX_PREDICTOR_BYTES {
            return Err(Error::weights("file", format!("has more than {MAX_PREDICTOR_BYTES} bytes")));
        }
        let read: Self =
            serde_json::from_slice(bytes).map_err(|error| Error::weights("file", error.to_string()))?;
        if read.schema != SCHEMA {
            return Err(Error::weights("schema", format!("is {:?}; want {SCHEMA:?}", read.schema)));
        }
        if read.features.len() > MAX_FEATURES {
            let got = read.features.len();
            return Err(Error::weights("features", format!("has {got} names; want at most {MAX_FEATURES}")));
        }
        if read.scale.len() != read.features.len()
            || read.scale.iter().any(|scale| *scale <= 0.0 || !scale.is_finite())
        {
            return Err(Error::weights("scale", "does not have a number above 0 for each feature"));
        }
        if let Some((component, reach)) = read.components.iter().find_map(|(component, part)| {
            part.reach.filter(|reach| *reach < 0.0).map(|reach| (component, reach))
        }) {
            let why = format!("is {reach}; want 0 or more");
            return Err(Error::weights(format!("components.{}.reach", component.name()), why));
        }
        Ok(read)
    }

    pub fn bytes(&self) -> Vec<u8> {
        // Maps with string keys and finite numbers always serialise.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Watts of every component for a row of features. Components without a finite value are left
    /// out.
    pub fn predict(&self, row: &[f64]) -> Result<Vec<(PowerComponent, PredictedWatts)>, Error> {
        if row.len() != self.features.len() || row.iter().any(|value| !value.is_finite()) {
            return Err(Error::table(format!(
                "a row of {} features; want {} finite ones: {}",
                row.len(),
                self.features.len(),
                self.features.join(", ")
            )));
        }
        let scaled: Vec<f64> = row.iter().zip(&self.scale).map(|(value, scale)| value / scale).collect();
        let in_range = scaled.iter().all(|value| (0.0..=RANGE_MARGIN).contains(value));
        let predict_component = |(component, part): (&PowerComponent, &ComponentPredictor)| {
            let (watts, scale) = part.learned.watts_with_error(&scaled);
            let value = watts.is_finite().then_some(watts.max(0.0))?;
            // Without a calibrated interval, the interval is from 0 to twice the value.
            let reach = part.reach.map_or(value.max(1.0), |reach| reach * scale.max(1e-9));
            let high = (value + reach).is_finite().then_some(value + reach)?;
            Some((*component, PredictedWatts { value, low: (value - reach).max(0.0), high, in_range }))
        };
        Ok(self.components.iter().filter_map(predict_component).collect())
    }
}
