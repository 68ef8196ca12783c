//! Selects the predictor for a request by the rules of Kepler's model server, with its errors
//! corrected:
//!
//! - Filters work (`key:value;…`: the error is at most the value); the original read the wrong
//!   field and rejected all predictors.
//! - Node types are compared as numbers (`_1` no longer matches `_10`).
//! - Node type 0 together with a usable machine means any, since the exporter always sends 0.
//! - Among equal errors the first name wins, not the file system's order.
//! - If the active pipeline of a source has no predictor, or only ones of dissimilar machines,
//!   other pipelines are searched. The shipped pipeline is searched only if no placed pipeline
//!   covers the request.
//! - Any linear predictor serves a request for a linear one, since the exporter always requests
//!   `SGDRegressorTrainer`.

mod predictor_list;
mod registry;

pub use predictor_list::{ComponentError, ListedPredictor, PredictorFilter, list};
pub(crate) use registry::candidates;
pub use registry::{LoadedPipelines, PipelineRegistry};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::Error;
use crate::kepler_terms::{EnergySource, FeatureGroup, OutputType, PowerTrainer, shorten};
use crate::node::{MachineSpec, NodeTypeIndex, NodeTypeMatch};
use crate::pipeline::{PipelineModel, PredictorPipeline};

/// Largest number of metrics in a request.
pub const MAX_METRICS: usize = 4096;

/// A request for a predictor.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// Metrics of the client.
    pub metrics: Vec<String>,
    /// Whether idle power is included.
    pub output_type: OutputType,
    /// Energy source that the predictor replaces.
    pub source: EnergySource,
    /// The requested node type, if any.
    pub node_type: Option<u32>,
    /// Whether weights are requested instead of an archive.
    pub weight: bool,
    /// A part of the predictor's name.
    pub trainer_name: String,
    /// Error limits.
    pub filter: ErrorFilter,
    /// The pipeline to use instead of the active one.
    pub pipeline_name: String,
    pub machine_spec: MachineSpec,
    /// Whether another node type is acceptable.
    pub loose_node_type: bool,
}

const REQUEST_FIELDS: [&str; 10] = [
    "metrics",
    "output_type",
    "source",
    "node_type",
    "weight",
    "trainer_name",
    "filter",
    "pipeline_name",
    "machine_spec",
    "loose_node_type",
];

fn wrong<T>(field: &'static str, got: &Value, want: &str) -> Result<T, Error> {
    Err(Error::Word { field, got: shorten(&got.to_string()), want: want.to_string() })
}

/// A text field; a missing one is empty.
fn text(object: &Map<String, Value>, field: &'static str) -> Result<String, Error> {
    match object.get(field) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => wrong(field, other, "a text"),
    }
}

/// A boolean field. The strings `true` and `false` are accepted; the original took the string
/// `false` as true.
fn flag(object: &Map<String, Value>, field: &'static str, default: bool) -> Result<bool, Error> {
    match object.get(field) {
        None => Ok(default),
        Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(Value::Number(number)) => Ok(number.as_f64() != Some(0.0)),
        Some(Value::String(text)) => match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" => Ok(true),
            "false" | "0" | "no" | "" => Ok(false),
            _ => wrong(field, &Value::String(text.clone()), "true or false"),
        },
        Some(other) => wrong(field, other, "true or false"),
    }
}

