//! Graphs that somebody sends: what they consist of, how long they take on each device that is known, and how long they took
//! where they were measured. The graph is looked at and forgotten; nothing of it is kept.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use metier_device::passport;
use metier_onnx::{Analysis, Bindings};
use metier_predict::graph;
use metier_predict::latency::{self, Conditions, Latency, runs};
use metier_store::{RunFilter, Store};
use metier_types::schema::{Schema, Versioned};
use metier_types::{
    Bytes, Device, DeviceRef, Digest, Origin, Passport, Prediction, Predictor, Ratio, Run, RunId, Seconds,
    Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::app::App;
use crate::http::parameter::{Form, Parameter};
use crate::http::problem::{FieldError, Problem};
use crate::http::{Call, Reply};
use crate::storage;

const RUNTIMES: &[&str] = &["rten", "onnxruntime"];
/// Most runs of a graph that are set beside its predictions.
const MOST_RUNS: u32 = 200;
/// Largest result of a run that is read for it, in bytes; some 30,000 inferences.
const LARGEST_RESULT: u64 = 2 << 20;

/// What is asked of a graph.
pub const ASKED: &[Parameter] = &[
    Parameter::query(
        "device",
        Form::Text(200),
        "Whose times of operators are told: a passport's id, name or alias; the first one unless given.",
    ),
    Parameter::query(
        "threads",
        Form::Whole { least: 1, most: 4096, otherwise: None },
        "Threads of the runtime; as many as each device has cores unless given.",
    ),
    Parameter::query(
        "runtime",
        Form::OneOf(RUNTIMES),
        "What computes it; `rten`, which is built in, unless given.",
    ),
    Parameter::query(
        "shapes",
        Form::Text(2000),
        "Shapes of inputs that the graph leaves open: `INPUT=1x3x224x224`, by commas.",
    ),
];

/// What narrows the list of predictors.
pub const PREDICTORS: &[Parameter] =
    &[Parameter::query("kind", Form::Text(100), "What they predict: `latency`, `power` …")];

/// A graph, and how long it takes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GraphTimes {
    /// `metier.graph-times/1`.
    pub schema: Schema<GraphTimes>,
    /// SHA-256 of the file.
    pub digest: Digest,
    /// How large it is.
    pub file_bytes: Bytes,
    /// Everything that can be said of it without running it.
    pub graph: Analysis,
    /// What computes it.
    pub runtime: String,
    /// Memory that running it needs, or why that cannot be told.
    pub memory: Option<Prediction>,
    /// How long it takes on each device: measured passports first.
    pub devices: Vec<DeviceTime>,
    /// Whose `operators` are told; `null` where none can be.
    pub device: Option<String>,
    /// How long each operator takes there, in the order of the graph's operators.
    pub operators: Vec<OperatorTime>,
    /// Runs of the same file, newest first.
    pub measured: Vec<Measured>,
}

impl Versioned for GraphTimes {
    const SCHEMA: &'static str = "metier.graph-times/1";
}

/// How long it takes on a device.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DeviceTime {
    /// Of the passport.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Whether its passport was measured or specified.
    pub origin: Origin,
    /// Threads that the prediction is of.
    pub threads: u32,
    /// One inference.
    pub prediction: Option<Prediction>,
    /// Why there is none.
    pub missing: Option<String>,
}

/// How long an operator takes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OperatorTime {
    /// All its turns together.
    pub seconds: Seconds,
    /// Share of the whole.
    pub share: Ratio,
    /// The operator that does it in passing, where one does.
    pub within: Option<usize>,
}

/// A run of the same graph.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Measured {
    /// Its record.
    pub run: RunId,
    /// Where.
    pub device: DeviceRef,
    /// When.
    pub started: Timestamp,
    /// What computed it, where it is told.
    pub runtime: Option<String>,
    /// With how many threads, where it is told.
    pub threads: Option<u32>,
    /// Shapes of its inputs, where they are told.
    pub shapes: BTreeMap<String, Vec<u64>>,
    /// One inference, as predictions mean it: the lower quartile of those that were told apart; the middle one where the run's result was
    /// not kept or is very long.
    pub seconds: Option<Seconds>,
    /// What would have been predicted for that device, runtime, number of threads, shapes and load.
    pub prediction: Option<Prediction>,
    /// Why there is none.
    pub missing: Option<String>,
}

