//! A Jenkins-compatible interface. Clients that start a job with parameters, follow it through
//! Jenkins's queue and read its console find the same addresses and fields here.
//!
//! A job is a name with defaults. A build is a session; its queue item has the same number. The
//! parameters are those of the Waggle profiling pipeline: an image, its arguments, and flags of
//! `docker run`. All three are translated into a run file, on top of the job's defaults; none ever
//! reaches a shell.
//!
//! Limits: no multipart forms, no `delay`, no `tree`; these short records are always sent whole.

use axum::http::{StatusCode, header};
use metier_session::queue::{SessionSubmission, read_file, submit_session};
use metier_session::runfile::split_words;
use metier_types::{ExtraFields, SessionOrigin, SessionRecord, SessionRequester, SessionState, UtcTimestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::api::sessions;
use crate::app_state::SharedAppState;
use crate::docker_flags;
use crate::http::parameter::{ParameterForm, RouteParameter};
use crate::http::problem::{FieldError, ProblemDetails};
use crate::http::{HandlerRequest, HandlerResponse};
use crate::session_redaction::{DOCKER_FLAGS_FIELD, redact_session};
use crate::storage;

/// The image, its arguments, and flags of `docker run`.
pub const BUILD_FIELDS: [&str; 3] = ["app_name", "app_args", DOCKER_FLAGS_FIELD];
const MAX_FIELD_CHARS: usize = 64 << 10;
const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

const JOB_NAME: RouteParameter = RouteParameter::path("name", ParameterForm::Job, "The job.");
const BUILD_NUMBER: RouteParameter = RouteParameter::path(
    "number",
    ParameterForm::Whole { least: 1, most: i64::MAX, otherwise: None },
    "The number of the build.",
);
const ITEM_NUMBER: RouteParameter = RouteParameter::path(
    "number",
    ParameterForm::Whole { least: 1, most: i64::MAX, otherwise: None },
    "The number of the queue's item.",
);
const DEPTH: RouteParameter = RouteParameter::query(
    "depth",
    ParameterForm::Whole { least: 0, most: 10, otherwise: None },
    "Of no effect; clients send it.",
);
const TREE: RouteParameter =
    RouteParameter::query("tree", ParameterForm::Text(1000), "Of no effect; clients send it.");

/// Parameters that start a build; the fields may stand in the query or in the body.
pub const START_PARAMETERS: &[RouteParameter] = &[
    JOB_NAME,
    RouteParameter::query("app_name", ParameterForm::Text(MAX_FIELD_CHARS), "The image."),
    RouteParameter::query(
        "app_args",
        ParameterForm::Text(MAX_FIELD_CHARS),
        "Its arguments, as a shell would take them apart.",
    ),
    RouteParameter::query("app_docker_args", ParameterForm::Text(MAX_FIELD_CHARS), "Flags of `docker run`."),
];
pub const JOB_PARAMETERS: &[RouteParameter] = &[JOB_NAME, DEPTH, TREE];
pub const BUILD_PARAMETERS: &[RouteParameter] = &[JOB_NAME, BUILD_NUMBER, DEPTH, TREE];
/// Parameters of a queue item.
pub const ITEM_PARAMETERS: &[RouteParameter] = &[ITEM_NUMBER, DEPTH, TREE];
/// Parameters that cancel an item.
pub const CANCEL_PARAMETERS: &[RouteParameter] = &[RouteParameter::required_query(
    "id",
    ParameterForm::Whole { least: 1, most: i64::MAX, otherwise: None },
    "The number of the queue's item.",
)];

/// The form that starts a build.
#[derive(Debug, Serialize, JsonSchema)]
#[allow(dead_code, reason = "describes a form")]
pub struct JenkinsBuildRequest {
    /// The image.
    app_name: String,
    /// Its arguments, split as a shell would.
    #[serde(default)]
    app_args: String,
    /// Flags of `docker run`.
    #[serde(default)]
    app_docker_args: String,
}

/// A build, with the Jenkins fields that clients read.
#[derive(Debug, Serialize, JsonSchema)]
pub struct JenkinsBuild {
    #[serde(rename = "_class")]
    class: &'static str,
    number: u64,
    id: String,
    url: String,
    #[serde(rename = "displayName")]
    display_name: String,
    #[serde(rename = "fullDisplayName")]
    full_display_name: String,
    #[serde(rename = "queueId")]
    queue_id: u64,
    /// Whether it is running.
    building: bool,
    /// `SUCCESS`, `FAILURE` or `ABORTED`; `null` while it is running.
    result: Option<&'static str>,
    /// Milliseconds since 1970.
    timestamp: i64,
    /// Milliseconds; 0 while it is running.
    duration: i64,
    #[serde(rename = "estimatedDuration")]
    estimated_duration: i64,
    /// Reason of its result.
    description: Option<String>,
    actions: Vec<Value>,
    /// The session behind it.
    metier: Value,
}

/// A queue item, with the Jenkins fields that clients read.
#[derive(Debug, Serialize, JsonSchema)]
pub struct JenkinsQueueItem {
    #[serde(rename = "_class")]
    class: &'static str,
    id: u64,
    url: String,
    #[serde(rename = "inQueueSince")]
    in_queue_since: i64,
    blocked: bool,
    buildable: bool,
    stuck: bool,
    cancelled: bool,
    why: Option<String>,
    task: Value,
    /// The build, once it has started.
    executable: Option<Value>,
}

/// A job, with the Jenkins fields that clients read.
#[derive(Debug, Serialize, JsonSchema)]
pub struct JenkinsJob {
    #[serde(rename = "_class")]
    class: &'static str,
    name: String,
    #[serde(rename = "fullName")]
    full_name: String,
    url: String,
    buildable: bool,
    #[serde(rename = "inQueue")]
    in_queue: bool,
    builds: Vec<Value>,
    #[serde(rename = "lastBuild")]
    last_build: Option<Value>,
}

/// Adds a session to the queue.
pub fn start_build(app: &SharedAppState, call: &HandlerRequest) -> Result<HandlerResponse, ProblemDetails> {
    let job = find_job(app, call)?;
    let given = read_build_fields(call)?;
    let of = |name: &str| given.iter().find(|(known, _)| known == name).map_or("", |(_, text)| text.trim());
    let mut errors = Vec::new();
    if of("app_name").is_empty() {
        errors.push(FieldError::absent("app_name", "the image to run"));
    }
    let mut file = Map::new();
    file.insert("image".into(), json!(of("app_name")));
    let mut tags = job.defaults.get("tags").and_then(Value::as_array).cloned().unwrap_or_default();
    tags.push(json!(format!("job:{}", job.name)));
    match split_words(of("app_args")) {
        Some(words) if words.is_empty() => {}
        Some(words) => drop(file.insert("arguments".into(), json!(words))),
        None => errors.push(docker_flags::unclosed_quote("app_args", of("app_args"))),
    }
    if let Err(more) = docker_flags::read_docker_flags("app_docker_args", of("app_docker_args"), &mut file) {
        errors.extend(more);
    }
    if !errors.is_empty() {
        return Err(ProblemDetails::fields(StatusCode::BAD_REQUEST, errors));
    }
    file.insert("tags".into(), Value::Array(tags));
    let file = read_file(&Value::Object(merge_defaults(job.defaults.clone(), file)).to_string()).map_err(
        |faults| {
            let mut errors = sessions::fault_problem(StatusCode::BAD_REQUEST, &faults).errors;
            errors.iter_mut().for_each(|error| error.field = sent_field_name(&error.field));
            ProblemDetails::fields(StatusCode::BAD_REQUEST, errors)
        },
    )?;
    let as_sent =
        |name: &str| given.iter().find(|(known, _)| known == name).map_or("", |(_, text)| text.as_str());
    let parameters: Map<String, Value> =
        BUILD_FIELDS.iter().map(|name| (name.to_string(), json!(as_sent(name)))).collect();
    let extra = ExtraFields::from_iter([("parameters".to_string(), Value::Object(parameters))]);
    let asker = SessionRequester { door: SessionOrigin::Jenkins, user: call.user.clone(), extra };
    let wish = SessionSubmission {
        file,
        asker,
        job: Some(job.name.clone()),
        device: job.device.clone(),
        folder: None,
    };
    let session = submit_session(&app.storage.store()?, wish).map_err(sessions::queue_problem)?;
    let place = format!("{}queue/item/{}/", call.base_url(), session.number);
    HandlerResponse::new(PLAIN_TEXT, "").status(StatusCode::CREATED).with_header(header::LOCATION, &place)
}

/// Merges the request into the job's defaults: lists are appended, except the arguments; tables are
/// merged; the rest is replaced.
fn merge_defaults(mut defaults: Map<String, Value>, sent: Map<String, Value>) -> Map<String, Value> {
    for (name, value) in sent {
        match (defaults.get_mut(&name), value) {
            (Some(Value::Array(had)), Value::Array(more)) if name == "mounts" => had.extend(more),
            (Some(Value::Object(had)), Value::Object(more)) => had.extend(more),
            (_, value) => drop(defaults.insert(name, value)),
        }
    }
    defaults
}

/// Maps a field of the run file to the sent field that it came from; a field of the job's defaults
/// keeps its name.
fn sent_field_name(field: &str) -> String {
    let root = field.split(['.', '[']).next().unwrap_or(field);
    let sent = match root {
        "image" => "app_name",
        "arguments" => "app_args",
        "mounts" | "environment" | "container" | "limits" | "working_directory" => "app_docker_args",
        _ => return field.to_string(),
    };
    sent.to_string()
}

/// The three fields, from the query and the body.
fn read_build_fields(call: &HandlerRequest) -> Result<Vec<(String, String)>, ProblemDetails> {
    let mut given: Vec<(String, String)> = BUILD_FIELDS
        .iter()
        .filter_map(|name| Some((name.to_string(), call.arguments.text(name)?.to_string())))
        .collect();
    if call.body.is_empty() {
        return Ok(given);
    }
    let media_type = call.media_type();
    if media_type != "application/x-www-form-urlencoded" {
        let want = "application/x-www-form-urlencoded";
        let errors = vec![FieldError::new("Content-Type", &media_type, want)];
        return Err(ProblemDetails::fields(StatusCode::UNSUPPORTED_MEDIA_TYPE, errors));
    }
    let mut errors = Vec::new();
    for (name, text) in form_urlencoded::parse(&call.body) {
        if !BUILD_FIELDS.contains(&name.as_ref()) {
            errors.push(FieldError::new(
                name,
                "an unknown field",
                format!("only {}", BUILD_FIELDS.join(", ")),
            ));
        } else if given.iter().any(|(known, _)| *known == name) {
            errors.push(FieldError::new(name, &text, "each field once"));
        } else if text.chars().count() > MAX_FIELD_CHARS {
            errors.push(FieldError::new(name, &text, format!("at most {MAX_FIELD_CHARS} characters")));
        } else {
            given.push((name.into_owned(), text.into_owned()));
        }
    }
    errors.truncate(20);
    if errors.is_empty() { Ok(given) } else { Err(ProblemDetails::fields(StatusCode::BAD_REQUEST, errors)) }
}

/// A queue item.
pub fn get_queue_item(
    app: &SharedAppState,
    call: &HandlerRequest,
) -> Result<HandlerResponse, ProblemDetails> {
    let session = find_item_session(app, call, "number")?;
    let job = session.job.clone().unwrap_or_default();
    let base = call.base_url();
    let waits = session.state == SessionState::Queued;
    let has_begun = session.started.is_some();
    let device = match &session.device {
        Some(name) if is_unknown_device(app, name)? => {
            format!(
                "the device {name:?}, which is unknown here: no device with that name or id has measured yet"
            )
        }
        Some(name) => format!("the device {name:?}"),
        None => "the device".to_string(),
    };
    let why = match session.position {
        Some(1) => Some(format!("waits for {device}")),
        Some(place) => Some(format!("waits at place {place} for {device}")),
        None => None,
    };
    HandlerResponse::json(&JenkinsQueueItem {
        class: if waits { "hudson.model.Queue$BuildableItem" } else { "hudson.model.Queue$LeftItem" },
        id: session.number,
        url: format!("queue/item/{}/", session.number),
        in_queue_since: session.asked.as_millisecond(),
        blocked: false,
        buildable: waits,
        stuck: false,
        cancelled: session.state == SessionState::Cancelled && !has_begun,
        why,
        task: json!({ "name": job, "url": format!("{base}job/{job}/") }),
        executable: has_begun
            .then(|| json!({ "number": session.number, "url": build_url(&base, &job, session.number) })),
    })
}

/// Whether no device has this name or id.
fn is_unknown_device(app: &SharedAppState, name: &str) -> Result<bool, ProblemDetails> {
    let devices = app.storage.store()?.devices().map_err(storage::store_problem)?;
    Ok(!devices.iter().any(|device| device.name == name || device.id.as_str() == name))
}

/// Removes an item from the queue.
pub fn cancel_item(app: &SharedAppState, call: &HandlerRequest) -> Result<HandlerResponse, ProblemDetails> {
    let session = find_item_session(app, call, "id")?;
    let by = sessions::canceller_name(call);
    app.storage.store()?.cancel_session(session.id, &by).map_err(storage::store_problem)?;
    Ok(HandlerResponse { status: StatusCode::NO_CONTENT, ..HandlerResponse::new(PLAIN_TEXT, "") })
}

pub fn get_build(app: &SharedAppState, call: &HandlerRequest) -> Result<HandlerResponse, ProblemDetails> {
    HandlerResponse::json(&build_of_session(&find_started_session(app, call)?, &call.base_url()))
}

/// The latest build of a job.
pub fn get_last_build(
    app: &SharedAppState,
    call: &HandlerRequest,
) -> Result<HandlerResponse, ProblemDetails> {
    let job = find_job(app, call)?;
    let last = list_builds(app, &job.name)?.into_iter().next();
    let last = last.ok_or_else(|| ProblemDetails::not_found("build of job", &job.name))?;
    HandlerResponse::json(&build_of_session(&last, &call.base_url()))
}

/// Output of a build.
pub fn get_console(app: &SharedAppState, call: &HandlerRequest) -> Result<HandlerResponse, ProblemDetails> {
    let session = find_started_session(app, call)?;
    let (text, _) = app.storage.store()?.session_log(session.id, 0).map_err(storage::store_problem)?;
    Ok(HandlerResponse::new(PLAIN_TEXT, String::from_utf8_lossy(&text).into_owned()))
}

pub fn stop_build(app: &SharedAppState, call: &HandlerRequest) -> Result<HandlerResponse, ProblemDetails> {
    let session = find_started_session(app, call)?;
    let by = sessions::canceller_name(call);
    app.storage.store()?.cancel_session(session.id, &by).map_err(storage::store_problem)?;
    HandlerResponse::json(&build_of_session(&session, &call.base_url()))
}

pub fn get_job(app: &SharedAppState, call: &HandlerRequest) -> Result<HandlerResponse, ProblemDetails> {
    let job = find_job(app, call)?;
    let base = call.base_url();
    let reference = |session: &SessionRecord| json!({ "_class": BUILD_CLASS, "number": session.number, "url": build_url(&base, &job.name, session.number) });
    let builds = list_builds(app, &job.name)?;
    let waits = metier_store::SessionFilter {
        state: Some(SessionState::Queued),
        job: Some(job.name.clone()),
        limit: 1,
        ..Default::default()
    };
    let in_queue = !app.storage.store()?.sessions(&waits).map_err(storage::store_problem)?.is_empty();
    HandlerResponse::json(&JenkinsJob {
        class: "org.jenkinsci.plugins.workflow.job.WorkflowJob",
        name: job.name.clone(),
        full_name: job.name.clone(),
        url: format!("{base}job/{}/", job.name),
        buildable: true,
        in_queue,
        last_build: builds.first().map(reference),
        builds: builds.iter().map(reference).collect(),
    })
}

const BUILD_CLASS: &str = "org.jenkinsci.plugins.workflow.job.WorkflowRun";

fn build_of_session(session: &SessionRecord, base: &str) -> JenkinsBuild {
    let job = session.job.clone().unwrap_or_default();
    let started = session.started.unwrap_or(session.asked);
    let millis = |at: UtcTimestamp| at.as_millisecond();
    let parameters: Vec<Value> = session
        .asker
        .extra
        .get("parameters")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, value)| json!({ "_class": "hudson.model.StringParameterValue", "name": name, "value": value }))
        .collect();
    JenkinsBuild {
        class: BUILD_CLASS,
        number: session.number,
        id: session.number.to_string(),
        url: build_url(base, &job, session.number),
        display_name: format!("#{}", session.number),
        full_display_name: format!("{job} #{}", session.number),
        queue_id: session.number,
        building: session.state == SessionState::Running,
        result: match session.state {
            SessionState::Finished => Some("SUCCESS"),
            SessionState::Failed => Some("FAILURE"),
            SessionState::Cancelled | SessionState::Interrupted => Some("ABORTED"),
            SessionState::Queued | SessionState::Running => None,
        },
        timestamp: millis(started),
        duration: session.ended.map_or(0, |ended| (millis(ended) - millis(started)).max(0)),
        estimated_duration: -1,
        description: session.reason.clone(),
        actions: vec![json!({ "_class": "hudson.model.ParametersAction", "parameters": parameters })],
        metier: json!({ "session": session.id, "batch": session.batch, "runs": session.runs }),
    }
}

