//! Puts what was found out about a run into its record: values, how far each can be trusted, and why others are
//! missing.

use std::ffi::OsStr;
use std::path::Path;

use metier_types::schema::Schema;
use metier_types::{
    Bytes, Cause, Context, CpuUse, Digest, EnergyUse, Exit, Extra, HostState, IoUse, Joules, MemoryUse,
    Method, Missing, MissingFields, NetworkUse, Overhead, Pressure, Quality, QualityFields, Ratio, Run,
    RunId, RunState, Sampling, Seconds, Summary, Timestamp, Warning, Watts, WorkloadRef,
};

use crate::cgroup::Group;
use crate::recorder::{Recorder, remembered_digest};
use crate::session::{Facts, Session, Stopped};
use crate::spec::{ContainerSpec, PodSpec, Target};
use crate::{Spec, digest, trust, verdict};

/// The record of a run that has just begun.
pub(crate) fn begun(
    session: &Session,
    spec: &Spec,
    id: RunId,
    started: Timestamp,
    group: &Result<Group, Missing>,
) -> Run {
    let method = group.as_ref().map_or(Method::Wait4, |group| group.method);
    let name = spec.name.as_ref().map_or_else(|| command_name(spec), ToString::to_string);
    Run {
        schema: Schema::new(),
        id,
        batch: spec.batch,
        workload: WorkloadRef { id: workload_id(spec, None), name, extra: Extra::new() },
        device: session.options.device.reference(),
        state: RunState::Running,
        started,
        ended: None,
        exit: None,
        verdict: None,
        context: context(session, spec, method),
        tags: spec.tags.clone(),
        summary: Summary::default(),
        cpu: CpuUse::default(),
        memory: MemoryUse::default(),
        io: IoUse::default(),
        network: None,
        pressure: Pressure::default(),
        energy: EnergyUse::default(),
        gpus: Vec::new(),
        stages: Vec::new(),
        intake: None,
        host: HostState::default(),
        overhead: Overhead::default(),
        quality: QualityFields::new(),
        missing: MissingFields::new(),
        warnings: Vec::new(),
        artefacts: Vec::new(),
        extra: Extra::new(),
    }
}

/// The record of a run that is over.
pub(crate) fn of(
    session: &mut Session,
    spec: &Spec,
    facts: &mut Facts,
    input: Option<Digest>,
    recorder: &dyn Recorder,
) -> Run {
    let mut run = begun(session, spec, facts.id, facts.started, &facts.group);
    run.state = RunState::Finished;
    let since_start = |ns: u64| Seconds::from_nanos(ns.saturating_sub(facts.started_ns));
    run.ended = jiff::SignedDuration::try_from_secs_f64(since_start(facts.gone_ns).get())
        .ok()
        .and_then(|whole| facts.started.checked_add(whole).ok());
    run.exit = Some(exit(facts));
    if let Some(file) = spec.target.command().and_then(|c| digest::find_executable(&c.program)) {
        run.context.executable_digest = remembered_digest(recorder, &file);
        run.context.executable = Some(file.to_string_lossy().into_owned());
    }
    run.workload.id = workload_id(spec, run.context.executable_digest.as_ref());
    run.context.input_digest = input;
    run.context.sampling = Some(Sampling {
        interval_seconds: Seconds(spec.interval.as_secs_f64()),
        samples: facts.samples,
        late: facts.late,
        extra: Extra::new(),
    });

    let mut scribe = Scribe { run: &mut run };
    let wall = since_start(facts.ended_ns);
    scribe.set("summary.wall_seconds", Quality::Exact, |run| &mut run.summary.wall_seconds, Some(wall));
    scribe.cpu(facts);
    scribe.memory(facts);
    scribe.io(facts);
    scribe.pressure(facts);
    scribe.processes(facts);
    scribe.network(facts);
    scribe.energy(session, wall);
    let ours = run.summary.cpu_seconds.unwrap_or_default() + Seconds(facts.own_cpu.as_secs_f64());
    let whole = since_start(facts.gone_ns);
    run.host = session.host.state(facts.host_before.clone(), facts.host_after.clone(), whole, ours);
    host_missing(session, &mut run);
    overhead(facts, whole, &mut run);
    if facts.stuck > 0 {
        let text = format!("{} processes could not be killed and are still there", facts.stuck);
        run.warnings.push(Warning::new("stuck", text));
    }
    let cores = session.options.device.cpu.threads;
    let warnings = trust::warnings(&run, cores);
    run.warnings.extend(warnings);
    run.verdict = Some(verdict(&run));
    run
}

