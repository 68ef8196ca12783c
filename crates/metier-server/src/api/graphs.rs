//! Analysis of uploaded graphs: their content, their predicted time on each known device, and their
//! measured times. The graph is not stored.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::StatusCode;
use metier_device::passport;
use metier_onnx::{GraphAnalysis, ShapeBindings};
use metier_predict::graph_reader;
use metier_predict::latency::{self, InferenceConditions, LatencyPredictor, measured_graph, run_trials};
use metier_store::{RecordStore, RunFilter};
use metier_types::schema::{RecordSchema, VersionedRecord};
use metier_types::{
    Bytes, ContentDigest, Device, DeviceId, DeviceRef, Passport, PassportOrigin, Prediction, Predictor,
    Ratio, Run, RunId, Seconds, UtcTimestamp,
};
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::app_state::SharedAppState;
use crate::http::parameter::{ParameterForm, RouteParameter};
use crate::http::problem::{FieldError, ProblemDetails};
use crate::http::{HandlerRequest, HandlerResponse};
use crate::storage;

const RUNTIMES: &[&str] = &["rten", "onnxruntime"];
/// Most measured runs that are listed beside the predictions.
const MAX_MEASURED_RUNS: u32 = 200;
/// Largest result of a run that is read, in bytes; some 30,000 inferences.
const MAX_RESULT_BYTES: u64 = 2 << 20;

/// Parameters of a graph analysis.
pub const GRAPH_PARAMETERS: &[RouteParameter] = &[
    RouteParameter::query(
        "device",
        ParameterForm::Text(200),
        "Device of the operator times: a passport's id, name or alias; by default the first.",
    ),
    RouteParameter::query(
        "threads",
        ParameterForm::Whole { least: 1, most: 4096, otherwise: None },
        "Threads of the runtime; as many as each device has cores unless given.",
    ),
    RouteParameter::query(
        "runtime",
        ParameterForm::OneOf(RUNTIMES),
        "What computes it; `rten`, which is built in, unless given.",
    ),
    RouteParameter::query(
        "shapes",
        ParameterForm::Text(2000),
        "Shapes of inputs that the graph leaves open: `INPUT=1x3x224x224`, by commas.",
    ),
];

/// Filters of the list of predictors.
pub const PREDICTOR_FILTERS: &[RouteParameter] =
    &[RouteParameter::query("kind", ParameterForm::Text(100), "What they predict: `latency`, `power` …")];

/// A graph and its predicted times.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GraphTimes {
    /// `metier.graph-times/1`.
    pub schema: RecordSchema<GraphTimes>,
    /// SHA-256 of the file.
    pub digest: ContentDigest,
    /// Size of the file.
    pub file_bytes: Bytes,
    /// Static analysis of the graph.
    pub graph: GraphAnalysis,
    /// The runtime that executes it.
    pub runtime: String,
    /// Memory that the graph needs, or why that is unknown.
    pub memory: Option<Prediction>,
    /// Predicted time on each device: measured passports first.
    pub devices: Vec<DeviceTime>,
    /// The device of `operators`; `null` if no operator times can be predicted.
    pub device: Option<String>,
    /// Time of each operator there, in the order of the graph's operators.
    pub operators: Vec<GraphOperatorTime>,
    /// Runs of the same file, newest first.
    pub measured: Vec<MeasuredRun>,
}

impl VersionedRecord for GraphTimes {
    const SCHEMA: &'static str = "metier.graph-times/1";
}

/// Predicted time of a graph on a device.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DeviceTime {
    /// Id of the passport.
    pub id: String,
    /// Name of the device.
    pub name: String,
    /// Whether its passport was measured or specified.
    pub origin: PassportOrigin,
    /// Threads that the prediction assumes.
    pub threads: u32,
    /// Time of one inference.
    pub prediction: Option<Prediction>,
    /// Why there is no prediction.
    pub missing: Option<String>,
}

