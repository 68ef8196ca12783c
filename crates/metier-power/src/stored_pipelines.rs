//! Pipelines as predictors of the store: the lifecycle kind `power`. Kepler's folders and zips are
//! its import and export format.
//!
//! A predictor's file is the zip of its pipeline. Its record has the error of the best predictor of
//! each source, output type and component. Predictors in use answer in `metier up`
//! ([`write_in_use`]); an estimator without a store reads folders and zips. Reads and writes only
//! the store and the given folders.

use std::fs;
use std::path::{Component as PathPart, Path};

use metier_predict::lifecycle::standing::{install, install_imported, set_standing};
use metier_predict::lifecycle::{self, PredictorFileScope, PredictorKind, PredictorScope};
use metier_store::{RecordStore, digest};
use metier_types::schema::RecordSchema;
use metier_types::{
    ContentDigest, DeviceId, DeviceRef, ExtraFields, HeldOutError, Predictor, PredictorStanding, Ratio,
    UtcTimestamp,
};
use serde_json::json;

use crate::Error;
use crate::kepler_terms::{EnergySource, OutputType};
use crate::pipeline::{PipelineFiles, PipelineModel, PredictorPipeline, load_bytes, pack, replace};
use crate::trainers;

/// The record's `kind`.
pub const KIND: &str = "power";
/// The record field with the pipeline's name.
const PIPELINE: &str = "pipeline";
/// The training tables in a pipeline's folder; they are not stored.
const TABLES: &str = "preprocessed_data/";

/// The lifecycle kind of power pipelines.
#[derive(Debug, Clone, Copy)]
pub struct PowerKind;

impl PredictorKind for PowerKind {
    fn name(&self) -> &'static str {
        KIND
    }

    fn variant_field(&self) -> &'static str {
        PIPELINE
    }

    fn baselines(&self) -> &'static [&'static str] {
        &[]
    }

    fn check(
        &self,
        id: &ContentDigest,
        file: &[u8],
    ) -> Result<PredictorFileScope, lifecycle::LifecycleError> {
        let pipeline = load_bytes(file.into(), Path::new(KIND));
        let pipeline = pipeline.map_err(|error| lifecycle::LifecycleError::unusable(id, error))?;
        Ok(PredictorFileScope { device: None, variant: pipeline.name })
    }
}

/// Records pipelines trained on this device in a store.
#[derive(Debug, Clone)]
pub struct TrainedPipelineRecorder {
    pub store: RecordStore,
    pub device: DeviceRef,
}

impl TrainedPipelineRecorder {
    /// Records a pipeline that was trained on demand. It answers only when named explicitly. Errors
    /// are logged.
    pub fn record_aside(&self, folder: &Path) {
        let because = "it was learned on demand; `metier predictors use` lets it answer";
        self.record_logged(folder, PredictorStanding::Passed, because);
    }

    /// Records the online trainer's pipeline, unless it is recorded already.
    pub fn record_promoted(&self, folder: &Path) {
        if folder.join("metadata.json").is_file() {
            self.record_logged(folder, PredictorStanding::InUse, "the online trainer promoted it");
        }
    }

    fn record_logged(&self, folder: &Path, standing: PredictorStanding, because: &str) {
        if let Err(error) = self.record(folder, standing, because) {
            tracing::warn!(%error, folder = %folder.display(), "a pipeline is not listed among the predictors");
        }
    }

    /// Records the pipeline of a folder. A pipeline in use supersedes the one of its name; the
    /// oldest unused ones are removed.
    pub fn record(
        &self,
        folder: &Path,
        standing: PredictorStanding,
        because: &str,
    ) -> Result<Predictor, Error> {
        let zip = pack_folder(folder)?;
        let id = digest::digest_bytes(&zip);
        if let Some(known) = self.store.predictor(&id).map_err(lifecycle::LifecycleError::from)? {
            return Ok(known);
        }
        let pipeline = load_bytes(zip.clone().into(), folder)?;
        let mut record = record_of(&pipeline, id, "learned");
        record.device = Some(self.device.clone());
        set_standing(&mut record, standing, because);
        install(&self.store, &record, &zip, &format!("{} was better", record.id))?;
        PredictorScope::of(&record).prune(&self.store)?;
        Ok(record)
    }
}

