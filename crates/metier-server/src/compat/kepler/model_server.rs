//! Kepler's model server: selects a predictor for a machine and returns it as weights or as an
//! archive. Added to the original: reasons for a refusal, a list, upload, reload, health and
//! metrics.
//!
//! | route | purpose |
//! |---|---|
//! | `POST /model`, `GET /model?…` | the predictor for a request |
//! | `GET /best-models?…` | the best of each group |
//! | `GET /models` | all predictors with their errors |
//! | `POST /models` (token) | upload a predictor |
//! | `POST /reload` (token) | read pipelines again |
//! | `GET /healthz`, `GET /metrics` | for probes and Prometheus |

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, RawQuery, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use metier_power::catalog::{PipelineCatalog, PredictorUpload};
use metier_power::estimate::PowerEstimator;
use metier_power::kepler_terms::{EnergySource, FeatureGroup, OutputType};
use metier_power::node::MachineSpec;
use metier_power::pipeline::PipelineModel;
use metier_power::selection::{self, ChosenPredictor};
use metier_types::LockUnpoisoned;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::oneshot;

use super::estimator_socket::EstimatorSocketCounters;
use crate::http::HttpState;
use crate::http::body_reader::{BodyGate, RequestPermission, RequestRule, receive_body};
use crate::http::gate::gate_request;

/// Kepler's exporter expects the model server on this port.
pub const PORT: u16 = 8100;

/// Longest reason of a refusal.
const MAX_REASON_CHARS: usize = 600;
/// Most response kinds that are counted by name.
const MAX_COUNTED_KEYS: usize = 1000;

/// State that all requests share.
pub struct ModelServerState {
    pub shelf: Arc<PipelineCatalog>,
    /// The estimator in the same process; it changes with the predictors.
    pub estimator: Option<(Arc<PowerEstimator>, Arc<EstimatorSocketCounters>)>,
    /// Counters of the online trainer in the same process.
    pub online: Option<Arc<super::online_trainer::OnlineTrainerStats>>,
    /// The error metric by which predictors are compared.
    pub error_key: String,
    pub answers: [AtomicU64; 3],
    /// How often each predictor was served.
    pub given: std::sync::Mutex<BTreeMap<[String; 5], u64>>,
}

impl ModelServerState {
    pub fn new(shelf: Arc<PipelineCatalog>) -> Self {
        Self {
            shelf,
            estimator: None,
            online: None,
            error_key: "mae".to_string(),
            answers: Default::default(),
            given: std::sync::Mutex::default(),
        }
    }
}

type SharedModelServer = Arc<ModelServerState>;

/// Axum's routes behind the gate that every server here has.
pub(super) fn guard_routes(
    routes: Router,
    http: &Arc<HttpState>,
    rule: fn(&Method, &str) -> RequestRule,
) -> Router {
    let gate = BodyGate { http: http.clone(), rule };
    routes
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn_with_state(gate, receive_body))
        .layer(middleware::from_fn_with_state(http.clone(), gate_request))
}

/// What requests have to show and may send.
fn request_rule(method: &Method, path: &str) -> RequestRule {
    match (method, path) {
        (&Method::POST, "/models" | "/reload") => {
            RequestRule { permission: RequestPermission::Token, ..RequestRule::READ }
        }
        (&Method::POST, "/model") => {
            RequestRule { media_type: Some("application/json"), ..RequestRule::READ }
        }
        _ => RequestRule::READ,
    }
}

pub fn router(models: SharedModelServer, http: &Arc<HttpState>) -> Router {
    let routes = Router::new()
        .route("/model", get(model_by_query).post(model_by_body))
        .route("/best-models", get(best_models).post(best_models))
        .route("/models", get(list_models).post(upload_model))
        .route("/reload", axum::routing::post(reload))
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .with_state(models.clone());
    guard_routes(routes, http, request_rule).layer(middleware::from_fn_with_state(models, count_response))
}

/// The routes of an estimator without a model server: health, and which predictors are in use.
pub fn metrics_router(models: SharedModelServer, http: &Arc<HttpState>) -> Router {
    let routes = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .with_state(models);
    guard_routes(routes, http, |_, _| RequestRule::READ)
}

async fn count_response(State(models): State<SharedModelServer>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let class = match response.status().as_u16() {
        ..400 => 0,
        400..500 => 1,
        _ => 2,
    };
    models.answers[class].fetch_add(1, Ordering::Relaxed);
    response
}

