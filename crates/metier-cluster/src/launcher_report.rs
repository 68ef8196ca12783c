//! The final report of the launcher in a pod on another machine, and its transfer into the record.
//!
//! The report is the container's termination message. Any process in the container can write one,
//! so the report is untrusted: it is bounded, parsed and compared with the cluster's status. An
//! implausible report is rejected with a reason, and the record lacks its metrics. The format is
//! defined in `metier-launch/src/pod.rs`.

use metier_types::{
    AccountingMethod, Bytes, EnergyUse, ExitCause, MissingReason, Run, RunSummary, RunWarning, Seconds,
    ValueQuality,
};
use serde::Deserialize;

use crate::pod_state::ContainerEnd;

/// Path of the termination message in the container.
pub const TERMINATION_LOG: &str = "/dev/termination-log";
/// Largest report; Kubernetes passes on less.
const MAX_REPORT_BYTES: usize = 4096;
/// Longest plausible time: ten years, in nanoseconds.
const MAX_NANOSECONDS: u64 = 10 * 366 * 86_400 * 1_000_000_000;
/// Largest plausible number of CPUs.
const MAX_CORES: u64 = 8192;
/// Largest plausible memory: 1 PiB.
const MAX_MEMORY_BYTES: u64 = 1 << 50;
/// Largest plausible number of faults, blocks or switches.
const MAX_EVENTS: u64 = 1 << 53;

/// The launcher's report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LauncherReport {
    /// The command could not be started, with the system's reason.
    Unstarted(i32),
    End(Box<ReportedEnd>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReportMessage {
    metier: u32,
    errno: Option<i32>,
    end: Option<ReportedEnd>,
}

/// Exit status and resource use.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportedEnd {
    /// Wait status, as `wait4` returns it.
    pub status: i32,
    wall_ns: u64,
    gone_ns: u64,
    left: u32,
    stuck: u32,
    own_ns: u64,
    is_late: bool,
    rung: u8,
    used: ReportedUsage,
    group: ReportedCgroup,
}

/// Resource use of all reaped processes, from `wait4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReportedUsage {
    user_us: u64,
    system_us: u64,
    max_rss_kib: u64,
    minor_faults: u64,
    major_faults: u64,
    blocks_in: u64,
    blocks_out: u64,
    voluntary_switches: u64,
    involuntary_switches: u64,
}

/// Counters of the container's cgroup that are visible inside the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReportedCgroup {
    cpu_ns: Option<u64>,
    user_us: Option<u64>,
    system_us: Option<u64>,
    peak_bytes: Option<u64>,
    peak_before_bytes: Option<u64>,
    oom_kills: Option<u64>,
    limit_hits: Option<u64>,
}

impl LauncherReport {
    /// Parses the termination message of a container. The error is the reason of its rejection.
    pub fn parse(ended: &ContainerEnd) -> Result<Self, String> {
        if ended.message.is_empty() {
            return Err(match ended.is_out_of_memory() {
                true => "the kernel killed the whole container for want of memory, with the launcher and its report".into(),
                false => "the launcher was killed with the container and left no report".to_string(),
            });
        }
        let refused =
            |why: &str| format!("the container's termination message is not the launcher's report: {why}");
        if ended.message.len() > MAX_REPORT_BYTES {
            return Err(refused("it is too long"));
        }
        let words: ReportMessage =
            serde_json::from_str(&ended.message).map_err(|error| refused(&error.to_string()))?;
        match words {
            ReportMessage { metier: 1, errno: Some(errno), end: None } if matches!(ended.code, 126 | 127) => {
                Ok(Self::Unstarted(errno))
            }
            ReportMessage { metier: 1, errno: None, end: Some(end) } => {
                match end.implausibility(ended.code) {
                    Some(why) => Err(refused(why)),
                    None => Ok(Self::End(Box::new(end))),
                }
            }
            _ => Err(refused("it has another form")),
        }
    }

    /// The wait status of the command, if it started.
    pub fn status(&self) -> Option<i32> {
        match self {
            Self::Unstarted(_) => None,
            Self::End(end) => Some(end.status),
        }
    }

