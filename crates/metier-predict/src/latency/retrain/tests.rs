use metier_store::OwnerProcess;
use metier_types::{Predictor, Run, RunState};
use serde_json::json;

use super::*;
use crate::latency::compare_predictors;
use crate::latency::run_trials::tests::Place;
use crate::lifecycle::retrain::{PredictorRetrainer, RunSweeper};
use crate::lifecycle::training_lock::TrainingLock;

fn of(place: &Place, id: &metier_types::ContentDigest) -> Predictor {
    place.store.predictor(id).unwrap().unwrap()
}

/// Sets the held-out error of each graph in a predictor's record.
fn claim(place: &Place, id: &metier_types::ContentDigest, error: f64) {
    let mut record = of(place, id);
    record.standing = PredictorStanding::InUse;
    let held = &mut record.held_out[0];
    let graphs = held.extra[compare_predictors::ERROR_BY_GRAPH_FIELD].as_object_mut().unwrap();
    graphs.values_mut().for_each(|of| *of = json!(error));
    place.store.update_predictor(&record).unwrap();
}

fn new_retrainer() -> PredictorRetrainer<LatencyRetraining<'static>> {
    PredictorRetrainer::new(LatencyRetraining { passport: &|| None })
}

/// Marks runs without a process as interrupted, like the run engine.
const SWEEP: RunSweeper<'static> = &|store, device| {
    let is_alive = |owner: &OwnerProcess| {
        metier_device::process_owner::is_owner_alive(&metier_linux::KernelRoots::default(), owner)
    };
    store.mark_interrupted_runs(device.id.as_str(), &is_alive).map_err(|error| error.to_string())
};

#[test]
fn a_run_of_a_graph_never_seen_is_learned_from_once() {
    let place = Place::new();
    place.trials(0..8);
    fit::fit(&place.store, &place.device, None, RTEN).unwrap();
    let mut retrainer = new_retrainer();
    assert_eq!(retrainer.turn(&place.store, &place.device, SWEEP).unwrap(), Vec::new());
    let run = place.run(20, 0.01, |_| ());
    let fitted = retrainer.turn(&place.store, &place.device, SWEEP).unwrap();
    assert_eq!(fitted.len(), 1);
    assert_eq!(fitted[0].record.runs, [run.id]);
    assert!(standing::reason(&fitted[0].record).is_some_and(|why| !why.is_empty()));
    assert_eq!(retrainer.turn(&place.store, &place.device, SWEEP).unwrap(), Vec::new());
    // A newly started process does not train on the same data again.
    assert_eq!(new_retrainer().turn(&place.store, &place.device, SWEEP).unwrap(), Vec::new());
}

#[test]
fn a_run_whose_measuring_program_was_killed_keeps_nobody_waiting() {
    let place = Place::new();
    place.trials(0..8);
    fit::fit(&place.store, &place.device, None, RTEN).unwrap();
    let done = place.run(20, 0.01, |_| ());
    let left = Run { id: RunId::new(), state: RunState::Running, exit: None, ended: None, ..done };
    let gone = OwnerProcess {
        host: place.device.id.to_string(),
        boot: "an earlier one".to_string(),
        pid: 1,
        started: 1,
    };
    place.store.begin_run(&left, &gone).unwrap();
    let fitted = new_retrainer().turn(&place.store, &place.device, SWEEP).unwrap();
    assert_eq!(fitted.len(), 1);
    assert_eq!(place.store.run(left.id).unwrap().unwrap().state, RunState::Interrupted);
}

#[test]
fn a_few_more_runs_of_what_was_seen_wait_for_others_and_for_what_is_being_measured() {
    let place = Place::new();
    place.trials(0..8);
    fit::fit(&place.store, &place.device, None, RTEN).unwrap();
    place.run(1, 0.01, |_| ());
    let mut retrainer = new_retrainer();
    assert_eq!(retrainer.turn(&place.store, &place.device, SWEEP).unwrap(), Vec::new());
    assert_eq!(new_points(&place.store, &place.device, RTEN).unwrap(), NewPoints::TooFew { points: 1 });
    for number in 2..6 {
        place.run(number, 0.01, |_| ());
    }
    let under_way = place.run(7, 0.01, |run| run.state = RunState::Running);
    assert_eq!(retrainer.turn(&place.store, &place.device, SWEEP).unwrap(), Vec::new());
    // The run is not even read, since that would disturb the measurement.
    assert_eq!(new_points(&place.store, &place.device, RTEN).unwrap(), NewPoints::TooFew { points: 1 });
    place.store.delete_run(under_way.id).unwrap();
    let training = TrainingLock::acquire(&place.store, &place.device, KIND).unwrap();
    assert_eq!(retrainer.turn(&place.store, &place.device, SWEEP).unwrap(), Vec::new());
    drop(training);
    assert_eq!(retrainer.turn(&place.store, &place.device, SWEEP).unwrap().len(), 1);
}

#[test]
fn while_no_run_arrives_none_is_looked_at() {
    let place = Place::new();
    place.run(1, 0.01, |run| run.context.graph = None);
    let mut retrainer = new_retrainer();
    let marks = || place.store.trials(&place.device.id, run_trials::LOOKED_KIND).unwrap().len();
    retrainer.turn(&place.store, &place.device, SWEEP).unwrap();
    assert_eq!(marks(), 1);
    place.store.remove_trials(&place.device.id, run_trials::LOOKED_KIND).unwrap();
    retrainer.turn(&place.store, &place.device, SWEEP).unwrap();
    assert_eq!(marks(), 0, "nothing was looked at");
    place.run(2, 0.01, |run| run.context.graph = None);
    retrainer.turn(&place.store, &place.device, SWEEP).unwrap();
    assert_eq!(marks(), 2);
}

#[test]
fn the_better_one_by_held_out_error_is_used_and_the_other_kept() {
    let place = Place::new();
    place.trials(0..8);
    let first = fit::fit(&place.store, &place.device, None, RTEN).unwrap().record.id;
    claim(&place, &first, 0.0);
    place.run(1, 0.011, |_| ());
    run_trials::import_runs(&place.store, &place.device.id, false).unwrap();
    let worse = fit::fit(&place.store, &place.device, None, RTEN).unwrap();
    assert_eq!(worse.record.standing, PredictorStanding::Passed);
    assert_eq!(of(&place, &first).standing, PredictorStanding::InUse);
    claim(&place, &first, 9.0);
    place.run(2, 0.012, |_| ());
    run_trials::import_runs(&place.store, &place.device.id, false).unwrap();
    let better = fit::fit(&place.store, &place.device, None, RTEN).unwrap();
    let before = better.before.unwrap();
    assert_eq!((before.id, before.errors.groups, before.unseen), (first, 8, 0));
    assert!(Some(before.errors.candidate) < before.errors.incumbent, "{before:?}");
    assert_eq!(better.record.standing, PredictorStanding::InUse);
    assert_eq!(of(&place, &first).standing, PredictorStanding::Passed);
}