/// A problem (RFC 9457) with the field at fault.
pub(super) fn problem_response(status: StatusCode, field: &str, why: &str) -> Response {
    // The reason may quote the request, which may be long.
    let why = match why.char_indices().nth(MAX_REASON_CHARS) {
        Some((end, _)) => &format!("{}…", &why[..end]),
        None => why,
    };
    let body = json!({ "type": "about:blank", "title": status.canonical_reason().unwrap_or_default(), "status": status.as_u16(), "detail": why,
        "errors": [{ "field": field, "want": why }] });
    let kind = [(header::CONTENT_TYPE, "application/problem+json")];
    (status, kind, body.to_string()).into_response()
}

fn error_response(error: &metier_power::Error) -> Response {
    let (status, field) = match error {
        metier_power::Error::Word { field, .. } => (StatusCode::BAD_REQUEST, *field),
        // A full disk, for example: not the client's fault.
        metier_power::Error::File { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "upload"),
        _ => (StatusCode::BAD_REQUEST, "body"),
    };
    problem_response(status, field, &error.to_string())
}

pub(super) fn json_response(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

async fn model_by_body(State(models): State<SharedModelServer>, body: Bytes) -> Response {
    match serde_json::from_slice(&body) {
        Ok(value) => model_response(&models, &value).await,
        Err(error) => problem_response(StatusCode::BAD_REQUEST, "body", &format!("is no JSON: {error}")),
    }
}

fn query_parameters(query: Option<&str>) -> BTreeMap<String, String> {
    let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    pairs.take(100).map(|(name, value)| (name.replace('-', "_"), value.into_owned())).collect()
}

/// The same fields in a query: `metrics` separated by commas, attributes of the machine by their
/// own names.
async fn model_by_query(State(models): State<SharedModelServer>, RawQuery(query): RawQuery) -> Response {
    let mut body = Map::new();
    let mut machine = Map::new();
    for (name, value) in query_parameters(query.as_deref()) {
        match name.as_str() {
            "metrics" => {
                let names: Vec<&str> = value.split(',').filter(|name| !name.is_empty()).collect();
                body.insert(name, json!(names));
            }
            "processor" | "cores" | "chips" | "memory" | "frequency" => {
                machine.insert(name, json!(value));
            }
            "node_type" => {
                let number = value.parse::<i64>().map_or(json!(value), |number| json!(number));
                body.insert(name, number);
            }
            _ => {
                body.insert(name, json!(value));
            }
        }
    }
    if !machine.is_empty() {
        body.insert("machine_spec".into(), Value::Object(machine));
    }
    model_response(&models, &Value::Object(body)).await
}

async fn model_response(models: &SharedModelServer, body: &Value) -> Response {
    let request = match selection::ModelRequest::read(body) {
        Ok(request) => request,
        Err(error) => return error_response(&error),
    };
    let registry = models.shelf.registry();
    let chosen = match selection::select(&registry, &request, &models.error_key, &|_| true) {
        Ok(chosen) => chosen,
        Err(error) => return error_response(&error),
    };
    let Some(chosen) = chosen else {
        return problem_response(
            StatusCode::BAD_REQUEST,
            "metrics",
            &format!("cannot find model for {} at the moment", shorten_request(body)),
        );
    };
    count_served_model(models, &chosen, request.weight);
    match request.weight {
        true => weights_response(models, &request, &chosen),
        false => archive_response(training_machine(&chosen), chosen.model.clone()).await,
    }
}

/// A short form of a request, for refusals.
fn shorten_request(body: &Value) -> String {
    const MAX_BRIEF_CHARS: usize = 400;
    let text = body.to_string();
    match text.char_indices().nth(MAX_BRIEF_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn count_served_model(models: &ModelServerState, chosen: &ChosenPredictor<'_>, weight: bool) {
    let model = chosen.model;
    let key = [
        chosen.pipeline.name.clone(),
        model.full_name.clone(),
        model.source.name().to_string(),
        model.output_type.name().to_string(),
        (if weight { "weight" } else { "archive" }).to_string(),
    ];
    let mut given = models.given.lock_unpoisoned();
    if given.len() < MAX_COUNTED_KEYS || given.contains_key(&key) {
        *given.entry(key).or_default() += 1;
    }
}

/// The machine that a predictor was learned on.
fn training_machine(chosen: &ChosenPredictor<'_>) -> Option<MachineSpec> {
    let entry = chosen.pipeline.index.as_ref()?.0.get(&chosen.model.name.node_type)?;
    Some(entry.spec.clone())
}

/// The weights of each component; a request for any node also gets the predictor's name, error and
/// training machine.
fn weights_response(
    models: &ModelServerState,
    request: &selection::ModelRequest,
    chosen: &ChosenPredictor<'_>,
) -> Response {
    let model = chosen.model;
    let mut sorted: BTreeMap<String, Value> = match model.weights_value() {
        Some(Value::Object(object)) => {
            let is_component =
                |name: &String| model.source.components().iter().any(|component| component.name() == name);
            object.into_iter().filter(|(name, _)| is_component(name)).collect()
        }
        _ => BTreeMap::new(),
    };
    if request.is_any_node() {
        sorted.insert("model_name".into(), json!(model.full_name));
        if let Some(error) = model.error(&models.error_key) {
            sorted.insert(models.error_key.clone(), json!(error));
        }
        if let Some(machine) = training_machine(chosen) {
            sorted.insert("machine_spec".into(), json!(machine));
        }
    }
    match serde_json::to_string(&sorted) {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(error) => problem_response(StatusCode::INTERNAL_SERVER_ERROR, "weights", &error.to_string()),
    }
}

/// The published archive, unchanged; where there is none, an archive of the weights.
async fn archive_response(machine: Option<MachineSpec>, model: PipelineModel) -> Response {
    let name = model.full_name.clone();
    let bytes = tokio::task::spawn_blocking(move || model.zip(machine.as_ref())).await;
    match bytes {
        Ok(Ok(bytes)) => {
            let tag = Sha256::digest(&bytes).iter().take(16).fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            });
            let mut response = bytes.into_response();
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/zip"));
            if let Ok(tag) = HeaderValue::from_str(&format!("\"{tag}\"")) {
                headers.insert(header::ETAG, tag);
            }
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
            if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename={name}.zip")) {
                headers.insert(header::CONTENT_DISPOSITION, value);
            }
            response
        }
        Ok(Err(error)) => problem_response(StatusCode::INTERNAL_SERVER_ERROR, "archive", &error.to_string()),
        Err(_) => problem_response(StatusCode::INTERNAL_SERVER_ERROR, "archive", "could not be read"),
    }
}

