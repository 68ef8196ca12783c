//! The agent: a node exporter for live profiling, for Prometheus to scrape.
//!
//! ```text
//! scrape (serve) → collector ─┬→ groups: containers, pods, runs, units (usage: their files; network)
//!                             ├→ processes, by command
//!                             ├→ apps: what applications say of themselves
//!                             ├→ device: what this node is
//!                             └→ page ← names: what people call them (engine, cluster; on a thread of their own)
//! ```
//!
//! - Everything is read at scrape time, at most once a second, by a few threads at once; between scrapes the agent sleeps.
//! - A scrape never waits for an engine or a cluster: until a name is known the identifier stands in.
//! - Everything is bounded ([`Bounds`]); what is left out is on the page too.
//! - It listens on loopback; any other address needs `--open metrics` or a token.

mod apps;
mod collector;
mod config;
mod device;
mod engine;
mod groups;
mod load;
pub(crate) mod names;
mod network;
mod page;
mod parallel;
mod processes;
mod serve;
#[cfg(test)]
mod tests;
mod usage;

pub use config::{AgentConfig, Bounds, LISTEN, Location, SOCKET};
pub use engine::Engine;
pub use names::{ContainerName, Found, NameSource, PodName, Wanted};
pub use serve::{run, serve};
