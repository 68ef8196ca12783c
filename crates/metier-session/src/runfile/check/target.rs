//! Checks the target of a run: a command, a container or a pod, and its mounts and variables.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use metier_measure::spec::{
    BindMount, CommandSpec, ContainerSpec, PodPrivileges, PodSpec, PullPolicy, RunTarget,
};
use metier_types::Bytes;

use super::super::checked::DATASET_TARGET;
use super::super::fault::RunFileFault;
use super::super::fields::FieldTable as _;
use super::super::file::{self, Probe, RunFile};
use super::super::quantity::{SIZE, size};
use super::{RunFileCheck, join};

/// Kind of the target.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TargetKind {
    /// A program on this machine.
    Command,
    /// A container of a local engine.
    Container,
    /// A pod of a cluster.
    Pod,
}

/// Converts a mount for `metier-measure`, with an absolute source.
pub(super) fn measured_mount(mount: &file::Mount) -> BindMount {
    let source = std::path::absolute(&mount.source).unwrap_or_else(|_| mount.source.as_str().into());
    BindMount { source, target: mount.target.as_str().into(), read_only: mount.read_only }
}

impl RunFileCheck {
    /// Requires exactly one of command, image and pod, and no field of the other kinds.
    pub(super) fn kind(&mut self, file: &RunFile, path: &str) -> TargetKind {
        let at = |name: &str| join(path, name);
        let given = [
            (TargetKind::Command, "command", !file.command.is_empty()),
            (TargetKind::Container, "image", file.image.is_some()),
            (TargetKind::Pod, "pod", file.pod.is_some()),
        ];
        let kinds: Vec<_> = given.iter().filter(|(_, _, is)| *is).collect();
        let kind = match kinds.as_slice() {
            [(kind, _, _)] => *kind,
            [] => {
                self.faults
                    .push(RunFileFault::absent(at("command"), "what to run: one of command, image or pod"));
                return TargetKind::Command;
            }
            [(_, first, _), .., (kind, last, _)] => {
                let got = format!("given beside {first}");
                self.faults.push(RunFileFault::new(at(last), got, "one of command, image or pod"));
                *kind
            }
        };
        let (here, is_pod) = (kind == TargetKind::Command, kind == TargetKind::Pod);
        let mut refuse = |field: &str, want: &str| {
            self.faults.push(RunFileFault::new(at(field), "given", want));
        };
        if here && !file.mounts.is_empty() {
            refuse("mounts", "left out: a command sees this machine's files");
        }
        if here && file.limits.gpu.is_some() {
            refuse("limits.gpu", "left out: a command sees all GPUs of this machine");
        }
        for field in file.container.given() {
            let want = match field {
                "engine" if here => "left out: it is only for an image",
                "engine" if is_pod => "left out: a pod's node has an engine of its own",
                "stdin" if here => "left out: a command has our standard input",
                "stdin" if is_pod => "left out: a pod gets nothing of our standard input",
                _ if here => "left out: it is only for an image or a pod",
                _ => continue,
            };
            refuse(&format!("container.{field}"), want);
        }
        kind
    }

    pub(super) fn target(&mut self, file: &RunFile, kind: TargetKind, path: &str) -> RunTarget {
        let at = |name: &str| join(path, name);
        let wrap = || file.probes.iter().rev().flat_map(|probe| probe.wrap.iter().cloned());
        let arguments = || file.arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let c = &file.container;
        let entrypoint =
            (!c.entrypoint.is_empty()).then(|| wrap().chain(c.entrypoint.iter().cloned()).collect());
        let pull = self
            .read(at("container.pull"), c.pull.as_ref(), "missing, always or never", |text| match text {
                "missing" => Some(PullPolicy::Missing),
                "always" => Some(PullPolicy::Always),
                "never" => Some(PullPolicy::Never),
                _ => None,
            })
            .unwrap_or_default();
        let shared_memory =
            self.read(at("container.shared_memory"), c.shared_memory.as_ref(), SIZE, size).map(Bytes);
        let target = match kind {
            TargetKind::Command => {
                if file.command.first().is_some_and(|program| program.is_empty()) {
                    self.wrong(at("command"), "", "a program to run");
                }
                let own = file.command.iter().chain(&file.arguments).cloned();
                let mut words = wrap().map(OsString::from).chain(own);
                let program = words.next().unwrap_or_default();
                RunTarget::Command(CommandSpec { program, arguments: words.collect() })
            }
            TargetKind::Container => RunTarget::Container(ContainerSpec {
                stdin: c.stdin,
                awaits: None,
                image: file.image.clone().unwrap_or_default(),
                entrypoint,
                arguments: arguments(),
                engine: c.engine.clone(),
                user: c.user.clone(),
                network: c.network.clone(),
                runtime: c.runtime.clone(),
                devices: c.devices.iter().map(PathBuf::from).collect(),
                capabilities: c.capabilities.clone(),
                privileged: c.privileged,
                shared_memory,
                labels: c.labels.clone(),
                pull,
                without_gate: false,
            }),
            TargetKind::Pod => {
                let pod = file.pod.clone().unwrap_or_default();
                let confines = self.pod_privileges(c, path);
                RunTarget::Pod(PodSpec {
                    image: pod.image,
                    entrypoint,
                    arguments: arguments(),
                    kubeconfig: pod.kubeconfig.map(PathBuf::from),
                    context: pod.context,
                    namespace: pod.namespace,
                    node: pod.node,
                    node_labels: pod.selector,
                    as_elsewhere: false,
                    start_within: None,
                    pull,
                    confines: PodPrivileges { shared_memory, ..confines },
                })
            }
        };
        if let Some(image) = target.image()
            && (image.is_empty() || image.contains(char::is_whitespace) || image.starts_with('-'))
        {
            let field = if kind == TargetKind::Pod { "pod.image" } else { "image" };
            self.wrong(at(field), image, "an image such as python:3.12");
        }
        for (index, device) in c.devices.iter().enumerate() {
            if !device.starts_with('/') {
                self.wrong(
                    at(&format!("container.devices[{index}]")),
                    device,
                    "an absolute path such as /dev/video0",
                );
            }
        }
        let engine = c.engine.as_ref().filter(|_| kind == TargetKind::Container);
        if let Some(engine) = engine.filter(|engine| engine.contains("://") && !engine.starts_with("unix://"))
        {
            let want =
                "the path of a socket, or unix://…: a container elsewhere cannot be measured from here";
            self.wrong(at("container.engine"), engine, want);
        }
        target
    }

