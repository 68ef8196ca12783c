//! Reads whole bodies, within the limit of the path, the memory of all bodies and the time that a
//! client may pause.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt as _;
use http_body_util::BodyExt as _;

use super::HttpState;
use super::connection_places::ConnectionSeat;
use super::credentials;
use super::peer_user::ConnectionEnds;
use super::problem::{FieldError, ProblemDetails};

/// How long the large body of a process may pause: it holds memory beyond the common budget.
const LARGE_PAUSE: Duration = Duration::from_secs(2);

/// What a request has to show before its body is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestPermission {
    /// Nothing beyond what its path needs.
    Read,
    /// The token or a process of the server's user, as for starting a run.
    Start,
    /// The token, also on this machine.
    Token,
}

/// What is demanded of a request before its body is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestRule {
    pub permission: RequestPermission,
    /// The only media type of the body, if there is one.
    pub media_type: Option<&'static str>,
}

impl RequestRule {
    /// For requests that only read.
    pub const READ: Self = Self { permission: RequestPermission::Read, media_type: None };
}

/// The rules of a service whose handlers take their bodies whole.
#[derive(Clone)]
pub struct BodyGate {
    pub http: Arc<HttpState>,
    pub rule: fn(&Method, &str) -> RequestRule,
}

/// Checks permission and media type, then reads the body.
pub async fn receive_body(State(gate): State<BodyGate>, request: Request, next: Next) -> Response {
    match read_request(&gate, request).await {
        Ok(request) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

async fn read_request(gate: &BodyGate, request: Request) -> Result<Request, ProblemDetails> {
    let path = request.uri().path();
    let rule = (gate.rule)(request.method(), path);
    let (config, headers) = (&gate.http.config, request.headers());
    match rule.permission {
        RequestPermission::Read => {}
        RequestPermission::Start => {
            let line = request.extensions().get::<ConnectionEnds>();
            credentials::identify_owner(config, path, headers, line)?;
        }
        RequestPermission::Token => credentials::require_token(config, path, headers)?,
    }
    if let Some(accepted) = rule.media_type {
        check_media_type(headers, &[accepted])?;
    }
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(request);
    }
    let most = config.limits.max_body_bytes(path);
    let (parts, body) = request.into_parts();
    let seat = parts.extensions.get::<Arc<ConnectionSeat>>().cloned();
    let body = read_body(&gate.http, body, seat.as_deref(), most).await?;
    Ok(Request::from_parts(parts, Body::from(body)))
}

/// Refuses bodies of other media types.
pub fn check_media_type(headers: &HeaderMap, accepted: &[&str]) -> Result<(), ProblemDetails> {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = value.split(';').next().unwrap_or_default().trim();
    match accepted.iter().any(|accepted| kind.eq_ignore_ascii_case(accepted)) {
        true => Ok(()),
        false => {
            let errors = vec![FieldError::new("Content-Type", value, accepted.join(" or "))];
            Err(ProblemDetails::fields(StatusCode::UNSUPPORTED_MEDIA_TYPE, errors))
        }
    }
}

/// Reads a whole body. Its memory counts until the last copy of the result is dropped.
pub async fn read_body(
    http: &HttpState,
    mut body: Body,
    seat: Option<&ConnectionSeat>,
    most: u64,
) -> Result<Bytes, ProblemDetails> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut permit = http.bounds.bodies.new_permit();
    let mut bytes = Vec::new();
    let mut has_waited = false;
    loop {
        let next = match body.frame().now_or_never() {
            Some(next) => next,
            None => {
                if let Some(seat) = seat.filter(|_| !has_waited) {
                    seat.enter_body();
                }
                has_waited = true;
                let large = if permit.is_large() { LARGE_PAUSE } else { Duration::MAX };
                let pause = http.config.limits.pause_time.min(large);
                tokio::time::timeout(pause, body.frame()).await.map_err(|_| pause_problem(pause))?
            }
        };
        let Some(frame) = next else { break };
        let Ok(piece) = frame.map_err(|_| cut_problem())?.into_data() else { continue };
        if bytes.len() + piece.len() > most {
            return Err(length_problem(most));
        }
        let length = bytes.len() + piece.len();
        permit.grow_to(length).map_err(|_| memory_problem())?;
        if length > bytes.capacity() {
            // Grown by half: the budget counts bytes, and doubling would waste as much again.
            bytes.reserve_exact((bytes.capacity() / 2).max(piece.len()).min(most - bytes.len()));
        }
        bytes.extend_from_slice(&piece);
        if let Some(seat) = seat {
            seat.note_progress();
        }
    }
    if let Some(seat) = seat.filter(|_| has_waited) {
        seat.leave_body();
    }
    Ok(permit.attach(bytes))
}

fn length_problem(most: usize) -> ProblemDetails {
    let errors = vec![FieldError::new("body", "more", format!("at most {most} bytes"))];
    ProblemDetails::fields(StatusCode::PAYLOAD_TOO_LARGE, errors)
}

fn cut_problem() -> ProblemDetails {
    ProblemDetails::bad_field("body", "one that was cut", "a body that comes to its end")
}

fn pause_problem(pause: Duration) -> ProblemDetails {
    let detail = format!("the body paused for more than {} s; send it without pauses", pause.as_secs_f64());
    ProblemDetails::new(StatusCode::REQUEST_TIMEOUT, detail)
}

fn memory_problem() -> ProblemDetails {
    ProblemDetails::unavailable(
        "the memory for request bodies is used up by other requests; try again in a moment, one large body at a time",
    )
}
