//! Those who look on at a run beside the session itself: who listens to the application, who samples its stacks,
//! who waits for its readiness.
//!
//! An observer is asked before the start what the run should be given, told when it starts and at each sample,
//! and writes into the record before that is finished; afterwards a record never changes. Losing an observer's
//! part degrades the record and never stops the run, so none of its calls can fail: it says in `missing` what it
//! could not do. Calls come from the thread of the session's loop and must be quick, except for the last two.

use std::io::Read;
use std::os::fd::{OwnedFd, RawFd};
use std::time::Duration;

use metier_types::{ArtefactRef, Run, RunId, RunWarning, Series};

use crate::spec::BindMount;
use crate::{RunRecorder, RunSpec};
use metier_linux::cgroup::RunCgroup;

/// What a run is given at its start on behalf of observers.
#[derive(Debug, Default)]
pub struct ObserverProvision {
    /// Variables, set beside those of the specification, which win.
    pub environment: Vec<(String, String)>,
    /// Descriptors that a command inherits, and the number that each has there: 3 or more, and at most 99; shells take
    /// only one digit. The launcher holds them, too, until the end of the run: a reader of a pipe sees no end of file
    /// before that. A container gets none.
    pub descriptors: Vec<(RawFd, OwnedFd)>,
    /// What a container sees of this host beyond the mounts of the specification. A command gets none.
    pub mounts: Vec<BindMount>,
}

/// A run that waits to be let go.
#[derive(Debug, Clone, Copy)]
pub struct ReadyRun<'a> {
    pub run: RunId,
    /// Its control group, where it has one: empty, or with whoever waits in it.
    pub group: Option<&'a RunCgroup>,
    /// The process above the run that is not part of it, where there is one; the run is what it starts from now on.
    pub launcher: Option<u32>,
}

/// A run that has just started.
#[derive(Debug, Clone, Copy)]
pub struct StartedRun<'a> {
    pub run: RunId,
    /// Its first instruction by the monotonic clock.
    pub started_ns: u64,
    /// Its control group; its [`Group::members`] are its processes.
    pub group: Option<&'a RunCgroup>,
    /// Its processes where it has no group, or the first ones where it has.
    pub pids: &'a [u32],
}

/// Looks on at a run.
pub trait RunObserver {
    /// Before anything is started.
    fn prepare(&mut self, _run: RunId, _spec: &RunSpec, _provision: &mut ObserverProvision) {}
    /// All is there, and nothing of the run has been executed: what must see its first instruction looks from now on.
    fn on_ready(&mut self, _ready: ReadyRun<'_>) {}
    /// The run has started.
    fn on_started(&mut self, _started: StartedRun<'_>) {}
    /// A sample was taken, this long after the start.
    fn on_sample(&mut self, _since_start: Duration, _group: Option<&RunCgroup>) {}
    /// Rows of time lines since the last call; asked once a second or so, and once more after [`RunObserver::ended`].
    fn take_series(&mut self) -> Vec<Series> {
        Vec::new()
    }
    /// The last process is gone; the group is still there.
    fn on_ended(&mut self, _group: Option<&RunCgroup>) {}
    /// The run could not be started: whatever `prepare` made is to be taken away.
    fn on_cancelled(&mut self) {}
    /// The record has every figure of the session itself; what is to be added is added now.
    fn on_finish(&mut self, _run: &mut Run, _keep: &mut ArtefactKeeper<'_>) {}
}

/// Keeps files with a run whose record is being finished.
pub struct ArtefactKeeper<'a> {
    recorder: &'a mut dyn RunRecorder,
}

impl<'a> ArtefactKeeper<'a> {
    /// Where the run itself is kept.
    pub fn new(recorder: &'a mut dyn RunRecorder) -> Self {
        Self { recorder }
    }

    /// Keeps one, under a name that is unique in the run: a later one of the same name replaces it. A file that
    /// cannot be kept is a warning in the record.
    pub fn keep_artefact(
        &mut self,
        run: &mut Run,
        name: &str,
        media_type: &str,
        content: &mut dyn Read,
    ) -> bool {
        match self.recorder.store_artefact(run.id, name, media_type, content) {
            Ok(Some(artefact)) => {
                replace_artefact(run, artefact);
                true
            }
            // Nothing is kept at all, as the user wanted.
            Ok(None) => false,
            Err(error) => {
                let text = format!("{name} could not be kept: {error}");
                run.warnings.push(RunWarning::new("artefact-lost", text));
                false
            }
        }
    }
}

fn replace_artefact(run: &mut Run, artefact: ArtefactRef) {
    run.artefacts.retain(|other| other.name != artefact.name);
    run.artefacts.push(artefact);
}
