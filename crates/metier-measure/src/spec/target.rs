//! What is run: a command of this host, a container, or a pod of a cluster.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use metier_types::Bytes;

use super::AwaitedOutput;

/// A program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSpec {
    /// Name to look up in PATH, or a path.
    pub program: OsString,
    pub arguments: Vec<OsString>,
}

impl CommandSpec {
    /// All words, for people and records; bytes that are not UTF-8 are shown as replacement characters.
    pub fn words(&self) -> Vec<String> {
        std::iter::once(&self.program)
            .chain(&self.arguments)
            .map(|w| w.to_string_lossy().into_owned())
            .collect()
    }
}

/// When an image is fetched from its registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PullPolicy {
    /// When it is not here yet.
    #[default]
    Missing,
    Always,
    /// Never: an image that is not here is an error.
    Never,
}

/// A container of an engine on this host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerSpec {
    /// The image, for example `python:3.12`.
    pub image: String,
    /// In place of the image's entrypoint; as the engine's own client does, the image's command is then left out.
    pub entrypoint: Option<Vec<String>>,
    /// In place of the image's command; none of them means the image's own.
    pub arguments: Vec<String>,
    /// Where the engine listens: `unix:///path` or a path. Else `DOCKER_HOST`, else the usual places.
    pub engine: Option<String>,
    /// User (and group) to run as, as the engine takes it: `1000`, `1000:1000`, `name`.
    pub user: Option<String>,
    /// Network mode: `none`, `host`, `bridge`, or the name of a network.
    pub network: Option<String>,
    /// The runtime that the engine should use, for example `nvidia`.
    pub runtime: Option<String>,
    /// Devices of the host that it may use, for example `/dev/video0`.
    pub devices: Vec<PathBuf>,
    /// Capabilities that it gets beyond the usual ones.
    pub capabilities: Vec<String>,
    /// Whether it may do everything that the host may.
    pub privileged: bool,
    /// Size of its `/dev/shm`.
    pub shared_memory: Option<Bytes>,
    pub labels: BTreeMap<String, String>,
    /// Whether it reads our standard input.
    pub stdin: bool,
    /// What it is awaited to print.
    pub awaits: Option<AwaitedOutput>,
    /// When the image is fetched.
    pub pull: PullPolicy,
    /// Start without the gate, at the price of the engine's own start-up being in the figures.
    pub without_gate: bool,
}

/// A pod of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodSpec {
    pub image: String,
    /// In place of the image's entrypoint.
    pub entrypoint: Option<Vec<String>>,
    /// In place of the image's command; none of them means the image's own.
    pub arguments: Vec<String>,
    /// The cluster's file; else `KUBECONFIG`, else the usual place, else the pod that we are in.
    pub kubeconfig: Option<PathBuf>,
    /// The context in that file; else its current one.
    pub context: Option<String>,
    /// The namespace; else the context's own.
    pub namespace: Option<String>,
    /// The node to run on.
    pub node: Option<String>,
    /// Labels that its node must have, for example a device type.
    pub node_labels: BTreeMap<String, String>,
    /// Treats its node as another machine, also where it is this one: for tests of that way.
    pub as_elsewhere: bool,
    /// How long it may take to start; else five minutes.
    pub start_within: Option<std::time::Duration>,
    /// When the image is fetched.
    pub pull: PullPolicy,
    /// What its container may do and see.
    pub confines: PodPrivileges,
}

/// What a pod's container may do and see of its node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodPrivileges {
    /// Whether it has its node's network.
    pub host_network: bool,
    /// The class of runtime, for example `nvidia`.
    pub runtime: Option<String>,
    /// User and group to run as.
    pub user: Option<(i64, Option<i64>)>,
    /// Devices of its node that it sees.
    pub devices: Vec<PathBuf>,
    /// Capabilities beyond the usual ones, without `CAP_`.
    pub capabilities: Vec<String>,
    /// Whether it may do everything that its node may.
    pub privileged: bool,
    /// Size of its `/dev/shm`.
    pub shared_memory: Option<Bytes>,
    pub labels: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunTarget {
    /// A program of this host.
    Command(CommandSpec),
    /// A container of an engine on this host.
    Container(ContainerSpec),
    /// A pod of a cluster; measured through `metier-cluster`.
    Pod(PodSpec),
}

impl RunTarget {
    /// What is run, in words for people and records: program and arguments, or the image and what it is given.
    pub fn words(&self) -> Vec<String> {
        let image = |image: &String, entrypoint: &Option<Vec<String>>, arguments: &[String]| {
            let own = entrypoint.iter().flatten().chain(arguments);
            std::iter::once(image).chain(own).cloned().collect()
        };
        match self {
            Self::Command(command) => command.words(),
            Self::Container(c) => image(&c.image, &c.entrypoint, &c.arguments),
            Self::Pod(p) => image(&p.image, &p.entrypoint, &p.arguments),
        }
    }

    /// The command, where it is one.
    pub fn command(&self) -> Option<&CommandSpec> {
        match self {
            Self::Command(command) => Some(command),
            _ => None,
        }
    }

    /// The image, where it has one.
    pub fn image(&self) -> Option<&str> {
        match self {
            Self::Command(_) => None,
            Self::Container(container) => Some(&container.image),
            Self::Pod(pod) => Some(&pod.image),
        }
    }
}