/// Imports a Kepler folder or zip; it supersedes the pipeline of its name.
pub fn import(store: &RecordStore, path: &Path) -> Result<Predictor, Error> {
    match path.is_dir() {
        true => import_zip(store, &pack_folder(path)?, path),
        false => import_zip(store, &fs::read(path).map_err(|error| Error::file(path, error))?, path),
    }
}

/// Imports the bytes of a Kepler zip; `path` is their origin.
pub fn import_zip(store: &RecordStore, zip: &[u8], path: &Path) -> Result<Predictor, Error> {
    let pipeline = load_bytes(zip.into(), path)?;
    let mut record = record_of(&pipeline, digest::digest_bytes(zip), "imported");
    install_imported(store, &mut record, zip)?;
    Ok(record)
}

/// Writes a power predictor as a Kepler folder; other files in the folder are left alone.
pub fn export_folder(zip: Vec<u8>, folder: &Path) -> Result<(), Error> {
    let (files, names) = PipelineFiles::of_bytes(zip.into(), folder)?;
    let mut reader = files.reader()?;
    // The file that marks the pipeline as complete is written last.
    let (about, rest): (Vec<&String>, Vec<&String>) = names.iter().partition(|name| *name == "metadata.json");
    for name in rest.into_iter().chain(about) {
        let is_inside = Path::new(name).components().all(|part| matches!(part, PathPart::Normal(_)));
        if !is_inside {
            return Err(Error::file(name, "leads out of the folder; the zip is refused"));
        }
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(|error| Error::file(parent, error))?;
        replace(&path, &reader.read(name)?)?;
    }
    Ok(())
}

/// Writes a device's pipelines in use into a folder, as zips by id, and removes other zips. Returns
/// their number.
pub fn write_in_use(store: &RecordStore, device: &DeviceId, folder: &Path) -> Result<usize, Error> {
    let stored = || store.predictors(Some(KIND)).map_err(lifecycle::LifecycleError::from);
    let is_ours = |predictor: &Predictor| predictor.device.as_ref().is_none_or(|of| of.id == *device);
    let mut paths = Vec::new();
    for record in stored()?.iter().filter(|one| one.standing == PredictorStanding::InUse && is_ours(one)) {
        let path = folder.join(format!("{}.zip", record.id.short()));
        let is_there = digest::digest_file(&path).is_ok_and(|found| found == record.id);
        if !is_there
            && let Some(zip) = store.predictor_file(&record.id).map_err(lifecycle::LifecycleError::from)?
        {
            fs::create_dir_all(folder).map_err(|error| Error::file(folder, error))?;
            replace(&path, &zip)?;
        }
        paths.push(path);
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|end| end == "zip") && !paths.contains(&path) {
            fs::remove_file(&path).map_err(|error| Error::file(&path, error))?;
        }
    }
    Ok(paths.len())
}

/// Zips a pipeline's folder without its tables. Equal files give equal bytes.
fn pack_folder(folder: &Path) -> Result<Vec<u8>, Error> {
    let (files, names) = PipelineFiles::open(folder)?;
    let mut reader = files.reader()?;
    let is_kept = |name: &&String| !name.starts_with(TABLES) && !name.ends_with(".part");
    let read = |name: &String| Ok((name.clone(), reader.read(name)?));
    pack(&names.iter().filter(is_kept).map(read).collect::<Result<Vec<_>, Error>>()?)
}

