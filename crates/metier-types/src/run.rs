//! One measured execution of a workload on a device.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{RecordSchema, VersionedRecord};
use crate::{
    AppStage, BatchId, Bytes, ContentDigest, DeviceRef, ExtraFields, HostState, IntakeSummary, Joules,
    MissingFields, QualityFields, Ratio, RunContext, RunId, Seconds, UtcTimestamp, Watts, WorkloadRef,
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
    pub enum ExitCause {
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
pub struct RunExit {
    /// Exit code, if it exited.
    pub code: Option<i32>,
    /// Signal number, if a signal ended it.
    pub signal: Option<i32>,
    /// Why it ended.
    pub cause: ExitCause,
    /// Whether metier ended it as planned, after its given duration; the run is complete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub planned: bool,
    /// What ended it, in words, if it did not end by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<String>,
    /// Details of the cause, in words: why it never started, which memory limit it reached, which
    /// node was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Number of processes that the main process left behind.
    #[serde(default)]
    pub left_behind: u32,
    /// Time spent waiting for those processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_seconds: Option<Seconds>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

impl RunExit {
    /// An exit with only a cause.
    pub fn from_cause(cause: ExitCause) -> Self {
        Self {
            code: None,
            signal: None,
            cause,
            planned: false,
            ended_by: None,
            detail: None,
            left_behind: 0,
            settled_seconds: None,
            extra: ExtraFields::new(),
        }
    }

    /// Whether the run is complete: it exited with code 0, or it ran for its planned duration.
    pub fn is_complete(&self) -> bool {
        self.planned || (self.cause == ExitCause::Exited && self.code == Some(0))
    }
}

/// The main figures of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct RunSummary {
    /// Wall time from start to end of the main process.
    pub wall_seconds: Option<Seconds>,
    /// CPU time of all processes.
    pub cpu_seconds: Option<Seconds>,
    /// Part of the CPU time in user mode.
    pub cpu_user_seconds: Option<Seconds>,
    /// Part of the CPU time in kernel mode.
    pub cpu_system_seconds: Option<Seconds>,
    /// Memory high-water mark.
    pub peak_memory_bytes: Option<Bytes>,
    /// Bytes read from storage.
    pub read_bytes: Option<Bytes>,
    /// Bytes written to storage.
    pub written_bytes: Option<Bytes>,
    /// Energy counted by the device's meters during the run.
    pub energy_joules: Option<Joules>,
    /// Number of processes.
    pub processes: Option<u64>,
    /// CPU time of the measuring program divided by the wall time.
    pub own_overhead_ratio: Option<Ratio>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Details of memory use.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct MemoryUse {
    /// Largest sampled anonymous memory.
    pub peak_anonymous_bytes: Option<Bytes>,
    /// Largest sampled page cache.
    pub peak_file_bytes: Option<Bytes>,
    /// Largest sampled kernel memory.
    pub peak_kernel_bytes: Option<Bytes>,
    /// Largest sampled sum of the processes' resident memory; shared pages count more than once.
    pub peak_resident_sum_bytes: Option<Bytes>,
    /// Resident high-water mark of the largest single process.
    pub peak_process_bytes: Option<Bytes>,
    /// Page faults without IO.
    pub minor_faults: Option<u64>,
    /// Page faults with IO.
    pub major_faults: Option<u64>,
    /// Processes that the kernel killed for lack of memory.
    pub oom_kills: Option<u64>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Details of CPU use.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct CpuUse {
    /// Voluntary context switches (the task waited).
    pub voluntary_switches: Option<u64>,
    /// Involuntary context switches (the time slice ended).
    pub involuntary_switches: Option<u64>,
    /// Largest mean number of busy cores over any 100 ms; never above the number of processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_cores: Option<f64>,
    /// Time in which its tasks were ready to run and had no core, summed over all of them; it
    /// includes the time in which a CPU limit throttled them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_queue_seconds: Option<Seconds>,
    /// Largest share of the run's lifetime that its time in the run queue explains; exact for one
    /// task at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_queue_ratio: Option<Ratio>,
    /// Periods of the CPU quota during the run; 0 without a quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_periods: Option<u64>,
    /// Periods in which the CPU quota throttled the run.
    pub throttled_periods: Option<u64>,
    /// Time for which the CPU quota throttled the run.
    pub throttled_seconds: Option<Seconds>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Details of input and output.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct IoUse {
    /// Bytes that block devices read for the run's cgroup.
    pub device_read_bytes: Option<Bytes>,
    /// Bytes that block devices wrote for the run's cgroup; buffered writes are charged only on
    /// cgroup v2.
    pub device_written_bytes: Option<Bytes>,
    /// Bytes of read calls, cached or not.
    pub call_read_bytes: Option<Bytes>,
    /// Bytes of write calls, buffered or not.
    pub call_written_bytes: Option<Bytes>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
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
    pub extra: ExtraFields,
}

/// Time in which at least one task of the run waited for a resource, whatever the others did (the
/// `some` lines of the kernel's pressure stall information).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PressureTimes {
    /// Waiting for a core.
    pub cpu_seconds: Option<Seconds>,
    /// Waiting for memory.
    pub memory_seconds: Option<Seconds>,
    /// Waiting for IO.
    pub io_seconds: Option<Seconds>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Reading of one energy meter over the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EnergyMeterReading {
    /// Name of the meter, for example `package-0`.
    pub name: String,
    /// Source: `rapl`, `hwmon`, `ina3221`, `nvml`.
    pub source: String,
    /// Counted energy.
    pub energy_joules: Joules,
    /// Whether the total includes it; a part of another meter is excluded.
    pub counted: bool,
    /// Estimated error of integrated power: power between readings is unknown. `null` for hardware
    /// counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_joules: Option<Joules>,
    /// Bound of the error, if power between two readings stays between their values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_bound_joules: Option<Joules>,
    /// Mean time between readings, if power was integrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<Seconds>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

impl EnergyMeterReading {
    /// Formats its energy with the error.
    pub fn format_energy(&self) -> String {
        format_with_error(self.energy_joules, self.error_joules)
    }
}

fn format_with_error(energy: Joules, error: Option<Joules>) -> String {
    match error {
        Some(error) => format!("{energy} ± {error}"),
        None => energy.to_string(),
    }
}

/// Energy of the whole device during the run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct EnergyUse {
    /// Readings by meter.
    #[serde(default)]
    pub meters: Vec<EnergyMeterReading>,
    /// Mean power over the run.
    pub mean_power_watts: Option<Watts>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// One GPU during the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuUse {
    /// Name and index of the GPU.
    pub name: String,
    /// Stable id of the GPU.
    pub uuid: Option<String>,
    /// Mean of the sampled utilisation.
    pub mean_utilisation_ratio: Option<Ratio>,
    /// Largest sampled memory of the run's own processes.
    pub peak_memory_bytes: Option<Bytes>,
    /// Energy of the board during the run.
    pub energy_joules: Option<Joules>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Cost of the measurement itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct MeasurementOverhead {
    /// CPU time of the measuring program during the run.
    pub cpu_seconds: Option<Seconds>,
    /// CPU time of the launcher.
    pub launcher_cpu_seconds: Option<Seconds>,
    /// Time from the request to the first instruction of the workload.
    pub startup_seconds: Option<Seconds>,
    /// Process events lost because they came too fast.
    pub lost_events: Option<u64>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// A warning about the reliability of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunWarning {
    /// Stable code: `steal`, `busy-host`, `late-samples`, …
    pub code: String,
    /// Explanation in a sentence.
    pub text: String,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

impl RunWarning {
    /// A warning with a code and a sentence.
    pub fn new(code: impl Into<String>, text: impl Into<String>) -> Self {
        Self { code: code.into(), text: text.into(), extra: ExtraFields::new() }
    }
}

/// A file of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArtefactRef {
    /// Name of the file within the run.
    pub name: String,
    /// Media type.
    pub media_type: String,
    /// Digest of the content.
    pub digest: ContentDigest,
    /// Size of the content.
    pub size_bytes: Bytes,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

impl ArtefactRef {
    /// A file of a run by name, media type, digest and size.
    pub fn new(
        name: impl Into<String>,
        media_type: impl Into<String>,
        digest: ContentDigest,
        size_bytes: Bytes,
    ) -> Self {
        Self {
            name: name.into(),
            media_type: media_type.into(),
            digest,
            size_bytes,
            extra: ExtraFields::new(),
        }
    }
}

/// One measured execution of a workload on a device, in a context.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// `metier.run/1`.
    pub schema: RecordSchema<Run>,
    /// Id of the run.
    pub id: RunId,
    /// Batch of the run: the repetitions of one command.
    pub batch: BatchId,
    /// The workload.
    pub workload: WorkloadRef,
    /// The device.
    pub device: DeviceRef,
    /// State of the run.
    pub state: RunState,
    /// Start time.
    pub started: UtcTimestamp,
    /// End of its last process.
    pub ended: Option<UtcTimestamp>,
    /// How it ended; `null` while it runs.
    pub exit: Option<RunExit>,
    /// One sentence: how it ended, its duration, resource use and bottleneck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// Conditions of the run.
    pub context: RunContext,
    /// Tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The main figures.
    pub summary: RunSummary,
    /// Details of CPU use.
    #[serde(default)]
    pub cpu: CpuUse,
    /// Details of memory use.
    #[serde(default)]
    pub memory: MemoryUse,
    /// Details of input and output.
    #[serde(default)]
    pub io: IoUse,
    /// Network traffic, if the run had its own network namespace.
    #[serde(default)]
    pub network: Option<NetworkUse>,
    /// Pressure stall times.
    #[serde(default)]
    pub pressure: PressureTimes,
    /// Energy by meter.
    #[serde(default)]
    pub energy: EnergyUse,
    /// GPUs.
    #[serde(default)]
    pub gpus: Vec<GpuUse>,
    /// Values reported by the application, by stage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<AppStage>,
    /// Counts of received application messages; `null` if no channel was open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intake: Option<IntakeSummary>,
    /// State of the host around the run.
    #[serde(default)]
    pub host: HostState,
    /// Cost of the measurement.
    #[serde(default)]
    pub overhead: MeasurementOverhead,
    /// Accuracy class of values, by dotted path.
    #[serde(default)]
    pub quality: QualityFields,
    /// Values that could not be measured, with the reason, by dotted path.
    #[serde(default)]
    pub missing: MissingFields,
    /// Warnings about its reliability.
    #[serde(default)]
    pub warnings: Vec<RunWarning>,
    /// Files of the run.
    #[serde(default)]
    pub artefacts: Vec<ArtefactRef>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Whether statistics of a batch include a run: it was measured to its end, it succeeded, and it
/// was no warm-up.
pub fn is_counted_run(state: RunState, exit: Option<&RunExit>, is_warmup: bool) -> bool {
    !is_warmup && state == RunState::Finished && exit.is_some_and(RunExit::is_complete)
}

impl VersionedRecord for Run {
    const SCHEMA: &'static str = "metier.run/1";
}

impl Run {
    /// Whether statistics of its batch include it.
    pub fn is_counted(&self) -> bool {
        is_counted_run(self.state, self.exit.as_ref(), self.context.warmup)
    }

    /// Time from start to the end of the last process, which may outlive the main process.
    pub fn lifetime_seconds(&self) -> Option<Seconds> {
        let settled = self.exit.as_ref().and_then(|exit| exit.settled_seconds).unwrap_or_default();
        Some(self.summary.wall_seconds? + settled)
    }

    /// Error of the total energy: the sum of its meters' errors; `None` if all are counters.
    pub fn energy_error(&self) -> Option<Joules> {
        let counted = self.energy.meters.iter().filter(|meter| meter.counted);
        let errors: Vec<f64> =
            counted.filter_map(|meter| meter.error_joules).map(|error| error.get()).collect();
        (!errors.is_empty()).then(|| Joules(errors.iter().sum()))
    }

    /// Formats the energy with its error: `12.3 J ± 0.40 J`.
    pub fn format_energy(&self) -> Option<String> {
        let energy = self.summary.energy_joules?;
        Some(format_with_error(energy, self.energy_error()))
    }

    /// Largest share of the lifetime that time in the run queue explains. With `n` ready tasks at a
    /// time, a second in the run queue delays the run by at most `1 / n` seconds; `n` is at least
    /// the mean over the lifetime, and at least 1.
    pub fn explained_by_run_queue(&self, queued: Seconds) -> Option<Ratio> {
        let (cpu, life) = (self.summary.cpu_seconds?.get(), self.lifetime_seconds()?.get());
        let ready = ((cpu + queued.get()) / life).max(1.0);
        (life > 0.0).then(|| Ratio((queued.get() / ready / life).clamp(0.0, 1.0)))
    }

    /// Mean number of busy cores over the whole lifetime.
    pub fn mean_busy_cores(&self) -> Option<f64> {
        let (cpu, life) = (self.summary.cpu_seconds?.get(), self.lifetime_seconds()?.get());
        (life > 0.0).then(|| cpu / life)
    }
}