/// The signal in a wait status, if one ended the process.
pub(crate) fn ended_by_signal(status: i32) -> Option<i32> {
    let signal = status & 0x7f;
    (signal != 0 && signal != 0x7f).then_some(signal)
}

fn command_name(spec: &Spec) -> String {
    let base =
        |program: &OsStr| Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
    match &spec.target {
        Target::Command(command) => base(&command.program),
        // The last part of `registry/of/somebody/name:tag`.
        Target::Container(ContainerSpec { image, .. }) | Target::Pod(PodSpec { image, .. }) => {
            image.rsplit('/').next().unwrap_or(image).to_string()
        }
    }
}

fn workload_id(spec: &Spec, executable: Option<&Digest>) -> metier_types::WorkloadId {
    spec.name.clone().unwrap_or_else(|| match &spec.target {
        Target::Command(command) => digest::of_command(executable, command),
        target => digest::of_image(executable, &target.words()),
    })
}

fn context(session: &Session, spec: &Spec, method: Method) -> Context {
    Context {
        command: spec.target.words(),
        working_directory: std::env::current_dir().ok().map(|folder| folder.to_string_lossy().into_owned()),
        executable: None,
        executable_digest: None,
        environment_digest: Some(digest::of_environment(std::env::vars_os())),
        input: spec.input.as_ref().map(|path| path.to_string_lossy().into_owned()),
        input_digest: None,
        kernel: session.kernel.clone(),
        measured_by: concat!("metier ", env!("CARGO_PKG_VERSION")).to_string(),
        method: Some(method),
        sampling: None,
        timeout_seconds: spec.timeout.map(|limit| Seconds(limit.as_secs_f64())),
        grace_seconds: Some(Seconds(spec.grace.as_secs_f64())),
        repetition: spec.repetition,
        repetitions: spec.repetitions,
        warmup: spec.warmup,
        neighbours: Vec::new(),
        company: Vec::new(),
        image: None,
        pod: None,
        dataset: None,
        phases: Vec::new(),
        limits: Default::default(),
        extra: Extra::new(),
    }
}