impl ModelRequest {
    /// Parses the body of `POST /model`.
    pub fn read(body: &Value) -> Result<Self, Error> {
        let Some(object) = body.as_object() else { return wrong("body", body, "an object") };
        if let Some(unknown) = object.keys().find(|key| !REQUEST_FIELDS.contains(&key.as_str())) {
            return Err(Error::Word {
                field: "body",
                got: format!("a field {}", shorten(unknown)),
                want: REQUEST_FIELDS.join(", "),
            });
        }
        let metrics = match object.get("metrics") {
            Some(Value::Array(list)) if list.len() <= MAX_METRICS => {
                list.iter().map(|value| value.as_str().map(str::to_string)).collect::<Option<Vec<String>>>()
            }
            _ => None,
        };
        let Some(metrics) = metrics else {
            let got = object.get("metrics").unwrap_or(&Value::Null);
            return wrong("metrics", got, &format!("a list of at most {MAX_METRICS} texts"));
        };
        let output_type = object.get("output_type").unwrap_or(&Value::Null);
        let Some(output_type) = output_type.as_str().and_then(OutputType::named) else {
            return wrong("output_type", output_type, "AbsPower or DynPower");
        };
        let source = match object.get("source") {
            None | Some(Value::Null) => EnergySource::from_request(None)?,
            Some(Value::String(name)) => EnergySource::from_request(Some(name))?,
            Some(other) => return wrong("source", other, "a text"),
        };
        let node_type = match object.get("node_type") {
            None | Some(Value::Null) => None,
            Some(value) => match value.as_i64() {
                Some(-1) => None,
                Some(number) if u32::try_from(number).is_ok() => u32::try_from(number).ok(),
                _ => return wrong("node_type", value, "-1 for any, or a number from 0"),
            },
        };
        let machine_spec = match object.get("machine_spec") {
            None | Some(Value::Null) => MachineSpec::default(),
            Some(value) => MachineSpec::deserialize(value).map_err(|error| Error::Word {
                field: "machine_spec",
                got: error.to_string(),
                want: "processor, cores, chips, memory, frequency".into(),
            })?,
        };
        Ok(Self {
            metrics,
            output_type,
            source,
            node_type,
            weight: flag(object, "weight", false)?,
            trainer_name: text(object, "trainer_name")?,
            filter: ErrorFilter::read(&text(object, "filter")?)?,
            pipeline_name: text(object, "pipeline_name")?,
            machine_spec,
            loose_node_type: flag(object, "loose_node_type", true)?,
        })
    }

    /// Whether any node type is acceptable. The exporter always sends 0; together with a machine
    /// specification, 0 means any.
    pub fn is_any_node(&self) -> bool {
        self.node_type.is_none() || (self.node_type == Some(0) && !self.machine_spec.is_empty())
    }
}

/// Error limits.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ErrorFilter {
    limits: Vec<(String, f64)>,
    features: Option<Vec<String>>,
}

impl ErrorFilter {
    /// Parses `key:number;key:number;features:a,b`. Items without exactly one `:` are ignored, as
    /// in the original.
    pub fn read(text: &str) -> Result<Self, Error> {
        let mut filter = Self::default();
        for item in text.split(';').filter(|item| item.matches(':').count() == 1) {
            let Some((key, value)) = item.split_once(':') else { continue };
            let (key, value) = (key.trim(), value.trim());
            if key == "features" {
                filter.features = Some(value.split(',').map(|name| name.trim().to_string()).collect());
                continue;
            }
            match value.parse::<f64>() {
                Ok(limit) if !limit.is_nan() => filter.limits.push((key.to_string(), limit)),
                _ => {
                    let want = format!("a number after {key}:");
                    return Err(Error::Word { field: "filter", got: shorten(item), want });
                }
            }
        }
        Ok(filter)
    }

    /// Whether a predictor passes: each error is known and at most its limit (a correlation at
    /// least), and it uses no other features.
    pub fn allows(&self, model: &PipelineModel) -> bool {
        let is_within = |(key, limit): &(String, f64)| match model.error(key) {
            Some(value) if key == "abs_max_corr" => value >= *limit,
            Some(value) => value <= *limit,
            None => false,
        };
        let features = self.features.as_ref();
        self.limits.iter().all(is_within)
            && features.is_none_or(|names| {
                model.group.features().iter().all(|text| names.iter().any(|name| name == text))
            })
    }
}

#[derive(Debug, Clone, Copy)]
pub struct ChosenPredictor<'a> {
    /// The pipeline of the predictor.
    pub pipeline: &'a PredictorPipeline,
    pub model: &'a PipelineModel,
    /// Node type match of the client's machine, if looked up.
    pub found: Option<NodeTypeMatch>,
}

impl ChosenPredictor<'_> {
    /// Whether the predictor was trained on the client's machine or its node type. Predictors
    /// promoted by the online trainer are of this machine, even if too little is known for an
    /// index.
    fn is_exact(&self, request: &ModelRequest) -> bool {
        if !request.is_any_node() {
            return request.node_type == Some(self.model.name.node_type);
        }
        let has_index = self.pipeline.index.as_ref().is_some_and(|index| !index.0.is_empty());
        let is_own =
            |found: NodeTypeMatch| found.looseness == 0.0 && found.node_type == self.model.name.node_type;
        self.found.is_some_and(is_own) || (self.pipeline.is_promoted && !has_index)
    }
}

