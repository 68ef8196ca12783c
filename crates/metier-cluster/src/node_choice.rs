//! Selects where a pod may run, and whether that is this machine.
//!
//! A node is this machine if the boot ids are equal. Node names are arbitrary, and copied disks
//! share a machine id, but the kernel draws a new boot id at each boot.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use metier_linux::{KernelRoots, kernel_file};

/// Location of the pod, as far as it is known before scheduling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodLocation {
    /// Only this machine is possible.
    ThisMachine,
    /// One or several other machines, all of which can run metier's binaries.
    SameArchitecture,
    /// Another machine of a different architecture, or an unknown one.
    Elsewhere,
}

/// Chooses a location. The error is the reason why no node fits.
pub fn choose_location(
    nodes: &[Node],
    name: Option<&str>,
    labels: &BTreeMap<String, String>,
    boot: &str,
) -> Result<PodLocation, String> {
    let candidates: Vec<&Node> = match name {
        None => nodes.iter().collect(),
        Some(name) => match nodes.iter().find(|node| node_name(node) == name) {
            Some(node) => vec![node],
            None => {
                return Err(format!("there is no node `{name}`; there are: {}", node_names(nodes.iter())));
            }
        },
    };
    let fitting: Vec<&Node> = candidates.iter().copied().filter(|node| has_labels(node, labels)).collect();
    if fitting.is_empty() {
        let texts: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let whom = match name {
            Some(name) => format!("node `{name}` does not have"),
            None => "no node has".to_string(),
        };
        return Err(format!("{whom} the labels {}", texts.join(", ")));
    }
    let able: Vec<&Node> = fitting.iter().copied().filter(|node| node_obstacle(node).is_none()).collect();
    if able.is_empty() {
        let why: Vec<String> = fitting
            .iter()
            .take(5)
            .filter_map(|node| Some(format!("{}: {}", node_name(node), node_obstacle(node)?)))
            .collect();
        return Err(format!("no node that fits can take pods ({})", why.join("; ")));
    }
    let here = able.iter().all(|node| !boot.is_empty() && node_boot_id(node) == Some(boot));
    let alike = able.iter().all(|node| runs_our_programs(node));
    Ok(match (here, alike) {
        (true, _) => PodLocation::ThisMachine,
        (false, true) => PodLocation::SameArchitecture,
        (false, false) => PodLocation::Elsewhere,
    })
}

/// Whether a node has the platform of this binary.
fn runs_our_programs(node: &Node) -> bool {
    // Kubernetes' names of the architectures.
    let ours = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    };
    let about = node.status.as_ref().and_then(|status| status.node_info.as_ref());
    about.is_some_and(|about| about.architecture == ours && about.operating_system == "linux")
}

/// Why a node accepts no pods.
pub fn node_obstacle(node: &Node) -> Option<String> {
    if node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true)) {
        return Some("it is cordoned (kubectl uncordon lets it take pods again)".into());
    }
    not_ready_reason(node)
}

/// Why a node is not ready, from its conditions.
pub fn not_ready_reason(node: &Node) -> Option<String> {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.into_iter().flatten().find(|condition| condition.type_ == "Ready");
    match ready {
        Some(ready) if ready.status == "True" => None,
        Some(ready) => {
            let message = ready.message.clone().or_else(|| ready.reason.clone()).unwrap_or_default();
            Some(format!("it is not ready: {message}"))
        }
        None => Some("its state is not known".into()),
    }
}

/// Boot id of this machine.
pub fn own_boot_id(roots: &KernelRoots) -> String {
    kernel_file::read_text(roots.proc.join("sys/kernel/random/boot_id")).unwrap_or_default()
}

fn node_boot_id(node: &Node) -> Option<&str> {
    Some(node.status.as_ref()?.node_info.as_ref()?.boot_id.as_str())
}

fn node_name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}

fn has_labels(node: &Node, texts: &BTreeMap<String, String>) -> bool {
    let has = node.metadata.labels.as_ref();
    texts.iter().all(|(key, value)| has.and_then(|labels| labels.get(key)) == Some(value))
}

fn node_names<'a>(nodes: impl Iterator<Item = &'a Node>) -> String {
    let names: Vec<&str> = nodes.map(node_name).take(20).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, boot: &str, ready: &str, labels: serde_json::Value) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {},
            "status": {
                "conditions": [{"type": "Ready", "status": ready, "message": "as it says"}],
                "nodeInfo": {
                    "architecture": "", "bootID": boot, "containerRuntimeVersion": "", "kernelVersion": "",
                    "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "",
                    "osImage": "", "systemUUID": ""
                }
            }
        }))
        .unwrap()
    }

    #[test]
    fn a_node_is_this_machine_by_its_boot_and_not_by_its_name() {
        let nodes = [node("a", "boot-1", "True", json!({})), node("b", "boot-2", "True", json!({}))];
        let none = BTreeMap::new();
        assert_eq!(choose_location(&nodes, Some("a"), &none, "boot-1"), Ok(PodLocation::ThisMachine));
        assert_eq!(choose_location(&nodes, Some("b"), &none, "boot-1"), Ok(PodLocation::Elsewhere));
        assert_eq!(
            choose_location(&nodes, None, &none, "boot-1"),
            Ok(PodLocation::Elsewhere),
            "it may become either"
        );
        assert_eq!(choose_location(&nodes[..1], None, &none, "boot-1"), Ok(PodLocation::ThisMachine));
        assert_eq!(
            choose_location(&nodes[..1], None, &none, ""),
            Ok(PodLocation::Elsewhere),
            "unknown is not equal"
        );
    }

    #[test]
    fn a_node_of_the_same_kind_can_run_our_programs() {
        let mut nodes = [node("a", "boot-1", "True", json!({})), node("b", "boot-2", "True", json!({}))];
        let ours = if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" };
        let mut call = |at: usize, name: &str| {
            let about = nodes[at].status.as_mut().unwrap().node_info.as_mut().unwrap();
            (about.architecture, about.operating_system) = (name.into(), "linux".into());
            choose_location(&nodes, None, &BTreeMap::new(), "")
        };
        if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            return;
        }
        assert_eq!(call(0, ours), Ok(PodLocation::Elsewhere), "the other is not known");
        assert_eq!(call(1, ours), Ok(PodLocation::SameArchitecture));
        assert_eq!(call(0, "s390x"), Ok(PodLocation::Elsewhere));
    }

    #[test]
    fn what_cannot_be_had_is_said_in_a_sentence() {
        let nodes = [node("a", "1", "Unknown", json!({"device": "nx"})), node("b", "2", "True", json!({}))];
        let none = BTreeMap::new();
        let device = |value: &str| BTreeMap::from([("device".to_string(), value.to_string())]);
        assert_eq!(
            choose_location(&nodes, Some("c"), &none, "1").unwrap_err(),
            "there is no node `c`; there are: a, b"
        );
        assert_eq!(
            choose_location(&nodes, None, &device("orin"), "1").unwrap_err(),
            "no node has the labels device=orin"
        );
        assert_eq!(
            choose_location(&nodes, Some("b"), &device("nx"), "1").unwrap_err(),
            "node `b` does not have the labels device=nx"
        );
        let cold = choose_location(&nodes, None, &device("nx"), "1").unwrap_err();
        assert!(cold.contains("a: it is not ready: as it says"), "{cold}");
    }
}
