//! The one list of what the server answers. The router and the OpenAPI document are made from it.
//!
//! To add a route, add one entry to [`ROUTES`] and write its handler. Files of the page are the only thing
//! outside of the list: they are whatever the page's build made.

use std::time::Instant;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter};
use http_body_util::BodyExt;
use schemars::SchemaGenerator;
use serde::Serialize;

use crate::api::{artefacts, compare, devices, doctor, processes, runs, series, sessions, trend};
use crate::doors::jenkins;
use crate::front::{self, Line, Peer, Trusted};
use crate::parameter::{Arguments, Form, Parameter};
use crate::problem::{FieldError, Problem};
use crate::serve::App;
use crate::storage::Lane;
use crate::{compress, page, starter, system};

/// What a handler is given.
#[derive(Debug)]
pub struct Call {
    /// The checked parameters.
    pub arguments: Arguments,
    /// The request's headers.
    pub headers: HeaderMap,
    /// Whether the caller may know details of this machine: it shows the token, or none is needed.
    pub is_trusted: bool,
    /// Who asks, where the route starts or ends runs and they are known.
    pub user: Option<String>,
    /// What was sent.
    pub body: Bytes,
}

impl Call {
    /// The media type of what was sent, without its parameters.
    pub fn media_type(&self) -> String {
        let value = self.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// The address of this server as the caller knows it, with a slash at its end.
    pub fn base(&self) -> String {
        let host = self.headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
        format!("http://{host}/")
    }
}

/// What a handler gives back.
#[derive(Debug)]
pub struct Reply {
    /// The status.
    pub status: StatusCode,
    /// The headers that say what the body is.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Reply {
    /// A body of that media type.
    pub fn new(media_type: &'static str, body: impl Into<Bytes>) -> Self {
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(media_type))]);
        Self { status: StatusCode::OK, headers, body: body.into() }
    }

    /// A record as JSON.
    pub fn json(record: &impl Serialize) -> Result<Self, Problem> {
        let body = serde_json::to_vec(record).map_err(|error| {
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, format!("the answer cannot be written: {error}"))
        })?;
        Ok(Self::new("application/json", body))
    }

    /// With another status.
    pub fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// With a header more.
    pub fn with(mut self, name: HeaderName, value: &str) -> Result<Self, Problem> {
        let value = HeaderValue::from_str(value).map_err(|_| {
            Problem::new(StatusCode::BAD_REQUEST, format!("{name} of the answer cannot carry what was sent"))
        })?;
        self.headers.insert(name, value);
        Ok(self)
    }
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

/// A handler.
pub type Handler = fn(&App, &Call) -> Result<Reply, Problem>;

/// Where a handler runs.
#[derive(Debug, Clone, Copy)]
pub enum Work {
    /// On the serving thread: it neither blocks nor computes for long.
    Quick(Handler),
    /// On the bounded pool for what blocks.
    Blocking(Lane, Handler),
}

/// What the body of a good answer is.
#[derive(Debug, Clone, Copy)]
pub enum Answer {
    /// JSON of that schema.
    Json(fn(&mut SchemaGenerator) -> schemars::Schema),
    /// Text of that media type.
    Text(&'static str),
}

/// What a route is asked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// GET and HEAD: it only reads.
    Get,
    /// POST: it starts or ends runs.
    Post,
    /// DELETE: it ends runs.
    Delete,
}

impl Verb {
    /// Its name in the OpenAPI document.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Post => "post",
            Self::Delete => "delete",
        }
    }

    const fn filter(self) -> MethodFilter {
        match self {
            // HEAD comes with it.
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}

/// What may be sent with a request.
#[derive(Debug, Clone, Copy)]
pub enum Sent {
    /// Nothing.
    Nothing,
    /// A document of that schema, in one of these media types.
    Document(&'static [&'static str], fn(&mut SchemaGenerator) -> schemars::Schema),
}

/// One route.
#[derive(Debug)]
pub struct Route {
    /// What it is asked with.
    pub verb: Verb,
    /// Path with `{name}` for its parameters.
    pub path: &'static str,
    /// Name of the operation for generated clients.
    pub operation: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// What may be sent to it.
    pub sent: Sent,
    /// The status of a good answer.
    pub good: u16,
    /// What it answers.
    pub answer: Answer,
    /// Statuses beside the good one that are its own; those of every route (400, 401, 405 …) are not repeated.
    pub also: &'static [u16],
    /// Who does it.
    pub work: Work,
}