fn exit(facts: &Facts) -> Exit {
    let signal = ended_by_signal(facts.status);
    let oom = facts.totals.oom_kills.is_some_and(|kills| kills > 0) && signal == Some(libc::SIGKILL);
    let ladder = || {
        let names: Vec<String> = facts.rungs.iter().map(|signal| signal_name(*signal)).collect();
        names.join(", then ")
    };
    let (cause, ended_by) = match facts.stopped {
        Stopped::Timeout => (Cause::Timeout, Some(format!("metier, at the time limit, with {}", ladder()))),
        Stopped::Signal(by) => {
            (Cause::Interrupted, Some(format!("metier, asked by {}, with {}", signal_name(by), ladder())))
        }
        _ if oom => (Cause::Oom, Some("the kernel, for want of memory".to_string())),
        // The terminal's interrupt reaches the command directly.
        _ if signal == Some(libc::SIGINT) => (Cause::Interrupted, Some("an interrupt".to_string())),
        _ => match signal {
            Some(signal) => (Cause::Signalled, Some(format!("{} from elsewhere", signal_name(signal)))),
            None => (Cause::Exited, None),
        },
    };
    let settled = Seconds::from_nanos(facts.gone_ns.saturating_sub(facts.ended_ns));
    Exit {
        code: signal.is_none().then_some(facts.status >> 8 & 0xff),
        signal,
        cause,
        ended_by,
        detail: None,
        left_behind: facts.left_behind,
        settled_seconds: (facts.left_behind > 0).then_some(settled),
        extra: Extra::new(),
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

/// Writes values with their quality, or the reason why they are missing.
struct Scribe<'a> {
    run: &'a mut Run,
}

impl Scribe<'_> {
    fn set<T>(
        &mut self,
        path: &str,
        quality: Quality,
        field: impl FnOnce(&mut Run) -> &mut Option<T>,
        value: Option<T>,
    ) {
        if value.is_some() {
            self.run.quality.insert(path.to_string(), quality);
        }
        *field(self.run) = value;
    }

    fn missing(&mut self, path: &str, missing: Missing) {
        self.run.missing.insert(path.to_string(), missing);
    }

    fn cpu(&mut self, facts: &Facts) {
        let totals = &facts.totals;
        let waited = Seconds::from_micros(facts.used.user_us + facts.used.system_us);
        let (quality, cpu) = match totals.cpu {
            Some(cpu) => (Quality::Exact, cpu),
            None => (Quality::Estimated, waited),
        };
        self.set("summary.cpu_seconds", quality, |r| &mut r.summary.cpu_seconds, Some(cpu));
        let user = totals.user.or(totals.cpu.is_none().then(|| Seconds::from_micros(facts.used.user_us)));
        let system =
            totals.system.or(totals.cpu.is_none().then(|| Seconds::from_micros(facts.used.system_us)));
        self.set("summary.cpu_user_seconds", Quality::Estimated, |r| &mut r.summary.cpu_user_seconds, user);
        self.set(
            "summary.cpu_system_seconds",
            Quality::Estimated,
            |r| &mut r.summary.cpu_system_seconds,
            system,
        );
        // What wait4 says is complete when its CPU time is that of the group: nobody escaped it.
        let complete = if self.waited_for_all(facts) { Quality::Exact } else { Quality::Estimated };
        let used = &facts.used;
        self.set(
            "cpu.voluntary_switches",
            complete,
            |r| &mut r.cpu.voluntary_switches,
            Some(used.voluntary_switches),
        );
        self.set(
            "cpu.involuntary_switches",
            complete,
            |r| &mut r.cpu.involuntary_switches,
            Some(used.involuntary_switches),
        );
        match facts.around_before.zip(facts.around_after) {
            Some(((p0, t0), (p1, t1))) => {
                let periods = Some(p1.saturating_sub(p0));
                let time = Some(Seconds::from_micros(t1.saturating_sub(t0)));
                self.set("cpu.throttled_periods", Quality::Exact, |r| &mut r.cpu.throttled_periods, periods);
                self.set("cpu.throttled_seconds", Quality::Exact, |r| &mut r.cpu.throttled_seconds, time);
            }
            None => {
                let reason = "no CPU limit is accounted in the group around the run";
                self.missing("cpu.throttled_seconds", Missing::because(reason));
            }
        }
        if let Err(missing) = &facts.group {
            let reason = format!("counted by wait4 only, because {}", missing.reason);
            let missing = Missing { reason, fix: missing.fix.clone() };
            self.missing("context.control_group", missing);
        }
    }

    /// Whether the descendants that were waited for account for all CPU time, to within a hundredth or 10 ms.
    fn waited_for_all(&self, facts: &Facts) -> bool {
        let waited = (facts.used.user_us + facts.used.system_us) as f64 / 1e6;
        facts.totals.cpu.is_some_and(|cpu| (cpu.get() - waited).abs() <= (cpu.get() * 0.01).max(0.01))
    }

    fn memory(&mut self, facts: &Facts) {
        let totals = &facts.totals;
        let largest = Bytes(facts.used.max_rss_kib * 1024);
        match totals.peak_memory {
            Some(peak) => self.set(
                "summary.peak_memory_bytes",
                Quality::Exact,
                |r| &mut r.summary.peak_memory_bytes,
                Some(peak),
            ),
            None => {
                // The sum over processes as sampled, or the kernel's mark of the largest one: whichever is more.
                let sampled = facts.walker.peak_resident.map(Bytes).filter(|sum| *sum > largest);
                let value = Some(sampled.unwrap_or(largest));
                self.set(
                    "summary.peak_memory_bytes",
                    Quality::Estimated,
                    |r| &mut r.summary.peak_memory_bytes,
                    value,
                );
                let reason = "no memory controller for the run; this is the largest process, or the largest sum that a sample saw";
                self.missing("memory.kernel_peak", Missing::fixable(reason, "`metier doctor` shows how to get a control group with memory accounting; memory.peak needs Linux 5.19"));
            }
        }
        let sampled = Quality::Sampled;
        let bytes = |value: Option<u64>| value.map(Bytes);
        self.set(
            "memory.peak_anonymous_bytes",
            sampled,
            |r| &mut r.memory.peak_anonymous_bytes,
            bytes(facts.peaks.anonymous),
        );
        self.set(
            "memory.peak_file_bytes",
            sampled,
            |r| &mut r.memory.peak_file_bytes,
            bytes(facts.peaks.file),
        );
        self.set(
            "memory.peak_kernel_bytes",
            sampled,
            |r| &mut r.memory.peak_kernel_bytes,
            bytes(facts.peaks.kernel),
        );
        self.set(
            "memory.peak_resident_sum_bytes",
            sampled,
            |r| &mut r.memory.peak_resident_sum_bytes,
            bytes(facts.walker.peak_resident),
        );
        self.set(
            "memory.peak_process_bytes",
            Quality::Exact,
            |r| &mut r.memory.peak_process_bytes,
            Some(largest),
        );
        if facts.peaks.anonymous.is_none() {
            self.missing(
                "memory.peak_anonymous_bytes",
                Missing::because("no memory controller for the run, or it was over before a sample"),
            );
        }
        let complete = if self.waited_for_all(facts) { Quality::Exact } else { Quality::Estimated };
        let (minor, major, quality) = match totals.faults.zip(totals.major_faults) {
            Some((all, major)) => (all.saturating_sub(major), major, Quality::Exact),
            None => (facts.used.minor_faults, facts.used.major_faults, complete),
        };
        self.set("memory.minor_faults", quality, |r| &mut r.memory.minor_faults, Some(minor));
        self.set("memory.major_faults", quality, |r| &mut r.memory.major_faults, Some(major));
        self.set("memory.oom_kills", Quality::Exact, |r| &mut r.memory.oom_kills, totals.oom_kills);
    }

    fn io(&mut self, facts: &Facts) {
        // wait4 counts blocks of 512 bytes when a page is dirtied or read, so buffered writes are in it; the
        // version 1 block controller would miss them.
        let complete = if self.waited_for_all(facts) { Quality::Exact } else { Quality::Estimated };
        let blocks = |count: u64| Some(Bytes(count * 512));
        self.set("summary.read_bytes", complete, |r| &mut r.summary.read_bytes, blocks(facts.used.blocks_in));
        self.set(
            "summary.written_bytes",
            complete,
            |r| &mut r.summary.written_bytes,
            blocks(facts.used.blocks_out),
        );
        let totals = &facts.totals;
        self.set("io.device_read_bytes", Quality::Exact, |r| &mut r.io.device_read_bytes, totals.device_read);
        self.set(
            "io.device_written_bytes",
            Quality::Exact,
            |r| &mut r.io.device_written_bytes,
            totals.device_written,
        );
        if totals.device_read.is_none() {
            let missing = match facts.group.as_ref().map(|group| !group.v1.is_empty()) {
                Ok(true) => Missing::because(
                    "version 1 of control groups charges buffered writes to the root group; see summary.written_bytes",
                ),
                _ => Missing::fixable(
                    "the io controller is not handed down to the run",
                    "for a user's session: systemctl edit user@.service, [Service] Delegate=cpu io memory pids",
                ),
            };
            self.missing("io.device_read_bytes", missing.clone());
            self.missing("io.device_written_bytes", missing);
        }
        let exact = facts.watch.as_ref().ok().and_then(|watch| watch.called());
        let (called, quality) = match exact {
            Some(called) => (Some(called), Quality::Exact),
            None => (facts.walker.called(), Quality::Sampled),
        };
        self.set(
            "io.call_read_bytes",
            quality,
            |r| &mut r.io.call_read_bytes,
            called.map(|(read, _)| Bytes(read)),
        );
        self.set(
            "io.call_written_bytes",
            quality,
            |r| &mut r.io.call_written_bytes,
            called.map(|(_, written)| Bytes(written)),
        );
        if called.is_none() {
            self.missing("io.call_read_bytes", Missing::because("no process lived long enough to be asked"));
        }
    }

    fn pressure(&mut self, facts: &Facts) {
        let totals = &facts.totals;
        let exact = Quality::Exact;
        self.set("pressure.cpu_seconds", exact, |r| &mut r.pressure.cpu_seconds, totals.cpu_pressure);
        self.set(
            "pressure.memory_seconds",
            exact,
            |r| &mut r.pressure.memory_seconds,
            totals.memory_pressure,
        );
        self.set("pressure.io_seconds", exact, |r| &mut r.pressure.io_seconds, totals.io_pressure);
        if totals.cpu_pressure.is_none() {
            let missing = Missing::fixable(
                "the kernel gives no pressure figures for the run",
                "boot with psi=1 and a version 2 control group",
            );
            for name in ["cpu", "memory", "io"] {
                self.missing(&format!("pressure.{name}_seconds"), missing.clone());
            }
        }
    }

    fn processes(&mut self, facts: &Facts) {
        match &facts.watch {
            Ok(watch) if watch.total() > 0 => {
                let quality = if watch.lost() == 0 { Quality::Exact } else { Quality::Sampled };
                self.set("summary.processes", quality, |r| &mut r.summary.processes, Some(watch.total()));
                if !watch.has_statistics() {
                    let reason = "the kernel sends no task statistics to us, so what each process used is as last sampled";
                    self.missing(
                        "processes.cpu_seconds",
                        Missing::fixable(reason, "run as root, with a kernel that has CONFIG_TASKSTATS"),
                    );
                }
            }
            other => {
                // The main process existed whether or not a sample caught it.
                let seen = facts.walker.count().max(1);
                self.set("summary.processes", Quality::Sampled, |r| &mut r.summary.processes, Some(seen));
                let missing = match other {
                    Err(missing) => missing.clone(),
                    Ok(_) => Missing::fixable(
                        "the kernel's process events do not speak of this process namespace",
                        "run metier outside of the container",
                    ),
                };
                let reason = format!("processes between two samples are not listed: {}", missing.reason);
                self.missing("processes.short_lived", Missing { reason, fix: missing.fix });
            }
        }
    }

    fn network(&mut self, facts: &Facts) {
        match facts.walker.network {
            Some((received, sent)) => {
                self.run.quality.insert("network".into(), Quality::Sampled);
                self.run.network = Some(NetworkUse {
                    received_bytes: Bytes(received),
                    sent_bytes: Bytes(sent),
                    extra: Extra::new(),
                });
            }
            None => self.missing(
                "network",
                Missing::fixable(
                    "the run shares the host's network namespace, whose counters speak of everybody",
                    "run it in a namespace of its own, for example with `ip netns exec`",
                ),
            ),
        }
    }

    fn energy(&mut self, session: &mut Session, wall: Seconds) {
        let (meters, counters_only) = session.meters.result();
        self.run.gpus = session.gpus.result();
        let gpu: Joules = self.run.gpus.iter().filter_map(|gpu| gpu.energy_joules).sum();
        let counted: Vec<Joules> = meters.iter().filter(|m| m.counted).map(|m| m.energy_joules).collect();
        if !counted.is_empty() || gpu.get() > 0.0 {
            let total = counted.into_iter().sum::<Joules>() + gpu;
            let quality = if counters_only { Quality::Exact } else { Quality::Sampled };
            self.set("summary.energy_joules", quality, |r| &mut r.summary.energy_joules, Some(total));
            let power = (wall.get() > 0.0).then(|| Watts(total.get() / wall.get()));
            self.set("energy.mean_power_watts", quality, |r| &mut r.energy.mean_power_watts, power);
        } else if let Some(missing) = session.meters.missing() {
            self.missing("summary.energy_joules", missing);
        }
        self.run.energy.meters = meters;
        if let Some(missing) = session.gpus.missing() {
            self.missing("gpus", missing);
        }
    }
}

