//! The one list of what the server answers. The router and the OpenAPI document are made from it.
//!
//! To add a route, add one entry to [`ROUTES`] and write its handler. Files of the page are the only thing
//! outside of the list: they are whatever the page's build made.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use schemars::SchemaGenerator;
use serde::Serialize;

use crate::api::{compare, devices, doctor, processes, runs, series, trend};
use crate::front::{self, Peer, Trusted};
use crate::parameter::{Arguments, Form, Parameter};
use crate::problem::Problem;
use crate::serve::App;
use crate::storage::Lane;
use crate::{compress, page, system};

/// What a handler is given.
#[derive(Debug)]
pub struct Call {
    /// The checked parameters.
    pub arguments: Arguments,
    /// The request's headers.
    pub headers: HeaderMap,
    /// Whether the caller may know details of this machine: it shows the token, or none is needed.
    pub is_trusted: bool,
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

/// One route. Each answers GET and HEAD.
#[derive(Debug)]
pub struct Route {
    /// Path with `{name}` for its parameters.
    pub path: &'static str,
    /// Name of the operation for generated clients.
    pub operation: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// What it answers.
    pub answer: Answer,
    /// Statuses beside 200 that are its own; those of every route (400, 401, 405 …) are not repeated.
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
        path: "/api/v1/runs",
        operation: "listRuns",
        summary: "Runs that fit all given filters, newest first, page by page.",
        parameters: runs::FILTERS,
        answer: json_of!(runs::RunList),
        also: &[503],
        work: Work::Blocking(Lane::Store, runs::list),
    },
    Route {
        path: "/api/v1/runs/{id}",
        operation: "getRun",
        summary: "One run with all that was recorded of it, but its series and processes.",
        parameters: &[RUN],
        answer: json_of!(metier_types::Run),
        also: &[404, 503],
        work: Work::Blocking(Lane::Store, runs::one),
    },
    Route {
        path: "/api/v1/runs/{id}/series",
        operation: "getSeries",
        summary: "The time line of a run: its series, or one of them, thinned out for drawing.",
        parameters: series::PARAMETERS,
        answer: json_of!(series::SeriesList),
        also: &[404, 503],
        work: Work::Blocking(Lane::Store, series::list),
    },
    Route {
        path: "/api/v1/runs/{id}/processes",
        operation: "getProcesses",
        summary: "The processes of a run.",
        parameters: &[RUN],
        answer: json_of!(metier_types::ProcessTree),
        also: &[404, 503],
        work: Work::Blocking(Lane::Store, processes::tree),
    },
    Route {
        path: "/api/v1/compare",
        operation: "compare",
        summary: "What differs between two groups of runs, and whether the difference can be told from noise.",
        parameters: compare::PARAMETERS,
        answer: json_of!(metier_signal::Comparison),
        also: &[404, 422, 503],
        work: Work::Blocking(Lane::Store, compare::compare),
    },
    Route {
        path: "/api/v1/trend",
        operation: "trend",
        summary: "The history of each workload on each device, and where its level changed.",
        parameters: trend::PARAMETERS,
        answer: json_of!(metier_signal::Trends),
        also: &[503],
        work: Work::Blocking(Lane::Store, trend::trend),
    },
    Route {
        path: "/api/v1/devices",
        operation: "listDevices",
        summary: "All devices that the store knows, by name.",
        parameters: &[],
        answer: json_of!(devices::DeviceList),
        also: &[503],
        work: Work::Blocking(Lane::Store, devices::devices),
    },
    Route {
        path: "/api/v1/devices/{id}",
        operation: "getDevice",
        summary: "One device.",
        parameters: &[Parameter::path("id", Form::Device, "The device.")],
        answer: json_of!(metier_types::Device),
        also: &[404, 503],
        work: Work::Blocking(Lane::Store, devices::device),
    },
    Route {
        path: "/api/v1/workloads",
        operation: "listWorkloads",
        summary: "All workloads that the store knows, by name.",
        parameters: &[],
        answer: json_of!(devices::WorkloadList),
        also: &[503],
        work: Work::Blocking(Lane::Store, devices::workloads),
    },
    Route {
        path: "/api/v1/doctor",
        operation: "doctor",
        summary: "What this host lets us measure, and the exact fix for what it does not.",
        parameters: &[],
        answer: json_of!(doctor::Diagnosis),
        also: &[503],
        work: Work::Blocking(Lane::Aside, doctor::diagnosis),
    },
    Route {
        path: "/healthz",
        operation: "health",
        summary: "Whether the process is alive.",
        parameters: &[],
        answer: Answer::Text("text/plain; charset=utf-8"),
        also: &[],
        work: Work::Quick(system::health),
    },
    Route {
        path: "/readyz",
        operation: "ready",
        summary: "Whether requests can be answered: the store is there and answers.",
        parameters: &[],
        answer: Answer::Text("text/plain; charset=utf-8"),
        also: &[503],
        work: Work::Blocking(Lane::Store, system::ready),
    },
    Route {
        path: "/metrics",
        operation: "metrics",
        summary: "The server's own figures in the Prometheus text format.",
        parameters: &[],
        answer: Answer::Text(crate::metrics::TEXT_FORMAT),
        also: &[],
        work: Work::Blocking(Lane::Store, system::metrics),
    },
    Route {
        path: "/openapi.json",
        operation: "openapi",
        summary: "This document.",
        parameters: &[],
        answer: Answer::Json(|_| schemars::json_schema!({"type": "object"})),
        also: &[],
        work: Work::Quick(system::openapi),
    },
    Route {
        path: "/",
        operation: "page",
        summary: "The page, for people.",
        parameters: &[],
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
    for route in ROUTES {
        let answer = move |State(app): State<App>, path: RawPathParams, request: Request| {
            answer(app, route, path, request)
        };
        router = router.route(route.path, get(answer).fallback(wrong_method));
    }
    router.fallback(elsewhere).layer(middleware::from_fn_with_state(app.clone(), front::door)).with_state(app)
}

async fn answer(app: App, route: &'static Route, path: RawPathParams, request: Request) -> Response {
    let limits = &app.config.limits;
    let is_trusted = request.extensions().get::<Trusted>().is_some();
    let is_compressed = compress::is_wanted(limits, request.extensions().get::<Peer>(), request.headers());
    let compress_from = if is_compressed { limits.compress_from_bytes } else { usize::MAX };
    let arguments = Arguments::read(route.parameters, path.iter(), request.uri().query().unwrap_or_default());
    let result = match arguments {
        Ok(arguments) => {
            let call = Call { arguments, headers: request.into_parts().0.headers, is_trusted };
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
        Err(problem) => Err(problem),
    };
    let mut response = result.into_response();
    response.extensions_mut().insert(Label(route.path));
    response
}

async fn wrong_method(request: Request) -> Problem {
    let detail = format!("{} does nothing here: this API only reads; want GET or HEAD", request.method());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail).with(header::ALLOW, "GET, HEAD")
}

/// Files of the page, and what is nowhere.
async fn elsewhere(request: Request) -> Response {
    let path = request.uri().path();
    if !matches!(*request.method(), axum::http::Method::GET | axum::http::Method::HEAD) {
        return wrong_method(request).await.into_response();
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
