use std::path::PathBuf;

use metier_infer::InferenceTime;
use metier_store::StoreLocation;
use metier_types::{ArtefactRef, BatchId, Device, RunId, Seconds};
use serde_json::json;

use super::*;
use crate::latency::operator_features::OperatorStep;
use crate::latency::trial::collect::analyse;
use crate::latency::trial::network;

/// Seconds of an operator on the test device, all iterations.
pub fn law(step: &OperatorStep) -> f64 {
    step.turns as f64 * (2e-6 + 1e-10 * step.multiply_adds + 5e-10 * step.bytes)
}

/// A store with a device and graph files.
pub struct Place {
    folder: tempfile::TempDir,
    pub store: RecordStore,
    pub device: Device,
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = RecordStore::open(&StoreLocation::Sqlite(folder.path().join("store.db"))).unwrap();
        let device: Device = serde_json::from_value(json!({
            "schema": "metier.device/1", "id": "device-1", "name": "bench", "class": "machine",
            "cpu": { "architecture": "x86_64", "threads": 2 }, "seen": "2026-01-01T00:00:00Z"
        }))
        .unwrap();
        store.put_device(&device).unwrap();
        Self { folder, store, device }
    }

    /// Writes a generated network as a user's file.
    pub fn graph(&self, number: u64) -> PathBuf {
        let path = self.folder.path().join(format!("graph-{number}.onnx"));
        std::fs::write(&path, network::network(number).1).unwrap();
        path
    }

    /// Stores trials of graphs on a device with a known model; nothing is timed.
    pub fn trials(&self, numbers: std::ops::Range<u64>) {
        self.trials_in("rten", 1.0, numbers);
    }

    /// The same for a runtime that is slower by this factor.
    pub fn trials_in(&self, runtime: &str, factor: f64, numbers: std::ops::Range<u64>) {
        for number in numbers {
            let (_, bytes) = network::network(number);
            let graph = analyse(&bytes, &ShapeBindings::default()).unwrap();
            let name = format!("graph-{number}");
            let id = graph_id(&name, &graph);
            let probe = TrialPoint {
                id: &id,
                name: &name,
                is_trial: false,
                threads: 1,
                pressure: ResourcePressure::default(),
            };
            let steps = measure::steps(&graph, runtime, 1).unwrap();
            let law = |step: &OperatorStep| factor * law(step);
            let parts: Vec<_> = steps.iter().map(|step| measure::part(step, Some(law(step)))).collect();
            let seconds = 1.05 * steps.iter().map(law).sum::<f64>();
            let timed =
                probe.timed(runtime, &graph, &steps, &[], &TimedInference::of(vec![seconds], vec![seconds]));
            let record = TrialRecord { parts: TrialRecord::kept_parts(&parts), ..timed };
            self.store.put_trials(&self.device.id, KIND, &record.pieces().unwrap()).unwrap();
        }
    }

    /// A run of a graph with this time.
    pub fn run(&self, number: u64, seconds: f64, change: impl FnOnce(&mut Run)) -> Run {
        let path = self.graph(number);
        let bytes = std::fs::read(&path).unwrap();
        let graph = analyse(&bytes, &ShapeBindings::default()).unwrap();
        let shapes: BTreeMap<String, Vec<u64>> = graph
            .inputs
            .iter()
            .map(|value| {
                let sizes = value.shape.iter().flatten().map(|size| size.unwrap_or(1)).collect();
                (value.name.clone(), sizes)
            })
            .collect();
        let mut run: Run = serde_json::from_value(json!({
            "schema": "metier.run/1", "id": RunId::new(), "batch": BatchId::new(),
            "workload": { "id": "graph", "name": "graph" }, "device": { "id": "device-1", "name": "bench" },
            "state": "finished", "started": "2026-01-01T00:00:00Z", "ended": "2026-01-01T00:00:01Z",
            "exit": { "code": 0, "signal": null, "cause": "exited" },
            "context": {
                "command": ["metier", "bench"], "measured_by": "metier 0.1.0", "repetition": 1, "repetitions": 1,
                "graph": {
                    "file": path, "digest": metier_store::digest::digest_bytes(&bytes), "runtime": "rten",
                    "threads": 1, "shapes": shapes
                }
            },
            "summary": {}, "host": { "before": {}, "after": {}, "others_ratio": 0.01, "steal_ratio": 0.0 }
        }))
        .unwrap();
        let spent = InferenceTime { wall: Seconds(seconds), cpu: Seconds(seconds) };
        let outcome = InferenceOutcome {
            schema: "metier.inference/1".to_string(),
            error: None,
            load: Some(spent),
            first: Some(spent),
            runs: vec![spent; 3],
            inferences: 3,
            operators: Vec::new(),
            outputs: Vec::new(),
        };
        let text = serde_json::to_vec(&outcome).unwrap();
        let (digest, size) = self.store.put_artefact(&mut text.as_slice()).unwrap();
        run.artefacts.push(ArtefactRef::new(RESULT_FILE, "application/json", digest, size));
        change(&mut run);
        self.store.put_run(&run, &[]).unwrap();
        run
    }

    fn points(&self) -> Vec<TrialRecord> {
        TrialRecord::join(&self.store.trials(&self.device.id, KIND).unwrap())
    }
}