    /// Number of OOM kills.
    pub fn oom_kills(&self) -> Option<u64> {
        match self {
            Self::Unstarted(_) => None,
            Self::End(end) => end.group.oom_kills,
        }
    }

    /// Writes the report into the record.
    pub fn fill(&self, run: &mut Run, program: &str) {
        match self {
            Self::Unstarted(errno) => fill_unstarted(run, *errno, program),
            Self::End(end) => end.fill(run),
        }
    }
}

impl ReportedEnd {
    /// Why the report is implausible, if it is.
    fn implausibility(&self, code: i32) -> Option<&'static str> {
        let (signal, number) = (self.status & 0x7f, self.status >> 8 & 0xff);
        let is_status = (0..=0xffff).contains(&self.status) && signal <= 64 && (signal == 0 || number == 0);
        let expected = if signal == 0 { number } else { 128 + signal };
        if !is_status || expected != code {
            return Some("its exit differs from the cluster's status");
        }
        if self.wall_ns > self.gone_ns || self.gone_ns > MAX_NANOSECONDS {
            return Some("its times make no sense");
        }
        // A clock tick may be counted before it has fully elapsed.
        let most_us = (self.gone_ns / 1000 + 1_000_000).saturating_mul(MAX_CORES);
        let used = &self.used;
        let group = &self.group;
        let times = [Some(used.user_us), Some(used.system_us), Some(self.own_ns / 1000)];
        let group_times = [group.cpu_ns.map(|ns| ns / 1000), group.user_us, group.system_us];
        if times.into_iter().chain(group_times).flatten().any(|us| us > most_us) {
            return Some("more CPU time than any machine has");
        }
        let memory = [Some(used.max_rss_kib.saturating_mul(1024)), group.peak_bytes, group.peak_before_bytes];
        if memory.into_iter().flatten().any(|bytes| bytes > MAX_MEMORY_BYTES) {
            return Some("more memory than any machine has");
        }
        let events = [
            used.minor_faults,
            used.major_faults,
            used.blocks_in,
            used.blocks_out,
            used.voluntary_switches,
            used.involuntary_switches,
            group.oom_kills.unwrap_or(0),
            group.limit_hits.unwrap_or(0),
        ];
        events.iter().any(|count| *count > MAX_EVENTS).then_some("more events than any run has")
    }

    fn fill(&self, run: &mut Run) {
        let used = &self.used;
        let waited = Seconds::from_micros(used.user_us + used.system_us);
        // The launcher is in the cgroup; its own use is subtracted.
        let counted = self.group.cpu_ns.map(|ns| Seconds::from_nanos(ns.saturating_sub(self.own_ns)));
        let (cpu, quality, method) = match counted {
            Some(cpu) => (cpu, ValueQuality::Exact, AccountingMethod::Container),
            None => (waited, ValueQuality::Estimated, AccountingMethod::Wait4),
        };
        run.context.method = Some(method);
        // wait4 is complete if its CPU time equals that of the cgroup: all processes were reaped.
        let is_complete =
            counted.is_some_and(|cpu| (cpu.get() - waited.get()).abs() <= (cpu.get() * 0.01).max(0.01));
        let complete = if is_complete { ValueQuality::Exact } else { ValueQuality::Estimated };
        let both = self.group.user_us.zip(self.group.system_us);
        let (user, system) = both.unwrap_or((used.user_us, used.system_us));
        let summary = &mut run.summary;
        summary.wall_seconds = Some(Seconds::from_nanos(self.wall_ns));
        summary.cpu_seconds = Some(cpu);
        summary.cpu_user_seconds = Some(Seconds::from_micros(user));
        summary.cpu_system_seconds = Some(Seconds::from_micros(system));
        summary.read_bytes = Some(Bytes(used.blocks_in * 512));
        summary.written_bytes = Some(Bytes(used.blocks_out * 512));
        run.cpu.voluntary_switches = Some(used.voluntary_switches);
        run.cpu.involuntary_switches = Some(used.involuntary_switches);
        run.memory.peak_process_bytes = Some(Bytes(used.max_rss_kib * 1024));
        run.memory.minor_faults = Some(used.minor_faults);
        run.memory.major_faults = Some(used.major_faults);
        run.memory.oom_kills = self.group.oom_kills.or(run.memory.oom_kills);
        for (path, quality) in [
            ("summary.wall_seconds", ValueQuality::Exact),
            ("summary.cpu_seconds", quality),
            ("summary.cpu_user_seconds", ValueQuality::Estimated),
            ("summary.cpu_system_seconds", ValueQuality::Estimated),
            ("summary.read_bytes", complete),
            ("summary.written_bytes", complete),
            ("cpu.voluntary_switches", complete),
            ("cpu.involuntary_switches", complete),
            ("memory.peak_process_bytes", complete),
            ("memory.minor_faults", ValueQuality::Estimated),
            ("memory.major_faults", complete),
        ] {
            set_quality(run, path, quality);
        }
        if self.group.oom_kills.is_some() {
            set_quality(run, "memory.oom_kills", ValueQuality::Exact);
        }
        if counted.is_some() {
            run.missing.remove("context.control_group");
        } else {
            let why = "counted by wait4 only, because the container does not see its own control group";
            run.missing.insert("context.control_group".into(), MissingReason::without_fix(why));
        }
        self.fill_memory(run);
        run.overhead.launcher_cpu_seconds = Some(Seconds::from_nanos(self.own_ns));
        let (limit, duration) = (run.context.timeout_seconds, run.context.duration_seconds);
        let is_planned = duration.is_some_and(|time| limit.is_none_or(|limit| limit.get() >= time.get()));
        if let Some(exit) = &mut run.exit {
            if self.is_late && exit.cause != ExitCause::Interrupted {
                let rungs = ["SIGINT", "SIGTERM", "SIGKILL"];
                let walked = rungs.get(..usize::from(self.rung)).unwrap_or(&rungs).join(", then ");
                let why = if is_planned { "as planned" } else { "at the time limit" };
                (exit.cause, exit.planned) = (ExitCause::Timeout, is_planned);
                exit.ended_by = Some(format!("metier, {why}, with {walked}"));
            } else if !self.is_late && exit.cause == ExitCause::Timeout {
                // The run ended in time; only the download or the report of its end took longer.
                exit.cause = if exit.signal.is_some() { ExitCause::Signalled } else { ExitCause::Exited };
                (exit.ended_by, exit.planned) = (None, false);
            }
            exit.left_behind = self.left;
            let settled = Seconds::from_nanos(self.gone_ns - self.wall_ns);
            exit.settled_seconds = (self.left > 0).then_some(settled);
        }
        if self.stuck > 0 {
            let text = format!("{} processes could not be killed in the pod", self.stuck);
            run.warnings.push(RunWarning::new("stuck", text));
        }
    }

    fn fill_memory(&self, run: &mut Run) {
        let path = "summary.peak_memory_bytes";
        let largest = self.used.max_rss_kib * 1024;
        match self.group.peak_bytes {
            Some(peak) => {
                run.summary.peak_memory_bytes = Some(Bytes(peak));
                let is_own = self.group.peak_before_bytes.is_some_and(|before| peak > before);
                set_quality(run, path, if is_own { ValueQuality::Exact } else { ValueQuality::Estimated });
                run.missing.remove("memory.kernel_peak");
                if !is_own {
                    let why =
                        "the high-water mark is of the runtime's own start-up, so the run's is at most that";
                    run.missing.insert("memory.kernel_peak".into(), MissingReason::without_fix(why));
                }
            }
            None => {
                run.summary.peak_memory_bytes = Some(Bytes(largest));
                set_quality(run, path, ValueQuality::Estimated);
                let why =
                    "the container does not see the memory of its control group; this is its largest process";
                run.missing.insert("memory.kernel_peak".into(), MissingReason::without_fix(why));
            }
        }
    }
}