/// The predictor of the first pipeline with an exact match for the client's machine, else of the
/// first pipeline with any match. If the request has no machine, the predictor with the smallest
/// error.
pub fn select_among<'a>(
    pipelines: impl Iterator<Item = &'a PredictorPipeline>,
    request: &ModelRequest,
    error_key: &str,
    is_wanted: &dyn Fn(&PredictorPipeline, &PipelineModel) -> bool,
) -> Option<ChosenPredictor<'a>> {
    let is_by_error = request.is_any_node() && request.machine_spec.is_empty();
    let error = |chosen: &ChosenPredictor<'_>| chosen.model.error(error_key).unwrap_or(f64::INFINITY);
    let mut best: Option<ChosenPredictor<'a>> = None;
    let mut asked: Vec<*const PredictorPipeline> = Vec::new();
    for pipeline in pipelines {
        // Each pipeline once, and only those with the source: the machine lookup takes time.
        let knows = |model: &PipelineModel| model.source == request.source;
        if asked.contains(&std::ptr::from_ref(pipeline)) || !pipeline.models.iter().any(knows) {
            continue;
        }
        asked.push(pipeline);
        let Some(chosen) =
            select_in_pipeline(pipeline, request, error_key, &|model| is_wanted(pipeline, model))
        else {
            continue;
        };
        if chosen.is_exact(request) {
            return Some(chosen);
        }
        if best.as_ref().is_none_or(|best| is_by_error && error(&chosen) < error(best)) {
            best = Some(chosen);
        }
    }
    best
}

/// The predictor for a request with the smallest `error_key`. `None` if none qualifies.
pub fn select<'a>(
    registry: &'a PipelineRegistry,
    request: &ModelRequest,
    error_key: &str,
    is_wanted: &dyn Fn(&PipelineModel) -> bool,
) -> Result<Option<ChosenPredictor<'a>>, Error> {
    let named = registry
        .named(&request.pipeline_name)
        .filter(|pipeline| pipeline.sources().contains(&request.source));
    let active = registry.active(request.source);
    if named.or(active).is_none() {
        return Err(Error::Word {
            field: "source",
            got: request.source.name().to_string(),
            want: "a source that a pipeline has predictors for".to_string(),
        });
    }
    let find = |request: &ModelRequest| {
        // A request with a pipeline but no machine uses that pipeline.
        let own = named.filter(|_| request.machine_spec.is_empty());
        let own = own.and_then(|pipeline| select_in_pipeline(pipeline, request, error_key, is_wanted));
        if own.is_some() {
            return own;
        }
        let others = registry.fallback_pipelines(request);
        let pipelines = named.into_iter().chain(active).chain(others).map(|pipeline| &**pipeline);
        select_among(pipelines, request, error_key, &|_, model| is_wanted(model))
    };
    let is_line = request.weight && request.trainer_name == PowerTrainer::Sgd.name();
    let line = || ModelRequest { trainer_name: PowerTrainer::Linear.name().to_string(), ..request.clone() };
    Ok(find(request).or_else(|| is_line.then(line).as_ref().and_then(find)))
}

/// The predictor of one pipeline.
pub fn select_in_pipeline<'a>(
    pipeline: &'a PredictorPipeline,
    request: &ModelRequest,
    error_key: &str,
    is_wanted: &dyn Fn(&PipelineModel) -> bool,
) -> Option<ChosenPredictor<'a>> {
    let mut node_type = if request.is_any_node() { None } else { request.node_type };
    let mut found = None;
    if request.is_any_node()
        && !request.machine_spec.is_empty()
        && let Some(index) = pipeline.index.as_ref().filter(|index| !index.0.is_empty())
    {
        found = index.lookup(&request.machine_spec, request.loose_node_type);
        node_type = found.map(|found| found.node_type);
        if found.is_none() && !request.loose_node_type {
            return None;
        }
    }
    let mut best: Option<(f64, &PipelineModel)> = None;
    for group in FeatureGroup::ALL.into_iter().filter(|group| group.is_within(&request.metrics)) {
        let Some((error, model)) = of_group(pipeline, group, request, node_type, error_key, is_wanted) else {
            continue;
        };
        let is_right = |model: &PipelineModel| Some(model.name.node_type) == node_type;
        let is_better = match best {
            None => true,
            Some((_, known)) if is_right(known) && !is_right(model) => false,
            Some((known, _)) => error < known,
        };
        if is_better {
            best = Some((error, model));
        }
    }
    best.map(|(_, model)| ChosenPredictor { pipeline, model, found })
}

