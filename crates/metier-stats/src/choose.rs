//! Selects the runs of a comparison: finished, successful, not warm-up. Others are listed with the
//! reason.

use std::collections::{BTreeMap, BTreeSet};

use metier_types::{Cause, Run, RunId, RunState};

use crate::comparison::{LeftOut, LeftOutBecause};
use crate::{CompareOptions, Error};

/// Maximum number of runs per side; the time of a comparison grows with their square.
pub const MOST_RUNS: usize = 1000;

/// Why a run is excluded; `None` if it is included.
pub fn reason_to_leave_out(run: &Run, keep_failed: bool) -> Option<LeftOutBecause> {
    use LeftOutBecause::*;
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
        _ if exit.planned => None,
        Cause::Timeout => Some(Timeout),
        Cause::Interrupted | Cause::Lost | Cause::Unstarted => Some(Interrupted),
        Cause::Exited if exit.code == Some(0) || keep_failed => None,
        Cause::Signalled if keep_failed => None,
        Cause::Exited | Cause::Signalled | Cause::Oom => Some(Failed),
    }
}

/// Splits the runs of one side into included and excluded ones.
pub fn choose<'a>(
    side: &'static str,
    runs: &'a [Run],
    options: &CompareOptions,
    seen: &mut BTreeSet<RunId>,
) -> Result<(Vec<&'a Run>, Vec<LeftOut>), Error> {
    if runs.is_empty() {
        return Err(Error::NoRuns { side });
    }
    if runs.len() > MOST_RUNS {
        return Err(Error::TooManyRuns { side, given: runs.len(), most: MOST_RUNS });
    }
    if let Some(run) = runs.iter().find(|run| !seen.insert(run.id)) {
        return Err(Error::NamedTwice { run: run.id });
    }
    let mut kept = Vec::new();
    let mut left_out = Vec::new();
    for run in runs {
        match reason_to_leave_out(run, options.keep_failed) {
            None => kept.push(run),
            Some(because) => left_out.push(LeftOut { run: run.id, because }),
        }
    }
    if kept.is_empty() {
        return Err(Error::AllLeftOut { side, given: runs.len(), because: tally(&left_out) });
    }
    // Sorted by id, so that the result does not depend on the order of the arguments.
    kept.sort_by_key(|run| run.id);
    left_out.sort_by_key(|out| out.run);
    Ok((kept, left_out))
}

/// Counts by reason: `2 failed, 1 warm-up`.
pub fn tally(left_out: &[LeftOut]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for out in left_out {
        *counts.entry(out.because.word()).or_default() += 1;
    }
    let parts: Vec<String> = counts.iter().map(|(word, n)| format!("{n} {word}")).collect();
    parts.join(", ")
}