async fn best_models(State(models): State<SharedModelServer>, RawQuery(query): RawQuery) -> Response {
    let asked = query_parameters(query.as_deref());
    let failed = |why: String| {
        problem_response(StatusCode::BAD_REQUEST, "query", &format!("failed to get best model list: {why}"))
    };
    let of = |name: &str| asked.get(name).map(String::as_str).filter(|value| !value.is_empty());
    let source = match EnergySource::from_request(of("energy_source")) {
        Ok(source) => source,
        Err(error) => return failed(error.to_string()),
    };
    let group = match of("feature_group").map(|name| FeatureGroup::named(name).ok_or(name)) {
        None => None,
        Some(Ok(group)) => Some(group),
        Some(Err(name)) => return failed(format!("feature-group is {name:?}; want one such as BPFOnly")),
    };
    let types = match of("output_type").map(|name| OutputType::named(name).ok_or(name)) {
        None => OutputType::ALL.to_vec(),
        Some(Ok(output_type)) => vec![output_type],
        Some(Err(name)) => return failed(format!("output-type is {name:?}; want AbsPower or DynPower")),
    };
    let node_type = match of("node_type").map(str::parse::<i64>) {
        None | Some(Ok(-1)) => -1,
        Some(Ok(number)) if number >= 0 => number,
        _ => return failed("node-type is no number of a node type".to_string()),
    };
    let registry = models.shelf.registry();
    if registry.active(source).is_none() {
        return failed(format!("no pipeline has predictors for {}", source.name()));
    }
    let mut answer = Map::new();
    for output_type in types {
        let request = selection::ModelRequest::read(&json!({
            "metrics": [], "output_type": output_type.name(), "source": source.name(), "loose_node_type": false,
            "node_type": node_type, "filter": of("filter").unwrap_or_default(),
        }));
        let request = match request {
            Ok(request) => request,
            Err(error) => return failed(error.to_string()),
        };
        let best = selection::best_of_groups(&registry, &request, group, &models.error_key);
        let best: BTreeMap<&str, &str> =
            best.iter().map(|(group, model)| (group.name(), model.full_name.as_str())).collect();
        answer.insert(output_type.name().to_string(), json!(best));
    }
    json_response(&Value::Object(answer))
}

