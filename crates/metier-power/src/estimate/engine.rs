//! Finds the predictor for a request and asks it, for many clients at once.
//!
//! Predictors come from the pipelines that the registry holds, else from those that are shipped ([`crate::defaults`]), else from the physical fallback. What was found is kept
//! by (output type, source, trainer, filter, columns): two clients that want different trainers do not disturb each other.

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
use crate::pipeline::{MissingPredictor, PipelineModel, PredictorPipeline, PredictorPurpose};
use crate::selection::PipelineRegistry;
use crate::selection::{self, ErrorFilter};

/// Most kinds of requests that are remembered.
const MAX_REQUEST_KINDS: usize = 512;

/// Watts of each component, row by row.
type ComponentPowers = Vec<(PowerComponent, Vec<f64>)>;

/// A predictor, its formulas, and the cores of its machine.
type PredictorChoice = (PredictorInUse, Vec<(PowerComponent, PowerFormula)>, Option<f64>);

/// A predictor, ready for rows of a certain form.
#[derive(Debug)]
pub(super) struct ReadyPredictor {
    pub(super) about: PredictorInUse,
    pub(super) components: Vec<(PowerComponent, Option<PreparedFormula>)>,
    pub(super) core_ratio: f64,
}

#[derive(Debug)]
pub(super) struct PreparedFormula {
    pub(super) formula: PowerFormula,
    /// Where each feature is: a column of a row, or a value of the system.
    pub(super) places: Vec<FeaturePosition>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum FeaturePosition {
    Column(usize),
    System(usize),
}

/// Which predictor is in use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PredictorInUse {
    /// Its pipeline; `fallback` where none fits.
    pub pipeline: String,
    pub predictor: String,
    /// What it looks at.
    pub group: String,
    pub source: EnergySource,
    /// Whether idle power is part of it.
    pub output_type: OutputType,
}

pub struct PowerEstimator {
    machine: MachineSpec,
    defaults: Arc<ShippedPredictors>,
    registry: RwLock<Arc<PipelineRegistry>>,
    ready: RwLock<HashMap<String, Arc<ReadyPredictor>>>,
    error_key: String,
    /// Predictors that could not be read.
    broken: Mutex<BTreeSet<String>>,
    /// Who looks elsewhere for what clients want.
    looks: OnceLock<SyncSender<MissingPredictor>>,
}

impl PowerEstimator {
    /// With these pipelines, for this machine.
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

    /// Compares predictors by that error.
    pub fn with_error_key(mut self, error_key: &str) -> Self {
        self.error_key = error_key.to_string();
        self
    }

    /// The machine that it answers for.
    pub fn machine(&self) -> &MachineSpec {
        &self.machine
    }

    /// The pipelines that it answers with.
    pub fn registry(&self) -> Arc<PipelineRegistry> {
        self.registry.read_unpoisoned().clone()
    }

    /// From now on tells what is asked for, once for each kind of request after each [`PowerEstimator::adopt_catalog`], to somebody who looks elsewhere for it. Nobody waits for them.
    pub fn notify_missing(&self, looks: SyncSender<MissingPredictor>) {
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

    /// Predictors that could not be read, in words; each was said once.
    pub fn broken(&self) -> Vec<String> {
        self.broken.lock_unpoisoned().iter().cloned().collect()
    }

    /// Takes other pipelines from now on.
    pub fn replace(&self, registry: Arc<PipelineRegistry>) {
        self.change(|| registry);
    }

    /// Takes the pipelines that a shelf has now. Of several who see it change at once, none brings back what was there before.
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

    /// The predictors that requests were answered with.
    pub fn in_use(&self) -> Vec<PredictorInUse> {
        let ready = self.ready.read_unpoisoned();
        let mut list: Vec<PredictorInUse> = ready.values().map(|ready| ready.about.clone()).collect();
        list.sort_unstable();
        list.dedup();
        list
    }

    /// Answers a request with one JSON object, whatever it is. Says whether it is an answer and not a refusal.
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
        // Where other pipelines came meanwhile, what was found in the old ones is for this request only.
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
            // Where they have enough to do already, it is told another time.
            let _ = looks.try_send(MissingPredictor {
                purpose: PredictorPurpose { output_type, source },
                metrics,
                trainer_name,
                filter,
            });
        }
        let (about, formulas, cores) = self.choose(registry, request, output_type, source)?;
        self.prepare(about, formulas, request, cores)
    }

    /// The predictor that answers for rows of these metrics, and its formulas.
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

    /// Which predictor, its formulas, and the cores of the machine that it was learned on.
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
                "trainer_name is {:?}, which nobody is called",
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
        // The trainer that was asked for, else whoever is there: an answer is worth more than a name.
        for trainer in [request.trainer_name.as_str(), ""] {
            model_request.trainer_name = trainer.to_string();
            // The pipeline that is asked for the source, then others: one may know node power only.
            let others = registry.pipelines.iter().rev();
            let pipelines = registry.active(source).into_iter().chain(others);
            // What is shipped answers only for machines like its own: see below.
            let pipelines = pipelines.map(|pipeline| &**pipeline);
            let pipelines = pipelines.filter(|pipeline| pipeline.name != self.defaults.pipeline.name);
            let pipelines: Vec<&PredictorPipeline> = pipelines.collect();
            // One that cannot be read is said once and left out; the next best answers.
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
        // A platform is a platform, whoever reads its meter.
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
                    "metrics has no {}, which the predictor looks at",
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

/// What makes a kind of request: the lengths are in it, so that no two kinds have the same text.
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
