//! The specification of a run: what runs, under which conditions, and how it is measured. It is
//! validated as a whole before anything starts.

mod awaited_output;
mod listen_sources;
mod target;

use std::path::PathBuf;
use std::time::Duration;

use metier_types::{BatchId, Bytes, CoRunner, DatasetUse, GraphUse, RunAlternation, RunId, WorkloadId};

use crate::Error;
pub use awaited_output::AwaitedOutput;
pub(crate) use awaited_output::OutputWatcher;
pub use listen_sources::ListenSources;
pub use target::{CommandSpec, ContainerSpec, PodPrivileges, PodSpec, PullPolicy, RunTarget};

/// Shortest and longest time between samples.
pub const INTERVAL_RANGE: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(10);
/// Default sampling rate in Hz: not a divisor of common timer frequencies.
pub const STACKS_DEFAULT_HERTZ: u32 = 99;
/// Range of the sampling rate in Hz.
pub const STACKS_HERTZ_RANGE: std::ops::RangeInclusive<u32> = 1..=1000;
/// Maximum length of a list in a specification.
const MAX_LIST_LEN: usize = 1000;

/// How a run's resource use is accounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AccountingMode {
    /// The best method of the host: a control group, else a systemd scope, else `wait4`.
    #[default]
    Best,
    /// `wait4` only, as on a host without control groups.
    Wait4,
}

/// A folder or file of this host that the run sees. Only containers and pods have mounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindMount {
    /// Where it is on this host.
    pub source: PathBuf,
    /// Where the run sees it.
    pub target: PathBuf,
    /// Whether the run may only read it.
    pub read_only: bool,
}

/// How many GPUs a run gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuCount {
    /// All GPUs of the host.
    All,
    Count(u32),
}

/// Resource limits of a run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ResourceLimits {
    /// Cores, for example 0.5.
    pub cpu: Option<f64>,
    pub memory: Option<Bytes>,
    /// GPUs, for containers and pods. A command sees all GPUs of the host.
    pub gpus: Option<GpuCount>,
}

impl ResourceLimits {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The specification of a run.
#[derive(Debug, Clone)]
pub struct RunSpec {
    pub target: RunTarget,
    /// The run's id if it has one already (from a queue); otherwise a new one.
    pub id: Option<RunId>,
    /// Name of the workload; without one its identity is a digest of its content.
    pub name: Option<WorkloadId>,
    /// Tags for searching.
    pub tags: Vec<String>,
    /// Input file or folder of the run, for the record.
    pub input: Option<PathBuf>,
    /// Variables in addition to this process's (a command) or the image's (a container, a pod).
    pub environment: Vec<(String, String)>,
    /// Working directory; by default this process's, or the image's.
    pub working_directory: Option<PathBuf>,
    /// Bind mounts of a container or pod.
    pub mounts: Vec<BindMount>,
    /// Resource limits.
    pub limits: ResourceLimits,
    /// Co-runners.
    pub company: Vec<CoRunner>,
    /// Whether this run is itself a co-runner.
    pub is_company: bool,
    /// The dataset that it works on, already on this host.
    pub dataset: Option<DatasetUse>,
    /// The dataset's path on this host; one of the mounts has it as its source.
    pub dataset_path: Option<PathBuf>,
    /// The graph that the command computes: the workload is then the graph, and the command only
    /// its runner.
    pub graph: Option<GraphUse>,
    /// Files to store with the run, as the run sees them: paths, in which `*`, `?` and `**` match.
    pub artefacts: Vec<String>,
    /// Sources of application messages.
    pub listen: ListenSources,
    /// Rate of stack sampling in Hz; `None` without sampling.
    pub stacks: Option<u32>,
    pub interval: Duration,
    /// Time limit.
    pub timeout: Option<Duration>,
    /// Planned duration: after this the run is ended and counts as complete.
    pub duration: Option<Duration>,
    /// Time between the rungs of the signal ladder.
    pub grace: Duration,
    /// How long processes may continue after the main process has ended before the ladder starts.
    pub linger: Duration,
    /// The batch that the run belongs to.
    pub batch: BatchId,
    /// Number of the repetition, from 1.
    pub repetition: u32,
    pub repetitions: u32,
    /// Whether it is a warm-up.
    pub warmup: bool,
    /// Its place, if it is measured by turns with the runs of another batch.
    pub alternation: Option<RunAlternation>,
    /// How its resource use is accounted.
    pub accounting: AccountingMode,
}

impl RunSpec {
    /// A run of a command with default measurement options.
    pub fn new(command: CommandSpec) -> Self {
        Self::for_target(RunTarget::Command(command))
    }

