//! The life of a run: make a group, start the command in it, watch until its last process is gone, read the
//! exact counters, write the record.
//!
//! One thread waits for the launcher's reports, for signals and for the next sample; nothing is polled faster
//! than the user asked for. The store writes in a thread of its own, so a slow disk never delays a sample.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use metier_types::{Device, HostReading, Missing, ProcessTree, Run, RunId, Timestamp};

use crate::cgroup::{Group, Meter, Place, Totals, scope};
use crate::events::Watch;
use crate::gpu::Gpus;
use crate::host::{HostCounters, HostMeter};
use crate::launch::{Launcher, Program, Report, Rung, Stage, Usage};
pub use crate::recorder::{NoRecorder, Recorder, StoreRecorder};
use crate::sensors::Meters;
use crate::signals::{Came, Signals};
use crate::spec::Accounting;
use crate::timeline::Timeline;
use crate::tree::Walker;
use crate::{Error, Roots, Spec, leftovers, record};

/// The host's state is read this often.
const HOST_EVERY: Duration = Duration::from_secs(1);
/// Samples are handed to the store this often; what a kill can lose.
const CHUNK_EVERY: Duration = Duration::from_millis(900);
/// The parts of memory are read at most this often.
const PARTS_EVERY: Duration = Duration::from_millis(200);
/// Process events are collected this often on a quiet host.
const EVENTS_EVERY: Duration = Duration::from_secs(1);

/// What a session needs to know.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the kernel's file systems are.
    pub roots: Roots,
    /// A private folder for files that live as long as the session.
    pub runtime_dir: PathBuf,
    /// This device.
    pub device: Device,
}

/// Somebody asked the whole batch to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    /// The signal that asked.
    pub signal: i32,
}

/// A run that is over.
#[derive(Debug)]
pub struct Finished {
    /// Its record.
    pub run: Run,
    /// Its processes.
    pub tree: ProcessTree,
    /// Whether the batch should stop.
    pub stop: Option<Stop>,
    /// Why the recorder could not keep the run, if it could not: the command ran, and here is its record.
    pub unkept: Option<Error>,
}

/// What all runs of a batch share.
pub struct Session {
    pub(crate) options: Options,
    program: Program,
    signals: Signals,
    pub(crate) host: HostMeter,
    pub(crate) meters: Meters,
    pub(crate) gpus: Gpus,
    pub(crate) kernel: Option<String>,
}

/// Everything that was found out about one run, before it is put into words.
pub(crate) struct Facts {
    pub id: RunId,
    pub group: Result<Group, Missing>,
    pub watch: Result<Watch, Missing>,
    pub walker: Walker,
    pub totals: Totals,
    pub used: Usage,
    pub started: Timestamp,
    pub started_ns: u64,
    pub ended_ns: u64,
    pub gone_ns: u64,
    pub status: i32,
    pub stuck: u64,
    pub left_behind: u32,
    pub rungs: Vec<i32>,
    pub stopped: Stopped,
    pub samples: u64,
    pub late: u64,
    pub peaks: Peaks,
    pub host_before: (HostReading, HostCounters),
    pub host_after: (HostReading, HostCounters),
    pub around_before: Option<(u64, u64)>,
    pub around_after: Option<(u64, u64)>,
    pub own_cpu: Duration,
    pub launcher_cpu: Duration,
    pub startup: Duration,
}

/// Why we ended the run, if we did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    No,
    Timeout,
    /// Asked to by this signal.
    Signal(i32),
    /// The main process was over, the rest was not.
    Lingering,
}

/// Largest parts of memory that samples saw.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Peaks {
    pub anonymous: Option<u64>,
    pub file: Option<u64>,
    pub kernel: Option<u64>,
}

impl Session {
    /// Gets everything ready that runs have in common, and takes over INT, TERM, HUP and QUIT.
    pub fn open(options: Options) -> Result<Self, Error> {
        let signals = Signals::take()?;
        let program = Program::make(&options.runtime_dir)?;
        let kernel = crate::file::text(options.roots.proc.join("version"));
        let library = std::env::var_os("METIER_NVML").map(PathBuf::from);
        Ok(Self {
            host: HostMeter::open(&options.roots),
            meters: Meters::open(&options.roots),
            gpus: Gpus::open(library.as_deref()),
            program,
            signals,
            kernel,
            options,
        })
    }

