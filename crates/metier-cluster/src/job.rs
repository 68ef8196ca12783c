//! Builds the Job of a run.
//!
//! A Job has one pod and one attempt. Labels identify metier and the run. An annotation names the
//! measuring process, so that a later metier can check whether it still exists.
//! `activeDeadlineSeconds`, which [`crate::job_lease`] renews, and `ttlSecondsAfterFinished` bound
//! the Job's life if no metier removes it. `$(NAME)` in the user's values is escaped, since
//! commands and containers do not expand it either.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use metier_measure::RunSpec;
use metier_measure::app::listener::CONTAINER_FOLDER;
use metier_measure::runner::joined_container::{LAUNCHER_NAME, SOCKET_NAME};
use metier_measure::spec::{GpuCount, PodPrivileges, PodSpec, PullPolicy};
use metier_store::OwnerProcess;
use metier_types::RunId;
use serde_json::{Value, json};

use crate::pod_state::RUN_CONTAINER;
use crate::transfer::PodTransfer;
use crate::{Error, job_lease, launcher_report};

/// Label of all objects of metier.
pub const MANAGED_BY_LABEL: (&str, &str) = ("app.kubernetes.io/managed-by", "metier");
/// Label with the run id.
pub const RUN_LABEL: &str = "metier.run";
/// Annotation with the measuring process.
pub const OWNER_ANNOTATION: &str = "metier.owner";
/// Path of the launcher and its socket in the run's container.
pub const LAUNCHER_FOLDER: &str = "/.metier";
/// Name of the init container that receives the dataset, and of its volume.
pub const DATASET_CONTAINER: &str = "metier-dataset";
/// Path of that volume in the init container.
pub const DATASET_FOLDER: &str = "/.metier-dataset";
/// Name of the listener container, and of the volume that it shares with the run's.
const LISTENER_CONTAINER: &str = "metier-ears";
/// How long the launcher keeps a container for a download that does not come.
const HOLD_TIME: Duration = Duration::from_secs(90);
/// Lifetime of a finished Job that metier does not remove.
const FINISHED_JOB_TTL: Duration = Duration::from_secs(3600);

