//! The queue of sessions: asking, looking, cancelling.

use axum::http::{StatusCode, header};
use metier_session::queue::{Ask, Error, ask, read_file};
use metier_session::runfile::{Fault, Faults};
use metier_store::{Cancelled, SessionFilter};
use metier_types::schema::{Schema, Versioned};
use metier_types::{Asker, Door, Extra, Session, SessionId, SessionState};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::http::parameter::{Form, Parameter};
use crate::http::problem::{FieldError, Problem};
use crate::http::{Call, Reply};
use crate::storage;

/// What narrows the list.
pub const FILTERS: &[Parameter] = &[
    Parameter::query("state", Form::OneOf(&SessionState::WORDS), "Where they stand."),
    Parameter::query("job", Form::Job, "Asked for by this job."),
    Parameter::query(
        "limit",
        Form::Whole { least: 1, most: 1000, otherwise: Some(50) },
        "How many to give at most.",
    ),
    Parameter::query(
        "before",
        Form::Whole { least: 1, most: i64::MAX, otherwise: None },
        "With a lower number than this.",
    ),
];
/// What goes with a run file.
pub const ASKED: &[Parameter] =
    &[Parameter::query("device", Form::Device, "Id or name of the device that must measure it.")];
pub const ONE: &[Parameter] = &[Parameter::path("id", Form::Session, "The session.")];

/// Sessions, newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SessionList {
    /// `metier.sessions/1`.
    pub schema: Schema<SessionList>,
    /// The sessions.
    pub sessions: Vec<Session>,
}

impl Versioned for SessionList {
    const SCHEMA: &'static str = "metier.sessions/1";
}

/// Sessions that fit the filters.
pub fn list(app: &App, call: &Call) -> Result<Reply, Problem> {
    let arguments = &call.arguments;
    let whole = |name: &str| arguments.whole(name).and_then(|number| u64::try_from(number).ok());
    let filter = SessionFilter {
        state: arguments.word::<SessionState>("state")?,
        job: arguments.text("job").map(str::to_string),
        before: whole("before"),
        limit: whole("limit").and_then(|limit| u32::try_from(limit).ok()).unwrap_or_default(),
    };
    let sessions = app.storage.store()?.sessions(&filter).map_err(storage::problem)?;
    Reply::json(&SessionList { schema: Schema::new(), sessions })
}

pub fn one(app: &App, call: &Call) -> Result<Reply, Problem> {
    Reply::json(&found(app, call)?)
}

/// What a session printed.
pub fn log(app: &App, call: &Call) -> Result<Reply, Problem> {
    let session = found(app, call)?;
    let (text, _) = app.storage.store()?.session_log(session.id, 0).map_err(storage::problem)?;
    Ok(Reply::new("text/plain; charset=utf-8", String::from_utf8_lossy(&text).into_owned()))
}

/// Puts a run file in the queue.
pub fn add(app: &App, call: &Call) -> Result<Reply, Problem> {
    const TYPES: [&str; 3] = ["application/json", "application/yaml", "application/x-yaml"];
    let media_type = call.media_type();
    if !TYPES.contains(&media_type.as_str()) {
        let error = FieldError::new("Content-Type", &media_type, "application/json or application/yaml");
        return Err(Problem::fields(StatusCode::UNSUPPORTED_MEDIA_TYPE, vec![error]));
    }
    let text = std::str::from_utf8(&call.body)
        .map_err(|_| Problem::bad_field("body", "bytes that are not UTF-8", "a run file, JSON or YAML"))?;
    let file = read_file(text).map_err(|faults| faulty(StatusCode::UNPROCESSABLE_ENTITY, &faults))?;
    let asker = Asker { door: Door::Api, user: call.user.clone(), extra: Extra::new() };
    let device = call.arguments.text("device").map(str::to_string);
    let wish = Ask { file, asker, job: None, device, folder: None };
    let session = ask(&app.storage.store()?, wish).map_err(problem)?;
    let place = format!("/api/v1/sessions/{}", session.id);
    Reply::json(&session)?.status(StatusCode::ACCEPTED).with(header::LOCATION, &place)
}

pub fn cancel(app: &App, call: &Call) -> Result<Reply, Problem> {
    let session = found(app, call)?;
    let store = app.storage.store()?;
    let status = match store.cancel_session(session.id, &canceller(call)).map_err(storage::problem)? {
        Cancelled::Removed => StatusCode::OK,
        Cancelled::Told => StatusCode::ACCEPTED,
        Cancelled::Over => {
            let detail = format!("session {} is {} already", session.number, session.state.word());
            return Err(Problem::new(StatusCode::CONFLICT, detail));
        }
    };
    Ok(Reply::json(&found(app, call)?)?.status(status))
}

/// Who cancels, as the end of "cancelled …".
pub fn canceller(call: &Call) -> String {
    match &call.user {
        Some(user) => format!("by {user}"),
        None => "over the network".to_string(),
    }
}

fn found(app: &App, call: &Call) -> Result<Session, Problem> {
    let id: SessionId = call.arguments.needed("id")?;
    let session = app.storage.store()?.session(id).map_err(storage::problem)?;
    session.ok_or_else(|| Problem::not_found("session", &id.to_string()))
}

/// What is wrong with a run file, field by field.
pub fn faulty(status: StatusCode, faults: &Faults) -> Problem {
    let error = |fault: &Fault| {
        let field = if fault.field.is_empty() { "body" } else { &fault.field };
        let error = match &fault.got {
            Some(got) => FieldError::new(field, got, &fault.want),
            None => FieldError::absent(field, &fault.want),
        };
        error.at(fault.line())
    };
    Problem::fields(status, faults.iter().take(20).map(error).collect())
}

/// Why the queue took no session.
pub fn problem(error: Error) -> Problem {
    match error {
        Error::Store(error @ metier_store::Error::QueueFull { .. }) => {
            Problem::new(StatusCode::TOO_MANY_REQUESTS, error.to_string()).with(header::RETRY_AFTER, "30")
        }
        Error::Store(error) => storage::problem(error),
        Error::File(faults) => faulty(StatusCode::UNPROCESSABLE_ENTITY, &faults),
        other => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, other.to_string()),
    }
}
