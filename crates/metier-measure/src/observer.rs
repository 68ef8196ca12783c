//! Observers of a run beside the session itself: application messages, stack sampling, readiness.
//!
//! Before the start, an observer adds what the run needs. It is called at the start and at each
//! sample, and writes into the record before that is finished; afterwards a record never changes.
//! Losing an observer's part degrades the record and never stops the run, so none of its calls can
//! fail: the observer writes failures to `missing`. Calls come from the thread of the session's
//! loop and must be quick, except for the last two.

use std::io::Read;
use std::os::fd::{OwnedFd, RawFd};
use std::time::Duration;

use metier_types::{ArtefactRef, Run, RunId, RunWarning, Series};

use crate::spec::BindMount;
use crate::{RunRecorder, RunSpec};
use metier_linux::cgroup::RunCgroup;

/// What observers add to a run at its start.
#[derive(Debug, Default)]
pub struct ObserverProvision {
    /// Environment variables; those of the specification take precedence.
    pub environment: Vec<(String, String)>,
    /// Descriptors that a command inherits, each with its number there: 3 to 99; shells accept only
    /// one digit. The launcher also holds them until the end of the run: a reader of a pipe sees no
    /// end of file before. A container gets none.
    pub descriptors: Vec<(RawFd, OwnedFd)>,
    /// Bind mounts in addition to those of the specification. A command gets none.
    pub mounts: Vec<BindMount>,
}

/// A prepared run that has not been started.
#[derive(Debug, Clone, Copy)]
pub struct ReadyRun<'a> {
    pub run: RunId,
    /// Its control group, if there is one: empty, or with the waiting launcher in it.
    pub group: Option<&'a RunCgroup>,
    /// The process above the run that is not part of it, if there is one; the run is what it starts
    /// from now on.
    pub launcher: Option<u32>,
}

/// A run that has just started.
#[derive(Debug, Clone, Copy)]
pub struct StartedRun<'a> {
    pub run: RunId,
    /// Time just before its first instruction, by the monotonic clock.
    pub started_ns: u64,
    /// Its control group, if there is one; its [`RunCgroup::list_members`] are the run's processes.
    pub group: Option<&'a RunCgroup>,
    /// Its processes without a control group, or the first processes with one.
    pub pids: &'a [u32],
}

/// Observes a run.
pub trait RunObserver {
    /// Called before anything is started.
    fn prepare(&mut self, _run: RunId, _spec: &RunSpec, _provision: &mut ObserverProvision) {}
    /// Called when all is prepared and nothing of the run has been executed: an observer that must
    /// see the first instruction starts here.
    fn on_ready(&mut self, _ready: ReadyRun<'_>) {}
    /// The run has started.
    fn on_started(&mut self, _started: StartedRun<'_>) {}
    /// Called after a sample, with the time since the start.
    fn on_sample(&mut self, _since_start: Duration, _group: Option<&RunCgroup>) {}
    /// Takes the time line rows since the last call; called about once a second, and once more
    /// after [`RunObserver::on_ended`].
    fn take_series(&mut self) -> Vec<Series> {
        Vec::new()
    }
    /// The last process has ended; the control group still exists.
    fn on_ended(&mut self, _group: Option<&RunCgroup>) {}
    /// The run could not be started: everything that `prepare` created must be removed.
    fn on_cancelled(&mut self) {}
    /// Adds to the record, which has all figures of the session by now.
    fn on_finish(&mut self, _run: &mut Run, _keep: &mut ArtefactKeeper<'_>) {}
}

/// Stores files with a run whose record is being finished.
pub struct ArtefactKeeper<'a> {
    recorder: &'a mut dyn RunRecorder,
}

impl<'a> ArtefactKeeper<'a> {
    /// Stores into the recorder of the run.
    pub fn new(recorder: &'a mut dyn RunRecorder) -> Self {
        Self { recorder }
    }

    /// Stores a file under a name that is unique in the run: a later file of the same name replaces
    /// it. A failure becomes a warning in the record.
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
            // The recorder stores nothing, as the user requested.
            Ok(None) => false,
            Err(error) => {
                let text = format!("{name} could not be stored: {error}");
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
