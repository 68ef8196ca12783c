//! The HTTP layer of every server here: one listener and one gate for all of them, limits,
//! problem+json, parameters, routes and the router.

pub mod access_control;
pub mod blocking_lanes;
mod body_budget;
pub mod body_reader;
pub mod compress;
pub mod config;
mod connection_places;
pub mod credentials;
pub mod gate;
mod handler;
mod host_names;
pub mod listener;
pub mod parameter;
pub mod peer_user;
pub mod problem;
pub mod rate_limiter;
pub mod request_metrics;
mod route;
mod router;
mod seated_stream;
pub mod server_bounds;
mod state;
pub mod tls;

pub use handler::{HandlerRequest, HandlerResponse};
pub use route::{ApiRoute, HandlerStage, RequestContent, ResponseContent, RouteMethod, RouteWork};
pub use router::{RouteLabel, build_router};
pub use state::{HttpState, ServerState};
