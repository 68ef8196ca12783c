//! The specification of a container in the engine's API. Everything is passed as lists and fields,
//! never as a line for a shell.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use bollard::models::{
    ContainerCreateBody, DeviceMapping, DeviceRequest, HealthConfig, HostConfig, HostConfigLogConfig, Mount,
    MountBindOptions, MountType,
};
use metier_types::RunId;

use super::gate;
use super::image::ContainerImage;
use crate::observer::ObserverProvision;
use crate::spec::{self, ContainerSpec, GpuCount, ResourceLimits};
use crate::{Error, RunSpec};

/// All settings of a container, apart from its image's own.
#[derive(Debug, Clone)]
pub(super) struct ContainerPlan {
    pub name: String,
    pub container: ContainerSpec,
    pub labels: HashMap<String, String>,
    environment: Vec<String>,
    mounts: Vec<Mount>,
    pub limits: ResourceLimits,
    working_directory: Option<String>,
    /// metier's parent control group: a path from the root of each hierarchy, or a systemd slice.
    pub cgroup_parent: Option<String>,
    /// The gate's folder on this host.
    pub gate: Option<String>,
}

impl ContainerPlan {
    /// Converts a specification; rejects settings that an engine cannot express.
    pub fn new(
        spec: &RunSpec,
        container: &ContainerSpec,
        id: RunId,
        provision: &ObserverProvision,
        owner: &[(&str, String)],
    ) -> Result<Self, Error> {
        let given = spec.environment.iter();
        // The engine uses the last of two variables with the same name.
        let environment =
            provision.environment.iter().chain(given).map(|(name, value)| format!("{name}={value}"));
        let mounts =
            provision.mounts.iter().chain(&spec.mounts).map(engine_mount).collect::<Result<_, _>>()?;
        let mut labels: HashMap<String, String> = container.labels.clone().into_iter().collect();
        labels.extend(owner.iter().map(|(name, value)| ((*name).to_string(), value.clone())));
        let working_directory =
            spec.working_directory.as_deref().map(|f| require_utf8("workdir", f)).transpose()?;
        Ok(Self {
            name: format!("metier-{id}"),
            container: container.clone(),
            labels,
            environment: environment.collect(),
            mounts,
            limits: spec.limits,
            working_directory,
            cgroup_parent: None,
            gate: None,
        })
    }

    /// The first mount source that does not exist on this host. Docker rejects it; Podman would
    /// create a folder owned by root.
    pub fn find_absent_source(&self) -> Option<&str> {
        let mut sources = self.mounts.iter().filter_map(|mount| mount.source.as_deref());
        sources.find(|source| !Path::new(source).exists())
    }

    pub fn create_body(&self, image: &ContainerImage) -> ContainerCreateBody {
        let container = &self.container;
        let gated = |gate: &String| format!("{gate}:{}:ro,z", gate::CONTAINER_FOLDER);
        let words = image.command.clone();
        let (entrypoint, cmd) = match &self.gate {
            Some(_) => (gate::ENTRYPOINT.map(str::to_string).to_vec(), words),
            // Together they replace the image's entrypoint and command.
            None => (words.iter().take(1).cloned().collect(), words.into_iter().skip(1).collect()),
        };
        let memory = self.limits.memory.and_then(|bytes| i64::try_from(bytes.0).ok());
        let host = HostConfig {
            cgroup_parent: self.cgroup_parent.clone(),
            binds: self.gate.as_ref().map(|gate| vec![gated(gate)]),
            mounts: Some(self.mounts.clone()),
            memory,
            // No swap: otherwise the run would be slow instead of reaching its limit.
            memory_swap: memory,
            nano_cpus: self.limits.cpu.map(|cores| (cores * 1e9).round() as i64),
            device_requests: self.limits.gpus.map(|gpus| vec![gpu_request(gpus)]),
            devices: Some(container.devices.iter().map(|path| device_mapping(path)).collect()),
            network_mode: container.network.clone(),
            runtime: container.runtime.clone(),
            cap_add: (!container.capabilities.is_empty()).then(|| container.capabilities.clone()),
            privileged: Some(container.privileged),
            shm_size: container.shared_memory.and_then(|bytes| i64::try_from(bytes.0).ok()),
            // The attached streams carry its output; a copy on disk would be work during the run.
            log_config: Some(HostConfigLogConfig { typ: Some("none".into()), config: None }),
            ..Default::default()
        };
        ContainerCreateBody {
            image: Some(container.image.clone()),
            entrypoint: Some(entrypoint),
            cmd: Some(cmd),
            env: Some(self.environment.clone()),
            working_dir: self.working_directory.clone(),
            user: container.user.clone(),
            labels: Some(self.labels.clone()),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            attach_stdin: Some(container.stdin),
            open_stdin: Some(container.stdin),
            stdin_once: Some(container.stdin),
            // Health checks would run as processes of the run.
            healthcheck: Some(HealthConfig { test: Some(vec!["NONE".into()]), ..Default::default() }),
            host_config: Some(host),
            ..Default::default()
        }
    }

