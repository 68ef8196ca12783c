//! The agent: a node exporter for live profiling, scraped by Prometheus.
//!
//! ```text
//! scrape (serve) → collector ─┬→ groups: containers, pods, runs, units (cgroup files; network)
//!                             ├→ processes, by command
//!                             ├→ apps: metrics that applications send
//!                             ├→ device: facts about this node
//!                             └→ page ← names (engine, cluster; on a thread of their own)
//! ```
//!
//! - Everything is read at scrape time, at most once a second, by a few threads. Between scrapes
//!   the agent sleeps.
//! - A scrape never waits for an engine or a cluster. The identifier stands in until a name is
//!   found.
//! - Everything is bounded ([`AgentLimits`]); the page counts everything left out.
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
