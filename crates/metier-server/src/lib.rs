//! The HTTP server of metier: the API over the store, the queue's doors, and the page.
//!
//! ```text
//! connection (serve) → front door (http::front) → route table (routes) → handler (api/*, compat/*, system, page) → store (storage)
//! ```
//!
//! Beside requests, a thread looks at the power of this node every few seconds (`power`); what it has seen of late is one more thing that handlers read.
//!
//! [`agent`] is a server of its own: the exporter of a node, which needs no store.
//!
//! - [`routes`] is the one list of what the server answers. The router and the OpenAPI document are both made
//!   from it, so neither can know a route that the other does not.
//! - Store calls block: they run on a small bounded pool ([`storage`]), never on the thread that serves.
//! - Everything is bounded: connections, header and request time, bodies, pages, points, label sets.
//! - Errors are RFC 9457 problems ([`http::problem`]) that name the field, what it was and what would be right.
//! - On a loopback address the caller is trusted but a foreign web page is not: the `Host` header must name
//!   this machine. On any other address a token is needed ([`config`]).
//! - What starts or ends a run needs the token, or a process of the server's own user on this machine ([`http::starter`]); the run
//!   itself is made by whoever works the queue.
//!
//! Limits: HTTP/1.1 without TLS (put a proxy in front of it where that matters).

pub mod agent;
mod api;
mod compat;
pub mod config;
mod error;
mod http;
mod metrics;
mod openapi;
mod page;
mod power;
mod process;
mod routes;
mod serve;
mod storage;
mod system;

pub use api::doctor::Check;
pub use compat::kepler;
pub use compat::soprano::Soprano;
pub use config::{Config, Job, Limits, Secret};
pub use error::Error;
pub use http::problem::{FieldError, Problem};
pub use power::{INTERVAL as POWER_INTERVAL, Power};
pub use serve::{run, serve};

/// The OpenAPI 3.1 document of the API, as served at `/openapi.json`.
pub fn openapi() -> serde_json::Value {
    openapi::document()
}
