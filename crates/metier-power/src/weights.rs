//! Weights in the format of Kepler's interfaces: `{component: {"All_Weights": {…}}}`, read into
//! [`PowerFormula`]s and written back.
//!
//! The weights do not name a curve's form; the trainer's name does. A curve of four numbers is
//! always logistic.

use std::collections::BTreeMap;

use base64::Engine as _;
use metier_learn::boost::PackedTrees;
use metier_learn::xgboost::XgboostPredictor;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Error;
use crate::formula::{CurveForm, FeatureTrees, FormulaKind, PowerFormula};
use crate::kepler_terms::{PowerComponent, PowerTrainer, shorten};
use crate::trainers::{LearnedFormula, PowerPredictorFile};

/// Most features of a predictor.
pub const MAX_FEATURES: usize = 256;
/// Largest XGBoost file inside weights.
const XGBOOST_BYTES: usize = 64 << 20;

/// The weights of one component.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComponentWeights {
    #[serde(rename = "All_Weights")]
    pub all: AllWeights,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AllWeights {
    /// Idle watts of a linear predictor.
    #[serde(rename = "Bias_Weight", default, skip_serializing_if = "Option::is_none")]
    pub bias: Option<f64>,
    /// Weights by value of a system feature; empty in all published predictors.
    #[serde(rename = "Categorical_Variables", default)]
    pub categorical: Map<String, Value>,
    /// Weights of a curve.
    #[serde(rename = "CurveFit_Weights", default, skip_serializing_if = "Option::is_none")]
    pub curve: Option<Vec<f64>>,
    /// Features with their scale, and their weight in linear predictors.
    #[serde(rename = "Numerical_Variables", default)]
    pub numerical: BTreeMap<String, NumericalVariable>,
    /// XGBoost's JSON in base64.
    #[serde(rename = "XGboost_Weights", default, skip_serializing_if = "Option::is_none")]
    pub xgboost: Option<String>,
    /// metier's trees over features and ratios of two (`a/b`); only metier's estimator reads them.
    #[serde(rename = "Metier_Trees", default, skip_serializing_if = "Option::is_none")]
    pub trees: Option<PackedTrees>,
}

/// A feature of a predictor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NumericalVariable {
    /// Largest training value.
    pub scale: f64,
    /// Watts at the largest training value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
}

/// Weights of all components of a predictor.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KeplerWeights(pub BTreeMap<PowerComponent, ComponentWeights>);

impl KeplerWeights {
    /// Reads the components of an object; other fields (a name, a machine) are ignored.
    pub fn read(value: &Value) -> Result<Self, Error> {
        let Some(object) = value.as_object() else {
            return Err(Error::weights("body", "is no object; want one with a component such as platform"));
        };
        let mut weights = BTreeMap::new();
        for (name, inner) in object {
            let Some(component) = PowerComponent::named(name) else { continue };
            let inner = ComponentWeights::deserialize(inner)
                .map_err(|error| Error::weights(format!("{name}.All_Weights"), error.to_string()))?;
            if inner.all.numerical.is_empty() || inner.all.numerical.len() > MAX_FEATURES {
                let got = inner.all.numerical.len();
                return Err(Error::weights(
                    format!("{name}.All_Weights.Numerical_Variables"),
                    format!("has {got} features; want 1 to {MAX_FEATURES}"),
                ));
            }
            weights.insert(component, inner);
        }
        if weights.is_empty() {
            return Err(Error::weights(
                "body",
                "has no component; want platform, or package, core, uncore, dram",
            ));
        }
        Ok(Self(weights))
    }

    /// Features used by any component.
    pub fn features(&self) -> Vec<String> {
        let mut features: Vec<String> =
            self.0.values().flat_map(|weights| weights.all.numerical.keys().cloned()).collect();
        features.sort_unstable();
        features.dedup();
        features
    }

    /// Formula of each component, given the trainer's name.
    pub fn formulas(&self, trainer: &str) -> Result<Vec<(PowerComponent, PowerFormula)>, Error> {
        self.0
            .iter()
            .map(|(component, weights)| Ok((*component, formula(*component, weights, trainer)?)))
            .collect()
    }
}

