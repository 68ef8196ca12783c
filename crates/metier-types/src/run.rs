//! One measured execution of a workload on a device.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{Schema, Versioned};
use crate::{
    BatchId, Bytes, Context, DeviceRef, Digest, Extra, HostState, Intake, Joules, MissingFields,
    QualityFields, Ratio, RunId, Seconds, Stage, Timestamp, Watts, WorkloadRef,
};

crate::words! { serde (word, from_word)
    /// Whether a run is over.
    #[derive(Hash, JsonSchema)]
    pub enum RunState {
        /// Under way.
        Running = "running",
        /// Over, and measured to its end.
        Finished = "finished",
        /// The measuring program went away before the end; what it had written is kept.
        Interrupted = "interrupted",
    }
}

crate::words! { serde (word, from_word)
    /// Why a run ended.
    #[derive(Hash, JsonSchema)]
    pub enum Cause {
        /// By itself.
        Exited = "exited",
        /// By a signal that we did not send.
        Signalled = "signalled",
        /// By us, because its time was up.
        Timeout = "timeout",
        /// By the kernel, for want of memory.
        Oom = "oom",
        /// By us, because the user or the system asked us to stop.
        Interrupted = "interrupted",
        /// Unknown: we, or the node that it ran on, were gone before it.
        Lost = "lost",
        /// It never started; `exit.detail` says why.
        Unstarted = "unstarted",
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Exit {
    /// Exit code, where it exited.
    pub code: Option<i32>,
    /// Signal number, where a signal ended it.
    pub signal: Option<i32>,
    /// Why it ended.
    pub cause: Cause,
    /// Whether it ended as it was meant to, though by us: it was to run for a given time, and did. Such a run is complete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub planned: bool,
    /// Who ended it, in words, where it did not end by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<String>,
    /// Why it ended so, in words for people, where the cause alone does not tell: why it never started, which
    /// limit of memory it hit, which node went away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Processes that the main process left behind.
    #[serde(default)]
    pub left_behind: u32,
    /// How long was waited for those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_seconds: Option<Seconds>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Exit {
    /// An end of which only the cause is known.
    pub fn from_cause(cause: Cause) -> Self {
        Self {
            code: None,
            signal: None,
            cause,
            planned: false,
            ended_by: None,
            detail: None,
            left_behind: 0,
            settled_seconds: None,
            extra: Extra::new(),
        }
    }

    /// Whether the run did all that it was to do: it ended by itself with code 0, or after the time that it was to run for.
    pub fn is_complete(&self) -> bool {
        self.planned || (self.cause == Cause::Exited && self.code == Some(0))
    }
}

/// The figures most people look at.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// From start to end of the main process.
    pub wall_seconds: Option<Seconds>,
    /// CPU time of all processes.
    pub cpu_seconds: Option<Seconds>,
    /// Of that, in the program.
    pub cpu_user_seconds: Option<Seconds>,
    /// Of that, in the kernel.
    pub cpu_system_seconds: Option<Seconds>,
    /// High-water mark of memory.
    pub peak_memory_bytes: Option<Bytes>,
    /// Read from storage.
    pub read_bytes: Option<Bytes>,
    /// Written to storage.
    pub written_bytes: Option<Bytes>,
    /// Energy that the device's meters counted during the run.
    pub energy_joules: Option<Joules>,
    /// Processes that existed.
    pub processes: Option<u64>,
    /// CPU time of the measuring program over the wall time.
    pub own_overhead_ratio: Option<Ratio>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Details of memory use.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct MemoryUse {
    /// Largest anonymous part that a sample saw.
    pub peak_anonymous_bytes: Option<Bytes>,
    /// Largest page cache part that a sample saw.
    pub peak_file_bytes: Option<Bytes>,
    /// Largest kernel part that a sample saw.
    pub peak_kernel_bytes: Option<Bytes>,
    /// Largest sum over processes of resident memory that a sample saw; shared pages count more than once.
    pub peak_resident_sum_bytes: Option<Bytes>,
    /// Resident high-water mark of the largest single process.
    pub peak_process_bytes: Option<Bytes>,
    /// Page faults served without IO.
    pub minor_faults: Option<u64>,
    /// Page faults that waited for IO.
    pub major_faults: Option<u64>,
    /// Processes that the kernel killed for want of memory.
    pub oom_kills: Option<u64>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Details of CPU use.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct CpuUse {
    /// Context switches because the task waited.
    pub voluntary_switches: Option<u64>,
    /// Context switches because its turn was over.
    pub involuntary_switches: Option<u64>,
    /// Periods in which a CPU limit held it back.
    pub throttled_periods: Option<u64>,
    /// Time for which a CPU limit held it back.
    pub throttled_seconds: Option<Seconds>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Details of input and output.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct IoUse {
    /// Bytes that block devices read for the run's control group.
    pub device_read_bytes: Option<Bytes>,
    /// Bytes that block devices wrote for the run's control group; buffered writes are charged only on version 2.
    pub device_written_bytes: Option<Bytes>,
    /// Bytes that passed through read calls, cached or not.
    pub call_read_bytes: Option<Bytes>,
    /// Bytes that passed through write calls, buffered or not.
    pub call_written_bytes: Option<Bytes>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Traffic of the run's own network namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkUse {
    /// Bytes received, loopback excluded.
    pub received_bytes: Bytes,
    /// Bytes sent, loopback excluded.
    pub sent_bytes: Bytes,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Time in which some task of the run waited for a resource (pressure stall information).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Pressure {
    /// For a core.
    pub cpu_seconds: Option<Seconds>,
    /// For memory.
    pub memory_seconds: Option<Seconds>,
    /// For IO.
    pub io_seconds: Option<Seconds>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What one energy meter counted during the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Meter {
    /// Its name, for example `package-0`.
    pub name: String,
    /// Where it comes from: `rapl`, `hwmon`, `ina3221`, `nvml`.
    pub source: String,
    /// What it counted.
    pub energy_joules: Joules,
    /// Whether the sum over meters takes it; a part of another meter is left out.
    pub counted: bool,
    /// How far that may be off, where power was integrated: what happened between two looks is not known. A counter has no such error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_joules: Option<Joules>,
    /// At most so much, while power stayed between neighbouring looks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_bound_joules: Option<Joules>,
    /// Mean time between looks, where power was integrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<Seconds>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Meter {
    /// What it counted for people, with its error.
    pub fn told(&self) -> String {
        with_error(self.energy_joules, self.error_joules)
    }
}

fn with_error(energy: Joules, error: Option<Joules>) -> String {
    match error {
        Some(error) => format!("{energy} ± {error}"),
        None => energy.to_string(),
    }
}

/// Energy of the whole device during the run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct EnergyUse {
    /// Each meter.
    #[serde(default)]
    pub meters: Vec<Meter>,
    /// Mean power over the run.
    pub mean_power_watts: Option<Watts>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// One GPU during the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuUse {
    /// Its name and index.
    pub name: String,
    /// Stable identity.
    pub uuid: Option<String>,
    /// Mean of the sampled utilisation.
    pub mean_utilisation_ratio: Option<Ratio>,
    /// Largest memory of the run's own processes that a sample saw.
    pub peak_memory_bytes: Option<Bytes>,
    /// Energy of the board over the run.
    pub energy_joules: Option<Joules>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What measuring itself cost.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Overhead {
    /// CPU time of the measuring program during the run.
    pub cpu_seconds: Option<Seconds>,
    /// CPU time of its launcher.
    pub launcher_cpu_seconds: Option<Seconds>,
    /// From being asked to the first instruction of the workload.
    pub startup_seconds: Option<Seconds>,
    /// Process events that were lost because they came too fast.
    pub lost_events: Option<u64>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Something that a reader of the run should know before trusting it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// Stable word for programs: `steal`, `busy-host`, `late-samples`, …
    pub code: String,
    /// A sentence for people.
    pub text: String,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Warning {
    /// A warning with a stable word and a sentence.
    pub fn new(code: impl Into<String>, text: impl Into<String>) -> Self {
        Self { code: code.into(), text: text.into(), extra: Extra::new() }
    }
}

/// A file that belongs to a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArtefactRef {
    /// Its name within the run.
    pub name: String,
    /// What it is, as a media type.
    pub media_type: String,
    /// Its content.
    pub digest: Digest,
    /// Its size.
    pub size_bytes: Bytes,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

impl ArtefactRef {
    /// A file of a run by its name, kind, content and size.
    pub fn new(
        name: impl Into<String>,
        media_type: impl Into<String>,
        digest: Digest,
        size_bytes: Bytes,
    ) -> Self {
        Self { name: name.into(), media_type: media_type.into(), digest, size_bytes, extra: Extra::new() }
    }
}

/// One measured execution of a workload on a device, in a context.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// `metier.run/1`.
    pub schema: Schema<Run>,
    /// Its identity.
    pub id: RunId,
    /// The repetitions that were asked for together.
    pub batch: BatchId,
    /// What ran.
    pub workload: WorkloadRef,
    /// Where.
    pub device: DeviceRef,
    /// Whether it is over.
    pub state: RunState,
    /// When it started.
    pub started: Timestamp,
    /// When its last process was gone.
    pub ended: Option<Timestamp>,
    /// How it ended; `None` while it runs.
    pub exit: Option<Exit>,
    /// One plain sentence: how it ended, how long it took, what it used, what limited it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// The circumstances.
    pub context: Context,
    /// Words to find it by.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The figures most people look at.
    pub summary: Summary,
    /// CPU in detail.
    #[serde(default)]
    pub cpu: CpuUse,
    /// Memory in detail.
    #[serde(default)]
    pub memory: MemoryUse,
    /// Input and output in detail.
    #[serde(default)]
    pub io: IoUse,
    /// Network, where the run had a namespace of its own.
    #[serde(default)]
    pub network: Option<NetworkUse>,
    /// Pressure.
    #[serde(default)]
    pub pressure: Pressure,
    /// Energy, meter by meter.
    #[serde(default)]
    pub energy: EnergyUse,
    /// GPUs.
    #[serde(default)]
    pub gpus: Vec<GpuUse>,
    /// What the application said of itself, stage by stage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Stage>,
    /// How listening to the application went; `None` where nobody listened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intake: Option<Intake>,
    /// The host around it.
    #[serde(default)]
    pub host: HostState,
    /// What measuring cost.
    #[serde(default)]
    pub overhead: Overhead,
    /// How far each value can be trusted, by dotted path.
    #[serde(default)]
    pub quality: QualityFields,
    /// What could not be measured, and why, by dotted path.
    #[serde(default)]
    pub missing: MissingFields,
    /// What a reader should know before trusting it.
    #[serde(default)]
    pub warnings: Vec<Warning>,
    /// Files that belong to it.
    #[serde(default)]
    pub artefacts: Vec<ArtefactRef>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Versioned for Run {
    const SCHEMA: &'static str = "metier.run/1";
}

impl Run {
    /// From the start to the end of the last process: what a main process leaves behind works on after it.
    pub fn life_seconds(&self) -> Option<Seconds> {
        let settled = self.exit.as_ref().and_then(|exit| exit.settled_seconds).unwrap_or_default();
        Some(self.summary.wall_seconds? + settled)
    }

    /// How far the energy of the whole may be off: the errors of the meters that it is the sum of. `None` where all of them count by
    /// themselves.
    pub fn energy_error(&self) -> Option<Joules> {
        let counted = self.energy.meters.iter().filter(|meter| meter.counted);
        let errors: Vec<f64> =
            counted.filter_map(|meter| meter.error_joules).map(|error| error.get()).collect();
        (!errors.is_empty()).then(|| Joules(errors.iter().sum()))
    }

    /// The energy for people, with its error: `12.3 J ± 0.40 J`.
    pub fn energy_told(&self) -> Option<String> {
        let energy = self.summary.energy_joules?;
        Some(with_error(energy, self.energy_error()))
    }

    /// Cores that were busy on average, over all of its life.
    pub fn mean_cores(&self) -> Option<f64> {
        let (cpu, life) = (self.summary.cpu_seconds?.get(), self.life_seconds()?.get());
        (life > 0.0).then(|| cpu / life)
    }
}
