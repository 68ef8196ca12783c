//! What the agent is told at its start, and its bounds.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use metier_linux::KernelRoots;

use super::group_tracker::GroupKind;
use super::name_resolver::NameSource;
use crate::error::Error;
use crate::http::config::HttpConfig;

/// Where the agent listens unless told otherwise.
pub const DEFAULT_LISTEN_ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7003);

/// Where applications are listened to unless told otherwise.
pub const DEFAULT_APP_SOCKET: &str = "/run/metier/live_metrics.sock";

/// What the agent is told at its start.
pub struct AgentConfig {
    /// Address, token, open doors, limits of connections.
    pub server: HttpConfig,
    /// Version of the program, for `metier_build_info`.
    pub version: String,
    /// Where the kernel's file systems of the host are mounted.
    pub roots: KernelRoots,
    /// Folder in which an identity is kept where the device has none.
    pub data: Option<PathBuf>,
    /// What the node is called; the host's name, unless said.
    pub node: Option<String>,
    /// Where the node stands; it is never looked up.
    pub location: Option<NodeLocation>,
    /// Who knows the names of containers and pods.
    pub sources: Vec<Box<dyn NameSource>>,
    /// Where applications are listened to.
    pub sockets: Vec<PathBuf>,
    /// Whether processes are shown one by one instead of by command.
    pub by_pid: bool,
    /// A page that is younger than this is given again instead of being made anew.
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
    /// What stands against starting with it.
    pub fn check(&self) -> Result<(), Error> {
        self.server.check_open()?;
        if self.server.token.is_none() && !self.server.is_open("metrics") {
            return Err(Error::ClosedMetrics { address: self.server.listen });
        }
        Ok(())
    }
}

/// Where a node stands.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeLocation {
    pub city: String,
    pub country: String,
    pub continent: String,
    pub latitude: String,
    pub longitude: String,
}

/// How much the agent shows at most. What is beyond is left out and counted.
#[derive(Debug, Clone)]
pub struct AgentLimits {
    pub containers: usize,
    pub pods: usize,
    pub runs: usize,
    pub units: usize,
    /// Commands by CPU time, and as many by memory.
    pub commands: usize,
    /// Metrics of each application.
    pub metrics_per_app: usize,
    pub apps: usize,
    /// Folders of a walk through one hierarchy.
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
    /// That of a sort of groups.
    pub const fn max_groups(&self, sort: GroupKind) -> usize {
        match sort {
            GroupKind::Container => self.containers,
            GroupKind::Pod => self.pods,
            GroupKind::Run => self.runs,
            GroupKind::Unit => self.units,
        }
    }
}
