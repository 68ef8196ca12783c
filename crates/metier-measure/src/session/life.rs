//! A run between its first instruction and the end of its last process: one thread that waits for reports, signals,
//! somebody's wish to stop, and the next sample. Nothing is polled faster than the user asked for.

use std::time::Duration;

use metier_types::{Quality, RunId};

use crate::facts::{RunEnd, SampleLog, Stopped};
use crate::instruments::Instruments;
use crate::observer::Observer;
use crate::runner::command::lost;
use crate::running_target::{Report, Rung, RunningTarget, Usage};
use crate::stop::Stopper;
use crate::timeline::Timeline;
use crate::tree::Walker;
use crate::{Error, Recorder, Spec};
use metier_linux::cgroup::{Group, Meter, Place, Totals};
use metier_linux::events::Watch;
use metier_linux::signals::{Came, Signals};
use metier_linux::wake::{monotonic_ns, wait};

/// The host's state is read this often.
const HOST_EVERY: Duration = Duration::from_secs(1);
/// Samples are handed to the store this often; what a kill can lose.
const CHUNK_EVERY: Duration = Duration::from_millis(900);
/// The parts of memory are read at most this often.
const PARTS_EVERY: Duration = Duration::from_millis(200);
/// How often power is read that has no counter of energy.
const POWER_EVERY: Duration = Duration::from_millis(200);
/// Process events are collected this often on a quiet host.
const EVENTS_EVERY: Duration = Duration::from_secs(1);

/// Moments of the next things to do, from the start of the run.
#[derive(Default)]
pub(super) struct Next {
    sample: Duration,
    parts: Duration,
    host: Duration,
    power: Duration,
    chunk: Duration,
    events: Duration,
}

/// What a group that may vanish said last.
#[derive(Default)]
pub(super) struct LastSeen {
    totals: Totals,
    /// Whether that was after its last process.
    saw_end: bool,
    pub throttling: Option<(u64, u64)>,
}

/// A run between its first instruction and the end of its last process.
pub(super) struct Life<'a, 'b> {
    pub meter: Option<Meter>,
    pub group: Option<&'a Group>,
    pub walker: Walker,
    pub watch: Option<&'a mut Watch>,
    pub timeline: Timeline,
    pub instruments: &'a mut Instruments,
    pub signals: &'a Signals,
    pub stopper: &'a Stopper,
    pub body: &'a mut dyn RunningTarget,
    pub observers: &'a mut [&'b mut dyn Observer],
    pub started_ns: u64,
    pub next: Next,
    pub log: SampleLog,
    pub interrupts: Vec<Duration>,
    /// Wait status and end of the main process.
    pub main: Option<(i32, u64)>,
    /// Whether the group may vanish at any moment.
    pub is_fleeting: bool,
    pub has_own_limit: bool,
    pub last: LastSeen,
}

impl Life<'_, '_> {
    fn elapsed(&self) -> Duration {
        Duration::from_nanos(monotonic_ns().saturating_sub(self.started_ns))
    }

