//! Selects the predictor for each request and evaluates it, for many clients concurrently.
//!
//! The order is: pipelines of the registry, shipped predictors ([`crate::defaults`]), physical
//! fallback. Selections are cached by (output type, source, trainer, filter, columns), so clients
//! with different trainers do not affect each other.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use metier_types::{LockUnpoisoned, ShareUnpoisoned};

use super::reply;
use super::request::EstimateRequest;
use crate::Error;
use crate::catalog::PipelineCatalog;
use crate::defaults::{self, ShippedPredictors};
use crate::formula::PowerFormula;
use crate::kepler_terms::{EnergySource, OutputType, PowerComponent, PowerTrainer, shorten};
use crate::node::MachineSpec;
use crate::pipeline::{PipelineModel, PredictorPipeline, PredictorPurpose, UnmetPredictorRequest};
use crate::selection::PipelineRegistry;
use crate::selection::{self, ErrorFilter};

/// Largest number of cached request kinds.
const MAX_REQUEST_KINDS: usize = 512;

/// Watts of each component, row by row.
type ComponentPowers = Vec<(PowerComponent, Vec<f64>)>;

/// A predictor, its formulas, and the cores of its machine.
type PredictorChoice = (PredictorInUse, Vec<(PowerComponent, PowerFormula)>, Option<f64>);

/// A predictor prepared for rows of a fixed layout.
#[derive(Debug)]
pub(super) struct ReadyPredictor {
    pub(super) about: PredictorInUse,
    pub(super) components: Vec<(PowerComponent, Option<PreparedFormula>)>,
    pub(super) core_ratio: f64,
}

#[derive(Debug)]
pub(super) struct PreparedFormula {
    pub(super) formula: PowerFormula,
    /// Position of each feature: a column of the row, or a system value.
    pub(super) places: Vec<FeaturePosition>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum FeaturePosition {
    Column(usize),
    System(usize),
}

/// The predictor that answers a kind of request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PredictorInUse {
    /// Name of its pipeline; `fallback` if no predictor fits.
    pub pipeline: String,
    pub predictor: String,
    /// Its feature group.
    pub group: String,
    pub source: EnergySource,
    /// Whether idle power is included.
    pub output_type: OutputType,
}

pub struct PowerEstimator {
    machine: MachineSpec,
    defaults: Arc<ShippedPredictors>,
    registry: RwLock<Arc<PipelineRegistry>>,
    ready: RwLock<HashMap<String, Arc<ReadyPredictor>>>,
    error_key: String,
    /// Predictors that could not be read; they are skipped.
    broken: Mutex<BTreeSet<String>>,
    /// Receives the requests for which no pipeline has a predictor.
    looks: OnceLock<SyncSender<UnmetPredictorRequest>>,
}

impl PowerEstimator {
    /// Creates an estimator with these pipelines for this machine.
    pub fn new(registry: PipelineRegistry, machine: MachineSpec) -> Result<Self, Error> {
        Ok(Self {
            machine,
            defaults: defaults::shipped()?,
            registry: RwLock::new(Arc::new(registry)),
            ready: RwLock::default(),
            error_key: "mae".to_string(),
            broken: Mutex::default(),
            looks: OnceLock::new(),
        })
    }

    /// Sets the error by which predictors are compared.
    pub fn with_error_key(mut self, error_key: &str) -> Self {
        self.error_key = error_key.to_string();
        self
    }

    /// The machine whose power is estimated.
    pub fn machine(&self) -> &MachineSpec {
        &self.machine
    }

    /// The pipelines in use.
    pub fn registry(&self) -> Arc<PipelineRegistry> {
        self.registry.read_unpoisoned().clone()
    }

    /// Sends each kind of request to `looks` once after each [`PowerEstimator::adopt_catalog`], so
    /// that a background thread can download a better predictor. Sending never blocks a request.
    pub fn notify_missing(&self, looks: SyncSender<UnmetPredictorRequest>) {
        let _ = self.looks.set(looks);
    }

