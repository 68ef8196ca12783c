//! Interprets the status of a pod as the state of its run.

use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod};

/// Name of the run's container.
pub const RUN_CONTAINER: &str = "run";

/// State of the run in a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodState {
    /// The run has not started.
    Waiting {
        /// The reason, from the cluster.
        why: String,
        /// Whether waiting longer is pointless.
        is_final: bool,
    },
    Running,
    /// The container has ended.
    Ended(ContainerEnd),
    /// The pod has ended without a status of its container.
    Gone {
        /// The reason, from the cluster.
        why: String,
    },
}

/// End of a container.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerEnd {
    /// Its exit code; 128 + n if signal n ended it.
    pub code: i32,
    /// The cluster's reason: `Completed`, `Error`, `OOMKilled`, …
    pub reason: String,
    pub message: String,
}

impl ContainerEnd {
    /// Whether the container never started, since its process could not be created.
    pub fn is_unstarted(&self) -> bool {
        matches!(
            self.reason.as_str(),
            "ContainerCannotRun" | "StartError" | "ContainerCreateFailed" | "RunContainerError"
        )
    }

    /// Whether it ran out of memory.
    pub fn is_out_of_memory(&self) -> bool {
        self.reason == "OOMKilled"
    }
}

/// Waiting reasons that do not resolve themselves.
const FINAL_WAIT_REASONS: [&str; 9] = [
    "ErrImageNeverPull",
    "InvalidImageName",
    "ImageInspectError",
    "ImagePullBackOff",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "CreatePodSandboxError",
    "CrashLoopBackOff",
];

/// Derives the state from the status.
pub fn pod_state(pod: &Pod) -> PodState {
    let Some(status) = &pod.status else { return waiting_state("the cluster has not looked at it yet") };
    if let Some(ended) =
        container_status(pod, RUN_CONTAINER).and_then(|c| c.state.as_ref()?.terminated.as_ref())
    {
        return PodState::Ended(container_end(ended));
    }
    if let Some(phase @ ("Failed" | "Succeeded" | "Unknown")) = status.phase.as_deref() {
        let words = [status.reason.as_deref(), status.message.as_deref()];
        let words: Vec<&str> = words.into_iter().flatten().collect();
        let why = if words.is_empty() { format!("its phase is {phase}") } else { words.join(": ") };
        return PodState::Gone { why };
    }
    if container_status(pod, RUN_CONTAINER)
        .is_some_and(|c| c.state.as_ref().is_some_and(|s| s.running.is_some()))
    {
        return PodState::Running;
    }
    // Init containers first, since the run's container waits for them.
    let before = status.init_container_statuses.iter().flatten();
    for container in before.chain(status.container_statuses.iter().flatten()) {
        if let Some(why) = container.state.as_ref().and_then(|state| state.waiting.as_ref()) {
            let reason = why.reason.as_deref().unwrap_or_default();
            if matches!(reason, "" | "PodInitializing" | "ContainerCreating") {
                continue;
            }
            let message = why.message.as_deref().unwrap_or_default();
            let text = match message {
                "" => reason.to_string(),
                _ => format!("{reason}: {message}"),
            };
            let text = format!("image {}: {text}", container.image);
            return PodState::Waiting { why: text, is_final: FINAL_WAIT_REASONS.contains(&reason) };
        }
        // A failed init container.
        if container.name != RUN_CONTAINER
            && let Some(ended) = container.state.as_ref().and_then(|state| state.terminated.as_ref())
            && ended.exit_code != 0
        {
            let ended = container_end(ended);
            let why = format!(
                "container {} ended with {}: {} {}",
                container.name, ended.code, ended.reason, ended.message
            );
            return PodState::Waiting { why: why.trim_end().to_string(), is_final: true };
        }
    }
    let unscheduled =
        status.conditions.iter().flatten().find(|c| c.type_ == "PodScheduled" && c.status != "True");
    if let Some(condition) = unscheduled {
        let why = condition.message.clone().or_else(|| condition.reason.clone()).unwrap_or_default();
        return waiting_state(&format!("no node takes it: {why}"));
    }
    match pod_node(pod) {
        Some(node) => waiting_state(&format!("node {node} has not started its container yet")),
        None => waiting_state("the scheduler has not chosen a node yet"),
    }
}

/// Why a pod of a service is not ready, and whether waiting longer is pointless.
pub fn pod_trouble(pod: &Pod) -> Option<(String, bool)> {
    let status = pod.status.as_ref()?;
    for container in status.container_statuses.iter().flatten() {
        let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
        if let Some(waiting) = waiting {
            let reason = waiting.reason.as_deref().unwrap_or_default();
            if matches!(reason, "" | "PodInitializing" | "ContainerCreating") {
                continue;
            }
            let message = waiting.message.as_deref().unwrap_or_default();
            let text = format!("image {}: {reason}: {message}", container.image);
            let ended =
                container.last_state.as_ref().and_then(|state| state.terminated.as_ref()).map(container_end);
            let ended = ended.map(|e| format!("; it ended with {} {}", e.code, e.reason)).unwrap_or_default();
            let text = text.trim_end_matches([':', ' ']).to_string();
            return Some((format!("{text}{ended}"), FINAL_WAIT_REASONS.contains(&reason)));
        }
    }
    let unscheduled =
        status.conditions.iter().flatten().find(|c| c.type_ == "PodScheduled" && c.status != "True")?;
    let why = unscheduled.message.clone().or_else(|| unscheduled.reason.clone()).unwrap_or_default();
    Some((format!("no node takes it: {why}"), false))
}

