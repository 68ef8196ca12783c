//! Runs and measures: prepares the run, starts it, observes it until its last process ends, reads
//! the exact counters, writes the record.
//!
//! The measured object is a [`RunningTarget`]; [`sample_loop`] is the loop around it,
//! [`crate::run_facts`] the result. The store writes in a thread of its own, so a slow disk never
//! delays a sample.

mod sample_loop;

use std::time::{Duration, Instant};

use metier_types::{ContentDigest, ProcessTree, Run, RunId, RunState, UtcTimestamp};

use crate::app::AppObserver;
use crate::instruments::HostInstruments;
use crate::launcher::LauncherProgram;
use crate::observer::{ArtefactKeeper, ObserverProvision, ReadyRun, RunObserver, StartedRun};
use crate::process_walker::ProcessWalker;
pub use crate::recorder::{NoRecorder, RunRecorder, StoreRecorder};
use crate::run_facts::{CollectedRunFacts, HostMoment, SampleLog, StopReason};
use crate::runner::container::ContainerContext;
use crate::runner::{command, container};
use crate::running_target::{PreparedRun, RunningTarget};
use crate::spec::RunTarget;
use crate::stacks::StackObserver;
use crate::stopper::SessionStopper;
use crate::target_facts::TargetFacts;
use crate::timeline::RunTimeline;
use crate::{Error, MeasureOptions, RunSpec, artefacts, record};
use metier_linux::cgroup::CgroupMeter;
use metier_linux::group_owner;
use metier_linux::process_events::{ProcessRoot, ProcessWatch};
use metier_linux::signals::StopSignals;
use metier_linux::wakeup::own_cpu_time;
use metier_stats::CorePeakTracker;
use sample_loop::{LastSeen, SampleLoop, SampleSchedule, read_throttling};

/// A request to stop the whole batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchStop {
    /// The received signal.
    pub signal: i32,
}

/// A finished run.
#[derive(Debug)]
pub struct FinishedRun {
    pub run: Run,
    pub tree: ProcessTree,
    /// Whether the batch should stop.
    pub stop: Option<BatchStop>,
    /// Why the recorder could not store the run, if it failed: the command ran, and this is its
    /// record.
    pub unkept: Option<Error>,
}

/// A requested run, with its recorder and its observers.
struct ObservedRun<'a, 'b> {
    spec: &'a RunSpec,
    id: RunId,
    asked: Instant,
    recorder: &'a mut dyn RunRecorder,
    observers: &'a mut [&'b mut dyn RunObserver],
}

impl<'a, 'b> ObservedRun<'a, 'b> {
    fn new(
        spec: &'a RunSpec,
        recorder: &'a mut dyn RunRecorder,
        observers: &'a mut [&'b mut dyn RunObserver],
    ) -> Self {
        let id = spec.id.unwrap_or_else(RunId::new);
        Self { spec, id, asked: Instant::now(), recorder, observers }
    }
}

/// State that all runs of a batch share.
pub struct MeasureSession {
    instruments: HostInstruments,
    program: LauncherProgram,
    signals: StopSignals,
    stopper: SessionStopper,
}

impl MeasureSession {
    /// Prepares what all runs share, and takes over INT, TERM, HUP and QUIT.
    pub fn open(options: MeasureOptions) -> Result<Self, Error> {
        let signals =
            StopSignals::take().map_err(|reason| Error::System { doing: "taking over signals", reason })?;
        let program = LauncherProgram::create(&options.runtime_dir)?;
        Ok(Self {
            instruments: HostInstruments::open(options),
            program,
            signals,
            stopper: SessionStopper::new()?,
        })
    }

    /// Stops this session's run from any thread, like a signal to this process.
    pub fn stopper(&self) -> SessionStopper {
        self.stopper.clone()
    }

    /// Runs and measures a specification.
    pub fn run(&mut self, spec: &RunSpec, recorder: &mut dyn RunRecorder) -> Result<FinishedRun, Error> {
        self.run_with_observers(spec, recorder, &mut [])
    }

