//! The conditions of a run: what was requested, and the environment of the run.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{BatchId, Bytes, ContentDigest, ExtraFields, RunId, Seconds};

/// Method of accounting a run's resource use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AccountingMethod {
    /// A cgroup v2 of its own.
    CgroupV2,
    /// cgroups v1 of its own, one per controller.
    CgroupV1,
    /// cgroup v1 controllers, with a cgroup v2 for pressure and killing.
    CgroupHybrid,
    /// A transient systemd scope delegated to metier.
    SystemdScope,
    /// The cgroup of a container made by an engine or kubelet, inside a cgroup of metier or
    /// elsewhere.
    Container,
    /// `wait4` and a child subreaper: exact CPU time of reaped processes, memory of the largest
    /// process only.
    Wait4,
}

impl std::fmt::Display for AccountingMethod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::CgroupV2 => "a control group of its own (version 2)",
            Self::CgroupV1 => "control groups of its own (version 1)",
            Self::CgroupHybrid => "control groups of its own (version 1, with version 2 beside it)",
            Self::SystemdScope => "a systemd scope of its own, delegated to us",
            Self::Container => "the control group of its container",
            Self::Wait4 => "wait4 and a child subreaper",
        })
    }
}

/// How the time series was sampled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SamplingSummary {
    /// Requested time between samples.
    pub interval_seconds: Seconds,
    /// Number of samples taken.
    pub samples: u64,
    /// Samples that were late by more than half an interval, or missed.
    pub late: u64,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// The container image of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageUse {
    /// The requested image, for example `python:3.12`.
    pub reference: String,
    /// Digest of the image that was used.
    pub digest: Option<ContentDigest>,
    /// Container engine and version, for example `Docker Engine 20.10.24`.
    pub engine: String,
    /// Container id in that engine.
    pub container: Option<String>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// The Kubernetes pod of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PodRef {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// UID of the pod in the cluster.
    pub uid: Option<String>,
    /// Node of the pod.
    pub node: Option<String>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Page cache state of the dataset, prepared before the clock started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PageCacheState {
    /// The dataset was evicted from the page cache.
    Cold,
    /// The dataset was read into the page cache.
    Warm,
    /// The page cache was left as it was.
    Untouched,
}

/// The dataset of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DatasetUse {
    /// Source: a path, `https://…` or `s3://…`, without passwords and signatures.
    pub source: String,
    /// Digest of the content.
    pub digest: ContentDigest,
    /// Size of the dataset.
    pub size_bytes: Bytes,
    /// Whether the dataset was already in the local cache.
    pub was_cached: bool,
    /// Time to fetch it, before the clock started.
    pub fetch_seconds: Option<Seconds>,
    /// Page cache state at the start.
    pub page_cache: PageCacheState,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Why a co-runner ran at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CoRunnerKind {
    /// The run depends on it, and it was started before (`needs:`).
    Companion,
    /// It was started as a load beside the run (`with:`).
    Neighbour,
}

/// A co-runner: another run at the same time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CoRunner {
    /// Id of the co-runner.
    pub run: RunId,
    /// Name of its workload.
    pub name: String,
    /// Why it ran at the same time.
    pub role: CoRunnerKind,
    /// Time during which both were running.
    pub overlap_seconds: Option<Seconds>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// A phase of a run, for example `start-up` until its readiness probe succeeded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunPhase {
    /// Name of the phase.
    pub name: String,
    /// Start of the phase, from the start of the run.
    pub from_seconds: Seconds,
    /// End of the phase, from the start of the run.
    pub to_seconds: Seconds,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// The ONNX graph of a run and its runtime.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GraphUse {
    /// File of the graph.
    pub file: String,
    /// Digest of the file.
    pub digest: ContentDigest,
    /// Runtime: `rten` or `onnxruntime`.
    pub runtime: String,
    /// Number of threads.
    pub threads: u32,
    /// Shapes of the inputs.
    #[serde(default)]
    pub shapes: BTreeMap<String, Vec<u64>>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// The place of a run among two batches that were measured by turns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunAlternation {
    /// The other batch.
    pub with: BatchId,
    /// Number of the pair, from 1.
    pub turn: u32,
    /// Place in the pair: 1 or 2.
    pub place: u32,
    /// Seed of the random order within the pairs.
    pub seed: u32,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// The conditions of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunContext {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Working directory.
    pub working_directory: Option<String>,
    /// Path of the executed file.
    pub executable: Option<String>,
    /// Digest of the executed file.
    pub executable_digest: Option<ContentDigest>,
    /// One digest of the sorted names and values of the environment.
    pub environment_digest: Option<ContentDigest>,
    /// The input given with `--input`.
    pub input: Option<String>,
    /// Digest of the input.
    pub input_digest: Option<ContentDigest>,
    /// Kernel release and build.
    pub kernel: Option<String>,
    /// Measuring program and version.
    pub measured_by: String,
    /// Method of accounting.
    pub method: Option<AccountingMethod>,
    /// How the time series was sampled.
    pub sampling: Option<SamplingSummary>,
    /// Time limit, if one was set.
    pub timeout_seconds: Option<Seconds>,
    /// Planned duration, if the run was to be ended after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_seconds: Option<Seconds>,
    /// Time between the steps of signal escalation.
    pub grace_seconds: Option<Seconds>,
    /// The board's power mode, if it has one: `2 MODE_15W_6CORE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_mode: Option<String>,
    /// Number of this repetition in its batch, from 1; warm-up runs are counted separately.
    pub repetition: u32,
    /// Number of repetitions in the batch.
    pub repetitions: u32,
    /// Whether it was a warm-up run.
    #[serde(default)]
    pub warmup: bool,
    /// Its place, if it was measured by turns with the runs of another batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alternation: Option<RunAlternation>,
    /// Runs measured at the same time.
    #[serde(default)]
    pub neighbours: Vec<RunId>,
    /// Co-runners and their kinds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub company: Vec<CoRunner>,
    /// Whether it was only a co-runner of another run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_company: bool,
    /// The image, if it ran in a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageUse>,
    /// The pod, if it ran in Kubernetes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// The graph, if it was an inference run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<GraphUse>,
    /// The dataset, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<DatasetUse>,
    /// Phases of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<RunPhase>,
    /// Applied limits by name.
    #[serde(default)]
    pub limits: BTreeMap<String, String>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}