    fn log_broken(&self, pipeline: &PredictorPipeline, model: &PipelineModel, error: &Error) {
        let place = (model.source.name(), model.output_type.name(), model.group.name());
        let name = format!("{} {place:?} {}", pipeline.name, model.full_name);
        let mut texts = self.broken.lock_unpoisoned();
        if texts.len() < MAX_REQUEST_KINDS && texts.insert(name) {
            let (source, output_type, feature_group) = place;
            let (pipeline, predictor) = (&pipeline.name, &model.full_name);
            tracing::warn!(
                pipeline, predictor, source, output_type, feature_group, %error,
                "a predictor cannot be read and is left out"
            );
        }
    }

    /// Predictors that could not be read, as messages; each is reported once.
    pub fn broken(&self) -> Vec<String> {
        self.broken.lock_unpoisoned().iter().cloned().collect()
    }

    /// Replaces the pipelines.
    pub fn replace(&self, registry: Arc<PipelineRegistry>) {
        self.change(|| registry);
    }

    /// Adopts the catalog's current pipelines. Concurrent callers never restore an older state.
    pub fn adopt_catalog(&self, shelf: &PipelineCatalog) {
        self.change(|| shelf.registry());
    }

    fn change(&self, latest: impl FnOnce() -> Arc<PipelineRegistry>) {
        {
            let mut registry = self.registry.write_unpoisoned();
            *registry = latest();
        }
        self.ready.write_unpoisoned().clear();
        self.broken.lock_unpoisoned().clear();
    }

    /// The predictors that have answered requests.
    pub fn in_use(&self) -> Vec<PredictorInUse> {
        let ready = self.ready.read_unpoisoned();
        let mut list: Vec<PredictorInUse> = ready.values().map(|ready| ready.about.clone()).collect();
        list.sort_unstable();
        list.dedup();
        list
    }

    /// Answers any request bytes with one JSON object. Returns true for an answer and false for a
    /// refusal.
    pub fn answer(&self, request: &[u8], to: &mut Vec<u8>) -> bool {
        to.clear();
        let powers = self.powers(request).and_then(|(powers, core_ratio)| {
            let rows = powers.first().map_or(0, |(_, watts)| watts.len());
            let is_written = reply::write_powers(to, &powers, core_ratio);
            if is_written { Ok(()) } else { Err(too_many(rows)) }
        });
        match powers {
            Ok(()) => true,
            Err(why) => {
                reply::write_refusal(to, &why);
                false
            }
        }
    }

    fn powers(&self, bytes: &[u8]) -> Result<(ComponentPowers, f64), String> {
        let request =
            EstimateRequest::read(bytes).map_err(|why| format!("failed to handle request: {why}"))?;
        let Some(output_type) = OutputType::named(&request.output_type) else {
            return Err(format!("output type {} is not supported", shorten(&request.output_type)));
        };
        let source = EnergySource::from_request(request.source.as_deref())
            .map_err(|error| format!("failed to get model from request: {error}"))?;
        let ready = self.ready(&request, output_type, source)?;
        if request.values.count == 0 {
            return Err("values is empty; want at least one row".to_string());
        }
        if !reply::may_fit(request.values.count, ready.components.len()) {
            return Err(too_many(request.values.count));
        }
        Ok((predict(&ready, &request)?, ready.core_ratio))
    }

    pub(super) fn ready(
        &self,
        request: &EstimateRequest,
        output_type: OutputType,
        source: EnergySource,
    ) -> Result<Arc<ReadyPredictor>, String> {
        let key = request_kind(request, output_type, source);
        let known = self.ready.read_unpoisoned().get(&key).cloned();
        if let Some(ready) = known {
            return Ok(ready);
        }
        let registry = self.registry();
        let ready = Arc::new(self.find(&registry, request, output_type, source)?);
        let mut all = self.ready.write_unpoisoned();
        // If the pipelines were replaced meanwhile, the selection is used for this request only and
        // not cached.
        if Arc::ptr_eq(&registry, &self.registry()) {
            if all.len() >= MAX_REQUEST_KINDS {
                all.clear();
            }
            all.insert(key, ready.clone());
        }
        Ok(ready)
    }

    fn find(
        &self,
        registry: &PipelineRegistry,
        request: &EstimateRequest,
        output_type: OutputType,
        source: EnergySource,
    ) -> Result<ReadyPredictor, String> {
        if let Some(looks) = self.looks.get() {
            let metrics = request.metrics.iter().chain(&request.system_features).cloned().collect();
            let (trainer_name, filter) = (request.trainer_name.clone(), request.filter.clone());
            // If the channel is full, the request kind is sent another time.
            let _ = looks.try_send(UnmetPredictorRequest {
                purpose: PredictorPurpose { output_type, source },
                metrics,
                trainer_name,
                filter,
            });
        }
        let (about, formulas, cores) = self.choose(registry, request, output_type, source)?;
        self.prepare(about, formulas, request, cores)
    }