/// Predicted time of an operator.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GraphOperatorTime {
    /// Total over all its executions in one inference.
    pub seconds: Seconds,
    /// Share of the whole inference.
    pub share: Ratio,
    /// Index of the operator that it is fused into, if any.
    pub within: Option<usize>,
}

/// A run of the same graph.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MeasuredRun {
    /// Id of the run.
    pub run: RunId,
    /// The device that it ran on.
    pub device: DeviceRef,
    /// Its start.
    pub started: UtcTimestamp,
    /// Its runtime, if recorded.
    pub runtime: Option<String>,
    /// Its number of threads, if recorded.
    pub threads: Option<u32>,
    /// Shapes of its inputs, if recorded.
    pub shapes: BTreeMap<String, Vec<u64>>,
    /// Time of one inference, comparable with predictions: the lower quartile of single inferences;
    /// the median where the run's result was not stored or is very long.
    pub seconds: Option<Seconds>,
    /// Prediction for that device, runtime, number of threads, shapes and load.
    pub prediction: Option<Prediction>,
    /// Why there is no prediction.
    pub missing: Option<String>,
}

/// Latency predictors.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PredictorList {
    /// `metier.predictors/1`.
    pub schema: RecordSchema<PredictorList>,
    /// Newest first.
    pub predictors: Vec<Predictor>,
}

impl VersionedRecord for PredictorList {
    const SCHEMA: &'static str = "metier.predictors/1";
}

pub fn list_predictors(
    app: &SharedAppState,
    call: &HandlerRequest,
) -> Result<HandlerResponse, ProblemDetails> {
    let predictors =
        app.storage.store()?.predictors(call.arguments.text("kind")).map_err(storage::store_problem)?;
    HandlerResponse::json(&PredictorList { schema: RecordSchema::new(), predictors })
}

/// Analyses a graph and predicts its times.
pub fn analyse_graph(app: &SharedAppState, call: &HandlerRequest) -> Result<HandlerResponse, ProblemDetails> {
    let read = graph_reader::read(&call.body, call.arguments.text("shapes")).map_err(|error| {
        let field = if error.is_shape() { "shapes" } else { "body" };
        let error = FieldError::new(field, &error.to_string(), error.want());
        ProblemDetails::fields(StatusCode::UNPROCESSABLE_ENTITY, vec![error])
    })?;
    let graph = read.analysis;
    let store = app.storage.store()?;
    let latency = LatencyPredictor::open(&store).map_err(latency_problem)?;
    let digest = ContentDigest::from_bytes(Sha256::digest(&call.body).into());
    let known_devices = store.devices().map_err(storage::store_problem)?;
    let asked = GraphQuery {
        latency: &latency,
        graph: &graph,
        store: &store,
        digest,
        known_devices: known_devices.iter().map(|device| device.id.clone()).collect(),
        runtime: call.arguments.text("runtime").unwrap_or(RUNTIMES[0]).to_string(),
        threads: call.arguments.integer("threads").and_then(|threads| u32::try_from(threads).ok()),
    };
    let mut passports = passport::list_passports(Some(&store));
    let mut devices: Vec<DeviceTime> =
        passports.iter().map(|passport| asked.predict_device(passport)).collect();
    // A device without a passport is known by what was measured or learned there.
    for device in known_devices {
        if passports.iter().any(|passport| passport.id == device.id.as_str()) {
            continue;
        }
        let unmeasured = latency::unmeasured(device);
        let time = asked.predict_device(&unmeasured);
        if time.prediction.is_some() {
            passports.push(unmeasured);
            devices.push(time);
        }
    }
    let chosen = choose_passport(&store, call.arguments.text("device"), &passports, &devices)?;
    let operators =
        chosen.as_ref().and_then(|passport| asked.predict_operators(passport)).unwrap_or_default();
    let measured =
        measured_runs(&store, digest, &asked, &call.body, &passports).map_err(storage::store_problem)?;
    let memory = latency.memory(&graph, &asked.conditions_with(1)).ok();
    HandlerResponse::json(&GraphTimes {
        schema: RecordSchema::new(),
        digest,
        file_bytes: Bytes(call.body.len() as u64),
        runtime: asked.runtime.clone(),
        memory,
        devices,
        device: chosen.filter(|_| !operators.is_empty()).map(|passport| passport.id),
        operators,
        measured,
        graph: graph.clone(),
    })
}