/// Predictors.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PredictorList {
    /// `metier.predictors/1`.
    pub schema: Schema<PredictorList>,
    /// Newest first.
    pub predictors: Vec<Predictor>,
}

impl Versioned for PredictorList {
    const SCHEMA: &'static str = "metier.predictors/1";
}

pub fn predictors(app: &App, call: &Call) -> Result<Reply, Problem> {
    let predictors =
        app.storage.store()?.predictors(call.arguments.text("kind")).map_err(storage::problem)?;
    Reply::json(&PredictorList { schema: Schema::new(), predictors })
}

/// Looks at a graph and says how long it takes.
pub fn times(app: &App, call: &Call) -> Result<Reply, Problem> {
    let read = graph::read(&call.body, call.arguments.text("shapes")).map_err(|error| {
        let field = if error.is_shape() { "shapes" } else { "body" };
        let error = FieldError::new(field, &error.to_string(), error.want());
        Problem::fields(StatusCode::UNPROCESSABLE_ENTITY, vec![error])
    })?;
    let graph = read.analysis;
    let store = app.storage.store()?;
    let latency = Latency::open(&store).map_err(failed)?;
    let asked = Asked {
        latency: &latency,
        graph: &graph,
        runtime: call.arguments.text("runtime").unwrap_or(RUNTIMES[0]).to_string(),
        threads: call.arguments.whole("threads").and_then(|threads| u32::try_from(threads).ok()),
    };
    let passports = passport::all(Some(&store));
    let devices: Vec<DeviceTime> = passports.iter().map(|passport| asked.on(passport)).collect();
    let chosen = chosen(&store, call.arguments.text("device"), &passports, &devices)?;
    let operators = chosen.as_ref().and_then(|passport| asked.operators(passport)).unwrap_or_default();
    let digest = Digest::from_bytes(Sha256::digest(&call.body).into());
    let measured = measured(&store, digest, &asked, &call.body, &passports).map_err(storage::problem)?;
    let memory = latency.memory(&graph, &asked.conditions(1)).ok();
    Reply::json(&GraphTimes {
        schema: Schema::new(),
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

/// What every prediction of one request has in common.
struct Asked<'a> {
    latency: &'a Latency,
    graph: &'a Analysis,
    runtime: String,
    threads: Option<u32>,
}

impl Asked<'_> {
    fn conditions(&self, threads: u32) -> Conditions {
        Conditions { runtime: self.runtime.clone(), threads, ..Conditions::default() }
    }

    /// As asked, else one for each processor, as `metier bench` has them.
    fn threads(&self, passport: &Passport) -> u32 {
        self.threads.unwrap_or(passport.device.cpu.threads).max(1)
    }

    fn on(&self, passport: &Passport) -> DeviceTime {
        let threads = self.threads(passport);
        let told = self.latency.graph(self.graph, passport, &self.conditions(threads));
        let (prediction, missing) = match told {
            Ok(prediction) => (Some(prediction), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let (id, name) = (passport.id.clone(), passport.name.clone());
        DeviceTime { id, name, origin: passport.origin, threads, prediction, missing }
    }

    fn operators(&self, passport: &Passport) -> Option<Vec<OperatorTime>> {
        let conditions = self.conditions(self.threads(passport));
        let times = self.latency.operators(self.graph, passport, &conditions).ok()?;
        let told = times.into_iter().map(|one| OperatorTime {
            seconds: one.seconds,
            share: one.share,
            within: one.within,
        });
        Some(told.collect())
    }
}

/// The passport that was named, else the first with a prediction.
fn chosen(
    store: &Store,
    name: Option<&str>,
    passports: &[Passport],
    devices: &[DeviceTime],
) -> Result<Option<Passport>, Problem> {
    match name {
        Some(name) => match passport::find(Some(store), name) {
            Some(found) => Ok(Some(found)),
            None => Err(Problem::bad_field(
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

/// Runs of the same file with what would have been predicted for each: for its device, runtime, threads and shapes.
struct Beside<'a> {
    store: &'a Store,
    asked: &'a Asked<'a>,
    body: &'a [u8],
    passports: Vec<Passport>,
    /// The graph by shapes of its inputs; `None` where these do not fit.
    graphs: BTreeMap<BTreeMap<String, Vec<u64>>, Option<Analysis>>,
}

fn measured(
    store: &Store,
    digest: Digest,
    asked: &Asked,
    body: &[u8],
    passports: &[Passport],
) -> Result<Vec<Measured>, metier_store::Error> {
    let mut runs = Vec::new();
    for workload in store.workloads()?.into_iter().filter(|workload| workload.digest == Some(digest)) {
        let filter =
            RunFilter { workload: Some(workload.id.to_string()), limit: MOST_RUNS, ..RunFilter::default() };
        for row in store.runs(&filter)?.runs {
            runs.extend(store.run(row.id)?);
        }
    }
    runs.sort_by_key(|run| std::cmp::Reverse(run.started));
    runs.truncate(MOST_RUNS as usize);
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    // What was learned on a device is known by the device, with or without a passport.
    let is_known = |device: &Device| passports.iter().any(|passport| passport.id == device.id.as_str());
    let others = store.devices()?.into_iter().filter(|device| !is_known(device)).map(latency::unmeasured);
    let passports = passports.iter().cloned().chain(others).collect();
    let mut beside = Beside { store, asked, body, passports, graphs: BTreeMap::new() };
    Ok(runs.iter().map(|run| beside.one(run)).collect())
}

impl Beside<'_> {
    fn one(&mut self, run: &Run) -> Measured {
        let graph = run.context.graph.as_ref();
        let stage = run.stages.iter().find(|stage| stage.name == "inference");
        // What cannot be read of one run is no reason to tell nothing of it.
        let learned = runs::seconds(self.store, run, LARGEST_RESULT).ok().flatten();
        let (prediction, missing) = match self.predicted(run) {
            Ok(prediction) => (Some(prediction), None),
            Err(why) => (None, Some(why)),
        };
        Measured {
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

    fn predicted(&mut self, run: &Run) -> Result<Prediction, String> {
        let unknown = || format!("nothing is known of {}", run.device.name);
        let passport =
            self.passports.iter().find(|one| one.id == run.device.id.as_str()).ok_or_else(unknown)?;
        let used = run.context.graph.as_ref();
        let threads = used.map_or_else(|| self.asked.threads(passport), |used| used.threads);
        let mut conditions = self.asked.conditions(threads);
        // What else ran meanwhile made it slower, and is known.
        conditions.cpu_load = run.host.others_ratio.map(|others| Ratio(others.get().clamp(0.0, 1.0)));
        let mut graph = self.asked.graph;
        if let Some(used) = used {
            conditions.runtime = used.runtime.clone();
            let bound = || {
                let (limits, shapes) = (metier_onnx::Limits::default(), used.shapes.clone());
                let model = metier_onnx::read(self.body, &limits).ok()?;
                metier_onnx::analyse(&model, &Bindings { shapes, ..Bindings::default() }, &limits).ok()
            };
            let with_shapes = self.graphs.entry(used.shapes.clone()).or_insert_with(bound);
            graph = with_shapes.as_ref().ok_or("its shapes do not fit the graph")?;
        }
        self.asked.latency.graph(graph, passport, &conditions).map_err(|error| error.to_string())
    }
}

fn failed(error: latency::Error) -> Problem {
    match error {
        latency::Error::Store(error) => storage::problem(error),
        other => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, other.to_string()),
    }
}