    /// The selected predictor and its formulas for rows of these metrics.
    pub fn select_formulas(
        &self,
        metrics: &[&str],
        output_type: OutputType,
        source: EnergySource,
    ) -> Result<(PredictorInUse, Vec<(PowerComponent, PowerFormula)>), String> {
        let request = EstimateRequest::plain(metrics, output_type, source);
        let (about, formulas, _) = self.choose(&self.registry(), &request, output_type, source)?;
        Ok((about, formulas))
    }

    /// The predictor, its formulas, and the core count of its training machine.
    fn choose(
        &self,
        registry: &PipelineRegistry,
        request: &EstimateRequest,
        output_type: OutputType,
        source: EnergySource,
    ) -> Result<PredictorChoice, String> {
        let failed = |why: String| format!("failed to get model from request: {why}");
        let filter = ErrorFilter::read(&request.filter).map_err(|error| failed(error.to_string()))?;
        if !request.trainer_name.is_empty() && PowerTrainer::named(&request.trainer_name).is_none() {
            return Err(failed(format!(
                "trainer_name is {:?}, which no trainer has",
                shorten(&request.trainer_name)
            )));
        }
        let metrics: Vec<String> = request.metrics.iter().chain(&request.system_features).cloned().collect();
        let mut model_request = selection::ModelRequest {
            metrics,
            output_type,
            source,
            node_type: None,
            weight: false,
            trainer_name: request.trainer_name.clone(),
            filter,
            pipeline_name: String::new(),
            machine_spec: self.machine.clone(),
            loose_node_type: true,
        };
        // First the requested trainer, then any trainer: an estimate is worth more than a refusal.
        for trainer in [request.trainer_name.as_str(), ""] {
            model_request.trainer_name = trainer.to_string();
            // First the pipeline that is active for the source, then others, since a pipeline may
            // have node power only.
            let others = registry.pipelines.iter().rev();
            let pipelines = registry.active(source).into_iter().chain(others);
            // Shipped predictors are excluded here; they answer only for similar machines, see
            // below.
            let pipelines = pipelines.map(|pipeline| &**pipeline);
            let pipelines = pipelines.filter(|pipeline| pipeline.name != self.defaults.pipeline.name);
            let pipelines: Vec<&PredictorPipeline> = pipelines.collect();
            // A predictor that cannot be read is reported once and skipped; the next best answers.
            let mut broken: Vec<*const PipelineModel> = Vec::new();
            loop {
                let is_wanted = |_: &PredictorPipeline, model: &PipelineModel| {
                    model.is_usable() && !broken.contains(&std::ptr::from_ref(model))
                };
                let all = pipelines.iter().copied();
                let Some(chosen) = selection::select_among(all, &model_request, &self.error_key, &is_wanted)
                else {
                    break;
                };
                let formulas = match chosen.model.formulas() {
                    Ok(formulas) => formulas,
                    Err(error) => {
                        self.log_broken(chosen.pipeline, chosen.model, &error);
                        broken.push(chosen.model);
                        continue;
                    }
                };
                let cores = chosen
                    .pipeline
                    .index
                    .as_ref()
                    .and_then(|index| index.0.get(&chosen.model.name.node_type));
                let about = about(&chosen.pipeline.name, chosen.model, source);
                return Ok((about, formulas, cores.and_then(|entry| entry.spec.cores)));
            }
            if trainer.is_empty() {
                break;
            }
        }
        // Platform power is the same quantity for every meter, so any platform source will do.
        model_request.source = if source.components() == [PowerComponent::Platform] {
            EnergySource::Acpi
        } else {
            EnergySource::RaplSysfs
        };
        if let Some((model, cores)) = self.defaults.select(&model_request, &self.machine, &self.error_key) {
            let formulas = model.formulas().map_err(|error| failed(error.to_string()))?;
            return Ok((about(&self.defaults.pipeline.name, model, source), formulas, cores));
        }
        let has_filter = model_request.filter != ErrorFilter::default();
        let fallback = self.defaults.fallback(&model_request.metrics, &self.machine, output_type, source);
        match fallback.filter(|_| !has_filter) {
            Some((class, formulas)) => {
                let about = PredictorInUse {
                    pipeline: "fallback".to_string(),
                    predictor: class,
                    group: String::new(),
                    source,
                    output_type,
                };
                Ok((about, formulas, None))
            }
            None if has_filter => {
                Err(failed(format!("no predictor passes the filter {:?}", shorten(&request.filter))))
            }
            None => Err(failed(format!(
                "no predictor for {} {} of these metrics; want bpf_cpu_time_ms or cpu_cycles among them",
                source.name(),
                output_type.name()
            ))),
        }
    }