/// The common inputs of all predictions of one request.
struct GraphQuery<'a> {
    latency: &'a LatencyPredictor,
    graph: &'a GraphAnalysis,
    store: &'a RecordStore,
    /// Of the graph's file.
    digest: ContentDigest,
    /// Devices in the store, which may have runs.
    known_devices: BTreeSet<DeviceId>,
    runtime: String,
    threads: Option<u32>,
}

impl GraphQuery<'_> {
    fn conditions_with(&self, threads: u32) -> InferenceConditions {
        InferenceConditions { runtime: self.runtime.clone(), threads, ..InferenceConditions::default() }
    }

    /// The requested number, else one thread for each processor, as in `metier bench`.
    fn thread_count(&self, passport: &Passport) -> u32 {
        self.threads.unwrap_or(passport.device.cpu.threads).max(1)
    }

    fn predict_device(&self, passport: &Passport) -> DeviceTime {
        let threads = self.thread_count(passport);
        let estimate = self.time_on(passport, &self.conditions_with(threads));
        let (prediction, missing) = match estimate {
            Ok(prediction) => (Some(prediction), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let (id, name) = (passport.id.clone(), passport.name.clone());
        DeviceTime { id, name, origin: passport.origin, threads, prediction, missing }
    }

    /// What was measured there; else what is predicted.
    fn time_on(
        &self,
        passport: &Passport,
        conditions: &InferenceConditions,
    ) -> Result<Prediction, latency::LatencyError> {
        let device = &passport.device.id;
        if self.known_devices.contains(device)
            && let Some(measured) =
                measured_graph::measured_time(self.store, &self.digest, self.graph, device, conditions)?
        {
            return Ok(measured);
        }
        self.latency.graph(self.graph, passport, conditions)
    }

    fn predict_operators(&self, passport: &Passport) -> Option<Vec<GraphOperatorTime>> {
        let conditions = self.conditions_with(self.thread_count(passport));
        let times = self.latency.operators(self.graph, passport, &conditions).ok()?;
        let map = times.into_iter().map(|time| GraphOperatorTime {
            seconds: time.seconds,
            share: time.share,
            within: time.within,
        });
        Some(map.collect())
    }
}

/// The requested passport, else the first with a prediction.
fn choose_passport(
    store: &RecordStore,
    name: Option<&str>,
    passports: &[Passport],
    devices: &[DeviceTime],
) -> Result<Option<Passport>, ProblemDetails> {
    match name {
        Some(name) => match passport::find_passport(Some(store), name) {
            Some(found) => Ok(Some(found)),
            None => Err(ProblemDetails::bad_field(
                "device",
                name,
                "id, name or alias of a passport; `metier device list` lists them",
            )),
        },
        None => {
            let first = devices.iter().position(|device| device.prediction.is_some());
            Ok(first.and_then(|at| passports.get(at)).cloned())
        }
    }
}

/// Reads runs of the same file, each with a prediction for its device, runtime, threads and shapes.
struct MeasuredRunReader<'a> {
    store: &'a RecordStore,
    asked: &'a GraphQuery<'a>,
    body: &'a [u8],
    passports: Vec<Passport>,
    /// The graph by shapes of its inputs; `None` if the shapes do not fit.
    graphs: BTreeMap<BTreeMap<String, Vec<u64>>, Option<GraphAnalysis>>,
}

