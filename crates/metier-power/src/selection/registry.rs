//! All loaded pipelines, and the active pipeline of each source.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::ModelRequest;
use crate::Error;
use crate::kepler_terms::{EnergySource, PowerTrainer};
use crate::pipeline::{PipelineModel, PredictorPipeline, load};

const MAX_PIPELINES: usize = 1000;

#[derive(Debug, Default)]
pub struct LoadedPipelines {
    pub registry: PipelineRegistry,
    /// Messages about pipelines that could not be used.
    pub warnings: Vec<String>,
}

/// All pipelines. The last added pipeline with predictors for a source is active for it.
#[derive(Debug, Clone, Default)]
pub struct PipelineRegistry {
    /// By name, in the order in which they were added.
    pub pipelines: Vec<Arc<PredictorPipeline>>,
    active: BTreeMap<EnergySource, usize>,
    /// Index of the shipped pipeline.
    shipped: Option<usize>,
    /// Pipelines placed by the user as a whole: neither shipped nor assembled from single
    /// predictors.
    placed: BTreeSet<usize>,
}

impl PipelineRegistry {
    /// Loads pipelines: each path is a folder or zip of a pipeline, or a folder of several.
    /// Unreadable pipelines are skipped with a warning.
    pub fn load(paths: &[PathBuf]) -> LoadedPipelines {
        let mut loaded = LoadedPipelines::default();
        for path in paths {
            let candidates = match candidates(path) {
                Ok(candidates) => candidates,
                Err(error) => {
                    loaded.warnings.push(error.to_string());
                    continue;
                }
            };
            for candidate in candidates {
                match load(&candidate) {
                    Ok(pipeline) => {
                        let of = |warning: &String| format!("{}: {warning}", candidate.display());
                        loaded.warnings.extend(pipeline.warnings.iter().map(of));
                        loaded.registry.add(pipeline);
                    }
                    Err(error) => loaded.warnings.push(error.to_string()),
                }
            }
        }
        loaded
    }

    /// Adds the shipped pipeline. It answers only requests that no placed pipeline covers.
    pub fn add_shipped(&mut self, pipeline: PredictorPipeline) {
        self.shipped = self.put(pipeline);
    }

    /// Adds a pipeline; it replaces one of the same name.
    pub fn add(&mut self, pipeline: PredictorPipeline) {
        let at = self.put(pipeline);
        self.placed.extend(at);
    }

    fn put(&mut self, pipeline: PredictorPipeline) -> Option<usize> {
        let sources = pipeline.sources();
        let at = match self.pipelines.iter().position(|known| known.name == pipeline.name) {
            Some(at) => {
                self.active.retain(|_, active| *active != at);
                self.pipelines[at] = Arc::new(pipeline);
                at
            }
            None if self.pipelines.len() >= MAX_PIPELINES => return None,
            None => {
                self.pipelines.push(Arc::new(pipeline));
                self.pipelines.len() - 1
            }
        };
        for source in sources {
            self.active.insert(source, at);
        }
        Some(at)
    }

    /// Merges predictors into the pipeline of that name, if there is one. Predictors of the same
    /// name are replaced, others stay. Existing node types are unchanged.
    pub fn merge(&mut self, mut pipeline: PredictorPipeline) {
        if let Some(known) = self.named(&pipeline.name) {
            pipeline.is_promoted |= known.is_promoted;
            let place = |model: &PipelineModel| {
                (model.source, model.output_type, model.group, model.full_name.clone())
            };
            let new: BTreeSet<_> = pipeline.models.iter().map(place).collect();
            let stay = known.models.iter().filter(|model| !new.contains(&place(model)));
            pipeline.models.extend(stay.cloned());
            pipeline.models.sort_by_key(place);
            if let Some(index) = &known.index {
                let all = pipeline.index.get_or_insert_default();
                all.0.extend(index.0.iter().map(|(number, entry)| (*number, entry.clone())));
            }
        }
        self.put(pipeline);
    }

    /// Whether the user placed the pipeline of that name as a whole.
    pub fn is_placed(&self, name: &str) -> bool {
        self.placed.iter().any(|at| self.pipelines[*at].name == name)
    }

    /// Further pipelines to search, the last added first. If a placed pipeline covers the kind of
    /// request, the shipped pipeline is excluded, since its predictors are of other machines. A
    /// client can retry another kind after the refusal, as with the original.
    pub fn fallback_pipelines(
        &self,
        request: &ModelRequest,
    ) -> impl Iterator<Item = &Arc<PredictorPipeline>> {
        let without = self.shipped.filter(|_| self.is_covered(request));
        self.pipelines
            .iter()
            .enumerate()
            .rev()
            .filter(move |(at, _)| Some(*at) != without)
            .map(|(_, pipeline)| pipeline)
    }

