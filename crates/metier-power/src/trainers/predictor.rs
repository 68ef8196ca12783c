//! A predictor of power as a file: JSON that says what it was learned from, how wrong it is, and
//! everything that is needed to ask it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::held_out::HeldOut;
use super::{Learned, Settings};
use crate::Error;
use crate::vocabulary::Component;

/// What the first field of a file says.
pub const SCHEMA: &str = "metier.power-predictor/1";
/// Largest file that is read.
const BYTES: usize = 256 << 20;
/// Most features: some formulas look at every pair of two.
const FEATURES: usize = 1024;
/// How far beyond the largest value of training a feature may go before the answer is said to be
/// out of range.
pub const MARGIN: f64 = 1.05;

/// Watts with an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Watts {
    /// The value, never below 0.
    pub value: f64,
    pub low: f64,
    pub high: f64,
    /// Whether all features are within what was learned from.
    pub in_range: bool,
}

/// What was learned of one component.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    pub learned: Learned,
    /// How far an interval of 90 % reaches to either side, in the formula's own size of an error.
    pub reach: Option<f64>,
    pub held_out: HeldOut,
}

/// A predictor of power.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Predictor {
    schema: String,
    pub trainer: String,
    /// Names of the features, in the order of a row.
    pub features: Vec<String>,
    /// The largest value of each.
    pub scale: Vec<f64>,
    pub components: BTreeMap<Component, Part>,
}

impl Predictor {
    pub(super) fn new(settings: &Settings, scale: Vec<f64>) -> Self {
        Self {
            schema: SCHEMA.to_string(),
            trainer: settings.trainer.name().to_string(),
            features: settings.features.clone(),
            scale,
            components: BTreeMap::new(),
        }
    }

    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() > BYTES {
            return Err(Error::weights("file", format!("has more than {BYTES} bytes")));
        }
        let read: Self =
            serde_json::from_slice(bytes).map_err(|error| Error::weights("file", error.to_string()))?;
        if read.schema != SCHEMA {
            return Err(Error::weights("schema", format!("is {:?}; want {SCHEMA:?}", read.schema)));
        }
        if read.features.len() > FEATURES {
            let got = read.features.len();
            return Err(Error::weights("features", format!("has {got} names; want at most {FEATURES}")));
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
        // Maps with text keys and finite numbers: nothing here can fail to be written.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The watts of every component for a row of features; a component whose formula has no finite
    /// value there is left out.
    pub fn predict(&self, row: &[f64]) -> Result<Vec<(Component, Watts)>, Error> {
        if row.len() != self.features.len() || row.iter().any(|value| !value.is_finite()) {
            return Err(Error::table(format!(
                "a row of {} features; want {} finite ones: {}",
                row.len(),
                self.features.len(),
                self.features.join(", ")
            )));
        }
        let scaled: Vec<f64> = row.iter().zip(&self.scale).map(|(value, scale)| value / scale).collect();
        let in_range = scaled.iter().all(|value| (0.0..=MARGIN).contains(value));
        let one = |(component, part): (&Component, &Part)| {
            let (watts, scale) = part.learned.say(&scaled);
            let value = watts.is_finite().then_some(watts.max(0.0))?;
            // Without an interval that holds, everything between nothing and twice as much is said.
            let reach = part.reach.map_or(value.max(1.0), |reach| reach * scale.max(1e-9));
            let high = (value + reach).is_finite().then_some(value + reach)?;
            Some((*component, Watts { value, low: (value - reach).max(0.0), high, in_range }))
        };
        Ok(self.components.iter().filter_map(one).collect())
    }
}
