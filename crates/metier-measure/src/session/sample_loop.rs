//! The loop between a run's first instruction and the end of its last process. One thread waits for
//! reports, signals, stop requests and the next sample. It polls nothing more often than the user
//! asked for.

use std::time::Duration;

use metier_types::{RunId, ValueQuality};

use crate::instruments::HostInstruments;
use crate::observer::RunObserver;
use crate::process_walker::ProcessWalker;
use crate::run_facts::{QuotaCounters, RunEnd, SampleLog, StopReason};
use crate::runner::command::launcher_lost_error;
use crate::running_target::{ProcessUsage, RunningTarget, SignalRung, TargetReport};
use crate::stopper::SessionStopper;
use crate::timeline::RunTimeline;
use crate::{Error, RunRecorder, RunSpec};
use metier_linux::cgroup::{CgroupMembership, CgroupMeter, CgroupSample, CgroupTotals, RunCgroup};
use metier_linux::kernel_file::keyed_value;
use metier_linux::process_events::ProcessWatch;
use metier_linux::signals::{ReceivedSignal, StopSignals};
use metier_linux::wakeup::{monotonic_ns, wait_readable};
use metier_stats::CorePeakTracker;

/// Interval of host state samples.
const HOST_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of writes to the store; a kill loses at most this much.
const CHUNK_INTERVAL: Duration = Duration::from_millis(900);
/// Minimum interval of memory part samples.
const MEMORY_PARTS_INTERVAL: Duration = Duration::from_millis(200);
/// Interval of power readings for meters without an energy counter.
const POWER_INTERVAL: Duration = Duration::from_millis(200);
/// Interval of process event collection on a quiet host.
const EVENTS_INTERVAL: Duration = Duration::from_secs(1);

/// Due times of the next actions, since the start of the run.
#[derive(Default)]
pub(super) struct SampleSchedule {
    sample: Duration,
    parts: Duration,
    host: Duration,
    power: Duration,
    chunk: Duration,
    events: Duration,
}

/// Last counters of a control group that may vanish.
#[derive(Default)]
pub(super) struct LastSeen {
    totals: CgroupTotals,
    /// Whether they were read after its last process had ended.
    saw_end: bool,
    pub throttling: Option<QuotaCounters>,
}

/// A run between its first instruction and the end of its last process.
pub(super) struct SampleLoop<'a, 'b> {
    pub meter: Option<CgroupMeter>,
    pub group: Option<&'a RunCgroup>,
    pub walker: ProcessWalker,
    pub watch: Option<&'a mut ProcessWatch>,
    pub timeline: RunTimeline,
    pub instruments: &'a mut HostInstruments,
    pub signals: &'a StopSignals,
    pub stopper: &'a SessionStopper,
    pub body: &'a mut dyn RunningTarget,
    pub observers: &'a mut [&'b mut dyn RunObserver],
    pub started_ns: u64,
    pub next: SampleSchedule,
    pub log: SampleLog,
    pub interrupts: Vec<Duration>,
    /// Wait status and end of the main process.
    pub main: Option<(i32, u64)>,
    /// Whether the control group may vanish at any moment.
    pub is_fleeting: bool,
    pub has_own_limit: bool,
    pub last: LastSeen,
    pub core_peak: CorePeakTracker,
}

impl SampleLoop<'_, '_> {
    fn elapsed(&self) -> Duration {
        Duration::from_nanos(monotonic_ns().saturating_sub(self.started_ns))
    }