macro_rules! json_of {
    ($record:ty) => {
        Answer::Json(|generator| generator.subschema_for::<$record>())
    };
}

const RUN: Parameter = Parameter::path("id", Form::Run, "The run.");

/// Everything that the server answers, but the files of the page.
pub const ROUTES: &[Route] = &[
    Route {
        verb: Verb::Get,
        path: "/api/v1/runs",
        operation: "listRuns",
        summary: "Runs that fit all given filters, newest first, page by page.",
        parameters: runs::FILTERS,
        sent: Sent::Nothing,
        good: 200,
        answer: json_of!(runs::RunList),
        also: &[503],
        work: Work::Blocking(Lane::Store, runs::list),
    },
    Route {
        verb: Verb::Get,
        path: "/api/v1/runs/{id}",
        operation: "getRun",
        summary: "One run with all that was recorded of it, but its series and processes.",
        parameters: &[RUN],
        sent: Sent::Nothing,
        good: 200,
        answer: json_of!(metier_types::Run),
        also: &[404, 503],
        work: Work::Blocking(Lane::Store, runs::one),
    },
    Route {
        verb: Verb::Get,
        path: "/api/v1/runs/{id}/series",
        operation: "getSeries",
        summary: "The time line of a run: its series, or one of them, thinned out for drawing.",
        parameters: series::PARAMETERS,
        sent: Sent::Nothing,
        good: 200,
        answer: json_of!(series::SeriesList),
        also: &[404, 503],
        work: Work::Blocking(Lane::Store, series::list),
    },
    Route {
        verb: Verb::Get,
        path: "/api/v1/runs/{id}/processes",
        operation: "getProcesses",
        summary: "The processes of a run.",
        parameters: &[RUN],
        sent: Sent::Nothing,
        good: 200,
        answer: json_of!(metier_types::ProcessTree),
        also: &[404, 503],
        work: Work::Blocking(Lane::Store, processes::tree),
    },
    Route {
        verb: Verb::Get,
        path: "/api/v1/runs/{id}/artefacts/{name}",
        operation: "getArtefact",
        summary: "A file of a run, as it was stored, as a download.",
        parameters: artefacts::PARAMETERS,
        sent: Sent::Nothing,
        good: 200,
        answer: Answer::Text("application/octet-stream"),
        also: &[404, 503],
        work: Work::Blocking(Lane::Store, artefacts::one),
    },
    Route {
        verb: Verb::Get,
        path: "/api/v1/compare",
        operation: "compare",
        summary: "What differs between two groups of runs, and whether the difference can be told from noise.",
        parameters: compare::PARAMETERS,
        sent: Sent::Nothing,
        good: 200,
        answer: json_of!(metier_signal::Comparison),
        also: &[404, 422, 503],
        work: Work::Blocking(Lane::Store, compare::compare),
    },
    Route {
        verb: Verb::Get,
        path: "/api/v1/trend",
        operation: "trend",
        summary: "The history of each workload on each device, and where its level changed.",
        parameters: trend::PARAMETERS,
        sent: Sent::Nothing,
        good: 200,
        answer: json_of!(metier_signal::Trends),
        also: &[503],
        work: Work::Blocking(Lane::Store, trend::trend),
    },
    Route {
        verb: Verb::Get,
        path: "/api/v1/devices",
        operation: "listDevices",
        summary: "All devices that the store knows, by name.",
        parameters: &[],
        sent: Sent::Nothing,
        good: 200,
        answer: json_of!(devices::DeviceList),
        also: &[503],
        work: Work::Blocking(Lane::Store, devices::devices),
    },
    Route {
        verb: Verb::Get,
        path: "/api/v1/devices/{id}",
        operation: "getDevice",
        summary: "One device.",
        parameters: &[Parameter::path("id", Form::Device, "The device.")],
        sent: Sent::Nothing,
        good: 200,
        answer: json_of!(metier_types::Device),
        also: &[404, 503],
        work: Work::Blocking(Lane::Store, devices::device),
    },
    Route {
        verb: Verb::Get,
        path: "/api/v1/workloads",
        operation: "listWorkloads",
        summary: "All workloads that the store knows, by name.",
        parameters: &[],
        sent: Sent::Nothing,
        good: 200,
        answer: json_of!(devices::WorkloadList),
        also: &[503],
        work: Work::Blocking(Lane::Store, devices::workloads),
    },
    Route {
        verb: Verb::Get,
        path: "/api/v1/doctor",
        operation: "doctor",
        summary: "What this host lets us measure, and the exact fix for what it does not.",
        parameters: &[],
        sent: Sent::Nothing,
        good: 200,
        answer: json_of!(doctor::Diagnosis),
        also: &[503],
        work: Work::Blocking(Lane::Aside, doctor::diagnosis),
    },
    Route {
        verb: Verb::Get,
        path: "/api/v1/sessions",
        operation: "listSessions",
        summary: "Sessions that fit all given filters, newest first.",
        parameters: sessions::FILTERS,
        sent: Sent::Nothing,
        good: 200,
        answer: json_of!(sessions::SessionList),
        also: &[503],
        work: Work::Blocking(Lane::Store, sessions::list),
    },
    Route {
        verb: Verb::Post,
        path: "/api/v1/sessions",
        operation: "addSession",
        summary: "Puts a run file in the queue; `Location` leads to its session.",
        parameters: sessions::ASKED,
        sent: Sent::Document(&["application/json", "application/yaml"], |generator| {
            generator.subschema_for::<metier_work::runfile::RunFile>()
        }),
        good: 202,
        answer: json_of!(metier_types::Session),
        also: &[403, 413, 415, 422, 429, 503],
        work: Work::Blocking(Lane::Store, sessions::add),
    },
    Route {
        verb: Verb::Get,
        path: "/api/v1/sessions/{id}",
        operation: "getSession",
        summary: "One session.",
        parameters: sessions::ONE,
        sent: Sent::Nothing,
        good: 200,
        answer: json_of!(metier_types::Session),
        also: &[404, 503],
        work: Work::Blocking(Lane::Store, sessions::one),
    },
    Route {
        verb: Verb::Delete,
        path: "/api/v1/sessions/{id}",
        operation: "cancelSession",
        summary: "Cancels a session: 200 where it waited, 202 where it runs and was told to end.",
        parameters: sessions::ONE,
        sent: Sent::Nothing,
        good: 200,
        answer: json_of!(metier_types::Session),
        also: &[202, 403, 404, 409, 429, 503],
        work: Work::Blocking(Lane::Store, sessions::cancel),
    },
    Route {
        verb: Verb::Get,
        path: "/api/v1/sessions/{id}/log",
        operation: "getSessionLog",
        summary: "What a session has printed: its beginning, and when it is over its end.",
        parameters: sessions::ONE,
        sent: Sent::Nothing,
        good: 200,
        answer: Answer::Text("text/plain; charset=utf-8"),
        also: &[404, 503],
        work: Work::Blocking(Lane::Store, sessions::log),
    },
    Route {
        verb: Verb::Post,
        path: "/job/{name}/buildWithParameters",
        operation: "jenkinsBuild",
        summary: "As Jenkins starts a build: puts a session in the queue; `Location` leads to its item there.",
        parameters: jenkins::START,
        sent: Sent::Document(&["application/x-www-form-urlencoded"], |generator| {
            generator.subschema_for::<jenkins::Parameters>()
        }),
        good: 201,
        answer: Answer::Text("text/plain; charset=utf-8"),
        also: &[403, 404, 413, 415, 429, 503],
        work: Work::Blocking(Lane::Store, jenkins::start),
    },
    Route {
        verb: Verb::Get,
        path: "/queue/item/{number}/api/json",
        operation: "jenkinsItem",
        summary: "As Jenkins shows an item of its queue.",
        parameters: jenkins::OF_ITEM,
        sent: Sent::Nothing,
        good: 200,
        answer: json_of!(jenkins::Item),
        also: &[404, 503],
        work: Work::Blocking(Lane::Store, jenkins::item),
    },
    Route {
        verb: Verb::Post,
        path: "/queue/cancelItem",
        operation: "jenkinsCancelItem",
        summary: "As Jenkins takes an item out of its queue.",
        parameters: jenkins::CANCEL,
        sent: Sent::Nothing,
        good: 204,
        answer: Answer::Text("text/plain; charset=utf-8"),
        also: &[403, 404, 429, 503],
        work: Work::Blocking(Lane::Store, jenkins::cancel_item),
    },
    Route {
        verb: Verb::Get,
        path: "/job/{name}/api/json",
        operation: "jenkinsJob",
        summary: "As Jenkins shows a job.",
        parameters: jenkins::OF_JOB,
        sent: Sent::Nothing,
        good: 200,
        answer: json_of!(jenkins::Job),
        also: &[404, 503],
        work: Work::Blocking(Lane::Store, jenkins::about),
    },
    Route {
        verb: Verb::Get,
        path: "/job/{name}/{number}/api/json",
        operation: "jenkinsBuildState",
        summary: "As Jenkins shows a build.",
        parameters: jenkins::OF_BUILD,
        sent: Sent::Nothing,
        good: 200,
        answer: json_of!(jenkins::Build),
        also: &[404, 503],
        work: Work::Blocking(Lane::Store, jenkins::build),
    },
    Route {
        verb: Verb::Get,
        path: "/job/{name}/lastBuild/api/json",
        operation: "jenkinsLastBuild",
        summary: "As Jenkins shows the latest build of a job.",
        parameters: jenkins::OF_JOB,
        sent: Sent::Nothing,
        good: 200,
        answer: json_of!(jenkins::Build),
        also: &[404, 503],
        work: Work::Blocking(Lane::Store, jenkins::last_build),
    },
    Route {
        verb: Verb::Get,
        path: "/job/{name}/{number}/consoleText",
        operation: "jenkinsConsole",
        summary: "What a build has printed.",
        parameters: jenkins::OF_BUILD,
        sent: Sent::Nothing,
        good: 200,
        answer: Answer::Text("text/plain; charset=utf-8"),
        also: &[404, 503],
        work: Work::Blocking(Lane::Store, jenkins::console),
    },
    Route {
        verb: Verb::Post,
        path: "/job/{name}/{number}/stop",
        operation: "jenkinsStop",
        summary: "Ends a build, as Jenkins does.",
        parameters: jenkins::OF_BUILD,
        sent: Sent::Nothing,
        good: 200,
        answer: json_of!(jenkins::Build),
        also: &[403, 404, 429, 503],
        work: Work::Blocking(Lane::Store, jenkins::stop),
    },
    Route {
        verb: Verb::Get,
        path: "/healthz",
        operation: "health",
        summary: "Whether the process is alive.",
        parameters: &[],
        sent: Sent::Nothing,
        good: 200,
        answer: Answer::Text("text/plain; charset=utf-8"),
        also: &[],
        work: Work::Quick(system::health),
    },
    Route {
        verb: Verb::Get,
        path: "/readyz",
        operation: "ready",
        summary: "Whether requests can be answered: the store is there and answers.",
        parameters: &[],
        sent: Sent::Nothing,
        good: 200,
        answer: Answer::Text("text/plain; charset=utf-8"),
        also: &[503],
        work: Work::Blocking(Lane::Store, system::ready),
    },
    Route {
        verb: Verb::Get,
        path: "/metrics",
        operation: "metrics",
        summary: "The server's own figures in the Prometheus text format.",
        parameters: &[],
        sent: Sent::Nothing,
        good: 200,
        answer: Answer::Text(crate::metrics::TEXT_FORMAT),
        also: &[],
        work: Work::Blocking(Lane::Store, system::metrics),
    },
    Route {
        verb: Verb::Get,
        path: "/openapi.json",
        operation: "openapi",
        summary: "This document.",
        parameters: &[],
        sent: Sent::Nothing,
        good: 200,
        answer: Answer::Json(|_| schemars::json_schema!({"type": "object"})),
        also: &[],
        work: Work::Quick(system::openapi),
    },
    Route {
        verb: Verb::Get,
        path: "/",
        operation: "page",
        summary: "The page, for people.",
        parameters: &[],
        sent: Sent::Nothing,
        good: 200,
        answer: Answer::Text("text/html; charset=utf-8"),
        also: &[304],
        work: Work::Quick(page::index),
    },
];

