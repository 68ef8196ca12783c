//! The router, made from the list: a request is checked, its body read, its handler called on the right thread.

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

use super::{Call, HttpState, Reply, Route, ServerState, Stage, Verb, Work};
use crate::http::front::{self, Line, Peer, Trusted};
use crate::http::parameter::Arguments;
use crate::http::problem::{FieldError, Problem};
use crate::http::{compress, starter};

/// The label of a request in `/metrics`: the route's path, or one of a few words for what has none.
#[derive(Debug, Clone, Copy)]
pub struct Label(pub &'static str);

/// A file of the page at a path, if there is one.
pub type PageFile = fn(&str, &HeaderMap) -> Option<Reply>;

/// The router of a server: the routes of its table, and the files of its page elsewhere.
pub fn router<S: ServerState>(app: Arc<S>, routes: &'static [Route<S>], file: PageFile) -> Router {
    let mut router = Router::new();
    let mut paths: Vec<&'static str> = routes.iter().map(|route| route.path).collect();
    paths.sort_unstable();
    paths.dedup();
    for path in paths {
        let mut methods = MethodRouter::new();
        for route in routes.iter().filter(|route| route.path == path) {
            let answer = move |State(app): State<Arc<S>>, path: RawPathParams, request: Request| {
                answer(app, route, path, request)
            };
            methods = methods.on(route.verb.filter(), answer);
        }
        methods =
            methods.fallback(move |request: Request| async move { wrong_method(routes, path, &request) });
        router = router.route(path, methods.clone());
        // Clients of Jenkins end its addresses with a slash, or not.
        if path.starts_with("/job/") || path.starts_with("/queue/") {
            router = router.route(&format!("{path}/"), methods);
        }
    }
    let elsewhere = move |request: Request| async move { elsewhere(routes, file, &request) };
    let door = middleware::from_fn_with_state(app.http().clone(), front::door);
    router.fallback(elsewhere).layer(door).with_state(app)
}

async fn answer<S: ServerState>(
    app: Arc<S>,
    route: &'static Route<S>,
    path: RawPathParams,
    request: Request,
) -> Response {
    let mut response = handled(app, route, path, request).await.into_response();
    response.extensions_mut().insert(Label(route.path));
    response
}

async fn handled<S: ServerState>(
    app: Arc<S>,
    route: &'static Route<S>,
    path: RawPathParams,
    request: Request,
) -> Result<Reply, Problem> {
    let limits = &app.http().config.limits;
    let is_compressed = compress::is_wanted(limits, request.extensions().get::<Peer>(), request.headers());
    let compress_from = if is_compressed { limits.compress_from_bytes } else { usize::MAX };
    let begun = begun(&app, route, path, request, compress_from);
    // Only what is left for later may take longer than other requests.
    let time = limits.time_of(route.path);
    match tokio::time::timeout(time, begun).await.map_err(|_| front::too_long(time))?? {
        Stage::Done(reply) => Ok(reply),
        Stage::Then(lane, rest) => {
            let inner = app.clone();
            let work = move || rest(&inner).map(|reply| compress::compress(reply, compress_from));
            app.http().lanes.run(lane, work).await
        }
    }
}

async fn begun<S: ServerState>(
    app: &Arc<S>,
    route: &'static Route<S>,
    path: RawPathParams,
    request: Request,
    compress_from: usize,
) -> Result<Stage<S>, Problem> {
    let limits = &app.http().config.limits;
    let is_trusted = request.extensions().get::<Trusted>().is_some();
    // Here and not earlier: whatever is in the table and does not only read passes this line.
    let only_reads = matches!(route.verb, Verb::Get | Verb::Ask);
    let user = if only_reads { None } else { starter(app.http(), &request)?.user };
    let line = request.extensions().get::<Line>().copied();
    let arguments =
        Arguments::read(route.parameters, path.iter(), request.uri().query().unwrap_or_default())?;
    let (parts, body) = request.into_parts();
    let body = match route.verb {
        Verb::Get => Bytes::new(),
        _ => whole(body, limits.body_of(route.path)).await?,
    };
    let call = Call { arguments, headers: parts.headers, is_trusted, user, line, body };
    let short = move |reply| compress::compress(reply, compress_from);
    let inner = app.clone();
    match route.work {
        Work::Quick(handler) => handler(app, &call).map(Stage::Done),
        Work::Blocking(lane, handler) => {
            let work = move || handler(&inner, &call).map(|reply| Stage::Done(short(reply)));
            app.http().lanes.run(lane, work).await
        }
        Work::Stages(lane, beginning) => {
            let work = move || {
                Ok(match beginning(&inner, &call)? {
                    Stage::Done(reply) => Stage::Done(short(reply)),
                    left => left,
                })
            };
            app.http().lanes.run(lane, work).await
        }
    }
}

/// Who starts or ends runs with this request, if they may.
fn starter(state: &HttpState, request: &Request) -> Result<starter::Starter, Problem> {
    let line = request.extensions().get::<Line>();
    let starter = starter::admit(&state.config, request.uri().path(), request.headers(), line)?;
    if !state.starts.allows(Instant::now()) {
        let detail = "sessions are asked for too fast; try again in a moment";
        return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, detail).with(header::RETRY_AFTER, "1"));
    }
    Ok(starter)
}

/// A body that is not too large, whole.
async fn whole(body: Body, most: u64) -> Result<Bytes, Problem> {
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
            Err(Problem::fields(status, vec![FieldError::new("body", got, want)]))
        }
    }
}

/// What an address can be asked with, as `Allow` says it.
fn allowed<S>(routes: &[Route<S>], path: &str) -> &'static str {
    let has = |verb: Verb| routes.iter().any(|route| route.path == path && route.verb == verb);
    match (has(Verb::Get), has(Verb::Post) || has(Verb::Ask), has(Verb::Delete)) {
        (_, false, false) => "GET, HEAD",
        (true, true, false) => "GET, HEAD, POST",
        (true, false, true) => "GET, HEAD, DELETE",
        (false, true, false) => "POST",
        (false, false, true) => "DELETE",
        (false, true, true) => "POST, DELETE",
        (true, true, true) => "GET, HEAD, POST, DELETE",
    }
}

fn wrong_method<S>(routes: &[Route<S>], path: &str, request: &Request) -> Problem {
    let allowed = allowed(routes, path);
    let detail = format!("{} does nothing here; want {allowed}", request.method());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail).with(header::ALLOW, allowed)
}

/// Files of the page, and what is nowhere.
fn elsewhere<S>(routes: &[Route<S>], file: PageFile, request: &Request) -> Response {
    let path = request.uri().path();
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return wrong_method(routes, path, request).into_response();
    }
    match file(path, request.headers()) {
        Some(reply) => {
            let mut response = reply.into_response();
            response.extensions_mut().insert(Label("page"));
            response
        }
        None => {
            let path = crate::http::problem::shorten(path);
            let detail = format!("there is nothing at {path}; /openapi.json lists what there is");
            Problem::new(StatusCode::NOT_FOUND, detail).into_response()
        }
    }
}