/// All predictors with their errors, page by page: `from`, `limit`, `source`, `pipeline`.
async fn list_models(State(models): State<SharedModelServer>, RawQuery(query): RawQuery) -> Response {
    let asked = query_parameters(query.as_deref());
    let number =
        |name: &str, default: usize| asked.get(name).map_or(Ok(default), |value| value.parse::<usize>());
    let (Ok(from), Ok(limit)) = (number("from", 0), number("limit", 1000)) else {
        return problem_response(StatusCode::BAD_REQUEST, "from", "from and limit want whole numbers");
    };
    let registry = models.shelf.registry();
    let is_wanted = |name: &str, value: &str| asked.get(name).is_none_or(|expected| expected == value);
    let mut predictors = Vec::new();
    let mut count = 0usize;
    for pipeline in registry.pipelines.iter().filter(|pipeline| is_wanted("pipeline", &pipeline.name)) {
        for model in pipeline.models.iter().filter(|model| is_wanted("source", model.source.name())) {
            count += 1;
            if count <= from || predictors.len() >= limit.min(10_000) {
                continue;
            }
            let errors: BTreeMap<&str, f64> =
                model.errors.iter().map(|(key, value)| (key.as_str(), *value)).collect();
            let is_active = registry.active(model.source).is_some_and(|active| active.name == pipeline.name);
            let machine = pipeline.index.as_ref().and_then(|index| index.0.get(&model.name.node_type));
            predictors.push(json!({
                "pipeline": pipeline.name, "model_name": model.full_name, "source": model.source.name(), "output_type": model.output_type.name(),
                "feature_group": model.group.name(), "node_type": model.name.node_type, "machine_spec": machine.map(|entry| &entry.spec),
                "errors": errors, "weights": model.weights.is_some(), "archive": model.archive.is_some(),
                "estimator": model.is_usable(), "active": is_active,
            }));
        }
    }
    json_response(
        &json!({ "schema": "metier.power-predictors/1", "count": count, "predictors": predictors, "shipped": models.shelf.defaults().provenance }),
    )
}

fn refresh_estimator(models: &ModelServerState) {
    if let Some((estimator, _)) = &models.estimator {
        estimator.adopt_catalog(&models.shelf);
    }
}

async fn upload_model(State(models): State<SharedModelServer>, body: Bytes) -> Response {
    let response = tokio::task::spawn_blocking(move || store_upload(&models, &body)).await;
    response.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

fn store_upload(models: &ModelServerState, body: &[u8]) -> Response {
    let value: Value = match serde_json::from_slice(body) {
        Ok(value) => value,
        Err(error) => {
            return problem_response(StatusCode::BAD_REQUEST, "body", &format!("is no JSON: {error}"));
        }
    };
    let upload = PredictorUpload::read(&value);
    match upload.and_then(|upload| models.shelf.upload(&upload).map(|_| upload)) {
        Ok(upload) => {
            refresh_estimator(models);
            let body = json!({ "pipeline": upload.pipeline, "model_name": upload.name.to_string() });
            (StatusCode::CREATED, [(header::CONTENT_TYPE, "application/json")], body.to_string())
                .into_response()
        }
        Err(error) => error_response(&error),
    }
}

async fn reload(State(models): State<SharedModelServer>) -> Response {
    let (tell, receiver) = oneshot::channel();
    let work = move || {
        let warnings = models.shelf.reload();
        refresh_estimator(&models);
        let registry = models.shelf.registry();
        let names: Vec<&str> = registry.pipelines.iter().map(|pipeline| pipeline.name.as_str()).collect();
        let _ = tell.send(json!({ "pipelines": names, "warnings": warnings }));
    };
    // A thread of its own: a download may take long, and requests for archives must not wait for
    // it.
    let started = std::thread::Builder::new().name("metier-fetch".to_string()).spawn(work);
    match (started, receiver.await) {
        (Ok(_), Ok(answer)) => json_response(&answer),
        _ => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Ready after every address was tried once. Before that, clients would get the shipped predictors
/// instead of the configured ones.
async fn ready(State(models): State<SharedModelServer>) -> Response {
    match models.shelf.is_waiting() {
        true => (StatusCode::SERVICE_UNAVAILABLE, "pipelines are being fetched\n").into_response(),
        false => "ok\n".into_response(),
    }
}

async fn metrics(State(models): State<SharedModelServer>) -> Response {
    (
        [(header::CONTENT_TYPE, crate::http::request_metrics::TEXT_FORMAT)],
        super::metrics_page::render_page(&models),
    )
        .into_response()
}
