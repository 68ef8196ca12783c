//! Builds the archive of a predictor that was published or trained as weights only.
//!
//! It holds `metadata.json` and `weight.json` as in a predictor's folder, and XGBoost's own file of
//! each component for XGBoost weights. The original's archives hold pickles instead, which only
//! Python can write and which are unsafe to read.

use base64::Engine as _;
use serde_json::{Value, json};

use super::{PipelineModel, pack, predictor_metadata};
use crate::Error;
use crate::node::MachineSpec;

impl PipelineModel {
    /// The published archive, or one built from the weights, with the training machine.
    pub fn zip(&self, machine: Option<&MachineSpec>) -> Result<Vec<u8>, Error> {
        if let Some(archive) = &self.archive {
            return archive.bytes();
        }
        let Some(text) = &self.weights else {
            return Err(Error::weights(self.full_name.clone(), "has neither an archive nor weights"));
        };
        let mut files = vec![("metadata.json".to_string(), self.about(machine).to_string().into_bytes())];
        files.push(("weight.json".to_string(), text.as_bytes().to_vec()));
        let weights = self.weights_value().unwrap_or(Value::Null);
        for component in self.source.components() {
            let trees = weights[component.name()]["All_Weights"]["XGboost_Weights"].as_str();
            let trees = trees.and_then(|text| base64::engine::general_purpose::STANDARD.decode(text).ok());
            files.extend(trees.map(|trees| (format!("{}.json", component.name()), trees)));
        }
        pack(&files)
    }

    fn about(&self, machine: Option<&MachineSpec>) -> Value {
        let features = self.group.features();
        let mut about = predictor_metadata(&self.name, "weight.json", features, self.output_type, machine);
        about.extend(self.errors.iter().map(|(key, value)| (key.clone(), json!(value))));
        Value::Object(about)
    }
}