fn host_missing(session: &Session, run: &mut Run) {
    let mut missing = |path: &str, reason: &str| {
        run.missing.insert(path.to_string(), Missing::because(reason));
    };
    if !session.host.has_frequency() {
        missing("host.frequency", "the host shows no clock frequency (usual in virtual machines)");
        missing("host.governor", "the host shows no frequency governor (usual in virtual machines)");
    }
    if !session.host.has_temperature() {
        missing("host.temperature", "the host shows no temperature sensor (usual in virtual machines)");
    }
    if run.host.steal_ratio.is_none() {
        missing("host.steal_ratio", "the run was too short for the host's clock ticks to tell");
        missing("host.others_ratio", "the run was too short for the host's clock ticks to tell");
    }
    if run.host.cpu_pressure_ratio.is_none() {
        let fix = Missing::fixable("the kernel gives no pressure figures", "boot with psi=1");
        run.missing.insert("host.cpu_pressure_ratio".into(), fix);
    }
}

fn overhead(facts: &Facts, whole: Seconds, run: &mut Run) {
    let own = Seconds(facts.own_cpu.as_secs_f64());
    let launcher = Seconds(facts.launcher_cpu.as_secs_f64());
    run.overhead = Overhead {
        cpu_seconds: Some(own),
        launcher_cpu_seconds: Some(launcher),
        startup_seconds: Some(Seconds(facts.startup.as_secs_f64())),
        lost_events: facts.watch.as_ref().ok().map(|watch| watch.lost()),
        extra: Extra::new(),
    };
    if whole.get() > 0.0 {
        run.summary.own_overhead_ratio = Some(Ratio((own + launcher).get() / whole.get()));
        run.quality.insert("summary.own_overhead_ratio".into(), Quality::Exact);
    }
}