/// Sets the quality of a value and removes its missing reason.
fn set_quality(run: &mut Run, path: &str, quality: ValueQuality) {
    run.quality.insert(path.into(), quality);
    run.missing.remove(path);
}

/// Fills the record of a run whose program could not be started.
fn fill_unstarted(run: &mut Run, errno: i32, program: &str) {
    let why = match errno {
        2 => format!("program `{program}` was not found in the image"),
        13 => format!("program `{program}` of the image may not be executed"),
        other => {
            format!("program `{program}` cannot be started: {}", std::io::Error::from_raw_os_error(other))
        }
    };
    if let Some(exit) = &mut run.exit {
        (exit.cause, exit.code, exit.signal, exit.ended_by) = (ExitCause::Unstarted, None, None, None);
        exit.detail = Some(why);
    }
    run.summary = RunSummary::default();
    run.quality.retain(|path, _| !path.starts_with("summary."));
    mark_missing(run, &MissingReason::without_fix("it never started"), true);
}

/// Marks the metrics of the other machine as missing, with a reason: `all`, or only those that no
/// other source provides.
pub(crate) fn mark_missing(run: &mut Run, why: &MissingReason, all: bool) {
    let counted = ["cpu_seconds", "cpu_user_seconds", "cpu_system_seconds", "peak_memory_bytes"];
    let rest = ["read_bytes", "written_bytes"];
    let whole: &[&str] = if all { &["wall_seconds", "processes", "energy_joules"] } else { &[] };
    for name in counted.iter().chain(&rest).chain(whole) {
        run.missing.insert(format!("summary.{name}"), why.clone());
    }
}