    /// The observers that the specification requires. [`MeasureSession::run_with_observers`] adds
    /// them itself; a caller of [`MeasureSession::measure_foreign`] passes them.
    pub fn requested_observers(&self, spec: &RunSpec) -> Vec<Box<dyn RunObserver>> {
        let ears =
            (!spec.listen.is_empty()).then(|| AppObserver::new(&spec.listen, &self.instruments.options));
        let stacks = spec.stacks.map(StackObserver::new);
        let mut all: Vec<Box<dyn RunObserver>> = Vec::new();
        all.extend(ears.map(|ears| Box::new(ears) as Box<dyn RunObserver>));
        all.extend(stacks.map(|stacks| Box::new(stacks) as Box<dyn RunObserver>));
        all
    }

    /// Same as [`MeasureSession::run`], with observers in addition to those of the specification.
    pub fn run_with_observers(
        &mut self,
        spec: &RunSpec,
        recorder: &mut dyn RunRecorder,
        observers: &mut [&mut dyn RunObserver],
    ) -> Result<FinishedRun, Error> {
        let mut own = self.requested_observers(spec);
        let mut all: Vec<&mut dyn RunObserver> =
            own.iter_mut().map(|observer| &mut **observer as &mut dyn RunObserver).collect();
        all.extend(observers.iter_mut().map(|observer| &mut **observer as &mut dyn RunObserver));
        spec.validate()?;
        let input = spec.input.as_deref().map(metier_store::digest::digest_input).transpose()?;
        let mut run = ObservedRun::new(spec, recorder, &mut all);
        let mut provision = ObserverProvision::default();
        run.observers.iter_mut().for_each(|observer| observer.prepare(run.id, spec, &mut provision));
        let watch = ProcessWatch::open();
        let prepared = match &spec.target {
            RunTarget::Command(command) => {
                let (roots, mask) = (&self.instruments.options.roots, self.signals.previous_mask());
                command::prepare_command(roots, &self.program, mask, spec, command, run.id, &provision)
            }
            RunTarget::Container(asked) => {
                let shop = ContainerContext {
                    roots: &self.instruments.options.roots,
                    runtime_dir: &self.instruments.options.runtime_dir,
                    program: &self.program,
                    signals: &self.signals,
                    stopper: &self.stopper,
                };
                container::prepare_container(&shop, spec, asked, run.id, &provision)
            }
            RunTarget::Pod(pod) => {
                let want = "a command or a container: pods are run through a cluster";
                Err(Error::Spec { field: "target", got: format!("a pod of {}", pod.image), want })
            }
        };
        let ended = prepared.and_then(|prepared| self.measure_prepared(&mut run, prepared, watch));
        self.conclude_run(run, input, ended)
    }

    /// Measures a target that another program started and supervises, or another program's
    /// container with metier's launcher in it. `observers` are those of
    /// [`MeasureSession::requested_observers`] and the caller's own: none is added here.
    pub fn measure_foreign(
        &mut self,
        spec: &RunSpec,
        prepared: PreparedRun,
        recorder: &mut dyn RunRecorder,
        observers: &mut [&mut dyn RunObserver],
    ) -> Result<FinishedRun, Error> {
        spec.validate()?;
        let mut run = ObservedRun::new(spec, recorder, observers);
        let about = prepared.about.clone();
        let mut ended = self.measure_prepared(&mut run, prepared, ProcessWatch::open());
        if let Err(Error::Unstarted { about: empty, .. }) = &mut ended {
            **empty = about;
        }
        self.conclude_run(run, None, ended)
    }

    /// Waits until a descriptor is readable or the time is over. Returns whether it is readable,
    /// and a stop request if there was one.
    pub fn wait_for_descriptor(
        &self,
        descriptor: std::os::fd::RawFd,
        longest: Duration,
    ) -> (bool, Option<BatchStop>) {
        let all = [descriptor, self.signals.descriptor(), self.stopper.descriptor()];
        let [ready, signal, stop] = metier_linux::wakeup::wait_readable(all, longest);
        let asked = if stop { self.stopper.take_signal() } else { None };
        let asked = asked.or_else(|| if signal { self.signals.next().map(|came| came.signal) } else { None });
        (ready, asked.map(|signal| BatchStop { signal }))
    }

