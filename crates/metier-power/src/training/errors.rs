//! Recorded errors of the predictors in a folder.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::Error;
use crate::kepler_terms::{EnergySource, FeatureGroup, ModelName, OutputType};

#[derive(Debug, Clone, PartialEq)]
pub struct PredictorErrorRow {
    pub group: FeatureGroup,
    /// Trainer and node type.
    pub name: ModelName,
    /// Its `metadata.json`.
    pub metadata: Value,
}

impl PredictorErrorRow {
    /// The error of that name.
    pub fn error(&self, key: &str) -> Option<f64> {
        self.metadata[key].as_f64().filter(|value| value.is_finite() && *value >= 0.0)
    }
}

/// All predictors of a folder for a source and output type, by group and error.
pub fn errors_of(
    folder: &Path,
    source: EnergySource,
    output_type: OutputType,
) -> Result<Vec<PredictorErrorRow>, Error> {
    let mut rows = Vec::new();
    for group in FeatureGroup::ALL {
        let place = folder.join(source.name()).join(output_type.name()).join(group.name());
        let Ok(entries) = fs::read_dir(&place) else { continue };
        for entry in entries {
            let entry = entry.map_err(|error| Error::file(&place, error))?;
            let Some(name) = entry.file_name().to_str().and_then(ModelName::read) else { continue };
            let path = entry.path().join("metadata.json");
            let Ok(text) = fs::read(&path) else { continue };
            let metadata = serde_json::from_slice(&text).map_err(|error| Error::file(&path, error))?;
            rows.push(PredictorErrorRow { group, name, metadata });
        }
    }
    let mae = |row: &PredictorErrorRow| row.error("mae").unwrap_or(f64::MAX);
    rows.sort_by(|row, two| {
        let by_group = row.group.name().cmp(two.group.name());
        by_group.then(mae(row).total_cmp(&mae(two))).then(row.name.cmp(&two.name))
    });
    Ok(rows)
}