fn build_url(base: &str, job: &str, number: u64) -> String {
    format!("{base}job/{job}/{number}/")
}

/// The job of the address, with its defaults.
fn find_job(
    app: &SharedAppState,
    call: &HandlerRequest,
) -> Result<crate::config::JenkinsJobConfig, ProblemDetails> {
    let name: String = call.arguments.required("name")?;
    let known = &app.config.jobs;
    match known.iter().find(|job| job.name == name) {
        Some(job) => Ok(job.clone()),
        None if known.is_empty() => {
            let defaults = crate::config::JenkinsJobConfig::default_fields();
            Ok(crate::config::JenkinsJobConfig { name, device: None, defaults })
        }
        None => {
            let names: Vec<&str> = known.iter().map(|job| job.name.as_str()).collect();
            let errors = vec![FieldError::new("name", &name, format!("one of {}", names.join(", ")))];
            Err(ProblemDetails::fields(StatusCode::NOT_FOUND, errors))
        }
    }
}

/// A session of this interface, by its number.
fn find_item_session(
    app: &SharedAppState,
    call: &HandlerRequest,
    field: &str,
) -> Result<SessionRecord, ProblemDetails> {
    let number: u64 = call.arguments.required(field)?;
    let found = app.storage.store()?.session_by_number(number).map_err(storage::store_problem)?;
    found
        .filter(|session| session.job.is_some())
        .ok_or_else(|| ProblemDetails::not_found("queue item", &number.to_string()))
}

/// The build of the address: a session of that job that has started.
fn find_started_session(
    app: &SharedAppState,
    call: &HandlerRequest,
) -> Result<SessionRecord, ProblemDetails> {
    let job = find_job(app, call)?;
    let number: u64 = call.arguments.required("number")?;
    let found = app.storage.store()?.session_by_number(number).map_err(storage::store_problem)?;
    let mut session = found
        .filter(|session| session.job.as_deref() == Some(job.name.as_str()) && session.started.is_some())
        .ok_or_else(|| ProblemDetails::not_found("build", &number.to_string()))?;
    redact_session(&mut session);
    Ok(session)
}

/// The builds of a job, newest first.
fn list_builds(app: &SharedAppState, job: &str) -> Result<Vec<SessionRecord>, ProblemDetails> {
    let filter = metier_store::SessionFilter { job: Some(job.to_string()), limit: 100, ..Default::default() };
    let mut builds = app.storage.store()?.sessions(&filter).map_err(storage::store_problem)?;
    builds.retain(|session| session.started.is_some());
    builds.iter_mut().for_each(redact_session);
    Ok(builds)
}
