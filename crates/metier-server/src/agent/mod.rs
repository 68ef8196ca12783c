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
//! - Everything is bounded ([`AgentLimits`]); what is left out is on the page too.
//! - It listens on loopback; any other address needs `--open metrics` or a token.

mod app_listener;
mod cgroup_usage;
mod collector;
mod command_usage;
mod config;
mod container_engine;
mod device_metrics;
mod group_network;
mod group_tracker;
mod host_load;
mod metrics_page;
pub(crate) mod name_resolver;
mod parallel;
mod serve;
#[cfg(test)]
mod tests;

pub use config::{AgentConfig, AgentLimits, DEFAULT_APP_SOCKET, DEFAULT_LISTEN_ADDRESS, NodeLocation};
pub use container_engine::EngineNameSource;
pub use name_resolver::{ContainerName, NameRequest, NameSource, PodName, ResolvedNames};
pub use serve::{run, serve};
