//! What runs: a command, a container or a pod, and what is put into it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use metier_measure::spec::{Command, ContainerSpec, Mount, PodSpec, Pull, Target};
use metier_types::Bytes;

use super::super::fault::Fault;
use super::super::file::{self, Probe, RunFile};
use super::super::quantity::{SIZE, size};
use super::{Check, join};

/// Which of the three it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A program of this machine.
    Command,
    /// A container of an engine here.
    Container,
    /// A pod of a cluster.
    Pod,
}

/// A mount as the measuring room wants it: its source absolute.
pub(super) fn measured_mount(mount: &file::Mount) -> Mount {
    let source = std::path::absolute(&mount.source).unwrap_or_else(|_| mount.source.as_str().into());
    Mount { source, target: mount.target.as_str().into(), read_only: mount.read_only }
}

impl Check {
    /// Exactly one of the three, and nothing that only the others have.
    pub(super) fn kind(&mut self, file: &RunFile, path: &str) -> Kind {
        let at = |name: &str| join(path, name);
        let given = [
            (Kind::Command, "command", !file.command.is_empty()),
            (Kind::Container, "image", file.image.is_some()),
            (Kind::Pod, "pod", file.pod.is_some()),
        ];
        let kinds: Vec<_> = given.iter().filter(|(_, _, is)| *is).collect();
        let kind = match kinds.as_slice() {
            [(kind, _, _)] => *kind,
            [] => {
                self.faults.push(Fault::absent(at("command"), "what to run: one of command, image or pod"));
                return Kind::Command;
            }
            [(_, first, _), .., (kind, last, _)] => {
                let got = format!("given beside {first}");
                self.faults.push(Fault::new(at(last), got, "one of command, image or pod"));
                *kind
            }
        };
        let only_container = "left out: it is only for an image";
        let only_image = "left out: it is only for an image or a pod";
        let c = &file.container;
        let (here, not_container) = (kind == Kind::Command, kind != Kind::Container);
        for (field, is_wrong, want) in [
            ("mounts", here && !file.mounts.is_empty(), "left out: a command sees this machine's files"),
            (
                "limits.gpu",
                here && file.limits.gpu.is_some(),
                "left out: a command sees all GPUs of this machine",
            ),
            ("container.entrypoint", here && !c.entrypoint.is_empty(), only_image),
            ("container.pull", here && c.pull.is_some(), only_image),
            ("container.engine", not_container && c.engine.is_some(), only_container),
            ("container.network", not_container && c.network.is_some(), only_container),
            ("container.runtime", not_container && c.runtime.is_some(), only_container),
            ("container.user", not_container && c.user.is_some(), only_container),
            ("container.devices", not_container && !c.devices.is_empty(), only_container),
            ("container.capabilities", not_container && !c.capabilities.is_empty(), only_container),
            ("container.privileged", not_container && c.privileged, only_container),
            ("container.stdin", here && c.stdin, "left out: a command has our standard input"),
            ("container.stdin", kind == Kind::Pod && c.stdin, only_container),
            ("container.shared_memory", not_container && c.shared_memory.is_some(), only_container),
            ("container.labels", not_container && !c.labels.is_empty(), only_container),
        ] {
            if is_wrong {
                self.faults.push(Fault::new(at(field), "given", want));
            }
        }
        kind
    }