    /// Runs a command and measures it.
    pub fn run(&mut self, spec: &Spec, recorder: &mut dyn Recorder) -> Result<Finished, Error> {
        spec.check()?;
        let input = spec.input.as_deref().map(crate::digest::of_input).transpose()?;
        let mut facts = self.measure(spec, recorder)?;
        let mut run = record::of(self, spec, &mut facts, input, recorder);
        let tree = facts.walker.tree(facts.id, facts.watch.as_ref().ok(), facts.started_ns);
        let unkept = recorder.finish(&mut run, &tree).err();
        let stop = match facts.stopped {
            Stopped::Signal(signal) => Some(Stop { signal }),
            // A command that the terminal's INT ended: the user wants the whole batch to end.
            _ if record::ended_by_signal(facts.status) == Some(libc::SIGINT) => {
                Some(Stop { signal: libc::SIGINT })
            }
            _ => None,
        };
        Ok(Finished { run, tree, stop, unkept })
    }

    fn measure(&mut self, spec: &Spec, recorder: &mut dyn Recorder) -> Result<Facts, Error> {
        let asked = Instant::now();
        let id = RunId::new();
        let roots = self.options.roots.clone();
        let mut watch = Watch::open();
        let Some(command) = spec.target.command() else {
            let want = "a command: containers and pods cannot be measured yet";
            return Err(Error::Spec { field: "target", got: spec.target.words().join(" "), want });
        };
        let launcher = Launcher::spawn(&self.program, command, spec.grace, self.signals.mask_before())?;
        if let Ok(watch) = &mut watch {
            watch.follow(launcher.pid());
        }
        let group = find_group(&roots, spec, id, launcher.pid());
        if let Ok(group) = &group {
            launcher.prepare(&group.orders())?;
        }
        let around = |group: &Result<Group, Missing>| group.as_ref().ok().and_then(|g| throttling(&g.around));
        let around_before = around(&group);
        let host_before = (self.host.reading(), self.host.counters());
        self.meters.start();
        self.gpus.start();
        // Before the command starts: a store that cannot keep the run is told before anything has happened.
        recorder.begin(&record::begun(self, spec, id, Timestamp::now(), &group))?;
        launcher.go()?;
        let started_ns = match launcher.report() {
            Report::Started { time_ns, .. } => time_ns,
            failed => {
                recorder.forget(id);
                let error = match failed {
                    Report::Failed { stage, errno } => start_error(spec, stage, errno),
                    _ => lost("starting the command"),
                };
                launcher.bye();
                return Err(error);
            }
        };
        let started = Timestamp::now();
        let startup = asked.elapsed();
        let own_before = own_cpu();

        let mut life = Life {
            meter: group.as_ref().ok().map(Meter::open),
            group: group.as_ref().ok(),
            walker: Walker::new(&roots.proc, launcher.pid(), watch.is_ok()),
            watch: watch.as_mut().ok(),
            timeline: Timeline::new(
                id,
                &self.meters.microjoules().into_iter().map(|(name, _)| name).collect::<Vec<_>>(),
            ),
            host: &mut self.host,
            meters: &mut self.meters,
            gpus: &mut self.gpus,
            signals: &self.signals,
            launcher: &launcher,
            started_ns,
            next: Next::from(Duration::ZERO),
            peaks: Peaks::default(),
            late: 0,
            interrupts: Vec::new(),
            rungs: Vec::new(),
            stopped: Stopped::No,
            main: None,
            left_behind: 0,
        };
        let (gone, stuck, launcher_cpu, used) = match life.watch(spec, id, recorder) {
            Ok(end) => end,
            Err(error) => {
                // Without the launcher nobody else ends the command; the run stays in the store as interrupted.
                life.group.iter().for_each(|group| leftovers::end_group(group));
                return Err(error);
            }
        };
        let (status, ended_ns) = life.main.unwrap_or((0, gone));
        let totals = life.group.map(Totals::read).unwrap_or_default();
        life.last_look(id, &used, recorder);
        let Life { walker, timeline, peaks, late, rungs, stopped, left_behind, .. } = life;
        let host_after = (self.host.reading(), self.host.counters());
        let around_after = around(&group);
        let own_cpu = own_cpu().saturating_sub(own_before);
        launcher.bye();
        Ok(Facts {
            id,
            group,
            watch,
            walker,
            totals,
            used,
            started,
            started_ns,
            ended_ns,
            gone_ns: gone,
            status,
            stuck,
            left_behind,
            rungs,
            stopped,
            samples: timeline.samples,
            late,
            peaks,
            host_before,
            host_after,
            around_before,
            around_after,
            own_cpu,
            launcher_cpu,
            startup,
        })
    }
}

