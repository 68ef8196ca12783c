//! Writes the facts of a run into its record: values with their quality, and reasons for missing
//! ones.

mod record_writer;

use std::ffi::OsStr;
use std::path::Path;

use metier_types::schema::RecordSchema;
use metier_types::{
    AccountingMethod, CoRunner, CoRunnerKind, ContentDigest, CpuUse, EnergyUse, ExitCause, ExtraFields,
    HostState, IoUse, MeasurementOverhead, MemoryUse, MissingFields, MissingReason, PressureTimes,
    ProcessSource, ProcessTree, QualityFields, Ratio, Run, RunContext, RunExit, RunId, RunState, RunSummary,
    RunWarning, SamplingSummary, Seconds, UtcTimestamp, ValueQuality, WorkloadRef,
};

use crate::instruments::HostInstruments;
use crate::recorder::{RunRecorder, cached_digest};
use crate::run_facts::{CollectedRunFacts, StopReason};
use crate::spec::{ContainerSpec, PodSpec, RunTarget};
use crate::target_facts::TargetFacts;
use crate::{RunSpec, trust_warnings, verdict, workload_identity};
use metier_device::boards;
use metier_linux::cgroup::RunCgroup;
use metier_linux::process_events::ProcessRoot;
use metier_linux::process_events::ProcessWatch;
use metier_store::digest;
use record_writer::RecordWriter;

/// The record of a run that has just begun.
pub(crate) fn begin_record(
    instruments: &HostInstruments,
    spec: &RunSpec,
    id: RunId,
    started: UtcTimestamp,
    group: &Result<RunCgroup, MissingReason>,
    about: &TargetFacts,
) -> Run {
    let method =
        about.method.unwrap_or_else(|| group.as_ref().map_or(AccountingMethod::Wait4, |group| group.method));
    let name = spec.name.as_ref().map_or_else(|| workload_name(spec), ToString::to_string);
    Run {
        schema: RecordSchema::new(),
        id,
        batch: spec.batch,
        workload: WorkloadRef {
            id: workload_id(spec, about.image.as_ref().and_then(|image| image.digest.as_ref())),
            name,
            extra: ExtraFields::new(),
        },
        device: instruments.options.device.reference(),
        state: RunState::Running,
        started,
        ended: None,
        exit: None,
        verdict: None,
        context: build_context(instruments, spec, method, about),
        tags: spec.tags.clone(),
        summary: RunSummary::default(),
        cpu: CpuUse::default(),
        memory: MemoryUse::default(),
        io: IoUse::default(),
        network: None,
        pressure: PressureTimes::default(),
        energy: EnergyUse::default(),
        gpus: Vec::new(),
        stages: Vec::new(),
        intake: None,
        host: HostState::default(),
        overhead: MeasurementOverhead::default(),
        quality: QualityFields::new(),
        missing: MissingFields::new(),
        warnings: Vec::new(),
        artefacts: Vec::new(),
        extra: ExtraFields::new(),
    }
}