/// Whether an init container is running.
pub fn is_init_running(pod: &Pod, name: &str) -> bool {
    let before = pod.status.as_ref().and_then(|status| status.init_container_statuses.as_ref());
    let found = before.into_iter().flatten().find(|container| container.name == name);
    found.is_some_and(|container| container.state.as_ref().is_some_and(|state| state.running.is_some()))
}

/// The node that the scheduler chose.
pub fn pod_node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

/// The actual image of the run's container, as the runtime names it, and the container id.
pub fn pod_image(pod: &Pod) -> Option<(&str, Option<&str>)> {
    let main = container_status(pod, RUN_CONTAINER)?;
    let id = main.container_id.as_deref().map(|id| id.split_once("://").map_or(id, |(_, id)| id));
    Some((main.image_id.as_str(), id))
}

/// Whether its deletion was requested.
pub fn is_being_deleted(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

fn container_status<'a>(pod: &'a Pod, name: &str) -> Option<&'a ContainerStatus> {
    pod.status.as_ref()?.container_statuses.as_ref()?.iter().find(|container| container.name == name)
}

fn waiting_state(why: &str) -> PodState {
    PodState::Waiting { why: why.to_string(), is_final: false }
}

fn container_end(ended: &ContainerStateTerminated) -> ContainerEnd {
    ContainerEnd {
        code: ended.exit_code,
        reason: ended.reason.clone().unwrap_or_default(),
        message: ended.message.clone().unwrap_or_default().trim().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(status: Value) -> Pod {
        serde_json::from_value(
            json!({"metadata": {"name": "p"}, "spec": {"containers": [], "nodeName": "n"}, "status": status}),
        )
        .unwrap()
    }

    fn main(state: Value) -> Value {
        json!([{"name": "run", "image": "x:1", "imageID": "", "ready": false, "restartCount": 0, "state": state}])
    }

    #[test]
    fn an_image_that_cannot_be_had_is_final_and_named() {
        let state = main(json!({"waiting": {"reason": "ErrImageNeverPull", "message": "not present"}}));
        let found = pod_state(&pod(json!({"phase": "Pending", "containerStatuses": state})));
        let PodState::Waiting { why, is_final: true } = found else { panic!("{found:?}") };
        assert_eq!(why, "image x:1: ErrImageNeverPull: not present");
        let state = main(json!({"waiting": {"reason": "ErrImagePull", "message": "no route"}}));
        let found = pod_state(&pod(json!({"phase": "Pending", "containerStatuses": state})));
        assert!(matches!(found, PodState::Waiting { is_final: false, .. }), "it is tried again: {found:?}");
    }

    #[test]
    fn what_the_scheduler_says_is_passed_on() {
        let conditions = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}]);
        let found = pod_state(&pod(json!({"phase": "Pending", "conditions": conditions})));
        let PodState::Waiting { why, is_final: false } = found else { panic!("{found:?}") };
        assert_eq!(why, "no node takes it: 0/1 nodes are available");
    }

    #[test]
    fn what_keeps_a_service_from_being_ready_is_told() {
        let state = main(json!({"waiting": {"reason": "ErrImageNeverPull", "message": "not present"}}));
        let found = pod_trouble(&pod(json!({"phase": "Pending", "containerStatuses": state})));
        assert_eq!(found, Some(("image x:1: ErrImageNeverPull: not present".into(), true)));
        let mut state = main(json!({"waiting": {"reason": "CrashLoopBackOff"}}));
        state[0]["lastState"] = json!({"terminated": {"exitCode": 7, "reason": "Error"}});
        let found = pod_trouble(&pod(json!({"phase": "Running", "containerStatuses": state})));
        assert_eq!(found, Some(("image x:1: CrashLoopBackOff; it ended with 7 Error".into(), true)));
        let state = main(json!({"running": {}}));
        assert_eq!(pod_trouble(&pod(json!({"phase": "Running", "containerStatuses": state}))), None);
    }

    #[test]
    fn an_end_is_told_with_its_reason() {
        let state = main(json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}));
        let PodState::Ended(ended) = pod_state(&pod(json!({"phase": "Failed", "containerStatuses": state})))
        else {
            panic!()
        };
        assert!(ended.is_out_of_memory() && ended.code == 137 && !ended.is_unstarted());
        let evicted =
            pod_state(&pod(json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"})));
        assert_eq!(evicted, PodState::Gone { why: "Evicted: low on memory".into() });
    }
}