    /// Waits until every process is gone.
    pub(super) fn watch(
        &mut self,
        spec: &Spec,
        id: RunId,
        recorder: &mut dyn Recorder,
    ) -> Result<RunEnd, Error> {
        self.next.chunk = CHUNK_EVERY;
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
                    let mut chunk = self.timeline.take();
                    chunk.extend(self.observers.iter_mut().flat_map(|observer| observer.series()));
                    recorder.samples(id, chunk);
                    self.next.chunk = now + CHUNK_EVERY;
                }
            }
            self.enforce(spec, now);
            let wake = self.wake(spec).saturating_sub(self.elapsed());
            let descriptors = [self.body.descriptor(), self.signals.descriptor(), self.stopper.descriptor()];
            let [report, signal, stop] = wait(descriptors, wake);
            if stop && let Some(signal) = self.stopper.take() {
                self.obey(Came { signal, from_terminal: false });
            }
            if signal {
                while let Some(came) = self.signals.next() {
                    self.obey(came);
                }
            }
            if !report {
                continue;
            }
            match self.body.report() {
                Report::MainEnded { status, time_ns } => {
                    self.main = Some((status, time_ns));
                    self.remember();
                    self.log.left_behind = self.walker.living(self.group).len() as u32;
                }
                Report::Rung { signal } => self.log.rungs.push(signal),
                Report::Gone { stuck, time_ns, own_cpu_ns, used } => {
                    let launcher_cpu = Duration::from_nanos(own_cpu_ns);
                    return Ok(RunEnd { gone_ns: time_ns, stuck, launcher_cpu, used });
                }
                Report::Lost => return Err(lost("watching the command")),
                Report::Ending => self.see_out(),
                Report::Started { .. } | Report::Failed { .. } | Report::Nothing => {}
            }
        }
    }

    /// Ends the run when its time is up, or what is left of it when the main process is over.
    fn enforce(&mut self, spec: &Spec, now: Duration) {
        if self.log.stopped != Stopped::No {
            return;
        }
        let main_ended = self.main.map(|(_, ns)| Duration::from_nanos(ns.saturating_sub(self.started_ns)));
        let reason = match main_ended {
            Some(ended) if now >= ended + spec.linger => Stopped::Lingering,
            None if spec.time_limit().is_some_and(|limit| now >= limit) => Stopped::Timeout,
            _ => return,
        };
        self.log.stopped = reason;
        self.body.climb(Rung::Interrupt);
    }

    /// When there is something to do next.
    fn wake(&self, spec: &Spec) -> Duration {
        let mut wake = self.next.sample;
        if self.watch.is_some() {
            wake = wake.min(self.next.events);
        }
        if self.log.stopped == Stopped::No {
            wake = match self.main {
                Some((_, ns)) => {
                    wake.min(Duration::from_nanos(ns.saturating_sub(self.started_ns)) + spec.linger)
                }
                None => spec.time_limit().map_or(wake, |limit| wake.min(limit)),
            };
        }
        wake
    }

    /// A terminal's INT or QUIT has reached the command already: it decides, as without us, unless the user
    /// insists. Anything else was meant for us, and the ladder starts.
    fn obey(&mut self, came: Came) {
        let now = self.elapsed();
        if came.from_terminal
            && self.body.hears_terminal()
            && matches!(came.signal, libc::SIGINT | libc::SIGQUIT)
        {
            self.interrupts.retain(|then| now.saturating_sub(*then) < Duration::from_secs(2));
            self.interrupts.push(now);
            if self.interrupts.len() < 3 {
                return;
            }
        }
        if self.log.stopped == Stopped::No {
            self.log.stopped = Stopped::Signal(came.signal);
            self.body.climb(if came.signal == libc::SIGINT { Rung::Interrupt } else { Rung::Terminate });
        } else {
            // Asked again: do not wait for the rest of the grace.
            self.body.climb(Rung::Kill);
        }
    }

    fn sample(&mut self, spec: &Spec, now: Duration) {
        if now > self.next.sample + spec.interval / 2 && self.timeline.samples > 0 {
            self.log.late += 1;
        }
        let whole = now >= self.next.parts;
        if whole {
            self.remember();
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
        self.log.peaks.anonymous = self.log.peaks.anonymous.max(sample.anonymous);
        self.log.peaks.file = self.log.peaks.file.max(sample.file);
        self.log.peaks.kernel = self.log.peaks.kernel.max(sample.kernel);
        self.timeline.add_use(now, &sample, walked.map(|w| w.processes));
        if now >= self.next.power && self.instruments.meters.has_power() {
            // Power that is integrated: what lies between two looks is lost, so these come oftener.
            self.instruments.meters.tick();
            self.next.power = now + POWER_EVERY.max(spec.interval);
        }
        if now >= self.next.host {
            self.timeline.add_host(now, &self.instruments.host.counters(), &self.instruments.host.reading());
            if !self.instruments.meters.is_empty() {
                self.instruments.meters.tick();
                self.timeline.add_energy(now, &self.instruments.meters.microjoules());
            }
            if !self.instruments.gpus.is_empty() {
                self.instruments.gpus.tick(&self.group.map(Group::members).unwrap_or_default());
                self.timeline.add_gpus(now, &self.instruments.gpus.looks());
            }
            self.next.host = now + HOST_EVERY.max(spec.interval);
        }
        let group = self.group;
        self.observers.iter_mut().for_each(|observer| observer.tick(now, group));
        // Ticks stay on their grid; those that were missed are not made up for.
        let behind =
            self.elapsed().saturating_sub(self.next.sample).as_nanos() / spec.interval.as_nanos().max(1);
        self.next.sample += spec.interval * (behind as u32 + 1);
    }

    /// What was used in all, and how far that can be trusted: as the group says it now, or said it last.
    pub(super) fn totals(&mut self) -> (Totals, Quality) {
        let now = self.group.map(Totals::read).unwrap_or_default();
        match now.cpu.is_none() && self.last.totals.cpu.is_some() {
            true => {
                let quality = if self.last.saw_end { Quality::Exact } else { Quality::Sampled };
                (std::mem::take(&mut self.last.totals), quality)
            }
            false => (now, Quality::Exact),
        }
    }

    /// Keeps what a group that may vanish says now.
    fn remember(&mut self) {
        let Some(group) = self.group.filter(|_| self.is_fleeting || self.has_own_limit) else { return };
        self.last.throttling = throttling(&group.around).or(self.last.throttling);
        if !self.is_fleeting {
            return;
        }
        let totals = Totals::read(group);
        if totals.cpu.is_some() || totals.peak_memory.is_some() {
            self.last.totals = totals;
        }
    }

    /// The main process has just ended: what a group that will vanish says is read to the last.
    fn see_out(&mut self) {
        self.remember();
        if let Some(group) = self.group.filter(|_| self.is_fleeting) {
            self.last.saw_end = self.last.totals.settle(group);
        }
    }

    /// The last rows of the time line, after the last process is gone.
    pub(super) fn last_look(&mut self, id: RunId, used: Option<&Usage>, recorder: &mut dyn Recorder) {
        let now = self.elapsed();
        if let Some(watch) = &mut self.watch {
            watch.drain();
        }
        let mut sample = self.meter.as_mut().map(|meter| meter.sample(true)).unwrap_or_default();
        if self.meter.as_ref().is_none_or(|meter| !meter.has_io()) {
            // What walks saw of living processes ends at what wait4 knows of all.
            sample.read = used.map(|used| used.blocks_in * 512);
            sample.written = used.map(|used| used.blocks_out * 512);
        }
        self.timeline.add_use(now, &sample, Some(0));
        self.timeline.add_host(now, &self.instruments.host.counters(), &self.instruments.host.reading());
        self.instruments.meters.tick();
        self.timeline.add_energy(now, &self.instruments.meters.microjoules());
        self.instruments.gpus.tick(&[]);
        self.timeline.add_gpus(now, &self.instruments.gpus.looks());
        recorder.samples(id, self.timeline.take());
    }
}

/// Periods and microseconds in which the group around the run was held back by a CPU limit.
pub(super) fn throttling(around: &Place) -> Option<(u64, u64)> {
    let folder = around.v1.get("cpu").or(around.v2.as_ref())?;
    let text = std::fs::read_to_string(folder.join("cpu.stat")).ok()?;
    let periods = metier_linux::file::keyed(&text, "nr_throttled")?;
    let micros = metier_linux::file::keyed(&text, "throttled_usec")
        .or_else(|| metier_linux::file::keyed(&text, "throttled_time").map(|nanos| nanos / 1000))?;
    Some((periods, micros))
}