fn measured_runs(
    store: &RecordStore,
    digest: ContentDigest,
    asked: &GraphQuery,
    body: &[u8],
    passports: &[Passport],
) -> Result<Vec<MeasuredRun>, metier_store::Error> {
    let mut runs = Vec::new();
    for workload in store.workloads()?.into_iter().filter(|workload| workload.digest == Some(digest)) {
        let filter = RunFilter {
            workload: Some(workload.id.to_string()),
            limit: MAX_MEASURED_RUNS,
            ..RunFilter::default()
        };
        for row in store.runs(&filter)?.runs {
            runs.extend(store.run(row.id)?);
        }
    }
    runs.sort_by_key(|run| std::cmp::Reverse(run.started));
    runs.truncate(MAX_MEASURED_RUNS as usize);
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    // A device can be predicted from its own training data, with or without a passport.
    let is_known = |device: &Device| passports.iter().any(|passport| passport.id == device.id.as_str());
    let others = store.devices()?.into_iter().filter(|device| !is_known(device)).map(latency::unmeasured);
    let passports = passports.iter().cloned().chain(others).collect();
    let mut beside = MeasuredRunReader { store, asked, body, passports, graphs: BTreeMap::new() };
    Ok(runs.iter().map(|run| beside.compare_run(run)).collect())
}

impl MeasuredRunReader<'_> {
    fn compare_run(&mut self, run: &Run) -> MeasuredRun {
        let graph = run.context.graph.as_ref();
        let stage = run.stages.iter().find(|stage| stage.name == "inference");
        // A run with an unreadable result is listed without its single inferences.
        let learned = run_trials::seconds(self.store, run, MAX_RESULT_BYTES).ok().flatten();
        let (prediction, missing) = match self.predict_run(run) {
            Ok(prediction) => (Some(prediction), None),
            Err(why) => (None, Some(why)),
        };
        MeasuredRun {
            run: run.id,
            device: run.device.clone(),
            started: run.started,
            runtime: graph.map(|graph| graph.runtime.clone()),
            threads: graph.map(|graph| graph.threads),
            shapes: graph.map(|graph| graph.shapes.clone()).unwrap_or_default(),
            seconds: learned.or_else(|| stage.and_then(|stage| stage.p50.or(stage.mean)).map(Seconds)),
            prediction,
            missing,
        }
    }

    fn predict_run(&mut self, run: &Run) -> Result<Prediction, String> {
        let unknown = || format!("nothing is known of {}", run.device.name);
        let passport = self
            .passports
            .iter()
            .find(|passport| passport.id == run.device.id.as_str())
            .ok_or_else(unknown)?;
        let used = run.context.graph.as_ref();
        let threads = used.map_or_else(|| self.asked.thread_count(passport), |used| used.threads);
        let mut conditions = self.asked.conditions_with(threads);
        // Load of other programs slowed the run; it was recorded.
        conditions.cpu_load = run.host.others_ratio.map(|others| Ratio(others.get().clamp(0.0, 1.0)));
        let mut graph = self.asked.graph;
        if let Some(used) = used {
            conditions.runtime = used.runtime.clone();
            let bound = || {
                let (limits, shapes) = (metier_onnx::OnnxLimits::default(), used.shapes.clone());
                let model = metier_onnx::read_onnx(self.body, &limits).ok()?;
                metier_onnx::analyse_graph(
                    &model,
                    &ShapeBindings { shapes, ..ShapeBindings::default() },
                    &limits,
                )
                .ok()
            };
            let with_shapes = self.graphs.entry(used.shapes.clone()).or_insert_with(bound);
            graph = with_shapes.as_ref().ok_or("its shapes do not fit the graph")?;
        }
        self.asked.latency.graph(graph, passport, &conditions).map_err(|error| error.to_string())
    }
}

fn latency_problem(error: latency::LatencyError) -> ProblemDetails {
    match error {
        latency::LatencyError::Store(error) => storage::store_problem(error),
        other => ProblemDetails::new(StatusCode::INTERNAL_SERVER_ERROR, other.to_string()),
    }
}