fn formula(
    component: PowerComponent,
    weights: &ComponentWeights,
    trainer: &str,
) -> Result<PowerFormula, Error> {
    let all = &weights.all;
    let wrong = |field: &str, why: String| Err(Error::weights(format!("{}.{field}", component.name()), why));
    let features: Vec<String> = all.numerical.keys().cloned().collect();
    let scale: Vec<f64> = all.numerical.values().map(|variable| variable.scale).collect();
    if let Some((name, variable)) = all.numerical.iter().find(|(_, numerical_variable)| {
        !numerical_variable.scale.is_finite() || numerical_variable.scale < 0.0
    }) {
        return wrong(
            &format!("Numerical_Variables.{name}.scale"),
            format!("is {}; want 0 or more", variable.scale),
        );
    }
    let kind = if let Some(text) = &all.xgboost {
        if text.len() > XGBOOST_BYTES {
            return wrong("XGboost_Weights", format!("has more than {XGBOOST_BYTES} bytes"));
        }
        let bytes = match base64::engine::general_purpose::STANDARD.decode(text.trim()) {
            Ok(bytes) => bytes,
            Err(error) => return wrong("XGboost_Weights", format!("is no base64: {error}")),
        };
        let text = String::from_utf8_lossy(&bytes);
        FormulaKind::XGBoost(Box::new(XgboostPredictor::parse(&text)?))
    } else if let Some(trees) = &all.trees {
        match FeatureTrees::new(&trees.0, &features) {
            Ok(trees) => FormulaKind::Boosted(Box::new(trees)),
            Err(Some(name)) => {
                let why = format!("has {:?}; want features of {features:?}, or a/b of two", shorten(&name));
                return wrong("Metier_Trees.names", why);
            }
            Err(None) => {
                return wrong(
                    "Metier_Trees.trees",
                    "are too large, or use features missing in names".to_string(),
                );
            }
        }
    } else if let Some(curve) = &all.curve {
        let form = match curve.len() {
            4 => CurveForm::Logistic,
            3 if trainer == PowerTrainer::Exponential.name() => CurveForm::Exponential,
            3 if trainer == PowerTrainer::Logarithmic.name() => CurveForm::Logarithmic,
            count => {
                return wrong(
                    "CurveFit_Weights",
                    format!("has {count} numbers, for {trainer:?}; want 3 or 4"),
                );
            }
        };
        if curve.iter().any(|number| !number.is_finite()) {
            return wrong("CurveFit_Weights", "has a number without end".to_string());
        }
        FormulaKind::Curve { curve: form, weights: curve.clone() }
    } else if let Some(bias) = all.bias {
        let weights: Vec<f64> = all
            .numerical
            .values()
            .map(|numerical_variable| numerical_variable.weight.unwrap_or(0.0))
            .collect();
        if !bias.is_finite() || weights.iter().any(|weight| !weight.is_finite()) {
            return wrong("Bias_Weight", "or a weight is a number without end".to_string());
        }
        FormulaKind::Linear { bias, weights }
    } else {
        let why = "is missing; want one of Bias_Weight, CurveFit_Weights, XGboost_Weights".to_string();
        return wrong("All_Weights", why);
    };
    Ok(PowerFormula::new(component, features, scale, kind))
}

impl PowerPredictorFile {
    /// Weights in Kepler's format, for the trainers that support them: linear models, curves and
    /// XGBoost's trees.
    pub fn weights(&self) -> Option<KeplerWeights> {
        let mut out = BTreeMap::new();
        for (component, part) in &self.components {
            let mut all = AllWeights {
                bias: None,
                categorical: Map::new(),
                curve: None,
                numerical: BTreeMap::new(),
                xgboost: None,
                trees: None,
            };
            let mut weights = None;
            match &part.learned {
                LearnedFormula::Linear(line) => {
                    all.bias = Some(line.bias);
                    weights = Some(&line.weights);
                }
                LearnedFormula::Curve { weights, .. } => all.curve = Some(weights.clone()),
                LearnedFormula::Trees(trees) if self.trainer.starts_with("Xgboost") => {
                    let file: Value = trees.to_xgboost();
                    all.xgboost = Some(base64::engine::general_purpose::STANDARD.encode(file.to_string()));
                }
                _ => return None,
            }
            for (place, (name, scale)) in self.features.iter().zip(&self.scale).enumerate() {
                let weight = weights.and_then(|weights| weights.get(place).copied());
                all.numerical.insert(name.clone(), NumericalVariable { scale: *scale, weight });
            }
            out.insert(*component, ComponentWeights { all });
        }
        Some(KeplerWeights(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn linear() -> Value {
        json!({ "model_name": "SGDRegressorTrainer_0", "platform": { "All_Weights": {
            "Bias_Weight": 1.0, "Categorical_Variables": {}, "Numerical_Variables": { "a": { "scale": 2.0, "weight": 1.0 } }
        } } })
    }

    #[test]
    fn the_exporters_own_vectors_hold() {
        let weights = KeplerWeights::read(&linear()).unwrap();
        let formulas = weights.formulas("SGDRegressorTrainer").unwrap();
        let watts = |value: f64| formulas[0].1.watts(&[value]);
        // The exporter's vectors include a categorical weight of 1.
        assert_eq!([watts(2.0), watts(1.0), watts(0.0)], [Some(2.0), Some(1.5), Some(1.0)]);
    }

    #[test]
    fn weights_are_written_as_they_were_read() {
        let weights = KeplerWeights::read(&linear()).unwrap();
        let written = serde_json::to_value(&weights.0[&PowerComponent::Platform]).unwrap();
        assert_eq!(written, linear()["platform"]);
    }

    #[test]
    fn what_cannot_be_used_is_refused_by_its_field() {
        let with = |all: Value| json!({ "platform": { "All_Weights": all } });
        let variables = json!({ "a": { "scale": 1.0 } });
        for (body, word) in [
            (json!([1]), "body"),
            (json!({ "model_name": "x" }), "no component"),
            (with(json!({})), "Numerical_Variables"),
            (with(json!({ "Numerical_Variables": variables })), "All_Weights"),
            (with(json!({ "Numerical_Variables": { "a": { "scale": -1.0 } }, "Bias_Weight": 1.0 })), "scale"),
            (with(json!({ "Numerical_Variables": { "a": { "scale": "x" } } })), "All_Weights"),
            (
                with(json!({ "Numerical_Variables": variables, "CurveFit_Weights": [1.0] })),
                "CurveFit_Weights",
            ),
            (with(json!({ "Numerical_Variables": variables, "XGboost_Weights": "%" })), "XGboost_Weights"),
            (
                with(
                    json!({ "Numerical_Variables": variables, "Metier_Trees": { "names": ["a/b"], "start": 1.0, "count": 0, "trees": "" } }),
                ),
                "Metier_Trees.names",
            ),
            (
                with(
                    json!({ "Numerical_Variables": variables, "Metier_Trees": { "names": ["a"], "start": 1.0, "count": 1, "trees": "" } }),
                ),
                "trees",
            ),
        ] {
            let error = KeplerWeights::read(&body)
                .and_then(|weights| weights.formulas("SGDRegressorTrainer").map(drop));
            let error = error.unwrap_err().to_string();
            assert!(error.contains(word), "{body}: {error}");
        }
    }
}