    /// Converts container options for a pod. Options that Kubernetes does not support are faults.
    fn pod_privileges(&mut self, c: &file::Container, path: &str) -> PodPrivileges {
        let at = |name: &str| join(path, name);
        let want = "host, or left out: a pod has a network of its own";
        let host_network = self.read(at("container.network"), c.network.as_ref(), want, |text| match text {
            "host" => Some(true),
            "bridge" => Some(false),
            _ => None,
        });
        let want = "a number such as 1000 or 1000:1000: a cluster knows no names of users";
        let user =
            self.read(at("container.user"), c.user.as_ref(), want, |text| match text.split_once(':') {
                Some((user, group)) => Some((user.parse().ok()?, Some(group.parse().ok()?))),
                None => Some((text.parse().ok()?, None)),
            });
        for (name, value) in &c.labels {
            let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            let is_part = |text: &str| {
                let ends = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
                text.len() <= 63
                    && text.chars().all(is_word)
                    && ends(text.chars().next())
                    && ends(text.chars().next_back())
            };
            let (domain, short) = name.split_once('/').unwrap_or(("", name));
            if short.is_empty()
                || !is_part(short)
                || domain.len() > 253
                || !domain.chars().all(is_word)
                || !is_part(value)
            {
                let want =
                    "letters, digits, '-', '_' and '.', at most 63 of them: it becomes a label of the pod";
                self.wrong(at(&format!("container.labels.{name}")), value, want);
            }
        }
        let capability = |name: &String| name.strip_prefix("CAP_").unwrap_or(name).to_string();
        PodPrivileges {
            host_network: host_network.unwrap_or_default(),
            runtime: c.runtime.clone(),
            user,
            devices: c.devices.iter().map(PathBuf::from).collect(),
            capabilities: c.capabilities.iter().map(capability).collect(),
            privileged: c.privileged,
            shared_memory: None,
            labels: c.labels.clone(),
        }
    }

    /// Rejects two mounts with the same target.
    pub(super) fn targets(&mut self, file: &RunFile, path: &str) {
        let at = |name: &str| join(path, name);
        let mounts = |name: &str, mounts: &[file::Mount]| -> Vec<(String, String)> {
            let named = mounts.iter().enumerate();
            named
                .map(|(index, mount)| (at(&format!("{name}[{index}].target")), mount.target.clone()))
                .collect()
        };
        let mut taken = mounts("mounts", &file.mounts);
        for (index, probe) in file.probes.iter().enumerate() {
            taken.extend(mounts(&format!("probes[{index}].mounts"), &probe.mounts));
        }
        if let Some(dataset) = &file.dataset {
            let target = dataset.target.clone().unwrap_or_else(|| DATASET_TARGET.to_string());
            taken.push((at("dataset.target"), target));
        }
        let plain = |target: &str| target.trim_end_matches('/').to_string();
        for (index, (field, target)) in taken.iter().enumerate() {
            let first = taken[..index].iter().find(|(_, other)| plain(other) == plain(target));
            if let Some((other, _)) = first.filter(|_| !target.is_empty()) {
                let got = format!("{target:?}, where {} is already", other.trim_end_matches(".target"));
                self.faults.push(RunFileFault::new(field, got, "a path of its own"));
            }
        }
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

    pub(super) fn probe(&mut self, probe: &Probe, path: &str, kind: TargetKind, file: &RunFile) {
        self.variables(&probe.environment, &format!("{path}.environment"));
        self.patterns(&probe.artefacts, &format!("{path}.artefacts"));
        for (index, mount) in probe.mounts.iter().enumerate() {
            self.mount(mount, &format!("{path}.mounts[{index}]"), kind);
        }
        if kind == TargetKind::Command && !probe.mounts.is_empty() {
            let want = "left out: a command sees this machine's files";
            self.faults.push(RunFileFault::new(format!("{path}.mounts"), "given", want));
        }
        if !probe.wrap.is_empty() && kind != TargetKind::Command && file.container.entrypoint.is_empty() {
            let got = "words before an entrypoint that is not known";
            let want = "container.entrypoint too: it says what to put the words before";
            self.faults.push(RunFileFault::new(format!("{path}.wrap"), got, want));
        }
    }

    pub(super) fn mount(&mut self, mount: &file::Mount, path: &str, kind: TargetKind) {
        if !mount.target.starts_with('/') || mount.target.contains(':') {
            self.wrong(format!("{path}.target"), &mount.target, "an absolute path in the container");
        }
        match kind {
            TargetKind::Container if !self.is_later && std::fs::symlink_metadata(&mount.source).is_err() => {
                self.wrong(format!("{path}.source"), &mount.source, "a file or folder that is there");
            }
            TargetKind::Pod if !mount.source.starts_with('/') => {
                self.wrong(format!("{path}.source"), &mount.source, "an absolute path on the node");
            }
            _ => {}
        }
    }
}
