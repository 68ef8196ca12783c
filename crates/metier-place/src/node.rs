//! What is known of a cluster's nodes: what Kubernetes says and what Prometheus says, side by side.
//!
//! Both sides are optional, in a node and in the whole inventory. Nothing that a side does not say
//! is filled in.

use std::collections::BTreeMap;

use metier_types::{Bytes, Ratio, Seconds};
use schemars::JsonSchema;
use serde::Serialize;

/// The label that holds the name by which pods are sent to a node.
const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";

/// A value, and how long before the snapshot it was taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AgedValue<T> {
    pub value: T,
    /// How old it was.
    pub age: Seconds,
}

/// What is not known of a node, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Lack")]
pub struct MissingFact {
    /// `device`, `cpu`, `disk`, `memory`.
    pub what: &'static str,
    /// Why.
    pub why: String,
}

/// A node as Kubernetes describes it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KubernetesNode {
    pub name: String,
    /// As Kubernetes calls it: `amd64`, `arm64`.
    pub architecture: String,
    /// `linux`, `windows`.
    pub system: String,
    pub labels: BTreeMap<String, String>,
    /// The boot of its machine.
    pub boot: String,
    /// Cores that pods may request, all together.
    pub cores: Option<f64>,
    /// Memory that pods may request, all together.
    pub memory: Option<Bytes>,
    /// Cores that no pod has requested.
    pub free_cores: Option<f64>,
    /// Memory that no pod has requested.
    pub free_memory: Option<Bytes>,
    /// Why nothing can be put there now.
    pub obstacle: Option<String>,
}

/// A node as Prometheus' series describe it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PrometheusNode {
    /// What the cluster calls it.
    pub name: String,
    /// What sort of machine it says it is: `Computer` or `VM`.
    pub class: Option<String>,
    /// The identifier that it shows; not always its own (char_agent shows the same on each).
    pub uuid: Option<String>,
    /// The model of the device.
    pub model: Option<String>,
    pub brand: Option<String>,
    /// The instruction set, as the node says it.
    pub architecture: Option<String>,
    pub cores: Option<u32>,
    pub memory: Option<Bytes>,
    /// Share of all cores' time that is used.
    pub cpu_busy: Option<AgedValue<Ratio>>,
    /// Share of the root file system that is used.
    pub disk_used: Option<AgedValue<Ratio>>,
    /// Memory that a new program could have.
    pub memory_available: Option<AgedValue<Bytes>>,
    /// What is not known of it.
    pub missing: Vec<MissingFact>,
}

impl PrometheusNode {
    /// Why something is not known, if it is not.
    pub fn why_missing(&self, what: &str) -> Option<&str> {
        self.missing.iter().find(|missing| missing.what == what).map(|missing| missing.why.as_str())
    }
}

/// A node with everything that is known of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeFacts {
    /// Kubernetes' name where Kubernetes knows the node, else that of its series.
    pub name: String,
    pub kubernetes: Option<KubernetesNode>,
    pub prometheus: Option<PrometheusNode>,
}

impl NodeFacts {
    /// The name by which pods are sent there.
    pub fn hostname(&self) -> Option<&str> {
        self.label(HOSTNAME_LABEL)
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.kubernetes.as_ref()?.labels.get(key).map(String::as_str)
    }

    /// Its architecture in Kubernetes' words, where either side says it.
    pub fn architecture(&self) -> Option<&str> {
        let by_kubernetes = self.kubernetes.as_ref().map(|node| node.architecture.as_str());
        if let Some(known) = by_kubernetes.filter(|name| !name.is_empty()) {
            return Some(known);
        }
        let text = self.prometheus.as_ref()?.architecture.as_deref()?;
        Some(match text.to_ascii_lowercase().as_str() {
            "aarch64" | "arm64" | "arm_8" => "arm64",
            "x86_64" | "amd64" => "amd64",
            "arm" | "armv7l" | "armv6l" | "arm_7" => "arm",
            _ => text,
        })
    }

    /// Processors of the machine; of those that pods may request where no series counts them.
    pub fn cores(&self) -> Option<u32> {
        let allocatable = || Some(self.kubernetes.as_ref()?.cores?.ceil().clamp(1.0, 4096.0) as u32);
        self.prometheus.as_ref().and_then(|node| node.cores).or_else(allocatable)
    }

    /// The share of its processors that is in use now.
    pub fn cpu_busy(&self) -> Option<Ratio> {
        Some(self.prometheus.as_ref()?.cpu_busy?.value)
    }

    /// Memory that a new program could have now.
    pub fn memory_available(&self) -> Option<Bytes> {
        Some(self.prometheus.as_ref()?.memory_available?.value)
    }

    /// Memory that no pod has requested.
    pub fn free_memory(&self) -> Option<Bytes> {
        self.kubernetes.as_ref()?.free_memory
    }
}

/// All nodes, and which sources they come from.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeInventory {
    /// By name.
    pub nodes: Vec<NodeFacts>,
    /// Whether Kubernetes answered; a node that it does not know cannot be used then.
    pub has_kubernetes: bool,
    /// Whether Prometheus answered; a node whose load it does not know cannot be judged then.
    pub has_prometheus: bool,
    /// What could not be looked at, and so is not in the figures.
    pub notes: Vec<String>,
}
