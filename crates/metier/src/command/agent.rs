//! `metier agent`: the exporter of this node for Prometheus, until INT or TERM.

use std::path::PathBuf;

use clap::Args;
use metier_linux::KernelRoots;
use metier_server::HttpConfig;
use metier_server::agent::{AgentConfig, AgentLimits, EngineNameSource, NameSource, NodeLocation};

use super::CommandContext;
use super::up::load_token;
use crate::config::{FlagSettings, data_folder};
use crate::exit::{CliExitCode, usage_error};

mod pod_names;

const EXAMPLES: &str = "Examples:
  metier agent                                           http://127.0.0.1:7003/metrics
  metier agent --listen 0.0.0.0:7003 --open metrics      for a Prometheus elsewhere
  metier agent --socket /metrics/live_metrics.sock       where Waggle's plugins send to
  metier agent --root /host --node edge-1                in a container that has the host at /host";

/// Export what this node runs for Prometheus
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = "Names of containers come from a container engine's socket, those of pods from the cluster that KUBECONFIG names or that the agent runs in; without them identifiers stand in.")]
pub struct AgentArgs {
    /// Address to listen on [METIER_AGENT_LISTEN; default 127.0.0.1:7003]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// Interface that needs no token on an address that is not loopback: metrics
    #[arg(long, value_name = "INTERFACE")]
    open: Vec<String>,
    /// Further accepted Host header: a name by which scrapers address this node
    /// [METIER_AGENT_HOSTS]
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// File with the token that scrapers must present
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Socket for metrics of applications; can be repeated, `none` for no socket
    /// [METIER_AGENT_SOCKET; default /run/metier/live_metrics.sock]
    #[arg(long, value_name = "PATH")]
    socket: Vec<String>,
    /// Socket of the container engine, `none` to use no engine [METIER_AGENT_ENGINE; default
    /// DOCKER_HOST, then the usual paths]
    #[arg(long, value_name = "PATH")]
    engine: Option<String>,
    /// Name of this node [METIER_AGENT_NODE, NODE_NAME; default the host's name]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Location of this node: city=…,country=…,continent=…,latitude=…,longitude=…
    /// [METIER_AGENT_LOCATION]
    #[arg(long, value_name = "PLACE")]
    location: Option<String>,
    /// Folder where the host's file system is mounted
    #[arg(long, value_name = "FOLDER", default_value = "/")]
    root: PathBuf,
    /// Limit of containers in the metrics; the rest is counted
    #[arg(long, value_name = "N", default_value_t = AgentLimits::default().containers)]
    containers: usize,
    /// Limit of commands in the metrics, by CPU time and as many by memory
    #[arg(long, value_name = "N", default_value_t = AgentLimits::default().commands)]
    commands: usize,
    /// Export processes by PID instead of by command: a new series for each process
    #[arg(long)]
    by_pid: bool,
}

