//! Kepler's offline trainer: `POST /train` learns a pipeline from a Prometheus response and returns
//! it as a zip.
//!
//! | route | purpose |
//! |---|---|
//! | `POST /train` | learns and returns the zip, as the original does |
//! | `POST /train?wait=false`, or with `Prefer: respond-async` | returns 202 and `Location: /jobs/ID` at once |
//! | `GET /jobs`, `GET /jobs/ID` | progress and results of trainings |
//! | `GET /jobs/ID/result` | the zip |
//! | `DELETE /jobs/ID` | stops a training |
//! | `GET /healthz`, `GET /metrics` | for probes and Prometheus |
//!
//! Reading needs no token on loopback, and the token elsewhere. Starting or ending a training needs
//! the token, or a process of the server's own user on this machine. If the client of a synchronous
//! request disconnects, its training stops.

mod train_request;
mod training_jobs;

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use metier_prom::{ExpositionFormat, MetricKind, MetricsPage, RenderedLabels};
use serde_json::{Value, json};

pub use training_jobs::TrainingJobQueue;

use super::model_server::{guard_routes, json_response, problem_response};
use super::online_trainer::OnlineTrainerStats;
use crate::http::HttpState;
use crate::http::body_reader::{RequestPermission, RequestRule};
use train_request::TrainRequest;
use training_jobs::{TrainingJob, TrainingState as Progress};

/// Kepler's clients expect the trainer on this port.
pub const PORT: u16 = 8102;

/// State that all requests share.
pub struct TrainerState {
    pub jobs: Arc<TrainingJobQueue>,
    /// Counters of the online trainer in the same process.
    pub online: Option<Arc<OnlineTrainerStats>>,
}

type SharedTrainer = Arc<TrainerState>;

/// What requests have to show and may send.
fn request_rule(method: &Method, path: &str) -> RequestRule {
    match *method {
        Method::GET | Method::HEAD => RequestRule::READ,
        _ => RequestRule {
            permission: RequestPermission::Start,
            media_type: (path == "/train").then_some("application/json"),
        },
    }
}

pub fn router(trainer: SharedTrainer, http: &Arc<HttpState>) -> Router {
    let routes = Router::new()
        .route("/train", post(handle_train))
        .route("/jobs", get(list_jobs))
        .route("/jobs/{id}", get(get_job).delete(stop_job))
        .route("/jobs/{id}/result", get(get_job_result))
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(|| async { "ok\n" }))
        .with_state(trainer);
    guard_routes(routes, http, request_rule)
}

/// Stops a training whose client is gone.
struct StopJobOnDrop(Arc<TrainingJob>);

impl Drop for StopJobOnDrop {
    fn drop(&mut self) {
        self.0.request_stop();
    }
}

async fn handle_train(
    State(trainer): State<SharedTrainer>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let waits = match wants_to_wait(query.as_deref(), &headers) {
        Ok(waits) => waits,
        Err(why) => return problem_response(StatusCode::BAD_REQUEST, "wait", &why),
    };
    // Parsing hundreds of megabytes of JSON would block all requests.
    let read = tokio::task::spawn_blocking(move || TrainRequest::read(&body)).await;
    let train = match read {
        Ok(Ok(train)) => train,
        Ok(Err(why)) => {
            let field = why.split(": ").next().unwrap_or_default().to_string();
            return problem_response(StatusCode::BAD_REQUEST, &field, &why);
        }
        Err(_) => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    };
    let Some(job) = trainer.jobs.add(train) else {
        let mut response = problem_response(
            StatusCode::SERVICE_UNAVAILABLE,
            "train",
            "too many trainings wait; try again later",
        );
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("30"));
        return response;
    };
    if !waits {
        let mut response = (StatusCode::ACCEPTED, json_response(&job.to_json())).into_response();
        if let Ok(place) = HeaderValue::from_str(&format!("/jobs/{}", job.id)) {
            response.headers_mut().insert(header::LOCATION, place);
        }
        return response;
    }
    let waiting = StopJobOnDrop(job.clone());
    job.wait_until_over().await;
    drop(waiting);
    zip_response(&job).await
}

