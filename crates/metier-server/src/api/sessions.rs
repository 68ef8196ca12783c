//! The queue of sessions: add, list, show, cancel.

use axum::http::{StatusCode, header};
use metier_session::queue::{QueueError, SessionSubmission, read_file, submit_session};
use metier_session::runfile::{RunFileFault, RunFileFaults};
use metier_store::{CancelOutcome, SessionFilter};
use metier_types::schema::{RecordSchema, VersionedRecord};
use metier_types::{ExtraFields, SessionId, SessionOrigin, SessionRecord, SessionRequester, SessionState};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app_state::SharedAppState;
use crate::http::parameter::{ParameterForm, RouteParameter};
use crate::http::problem::{FieldError, ProblemDetails};
use crate::http::{HandlerRequest, HandlerResponse};
use crate::session_redaction::redact_session;
use crate::storage;

/// Filters of the list.
pub const SESSION_FILTERS: &[RouteParameter] = &[
    RouteParameter::query("state", ParameterForm::OneOf(&SessionState::WORDS), "Where they stand."),
    RouteParameter::query("job", ParameterForm::Job, "Asked for by this job."),
    RouteParameter::query(
        "limit",
        ParameterForm::Whole { least: 1, most: 1000, otherwise: Some(50) },
        "How many to give at most.",
    ),
    RouteParameter::query(
        "before",
        ParameterForm::Whole { least: 1, most: i64::MAX, otherwise: None },
        "With a lower number than this.",
    ),
];
/// Parameters beside the run file.
pub const ADD_PARAMETERS: &[RouteParameter] = &[RouteParameter::query(
    "device",
    ParameterForm::Device,
    "Id or name of the device that must measure it.",
)];
pub const SESSION_PARAMETERS: &[RouteParameter] =
    &[RouteParameter::path("id", ParameterForm::Session, "The session.")];

/// Sessions, newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SessionList {
    /// `metier.sessions/1`.
    pub schema: RecordSchema<SessionList>,
    /// The sessions.
    pub sessions: Vec<SessionRecord>,
}

impl VersionedRecord for SessionList {
    const SCHEMA: &'static str = "metier.sessions/1";
}

/// Sessions that match the filters.
pub fn list_sessions(app: &SharedAppState, call: &HandlerRequest) -> Result<HandlerResponse, ProblemDetails> {
    let arguments = &call.arguments;
    let whole = |name: &str| arguments.integer(name).and_then(|number| u64::try_from(number).ok());
    let filter = SessionFilter {
        state: arguments.enum_value::<SessionState>("state")?,
        job: arguments.text("job").map(str::to_string),
        before: whole("before"),
        limit: whole("limit").and_then(|limit| u32::try_from(limit).ok()).unwrap_or_default(),
    };
    let mut sessions = app.storage.store()?.sessions(&filter).map_err(storage::store_problem)?;
    sessions.iter_mut().for_each(redact_session);
    HandlerResponse::json(&SessionList { schema: RecordSchema::new(), sessions })
}

pub fn get_session(app: &SharedAppState, call: &HandlerRequest) -> Result<HandlerResponse, ProblemDetails> {
    HandlerResponse::json(&load_session(app, call)?)
}

/// Output of a session.
pub fn get_session_log(
    app: &SharedAppState,
    call: &HandlerRequest,
) -> Result<HandlerResponse, ProblemDetails> {
    let session = load_session(app, call)?;
    let (text, _) = app.storage.store()?.session_log(session.id, 0).map_err(storage::store_problem)?;
    Ok(HandlerResponse::new("text/plain; charset=utf-8", String::from_utf8_lossy(&text).into_owned()))
}