    /// The options of the session.
    pub fn options(&self) -> &MeasureOptions {
        &self.instruments.options
    }

    /// Stores the record of a run that never started, with the reason.
    pub fn record_unstarted(
        &mut self,
        spec: &RunSpec,
        id: RunId,
        about: &TargetFacts,
        detail: &str,
        recorder: &mut dyn RunRecorder,
    ) -> Result<FinishedRun, Error> {
        let mut run = record::unstarted_record(&self.instruments, spec, id, about, detail);
        recorder.begin_run(&Run { state: RunState::Running, ended: None, exit: None, ..run.clone() })?;
        run.verdict = Some(crate::verdict(&run));
        let tree = record::empty_process_tree(id);
        let unkept = recorder.finish_run(&mut run, &tree).err();
        Ok(FinishedRun { run, tree, stop: None, unkept })
    }

    /// Writes the record of a run that has ended or never started.
    fn conclude_run(
        &mut self,
        observed: ObservedRun<'_, '_>,
        input: Option<ContentDigest>,
        ended: Result<(CollectedRunFacts, Box<dyn RunningTarget>), Error>,
    ) -> Result<FinishedRun, Error> {
        let ObservedRun { spec, id, recorder, observers, .. } = observed;
        let (mut facts, mut body) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                observers.iter_mut().for_each(|observer| observer.on_cancelled());
                let Error::Unstarted { detail, about, stop } = error else { return Err(error) };
                let finished = self.record_unstarted(spec, id, &about, &detail, recorder)?;
                return Ok(FinishedRun { stop: stop.map(|signal| BatchStop { signal }), ..finished });
            }
        };
        let mut run = record::finish_record(&mut self.instruments, spec, &mut facts, input, recorder);
        let tree = facts.walker.build_tree(facts.id, facts.watch.as_ref().ok(), facts.started_ns);
        let mut keep = ArtefactKeeper::new(recorder);
        artefacts::collect_artefacts(spec, body.as_mut(), &mut run, &mut keep);
        // Before the observers: this releases a held container, whose supervisor then reports its
        // end.
        body.release();
        for observer in observers.iter_mut() {
            observer.on_finish(&mut run, &mut keep);
        }
        let unkept = recorder.finish_run(&mut run, &tree).err();
        let stop = match facts.log.stopped {
            StopReason::Signal(signal) => Some(BatchStop { signal }),
            // metier's own signal ladder sent the INT: the batch continues.
            StopReason::Timeout | StopReason::Lingering => None,
            // The terminal's INT ended the command: the user wants the whole batch to end.
            _ if record::terminating_signal(facts.status) == Some(libc::SIGINT) => {
                Some(BatchStop { signal: libc::SIGINT })
            }
            _ => None,
        };
        Ok(FinishedRun { run, tree, stop, unkept })
    }

    /// Starts a prepared run, observes it to its end and collects its facts.
    fn measure_prepared(
        &mut self,
        run: &mut ObservedRun<'_, '_>,
        prepared: PreparedRun,
        mut watch: Result<ProcessWatch, metier_types::MissingReason>,
    ) -> Result<(CollectedRunFacts, Box<dyn RunningTarget>), Error> {
        let (spec, id) = (run.spec, run.id);
        let PreparedRun { mut body, group, root, about, baseline, is_fleeting, has_own_limit } = prepared;
        watch.iter_mut().for_each(|watch| watch.watch_root(&root));
        let around = || group.as_ref().ok().and_then(|g| read_throttling(&g.around));
        let before = HostMoment { throttling: around(), host: self.instruments.host_moment() };
        self.instruments.meters.reset();
        self.instruments.gpus.reset();
        // Record the begin before the start: a store that cannot write must fail before anything
        // has happened.
        let begun = record::begin_record(&self.instruments, spec, id, UtcTimestamp::now(), &group, &about);
        if let Err(error) = run.recorder.begin_run(&begun) {
            body.release();
            return Err(error);
        }
        let launcher = match root {
            ProcessRoot::DescendantsOf(pid) => Some(pid),
            ProcessRoot::Processes(_) => None,
        };
        let ready = ReadyRun { run: id, group: group.as_ref().ok(), launcher };
        run.observers.iter_mut().for_each(|observer| observer.on_ready(ready));
        let started_ns = match body.start() {
            Ok(started_ns) => started_ns,
            Err(error) => {
                run.recorder.discard_run(id);
                body.release();
                return Err(error);
            }
        };
        let started = record::timestamp_of(started_ns);
        let startup = run.asked.elapsed();
        let own_before = own_cpu_time();
        let pids = match &root {
            ProcessRoot::DescendantsOf(_) => &[][..],
            ProcessRoot::Processes(pids) => pids,
        };
        let just_started = StartedRun { run: id, started_ns, group: group.as_ref().ok(), pids };
        run.observers.iter_mut().for_each(|observer| observer.on_started(just_started));
        let baseline = baseline.unwrap_or_default();
        let processors = self.instruments.options.device.cpu.threads;
        let mut life = SampleLoop {
            meter: group.as_ref().ok().map(|group| CgroupMeter::open(group, &baseline)),
            group: group.as_ref().ok(),
            walker: ProcessWalker::new(&self.instruments.options.roots.proc, &root, watch.is_ok()),
            watch: watch.as_mut().ok(),
            timeline: RunTimeline::new(
                id,
                &self.instruments.meters.microjoules().into_iter().map(|(name, _)| name).collect::<Vec<_>>(),
                self.instruments.gpus.names().len(),
            ),
            instruments: &mut self.instruments,
            signals: &self.signals,
            stopper: &self.stopper,
            body: body.as_mut(),
            observers: run.observers,
            started_ns,
            next: SampleSchedule::default(),
            log: SampleLog::default(),
            interrupts: Vec::new(),
            main: None,
            is_fleeting,
            has_own_limit,
            last: LastSeen::default(),
            core_peak: CorePeakTracker::new(processors),
        };
        let end = life.run_until_gone(spec, id, run.recorder).inspect_err(|_| {
            // Without the launcher, no other process ends the command; the run stays in the store
            // as interrupted.
            group.iter().for_each(group_owner::remove_group);
        })?;
        let (status, ended_ns) = life.main.unwrap_or((0, end.gone_ns));
        let (mut totals, totals_quality) = life.final_totals();
        if life.body.is_supervisor_in_group() {
            let own = end.launcher_cpu.as_secs_f64();
            totals.cpu = totals.cpu.map(|cpu| metier_types::Seconds((cpu.get() - own).max(0.0)));
        }
        life.record_final_row(id, end.used.as_ref(), run.recorder);
        let SampleLoop { walker, timeline, mut log, last, core_peak, .. } = life;
        log.samples = timeline.samples;
        log.peak_cores = core_peak.peak();
        let throttling = around().or(last.throttling);
        run.observers.iter_mut().for_each(|observer| observer.on_ended(group.as_ref().ok()));
        let rows: Vec<_> = run.observers.iter_mut().flat_map(|observer| observer.take_series()).collect();
        if !rows.is_empty() {
            run.recorder.record_samples(id, rows);
        }
        let after = HostMoment { throttling, host: self.instruments.host_moment() };
        let own_cpu = own_cpu_time().saturating_sub(own_before);
        let outcome = body.take_outcome();
        let status = record::resolve_wait_status(status, &root, watch.as_ref().ok());
        let facts = CollectedRunFacts {
            id,
            group,
            watch,
            walker,
            about,
            outcome,
            totals: totals.since(&baseline),
            totals_quality,
            started,
            started_ns,
            ended_ns,
            status,
            end,
            log,
            before,
            after,
            own_cpu,
            startup,
        };
        Ok((facts, body))
    }
}
