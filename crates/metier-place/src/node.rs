//! Facts about a cluster's nodes, from Kubernetes and from Prometheus.
//!
//! Both sources are optional, for a node and for the whole inventory. Missing facts are not
//! guessed.

use std::collections::BTreeMap;

use metier_types::{Bytes, Ratio, Seconds};
use schemars::JsonSchema;
use serde::Serialize;

/// The label with the name that selects a node for pods.
const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";

/// A value with its age at the time of the snapshot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AgedValue<T> {
    pub value: T,
    /// Age of the value.
    pub age: Seconds,
}

/// A fact missing for a node, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Lack")]
pub struct MissingFact {
    /// `device`, `cpu`, `disk`, `memory`.
    pub what: &'static str,
    /// The reason.
    pub why: String,
}

/// A node as Kubernetes reports it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KubernetesNode {
    pub name: String,
    /// Architecture in Kubernetes' terms: `amd64`, `arm64`.
    pub architecture: String,
    /// Operating system: `linux`, `windows`.
    pub system: String,
    pub labels: BTreeMap<String, String>,
    /// Boot id of the machine.
    pub boot: String,
    /// Allocatable cores.
    pub cores: Option<f64>,
    /// Allocatable memory.
    pub memory: Option<Bytes>,
    /// Allocatable cores without requests.
    pub free_cores: Option<f64>,
    /// Allocatable memory without requests.
    pub free_memory: Option<Bytes>,
    /// Reason why the node accepts no pods now.
    pub obstacle: Option<String>,
}

/// A node as Prometheus' series describe it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PrometheusNode {
    /// Name in the cluster.
    pub name: String,
    /// Machine class as exported: `Computer` or `VM`.
    pub class: Option<String>,
    /// Exported identifier; not always unique (char_agent exports the same on each node).
    pub uuid: Option<String>,
    /// Model of the device.
    pub model: Option<String>,
    pub brand: Option<String>,
    /// Instruction set as exported.
    pub architecture: Option<String>,
    pub cores: Option<u32>,
    pub memory: Option<Bytes>,
    /// Used share of all cores' time.
    pub cpu_busy: Option<AgedValue<Ratio>>,
    /// Used share of the root file system.
    pub disk_used: Option<AgedValue<Ratio>>,
    /// Memory available to a new program.
    pub memory_available: Option<AgedValue<Bytes>>,
    /// Missing facts.
    pub missing: Vec<MissingFact>,
}

impl PrometheusNode {
    /// Reason why a fact is missing; `None` if it is known.
    pub fn why_missing(&self, what: &str) -> Option<&str> {
        self.missing.iter().find(|missing| missing.what == what).map(|missing| missing.why.as_str())
    }
}

/// A node with its facts from both sources.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeFacts {
    /// Kubernetes' name of the node, else the name in its series.
    pub name: String,
    pub kubernetes: Option<KubernetesNode>,
    pub prometheus: Option<PrometheusNode>,
}

impl NodeFacts {
    /// The hostname label that pods select the node by.
    pub fn hostname(&self) -> Option<&str> {
        self.label(HOSTNAME_LABEL)
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.kubernetes.as_ref()?.labels.get(key).map(String::as_str)
    }

    /// Architecture in Kubernetes' terms, from either source.
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

    /// Processors of the machine; allocatable cores if no series counts them.
    pub fn cores(&self) -> Option<u32> {
        let allocatable = || Some(self.kubernetes.as_ref()?.cores?.ceil().clamp(1.0, 4096.0) as u32);
        self.prometheus.as_ref().and_then(|node| node.cores).or_else(allocatable)
    }

    /// Used share of the processors.
    pub fn cpu_busy(&self) -> Option<Ratio> {
        Some(self.prometheus.as_ref()?.cpu_busy?.value)
    }

    /// Memory available to a new program.
    pub fn memory_available(&self) -> Option<Bytes> {
        Some(self.prometheus.as_ref()?.memory_available?.value)
    }

    /// Allocatable memory without requests.
    pub fn free_memory(&self) -> Option<Bytes> {
        self.kubernetes.as_ref()?.free_memory
    }
}

/// All nodes, and the sources that answered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeInventory {
    /// Nodes by name.
    pub nodes: Vec<NodeFacts>,
    /// Whether Kubernetes answered. If so, nodes unknown to it are excluded.
    pub has_kubernetes: bool,
    /// Whether Prometheus answered. If so, nodes with unknown load are excluded.
    pub has_prometheus: bool,
    /// Notes about data that could not be read and is missing from the figures.
    pub notes: Vec<String>,
}
