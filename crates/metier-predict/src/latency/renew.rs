//! Learns again when new runs have arrived, and keeps the better predictor.
//!
//! Runs are taken as they come, and learned from when there are enough of them; both wait until nothing is being measured on the device: they
//! would disturb that; what only seems so, because its measuring program was killed, is marked first. While no run has arrived, a look costs two counts. What came of it is said in the log and stands in the predictor's
//! record (`because`).

use std::collections::BTreeSet;
use std::time::Duration;

use metier_linux::stop_request::StopRequest;
use metier_store::{RunFilter, Store};
use metier_types::{Device, Passport, RunId, RunState, Standing};

use super::conditions::{ONNX_RUNTIME, RTEN};
use super::fit::{self, Fitted};
use super::runs::{self, Taken};
use super::{Error, memory, under_way};

/// Points that are worth learning again; one of a graph that was never seen is, too.
const FRESH: usize = 5;
/// How often runs are looked for.
const EVERY: Duration = Duration::from_secs(60);
/// How long a wish to end waits at most.
const TICK: Duration = Duration::from_millis(200);

/// What there is to learn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Due {
    /// Nothing that the last one has not learned from.
    Nothing,
    /// Too little for it to be worth the while.
    Little { points: usize },
    Enough {
        points: usize,
        /// Graphs among them that the last one had never seen.
        graphs: usize,
    },
}

/// What is new since the predictor of a runtime was learned last.
pub fn due(store: &Store, device: &Device, runtime: &str) -> Result<Due, Error> {
    let last = fit::newest(store, &device.id, runtime)?;
    let known = fit::known(store, &device.id, runtime)?;
    let learned: BTreeSet<RunId> = last.iter().flat_map(|one| one.runs.iter().copied()).collect();
    let seen: BTreeSet<String> = last
        .iter()
        .filter_map(|one| one.extra.get("graphs")?.as_array())
        .flatten()
        .filter_map(|name| name.as_str().map(String::from))
        .collect();
    let fresh: Vec<_> =
        known.iter().filter(|one| one.run.is_some_and(|run| !learned.contains(&run))).collect();
    let graphs: BTreeSet<&str> =
        fresh.iter().map(|one| one.name.as_str()).filter(|name| !seen.contains(*name)).collect();
    Ok(match (fresh.len(), graphs.len()) {
        (0, _) => Due::Nothing,
        (points, 0) if points < FRESH => Due::Little { points },
        (points, graphs) => Due::Enough { points, graphs },
    })
}

/// Learns again when there is something new.
#[derive(Debug, Default)]
pub struct Renewal {
    /// What had arrived when all of it had been looked at.
    seen: Option<Arrived>,
    /// Runs that had been looked at when nothing was left to do.
    settled: Option<u64>,
}

/// Marks the runs of a device as interrupted whose measuring program is gone, and names them. The run engine does it
/// (`metier_measure::leftovers`), on which no predictor depends.
pub type SweepRuns<'a> = &'a dyn Fn(&Store, &Device) -> Result<Vec<RunId>, String>;

/// How many runs have ended, on whatever device, and the newest of them.
type Arrived = (u64, Option<RunId>);