/// Source of the launcher in the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LauncherMount<'a> {
    /// A folder of this machine.
    HostFolder(&'a Path),
    /// A ConfigMap of the cluster, with the transfers to and from the pod.
    ConfigMap(&'a PodTransfer),
    /// No launcher.
    None,
}

/// The text that the launcher appends to the log when the run is over and its files can be fetched.
pub fn end_mark(run: RunId) -> String {
    format!("metier-over-{run}")
}

/// The selector for the objects of one run.
pub fn run_selector(run: RunId) -> String {
    format!("{RUN_LABEL}={run}")
}

pub fn job_name(run: RunId) -> String {
    format!("metier-{run}")
}

/// The Job for a run, with a lease if that is renewed. Errors name the field that a pod cannot
/// have.
pub fn build_job(
    spec: &RunSpec,
    pod: &PodSpec,
    run: RunId,
    owner: &OwnerProcess,
    gate: &LauncherMount,
    is_renewed: bool,
) -> Result<Job, Error> {
    let labels = json!({MANAGED_BY_LABEL.0: MANAGED_BY_LABEL.1, RUN_LABEL: run.to_string()});
    let confines = &pod.confines;
    // metier's labels come last, so that no user label replaces the labels that find the pod.
    let mut pod_labels = json!(confines.labels);
    if let (Some(all), Some(ours)) = (pod_labels.as_object_mut(), labels.as_object()) {
        all.extend(ours.clone());
    }
    let owner = serde_json::to_string(owner).unwrap_or_default();
    let deadline = job_lease::latest_deadline(spec).map(|deadline| deadline.as_secs().max(1));
    let mut annotations = json!({OWNER_ANNOTATION: owner});
    if let Some(end) = job_lease::lease_end(is_renewed) {
        annotations[job_lease::LEASE_ANNOTATION] = json!(end);
    }
    let mut volumes = Vec::new();
    let mut mounts = Vec::new();
    for (number, mount) in spec.mounts.iter().enumerate() {
        let name = format!("mount-{number}");
        volumes.push(json!({"name": name, "hostPath": {"path": mount.source}}));
        mounts.push(json!({"name": name, "mountPath": mount.target, "readOnly": mount.read_only}));
    }
    for (number, device) in confines.devices.iter().enumerate() {
        let name = format!("device-{number}");
        volumes.push(json!({"name": name, "hostPath": {"path": device}}));
        mounts.push(json!({"name": name, "mountPath": device}));
    }
    if let Some(size) = confines.shared_memory {
        let name = "shared-memory";
        volumes.push(
            json!({"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": size.get().to_string()}}),
        );
        mounts.push(json!({"name": name, "mountPath": "/dev/shm"}));
    }
    if let LauncherMount::HostFolder(folder) = gate {
        volumes.push(json!({"name": "metier", "hostPath": {"path": folder, "type": "Directory"}}));
    }
    let luggage = match gate {
        LauncherMount::ConfigMap(luggage) => Some(*luggage),
        _ => None,
    };
    if luggage.is_some() {
        volumes.push(json!({"name": "metier", "configMap": {"name": job_name(run), "defaultMode": 0o755}}));
    }
    if *gate != LauncherMount::None {
        mounts.push(json!({"name": "metier", "mountPath": LAUNCHER_FOLDER, "readOnly": true}));
    }
    let (before, beside) = match luggage {
        Some(luggage) => helper_containers(luggage, pod, deadline, &mut volumes, &mut mounts),
        None => (None, None),
    };
    let (command, args) = container_command(spec, pod, run, gate);
    let main = json!({
        "name": RUN_CONTAINER,
        "image": pod.image,
        "imagePullPolicy": pull_policy(pod.pull),
        "command": command,
        "args": args,
        "workingDir": spec.working_directory,
        "env": environment_list(&spec.environment),
        "volumeMounts": mounts,
        "resources": {"limits": resource_limits(spec)?},
        "securityContext": security_context(confines),
        "terminationMessagePath": luggage.map(|_| launcher_report::TERMINATION_LOG),
    });
    let pod_spec = json!({
        "restartPolicy": "Never",
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "terminationGracePeriodSeconds": (spec.grace.as_secs_f64() * 2.0).ceil() as i64 + 1,
        "affinity": pod.node.as_deref().map(node_affinity),
        "nodeSelector": pod.node_labels,
        "runtimeClassName": confines.runtime,
        "hostNetwork": confines.host_network.then_some(true),
        // The default policy would use the node's resolver, which cannot resolve services of the
        // cluster.
        "dnsPolicy": confines.host_network.then_some("ClusterFirstWithHostNet"),
        "initContainers": before.into_iter().collect::<Vec<_>>(),
        // The listener starts before the run.
        "containers": beside.into_iter().chain([main]).collect::<Vec<_>>(),
        "volumes": volumes,
    });
    let job = json!({
        "metadata": {"name": job_name(run), "labels": labels, "annotations": annotations},
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "activeDeadlineSeconds": job_lease::deadline_at(spec, Duration::ZERO, is_renewed),
            "ttlSecondsAfterFinished": FINISHED_JOB_TTL.as_secs(),
            "template": {"metadata": {"labels": pod_labels, "annotations": {OWNER_ANNOTATION: owner}}, "spec": pod_spec},
        },
    });
    serde_json::from_value(job)
        .map_err(|error| Error::Api { doing: "making the Job".into(), reason: error.to_string() })
}

/// The init container that receives the dataset, and the listener container. Both use the run's
/// image, which is pulled anyway, but run only the launcher.
fn helper_containers(
    luggage: &PodTransfer,
    pod: &PodSpec,
    deadline: Option<u64>,
    volumes: &mut Vec<Value>,
    mounts: &mut Vec<Value>,
) -> (Option<Value>, Option<Value>) {
    let gate = json!({"name": "metier", "mountPath": LAUNCHER_FOLDER, "readOnly": true});
    let container = |name: &str, words: Vec<String>, mount: Value| {
        json!({
            "name": name,
            "image": pod.image,
            "imagePullPolicy": pull_policy(pod.pull),
            "command": words,
            "volumeMounts": [gate, mount],
        })
    };
    let before = luggage.dataset.as_ref().map(|dataset| {
        volumes.push(json!({"name": DATASET_CONTAINER, "emptyDir": {}}));
        mounts
            .push(json!({"name": DATASET_CONTAINER, "mountPath": dataset.target, "subPath": "data", "readOnly": true}));
        let limit = luggage.within.as_millis().to_string();
        let words = [format!("{LAUNCHER_FOLDER}/{LAUNCHER_NAME}"), "--until".into(), format!("{DATASET_FOLDER}/done"), limit];
        container(DATASET_CONTAINER, words.into(), json!({"name": DATASET_CONTAINER, "mountPath": DATASET_FOLDER}))
    });
    let beside = (!luggage.ears.is_empty()).then(|| {
        volumes.push(json!({"name": LISTENER_CONTAINER, "emptyDir": {}}));
        let mount = json!({"name": LISTENER_CONTAINER, "mountPath": CONTAINER_FOLDER});
        mounts.push(mount.clone());
        let limit = deadline.map_or(0, |seconds| seconds * 1000).to_string();
        let words = [
            format!("{LAUNCHER_FOLDER}/{LAUNCHER_NAME}"),
            "--ears".into(),
            CONTAINER_FOLDER.into(),
            luggage.ears.clone(),
            limit,
        ];
        container(LISTENER_CONTAINER, words.into(), mount)
    });
    (before, beside)
}