/// The record of a finished run.
pub(crate) fn finish_record(
    instruments: &mut HostInstruments,
    spec: &RunSpec,
    facts: &mut CollectedRunFacts,
    input: Option<ContentDigest>,
    recorder: &dyn RunRecorder,
) -> Run {
    let mut run = begin_record(instruments, spec, facts.id, facts.started, &facts.group, &facts.about);
    run.state = RunState::Finished;
    let since_start = |ns: u64| Seconds::from_nanos(ns.saturating_sub(facts.started_ns));
    run.ended = jiff::SignedDuration::try_from_secs_f64(since_start(facts.end.gone_ns).get())
        .ok()
        .and_then(|whole| facts.started.checked_add(whole).ok());
    run.exit = Some(build_exit(facts, spec));
    if let Some(file) = spec.target.command().and_then(|c| workload_identity::find_executable(&c.program)) {
        run.context.executable_digest = cached_digest(recorder, &file);
        run.context.executable = Some(file.to_string_lossy().into_owned());
        run.workload.id = workload_id(spec, run.context.executable_digest.as_ref());
    }
    run.context.input_digest = input;
    run.context.sampling = Some(SamplingSummary {
        interval_seconds: Seconds(spec.interval.as_secs_f64()),
        samples: facts.log.samples,
        late: facts.log.late,
        extra: ExtraFields::new(),
    });

    let totals = match facts.about.inexact {
        Some(_) => ValueQuality::Estimated,
        None => facts.totals_quality,
    };
    let mut scribe = RecordWriter { run: &mut run, totals };
    let wall = since_start(facts.ended_ns);
    scribe.set_value(
        "summary.wall_seconds",
        ValueQuality::Exact,
        |run| &mut run.summary.wall_seconds,
        Some(wall),
    );
    scribe.write_cpu(facts);
    scribe.write_memory(facts);
    scribe.write_io(facts);
    scribe.write_pressure(facts);
    scribe.write_processes(facts);
    scribe.write_network(facts);
    scribe.write_energy(instruments);
    let ours = run.summary.cpu_seconds.unwrap_or_default() + Seconds(facts.own_cpu.as_secs_f64());
    let whole = since_start(facts.end.gone_ns);
    run.host =
        instruments.host.state_over_run(facts.before.host.clone(), facts.after.host.clone(), whole, ours);
    note_missing_host_values(instruments, &mut run);
    note_overhead(facts, whole, &mut run);
    if facts.end.stuck > 0 {
        let text = format!("{} processes could not be killed and are still there", facts.end.stuck);
        run.warnings.push(RunWarning::new("stuck", text));
    }
    for (code, text) in &facts.outcome.warnings {
        run.warnings.push(RunWarning::new(code, text.clone()));
    }
    let cores = instruments.options.device.cpu.threads;
    let warnings = trust_warnings::find_trust_warnings(&run, cores);
    run.warnings.extend(warnings);
    run.verdict = Some(verdict(&run));
    run
}

/// The record of a run that never started.
pub(crate) fn unstarted_record(
    instruments: &HostInstruments,
    spec: &RunSpec,
    id: RunId,
    about: &TargetFacts,
    detail: &str,
) -> Run {
    let none = Err(MissingReason::without_fix("it never started"));
    let now = UtcTimestamp::now();
    let mut run = begin_record(instruments, spec, id, now, &none, about);
    run.context.method = None;
    run.state = RunState::Finished;
    run.ended = Some(now);
    run.exit =
        Some(RunExit { detail: Some(detail.to_string()), ..RunExit::from_cause(ExitCause::Unstarted) });
    let summary =
        ["wall_seconds", "cpu_seconds", "cpu_user_seconds", "cpu_system_seconds", "peak_memory_bytes"];
    let rest = ["read_bytes", "written_bytes", "energy_joules", "processes", "own_overhead_ratio"];
    for name in summary.into_iter().chain(rest) {
        run.missing.insert(format!("summary.{name}"), MissingReason::without_fix("it never started"));
    }
    run
}

/// The tree of a run that never started.
pub(crate) fn empty_process_tree(run: RunId) -> ProcessTree {
    ProcessTree {
        schema: RecordSchema::new(),
        run,
        source: ProcessSource::Sampled,
        total: 0,
        omitted: 0,
        processes: Vec::new(),
        extra: ExtraFields::new(),
    }
}

/// Converts a time of the monotonic clock.
pub(crate) fn timestamp_of(monotonic_ns: u64) -> UtcTimestamp {
    let ago = metier_linux::wakeup::monotonic_ns().saturating_sub(monotonic_ns);
    let now = UtcTimestamp::now();
    let ago = jiff::SignedDuration::from_nanos(i64::try_from(ago).unwrap_or(0));
    now.checked_sub(ago).unwrap_or(now)
}

/// The wait status. The kernel's own event takes precedence if the supervisor cannot distinguish an
/// exit code above 128 from a signal.
pub(crate) fn resolve_wait_status(number: i32, root: &ProcessRoot, watch: Option<&ProcessWatch>) -> i32 {
    let (ProcessRoot::Processes(pids), Some(watch)) = (root, watch) else { return number };
    let Some(seen) = pids.first().and_then(|pid| watch.status_of(*pid)) else { return number };
    match terminating_signal(seen) {
        Some(signal) if number == (128 + signal) << 8 => signal,
        _ => number,
    }
}

