//! What a run is asked to be: what runs, in which circumstances, and how it is measured. Checked as a whole
//! before anything starts.

mod awaited_output;
mod listen_sources;
mod target;

use std::path::PathBuf;
use std::time::Duration;

use metier_types::{BatchId, Bytes, CoRunner, DatasetUse, GraphUse, RunId, WorkloadId};

use crate::Error;
pub use awaited_output::AwaitedOutput;
pub(crate) use awaited_output::OutputWatcher;
pub use listen_sources::ListenSources;
pub use target::{CommandSpec, ContainerSpec, PodPrivileges, PodSpec, PullPolicy, RunTarget};

/// Shortest and longest time between samples.
pub const INTERVAL_RANGE: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(10);
/// Samples per second where nobody says how many: not a divisor of what timers usually beat at.
pub const STACKS_DEFAULT_HERTZ: u32 = 99;
/// Fewest and most samples per second.
pub const STACKS_HERTZ_RANGE: std::ops::RangeInclusive<u32> = 1..=1000;
/// Longest lists that a specification may have.
const MAX_LIST_LEN: usize = 1000;

/// How a run's use may be accounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AccountingMode {
    /// The best that the host offers: a control group, else a systemd scope, else `wait4`.
    #[default]
    Best,
    /// `wait4` only, as on a host that offers nothing better.
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
    /// All that there are.
    All,
    Count(u32),
}

/// What a run may use at most.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ResourceLimits {
    /// Cores, for example 0.5.
    pub cpu: Option<f64>,
    pub memory: Option<Bytes>,
    /// GPUs. A command sees all of the host's; this is for containers and pods.
    pub gpus: Option<GpuCount>,
}

impl ResourceLimits {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What a run is asked to be.
#[derive(Debug, Clone)]
pub struct RunSpec {
    pub target: RunTarget,
    /// The run's identity, where it has one already (a queue gives it); else a new one.
    pub id: Option<RunId>,
    /// Name of the workload; without one its identity is a digest of what it is.
    pub name: Option<WorkloadId>,
    /// Words to find the run by.
    pub tags: Vec<String>,
    /// File or folder whose content the run works on, for the record.
    pub input: Option<PathBuf>,
    /// Variables that are set beside ours (a command) or the image's (a container, a pod).
    pub environment: Vec<(String, String)>,
    /// Where it starts; else where we are, or where the image says.
    pub working_directory: Option<PathBuf>,
    /// What it sees of this host, where it is a container or a pod.
    pub mounts: Vec<BindMount>,
    /// What it may use at most.
    pub limits: ResourceLimits,
    /// Other runs that are there at the same time.
    pub company: Vec<CoRunner>,
    /// Whether it is there only for another run.
    pub is_company: bool,
    /// The dataset that it works on, already here.
    pub dataset: Option<DatasetUse>,
    /// Where that is on this host; one of the mounts has it as its source.
    pub dataset_path: Option<PathBuf>,
    /// The graph that the command computes: the workload is then the graph, and the command only what computes it.
    pub graph: Option<GraphUse>,
    /// Files that are kept with the run, as the run sees them: paths, in which `*`, `?` and `**` match.
    pub artefacts: Vec<String>,
    /// How to listen to what the application says of itself.
    pub listen: ListenSources,
    /// How often its stacks are sampled per second, where that is wanted.
    pub stacks: Option<u32>,
    pub interval: Duration,
    /// Longest time that it may take.
    pub timeout: Option<Duration>,
    /// How long it is to run: then it is ended, and was complete.
    pub duration: Option<Duration>,
    /// Time between the rungs of the signal ladder.
    pub grace: Duration,
    /// How long processes that the main process left behind may go on before the ladder starts.
    pub linger: Duration,
    /// The batch that the run belongs to.
    pub batch: BatchId,
    /// Which repetition it is, from 1.
    pub repetition: u32,
    pub repetitions: u32,
    /// Whether it only warms up.
    pub warmup: bool,
    /// How its use may be accounted.
    pub accounting: AccountingMode,
}

impl RunSpec {
    /// A run of a command with the default way to measure.
    pub fn new(command: CommandSpec) -> Self {
        Self::for_target(RunTarget::Command(command))
    }

    /// A run of anything with the default way to measure.
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
            accounting: AccountingMode::Best,
        }
    }

    /// When it is ended at the latest: at its time limit, or after the time that it is to run for.
    pub fn time_limit(&self) -> Option<Duration> {
        self.timeout.into_iter().chain(self.duration).min()
    }

    /// Whether that is what was meant, and no limit that it ran into.
    pub fn ends_as_planned(&self) -> bool {
        self.duration.is_some() && self.time_limit() == self.duration
    }

    /// Refuses what makes no sense, naming the field.
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
            return wrong("artefact", "an empty path".into(), "a path, in which * and ? may stand");
        }
        Ok(())
    }
}