/// Moments of the next things to do, from the start of the run.
struct Next {
    sample: Duration,
    parts: Duration,
    host: Duration,
    chunk: Duration,
    events: Duration,
}

impl Next {
    fn from(start: Duration) -> Self {
        Self { sample: start, parts: start, host: start, chunk: start + CHUNK_EVERY, events: start }
    }
}

/// A run between its first instruction and the end of its last process.
struct Life<'a> {
    meter: Option<Meter>,
    group: Option<&'a Group>,
    walker: Walker,
    watch: Option<&'a mut Watch>,
    timeline: Timeline,
    host: &'a mut HostMeter,
    meters: &'a mut Meters,
    gpus: &'a mut Gpus,
    signals: &'a Signals,
    launcher: &'a Launcher,
    started_ns: u64,
    next: Next,
    peaks: Peaks,
    late: u64,
    interrupts: Vec<Duration>,
    rungs: Vec<i32>,
    stopped: Stopped,
    /// Wait status and end of the main process.
    main: Option<(i32, u64)>,
    left_behind: u32,
}

impl Life<'_> {
    fn elapsed(&self) -> Duration {
        Duration::from_nanos(monotonic_ns().saturating_sub(self.started_ns))
    }

    /// Waits until every process is gone. Gives that moment, how many are stuck, and what was used.
    fn watch(
        &mut self,
        spec: &Spec,
        id: RunId,
        recorder: &mut dyn Recorder,
    ) -> Result<(u64, u64, Duration, Usage), Error> {
        loop {
            let now = self.elapsed();
            // On the way of the last sample before it is due, rather than waking up for it.
            let is_sample = now >= self.next.sample;
            if now >= self.next.events || (is_sample && now + spec.interval > self.next.events) {
                let messages: u64 = self.watch.iter_mut().map(|watch| watch.drain()).sum();
                // The sockets hold some ten thousand messages; a busy host is looked at more often.
                let hurry = (messages / 100).clamp(1, 10) as u32;
                self.next.events = now + EVENTS_EVERY / hurry;
            }
            if is_sample {
                self.sample(spec, now);
                if now >= self.next.chunk {
                    recorder.samples(id, self.timeline.take());
                    self.next.chunk = now + CHUNK_EVERY;
                }
            }
            self.enforce(spec, now);
            let wake = self.wake(spec).saturating_sub(self.elapsed());
            let (report, signal) = wait(self.launcher.descriptor(), self.signals.descriptor(), wake);
            if signal {
                while let Some(came) = self.signals.next() {
                    self.obey(came);
                }
            }
            if !report {
                continue;
            }
            match self.launcher.report() {
                Report::MainEnded { status, time_ns } => {
                    self.main = Some((status, time_ns));
                    self.left_behind = self.walker.living(self.group).len() as u32;
                }
                Report::Rung { signal } => self.rungs.push(signal),
                Report::Gone { stuck, time_ns, own_cpu_ns, used } => {
                    return Ok((time_ns, stuck, Duration::from_nanos(own_cpu_ns), used));
                }
                Report::Lost => return Err(lost("watching the command")),
                Report::Started { .. } | Report::Failed { .. } => {}
            }
        }
    }

    /// Ends the run when its time is up, or what is left of it when the main process is over.
    fn enforce(&mut self, spec: &Spec, now: Duration) {
        if self.stopped != Stopped::No {
            return;
        }
        let main_ended = self.main.map(|(_, ns)| Duration::from_nanos(ns.saturating_sub(self.started_ns)));
        let reason = match main_ended {
            Some(ended) if now >= ended + spec.linger => Stopped::Lingering,
            None if spec.timeout.is_some_and(|limit| now >= limit) => Stopped::Timeout,
            _ => return,
        };
        self.stopped = reason;
        self.launcher.climb(Rung::Interrupt);
    }

    /// When there is something to do next.
    fn wake(&self, spec: &Spec) -> Duration {
        let mut wake = self.next.sample;
        if self.watch.is_some() {
            wake = wake.min(self.next.events);
        }
        if self.stopped == Stopped::No {
            wake = match self.main {
                Some((_, ns)) => {
                    wake.min(Duration::from_nanos(ns.saturating_sub(self.started_ns)) + spec.linger)
                }
                None => spec.timeout.map_or(wake, |limit| wake.min(limit)),
            };
        }
        wake
    }

    /// A terminal's INT or QUIT has reached the command already: it decides, as without us, unless the user
    /// insists. Anything else was meant for us, and the ladder starts.
    fn obey(&mut self, came: Came) {
        let now = self.elapsed();
        if came.from_terminal && matches!(came.signal, libc::SIGINT | libc::SIGQUIT) {
            self.interrupts.retain(|then| now.saturating_sub(*then) < Duration::from_secs(2));
            self.interrupts.push(now);
            if self.interrupts.len() < 3 {
                return;
            }
        }
        if self.stopped == Stopped::No {
            self.stopped = Stopped::Signal(came.signal);
            self.launcher.climb(if came.signal == libc::SIGINT { Rung::Interrupt } else { Rung::Terminate });
        } else {
            // Asked again: do not wait for the rest of the grace.
            self.launcher.climb(Rung::Kill);
        }
    }

    fn sample(&mut self, spec: &Spec, now: Duration) {
        if now > self.next.sample + spec.interval / 2 && self.timeline.samples > 0 {
            self.late += 1;
        }
        let whole = now >= self.next.parts;
        if whole {
            self.next.parts = now + spec.interval.max(PARTS_EVERY) - spec.interval / 2;
        }
        let mut sample = self.meter.as_mut().map(|meter| meter.sample(whole)).unwrap_or_default();
        let walked = self.walker.walk(self.group, now);
        if let Some(walked) = &walked {
            if self.meter.as_ref().is_none_or(|meter| !meter.has_io()) {
                (sample.read, sample.written) = walked.stored.unzip();
            }
            if self.meter.is_none() {
                sample.memory = Some(walked.resident);
            }
        }
        self.peaks.anonymous = self.peaks.anonymous.max(sample.anonymous);
        self.peaks.file = self.peaks.file.max(sample.file);
        self.peaks.kernel = self.peaks.kernel.max(sample.kernel);
        self.timeline.add_use(now, &sample, walked.map(|w| w.processes));
        if now >= self.next.host {
            self.timeline.add_host(now, &self.host.counters(), &self.host.reading());
            if !self.meters.is_empty() {
                self.meters.tick();
                self.timeline.add_energy(now, &self.meters.microjoules());
            }
            if !self.gpus.is_empty() {
                self.gpus.tick(&self.group.map(Group::members).unwrap_or_default());
            }
            self.next.host = now + HOST_EVERY.max(spec.interval);
        }
        // Ticks stay on their grid; those that were missed are not made up for.
        let behind =
            self.elapsed().saturating_sub(self.next.sample).as_nanos() / spec.interval.as_nanos().max(1);
        self.next.sample += spec.interval * (behind as u32 + 1);
    }

    /// The last rows of the time line, after the last process is gone.
    fn last_look(&mut self, id: RunId, used: &Usage, recorder: &mut dyn Recorder) {
        let now = self.elapsed();
        if let Some(watch) = &mut self.watch {
            watch.drain();
        }
        let mut sample = self.meter.as_mut().map(|meter| meter.sample(true)).unwrap_or_default();
        if self.meter.as_ref().is_none_or(|meter| !meter.has_io()) {
            // What walks saw of living processes ends at what wait4 knows of all.
            sample.read = Some(used.blocks_in * 512);
            sample.written = Some(used.blocks_out * 512);
        }
        self.timeline.add_use(now, &sample, Some(0));
        self.timeline.add_host(now, &self.host.counters(), &self.host.reading());
        self.meters.tick();
        self.timeline.add_energy(now, &self.meters.microjoules());
        self.gpus.tick(&[]);
        recorder.samples(id, self.timeline.take());
    }
}