/// Command and arguments of the run's container; `None` for those of the image.
fn container_command(
    spec: &RunSpec,
    pod: &PodSpec,
    run: RunId,
    gate: &LauncherMount,
) -> (Option<Vec<String>>, Option<Vec<String>>) {
    let words = |words: &[String]| words.iter().map(|word| escape_variables(word)).collect::<Vec<_>>();
    let own = pod.entrypoint.as_deref().map(words);
    let arguments = (!pod.arguments.is_empty()).then(|| words(&pod.arguments));
    if *gate == LauncherMount::None {
        return (own, arguments);
    }
    let grace = spec.grace.as_millis().to_string();
    let mut all = vec![format!("{LAUNCHER_FOLDER}/{LAUNCHER_NAME}")];
    match gate {
        LauncherMount::ConfigMap(luggage) => {
            let limit = spec.time_limit().map_or(0, |limit| limit.as_millis().max(1)).to_string();
            let linger = spec.linger.as_millis().to_string();
            let hold =
                if luggage.holds_container() { HOLD_TIME } else { Duration::ZERO }.as_millis().to_string();
            let ears = if luggage.ears.is_empty() { String::new() } else { format!("@{CONTAINER_FOLDER}") };
            let mark = format!("{}{ears}", end_mark(run));
            all.extend([
                "--pod".into(),
                grace,
                linger,
                limit,
                hold,
                mark,
                launcher_report::TERMINATION_LOG.into(),
            ])
        }
        _ => all.extend([format!("{LAUNCHER_FOLDER}/{SOCKET_NAME}"), grace, "0".into()]),
    }
    all.push("--".into());
    all.extend(own.into_iter().flatten().chain(arguments.into_iter().flatten()));
    (Some(all), None)
}

/// Node affinity, so that the scheduler still checks the capacity; `nodeName` would bypass it.
fn node_affinity(node: &str) -> Value {
    let field = json!([{"key": "metadata.name", "operator": "In", "values": [node]}]);
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": field}]}}})
}

fn environment_list(variables: &[(String, String)]) -> Vec<Value> {
    variables.iter().map(|(name, value)| json!({"name": name, "value": escape_variables(value)})).collect()
}

/// User, capabilities and privileges of the run's container; `None` if none are set.
fn security_context(confines: &PodPrivileges) -> Option<Value> {
    let mut context = serde_json::Map::new();
    if let Some((user, group)) = confines.user {
        context.insert("runAsUser".into(), json!(user));
        group.iter().for_each(|group| drop(context.insert("runAsGroup".into(), json!(group))));
    }
    if !confines.capabilities.is_empty() {
        context.insert("capabilities".into(), json!({"add": confines.capabilities}));
    }
    if confines.privileged {
        context.insert("privileged".into(), json!(true));
    }
    (!context.is_empty()).then(|| context.into())
}

fn resource_limits(spec: &RunSpec) -> Result<BTreeMap<&'static str, String>, Error> {
    let mut limits = BTreeMap::new();
    if let Some(cores) = spec.limits.cpu {
        limits.insert("cpu", format!("{}m", (cores * 1000.0).round().max(1.0) as u64));
    }
    if let Some(memory) = spec.limits.memory {
        limits.insert("memory", memory.get().to_string());
    }
    match spec.limits.gpus {
        Some(GpuCount::Count(count)) => {
            limits.insert("nvidia.com/gpu", count.to_string());
        }
        Some(GpuCount::All) => {
            return Err(Error::Spec {
                field: "limit-gpu",
                got: "all".into(),
                want: "a number: a cluster hands out GPUs one by one",
            });
        }
        None => {}
    }
    Ok(limits)
}

