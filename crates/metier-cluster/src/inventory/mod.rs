//! The inventory of a cluster's nodes, joined from Kubernetes and Prometheus.
//!
//! [`kubernetes`] lists nodes and the requests of their pods; [`prometheus`] gives hardware and
//! load. [`join`] combines both by node name, then by host name. If one source fails, the inventory
//! has only the other, with a note.

pub mod kubernetes;
pub mod prometheus;
mod quantity;

use std::collections::HashMap;

use metier_place::{NodeFacts, NodeInventory, PrometheusNode};

use kubernetes::KubernetesSurvey;
use prometheus::PrometheusSnapshot;

/// Joins the queried sources. The error of a source is the reason why it did not answer.
pub fn join_sources(
    kubernetes: Option<Result<&KubernetesSurvey, String>>,
    prometheus: Option<Result<&PrometheusSnapshot, String>>,
) -> NodeInventory {
    let mut notes = Vec::new();
    let survey = kubernetes.and_then(|answer| {
        let lacks = "so requests, labels and what keeps nodes from taking pods are not known";
        answer.map_err(|why| notes.push(format!("Kubernetes does not answer, {lacks}: {why}"))).ok()
    });
    let snapshot = prometheus.and_then(|answer| {
        let lacks = "so loads and what is available now are not known";
        answer.map_err(|why| notes.push(format!("Prometheus does not answer, {lacks}: {why}"))).ok()
    });
    let shown = snapshot.map_or(&[][..], |snapshot| &snapshot.nodes);
    let mut rest: HashMap<String, &PrometheusNode> =
        shown.iter().map(|node| (node.name.to_lowercase(), node)).collect();
    let mut nodes = Vec::new();
    for node in survey.iter().flat_map(|survey| &survey.nodes) {
        let mut facts =
            NodeFacts { name: node.name.clone(), kubernetes: Some(node.clone()), prometheus: None };
        let by_host = || facts.hostname().map(str::to_lowercase);
        let found = rest.remove(&node.name.to_lowercase()).or_else(|| rest.remove(&by_host()?));
        facts.prometheus = found.cloned();
        nodes.push(facts);
    }
    nodes.extend(rest.into_values().map(|node| NodeFacts {
        name: node.name.clone(),
        kubernetes: None,
        prometheus: Some(node.clone()),
    }));
    nodes.sort_by(|facts, other| facts.name.cmp(&other.name));
    notes.extend(survey.iter().flat_map(|survey| survey.notes.clone()));
    notes.extend(snapshot.iter().flat_map(|snapshot| snapshot.warnings.clone()));
    NodeInventory { nodes, has_kubernetes: survey.is_some(), has_prometheus: snapshot.is_some(), notes }
}

#[cfg(test)]
mod tests;