    fn prepare(
        &self,
        about: PredictorInUse,
        formulas: Vec<(PowerComponent, PowerFormula)>,
        request: &EstimateRequest,
        cores: Option<f64>,
    ) -> Result<ReadyPredictor, String> {
        let place = |name: &String| {
            let column = request.metrics.iter().position(|known| known == name).map(FeaturePosition::Column);
            column.or_else(|| {
                request.system_features.iter().position(|known| known == name).map(FeaturePosition::System)
            })
        };
        let mut formulas: HashMap<PowerComponent, PowerFormula> = formulas.into_iter().collect();
        let mut components = Vec::new();
        for component in about.source.components() {
            let Some(formula) = formulas.remove(component) else {
                components.push((*component, None));
                continue;
            };
            let places: Option<Vec<FeaturePosition>> = formula.features.iter().map(place).collect();
            let Some(places) = places else {
                let missing = formula.features.iter().find(|name| place(name).is_none());
                return Err(format!(
                    "metrics has no {}, which the predictor needs",
                    missing.map_or("", String::as_str)
                ));
            };
            components.push((*component, Some(PreparedFormula { formula, places })));
        }
        let core_ratio = match (self.machine.cores, cores) {
            (Some(own), Some(of)) if of > 0.0 => own / of,
            _ => 1.0,
        };
        Ok(ReadyPredictor { about, components, core_ratio })
    }
}

/// Cache key of a request kind. Lengths are included, so that two kinds never have the same key.
fn request_kind(request: &EstimateRequest, output_type: OutputType, source: EnergySource) -> String {
    let mut kind = String::with_capacity(256);
    let _ = write!(kind, "{} ", request.metrics.len());
    let words = [output_type.name(), source.name(), &request.trainer_name, &request.filter].into_iter();
    let names = request.metrics.iter().chain(&request.system_features).map(String::as_str);
    for word in words.chain(names) {
        let _ = write!(kind, "{}:{word}", word.len());
    }
    kind
}

fn too_many(rows: usize) -> String {
    format!("failed to handle request: values has {rows} rows; {}", reply::FEWER_ROWS_HINT)
}

fn about(pipeline: &str, model: &PipelineModel, source: EnergySource) -> PredictorInUse {
    PredictorInUse {
        pipeline: pipeline.to_string(),
        predictor: model.full_name.clone(),
        group: model.group.name().to_string(),
        source,
        output_type: model.output_type,
    }
}

fn predict(ready: &ReadyPredictor, request: &EstimateRequest) -> Result<ComponentPowers, String> {
    let width = request.metrics.len();
    let numbers = &request.values.numbers;
    let mut rows = Vec::new();
    let mut powers = Vec::with_capacity(ready.components.len());
    for (component, prepared) in &ready.components {
        let Some(prepared) = prepared else {
            powers.push((*component, vec![0.0; request.values.count]));
            continue;
        };
        rows.clear();
        for number in 0..request.values.count {
            rows.extend(prepared.places.iter().map(|place| match place {
                FeaturePosition::Column(column) => {
                    numbers.get(number * width + column).copied().unwrap_or(0.0)
                }
                FeaturePosition::System(place) => request.system_values.0.get(*place).copied().unwrap_or(0.0),
            }));
        }
        let watts = prepared.formula.watts_of(&rows);
        powers.push((
            *component,
            watts.map_err(|row| format!("{} has no value for values[{row}]", ready.about.predictor))?,
        ));
    }
    Ok(powers)
}