    /// Limits in the form of the record.
    pub fn describe_limits(&self) -> BTreeMap<String, String> {
        let mut shown = BTreeMap::new();
        let mut add = |name: &str, value: Option<String>| {
            shown.extend(value.map(|value| (name.to_string(), value)));
        };
        add("cpu", self.limits.cpu.map(|cores| format!("{cores} cores")));
        add("memory", self.limits.memory.map(|bytes| bytes.to_string()));
        add(
            "gpus",
            self.limits.gpus.map(|gpus| match gpus {
                GpuCount::All => "all".to_string(),
                GpuCount::Count(count) => count.to_string(),
            }),
        );
        add("runtime", self.container.runtime.clone());
        shown
    }
}

fn require_utf8(field: &'static str, path: &Path) -> Result<String, Error> {
    let want = "a path in UTF-8: engines accept no others";
    let got = || path.display().to_string();
    path.to_str().map(str::to_string).ok_or_else(|| Error::Spec { field, got: got(), want })
}

fn engine_mount(mount: &spec::BindMount) -> Result<Mount, Error> {
    Ok(Mount {
        source: Some(require_utf8("mount", &mount.source)?),
        target: Some(require_utf8("mount", &mount.target)?),
        typ: Some(MountType::BIND),
        read_only: Some(mount.read_only),
        // A missing source is an error; otherwise the engine creates a folder owned by root.
        bind_options: Some(MountBindOptions { create_mountpoint: None, ..Default::default() }),
        ..Default::default()
    })
}

fn device_mapping(path: &Path) -> DeviceMapping {
    let path = path.to_string_lossy().into_owned();
    DeviceMapping {
        path_on_host: Some(path.clone()),
        path_in_container: Some(path),
        cgroup_permissions: Some("rwm".into()),
    }
}

fn gpu_request(gpus: GpuCount) -> DeviceRequest {
    DeviceRequest {
        count: Some(match gpus {
            GpuCount::All => -1,
            GpuCount::Count(count) => i64::from(count),
        }),
        capabilities: Some(vec![vec!["gpu".into()]]),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use metier_types::Bytes;

    use super::*;
    use crate::spec::RunTarget;

    #[test]
    fn limits_gpus_runtime_and_mounts_are_asked_for_in_the_engines_words() {
        let container = ContainerSpec {
            image: "x:1".into(),
            runtime: Some("nvidia".into()),
            devices: vec!["/dev/video0".into()],
            ..ContainerSpec::default()
        };
        let mut spec = RunSpec::for_target(RunTarget::Container(container.clone()));
        spec.limits =
            ResourceLimits { cpu: Some(1.5), memory: Some(Bytes(300 << 20)), gpus: Some(GpuCount::Count(2)) };
        spec.mounts =
            vec![spec::BindMount { source: "/data".into(), target: "/dataset".into(), read_only: true }];
        let plan =
            ContainerPlan::new(&spec, &container, RunId::new(), &ObserverProvision::default(), &[]).unwrap();
        let words = vec!["run; rm -rf /".to_string(), "$(id)".into()];
        let body = plan.create_body(&ContainerImage { command: words.clone(), ..ContainerImage::default() });
        assert_eq!((body.entrypoint, body.cmd), (Some(words[..1].to_vec()), Some(words[1..].to_vec())));
        let host = body.host_config.unwrap();
        assert_eq!((host.nano_cpus, host.memory), (Some(1_500_000_000), Some(300 << 20)));
        assert_eq!(host.memory_swap, host.memory, "no swap beyond its limit");
        assert_eq!(host.runtime.as_deref(), Some("nvidia"));
        let gpus = host.device_requests.unwrap().remove(0);
        assert_eq!((gpus.count, gpus.capabilities), (Some(2), Some(vec![vec!["gpu".to_string()]])));
        let mount = host.mounts.unwrap().remove(0);
        assert_eq!((mount.target.as_deref(), mount.read_only), (Some("/dataset"), Some(true)));
        spec.limits.gpus = Some(GpuCount::All);
        let plan =
            ContainerPlan::new(&spec, &container, RunId::new(), &ObserverProvision::default(), &[]).unwrap();
        let host = plan.create_body(&ContainerImage::default()).host_config.unwrap();
        assert_eq!(host.device_requests.unwrap()[0].count, Some(-1));
    }
}
