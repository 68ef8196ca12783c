//! The middleware that every request to every listener passes. It assigns an id, takes a place for
//! work, checks names, access and site, and bounds the time, all before the body is read. On the
//! way out it adds the security headers, counts the response and writes one log line.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::http::access_control::{self, RouteAccess};
use crate::http::connection_places::ConnectionSeat;
use crate::http::credentials::{api_dialect, presented_token};
use crate::http::host_names::HostVerdict;
use crate::http::peer_user::ConnectionEnds;
use crate::http::problem::ProblemDetails;
use crate::http::{HttpState, RouteLabel};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Restrictions for browsers. Svelte writes inline styles, hence the exception for them.
const SECURITY_HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
         font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; \
         frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The peer address of a request's connection.
#[derive(Debug, Clone, Copy)]
pub struct PeerAddress(pub SocketAddr);

/// Passes a request on, if access is granted.
pub async fn gate_request(State(state): State<Arc<HttpState>>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let id = request_id(request.headers());
    let method = match *request.method() {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::DELETE => "DELETE",
        _ => "OTHER",
    };
    let path = request.uri().path().to_string();

    let mut response = match admit_request(&state, request, next).await {
        Ok(response) => response,
        Err(problem) => {
            let mut response = problem.into_response();
            response.extensions_mut().insert(RouteLabel("refused"));
            response
        }
    };

    let headers = response.headers_mut();
    for (name, value) in SECURITY_HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // Runs change while they run and may be private: no cache may store them, except for the page's
    // own files.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Ok(value) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, value);
    }

    let took = begun.elapsed();
    let status = response.status().as_u16();
    let route = response.extensions().get::<RouteLabel>().map_or("none", |label| label.0);
    state.requests.record(route, method, status, took);
    let duration_ms = took.as_micros() as f64 / 1000.0;
    match status {
        500.. => tracing::warn!(request_id = %id, method, path, status, duration_ms, "request"),
        _ => tracing::info!(request_id = %id, method, path, status, duration_ms, "request"),
    }
    response
}

async fn admit_request(state: &HttpState, request: Request, next: Next) -> Result<Response, ProblemDetails> {
    let limits = &state.config.limits;
    let (path, headers) = (request.uri().path(), request.headers());
    if let Some(seat) = request.extensions().get::<Arc<ConnectionSeat>>()
        && seat.start_work().is_err()
        && !access_control::is_health(path)
    {
        return Err(ProblemDetails::unavailable("too many requests are worked on; try again in a moment"));
    }
    let host = state.hosts.check_host(request.uri(), headers)?;
    access_control::check_length(limits.max_body_bytes(path), headers)?;
    let line = request.extensions().get::<ConnectionEnds>();
    access_control::authorise(&state.config, path, headers, line)?;
    state.hosts.check_origin(request.method(), headers)?;
    if host == HostVerdict::Unknown && !passes_unknown_host(state, path, headers) {
        let host = headers.get(header::HOST).map(|value| String::from_utf8_lossy(value.as_bytes()));
        return Err(state.hosts.refuse_host(&host.unwrap_or_default()));
    }
    let time = limits.max_total_time(path);
    tokio::time::timeout(time, next.run(request)).await.map_err(|_| timeout_problem(time))
}

/// Whether a request with an unknown host name cannot be a misled browser's: a foreign page has no
/// token, and learns nothing from health and the files of the page.
fn passes_unknown_host(state: &HttpState, path: &str, headers: &HeaderMap) -> bool {
    access_control::route_access(path) == RouteAccess::Open
        || state.config.token.as_ref().is_some_and(|token| {
            presented_token(api_dialect(path), headers).is_some_and(|shown| token.matches(&shown.token))
        })
}

/// The problem for a request beyond its time limit.
pub fn timeout_problem(time: Duration) -> ProblemDetails {
    let seconds = time.as_secs_f64();
    let detail = format!("this took longer than {seconds} s and was given up; ask for less, or try again");
    ProblemDetails::unavailable(detail)
}

/// The client's own id if it is short and plain, else a new one.
fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let is_plain = |id: &&str| {
        (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    given.filter(is_plain).map_or_else(|| uuid::Uuid::now_v7().simple().to_string(), str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_request_id_is_kept_and_any_other_replaced() {
        let given = |text: &'static [u8]| {
            HeaderMap::from_iter([(REQUEST_ID, HeaderValue::from_bytes(text).unwrap())])
        };
        assert_eq!(request_id(&given(b"a-1_b.C")), "a-1_b.C");
        for odd in [&b""[..], b"a b", b"x\ty", b"caf\xc3\xa9", &[b'x'; 65]] {
            assert_eq!(request_id(&given(odd)).len(), 32);
        }
        assert_ne!(request_id(&HeaderMap::new()), request_id(&HeaderMap::new()));
    }
}
