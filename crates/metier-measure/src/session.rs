//! Runs and measures: gets the run ready, lets it go, watches until its last process is gone, reads the exact
//! counters, writes the record.
//!
//! What runs is a [`RunningTarget`]; [`life`] is the loop around it, [`crate::facts`] what comes out. The store writes
//! in a thread of its own, so a slow disk never delays a sample.

mod life;

use std::time::{Duration, Instant};

use metier_types::{Digest, ProcessTree, Run, RunId, RunState, Timestamp};

use crate::app::Ears;
use crate::facts::{Facts, HostMoment, SampleLog, Stopped};
use crate::instruments::Instruments;
use crate::launch::Program;
use crate::observer::{Keep, Observer, Provision, Ready, Started};
pub use crate::recorder::{NoRecorder, Recorder, StoreRecorder};
use crate::runner::container::Workshop;
use crate::runner::{command, container};
use crate::running_target::{PreparedRun, RunningTarget};
use crate::spec::Target;
use crate::stacks::Stacks;
use crate::stop::Stopper;
use crate::target_facts::TargetFacts;
use crate::timeline::Timeline;
use crate::tree::Walker;
use crate::{Error, Options, Spec, artefacts, record};
use life::{LastSeen, Life, Next, throttling};
use metier_linux::cgroup::Meter;
use metier_linux::events::{ProcessRoot, Watch};
use metier_linux::group_owner;
use metier_linux::signals::Signals;
use metier_linux::wake::own_cpu;

/// Somebody asked the whole batch to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    /// The signal that asked.
    pub signal: i32,
}

/// A run that is over.
#[derive(Debug)]
pub struct Finished {
    pub run: Run,
    pub tree: ProcessTree,
    /// Whether the batch should stop.
    pub stop: Option<Stop>,
    /// Why the recorder could not keep the run, if it could not: the command ran, and here is its record.
    pub unkept: Option<Error>,
}

/// A run that is asked for, with its recorder and its observers.
struct ObservedRun<'a, 'b> {
    spec: &'a Spec,
    id: RunId,
    asked: Instant,
    recorder: &'a mut dyn Recorder,
    observers: &'a mut [&'b mut dyn Observer],
}

impl<'a, 'b> ObservedRun<'a, 'b> {
    fn new(
        spec: &'a Spec,
        recorder: &'a mut dyn Recorder,
        observers: &'a mut [&'b mut dyn Observer],
    ) -> Self {
        let id = spec.id.unwrap_or_else(RunId::new);
        Self { spec, id, asked: Instant::now(), recorder, observers }
    }
}

/// What all runs of a batch share.
pub struct Session {
    instruments: Instruments,
    program: Program,
    signals: Signals,
    stopper: Stopper,
}

impl Session {
    /// Gets everything ready that runs have in common, and takes over INT, TERM, HUP and QUIT.
    pub fn open(options: Options) -> Result<Self, Error> {
        let signals =
            Signals::take().map_err(|reason| Error::System { doing: "taking over signals", reason })?;
        let program = Program::make(&options.runtime_dir)?;
        Ok(Self { instruments: Instruments::open(options), program, signals, stopper: Stopper::new()? })
    }

    /// Stops whatever this session runs, from any thread: as a signal to us would.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Runs what the specification asks for and measures it.
    pub fn run(&mut self, spec: &Spec, recorder: &mut dyn Recorder) -> Result<Finished, Error> {
        self.run_with(spec, recorder, &mut [])
    }

    /// Those who look on because the specification asks for it. [`Session::run_with`] has them already; a caller of
    /// [`Session::measure`] passes them.
    pub fn observers(&self, spec: &Spec) -> Vec<Box<dyn Observer>> {
        let ears = (!spec.listen.is_empty()).then(|| Ears::new(&spec.listen, &self.instruments.options));
        let stacks = spec.stacks.map(Stacks::new);
        let mut all: Vec<Box<dyn Observer>> = Vec::new();
        all.extend(ears.map(|ears| Box::new(ears) as Box<dyn Observer>));
        all.extend(stacks.map(|stacks| Box::new(stacks) as Box<dyn Observer>));
        all
    }

