//! The HTTP server of metier: the API over the store, the interfaces to the queue, and the page.
//!
//! Layers, each of which uses only those before it:
//!
//! - [`http`]: connections, the gate, limits, problems, parameters, routes and the router. It
//!   depends on no handler and no store.
//! - [`agent`]: the exporter of a node. It stands alone and needs no store.
//! - [`mod@power`], [`storage`], [`placement_cache`]: data sources of handlers; [`app_state`]: the
//!   state that holds them.
//! - [`api`], [`compat`], [`page`], [`operator_routes`]: handlers, for `/api/v1`, for clients of
//!   other systems, for people and for operators.
//! - [`routes`]: the route table; [`mod@openapi`] makes the document from it.
//! - [`mod@serve`]: starts and ends all of them.
//!
//! Invariants:
//!
//! - [`routes`] is the only list of routes. The router and the OpenAPI document are both made from
//!   it, so they cannot differ.
//! - Store calls block: they run on a small bounded pool ([`http::blocking_lanes`]), never on the
//!   serving thread.
//! - Everything is bounded: connections of each phase, times, bodies and their memory, pages,
//!   points, label sets. Slow clients are displaced by newcomers.
//! - Errors are RFC 9457 problems ([`http::problem`]) that name the field, its value and the
//!   expected value.
//! - Health and the page's own files are for everybody, metrics for all users of this machine. All
//!   else belongs to the server's own user and to the holder of the token ([`http::credentials`]).
//!   On any other address than loopback a token is needed ([`http::config`]).
//! - All listeners have one gate. A foreign web page is not trusted: `Host` must name this machine,
//!   and no foreign page changes anything ([`http::gate`]). The worker of the queue executes runs.
//! - No reply has the value of an environment variable ([`session_redaction`]).
//!
//! Limits: HTTP/1.1; TLS where certificate and key are given.

pub mod agent;
mod api;
mod app_state;
mod compat;
pub mod config;
mod docker_flags;
mod error;
mod http;
mod openapi;
mod operator_routes;
mod page;
mod placement_cache;
mod power;
mod process_usage;
mod routes;
mod serve;
mod session_redaction;
mod storage;

pub use compat::kepler;
pub use compat::soprano::PredictorColumns;
pub use config::{Config, DoctorCheck, JenkinsJobConfig};
pub use error::Error;
pub use http::config::{AccessToken, HttpConfig, HttpLimits};
pub use http::problem::{FieldError, ProblemDetails};
pub use http::tls::TlsIdentity;
pub use placement_cache::{FilePredictor, SopranoConfig};
pub use power::{DEFAULT_INTERVAL as POWER_INTERVAL, NodePowerConfig};
pub use serve::{run, serve};

/// The OpenAPI 3.1 document of the API, as served at `/openapi.json`.
pub fn openapi() -> serde_json::Value {
    openapi::build_document(routes::ROUTES)
}