fn pull_policy(pull: PullPolicy) -> &'static str {
    match pull {
        PullPolicy::Missing => "IfNotPresent",
        PullPolicy::Always => "Always",
        PullPolicy::Never => "Never",
    }
}

/// Escapes `$(NAME)`, which Kubernetes would expand.
fn escape_variables(text: &str) -> String {
    text.replace('$', "$$")
}

#[cfg(test)]
mod tests {
    use metier_measure::spec::{BindMount, RunTarget};
    use metier_types::Bytes;

    use super::*;
    use crate::transfer::DatasetTransfer;

    fn made(change: impl FnOnce(&mut RunSpec, &mut PodSpec), gate: LauncherMount) -> Value {
        let mut pod = PodSpec { image: "x:1".into(), ..PodSpec::default() };
        let mut spec = RunSpec::for_target(RunTarget::Pod(pod.clone()));
        change(&mut spec, &mut pod);
        let owner = OwnerProcess { host: "h".into(), boot: "b".into(), pid: 7, started: 8 };
        serde_json::to_value(build_job(&spec, &pod, RunId::new(), &owner, &gate, true).unwrap()).unwrap()
    }

    #[test]
    fn a_job_is_tried_once_and_says_whose_it_is() {
        let job = made(|spec, _| spec.timeout = Some(Duration::from_secs(60)), LauncherMount::None);
        assert_eq!(job["spec"]["backoffLimit"], 0);
        assert_eq!(job["spec"]["template"]["spec"]["restartPolicy"], "Never");
        assert_eq!(job["metadata"]["labels"]["app.kubernetes.io/managed-by"], "metier");
        assert_eq!(job["metadata"]["labels"], job["spec"]["template"]["metadata"]["labels"]);
        assert!(job["spec"]["activeDeadlineSeconds"].as_u64().unwrap() > 60);
        assert!(job["metadata"]["annotations"][OWNER_ANNOTATION].as_str().unwrap().contains("\"pid\":7"));
    }

