//! The circumstances of a run: what was asked for, and what it ran in.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Digest, Extra, RunId, Seconds};

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
    /// Time between the rungs of the signal ladder.
    pub grace_seconds: Option<Seconds>,
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
    /// Limits that applied, by name.
    #[serde(default)]
    pub limits: BTreeMap<String, String>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}