    pub(super) fn target(&mut self, file: &RunFile, kind: Kind, path: &str) -> Target {
        let at = |name: &str| join(path, name);
        let wrap = || file.probes.iter().rev().flat_map(|probe| probe.wrap.iter().cloned());
        let c = &file.container;
        let entrypoint =
            (!c.entrypoint.is_empty()).then(|| wrap().chain(c.entrypoint.iter().cloned()).collect());
        let pull = self
            .read(at("container.pull"), c.pull.as_ref(), "missing, always or never", |text| match text {
                "missing" => Some(Pull::Missing),
                "always" => Some(Pull::Always),
                "never" => Some(Pull::Never),
                _ => None,
            })
            .unwrap_or_default();
        let target = match kind {
            Kind::Command => {
                if file.command.first().is_some_and(String::is_empty) {
                    self.wrong(at("command"), "", "a program to run");
                }
                let mut words =
                    wrap().chain(file.command.iter().cloned()).chain(file.arguments.iter().cloned());
                let program = words.next().unwrap_or_default().into();
                Target::Command(Command { program, arguments: words.map(Into::into).collect() })
            }
            Kind::Container => Target::Container(ContainerSpec {
                stdin: c.stdin,
                awaits: None,
                image: file.image.clone().unwrap_or_default(),
                entrypoint,
                arguments: file.arguments.clone(),
                engine: c.engine.clone(),
                user: c.user.clone(),
                network: c.network.clone(),
                runtime: c.runtime.clone(),
                devices: c.devices.iter().map(PathBuf::from).collect(),
                capabilities: c.capabilities.clone(),
                privileged: c.privileged,
                shared_memory: self
                    .read(at("container.shared_memory"), c.shared_memory.as_ref(), SIZE, size)
                    .map(Bytes),
                labels: c.labels.clone(),
                pull,
                without_gate: false,
            }),
            Kind::Pod => {
                let pod = file.pod.clone().unwrap_or_default();
                Target::Pod(PodSpec {
                    image: pod.image,
                    entrypoint,
                    arguments: file.arguments.clone(),
                    kubeconfig: pod.kubeconfig.map(PathBuf::from),
                    context: pod.context,
                    namespace: pod.namespace,
                    node: pod.node,
                    node_labels: pod.selector,
                    as_elsewhere: false,
                    start_within: None,
                    pull,
                })
            }
        };
        if let Some(image) = target.image()
            && (image.is_empty() || image.contains(char::is_whitespace) || image.starts_with('-'))
        {
            let field = if kind == Kind::Pod { "pod.image" } else { "image" };
            self.wrong(at(field), image, "an image such as python:3.12");
        }
        for device in &c.devices {
            if !device.starts_with('/') {
                self.wrong(at("container.devices"), device, "absolute paths such as /dev/video0");
            }
        }
        target
    }

    pub(super) fn variables(&mut self, variables: &BTreeMap<String, String>, path: &str) {
        for name in variables.keys() {
            if name.is_empty() || name.contains(['=', '\0']) {
                self.wrong(format!("{path}.{name}"), name, "a name without '='");
            }
        }
    }

    pub(super) fn patterns(&mut self, patterns: &[String], path: &str) {
        for (index, pattern) in patterns.iter().enumerate() {
            if pattern.is_empty() || pattern.split('/').any(|part| part == "..") {
                self.wrong(format!("{path}[{index}]"), pattern, "a path such as out/*.json, without `..`");
            }
        }
    }

    pub(super) fn probe(&mut self, probe: &Probe, path: &str, kind: Kind, file: &RunFile) {
        self.variables(&probe.environment, &format!("{path}.environment"));
        self.patterns(&probe.artefacts, &format!("{path}.artefacts"));
        for (index, mount) in probe.mounts.iter().enumerate() {
            self.mount(mount, &format!("{path}.mounts[{index}]"), kind);
        }
        if kind == Kind::Command && !probe.mounts.is_empty() {
            let want = "left out: a command sees this machine's files";
            self.faults.push(Fault::new(format!("{path}.mounts"), "given", want));
        }
        if !probe.wrap.is_empty() && kind != Kind::Command && file.container.entrypoint.is_empty() {
            let got = "words before an entrypoint that is not known";
            let want = "container.entrypoint too: it says what to put the words before";
            self.faults.push(Fault::new(format!("{path}.wrap"), got, want));
        }
    }

    pub(super) fn mount(&mut self, mount: &file::Mount, path: &str, kind: Kind) {
        if !mount.target.starts_with('/') || mount.target.contains(':') {
            self.wrong(format!("{path}.target"), &mount.target, "an absolute path in the container");
        }
        match kind {
            Kind::Container if !self.is_later && std::fs::symlink_metadata(&mount.source).is_err() => {
                self.wrong(format!("{path}.source"), &mount.source, "a file or folder that is there");
            }
            Kind::Pod if !mount.source.starts_with('/') => {
                self.wrong(format!("{path}.source"), &mount.source, "an absolute path on the node");
            }
            _ => {}
        }
    }
}