/// The signal in a wait status, if a signal ended the process.
pub(crate) fn terminating_signal(status: i32) -> Option<i32> {
    let signal = status & 0x7f;
    (signal != 0 && signal != 0x7f).then_some(signal)
}

fn workload_name(spec: &RunSpec) -> String {
    let base =
        |program: &OsStr| Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
    if let Some(stem) = spec.graph.as_ref().and_then(|graph| Path::new(&graph.file).file_stem()) {
        return stem.to_string_lossy().into_owned();
    }
    match &spec.target {
        RunTarget::Command(command) => base(&command.program),
        // The last component of `registry/path/name:tag`.
        RunTarget::Container(ContainerSpec { image, .. }) | RunTarget::Pod(PodSpec { image, .. }) => {
            image.rsplit('/').next().unwrap_or(image).to_string()
        }
    }
}

fn workload_id(spec: &RunSpec, executable: Option<&ContentDigest>) -> metier_types::WorkloadId {
    spec.name.clone().unwrap_or_else(|| match (&spec.graph, &spec.target) {
        (Some(graph), _) => workload_identity::graph_identity(graph),
        (None, RunTarget::Command(command)) => workload_identity::command_identity(executable, command),
        (None, target) => workload_identity::image_identity(executable, &target.words()),
    })
}

fn build_context(
    instruments: &HostInstruments,
    spec: &RunSpec,
    method: AccountingMethod,
    about: &TargetFacts,
) -> RunContext {
    let is_ours = spec.target.command().is_some();
    let ours = std::env::vars_os()
        .filter(|(name, _)| is_ours && !spec.environment.iter().any(|(other, _)| *name == **other));
    let given = spec.environment.iter().map(|(name, value)| (name.into(), value.into()));
    let is_neighbour = |company: &&CoRunner| company.role == CoRunnerKind::Neighbour;
    RunContext {
        command: about.command.clone().unwrap_or_else(|| spec.target.words()),
        working_directory: about.working_directory.clone(),
        executable: None,
        executable_digest: None,
        environment_digest: Some(digest::digest_environment(ours.chain(given))),
        input: spec.input.as_ref().map(|path| path.to_string_lossy().into_owned()),
        input_digest: None,
        kernel: instruments.kernel.clone(),
        measured_by: concat!("metier ", env!("CARGO_PKG_VERSION")).to_string(),
        method: Some(method),
        sampling: None,
        timeout_seconds: spec.timeout.map(|limit| Seconds(limit.as_secs_f64())),
        duration_seconds: spec.duration.map(|time| Seconds(time.as_secs_f64())),
        grace_seconds: Some(Seconds(spec.grace.as_secs_f64())),
        power_mode: boards::power_mode(&instruments.options.roots),
        repetition: spec.repetition,
        repetitions: spec.repetitions,
        warmup: spec.warmup,
        alternation: spec.alternation.clone(),
        neighbours: spec.company.iter().filter(is_neighbour).map(|company| company.run).collect(),
        company: spec.company.clone(),
        is_company: spec.is_company,
        image: about.image.clone(),
        pod: about.pod.clone(),
        graph: spec.graph.clone(),
        dataset: spec.dataset.clone(),
        phases: Vec::new(),
        limits: about.limits.clone(),
        extra: ExtraFields::new(),
    }
}