impl Renewal {
    /// Takes new runs, and learns again for each runtime where enough is new.
    pub fn turn(
        &mut self,
        store: &Store,
        device: &Device,
        passport: Option<&Passport>,
        sweep: SweepRuns<'_>,
    ) -> Result<Vec<Fitted>, Error> {
        settle(store, device, sweep)?;
        // Before anything is taken: what arrives meanwhile is for the next time.
        let arrived = arrived(store)?;
        if self.seen == Some(arrived) {
            return Ok(Vec::new());
        }
        if is_measuring(store, device)? {
            tracing::debug!("new runs wait: something is being measured");
            return Ok(Vec::new());
        }
        let Taken { points, known, left_out } = runs::take(store, &device.id, false)?;
        // Runs of other devices that were imported move what is said of those.
        for other in store.devices()?.iter().filter(|other| other.id != device.id) {
            let taken = runs::take(store, &other.id, false)?;
            if taken.points > 0 {
                tracing::info!(points = taken.points, device = %other.name, "imported runs of graphs were taken");
            }
        }
        if points > 0 {
            tracing::info!(points, "runs of graphs were taken to learn from");
        }
        for (why, runs) in &left_out {
            tracing::debug!(runs, why, "runs of graphs teach nothing");
        }
        let looked = known + points + left_out.values().sum::<u64>();
        if self.settled == Some(looked) {
            self.seen = Some(arrived);
            return Ok(Vec::new());
        }
        let mut fitted = Vec::new();
        for runtime in [RTEN, ONNX_RUNTIME] {
            // A few additions: cheap enough for every time.
            if let Some(record) = memory::fit(store, device, runtime)? {
                let because = fit::because_of(&record).unwrap_or_default();
                tracing::info!(runtime, predictor = %record.id, because, "learned how much memory graphs need");
            }
            let Due::Enough { points, graphs } = due(store, device, runtime)? else { continue };
            if is_measuring(store, device)? {
                tracing::debug!(runtime, "learning waits: something is being measured");
                return Ok(fitted);
            }
            match fit::fit(store, device, passport.cloned(), runtime) {
                Ok(one) => {
                    let because = fit::because_of(&one.record).unwrap_or_default();
                    let is_used = one.record.standing == Standing::InUse;
                    let predictor = one.record.id;
                    tracing::info!(runtime, points, graphs, %predictor, is_used, because, "learned again");
                    fitted.push(one);
                }
                // Runs without times of operators are too little to begin with; they only move a predictor that is there.
                Err(Error::Learn(error @ metier_learn::Error::TooLittle { .. })) => {
                    tracing::info!(runtime, %error, "nothing was learned from new runs");
                }
                Err(error) => return Err(error),
            }
        }
        (self.seen, self.settled) = (Some(arrived), Some(looked));
        Ok(fitted)
    }
}

fn arrived(store: &Store) -> Result<Arrived, Error> {
    let filter = RunFilter { state: Some(RunState::Finished), limit: 1, ..RunFilter::default() };
    let found = store.runs(&filter)?;
    Ok((found.total, found.runs.first().map(|run| run.id)))
}

fn is_measuring(store: &Store, device: &Device) -> Result<bool, Error> {
    Ok(has_running(store, device)? || under_way::is_timing(store, device)?)
}

fn has_running(store: &Store, device: &Device) -> Result<bool, Error> {
    let filter = RunFilter {
        device: Some(device.id.to_string()),
        state: Some(RunState::Running),
        limit: 1,
        ..RunFilter::default()
    };
    Ok(store.runs(&filter)?.total > 0)
}

/// Marks runs whose measuring program was killed: they would be under way for ever, and nothing learned beside them.
fn settle(store: &Store, device: &Device, sweep: SweepRuns<'_>) -> Result<(), Error> {
    if !has_running(store, device)? {
        return Ok(());
    }
    match sweep(store, device) {
        Ok(runs) if runs.is_empty() => {}
        Ok(runs) => {
            tracing::info!(runs = runs.len(), "marked runs as interrupted whose measuring program is gone");
        }
        Err(error) => tracing::warn!(%error, "runs of programs that are gone could not be marked"),
    }
    Ok(())
}

/// Does so now and then, until it is asked to end, with what the processors have left over. Call it from a thread of its own.
pub fn keep(
    store: &Store,
    device: &Device,
    passport: &dyn Fn() -> Option<Passport>,
    sweep: SweepRuns<'_>,
    stop: &StopRequest,
) {
    // SAFETY: the call changes the priority of the calling thread and nothing else.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) } != 0 {
        tracing::debug!("learning has the priority of everything else");
    }
    let mut renewal = Renewal::default();
    while !stop.is_asked() {
        if let Err(error) = renewal.turn(store, device, passport().as_ref(), sweep) {
            tracing::warn!(%error, "nothing was learned from new runs; trying again");
        }
        let begin = std::time::Instant::now();
        while begin.elapsed() < EVERY && !stop.is_asked() {
            std::thread::sleep(TICK);
        }
    }
}

#[cfg(test)]
mod tests;