    /// The same, with observers beside those that the specification asks for.
    pub fn run_with(
        &mut self,
        spec: &Spec,
        recorder: &mut dyn Recorder,
        observers: &mut [&mut dyn Observer],
    ) -> Result<Finished, Error> {
        let mut own = self.observers(spec);
        let mut all: Vec<&mut dyn Observer> =
            own.iter_mut().map(|observer| &mut **observer as &mut dyn Observer).collect();
        all.extend(observers.iter_mut().map(|observer| &mut **observer as &mut dyn Observer));
        spec.check()?;
        let input = spec.input.as_deref().map(metier_store::digest::of_input).transpose()?;
        let mut run = ObservedRun::new(spec, recorder, &mut all);
        let mut provision = Provision::default();
        run.observers.iter_mut().for_each(|observer| observer.prepare(run.id, spec, &mut provision));
        let watch = Watch::open();
        let prepared = match &spec.target {
            Target::Command(command) => {
                let (roots, mask) = (&self.instruments.options.roots, self.signals.mask_before());
                command::prepare(roots, &self.program, mask, spec, command, run.id, &provision)
            }
            Target::Container(asked) => {
                let shop = Workshop {
                    roots: &self.instruments.options.roots,
                    runtime_dir: &self.instruments.options.runtime_dir,
                    program: &self.program,
                    signals: &self.signals,
                    stopper: &self.stopper,
                };
                container::prepare(&shop, spec, asked, run.id, &provision)
            }
            Target::Pod(pod) => {
                let want = "a command or a container: pods are run through a cluster";
                Err(Error::Spec { field: "target", got: format!("a pod of {}", pod.image), want })
            }
        };
        let ended = prepared.and_then(|prepared| self.measure_prepared(&mut run, prepared, watch));
        self.conclude(run, input, ended)
    }

    /// Measures what another program started and looks after, or another program's container with our launcher in it.
    /// `observers` are those of [`Session::observers`] and the caller's own: none is added here.
    pub fn measure(
        &mut self,
        spec: &Spec,
        prepared: PreparedRun,
        recorder: &mut dyn Recorder,
        observers: &mut [&mut dyn Observer],
    ) -> Result<Finished, Error> {
        spec.check()?;
        let mut run = ObservedRun::new(spec, recorder, observers);
        let about = prepared.about.clone();
        let mut ended = self.measure_prepared(&mut run, prepared, Watch::open());
        if let Err(Error::Unstarted { about: empty, .. }) = &mut ended {
            **empty = about;
        }
        self.conclude(run, None, ended)
    }

    /// Waits until a descriptor has something, or for so long. Says whether it has, and whether somebody asked us to stop.
    pub fn wait_for(&self, descriptor: std::os::fd::RawFd, longest: Duration) -> (bool, Option<Stop>) {
        let all = [descriptor, self.signals.descriptor(), self.stopper.descriptor()];
        let [ready, signal, stop] = metier_linux::wake::wait(all, longest);
        let asked = if stop { self.stopper.take() } else { None };
        let asked = asked.or_else(|| if signal { self.signals.next().map(|came| came.signal) } else { None });
        (ready, asked.map(|signal| Stop { signal }))
    }

    /// Where the kernel's file systems are, and a private folder.
    pub fn options(&self) -> &Options {
        &self.instruments.options
    }

    /// Keeps the record of a run that never started, with the reason.
    pub fn unstarted(
        &mut self,
        spec: &Spec,
        id: RunId,
        about: &TargetFacts,
        detail: &str,
        recorder: &mut dyn Recorder,
    ) -> Result<Finished, Error> {
        let mut run = record::unstarted(&self.instruments, spec, id, about, detail);
        recorder.begin(&Run { state: RunState::Running, ended: None, exit: None, ..run.clone() })?;
        run.verdict = Some(crate::verdict(&run));
        let tree = record::no_processes(id);
        let unkept = recorder.finish(&mut run, &tree).err();
        Ok(Finished { run, tree, stop: None, unkept })
    }

