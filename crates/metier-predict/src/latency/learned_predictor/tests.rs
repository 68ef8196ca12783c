use metier_onnx::{GraphAnalysis, ShapeBindings};
use metier_types::Predictor;
use serde_json::{Value, json};

use super::*;
use crate::latency::conditions::{ONNX_RUNTIME, RTEN};
use crate::latency::fit;
use crate::latency::run_trials::tests::{Place, law};
use crate::latency::trial::collect::analyse;
use crate::latency::trial::measure;
use crate::latency::trial::record::TrialRecordPart;
use crate::latency::{LatencyPredictor, tests};

fn graph(place: &Place, number: u64) -> GraphAnalysis {
    analyse(&std::fs::read(place.graph(number)).unwrap(), &ShapeBindings::default()).unwrap()
}

fn passport_of(place: &Place) -> Passport {
    Passport { device: place.device.clone(), ..tests::passport(2) }
}

fn asked(runtime: &str) -> InferenceConditions {
    InferenceConditions { runtime: runtime.to_string(), ..InferenceConditions::default() }
}

/// Ratio of predicted to true seconds, interval width and reason, for unseen graphs.
fn predict_at(place: &Place, conditions: &InferenceConditions, factor: f64) -> (f64, f64, String) {
    let latency = LatencyPredictor::open(&place.store).unwrap();
    let (mut error, mut width, mut because) = (0.0, 0.0, String::new());
    for number in 40..50 {
        let graph = graph(place, number);
        let steps = measure::steps(&graph, &conditions.runtime, 1).unwrap();
        let truth = factor * 1.05 * steps.iter().map(law).sum::<f64>();
        let prediction = latency.graph(&graph, &passport_of(place), conditions).unwrap();
        error += (prediction.value() / truth).ln().abs() / 10.0;
        width += (prediction.interval().high() / prediction.interval().low()).ln() / 10.0;
        because = prediction.reason().to_string();
    }
    (error, width, because)
}

#[test]
fn graphs_that_were_measured_in_the_other_runtime_move_what_was_learned_in_one() {
    let place = Place::new();
    // Three networks of each style.
    place.trials(0..39);
    fit::fit(&place.store, &place.device, Some(passport_of(&place)), RTEN).unwrap();
    let (own, own_width, because) = predict_at(&place, &asked(RTEN), 1.0);
    assert!(own < 0.2 && because.contains("learned from 39 timed graphs"), "{own} {because}");
    let (_, wide, because) = predict_at(&place, &asked(ONNX_RUNTIME), 0.3);
    assert!(because.contains("no graph was timed with onnxruntime"), "{because}");
    assert!(wide > own_width, "{wide} {own_width}");
    place.trials_in(ONNX_RUNTIME, 0.3, 70..76);
    let (moved, narrower, because) = predict_at(&place, &asked(ONNX_RUNTIME), 0.3);
    assert!(moved < 0.25 && because.contains("moved by 6 graphs"), "{moved} {because}");
    assert!(narrower < wide, "{narrower} {wide}");
    // The prediction of the other runtime is unchanged.
    assert_eq!(predict_at(&place, &asked(RTEN), 1.0).0, own);
}

#[test]
fn load_takes_longer_elsewhere_too_and_is_less_sure() {
    let place = Place::new();
    place.trials(0..16);
    fit::fit(&place.store, &place.device, Some(passport_of(&place)), RTEN).unwrap();
    let latency = LatencyPredictor::open(&place.store).unwrap();
    let there = tests::passport(4);
    let graph = graph(&place, 41);
    let ends = |load: f64| {
        let conditions =
            InferenceConditions { threads: 4, cpu_load: Some(metier_types::Ratio(load)), ..asked(RTEN) };
        let prediction = latency.graph(&graph, &there, &conditions).unwrap();
        assert!(prediction.reason().contains("carried over"), "{}", prediction.reason());
        (prediction.value(), prediction.interval().high() / prediction.value())
    };
    let (idle, busy, queue) = (ends(0.0), ends(0.9), ends(3.0));
    assert!(idle.0 < busy.0 && busy.0 < queue.0, "{idle:?} {busy:?} {queue:?}");
    assert!(idle.1 < busy.1, "{idle:?} {busy:?}");
}

