//! Predicted values; each must have a prediction interval.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{RecordSchema, VersionedRecord};
use crate::{ContentDigest, ExtraFields, Ratio};

/// Why a prediction is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PredictionError {
    /// The interval does not contain the value, or has bounds that are not numbers.
    #[error("the interval {low} to {high} does not hold the value {value}")]
    Interval {
        /// Predicted value.
        value: f64,
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
    },
    /// Coverage must lie between 0 and 1, both excluded.
    #[error("a coverage of {0} is not between 0 and 1")]
    Coverage(f64),
}

/// A range that contains the true value with a stated probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PredictionInterval {
    low: f64,
    high: f64,
    coverage: f64,
}

impl PredictionInterval {
    /// Makes an interval; its coverage must lie between 0 and 1.
    pub fn new(low: f64, high: f64, coverage: Ratio) -> Result<Self, PredictionError> {
        let coverage = coverage.get();
        if !(coverage > 0.0 && coverage < 1.0) {
            return Err(PredictionError::Coverage(coverage));
        }
        if !(low.is_finite() && high.is_finite() && low <= high) {
            return Err(PredictionError::Interval { value: f64::NAN, low, high });
        }
        Ok(Self { low, high, coverage })
    }

    /// Lower end.
    pub const fn low(&self) -> f64 {
        self.low
    }

    /// Upper end.
    pub const fn high(&self) -> f64 {
        self.high
    }

    /// Nominal coverage: the intended share of true values inside the interval.
    pub const fn coverage(&self) -> Ratio {
        Ratio(self.coverage)
    }
}

/// A predicted value with its interval, predictor and reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "UncheckedPrediction")]
pub struct Prediction {
    schema: RecordSchema<Prediction>,
    value: f64,
    unit: String,
    low: f64,
    high: f64,
    coverage: f64,
    predictor: ContentDigest,
    in_range: bool,
    because: String,
    #[serde(flatten)]
    extra: ExtraFields,
}

/// The JSON form before validation.
#[derive(Deserialize, JsonSchema)]
#[schemars(title = "Prediction")]
struct UncheckedPrediction {
    #[serde(rename = "schema")]
    _schema: RecordSchema<Prediction>,
    value: f64,
    unit: String,
    low: f64,
    high: f64,
    coverage: f64,
    predictor: ContentDigest,
    in_range: bool,
    because: String,
    #[serde(flatten)]
    extra: ExtraFields,
}

impl TryFrom<UncheckedPrediction> for Prediction {
    type Error = PredictionError;
    fn try_from(p: UncheckedPrediction) -> Result<Self, PredictionError> {
        let interval = PredictionInterval::new(p.low, p.high, Ratio(p.coverage))?;
        let mut prediction = Self::new(p.value, p.unit, interval, p.predictor, p.in_range, p.because)?;
        prediction.extra = p.extra;
        Ok(prediction)
    }
}

impl VersionedRecord for Prediction {
    const SCHEMA: &'static str = "metier.prediction/1";
}

impl Prediction {
    /// Makes a prediction; the interval must contain the value.
    pub fn new(
        value: f64,
        unit: impl Into<String>,
        interval: PredictionInterval,
        predictor: ContentDigest,
        in_range: bool,
        because: impl Into<String>,
    ) -> Result<Self, PredictionError> {
        let PredictionInterval { low, high, coverage } = interval;
        if !(low <= value && value <= high) {
            return Err(PredictionError::Interval { value, low, high });
        }
        Ok(Self {
            schema: RecordSchema::new(),
            value,
            unit: unit.into(),
            low,
            high,
            coverage,
            predictor,
            in_range,
            because: because.into(),
            extra: ExtraFields::new(),
        })
    }

    /// The value.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// Unit of the value and the interval.
    pub fn unit(&self) -> &str {
        &self.unit
    }

    /// The interval.
    pub fn interval(&self) -> PredictionInterval {
        PredictionInterval { low: self.low, high: self.high, coverage: self.coverage }
    }

    /// Whether the query lies within the training range of the predictor.
    pub fn in_range(&self) -> bool {
        self.in_range
    }

    /// The predictor that made it.
    pub fn predictor(&self) -> ContentDigest {
        self.predictor
    }

    /// The reason, in a sentence.
    pub fn reason(&self) -> &str {
        &self.because
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predictor() -> ContentDigest {
        ContentDigest::from_bytes([7; 32])
    }

    #[test]
    fn a_value_outside_its_interval_is_refused() {
        let interval = PredictionInterval::new(1.0, 2.0, Ratio(0.9)).unwrap();
        assert!(Prediction::new(1.5, "seconds", interval, predictor(), true, "x").is_ok());
        for value in [0.9, 2.1, f64::NAN] {
            assert!(Prediction::new(value, "seconds", interval, predictor(), true, "x").is_err());
        }
    }

    #[test]
    fn intervals_that_say_nothing_are_refused() {
        assert!(PredictionInterval::new(2.0, 1.0, Ratio(0.9)).is_err());
        assert!(PredictionInterval::new(f64::NAN, 1.0, Ratio(0.9)).is_err());
        for coverage in [0.0, 1.0, 90.0, f64::NAN] {
            assert!(PredictionInterval::new(0.0, 1.0, Ratio(coverage)).is_err());
        }
    }

    #[test]
    fn json_is_checked_like_any_other_way_in() {
        let interval = PredictionInterval::new(1.0, 2.0, Ratio(0.9)).unwrap();
        let prediction = Prediction::new(1.5, "seconds", interval, predictor(), true, "x").unwrap();
        let mut json = serde_json::to_value(&prediction).unwrap();
        assert_eq!(serde_json::from_value::<Prediction>(json.clone()).unwrap(), prediction);
        json["high"] = 1.2.into();
        let error = serde_json::from_value::<Prediction>(json).unwrap_err().to_string();
        assert!(error.contains("does not hold"), "{error}");
    }
}
