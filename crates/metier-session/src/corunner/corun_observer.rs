//! Observer of one run in a group of co-runners: logs its start and end, and finds the runs that
//! overlapped with it.

use metier_linux::wakeup::monotonic_ns;
use metier_measure::observer::StartedRun;
use metier_measure::{ArtefactKeeper, RunObserver};
use metier_types::{CoRunnerKind, ExtraFields, Run, RunId, RunPhase, RunWarning, Seconds};

use super::log::{CoRunEvent, CoRunLog, CoRunLogLine, RunGroupRole, overlapping_runs};

/// Membership of a run in a group of co-runners: its role and the group's log.
#[derive(Debug, Clone)]
pub struct CoRunMembership {
    /// Role of the run in the group.
    pub part: RunGroupRole,
    pub log: CoRunLog,
}

/// Observes one run of the group.
pub struct CoRunObserver<'a> {
    membership: &'a CoRunMembership,
    name: String,
    run: Option<RunId>,
    from_ns: u64,
    to_ns: u64,
    trouble: Option<String>,
}

impl<'a> CoRunObserver<'a> {
    /// `name` is the display name of the run.
    pub fn new(membership: &'a CoRunMembership, name: String) -> Self {
        Self { membership, name, run: None, from_ns: 0, to_ns: 0, trouble: None }
    }

    /// Appends an event to the group's log.
    pub fn log_event(&mut self, event: CoRunEvent, at_ns: u64) {
        let Some(run) = self.run else { return };
        let line = CoRunLogLine { run, name: self.name.clone(), part: self.membership.part, event, at_ns };
        if let Err(error) = self.membership.log.append_line(&line) {
            self.trouble.get_or_insert(error.to_string());
        }
    }
}

impl RunObserver for CoRunObserver<'_> {
    fn on_started(&mut self, started: StartedRun<'_>) {
        self.run = Some(started.run);
        self.from_ns = started.started_ns;
        self.log_event(CoRunEvent::Start, started.started_ns);
    }

    fn on_finish(&mut self, run: &mut Run, _: &mut ArtefactKeeper<'_>) {
        // The recorded end: a container engine reports the end later.
        let took = run.ended.map(|ended| ended.duration_since(run.started).unsigned_abs());
        self.to_ns = took.map_or_else(monotonic_ns, |took| self.from_ns + took.as_nanos() as u64);
        self.log_event(CoRunEvent::End, self.to_ns);
        let lines = self.membership.log.lines();
        let company = overlapping_runs(&lines, run.id, self.membership.part, self.from_ns, self.to_ns);
        run.context.neighbours =
            company.iter().filter(|c| c.role == CoRunnerKind::Neighbour).map(|c| c.run).collect();
        run.context.company = company;
        // The parent reads the output and may have logged the readiness.
        let ready = lines.iter().find(|line| line.run == run.id && line.event == CoRunEvent::Ready);
        if let Some(ready) = ready.filter(|_| run.context.phases.is_empty()) {
            run.context.phases.push(start_up_phase(ready.at_ns.saturating_sub(self.from_ns)));
        }
        if let Some(trouble) = self.trouble.take() {
            let text = format!("its list of co-runners may be incomplete: {trouble}");
            run.warnings.push(RunWarning::new("company", text));
        }
    }
}

/// The phase from the start of a run to its readiness.
pub fn start_up_phase(nanos: u64) -> RunPhase {
    RunPhase {
        name: "start-up".into(),
        from_seconds: Seconds(0.0),
        to_seconds: Seconds::from_nanos(nanos),
        extra: ExtraFields::new(),
    }
}