    /// Waits until every process has ended.
    pub(super) fn run_until_gone(
        &mut self,
        spec: &RunSpec,
        id: RunId,
        recorder: &mut dyn RunRecorder,
    ) -> Result<RunEnd, Error> {
        self.next.chunk = CHUNK_INTERVAL;
        loop {
            let now = self.elapsed();
            // Together with a sample before it is due, which saves a wake-up.
            let is_sample = now >= self.next.sample;
            if now >= self.next.events || (is_sample && now + spec.interval > self.next.events) {
                let messages: u64 = self.watch.iter_mut().map(|watch| watch.drain()).sum();
                // The sockets hold about ten thousand messages; read them more often on a busy
                // host.
                let hurry = (messages / 100).clamp(1, 10) as u32;
                self.next.events = now + EVENTS_INTERVAL / hurry;
            }
            if is_sample {
                self.take_sample(spec, now);
                if now >= self.next.chunk {
                    let mut chunk = self.timeline.take_chunk();
                    chunk.extend(self.observers.iter_mut().flat_map(|observer| observer.take_series()));
                    recorder.record_samples(id, chunk);
                    self.next.chunk = now + CHUNK_INTERVAL;
                }
            }
            self.enforce_time_limits(spec, now);
            let wake = self.next_wake(spec).saturating_sub(self.elapsed());
            let descriptors = [self.body.descriptor(), self.signals.descriptor(), self.stopper.descriptor()];
            let [report, signal, stop] = wait_readable(descriptors, wake);
            if stop && let Some(signal) = self.stopper.take_signal() {
                self.handle_signal(ReceivedSignal { signal, from_terminal: false });
            }
            if signal {
                while let Some(came) = self.signals.next() {
                    self.handle_signal(came);
                }
            }
            if !report {
                continue;
            }
            match self.body.next_report() {
                TargetReport::MainEnded { status, time_ns } => {
                    self.main = Some((status, time_ns));
                    self.save_totals();
                    self.log.left_behind = self.walker.living_pids(self.group).len() as u32;
                }
                TargetReport::Rung { signal } => self.log.rungs.push(signal),
                TargetReport::Gone { stuck, time_ns, own_cpu_ns, used } => {
                    let launcher_cpu = Duration::from_nanos(own_cpu_ns);
                    return Ok(RunEnd { gone_ns: time_ns, stuck, launcher_cpu, used });
                }
                TargetReport::Lost => return Err(launcher_lost_error("watching the command")),
                TargetReport::Ending => self.read_final_totals(),
                TargetReport::Started { .. } | TargetReport::Failed { .. } | TargetReport::Nothing => {}
            }
        }
    }

    /// Ends the run at its time limit, or its remaining processes after the main process has ended.
    fn enforce_time_limits(&mut self, spec: &RunSpec, now: Duration) {
        if self.log.stopped != StopReason::NotStopped {
            return;
        }
        let main_ended = self.main.map(|(_, ns)| Duration::from_nanos(ns.saturating_sub(self.started_ns)));
        let reason = match main_ended {
            Some(ended) if now >= ended + spec.linger => StopReason::Lingering,
            None if spec.time_limit().is_some_and(|limit| now >= limit) => StopReason::Timeout,
            _ => return,
        };
        self.log.stopped = reason;
        self.body.escalate(SignalRung::Interrupt);
    }

    /// Time of the next action.
    fn next_wake(&self, spec: &RunSpec) -> Duration {
        let mut wake = self.next.sample;
        if self.watch.is_some() {
            wake = wake.min(self.next.events);
        }
        if self.log.stopped == StopReason::NotStopped {
            wake = match self.main {
                Some((_, ns)) => {
                    wake.min(Duration::from_nanos(ns.saturating_sub(self.started_ns)) + spec.linger)
                }
                None => spec.time_limit().map_or(wake, |limit| wake.min(limit)),
            };
        }
        wake
    }

    /// A terminal's INT or QUIT has already reached the command, which decides as it would without
    /// metier, unless the user repeats it. Any other signal was meant for metier and starts the
    /// ladder.
    fn handle_signal(&mut self, came: ReceivedSignal) {
        let now = self.elapsed();
        if came.from_terminal
            && self.body.receives_terminal_signals()
            && matches!(came.signal, libc::SIGINT | libc::SIGQUIT)
        {
            self.interrupts.retain(|then| now.saturating_sub(*then) < Duration::from_secs(2));
            self.interrupts.push(now);
            if self.interrupts.len() < 3 {
                return;
            }
        }
        if self.log.stopped == StopReason::NotStopped {
            self.log.stopped = StopReason::Signal(came.signal);
            self.body.escalate(if came.signal == libc::SIGINT {
                SignalRung::Interrupt
            } else {
                SignalRung::Terminate
            });
        } else {
            // Repeated request: do not wait for the rest of the grace time.
            self.body.escalate(SignalRung::Kill);
        }
    }