/// The best group that can be had for the run.
fn find_group(roots: &Roots, spec: &Spec, id: RunId, launcher: u32) -> Result<Group, Missing> {
    if spec.accounting == Accounting::Wait4 {
        return Err(Missing::because("it was asked for"));
    }
    let name = leftovers::group_name(roots, id);
    let mut group = Group::make(&Place::of(&roots.proc, "self"), &name);
    if needs_scope(&group) {
        match (scope::make(&roots.proc, &name, launcher), &mut group) {
            (Ok(scope), lesser) => {
                lesser.iter_mut().for_each(Group::discard);
                return Ok(scope);
            }
            // Why systemd gave none is what the user can do something about.
            (Err(missing), Err(_)) => return Err(missing),
            (Err(_), Ok(_)) => {}
        }
    }
    group
}

/// Whether a better group may be had from systemd: there is none, or one that does not account memory.
fn needs_scope(group: &Result<Group, Missing>) -> bool {
    // SAFETY: takes nothing, cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    let lacks = group.as_ref().map_or(true, |group| group.v1.is_empty() && !group.has_v2_memory());
    lacks && !is_root
}

/// Periods and microseconds in which the group around the run was held back by a CPU limit.
fn throttling(around: &Place) -> Option<(u64, u64)> {
    let folder = around.v1.get("cpu").or(around.v2.as_ref())?;
    let text = std::fs::read_to_string(folder.join("cpu.stat")).ok()?;
    let periods = crate::file::keyed(&text, "nr_throttled")?;
    let micros = crate::file::keyed(&text, "throttled_usec")
        .or_else(|| crate::file::keyed(&text, "throttled_time").map(|nanos| nanos / 1000))?;
    Some((periods, micros))
}