impl AgentArgs {
    /// The settings that these flags set.
    pub fn setting_values(&self) -> FlagSettings {
        let joined = |list: &Vec<String>| (!list.is_empty()).then(|| list.join(","));
        vec![
            ("agent.listen", self.listen.clone()),
            ("agent.open", joined(&self.open)),
            ("agent.hosts", joined(&self.host)),
            ("agent.token_file", self.token_file.as_ref().map(|path| path.display().to_string())),
            ("agent.socket", joined(&self.socket)),
            ("agent.engine", self.engine.clone()),
            ("agent.node", self.node.clone()),
            ("agent.location", self.location.clone()),
        ]
    }

    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        metier_linux::allocator::tune_for_server();
        crate::log::start_logging(&context.console, context.verbose, crate::log::SERVER_LEVEL)?;
        let settings = &context.settings;
        let text = |name: &str| settings.get(name).and_then(|setting| setting.value.clone());
        let environment = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let node = text("agent.node").or_else(|| environment("NODE_NAME"));
        if !self.root.join("proc").is_dir() {
            let root = self.root.display();
            return Err(usage_error(format!(
                "--root is {root}, which has no proc; want the folder at which the host is mounted"
            )));
        }
        let location = match text("agent.location") {
            Some(place) => {
                Some(parse_location(&place).map_err(|want| settings.wrong_value("agent.location", &want))?)
            }
            None => None,
        };
        let config = AgentConfig {
            server: HttpConfig {
                listen: settings.address("agent.listen")?,
                token: load_token(context, "agent.token_file")?,
                open: settings.list("agent.open"),
                hosts: settings.list("agent.hosts"),
                ..HttpConfig::default()
            },
            version: env!("CARGO_PKG_VERSION").to_string(),
            roots: KernelRoots {
                proc: self.root.join("proc"),
                sys: self.root.join("sys"),
                etc: self.root.join("etc"),
            },
            data: data_folder(),
            sources: self.name_sources(context, node.clone())?,
            node,
            location,
            sockets: settings
                .list("agent.socket")
                .into_iter()
                .filter(|path| path != "none")
                .map(Into::into)
                .collect(),
            by_pid: self.by_pid,
            bounds: AgentLimits {
                containers: self.containers,
                commands: self.commands,
                ..AgentLimits::default()
            },
            ..AgentConfig::default()
        };
        config.check().map_err(|error| usage_error(error.to_string()))?;
        let console = context.console;
        metier_server::agent::run(config, |address| {
            console.note(format!("metier: ready at http://{address}/metrics; Ctrl-C ends it"));
        })?;
        Ok(CliExitCode::OK)
    }

    /// Sources of container and pod names: the engine's socket, if there is one, and the cluster.
    fn name_sources(
        &self,
        context: &CommandContext,
        node: Option<String>,
    ) -> anyhow::Result<Vec<Box<dyn NameSource>>> {
        let mut sources: Vec<Box<dyn NameSource>> = Vec::new();
        let named = context.settings.get("agent.engine").and_then(|setting| setting.value.clone());
        let socket = match named.as_deref() {
            Some("none") => None,
            Some(path) => {
                let path = path.strip_prefix("unix://").unwrap_or(path);
                if !path.starts_with('/') {
                    return Err(context
                        .settings
                        .wrong_value("agent.engine", "the absolute path of a socket, or none"));
                }
                Some(PathBuf::from(path))
            }
            None => EngineNameSource::discover(),
        };
        if let Some(socket) = socket {
            sources.push(Box::new(EngineNameSource::at_socket(socket)));
        }
        if let Some(cluster) = pod_names::ClusterNameSource::from_environment(node) {
            sources.push(Box::new(cluster));
        }
        Ok(sources)
    }
}

/// Parses `city=…,country=…`. The error gives the accepted syntax.
fn parse_location(text: &str) -> Result<NodeLocation, String> {
    const WANT: &str = "city=…,country=…,continent=…,latitude=…,longitude=…, each at most once";
    let mut place = NodeLocation::default();
    let mut seen = Vec::new();
    for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
        let (key, value) = pair.split_once('=').ok_or(WANT)?;
        let (key, value) = (key.trim(), value.trim().to_string());
        if seen.contains(&key) {
            return Err(WANT.to_string());
        }
        seen.push(key);
        let degrees = |most: f64| match value.parse::<f64>() {
            Ok(degrees) if degrees.abs() <= most => Ok(()),
            _ => Err(format!("{key} in degrees, from -{most} to {most}")),
        };
        match key {
            "city" => place.city = value,
            "country" => place.country = value,
            "continent" => place.continent = value,
            "latitude" => {
                degrees(90.0)?;
                place.latitude = value;
            }
            "longitude" => {
                degrees(180.0)?;
                place.longitude = value;
            }
            _ => return Err(WANT.to_string()),
        }
    }
    if seen.is_empty() { Err(WANT.to_string()) } else { Ok(place) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_and_a_wrong_one_refused() {
        let place = parse_location("city=Pisa, country=Italy,latitude=43.7,longitude=10.4").unwrap();
        assert_eq!(
            (place.city.as_str(), place.latitude.as_str(), place.continent.as_str()),
            ("Pisa", "43.7", "")
        );
        for wrong in ["Pisa", "city=a,city=b", "latitude=91", "longitude=east", "planet=Earth", "", ","] {
            assert!(parse_location(wrong).is_err(), "{wrong}");
        }
    }
}