    fn take_sample(&mut self, spec: &RunSpec, now: Duration) {
        if now > self.next.sample + spec.interval / 2 && self.timeline.samples > 0 {
            self.log.late += 1;
        }
        let whole = now >= self.next.parts;
        if whole {
            self.save_totals();
            self.next.parts = now + spec.interval.max(MEMORY_PARTS_INTERVAL) - spec.interval / 2;
        }
        // As close to the reading as possible: what was done since `now` would count as use.
        let at = self.elapsed();
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
        self.add_usage(at, &sample, walked.map(|w| w.processes));
        if now >= self.next.power && self.instruments.meters.has_power_sensor() {
            // Power is integrated between readings, so these are more frequent.
            self.instruments.meters.sample();
            self.next.power = now + POWER_INTERVAL.max(spec.interval);
        }
        if now >= self.next.host {
            self.timeline.add_host(
                now,
                &self.instruments.host.read_counters(),
                &self.instruments.host.read(),
            );
            if !self.instruments.meters.is_empty() {
                self.instruments.meters.sample();
                self.timeline.add_energy(now, &self.instruments.meters.microjoules());
            }
            if !self.instruments.gpus.is_empty() {
                self.instruments.gpus.sample(&self.group.map(RunCgroup::list_members).unwrap_or_default());
                self.timeline.add_gpus(now, &self.instruments.gpus.latest_readings());
            }
            self.next.host = now + HOST_INTERVAL.max(spec.interval);
        }
        let group = self.group;
        self.observers.iter_mut().for_each(|observer| observer.on_sample(now, group));
        // Samples stay on their time grid; missed samples are skipped.
        let behind =
            self.elapsed().saturating_sub(self.next.sample).as_nanos() / spec.interval.as_nanos().max(1);
        self.next.sample += spec.interval * (behind as u32 + 1);
    }

    fn add_usage(&mut self, at: Duration, sample: &CgroupSample, processes: Option<u64>) {
        if let Some(cpu_ns) = sample.cpu_ns {
            self.core_peak.add_reading(at.as_nanos() as i64, cpu_ns);
        }
        self.timeline.add_usage(at, sample, processes);
    }

    /// Total use with its quality: the control group's present counters, or its last stored ones.
    pub(super) fn final_totals(&mut self) -> (CgroupTotals, ValueQuality) {
        let now = self.group.map(CgroupTotals::read).unwrap_or_default();
        match now.cpu.is_none() && self.last.totals.cpu.is_some() {
            true => {
                let quality = if self.last.saw_end { ValueQuality::Exact } else { ValueQuality::Sampled };
                (std::mem::take(&mut self.last.totals), quality)
            }
            false => (now, ValueQuality::Exact),
        }
    }

    /// Stores the present counters of a control group that may vanish.
    fn save_totals(&mut self) {
        let Some(group) = self.group.filter(|_| self.is_fleeting || self.has_own_limit) else { return };
        self.last.throttling = read_throttling(&group.around).or(self.last.throttling);
        if !self.is_fleeting {
            return;
        }
        let totals = CgroupTotals::read(group);
        if totals.cpu.is_some() || totals.peak_memory.is_some() {
            self.last.totals = totals;
        }
    }

    /// The main process has just ended: reads the final counters of a control group that will
    /// vanish.
    fn read_final_totals(&mut self) {
        self.save_totals();
        if let Some(group) = self.group.filter(|_| self.is_fleeting) {
            self.last.saw_end = self.last.totals.read_until_settled(group);
        }
    }

    /// The last rows of the time line, after the last process has ended.
    pub(super) fn record_final_row(
        &mut self,
        id: RunId,
        used: Option<&ProcessUsage>,
        recorder: &mut dyn RunRecorder,
    ) {
        let now = self.elapsed();
        if let Some(watch) = &mut self.watch {
            watch.drain();
        }
        let mut sample = self.meter.as_mut().map(|meter| meter.sample(true)).unwrap_or_default();
        if self.meter.as_ref().is_none_or(|meter| !meter.has_io()) {
            // Sampled values of living processes end at the totals of wait4.
            sample.read = used.map(|used| used.blocks_in * 512);
            sample.written = used.map(|used| used.blocks_out * 512);
        }
        self.add_usage(now, &sample, Some(0));
        self.timeline.add_host(now, &self.instruments.host.read_counters(), &self.instruments.host.read());
        self.instruments.meters.sample();
        self.timeline.add_energy(now, &self.instruments.meters.microjoules());
        self.instruments.gpus.sample(&[]);
        self.timeline.add_gpus(now, &self.instruments.gpus.latest_readings());
        recorder.record_samples(id, self.timeline.take_chunk());
    }
}

/// Reads the CPU quota's counters of the surrounding control group.
pub(super) fn read_throttling(around: &CgroupMembership) -> Option<QuotaCounters> {
    let folder = around.v1.get("cpu").or(around.v2.as_ref())?;
    let text = std::fs::read_to_string(folder.join("cpu.stat")).ok()?;
    let throttled_us = keyed_value(&text, "throttled_usec")
        .or_else(|| keyed_value(&text, "throttled_time").map(|nanos| nanos / 1000))?;
    Some(QuotaCounters {
        periods: keyed_value(&text, "nr_periods")?,
        throttled_periods: keyed_value(&text, "nr_throttled")?,
        throttled_us,
    })
}