#[test]
fn few_graphs_reach_farther_than_many() {
    let measured = |names: u32| -> Vec<(String, TransferGraph)> {
        (0..names)
            .map(|at| {
                let own = 1.0 + 0.1 * f64::from(at % 3);
                let sums = BTreeMap::from([("conv".to_string(), 1.0)]);
                (format!("g{at}"), TransferGraph { seconds_by_family: sums, seconds: 2.0 * own })
            })
            .collect()
    };
    assert_eq!(DeviceTransfer::fit(&measured(1)).factor(), None);
    let few = DeviceTransfer::fit(&measured(3)).factor().unwrap();
    let many = DeviceTransfer::fit(&measured(12)).factor().unwrap();
    assert!(many < few && many > 1.1, "{few} {many}");
}

#[test]
fn counts_that_were_learned_in_one_runtime_answer_for_the_other_and_elsewhere() {
    let place = Place::new();
    // Networks without loops; counts describe loops badly.
    place.trials(0..12);
    place.trials(13..17);
    fit::fit(&place.store, &place.device, Some(passport_of(&place)), RTEN).unwrap();
    let latency = LatencyPredictor::open(&place.store).unwrap();
    // A graph limited by multiply-adds, not by memory bandwidth.
    let counts = SopranoCounts {
        conv_layers: 20.0,
        filter_details: 4000.0,
        total_parameters: 2e6,
        model_input_size: 602_112.0,
        model_output_size: 4000.0,
        ..SopranoCounts::default()
    };
    let predict_at = |passport: &Passport, conditions: &InferenceConditions| {
        let prediction = latency.counts(&counts, passport, conditions).unwrap();
        let width = prediction.interval().high() / prediction.interval().low();
        (prediction.value(), width, prediction.reason().to_string(), prediction.predictor())
    };
    let own = predict_at(&passport_of(&place), &asked(RTEN));
    let other = predict_at(&passport_of(&place), &asked(ONNX_RUNTIME));
    assert!(own.2.contains("by graphs that were timed on"), "{}", own.2);
    assert!(other.2.contains("learned with rten on bench"), "{}", other.2);
    assert_eq!(other.3, own.3, "the same predictor");
    assert!(other.1 > own.1 && other.0 < own.0, "{own:?} {other:?}");
    // A device with half the speed according to the passports.
    let mut slow = tests::passport(2);
    slow.device.id = "device-2".parse().unwrap();
    slow.compute.iter_mut().for_each(|rate| rate.multiply_adds_per_second /= 2.0);
    slow.bandwidth.iter_mut().for_each(|rate| rate.bytes_per_second /= 2.0);
    let there = predict_at(&slow, &asked(RTEN));
    assert!(there.2.contains("carried over by the two passports") && there.0 > own.0, "{there:?}");
    // With more threads than in training, the speedup is the passport's.
    let more = predict_at(&passport_of(&place), &InferenceConditions { threads: 2, ..asked(RTEN) });
    assert!(more.0 < own.0, "{own:?} {more:?}");
}