    /// Whether placed pipelines have predictors for the request: of its source, output type and
    /// metrics, and with weights if requested.
    fn is_covered(&self, request: &ModelRequest) -> bool {
        let placed = || self.placed.iter().flat_map(|at| &self.pipelines[*at].models);
        let is_of = |model: &PipelineModel| {
            model.source == request.source && model.output_type == request.output_type
        };
        let gives = |model: &PipelineModel| {
            let is_given = |trainer: PowerTrainer| trainer.has_weights() || trainer == PowerTrainer::Linear;
            model.weights.is_some() && PowerTrainer::named(&model.name.trainer).is_some_and(is_given)
        };
        placed().any(|model| is_of(model) && model.group.is_within(&request.metrics))
            && (!request.weight || placed().any(|model| is_of(model) && gives(model)))
    }

    /// The active pipeline of a source.
    pub fn active(&self, source: EnergySource) -> Option<&Arc<PredictorPipeline>> {
        self.pipelines.get(*self.active.get(&source)?)
    }

    /// The pipeline of that name.
    pub fn named(&self, name: &str) -> Option<&Arc<PredictorPipeline>> {
        self.pipelines.iter().find(|pipeline| pipeline.name == name)
    }
}

/// The pipelines at a path: the path itself, or its entries by name.
pub(crate) fn candidates(path: &Path) -> Result<Vec<PathBuf>, Error> {
    if !path.is_dir() || path.join("metadata.json").is_file() {
        return Ok(vec![path.to_path_buf()]);
    }
    let entries = std::fs::read_dir(path).map_err(|error| Error::file(path, error))?;
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.retain(|path| {
        path.join("metadata.json").is_file() || path.extension().is_some_and(|extension| extension == "zip")
    });
    found.sort_unstable();
    // A folder and a zip with the same name are the same pipeline; the folder is newer, since
    // changes go there.
    let folders: Vec<PathBuf> = found.iter().filter(|path| path.is_dir()).cloned().collect();
    found.retain(|path| path.is_dir() || !folders.iter().any(|folder| *folder == path.with_extension("")));
    found.truncate(MAX_PIPELINES);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kepler_terms::{FeatureGroup, ModelName, OutputType};
    use crate::selection;

    /// The shipped pipeline, and a placed pipeline with these predictors for RAPL.
    fn registry(placed: &[(&str, OutputType)]) -> PipelineRegistry {
        let model = |(name, output_type): &(&str, OutputType)| PipelineModel {
            name: ModelName::read(name).unwrap(),
            full_name: name.to_string(),
            source: EnergySource::RaplSysfs,
            output_type: *output_type,
            group: FeatureGroup::BpfOnly,
            errors: vec![("mae".to_string(), 0.1)],
            weights: Some("{}".into()),
            archive: None,
            scale: None,
            predictor: None,
        };
        let mut registry = PipelineRegistry::default();
        registry.add_shipped(crate::defaults::shipped().unwrap().pipeline.clone());
        let models = placed.iter().map(model).collect();
        registry.add(PredictorPipeline { name: "placed".into(), models, ..PredictorPipeline::default() });
        registry
    }

    /// The pipeline that answers; the exporter requests weights of the first trainer.
    fn answers(
        registry: &PipelineRegistry,
        output_type: &str,
        weight: bool,
        trainer: &str,
    ) -> Option<String> {
        let body = json!({ "metrics": FeatureGroup::BpfOnly.features(), "output_type": output_type, "source": "rapl-sysfs",
            "weight": weight, "trainer_name": trainer });
        let chosen =
            selection::select(registry, &ModelRequest::read(&body).unwrap(), "mae", &|_| true).unwrap()?;
        Some(chosen.pipeline.name.clone())
    }

    #[test]
    fn placed_absolute_power_leaves_dynamic_power_to_what_is_shipped() {
        let registry = registry(&[("SGDRegressorTrainer_0", OutputType::AbsPower)]);
        let ask = |output_type| answers(&registry, output_type, true, "SGDRegressorTrainer");
        assert_eq!(ask("AbsPower").as_deref(), Some("placed"));
        assert_eq!(ask("DynPower").as_deref(), Some("metier-defaults"));
        // A placed pipeline covers the kind; missing trainers are refused.
        assert_eq!(answers(&registry, "AbsPower", true, "ExponentialRegressionTrainer"), None);
    }

    #[test]
    fn placed_trees_leave_the_exporters_weights_to_what_is_shipped() {
        let registry = registry(&[("XgboostFitTrainer_0", OutputType::AbsPower)]);
        let sgd = "SGDRegressorTrainer";
        assert_eq!(answers(&registry, "AbsPower", true, sgd).as_deref(), Some("metier-defaults"));
        assert_eq!(answers(&registry, "AbsPower", false, "").as_deref(), Some("placed"));
        assert_eq!(answers(&registry, "AbsPower", false, sgd), None, "archives are there, and none of it");
    }
}