/// The record of a pipeline.
fn record_of(pipeline: &PredictorPipeline, id: ContentDigest, how: &str) -> Predictor {
    let best = best_of_each(pipeline);
    let learned = best.iter().map(|model| (*model, held_out_of(model)));
    let mut held_out = Vec::new();
    for (model, parts) in learned {
        held_out.extend(errors_of(model, &parts));
    }
    let size = |error: &HeldOutError| error.mean_absolute_error_ratio.map_or(0.0, Ratio::get);
    held_out.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let sources: Vec<&str> = pipeline.sources().into_iter().map(EnergySource::name).collect();
    let mut extra = ExtraFields::new();
    extra.insert(PIPELINE.into(), json!(pipeline.name));
    extra.insert("predictors".into(), json!(pipeline.models.len()));
    extra.insert("sources".into(), json!(sources));
    Predictor {
        schema: RecordSchema::new(),
        id,
        kind: KIND.to_string(),
        name: pipeline.name.clone(),
        device: None,
        standing: PredictorStanding::InUse,
        made: UtcTimestamp::now(),
        provenance: format!("{how} as {} predictors of {}", pipeline.models.len(), sources.join(", ")),
        rows: held_out.iter().map(|held_out_error| held_out_error.rows).max().unwrap_or(0),
        runs: Vec::new(),
        held_out,
        extra,
    }
}

/// For each source and output type, the predictor with the smallest error of its worst component.
fn best_of_each(pipeline: &PredictorPipeline) -> Vec<&PipelineModel> {
    let worst = |model: &PipelineModel| {
        let errors = model.errors_by_component();
        errors.first().and_then(|error| error.mae).unwrap_or(f64::INFINITY)
    };
    let of = |source: EnergySource, output_type: OutputType| {
        let fitting = pipeline.models.iter().filter(move |model| {
            model.source == source && model.output_type == output_type && model.is_usable()
        });
        fitting.min_by(|model, other| worst(model).total_cmp(&worst(other)))
    };
    let places = pipeline.sources().into_iter().flat_map(|source| OutputType::ALL.map(|kind| (source, kind)));
    places.filter_map(|(source, output_type)| of(source, output_type)).collect()
}

/// Held-out errors in the `predictor.json`; empty if there is none.
fn held_out_of(model: &PipelineModel) -> Vec<trainers::ComponentHeldOut> {
    let file = model
        .predictor
        .as_ref()
        .and_then(|file| trainers::PowerPredictorFile::read(&file.bytes().ok()?).ok());
    file.map_or_else(Vec::new, |file| file.components.into_values().map(|part| part.held_out).collect())
}

/// Errors of a predictor by component. Published ones lack the number of rows; it is recorded as 0.
fn errors_of(model: &PipelineModel, parts: &[trainers::ComponentHeldOut]) -> Vec<HeldOutError> {
    let one = |error: crate::selection::ComponentError| {
        let part = parts.iter().find(|part| Some(part.component) == error.component);
        let target = error.component.map_or("power", |component| component.name());
        Some(HeldOutError {
            target: format!("{target}, {} of {}", model.output_type.name(), model.source.name()),
            unit: "watts".to_string(),
            held_out: match part.map(|part| part.validation) {
                Some(trainers::HoldOutMethod::Blocks) => "phases",
                _ => "rows",
            }
            .to_string(),
            rows: part.map_or(0, |part| part.rows as u64),
            groups: 0,
            mean_absolute_error: error.mae?,
            mean_absolute_error_ratio: error.mape.map(|percent| Ratio(percent / 100.0)),
            within_10_percent: None,
            within_20_percent: None,
            planned_coverage: part.and_then(|part| part.coverage).map(|_| Ratio(0.9)),
            coverage: part.and_then(|part| part.coverage).map(Ratio),
            baselines: std::collections::BTreeMap::new(),
            extra: ExtraFields::from_iter([("predictor".to_string(), json!(model.full_name))]),
        })
    };
    model.errors_by_component().into_iter().filter_map(one).collect()
}
