//! One predictor of a pipeline: its properties that are known without opening its archive.

use metier_learn::xgboost::XgboostPredictor;
use serde_json::Value;

use super::files::{self, PipelineFiles};
use crate::Error;
use crate::formula::{FormulaKind, FormulaSpread, PowerFormula};
use crate::kepler_terms::{EnergySource, FeatureGroup, ModelName, OutputType, PowerComponent};
use crate::trainers::PowerPredictorFile;
use crate::weights::KeplerWeights;

/// Location of an archive.
#[derive(Debug, Clone)]
pub struct ModelArchive {
    pub files: PipelineFiles,
    /// File name inside it.
    pub name: String,
}

impl ModelArchive {
    pub fn bytes(&self) -> Result<Vec<u8>, Error> {
        self.files.read(&self.name)
    }
}

/// A predictor ("model" is what Kepler calls it).
#[derive(Debug, Clone)]
pub struct PipelineModel {
    /// Trainer and node type.
    pub name: ModelName,
    /// Trainer and node type in one word, as clients write it.
    pub full_name: String,
    /// Source of the training energy.
    pub source: EnergySource,
    /// Whether idle power is included.
    pub output_type: OutputType,
    /// Its feature group.
    pub group: FeatureGroup,
    /// Errors (`mae`, `mape`, `package_mae`, …) as its trainer recorded them.
    pub errors: Vec<(String, f64)>,
    /// Weights as JSON text, if available.
    pub weights: Option<Box<str>>,
    /// Its archive, if available.
    pub archive: Option<ModelArchive>,
    /// Largest training value of each feature, if a sibling's weights give it.
    pub scale: Option<Vec<f64>>,
    /// Its `predictor.json`, if a metier trainer made it.
    pub predictor: Option<ModelArchive>,
}

impl PipelineModel {
    /// The error of that name.
    pub fn error(&self, key: &str) -> Option<f64> {
        self.errors.iter().find(|(name, _)| name == key).map(|(_, value)| *value)
    }

    /// Weights as JSON, if they can be sent to the exporter.
    pub fn weights_value(&self) -> Option<Value> {
        serde_json::from_str(self.weights.as_deref()?).ok()
    }

    /// Whether metier can evaluate it: it has weights or a `predictor.json`, or is XGBoost's with a
    /// known scale.
    pub fn is_usable(&self) -> bool {
        self.weights.is_some()
            || self.predictor.is_some()
            || (self.name.trainer == "XgboostFitTrainer" && self.archive.is_some() && self.scale.is_some())
    }

    /// Adds intervals: weights have none, the `predictor.json` beside them does. If that file
    /// cannot be read, the weights are used without intervals.
    fn spread(&self, formulas: &mut [(PowerComponent, PowerFormula)]) {
        let file =
            self.predictor.as_ref().and_then(|file| PowerPredictorFile::read(&file.bytes().ok()?).ok());
        let Some(file) = file else { return };
        for (component, formula) in formulas {
            let reach = file.components.get(component).and_then(|part| part.reach);
            formula.spread = reach.map(FormulaSpread::Reach);
        }
    }

    /// The formula of each component.
    pub fn formulas(&self) -> Result<Vec<(PowerComponent, PowerFormula)>, Error> {
        if let Some(value) = self.weights_value() {
            let mut formulas = KeplerWeights::read(&value)?.formulas(&self.name.trainer)?;
            self.spread(&mut formulas);
            return Ok(formulas);
        }
        if let Some(file) = &self.predictor {
            return Ok(PowerPredictorFile::read(&file.bytes()?)?.formulas());
        }
        let (Some(archive), Some(scale)) =
            (self.archive.as_ref().filter(|_| self.name.trainer == "XgboostFitTrainer"), self.scale.as_ref())
        else {
            let why = "has neither weights nor XGBoost's files nor ours; it is a pickle that only its maker can load";
            return Err(Error::weights(self.full_name.clone(), why));
        };
        let bytes = archive.bytes()?;
        let features: Vec<String> = self.group.features().iter().map(ToString::to_string).collect();
        let mut formulas = Vec::new();
        for component in self.source.components() {
            let file = format!("{}.json", component.name());
            // Archives hold their files at the top level, or in a folder with the predictor's name.
            let text = files::read_zip_member(&bytes, &file)
                .or_else(|| files::read_zip_member(&bytes, &format!("{}/{file}", self.full_name)))
                .ok_or_else(|| {
                    Error::weights(self.full_name.clone(), format!("has no {file} in its archive"))
                })?;
            let trees = XgboostPredictor::parse(&String::from_utf8_lossy(&text))?;
            let kind = FormulaKind::XGBoost(Box::new(trees));
            formulas.push((*component, PowerFormula::new(*component, features.clone(), scale.clone(), kind)));
        }
        Ok(formulas)
    }
}