    #[test]
    fn without_a_gate_the_image_keeps_what_was_not_replaced() {
        let job = made(|_, pod| pod.arguments = vec!["a $(B)".into()], LauncherMount::None);
        let main = &job["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(main.get("command"), None);
        assert_eq!(main["args"][0], "a $$(B)", "nothing is expanded");
    }

    #[test]
    fn with_a_gate_the_launcher_gets_the_command() {
        let change = |_: &mut RunSpec, pod: &mut PodSpec| {
            pod.entrypoint = Some(vec!["sh".into(), "-c".into()]);
            pod.arguments = vec!["true".into()];
        };
        let job = made(change, LauncherMount::HostFolder(Path::new("/run/x")));
        let words = job["spec"]["template"]["spec"]["containers"][0]["command"].as_array().unwrap().clone();
        assert_eq!(words[0], "/.metier/launch");
        assert_eq!(words[4..], ["--", "sh", "-c", "true"].map(Value::from));
    }

    #[test]
    fn a_carried_launcher_is_mounted_from_the_cluster_and_told_where_to_report() {
        let change = |spec: &mut RunSpec, pod: &mut PodSpec| {
            (spec.grace, spec.linger) = (Duration::from_secs(2), Duration::from_secs(3));
            pod.entrypoint = Some(vec!["true".into()]);
        };
        let job = made(change, LauncherMount::ConfigMap(&PodTransfer::default()));
        let pod = &job["spec"]["template"]["spec"];
        let main = &pod["containers"][0];
        let mark = main["command"][6].as_str().unwrap();
        assert!(mark.starts_with("metier-over-") && !mark.contains('@'), "{mark}");
        let words = [
            "/.metier/launch",
            "--pod",
            "2000",
            "3000",
            "0",
            "0",
            mark,
            "/dev/termination-log",
            "--",
            "true",
        ];
        assert_eq!(main["command"], json!(words));
        assert_eq!(pod["containers"].as_array().unwrap().len(), 1);
        assert_eq!(main["terminationMessagePath"], "/dev/termination-log");
        assert_eq!(pod["volumes"][0]["configMap"]["name"], job["metadata"]["name"]);
        assert_eq!(pod["volumes"][0]["configMap"]["defaultMode"], 0o755);
    }

    #[test]
    fn luggage_has_containers_and_volumes_of_its_own() {
        let dataset = DatasetTransfer { path: "/here".into(), target: "/data".into(), is_cold: true };
        let luggage = PodTransfer {
            ears: "sl".into(),
            has_files: true,
            dataset: Some(dataset),
            within: Duration::from_secs(60),
        };
        let job =
            made(|_, pod| pod.entrypoint = Some(vec!["true".into()]), LauncherMount::ConfigMap(&luggage));
        let pod = &job["spec"]["template"]["spec"];
        let until = ["/.metier/launch", "--until", "/.metier-dataset/done", "60000"];
        assert_eq!(pod["initContainers"][0]["command"], json!(until));
        let ears = ["/.metier/launch", "--ears", "/metrics", "sl", "0"];
        assert_eq!(pod["containers"][0]["command"], json!(ears));
        let main = &pod["containers"][1];
        assert_eq!(main["name"], RUN_CONTAINER);
        assert_eq!(main["command"][5], "90000");
        assert!(main["command"][6].as_str().unwrap().ends_with("@/metrics"));
        let mounts = main["volumeMounts"].as_array().unwrap();
        let data = mounts.iter().find(|mount| mount["mountPath"] == "/data").unwrap();
        assert_eq!((data["readOnly"].as_bool(), data["subPath"].as_str()), (Some(true), Some("data")));
        assert!(!job.to_string().contains("/here"), "nothing of this machine is looked for there");
    }

    #[test]
    fn place_limits_and_mounts_are_passed_on() {
        let change = |spec: &mut RunSpec, pod: &mut PodSpec| {
            pod.node = Some("n1".into());
            pod.node_labels.insert("device".into(), "nx".into());
            spec.limits.cpu = Some(0.5);
            spec.limits.memory = Some(Bytes(1 << 26));
            spec.limits.gpus = Some(GpuCount::Count(1));
            spec.mounts.push(BindMount { source: "/a".into(), target: "/b".into(), read_only: true });
        };
        let job = made(change, LauncherMount::None);
        let pod = &job["spec"]["template"]["spec"];
        let main = &pod["containers"][0];
        assert_eq!(
            main["resources"]["limits"],
            json!({"cpu": "500m", "memory": "67108864", "nvidia.com/gpu": "1"})
        );
        assert_eq!(main["volumeMounts"][0]["readOnly"], true);
        assert_eq!(pod["volumes"][0]["hostPath"]["path"], "/a");
        assert_eq!(pod["nodeSelector"]["device"], "nx");
        assert_eq!(pod.get("nodeName"), None, "the scheduler is not passed by");
        assert!(pod["affinity"].to_string().contains("\"n1\""));
    }

    #[test]
    fn what_a_container_has_a_pod_has_in_the_words_of_a_cluster() {
        let change = |_: &mut RunSpec, pod: &mut PodSpec| {
            pod.confines = PodPrivileges {
                host_network: true,
                runtime: Some("nvidia".into()),
                user: Some((1000, Some(44))),
                devices: vec!["/dev/video0".into()],
                capabilities: vec!["SYS_NICE".into()],
                privileged: true,
                shared_memory: Some(Bytes(1 << 26)),
                labels: [
                    ("team".to_string(), "vision".to_string()),
                    (RUN_LABEL.to_string(), "mine".to_string()),
                ]
                .into(),
            };
        };
        let job = made(change, LauncherMount::None);
        let template = &job["spec"]["template"];
        let (pod, main) = (&template["spec"], &template["spec"]["containers"][0]);
        assert_eq!((&pod["hostNetwork"], &pod["runtimeClassName"]), (&json!(true), &json!("nvidia")));
        let context = json!({"runAsUser": 1000, "runAsGroup": 44, "capabilities": {"add": ["SYS_NICE"]}, "privileged": true});
        assert_eq!(main["securityContext"], context);
        let volumes = pod["volumes"].as_array().unwrap();
        assert!(volumes.iter().any(|volume| volume["hostPath"]["path"] == "/dev/video0"));
        assert!(
            volumes
                .iter()
                .any(|volume| volume["emptyDir"] == json!({"medium": "Memory", "sizeLimit": "67108864"}))
        );
        let mounts = main["volumeMounts"].as_array().unwrap();
        assert!(mounts.iter().any(|mount| mount["mountPath"] == "/dev/shm"));
        let labels = &template["metadata"]["labels"];
        assert_eq!(labels["team"], "vision");
        assert_ne!(labels[RUN_LABEL], "mine", "the pod is found by ours");
        assert_eq!(
            made(|_, _| {}, LauncherMount::None)["spec"]["template"]["spec"]["containers"][0]
                .get("securityContext"),
            None
        );
    }
}
