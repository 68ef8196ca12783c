//! The HTTP layer of every server here: the gate, limits, problem+json, parameters, routes and the
//! router.

pub mod access_control;
pub mod blocking_lanes;
pub mod compress;
pub mod config;
pub mod credentials;
pub mod gate;
mod handler;
pub mod listener;
pub mod parameter;
pub mod peer_user;
pub mod problem;
pub mod rate_limiter;
pub mod request_metrics;
mod route;
mod router;
pub mod start_permission;
mod state;
pub mod tls;
pub mod write_timeout;

pub use handler::{HandlerRequest, HandlerResponse};
pub use route::{ApiRoute, HandlerStage, RequestContent, ResponseContent, RouteMethod, RouteWork};
pub use router::{RouteLabel, build_router};
pub use state::{HttpState, ServerState};