    /// A run of any target with default measurement options.
    pub fn for_target(target: RunTarget) -> Self {
        Self {
            target,
            id: None,
            name: None,
            tags: Vec::new(),
            input: None,
            environment: Vec::new(),
            working_directory: None,
            mounts: Vec::new(),
            limits: ResourceLimits::default(),
            company: Vec::new(),
            is_company: false,
            dataset: None,
            dataset_path: None,
            graph: None,
            artefacts: Vec::new(),
            listen: ListenSources::default(),
            stacks: None,
            interval: Duration::from_millis(100),
            timeout: None,
            duration: None,
            grace: Duration::from_secs(5),
            linger: Duration::from_secs(10),
            batch: BatchId::new(),
            repetition: 1,
            repetitions: 1,
            warmup: false,
            alternation: None,
            accounting: AccountingMode::Best,
        }
    }

    /// When it is ended at the latest: at its time limit or its planned duration.
    pub fn time_limit(&self) -> Option<Duration> {
        self.timeout.into_iter().chain(self.duration).min()
    }

    /// Whether it ends by its planned duration rather than its time limit.
    pub fn ends_as_planned(&self) -> bool {
        self.duration.is_some() && self.time_limit() == self.duration
    }

    /// Rejects an invalid specification, naming the field.
    pub fn validate(&self) -> Result<(), Error> {
        let wrong = |field, got: String, want| Err(Error::Spec { field, got, want });
        match &self.target {
            RunTarget::Command(command) if command.program.is_empty() => {
                return wrong("command", "empty".into(), "a program to run after `--`");
            }
            RunTarget::Command(_) if !self.mounts.is_empty() => {
                let got = self.mounts[0].source.display().to_string();
                return wrong("mount", got, "no mounts: a command sees this host's files as they are");
            }
            RunTarget::Command(_) if self.limits.gpus.is_some() => {
                return wrong("gpus", "set".into(), "no such limit: a command sees all GPUs of this host");
            }
            _ => {}
        }
        if let Some(image) = self.target.image()
            && (image.is_empty() || image.chars().any(|c| c.is_whitespace() || c.is_control()))
        {
            return wrong("image", format!("{image:?}"), "the name of an image, such as `python:3.12`");
        }
        if !INTERVAL_RANGE.contains(&self.interval) {
            return wrong("interval", format!("{:?}", self.interval), "1ms to 10s");
        }
        if self.timeout.is_some_and(|timeout| timeout.is_zero()) {
            return wrong("timeout", "0".into(), "a time above 0, or no limit at all");
        }
        if self.duration.is_some_and(|time| time.is_zero()) {
            return wrong("for", "0".into(), "a time above 0");
        }
        if self.grace > Duration::from_secs(3600) {
            return wrong("grace", format!("{:?}", self.grace), "at most 1h");
        }
        if let Some(tag) = self
            .tags
            .iter()
            .find(|tag| tag.is_empty() || tag.len() > 200 || tag.chars().any(char::is_control))
        {
            return wrong("tag", format!("{tag:?}"), "1 to 200 printable characters");
        }
        self.validate_environment()
    }

    fn validate_environment(&self) -> Result<(), Error> {
        let wrong = |field, got: String, want| Err(Error::Spec { field, got, want });
        let is_name = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
        if let Some((name, _)) =
            self.environment.iter().find(|(name, value)| !is_name(name) || value.contains('\0'))
        {
            return wrong("env", format!("{name:?}"), "NAME=VALUE without NUL bytes");
        }
        let longest = self.environment.len().max(self.mounts.len()).max(self.artefacts.len());
        if longest > MAX_LIST_LEN {
            return wrong("env", format!("{longest} entries"), "at most 1000 variables, mounts or artefacts");
        }
        for mount in &self.mounts {
            if !mount.source.is_absolute() || !mount.target.is_absolute() {
                let got = format!("{}:{}", mount.source.display(), mount.target.display());
                return wrong("mount", got, "two absolute paths, of this host and of the run");
            }
        }
        if self.limits.cpu.is_some_and(|cores| !(0.01..=100_000.0).contains(&cores)) {
            return wrong("cpus", format!("{:?}", self.limits.cpu), "a number of cores of at least 0.01");
        }
        if self.limits.memory.is_some_and(|bytes| bytes.0 < 1 << 20) {
            let got = self.limits.memory.map(|bytes| bytes.to_string()).unwrap_or_default();
            return wrong("memory", got, "at least 1 MiB");
        }
        if let Some(hertz) = self.stacks.filter(|hertz| !STACKS_HERTZ_RANGE.contains(hertz)) {
            let want = "1 to 1000 samples per second";
            return Err(Error::Spec { field: "stacks", got: hertz.to_string(), want });
        }
        if let Some((field, got, want)) = self.listen.find_defect() {
            return wrong(field, got, want);
        }
        if self.artefacts.iter().any(|path| path.is_empty() || path.contains('\0')) {
            return wrong("artefact", "an empty path".into(), "a path; * and ? are wildcards");
        }
        Ok(())
    }
}