#[test]
fn graphs_that_disagree_never_make_it_wider_than_the_passport_does() {
    let place = Place::new();
    place.trials(0..16);
    fit::fit(&place.store, &place.device, Some(passport_of(&place)), RTEN).unwrap();
    // The lower end is also bounded by the device's peak rates, so the upper one is compared.
    let reach = || {
        let latency = LatencyPredictor::open(&place.store).unwrap();
        let prediction = |number: u64| {
            latency.graph(&graph(&place, number), &passport_of(&place), &asked(ONNX_RUNTIME)).unwrap()
        };
        let above =
            |prediction: &metier_types::Prediction| (prediction.interval().high() / prediction.value()).ln();
        let all: Vec<_> = (40..50).map(prediction).collect();
        (all.iter().map(above).sum::<f64>(), all[0].reason().to_string())
    };
    let (alone, _) = reach();
    for (factor, number) in [(0.05, 20), (1.0, 21), (20.0, 22), (0.3, 23)] {
        place.trials_in(ONNX_RUNTIME, factor, number..number + 1);
    }
    let (moved, because) = reach();
    assert!(because.contains("moved by 4 graphs"), "{because}");
    assert!(moved <= alone * (1.0 + 1e-9), "{moved} {alone}");
}

#[test]
fn runs_on_a_busy_host_move_it_where_there_are_no_others_and_that_is_said() {
    let place = Place::new();
    place.trials(0..16);
    fit::fit(&place.store, &place.device, Some(passport_of(&place)), RTEN).unwrap();
    let run = |number: u64, others: f64| {
        place.run(number, 0.05, |run| {
            run.host.others_ratio = Some(metier_types::Ratio(others));
            run.context.graph.as_mut().unwrap().runtime = ONNX_RUNTIME.to_string();
        });
        crate::latency::run_trials::import_runs(&place.store, &place.device.id, false).unwrap();
        predict_at(&place, &asked(ONNX_RUNTIME), 1.0).2
    };
    run(20, 0.9);
    let because = run(21, 0.8);
    assert!(because.contains("moved by 2 graphs") && because.contains("with co-runners"), "{because}");
    let because = run(22, 0.0);
    assert!(because.contains("moved by 1 graph") && !because.contains("co-runners"), "{because}");
}

/// A `metier.latency/1` file written by commit 5c5b06b (with most trees removed, to be small), and
/// that commit's predictions as bits.
#[test]
fn a_predictor_file_of_before_gives_bit_equal_predictions() {
    let bytes = include_bytes!("../../../tests/fixtures/latency-1.json");
    let record: Predictor =
        serde_json::from_str(include_str!("../../../tests/fixtures/latency-1.record.json")).unwrap();
    let expected: Value =
        serde_json::from_str(include_str!("../../../tests/fixtures/latency-1.expected.json")).unwrap();
    assert_eq!(record.id, metier_store::digest::digest_bytes(bytes));
    let file = LatencyPredictorFile::read(&record.id, bytes).unwrap();
    let bits = |value: f64| format!("{:016x}", value.to_bits());
    let cases = expected["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 9);
    for case in cases {
        let parts: Vec<TrialRecordPart> = serde_json::from_value(case["parts"].clone()).unwrap();
        let parts: Vec<GraphOperator> = parts
            .into_iter()
            .map(|TrialRecordPart(family, kind, turns, basis, features, seconds)| GraphOperator {
                family,
                kind,
                turns,
                basis,
                features,
                seconds,
            })
            .collect();
        let number = |field: &str| case[field].as_f64().unwrap();
        let pressure =
            ResourcePressure { sharing: number("sharing"), cpu: number("cpu"), memory: number("memory") };
        let answer = file.law.predict(&parts, number("threads") as u32, pressure, COVERAGE);
        let each: Vec<String> = answer.each.iter().map(|value| bits(*value)).collect();
        assert_eq!(json!(each), case["each"]);
        assert_eq!(
            json!([bits(answer.seconds), bits(answer.factor), answer.in_range]),
            json!([case["seconds"], case["factor"], case["in_range"]])
        );
    }
    let law = file.counts.unwrap();
    for case in expected["counts"].as_array().unwrap() {
        let counts: [f64; 7] = serde_json::from_value(case["counts"].clone()).unwrap();
        assert_eq!(bits(law.trees.predict(&counts_row(counts, 1))), case["logarithm"]);
    }
}
