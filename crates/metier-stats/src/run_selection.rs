//! Selects the runs of a comparison: finished, successful, not warm-up. Others are listed with the
//! reason.

use std::collections::{BTreeMap, BTreeSet};

use metier_types::{ExitCause, Run, RunId, RunState};

use crate::comparison::{ExcludedRun, ExclusionReason};
use crate::{CompareOptions, Error};

/// Maximum number of runs per side; the time of a comparison grows with their square.
pub const MAX_RUNS: usize = 1000;

/// Why a run is excluded; `None` if it is included.
pub fn exclusion_reason(run: &Run, keep_failed: bool) -> Option<ExclusionReason> {
    use ExclusionReason::*;
    if run.is_counted() {
        return None;
    }
    if run.context.warmup {
        return Some(WarmUp);
    }
    match run.state {
        RunState::Running => return Some(Running),
        RunState::Interrupted => return Some(Interrupted),
        RunState::Finished => {}
    }
    let Some(exit) = &run.exit else { return Some(Interrupted) };
    match exit.cause {
        ExitCause::Timeout => Some(Timeout),
        ExitCause::Interrupted | ExitCause::Lost | ExitCause::Unstarted => Some(Interrupted),
        ExitCause::Exited | ExitCause::Signalled if keep_failed => None,
        ExitCause::Exited | ExitCause::Signalled | ExitCause::Oom => Some(Failed),
    }
}

/// Splits the runs of one side into included and excluded ones.
pub fn select_runs<'a>(
    side: &'static str,
    runs: &'a [Run],
    options: &CompareOptions,
    seen: &mut BTreeSet<RunId>,
) -> Result<(Vec<&'a Run>, Vec<ExcludedRun>), Error> {
    if runs.is_empty() {
        return Err(Error::NoRuns { side });
    }
    if runs.len() > MAX_RUNS {
        return Err(Error::TooManyRuns { side, given: runs.len(), most: MAX_RUNS });
    }
    if let Some(run) = runs.iter().find(|run| !seen.insert(run.id)) {
        return Err(Error::NamedTwice { run: run.id });
    }
    let mut selected = Vec::new();
    let mut left_out = Vec::new();
    for run in runs {
        match exclusion_reason(run, options.keep_failed) {
            None => selected.push(run),
            Some(because) => left_out.push(ExcludedRun { run: run.id, because }),
        }
    }
    if selected.is_empty() {
        return Err(Error::AllLeftOut { side, given: runs.len(), because: count_reasons(&left_out) });
    }
    // Sorted by id, so that the result does not depend on the order of the arguments.
    selected.sort_by_key(|run| run.id);
    left_out.sort_by_key(|out| out.run);
    Ok((selected, left_out))
}

/// Counts by reason: `2 failed, 1 warm-up`.
pub fn count_reasons(left_out: &[ExcludedRun]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for out in left_out {
        *counts.entry(out.because.word()).or_default() += 1;
    }
    let parts: Vec<String> = counts.iter().map(|(word, n)| format!("{n} {word}")).collect();
    parts.join(", ")
}
