//! What every server here is made of: the gate, limits, problem+json, parameters, routes and the router.

mod call;
pub mod compress;
pub mod config;
pub mod front;
pub mod guard;
pub mod lanes;
pub mod listener;
pub mod metrics;
pub mod parameter;
pub mod peer;
pub mod problem;
pub mod rate;
mod route;
mod router;
pub mod starter;
mod state;
pub mod write_limit;

pub use call::{Call, Reply};
pub use route::{Answer, Route, Sent, Stage, Verb, Work};
pub use router::{Label, router};
pub use state::{HttpState, ServerState};
