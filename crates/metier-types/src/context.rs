//! The circumstances of a run: what was asked for, and what it ran in.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Bytes, Digest, Extra, RunId, Seconds};

/// How a run's use was accounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Method {
    /// A control group of its own, version 2.
    CgroupV2,
    /// Control groups of its own, version 1 (one per controller).
    CgroupV1,
    /// Version 1 controllers, with a version 2 group for pressure and killing.
    CgroupHybrid,
    /// A transient systemd scope that was delegated to us.
    SystemdScope,
    /// The control group of a container that an engine or a kubelet made inside one of ours, or of its own.
    Container,
    /// `wait4` and a child subreaper: exact CPU time of what was waited for, memory of the largest process only.
    Wait4,
}

impl std::fmt::Display for Method {
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

/// How the time line was taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sampling {
    /// Time between samples that was asked for.
    pub interval_seconds: Seconds,
    /// Samples taken.
    pub samples: u64,
    /// Samples that came late by more than half an interval, or not at all.
    pub late: u64,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The image that a run was a container of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageUse {
    /// As it was asked for, for example `python:3.12`.
    pub reference: String,
    /// The content that really ran.
    pub digest: Option<Digest>,
    /// Who ran it, with its version, for example `Docker Engine 20.10.24`.
    pub engine: String,
    /// The container's id there.
    pub container: Option<String>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The pod that a run was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PodRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its identity in the cluster.
    pub uid: Option<String>,
    /// The node that it ran on.
    pub node: Option<String>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What was done about the page cache before the clock started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PageCache {
    /// The dataset was dropped from it.
    Cold,
    /// The dataset was read into it.
    Warm,
    /// Nothing.
    Untouched,
}

/// The dataset that a run worked on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DatasetUse {
    /// Where it came from: a path, `https://…`, `s3://…`; without passwords and signatures.
    pub source: String,
    /// Its content.
    pub digest: Digest,
    /// Its size.
    pub size_bytes: Bytes,
    /// Whether it was already here.
    pub was_cached: bool,
    /// How long fetching it took, before the clock started.
    pub fetch_seconds: Option<Seconds>,
    /// What was done about the page cache.
    pub page_cache: PageCache,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Why another run was there at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The run needs it: it was started before (`needs:`).
    Companion,
    /// It was put beside the run to disturb it (`with:`).
    Neighbour,
}

/// Another run that was there at the same time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Company {
    /// Which run it was.
    pub run: RunId,
    /// What people call its workload.
    pub name: String,
    /// Why it was there.
    pub role: Role,
    /// For how long both were under way.
    pub overlap_seconds: Option<Seconds>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A part of a run's time, for example `start-up` until its readiness probe succeeded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Phase {
    /// What it is called.
    pub name: String,
    /// When it began, from the start of the run.
    pub from_seconds: Seconds,
    /// When it ended.
    pub to_seconds: Seconds,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The graph that a run computed, and with what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GraphUse {
    /// Its file.
    pub file: String,
    /// Its content.
    pub digest: Digest,
    /// What computed it: `rten`, `onnxruntime`.
    pub runtime: String,
    /// Threads that it was given.
    pub threads: u32,
    /// Shapes of its inputs.
    #[serde(default)]
    pub shapes: BTreeMap<String, Vec<u64>>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The circumstances of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Context {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Where it ran.
    pub working_directory: Option<String>,
    /// The file that was executed.
    pub executable: Option<String>,
    /// Its content.
    pub executable_digest: Option<Digest>,
    /// Names and values of the environment, sorted, as one digest: equal digests, equal environments.
    pub environment_digest: Option<Digest>,
    /// The input that was named with `--input`.
    pub input: Option<String>,
    /// Its content.
    pub input_digest: Option<Digest>,
    /// Kernel release and build.
    pub kernel: Option<String>,
    /// Program and version that measured.
    pub measured_by: String,
    /// How its use was accounted.
    pub method: Option<Method>,
    /// How the time line was taken.
    pub sampling: Option<Sampling>,
    /// Time limit, where one was set.
    pub timeout_seconds: Option<Seconds>,
    /// How long it was to run, where it was to be ended then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_seconds: Option<Seconds>,
    /// Time between the rungs of the signal ladder.
    pub grace_seconds: Option<Seconds>,
    /// The board's power mode, where it has such: `2 MODE_15W_6CORE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_mode: Option<String>,
    /// Which repetition of its batch this is, from 1; warm-up runs have their own count.
    pub repetition: u32,
    /// How many repetitions the batch has.
    pub repetitions: u32,
    /// Whether it only warmed up.
    #[serde(default)]
    pub warmup: bool,
    /// Runs that were measured beside it.
    #[serde(default)]
    pub neighbours: Vec<RunId>,
    /// Runs that were there at the same time, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub company: Vec<Company>,
    /// Whether it was there only for another run: needed by it, or put beside it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_company: bool,
    /// The image, where it was a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageUse>,
    /// The pod, where it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
    /// The graph, where it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<GraphUse>,
    /// The dataset that it worked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<DatasetUse>,
    /// Parts of its time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
    /// Limits that applied, by name.
    #[serde(default)]
    pub limits: BTreeMap<String, String>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}
