//! The target of a run: a command of this host, a container, or a pod of a cluster.

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
    /// Program and arguments as text; bytes that are not UTF-8 become replacement characters.
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
    /// If it is not present yet.
    #[default]
    Missing,
    Always,
    /// Never: a missing image is an error.
    Never,
}

/// A container of an engine on this host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerSpec {
    /// The image, for example `python:3.12`.
    pub image: String,
    /// Replaces the image's entrypoint; the image's command is then ignored, as with the engine's
    /// own client.
    pub entrypoint: Option<Vec<String>>,
    /// Replace the image's command; if empty, the image's own is used.
    pub arguments: Vec<String>,
    /// The engine's socket: `unix:///path` or a path. By default `DOCKER_HOST`, else the usual
    /// places.
    pub engine: Option<String>,
    /// User (and group) to run as, in the engine's syntax: `1000`, `1000:1000`, `name`.
    pub user: Option<String>,
    /// Network mode: `none`, `host`, `bridge`, or the name of a network.
    pub network: Option<String>,
    /// The container runtime, for example `nvidia`.
    pub runtime: Option<String>,
    /// Accessible devices of the host, for example `/dev/video0`.
    pub devices: Vec<PathBuf>,
    /// Additional capabilities.
    pub capabilities: Vec<String>,
    /// Whether it is privileged.
    pub privileged: bool,
    /// Size of its `/dev/shm`.
    pub shared_memory: Option<Bytes>,
    pub labels: BTreeMap<String, String>,
    /// Whether it reads this process's standard input.
    pub stdin: bool,
    /// Text that it is expected to print.
    pub awaits: Option<AwaitedOutput>,
    /// When the image is fetched.
    pub pull: PullPolicy,
    /// Starts without the gate; the engine's own start-up is then part of the figures.
    pub without_gate: bool,
}

/// A pod of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodSpec {
    pub image: String,
    /// Replaces the image's entrypoint.
    pub entrypoint: Option<Vec<String>>,
    /// Replace the image's command; if empty, the image's own is used.
    pub arguments: Vec<String>,
    /// The kubeconfig file; by default `KUBECONFIG`, else the usual place, else the surrounding
    /// pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// The context in that file; by default its current one.
    pub context: Option<String>,
    /// The namespace; by default the context's own.
    pub namespace: Option<String>,
    /// The node to run on.
    pub node: Option<String>,
    /// Labels that its node must have, for example a device type.
    pub node_labels: BTreeMap<String, String>,
    /// Treats its node as another machine even if it is this one; for tests.
    pub as_elsewhere: bool,
    /// Time limit of its start; five minutes by default.
    pub start_within: Option<std::time::Duration>,
    /// When the image is fetched.
    pub pull: PullPolicy,
    /// Privileges of its container.
    pub confines: PodPrivileges,
}

/// Privileges of a pod's container on its node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodPrivileges {
    /// Whether it uses its node's network.
    pub host_network: bool,
    /// The runtime class, for example `nvidia`.
    pub runtime: Option<String>,
    /// User and group to run as.
    pub user: Option<(i64, Option<i64>)>,
    /// Accessible devices of its node.
    pub devices: Vec<PathBuf>,
    /// Additional capabilities, without `CAP_`.
    pub capabilities: Vec<String>,
    /// Whether it is privileged.
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
    /// The target as text, for people and records: program and arguments, or the image and its
    /// arguments.
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

    /// The command, if the target is one.
    pub fn command(&self) -> Option<&CommandSpec> {
        match self {
            Self::Command(command) => Some(command),
            _ => None,
        }
    }

    /// The image, if there is one.
    pub fn image(&self) -> Option<&str> {
        match self {
            Self::Command(_) => None,
            Self::Container(container) => Some(&container.image),
            Self::Pod(pod) => Some(&pod.image),
        }
    }
}
