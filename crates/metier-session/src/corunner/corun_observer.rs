//! One of the runs that keep each other company: says when it starts and ends, and finds out whom it met.

use metier_linux::wakeup::monotonic_ns;
use metier_measure::observer::StartedRun;
use metier_measure::{ArtefactKeeper, RunObserver};
use metier_types::{CoRunnerKind, ExtraFields, Run, RunId, RunPhase, RunWarning, Seconds};

use super::log::{CoRunEvent, CoRunLog, CoRunLogLine, RunGroupRole, overlapping_runs};

/// What a run is told when it is started as somebody's company: what it is there for, and where they talk.
#[derive(Debug, Clone)]
pub struct CoRunMembership {
    /// What it is there for.
    pub part: RunGroupRole,
    pub log: CoRunLog,
}

/// Looks on at one of the runs.
pub struct CoRunObserver<'a> {
    membership: &'a CoRunMembership,
    name: String,
    run: Option<RunId>,
    from_ns: u64,
    to_ns: u64,
    trouble: Option<String>,
}

impl<'a> CoRunObserver<'a> {
    /// For a run that people call so.
    pub fn new(membership: &'a CoRunMembership, name: String) -> Self {
        Self { membership, name, run: None, from_ns: 0, to_ns: 0, trouble: None }
    }

    /// Says that something happened.
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
        // The end that the record knows, which is earlier than the moment at which an engine tells it.
        let took = run.ended.map(|ended| ended.duration_since(run.started).unsigned_abs());
        self.to_ns = took.map_or_else(monotonic_ns, |took| self.from_ns + took.as_nanos() as u64);
        self.log_event(CoRunEvent::End, self.to_ns);
        let lines = self.membership.log.lines();
        let company = overlapping_runs(&lines, run.id, self.membership.part, self.from_ns, self.to_ns);
        run.context.neighbours =
            company.iter().filter(|c| c.role == CoRunnerKind::Neighbour).map(|c| c.run).collect();
        run.context.company = company;
        // Whoever reads its output may have seen that it was ready.
        let ready = lines.iter().find(|line| line.run == run.id && line.event == CoRunEvent::Ready);
        if let Some(ready) = ready.filter(|_| run.context.phases.is_empty()) {
            run.context.phases.push(start_up_phase(ready.at_ns.saturating_sub(self.from_ns)));
        }
        if let Some(trouble) = self.trouble.take() {
            let text = format!("its company may be incomplete: {trouble}");
            run.warnings.push(RunWarning::new("company", text));
        }
    }
}

/// The time until a run was ready.
pub fn start_up_phase(nanos: u64) -> RunPhase {
    RunPhase {
        name: "start-up".into(),
        from_seconds: Seconds(0.0),
        to_seconds: Seconds::from_nanos(nanos),
        extra: ExtraFields::new(),
    }
}