fn wants_to_wait(query: Option<&str>, headers: &HeaderMap) -> Result<bool, String> {
    for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()).take(100) {
        match (name.as_ref(), value.as_ref()) {
            ("wait", "true") => return Ok(true),
            ("wait", "false") => return Ok(false),
            ("wait", other) => {
                let other = metier_power::kepler_terms::shorten(other);
                return Err(format!("wait is {other:?}; want true or false"));
            }
            _ => {}
        }
    }
    let prefers = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    Ok(!prefers
        .flat_map(|value| value.split(','))
        .any(|text| text.trim().eq_ignore_ascii_case("respond-async")))
}

/// The zip of a finished training, or why there is none.
async fn zip_response(job: &TrainingJob) -> Response {
    let name = &job.name;
    match job.state() {
        Progress::Done(path, _) => {
            let bytes = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
            let Ok(Ok(bytes)) = bytes else {
                return problem_response(StatusCode::GONE, "id", "the result was cleared away; train again");
            };
            let mut response = Body::from(bytes).into_response();
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/zip"));
            if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename={name}.zip")) {
                headers.insert(header::CONTENT_DISPOSITION, value);
            }
            response
        }
        Progress::Failed(fault) => {
            let why = format!("cannot train model {name}: {}", fault.why);
            match fault.field {
                Some(field) => problem_response(StatusCode::BAD_REQUEST, field, &why),
                None => problem_response(StatusCode::INTERNAL_SERVER_ERROR, "train", &why),
            }
        }
        Progress::Stopped => problem_response(StatusCode::GONE, "id", "the training was ended"),
        Progress::Waiting | Progress::Learning(..) => problem_response(
            StatusCode::CONFLICT,
            "id",
            "the training is not over; ask /jobs/ID how far it is",
        ),
    }
}

async fn list_jobs(State(trainer): State<SharedTrainer>) -> Response {
    let jobs: Vec<Value> = trainer.jobs.list().iter().map(|job| job.to_json()).collect();
    json_response(&json!({ "schema": "metier.power-trainings/1", "jobs": jobs }))
}

fn find_job(trainer: &TrainerState, id: &str) -> Option<Arc<TrainingJob>> {
    id.parse().ok().and_then(|id| trainer.jobs.get(id))
}

fn unknown_job(id: &str) -> Response {
    let id = metier_power::kepler_terms::shorten(id);
    let why = format!("there is no training {id:?}; /jobs lists those that are remembered");
    problem_response(StatusCode::NOT_FOUND, "id", &why)
}

async fn get_job(State(trainer): State<SharedTrainer>, Path(id): Path<String>) -> Response {
    find_job(&trainer, &id).map_or_else(|| unknown_job(&id), |job| json_response(&job.to_json()))
}

async fn get_job_result(State(trainer): State<SharedTrainer>, Path(id): Path<String>) -> Response {
    match find_job(&trainer, &id) {
        Some(job) => zip_response(&job).await,
        None => unknown_job(&id),
    }
}

async fn stop_job(State(trainer): State<SharedTrainer>, Path(id): Path<String>) -> Response {
    match find_job(&trainer, &id) {
        Some(job) => {
            job.request_stop();
            json_response(&job.to_json())
        }
        None => unknown_job(&id),
    }
}

async fn metrics(State(trainer): State<SharedTrainer>) -> Response {
    let mut page = MetricsPage::new(ExpositionFormat::Text);
    let mut family = page.begin_family(
        "metier_power_trainings_total",
        MetricKind::Counter,
        "Trainings that are over, by outcome.",
    );
    for (outcome, count) in ["done", "failed", "stopped"].iter().zip(trainer.jobs.ended_counts()) {
        family.add_sample(&RenderedLabels::default().with_label("outcome", outcome), count as f64);
    }
    let open = trainer.jobs.list().iter().filter(|job| !job.state().is_over()).count();
    let mut family =
        page.begin_family("metier_power_trainings_open", MetricKind::Gauge, "Trainings that are not over.");
    family.add_sample(&RenderedLabels::default(), open as f64);
    if let Some(online) = &trainer.online {
        online.write(&mut page);
    }
    ([(header::CONTENT_TYPE, crate::http::request_metrics::TEXT_FORMAT)], page.finish()).into_response()
}
