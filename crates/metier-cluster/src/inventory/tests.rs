//! Joins of both sources, and of one source alone.

use metier_place::{KubernetesNode, PrometheusNode};
use metier_types::UtcTimestamp;

use super::*;

fn survey(names: &[(&str, &str)]) -> KubernetesSurvey {
    let node = |(name, hostname): &(&str, &str)| KubernetesNode {
        name: name.to_string(),
        labels: [("kubernetes.io/hostname".to_string(), hostname.to_string())].into(),
        ..KubernetesNode::default()
    };
    KubernetesSurvey { nodes: names.iter().map(node).collect(), notes: vec!["of Kubernetes".into()] }
}

fn snapshot(names: &[&str]) -> PrometheusSnapshot {
    let node =
        |name: &&str| PrometheusNode { name: name.to_string(), cores: Some(4), ..PrometheusNode::default() };
    let nodes = names.iter().map(node).collect();
    PrometheusSnapshot { at: UtcTimestamp::UNIX_EPOCH, nodes, warnings: vec!["of Prometheus".into()] }
}

fn sides(inventory: &NodeInventory) -> Vec<(&str, bool, bool)> {
    let side = |node: &NodeFacts| (node.kubernetes.is_some(), node.prometheus.is_some());
    inventory.nodes.iter().map(|node| (node.name.as_str(), side(node).0, side(node).1)).collect()
}

#[test]
fn nodes_are_joined_by_name_else_by_host_name_and_each_once() {
    let survey = survey(&[("b", "host-b"), ("seven", "Host-7"), ("lonely", "lonely")]);
    let snapshot = snapshot(&["host-7", "B", "stranger"]);
    let joined = join_sources(Some(Ok(&survey)), Some(Ok(&snapshot)));
    assert_eq!(
        sides(&joined),
        [("b", true, true), ("lonely", true, false), ("seven", true, true), ("stranger", false, true)]
    );
    assert!(joined.has_kubernetes && joined.has_prometheus);
    assert_eq!(joined.notes, ["of Kubernetes", "of Prometheus"]);
}

#[test]
fn without_one_side_the_other_is_there_and_what_is_missing_is_said() {
    let (survey, snapshot) = (survey(&[("a", "a")]), snapshot(&["a", "b"]));
    let joined = join_sources(Some(Err("connection refused".into())), Some(Ok(&snapshot)));
    assert_eq!(sides(&joined), [("a", false, true), ("b", false, true)]);
    assert!(!joined.has_kubernetes && joined.has_prometheus);
    assert!(joined.notes[0].contains("requests") && joined.notes[0].contains("connection refused"));
    let joined = join_sources(Some(Ok(&survey)), Some(Err("no route".into())));
    assert_eq!(sides(&joined), [("a", true, false)]);
    assert!(joined.notes[0].contains("loads") && joined.notes[0].contains("no route"), "{:?}", joined.notes);
    // A source that was not queried is not missing.
    assert_eq!(join_sources(Some(Ok(&survey)), None).notes, ["of Kubernetes"]);
}