/// Removes this machine's measurements from the record of a run on another machine.
pub(crate) fn forget_this_machine(run: &mut Run) {
    run.energy = EnergyUse::default();
    run.gpus.clear();
    (run.summary.energy_joules, run.summary.processes) = (None, None);
    run.quality.retain(|path, _| {
        !path.starts_with("energy") && path != "summary.energy_joules" && path != "summary.processes"
    });
    let why = MissingReason::with_fix("samples need metier on the pod's node", "run metier on that node");
    for path in
        ["samples", "summary.processes", "summary.energy_joules", "gpus", "memory.peak_anonymous_bytes"]
    {
        run.missing.insert(path.into(), why.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn words() -> Value {
        json!({"metier": 1, "end": {"status": 768, "wall_ns": 1_000_000, "gone_ns": 2_000_000, "left": 0,
            "stuck": 0, "own_ns": 5, "is_late": false, "rung": 0, "used": {"user_us": 900, "system_us": 50, "max_rss_kib": 800,
            "minor_faults": 1, "major_faults": 0, "blocks_in": 0, "blocks_out": 8, "voluntary_switches": 2,
            "involuntary_switches": 3}, "group": {"cpu_ns": 950_005, "peak_bytes": 4096}}})
    }

    fn of(code: i32, message: &str) -> Result<LauncherReport, String> {
        LauncherReport::parse(&ContainerEnd { code, reason: "Error".into(), message: message.into() })
    }

    #[test]
    fn a_report_that_fits_the_end_is_taken() {
        let report = of(3, &words().to_string()).unwrap();
        assert_eq!(report.status(), Some(768));
        let mut killed = words();
        killed["end"]["status"] = json!(9);
        assert_eq!(of(137, &killed.to_string()).unwrap().status(), Some(9));
        assert_eq!(of(127, "{\"metier\":1,\"errno\":2}"), Ok(LauncherReport::Unstarted(2)));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_reason() {
        let changed = |path: &str, value: Value| {
            let mut words = words();
            *words.pointer_mut(path).unwrap() = value;
            of(3, &words.to_string()).unwrap_err()
        };
        assert!(of(0, &words().to_string()).unwrap_err().contains("exit differs"));
        assert!(changed("/metier", json!(2)).contains("another form"));
        assert!(changed("/end/status", json!(-1)).contains("exit differs"));
        assert!(changed("/end/wall_ns", json!(3_000_000)).contains("times"));
        assert!(changed("/end/gone_ns", json!(u64::MAX)).contains("times"));
        assert!(changed("/end/used/user_us", json!(u64::MAX)).contains("CPU time"));
        assert!(changed("/end/group/peak_bytes", json!(u64::MAX)).contains("memory"));
        assert!(changed("/end/used/blocks_in", json!(u64::MAX)).contains("events"));
        assert!(changed("/end/used", json!([])).contains("not the launcher's report"));
        assert!(of(0, "all is well").unwrap_err().contains("not the launcher's report"));
        assert!(of(0, &"[".repeat(5000)).unwrap_err().contains("too long"));
        assert!(of(137, "").unwrap_err().contains("killed"));
    }
}