/// The best predictor of one group, and its error.
pub fn of_group<'a>(
    pipeline: &'a PredictorPipeline,
    group: FeatureGroup,
    request: &ModelRequest,
    node_type: Option<u32>,
    error_key: &str,
    is_wanted: &dyn Fn(&PipelineModel) -> bool,
) -> Option<(f64, &'a PipelineModel)> {
    let mut names: Vec<&PipelineModel> = pipeline
        .models
        .iter()
        .filter(|model| {
            model.source == request.source
                && model.output_type == request.output_type
                && model.group == group
                && model.full_name.contains(&request.trainer_name)
        })
        .collect();
    if let Some(number) = node_type {
        let exact: Vec<&PipelineModel> =
            names.iter().copied().filter(|model| model.name.node_type == number).collect();
        match (exact.is_empty(), request.loose_node_type) {
            (false, _) => names = exact,
            (true, true) => {}
            (true, false) => return None,
        }
    }
    if request.weight {
        // All linear predictors are equivalent, whatever their trainer; the original has no weights
        // of `LinearRegressionTrainer`.
        let is_weight = |model: &&PipelineModel| match PowerTrainer::named(&model.name.trainer) {
            Some(PowerTrainer::Linear) => model.weights.is_some(),
            Some(trainer) => trainer.has_weights(),
            None => false,
        };
        names.retain(is_weight);
    }
    let candidates: Vec<&PipelineModel> = names
        .iter()
        .copied()
        .filter(|model| match node_type {
            Some(count) => model.name.node_type == count,
            None => covers(pipeline.index.as_ref(), model.name.node_type, &request.machine_spec),
        })
        .collect();
    let candidates = if candidates.is_empty() { largest(pipeline.index.as_ref(), names) } else { candidates };
    let mut best: Option<(f64, &PipelineModel)> = None;
    for model in candidates {
        let has = if request.weight {
            model.weights.is_some()
        } else {
            model.archive.is_some() || model.weights.is_some()
        };
        // Predictors with an unknown error rank last.
        let error = model.error(error_key).unwrap_or(f64::INFINITY);
        if has
            && is_wanted(model)
            && request.filter.allows(model)
            && best.is_none_or(|(known, _)| error < known)
        {
            best = Some((error, model));
        }
    }
    best
}

fn covers(index: Option<&NodeTypeIndex>, node_type: u32, spec: &MachineSpec) -> bool {
    spec.is_empty()
        || index.and_then(|index| index.0.get(&node_type)).is_some_and(|entry| entry.spec.covers(spec))
}

/// Predictors of the machines with the most cores.
fn largest<'a>(index: Option<&NodeTypeIndex>, names: Vec<&'a PipelineModel>) -> Vec<&'a PipelineModel> {
    let Some(index) = index else { return names };
    let cores = |model: &&PipelineModel| {
        index.0.get(&model.name.node_type).and_then(|entry| entry.spec.cores).unwrap_or(0.0)
    };
    let most = names.iter().map(cores).fold(0.0, f64::max);
    names.into_iter().filter(|model| cores(model) == most).collect()
}

/// The best predictor of each group, as `GET /best-models` returns for one output type. Each group
/// is taken from the first pipeline that has one; shipped predictors only if no placed pipeline
/// covers the source and output type.
pub fn best_of_groups<'a>(
    registry: &'a PipelineRegistry,
    request: &ModelRequest,
    group: Option<FeatureGroup>,
    error_key: &str,
) -> Vec<(FeatureGroup, &'a PipelineModel)> {
    let groups = FeatureGroup::ALL
        .into_iter()
        .filter(|feature_group| group.is_none_or(|group| group == *feature_group));
    // Selects as for a client that has all metrics.
    let metrics = FeatureGroup::ALL.iter().flat_map(|group| group.features()).map(ToString::to_string);
    let model_request = ModelRequest { metrics: metrics.collect(), ..request.clone() };
    let best = |group: FeatureGroup| {
        let mut pipelines =
            registry.active(request.source).into_iter().chain(registry.fallback_pipelines(&model_request));
        let node_type = request.node_type;
        pipelines.find_map(|pipeline| {
            of_group(pipeline, group, request, node_type, error_key, &|_| true).map(|(_, model)| model)
        })
    };
    groups.filter_map(|group| Some((group, best(group)?))).collect()
}