/// The label of a request in `/metrics`: the route's path, or one of a few words for what has none.
#[derive(Debug, Clone, Copy)]
pub struct Label(pub &'static str);

/// The router of the whole server.
pub fn router(app: App) -> Router {
    let mut router = Router::new();
    let mut paths: Vec<&'static str> = ROUTES.iter().map(|route| route.path).collect();
    paths.sort_unstable();
    paths.dedup();
    for path in paths {
        let mut methods = MethodRouter::new();
        for route in ROUTES.iter().filter(|route| route.path == path) {
            let answer = move |State(app): State<App>, path: RawPathParams, request: Request| {
                answer(app, route, path, request)
            };
            methods = methods.on(route.verb.filter(), answer);
        }
        methods = methods.fallback(move |request: Request| async move { wrong_method(path, &request) });
        router = router.route(path, methods.clone());
        // Clients of Jenkins end its addresses with a slash, or not.
        if path.starts_with("/job/") || path.starts_with("/queue/") {
            router = router.route(&format!("{path}/"), methods);
        }
    }
    router.fallback(elsewhere).layer(middleware::from_fn_with_state(app.clone(), front::door)).with_state(app)
}

async fn answer(app: App, route: &'static Route, path: RawPathParams, request: Request) -> Response {
    let mut response = handled(app, route, path, request).await.into_response();
    response.extensions_mut().insert(Label(route.path));
    response
}

async fn handled(
    app: App,
    route: &'static Route,
    path: RawPathParams,
    request: Request,
) -> Result<Reply, Problem> {
    let limits = &app.config.limits;
    let is_trusted = request.extensions().get::<Trusted>().is_some();
    let is_compressed = compress::is_wanted(limits, request.extensions().get::<Peer>(), request.headers());
    let compress_from = if is_compressed { limits.compress_from_bytes } else { usize::MAX };
    // Here and not earlier: whatever is in the table and does not only read passes this line.
    let user = if route.verb == Verb::Get { None } else { starter(&app, &request)?.user };
    let arguments =
        Arguments::read(route.parameters, path.iter(), request.uri().query().unwrap_or_default())?;
    let (parts, body) = request.into_parts();
    let body = match route.verb {
        Verb::Get => Bytes::new(),
        _ => whole(body, limits.body_bytes).await?,
    };
    let call = Call { arguments, headers: parts.headers, is_trusted, user, body };
    match route.work {
        Work::Quick(handler) => handler(&app, &call),
        Work::Blocking(lane, handler) => {
            let inner = app.clone();
            app.storage
                .blocking(lane, move || {
                    handler(&inner, &call).map(|reply| compress::compress(reply, compress_from))
                })
                .await
        }
    }
}

/// Who starts or ends runs with this request, if they may.
fn starter(app: &App, request: &Request) -> Result<starter::Starter, Problem> {
    let line = request.extensions().get::<Line>();
    let starter = starter::admit(&app.config, request.uri().path(), request.headers(), line)?;
    if !app.starts.allows(Instant::now()) {
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
fn allowed(path: &str) -> &'static str {
    let has = |verb: Verb| ROUTES.iter().any(|route| route.path == path && route.verb == verb);
    match (has(Verb::Get), has(Verb::Post), has(Verb::Delete)) {
        (_, false, false) => "GET, HEAD",
        (true, true, false) => "GET, HEAD, POST",
        (true, false, true) => "GET, HEAD, DELETE",
        (false, true, false) => "POST",
        (false, false, true) => "DELETE",
        (false, true, true) => "POST, DELETE",
        (true, true, true) => "GET, HEAD, POST, DELETE",
    }
}

fn wrong_method(path: &str, request: &Request) -> Problem {
    let allowed = allowed(path);
    let detail = format!("{} does nothing here; want {allowed}", request.method());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail).with(header::ALLOW, allowed)
}

/// Files of the page, and what is nowhere.
async fn elsewhere(request: Request) -> Response {
    let path = request.uri().path();
    if !matches!(*request.method(), axum::http::Method::GET | axum::http::Method::HEAD) {
        return wrong_method(path, &request).into_response();
    }
    match page::file(path, request.headers()) {
        Some(reply) => {
            let mut response = reply.into_response();
            response.extensions_mut().insert(Label("page"));
            response
        }
        None => {
            let path = crate::problem::shorten(path);
            let detail = format!("there is nothing at {path}; /openapi.json lists what there is");
            Problem::new(StatusCode::NOT_FOUND, detail).into_response()
        }
    }
}