/// Adds a run file to the queue.
pub fn add_session(app: &SharedAppState, call: &HandlerRequest) -> Result<HandlerResponse, ProblemDetails> {
    const TYPES: [&str; 3] = ["application/json", "application/yaml", "application/x-yaml"];
    let media_type = call.media_type();
    if !TYPES.contains(&media_type.as_str()) {
        let error = FieldError::new("Content-Type", &media_type, "application/json or application/yaml");
        return Err(ProblemDetails::fields(StatusCode::UNSUPPORTED_MEDIA_TYPE, vec![error]));
    }
    let text = std::str::from_utf8(&call.body).map_err(|_| {
        ProblemDetails::bad_field("body", "bytes that are not UTF-8", "a run file, JSON or YAML")
    })?;
    let file = read_file(text).map_err(|faults| fault_problem(StatusCode::UNPROCESSABLE_ENTITY, &faults))?;
    let asker =
        SessionRequester { door: SessionOrigin::Api, user: call.user.clone(), extra: ExtraFields::new() };
    let device = call.arguments.text("device").map(str::to_string);
    let wish = SessionSubmission { file, asker, job: None, device, folder: None };
    let mut session = submit_session(&app.storage.store()?, wish).map_err(queue_problem)?;
    redact_session(&mut session);
    let place = format!("/api/v1/sessions/{}", session.id);
    HandlerResponse::json(&session)?.status(StatusCode::ACCEPTED).with_header(header::LOCATION, &place)
}

pub fn cancel_session(
    app: &SharedAppState,
    call: &HandlerRequest,
) -> Result<HandlerResponse, ProblemDetails> {
    let session = load_session(app, call)?;
    let store = app.storage.store()?;
    let status =
        match store.cancel_session(session.id, &canceller_name(call)).map_err(storage::store_problem)? {
            CancelOutcome::Removed => StatusCode::OK,
            CancelOutcome::WorkerNotified => StatusCode::ACCEPTED,
            CancelOutcome::AlreadyOver => {
                let detail = format!("session {} is {} already", session.number, session.state.word());
                return Err(ProblemDetails::new(StatusCode::CONFLICT, detail));
            }
        };
    Ok(HandlerResponse::json(&load_session(app, call)?)?.status(status))
}

/// Name of the caller that cancels, as the end of "cancelled …".
pub fn canceller_name(call: &HandlerRequest) -> String {
    match &call.user {
        Some(user) => format!("by {user}"),
        None => "over the network".to_string(),
    }
}

fn load_session(app: &SharedAppState, call: &HandlerRequest) -> Result<SessionRecord, ProblemDetails> {
    let id: SessionId = call.arguments.required("id")?;
    let session = app.storage.store()?.session(id).map_err(storage::store_problem)?;
    let mut session = session.ok_or_else(|| ProblemDetails::not_found("session", &id.to_string()))?;
    redact_session(&mut session);
    Ok(session)
}

/// Faults of a run file, field by field.
pub fn fault_problem(status: StatusCode, faults: &RunFileFaults) -> ProblemDetails {
    let error = |fault: &RunFileFault| {
        let field = if fault.field.is_empty() { "body" } else { &fault.field };
        let error = match &fault.got {
            Some(got) => FieldError::new(field, got, &fault.want),
            None => FieldError::absent(field, &fault.want),
        };
        error.with_line(fault.line())
    };
    ProblemDetails::fields(status, faults.iter().take(20).map(error).collect())
}

/// Why the queue refused a session.
pub fn queue_problem(error: QueueError) -> ProblemDetails {
    match error {
        QueueError::Store(error @ metier_store::Error::QueueFull { .. }) => {
            ProblemDetails::new(StatusCode::TOO_MANY_REQUESTS, error.to_string())
                .with_header(header::RETRY_AFTER, "30")
        }
        QueueError::Store(error) => storage::store_problem(error),
        QueueError::File(faults) => fault_problem(StatusCode::UNPROCESSABLE_ENTITY, &faults),
        other => ProblemDetails::new(StatusCode::INTERNAL_SERVER_ERROR, other.to_string()),
    }
}