#[test]
fn a_run_is_taken_once_and_joins_what_is_known_of_its_graph() {
    let place = Place::new();
    place.trials(3..4);
    let operators = place.points()[0].parts.clone();
    assert!(operators.iter().any(|part| part.5.is_some()));
    let before = place.points()[0].seconds;
    let run = place.run(3, 0.25, |_| ());
    let taken = import_runs(&place.store, &place.device.id, false).unwrap();
    assert_eq!((taken.points, taken.known), (1, 0), "{taken:?}");
    let points = place.points();
    assert_eq!(points.len(), 1);
    assert_eq!((points[0].seconds, points[0].again, points[0].run), (0.25, Some(before), Some(run.id)));
    assert_eq!(points[0].parts, operators);
    let taken = import_runs(&place.store, &place.device.id, true).unwrap();
    assert_eq!((taken.points, taken.known), (0, 1), "{taken:?}");
}

#[test]
fn what_ran_beside_a_run_is_a_load() {
    let place = Place::new();
    place.run(1, 0.1, |_| ());
    place.run(2, 0.1, |run| run.host.others_ratio = Some(Ratio(0.52)));
    import_runs(&place.store, &place.device.id, false).unwrap();
    let loads: BTreeMap<String, f64> =
        place.points().into_iter().map(|record| (record.name, record.pressure.cpu)).collect();
    assert_eq!(loads, BTreeMap::from([("graph-1".to_string(), 0.0), ("graph-2".to_string(), 0.5)]));
}

#[test]
fn a_run_that_is_no_graph_is_read_once_and_counted_nowhere() {
    let place = Place::new();
    let run = place.run(1, 0.1, |run| run.context.graph = None);
    let marks = || place.store.trials(&place.device.id, LOOKED_KIND).unwrap();
    assert_eq!(import_runs(&place.store, &place.device.id, false).unwrap(), RunIntakeResult::default());
    assert_eq!(marks().iter().map(|mark| mark.key.clone()).collect::<Vec<_>>(), [run.id.to_string()]);
    // If the run were read again, it would be imported now.
    let mut changed = run;
    changed.context.graph = place.run(2, 0.1, |_| ()).context.graph;
    place.store.delete_run(changed.id).unwrap();
    place.store.put_run(&changed, &[]).unwrap();
    for again in [false, true] {
        let taken = import_runs(&place.store, &place.device.id, again).unwrap();
        assert_eq!(taken.points, u64::from(!again), "only the other one: {taken:?}");
    }
    // Marks of earlier versions lack the field; all of them were of graphs.
    let old: RunTrialMark = serde_json::from_str(r#"{"left_out":null}"#).unwrap();
    assert!(old.is_graph);
}

#[test]
fn a_run_that_teaches_nothing_says_why_and_is_looked_at_again_only_when_asked() {
    let place = Place::new();
    place.run(1, 0.1, |run| {
        run.context.limits.insert("cpu".to_string(), "0.5".to_string());
    });
    place.run(2, 0.1, |run| run.host.steal_ratio = Some(Ratio(0.3)));
    place.run(3, 0.1, |run| run.artefacts.clear());
    place.run(4, 0.1, |run| run.host.others_ratio = None);
    place.run(5, 0.1, |run| run.exit.as_mut().unwrap().code = Some(1));
    place.run(6, 0.1, |_| ());
    std::fs::write(place.folder.path().join("graph-6.onnx"), "another").unwrap();
    let taken = import_runs(&place.store, &place.device.id, false).unwrap();
    assert_eq!(taken.points, 0);
    let why: Vec<&str> = taken.left_out.keys().map(String::as_str).collect();
    assert_eq!(why.len(), 6, "{why:?}");
    assert!(why.iter().any(|why| why.contains("limits")), "{why:?}");
    assert_eq!(import_runs(&place.store, &place.device.id, false).unwrap().known, 6);
    // The graph's file is restored.
    place.graph(6);
    let taken = import_runs(&place.store, &place.device.id, true).unwrap();
    assert_eq!((taken.points, taken.left_out.values().sum::<u64>()), (1, 5), "{taken:?}");
}
