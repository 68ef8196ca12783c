//! The router, built from the route table: it checks a request, reads its body and calls its
//! handler on the right thread.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{RawPathParams, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use http_body_util::BodyExt;

use super::{
    ApiRoute, HandlerRequest, HandlerResponse, HandlerStage, HttpState, RouteMethod, RouteWork, ServerState,
};
use crate::http::credentials::KnownCaller;
use crate::http::gate::{self, PeerAddress};
use crate::http::parameter::RequestArguments;
use crate::http::peer_user::ConnectionEnds;
use crate::http::problem::{FieldError, ProblemDetails};
use crate::http::{compress, start_permission};

/// The label of a request in `/metrics`: the route's path, or one of a few words for requests
/// without a route.
#[derive(Debug, Clone, Copy)]
pub struct RouteLabel(pub &'static str);

/// Looks up a file of the page by its path.
pub type PageFileHandler = fn(&str, &HeaderMap) -> Option<HandlerResponse>;

/// The router of a server: its route table, and the files of its page for all other paths.
pub fn build_router<S: ServerState>(
    app: Arc<S>,
    routes: &'static [ApiRoute<S>],
    file: PageFileHandler,
) -> Router {
    let mut router = Router::new();
    let mut paths: Vec<&'static str> = routes.iter().map(|route| route.path).collect();
    paths.sort_unstable();
    paths.dedup();
    for path in paths {
        let mut methods = MethodRouter::new();
        for route in routes.iter().filter(|route| route.path == path) {
            let answer = move |State(app): State<Arc<S>>, path: RawPathParams, request: Request| {
                answer_request(app, route, path, request)
            };
            methods = methods.on(route.verb.method_filter(), answer);
        }
        methods = methods
            .fallback(move |request: Request| async move { method_not_allowed(routes, path, &request) });
        router = router.route(path, methods.clone());
        // Jenkins clients end its addresses with or without a slash.
        if path.starts_with("/job/") || path.starts_with("/queue/") {
            router = router.route(&format!("{path}/"), methods);
        }
    }
    let elsewhere = move |request: Request| async move { serve_fallback(routes, file, &request) };
    let door = middleware::from_fn_with_state(app.http().clone(), gate::gate_request);
    router.fallback(elsewhere).layer(door).with_state(app)
}

async fn answer_request<S: ServerState>(
    app: Arc<S>,
    route: &'static ApiRoute<S>,
    path: RawPathParams,
    request: Request,
) -> Response {
    let mut response = handle_request(app, route, path, request).await.into_response();
    response.extensions_mut().insert(RouteLabel(route.path));
    response
}

async fn handle_request<S: ServerState>(
    app: Arc<S>,
    route: &'static ApiRoute<S>,
    path: RawPathParams,
    request: Request,
) -> Result<HandlerResponse, ProblemDetails> {
    let limits = &app.http().config.limits;
    let is_compressed =
        compress::accepts_gzip(limits, request.extensions().get::<PeerAddress>(), request.headers());
    let compress_from = if is_compressed { limits.compress_from_bytes } else { usize::MAX };
    let begun = start_handler(&app, route, path, request, compress_from);
    // Only deferred work may take longer than other requests.
    let time = limits.max_request_time(route.path);
    match tokio::time::timeout(time, begun).await.map_err(|_| gate::timeout_problem(time))?? {
        HandlerStage::Done(reply) => Ok(reply),
        HandlerStage::Then(lane, rest) => {
            let inner = app.clone();
            let work = move || rest(&inner).map(|reply| compress::compress_response(reply, compress_from));
            app.http().lanes.run(lane, work).await
        }
    }
}

async fn start_handler<S: ServerState>(
    app: &Arc<S>,
    route: &'static ApiRoute<S>,
    path: RawPathParams,
    request: Request,
    compress_from: usize,
) -> Result<HandlerStage<S>, ProblemDetails> {
    let limits = &app.http().config.limits;
    // Checked here and not earlier, so that every route that does more than read passes this line.
    let only_reads = matches!(route.verb, RouteMethod::Get | RouteMethod::PostQuery);
    let user = if only_reads { None } else { authorise_start(app.http(), &request)?.user };
    let line = request.extensions().get::<ConnectionEnds>().copied();
    let arguments =
        RequestArguments::read(route.parameters, path.iter(), request.uri().query().unwrap_or_default())?;
    let (parts, body) = request.into_parts();
    let body = match route.verb {
        RouteMethod::Get => Bytes::new(),
        _ => read_body(body, limits.max_body_bytes(route.path)).await?,
    };
    let call = HandlerRequest { arguments, headers: parts.headers, user, line, body };
    let short = move |reply| compress::compress_response(reply, compress_from);
    let inner = app.clone();
    match route.work {
        RouteWork::Quick(handler) => handler(app, &call).map(HandlerStage::Done),
        RouteWork::Blocking(lane, handler) => {
            let work = move || handler(&inner, &call).map(|reply| HandlerStage::Done(short(reply)));
            app.http().lanes.run(lane, work).await
        }
        RouteWork::Stages(lane, beginning) => {
            let work = move || {
                Ok(match beginning(&inner, &call)? {
                    HandlerStage::Done(reply) => HandlerStage::Done(short(reply)),
                    left => left,
                })
            };
            app.http().lanes.run(lane, work).await
        }
    }
}

/// The permission to start or end runs with this request.
fn authorise_start(state: &HttpState, request: &Request) -> Result<KnownCaller, ProblemDetails> {
    let line = request.extensions().get::<ConnectionEnds>();
    let starter =
        start_permission::authorise_start(&state.config, request.uri().path(), request.headers(), line)?;
    if !state.starts.try_acquire(Instant::now()) {
        let detail = "too many requests for sessions; try again in a moment";
        return Err(
            ProblemDetails::new(StatusCode::TOO_MANY_REQUESTS, detail).with_header(header::RETRY_AFTER, "1")
        );
    }
    Ok(starter)
}

/// Reads a whole body, within its limit.
async fn read_body(body: Body, most: u64) -> Result<Bytes, ProblemDetails> {
    match body.collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) => {
            let is_large = std::error::Error::source(&error)
                .is_some_and(|source| source.is::<http_body_util::LengthLimitError>());
            let (status, want) = match is_large {
                true => (StatusCode::PAYLOAD_TOO_LARGE, format!("at most {most} bytes")),
                false => (StatusCode::BAD_REQUEST, "a body that comes to its end".to_string()),
            };
            let got = if is_large { "more" } else { "one that was cut" };
            Err(ProblemDetails::fields(status, vec![FieldError::new("body", got, want)]))
        }
    }
}

