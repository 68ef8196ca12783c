//! The repetitions of a checked run and their exit code.
//!
//! A batch ends early on a stop request, when a run cannot be started or stored, or at the first
//! failure if the run file sets `stop_on_failure`. Runs measured until then stay recorded.

use std::time::{Duration, Instant};

use metier_linux::signals;
use metier_measure::{Error, MeasureSession, RunRecorder, RunSpec};
use metier_types::random::SplitMix64;
use metier_types::{BatchId, ExitCause, ExtraFields, Run, RunAlternation, RunId};

use crate::corunner::log::RunGroupRole;
use crate::run_setup::{RunSetup, SetupOptions, record_unstarted};
use crate::runfile::CheckedRun;

/// Exit code of a batch when metier itself failed.
const EXIT_OWN_FAILURE: i32 = 125;
/// Exit code of a batch that a signal stopped.
const EXIT_INTERRUPTED: i32 = 130;

/// Identifiers that are fixed before a batch begins.
#[derive(Debug, Default)]
pub struct BatchIdentity {
    pub id: Option<BatchId>,
    /// Id of the first run that is not a warm-up.
    pub run: Option<RunId>,
}

/// Event in a batch.
pub enum BatchEvent<'a> {
    /// The preparation of dataset and co-runners is over, with or without success.
    Prepared,
    /// A run is over.
    Finished(&'a Run, Duration),
    /// A run finished, but its record could not be stored.
    Unkept(Error),
    /// A repetition could not be measured.
    Failed { repetition: u32, repetitions: u32, error: Error },
    /// A run never started, and why.
    Unstarted(&'a str),
}

/// The runs of a batch.
#[derive(Debug, Default)]
pub struct BatchResult {
    pub warmups: Vec<Run>,
    pub runs: Vec<Run>,
    /// The first exit code that was not 0.
    pub failure: Option<i32>,
    /// Whether the last run is not in the store.
    pub is_unkept: bool,
}

impl BatchResult {
    fn fail(&mut self, code: i32) {
        self.failure = self.failure.or((code != 0).then_some(code));
    }
}

/// Prepares dataset and co-runners, then measures the runs. If the preparation fails, the batch has
/// one run that never started, with the reason. An error before the first run is returned.
pub fn measure_batch(
    checked: &CheckedRun,
    options: SetupOptions<'_>,
    order: &BatchIdentity,
    session: &mut MeasureSession,
    recorder: &mut dyn RunRecorder,
    on_event: &mut dyn FnMut(BatchEvent<'_>),
) -> Result<BatchResult, Error> {
    let mut batch = BatchRunner::prepare(checked, options, order, session, recorder, on_event)?;
    for (warmup, repetition) in repetition_plan(checked) {
        if !batch.measure(warmup, repetition, None, session, recorder, on_event)? {
            break;
        }
    }
    Ok(batch.result)
}

/// Measures two batches by turns: a pair of runs at a time, in a random order within each pair.
/// Both have the warm-ups and repetitions of the first. They end together.
pub fn measure_by_turns(
    sides: [&CheckedRun; 2],
    options: [SetupOptions<'_>; 2],
    seed: u32,
    session: &mut MeasureSession,
    recorder: &mut dyn RunRecorder,
    on_event: &mut dyn FnMut(BatchEvent<'_>),
) -> Result<[BatchResult; 2], Error> {
    let ids = [BatchId::new(), BatchId::new()];
    let identity = |at: usize| BatchIdentity { id: Some(ids[at]), run: None };
    let [options_a, options_b] = options;
    let first = BatchRunner::prepare(sides[0], options_a, &identity(0), session, recorder, on_event)?;
    let mut batches = [first, BatchRunner::default()];
    if batches[0].setup.is_some() {
        batches[1] = BatchRunner::prepare(sides[1], options_b, &identity(1), session, recorder, on_event)?;
    }
    let mut random = SplitMix64::new(seed.into());
    'turns: for (warmup, turn) in repetition_plan(sides[0]) {
        let first = if warmup { 0 } else { random.next_below(2) };
        for (place, side) in [(1, first), (2, 1 - first)] {
            let alternation =
                RunAlternation { with: ids[1 - side], turn, place, seed, extra: ExtraFields::new() };
            let alternation = Some(alternation).filter(|_| !warmup);
            if !batches[side].measure(warmup, turn, alternation, session, recorder, on_event)? {
                break 'turns;
            }
        }
    }
    Ok(batches.map(|batch| batch.result))
}

/// Warm-ups, then repetitions, each with its number.
fn repetition_plan(checked: &CheckedRun) -> impl Iterator<Item = (bool, u32)> {
    (1..=checked.warmup).map(|n| (true, n)).chain((1..=checked.repeats).map(|n| (false, n)))
}

/// A batch under way.
#[derive(Default)]
struct BatchRunner<'a> {
    /// `None` if the preparation failed.
    setup: Option<(RunSetup<'a>, &'a CheckedRun, RunSpec)>,
    /// Id of the first run that is not a warm-up.
    first_id: Option<RunId>,
    part: Option<RunGroupRole>,
    result: BatchResult,
}

impl<'a> BatchRunner<'a> {
    fn prepare(
        checked: &'a CheckedRun,
        options: SetupOptions<'a>,
        order: &BatchIdentity,
        session: &mut MeasureSession,
        recorder: &mut dyn RunRecorder,
        on_event: &mut dyn FnMut(BatchEvent<'_>),
    ) -> Result<Self, Error> {
        let id = order.id.unwrap_or_else(BatchId::new);
        let part = options.membership.as_ref().map(|membership| membership.part);
        let mut batch = Self { part, first_id: order.run, ..Self::default() };
        let prepared = RunSetup::prepare(checked, options);
        on_event(BatchEvent::Prepared);
        let base = RunSpec { batch: id, is_company: part.is_some(), ..checked.spec.clone() };
        match prepared {
            Ok(setup) => batch.setup = Some((setup, checked, base)),
            Err(failure) => {
                let spec = RunSpec { id: order.run, repetitions: checked.repeats, ..base };
                let finished = record_unstarted(session, &spec, &failure.detail, recorder)?;
                on_event(BatchEvent::Unstarted(&failure.detail));
                let is_stopped = signals::take_pending_stop() || failure.is_stop;
                batch.result.fail(if is_stopped { EXIT_INTERRUPTED } else { EXIT_OWN_FAILURE });
                batch.result.is_unkept = finished.unkept.is_some();
                batch.result.runs.push(finished.run);
            }
        }
        Ok(batch)
    }

    /// Measures one run; returns whether the batch goes on.
    fn measure(
        &mut self,
        warmup: bool,
        repetition: u32,
        alternation: Option<RunAlternation>,
        session: &mut MeasureSession,
        recorder: &mut dyn RunRecorder,
        on_event: &mut dyn FnMut(BatchEvent<'_>),
    ) -> Result<bool, Error> {
        let Some((setup, checked, base)) = &mut self.setup else { return Ok(false) };
        let batch = &mut self.result;
        let repetitions = match self.part {
            // A neighbour repeats until the main run ends, so the number of repetitions is unknown.
            Some(RunGroupRole::Neighbour) => repetition,
            _ if warmup => checked.warmup,
            _ => checked.repeats,
        };
        let id = self.first_id.filter(|_| !warmup && repetition == 1);
        let spec = RunSpec { id, repetition, repetitions, warmup, alternation, ..base.clone() };
        let started = Instant::now();
        let finished = match setup.run(session, &spec, recorder) {
            Ok(finished) => finished,
            // A later failure does not discard the runs measured so far.
            Err(error) if !batch.runs.is_empty() => {
                on_event(BatchEvent::Failed { repetition, repetitions, error });
                batch.failure = Some(EXIT_OWN_FAILURE);
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        let code = run_exit_code(&finished.run);
        on_event(BatchEvent::Finished(&finished.run, started.elapsed()));
        batch.is_unkept = finished.unkept.is_some();
        if let Some(error) = finished.unkept {
            on_event(BatchEvent::Unkept(error));
            batch.failure = Some(EXIT_OWN_FAILURE);
        }
        batch.fail(code);
        // A run that could not start will not start at the next repetition either.
        let exit = finished.run.exit.as_ref().filter(|exit| exit.cause == ExitCause::Unstarted);
        let is_unstarted = exit.is_some();
        if let Some(exit) = exit {
            on_event(BatchEvent::Unstarted(exit.detail.as_deref().unwrap_or("for an unknown reason")));
            if signals::take_pending_stop() {
                batch.failure = Some(EXIT_INTERRUPTED);
            }
        }
        let runs = if warmup { &mut batch.warmups } else { &mut batch.runs };
        runs.push(finished.run);
        let is_failure = checked.file.stop_on_failure && code != 0;
        Ok(!(is_unstarted || batch.is_unkept || finished.stop.is_some() || is_failure))
    }
}

/// The exit code that represents a run.
pub fn run_exit_code(run: &Run) -> i32 {
    let Some(exit) = &run.exit else { return EXIT_OWN_FAILURE };
    let own = exit.code.or(exit.signal.map(|signal| 128 + signal));
    match exit.cause {
        _ if exit.planned => 0,
        ExitCause::Timeout => 124,
        ExitCause::Interrupted => EXIT_INTERRUPTED,
        ExitCause::Oom => own.filter(|code| *code != 0).unwrap_or(137),
        ExitCause::Exited | ExitCause::Signalled => own.unwrap_or(EXIT_OWN_FAILURE),
        ExitCause::Lost | ExitCause::Unstarted => EXIT_OWN_FAILURE,
    }
}
