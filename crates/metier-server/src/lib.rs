//! The HTTP server of metier: the API over the store, the queue's doors, and the page.
//!
//! Layers, each of which uses only those before it:
//!
//! - [`http`]: connections, the gate, limits, problems, parameters, the type of a route, the router. It knows no
//!   handler and no store.
//! - [`agent`]: the exporter of a node. It stands alone and needs no store.
//! - [`get_node_power`], [`storage`], [`placement_cache`]: what handlers read; [`app_state`]: the state that holds all of it.
//! - [`api`], [`compat`], [`metrics_page`], [`operator_routes`]: handlers, for `/api/v1`, for clients of other systems, for people
//!   and for operators.
//! - [`routes`]: the table; [`openapi`] makes the document from it.
//! - [`serve_client`]: starts and ends all of it.
//!
//! - [`routes`] is the one list of what the server answers. The router and the OpenAPI document are both made
//!   from it, so neither can know a route that the other does not.
//! - Store calls block: they run on a small bounded pool ([`http::blocking_lanes`]), never on the thread that serves.
//! - Everything is bounded: connections, header and request time, bodies, pages, points, label sets.
//! - Errors are RFC 9457 problems ([`http::problem`]) that name the field, what it was and what would be right.
//! - On a loopback address the caller is trusted but a foreign web page is not: the `Host` header must name
//!   this machine. On any other address a token is needed ([`http::config`]).
//! - What starts or ends a run needs the token, or a process of the server's own user on this machine ([`http::authorise_start`]); the run
//!   itself is made by whoever works the queue.
//!
//! Limits: HTTP/1.1 without TLS (put a proxy in front of it where that matters).

pub mod agent;
mod api;
mod app_state;
mod compat;
pub mod config;
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
mod storage;

pub use compat::kepler;
pub use compat::soprano::PredictorColumns;
pub use config::{Config, DoctorCheck, JenkinsJobConfig};
pub use error::Error;
pub use http::config::{AccessToken, HttpConfig, HttpLimits};
pub use http::problem::{FieldError, ProblemDetails};
pub use placement_cache::{FilePredictor, SopranoConfig};
pub use power::{DEFAULT_INTERVAL as POWER_INTERVAL, NodePowerConfig};
pub use serve::{run, serve};

/// The OpenAPI 3.1 document of the API, as served at `/openapi.json`.
pub fn openapi() -> serde_json::Value {
    openapi::build_document(routes::ROUTES)
}