    /// Puts a run that is over, or that never started, into its record.
    fn conclude(
        &mut self,
        observed: ObservedRun<'_, '_>,
        input: Option<Digest>,
        ended: Result<(Facts, Box<dyn RunningTarget>), Error>,
    ) -> Result<Finished, Error> {
        let ObservedRun { spec, id, recorder, observers, .. } = observed;
        let (mut facts, mut body) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                observers.iter_mut().for_each(|observer| observer.cancelled());
                let Error::Unstarted { detail, about, stop } = error else { return Err(error) };
                let finished = self.unstarted(spec, id, &about, &detail, recorder)?;
                return Ok(Finished { stop: stop.map(|signal| Stop { signal }), ..finished });
            }
        };
        let mut run = record::of(&mut self.instruments, spec, &mut facts, input, recorder);
        let tree = facts.walker.tree(facts.id, facts.watch.as_ref().ok(), facts.started_ns);
        let mut keep = Keep::new(recorder);
        artefacts::collect(spec, body.as_mut(), &mut run, &mut keep);
        // Before the observers: a container that was held may end now, and who looks after it hears of it.
        body.release();
        for observer in observers.iter_mut() {
            observer.finish(&mut run, &mut keep);
        }
        let unkept = recorder.finish(&mut run, &tree).err();
        let stop = match facts.log.stopped {
            Stopped::Signal(signal) => Some(Stop { signal }),
            // The INT was our own ladder's, and nobody's wish that the batch ends.
            Stopped::Timeout | Stopped::Lingering => None,
            // A command that the terminal's INT ended: the user wants the whole batch to end.
            _ if record::ended_by_signal(facts.status) == Some(libc::SIGINT) => {
                Some(Stop { signal: libc::SIGINT })
            }
            _ => None,
        };
        Ok(Finished { run, tree, stop, unkept })
    }

    /// Lets a prepared run start, watches it to its end and gathers what was found out.
    fn measure_prepared(
        &mut self,
        run: &mut ObservedRun<'_, '_>,
        prepared: PreparedRun,
        mut watch: Result<Watch, metier_types::Missing>,
    ) -> Result<(Facts, Box<dyn RunningTarget>), Error> {
        let (spec, id) = (run.spec, run.id);
        let PreparedRun { mut body, group, root, about, baseline, is_fleeting, has_own_limit } = prepared;
        watch.iter_mut().for_each(|watch| watch.follow(&root));
        let around = || group.as_ref().ok().and_then(|g| throttling(&g.around));
        let before = HostMoment { throttling: around(), host: self.instruments.host_moment() };
        self.instruments.meters.start();
        self.instruments.gpus.start();
        // Before it starts: a store that cannot keep the run is told before anything has happened.
        let begun = record::begun(&self.instruments, spec, id, Timestamp::now(), &group, &about);
        if let Err(error) = run.recorder.begin(&begun) {
            body.release();
            return Err(error);
        }
        let launcher = match root {
            ProcessRoot::Below(pid) => Some(pid),
            ProcessRoot::These(_) => None,
        };
        let ready = Ready { run: id, group: group.as_ref().ok(), launcher };
        run.observers.iter_mut().for_each(|observer| observer.ready(ready));
        let started_ns = match body.start() {
            Ok(started_ns) => started_ns,
            Err(error) => {
                run.recorder.forget(id);
                body.release();
                return Err(error);
            }
        };
        let started = record::timestamp_of(started_ns);
        let startup = run.asked.elapsed();
        let own_before = own_cpu();
        let pids = match &root {
            ProcessRoot::Below(_) => &[][..],
            ProcessRoot::These(pids) => pids,
        };
        let just_started = Started { run: id, started_ns, group: group.as_ref().ok(), pids };
        run.observers.iter_mut().for_each(|observer| observer.started(just_started));
        let baseline = baseline.unwrap_or_default();
        let mut life = Life {
            meter: group.as_ref().ok().map(|group| Meter::open(group, &baseline)),
            group: group.as_ref().ok(),
            walker: Walker::new(&self.instruments.options.roots.proc, &root, watch.is_ok()),
            watch: watch.as_mut().ok(),
            timeline: Timeline::new(
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
            next: Next::default(),
            log: SampleLog::default(),
            interrupts: Vec::new(),
            main: None,
            is_fleeting,
            has_own_limit,
            last: LastSeen::default(),
        };
        let end = life.watch(spec, id, run.recorder).inspect_err(|_| {
            // Without the launcher nobody else ends the command; the run stays in the store as interrupted.
            group.iter().for_each(group_owner::end_group);
        })?;
        let (status, ended_ns) = life.main.unwrap_or((0, end.gone_ns));
        let (mut totals, totals_quality) = life.totals();
        if life.body.is_inside() {
            let own = end.launcher_cpu.as_secs_f64();
            totals.cpu = totals.cpu.map(|cpu| metier_types::Seconds((cpu.get() - own).max(0.0)));
        }
        life.last_look(id, end.used.as_ref(), run.recorder);
        let Life { walker, timeline, mut log, last, .. } = life;
        log.samples = timeline.samples;
        let throttling = around().or(last.throttling);
        run.observers.iter_mut().for_each(|observer| observer.ended(group.as_ref().ok()));
        let rows: Vec<_> = run.observers.iter_mut().flat_map(|observer| observer.series()).collect();
        if !rows.is_empty() {
            run.recorder.samples(id, rows);
        }
        let after = HostMoment { throttling, host: self.instruments.host_moment() };
        let own_cpu = own_cpu().saturating_sub(own_before);
        let outcome = body.outcome();
        let status = record::true_status(status, &root, watch.as_ref().ok());
        let facts = Facts {
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
