//! Configuration of the agent, and its bounds.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use metier_linux::KernelRoots;

use super::group_tracker::GroupKind;
use super::name_resolver::NameSource;
use crate::error::Error;
use crate::http::config::HttpConfig;

/// Default listen address of the agent.
pub const DEFAULT_LISTEN_ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7003);

/// Default socket for messages of applications.
pub const DEFAULT_APP_SOCKET: &str = "/run/metier/live_metrics.sock";

/// Configuration of the agent.
pub struct AgentConfig {
    /// Address, token, open interfaces, limits of connections.
    pub server: HttpConfig,
    /// Version of the program, for `metier_build_info`.
    pub version: String,
    /// Where the host's kernel file systems are mounted.
    pub roots: KernelRoots,
    /// Folder for an identity, used where the device has none.
    pub data: Option<PathBuf>,
    /// Name of the node; the host name by default.
    pub node: Option<String>,
    /// Location of the node, from the configuration; it is never looked up.
    pub location: Option<NodeLocation>,
    /// Sources of container and pod names.
    pub sources: Vec<Box<dyn NameSource>>,
    /// Sockets for messages of applications.
    pub sockets: Vec<PathBuf>,
    /// Show processes one by one instead of by command.
    pub by_pid: bool,
    /// A page younger than this is served again.
    pub fresh: Duration,
    pub bounds: AgentLimits,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            server: HttpConfig { listen: DEFAULT_LISTEN_ADDRESS, ..HttpConfig::default() },
            version: env!("CARGO_PKG_VERSION").to_string(),
            roots: KernelRoots::default(),
            data: None,
            node: None,
            location: None,
            sources: Vec::new(),
            sockets: vec![DEFAULT_APP_SOCKET.into()],
            by_pid: false,
            fresh: Duration::from_secs(1),
            bounds: AgentLimits::default(),
        }
    }
}

impl AgentConfig {
    /// Checks the configuration before the start.
    pub fn check(&self) -> Result<(), Error> {
        self.server.check_open()?;
        if self.server.token.is_none() && !self.server.is_open("metrics") {
            return Err(Error::ClosedMetrics { address: self.server.listen });
        }
        Ok(())
    }
}

/// Location of a node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeLocation {
    pub city: String,
    pub country: String,
    pub continent: String,
    pub latitude: String,
    pub longitude: String,
}

/// Bounds of what the agent shows. Everything beyond them is left out and counted.
#[derive(Debug, Clone)]
pub struct AgentLimits {
    pub containers: usize,
    pub pods: usize,
    pub runs: usize,
    pub units: usize,
    /// Most commands by CPU time, and as many by memory.
    pub commands: usize,
    /// Most metrics of each application.
    pub metrics_per_app: usize,
    pub apps: usize,
    /// Most folders of a walk through one hierarchy.
    pub folders: usize,
}

impl Default for AgentLimits {
    fn default() -> Self {
        Self {
            containers: 1000,
            pods: 500,
            runs: 100,
            units: 200,
            commands: 20,
            metrics_per_app: 64,
            apps: 256,
            folders: 20_000,
        }
    }
}

impl AgentLimits {
    /// Most groups of a kind.
    pub const fn max_groups(&self, sort: GroupKind) -> usize {
        match sort {
            GroupKind::Container => self.containers,
            GroupKind::Pod => self.pods,
            GroupKind::Run => self.runs,
            GroupKind::Unit => self.units,
        }
    }
}