fn start_error(spec: &Spec, stage: Stage, errno: i32) -> Error {
    let reason = io::Error::from_raw_os_error(errno);
    let command = spec.target.words().swap_remove(0);
    match stage {
        Stage::Exec if errno == libc::ENOENT => Error::NotFound { command },
        Stage::Exec => Error::NotExecutable { command, reason },
        Stage::Join => Error::Join { reason },
        Stage::Fork => Error::Launcher { doing: "starting the command", reason },
    }
}

fn lost(doing: &'static str) -> Error {
    Error::Launcher { doing, reason: io::Error::new(io::ErrorKind::BrokenPipe, "it went away") }
}

/// CPU time of this process so far, all threads.
fn own_cpu() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn monotonic_ns() -> u64 {
    clock(libc::CLOCK_MONOTONIC).as_nanos() as u64
}

fn clock(which: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec for the call to fill.
    unsafe { libc::clock_gettime(which, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Waits for a report, a signal or the time; says which of the two descriptors has something.
fn wait(report: i32, signal: i32, longest: Duration) -> (bool, bool) {
    let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut fds = [entry(report), entry(signal)];
    let time =
        libc::timespec { tv_sec: longest.as_secs() as libc::time_t, tv_nsec: longest.subsec_nanos().into() };
    // SAFETY: two valid entries and a valid time; the signal mask is left alone.
    unsafe { libc::ppoll(fds.as_mut_ptr(), 2, &time, std::ptr::null()) };
    (fds[0].revents != 0, fds[1].revents != 0)
}