fn build_exit(facts: &CollectedRunFacts, spec: &RunSpec) -> RunExit {
    let signal = terminating_signal(facts.status);
    // A container engine reports a killed process as exit code 128 + 9.
    let is_killed = signal == Some(libc::SIGKILL) || facts.status == (128 + libc::SIGKILL) << 8;
    let oom = (facts.outcome.oom || facts.totals.oom_kills.is_some_and(|kills| kills > 0)) && is_killed;
    let limit = || spec.limits.memory.map(|memory| format!("it reached its limit of {memory} of memory"));
    let ladder = || {
        let names: Vec<String> = facts.log.rungs.iter().map(|signal| signal_name(*signal)).collect();
        names.join(", then ")
    };
    let (cause, ended_by) = match facts.log.stopped {
        StopReason::Timeout => {
            let why = if spec.ends_as_planned() { "as planned" } else { "at the time limit" };
            (ExitCause::Timeout, Some(format!("metier, {why}, with {}", ladder())))
        }
        StopReason::Signal(by) => {
            (ExitCause::Interrupted, Some(format!("metier, after {}, with {}", signal_name(by), ladder())))
        }
        _ if facts.outcome.lost => (ExitCause::Lost, None),
        _ if oom => (ExitCause::Oom, Some("the kernel, for want of memory".to_string())),
        // The terminal's interrupt reaches the command directly.
        _ if signal == Some(libc::SIGINT) => (ExitCause::Interrupted, Some("an interrupt".to_string())),
        _ => match signal {
            Some(signal) => (ExitCause::Signalled, Some(format!("{} from elsewhere", signal_name(signal)))),
            None => (ExitCause::Exited, None),
        },
    };
    let settled = Seconds::from_nanos(facts.end.gone_ns.saturating_sub(facts.ended_ns));
    RunExit {
        code: (signal.is_none() && cause != ExitCause::Lost).then_some(facts.status >> 8 & 0xff),
        signal,
        cause,
        planned: facts.log.stopped == StopReason::Timeout && spec.ends_as_planned(),
        ended_by,
        detail: facts.outcome.detail.clone().or_else(|| limit().filter(|_| cause == ExitCause::Oom)),
        left_behind: facts.log.left_behind,
        settled_seconds: (facts.log.left_behind > 0).then_some(settled),
        extra: ExtraFields::new(),
    }
}

/// The usual name of a signal.
fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGHUP => "HUP",
        libc::SIGINT => "INT",
        libc::SIGQUIT => "QUIT",
        libc::SIGILL => "ILL",
        libc::SIGABRT => "ABRT",
        libc::SIGBUS => "BUS",
        libc::SIGFPE => "FPE",
        libc::SIGKILL => "KILL",
        libc::SIGSEGV => "SEGV",
        libc::SIGPIPE => "PIPE",
        libc::SIGTERM => "TERM",
        _ => return format!("signal {signal}"),
    };
    format!("SIG{name}")
}

fn note_missing_host_values(instruments: &HostInstruments, run: &mut Run) {
    let mut missing = |path: &str, reason: &str| {
        run.missing.insert(path.to_string(), MissingReason::without_fix(reason));
    };
    if !instruments.host.has_frequency() {
        missing("host.frequency", "the host shows no clock frequency (usual in virtual machines)");
        missing("host.governor", "the host shows no frequency governor (usual in virtual machines)");
    }
    if !instruments.host.has_temperature() {
        missing("host.temperature", "the host shows no temperature sensor (usual in virtual machines)");
    }
    if run.host.steal_ratio.is_none() {
        missing("host.steal_ratio", "the run was too short for the resolution of the host's clock ticks");
        missing("host.others_ratio", "the run was too short for the resolution of the host's clock ticks");
    }
    if run.host.cpu_pressure_ratio.is_none() {
        let fix = MissingReason::with_fix("the kernel gives no pressure figures", "boot with psi=1");
        run.missing.insert("host.cpu_pressure_ratio".into(), fix);
    }
}

fn note_overhead(facts: &CollectedRunFacts, whole: Seconds, run: &mut Run) {
    let own = Seconds(facts.own_cpu.as_secs_f64());
    let launcher = facts.end.used.map(|_| Seconds(facts.end.launcher_cpu.as_secs_f64()));
    run.overhead = MeasurementOverhead {
        cpu_seconds: Some(own),
        launcher_cpu_seconds: launcher,
        startup_seconds: Some(Seconds(facts.startup.as_secs_f64())),
        lost_events: facts.watch.as_ref().ok().map(|watch| watch.lost_events()),
        extra: ExtraFields::new(),
    };
    if whole.get() > 0.0 {
        run.summary.own_overhead_ratio =
            Some(Ratio((own + launcher.unwrap_or_default()).get() / whole.get()));
        run.quality.insert("summary.own_overhead_ratio".into(), ValueQuality::Exact);
    }
}