/// The methods of a path, as `Allow` lists them.
fn allowed_methods<S>(routes: &[ApiRoute<S>], path: &str) -> &'static str {
    let has = |verb: RouteMethod| routes.iter().any(|route| route.path == path && route.verb == verb);
    match (
        has(RouteMethod::Get),
        has(RouteMethod::Post) || has(RouteMethod::PostQuery),
        has(RouteMethod::Delete),
    ) {
        (_, false, false) => "GET, HEAD",
        (true, true, false) => "GET, HEAD, POST",
        (true, false, true) => "GET, HEAD, DELETE",
        (false, true, false) => "POST",
        (false, false, true) => "DELETE",
        (false, true, true) => "POST, DELETE",
        (true, true, true) => "GET, HEAD, POST, DELETE",
    }
}

fn method_not_allowed<S>(routes: &[ApiRoute<S>], path: &str, request: &Request) -> ProblemDetails {
    let allowed = allowed_methods(routes, path);
    let detail = format!("{} does nothing here; want {allowed}", request.method());
    ProblemDetails::new(StatusCode::METHOD_NOT_ALLOWED, detail).with_header(header::ALLOW, allowed)
}

/// Serves files of the page, and a problem for unknown paths.
fn serve_fallback<S>(routes: &[ApiRoute<S>], file: PageFileHandler, request: &Request) -> Response {
    let path = request.uri().path();
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return method_not_allowed(routes, path, request).into_response();
    }
    match file(path, request.headers()) {
        Some(reply) => {
            let mut response = reply.into_response();
            response.extensions_mut().insert(RouteLabel("page"));
            response
        }
        None => {
            let path = crate::http::problem::shorten_text(path);
            let detail = format!("there is nothing at {path}; /openapi.json lists what there is");
            ProblemDetails::new(StatusCode::NOT_FOUND, detail).into_response()
        }
    }
}
