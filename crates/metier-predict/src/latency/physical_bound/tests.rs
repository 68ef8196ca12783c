use std::collections::BTreeMap;

use metier_onnx::graph_builder::GraphBuilder;
use metier_onnx::{GraphAnalysis, ShapeBindings};
use metier_types::ContentDigest;
use serde_json::json;

use super::*;
use crate::latency::tests;
use crate::latency::trial::collect::analyse;

/// A product of two square matrices.
fn product(size: u64) -> GraphAnalysis {
    let mut graph = GraphBuilder::new(1);
    let left = graph.add_input(DataType::Float, &[size, size]);
    let right = graph.add_input(DataType::Float, &[size, size]);
    let made = graph.encode_node("MatMul", &[&left, &right], &[]);
    graph.add_output(&made);
    analyse(&graph.finish(), &ShapeBindings::default()).unwrap()
}

fn estimate(graph: &GraphAnalysis, seconds: f64) -> GraphEstimate {
    let steps = crate::latency::operator_features::steps(graph, "rten").unwrap();
    let times = vec![seconds; steps.len()];
    GraphEstimate {
        steps,
        times,
        least: 0.0,
        factors: (1.2, 1.2),
        in_range: true,
        predictor: ContentDigest::from_bytes([0; 32]),
        source: "learned".to_string(),
    }
}

#[test]
fn no_product_beats_the_peak_of_the_threads_it_has() {
    let graph = product(512);
    let passport = tests::passport(4);
    let adds = 512f64.powi(3);
    for threads in [1, 2, 4, 9] {
        let least = adds / (20e9 * f64::from(threads.min(4)));
        let bound = PhysicalBound::new(&passport, threads);
        let raised = bound.apply(estimate(&graph, 244e-6), &graph);
        assert!((raised.times[0] / least - 1.0).abs() < 1e-12, "{threads}: {}", raised.times[0]);
        assert_eq!(raised.least, raised.times[0]);
        assert!(raised.source.contains("1 operators raised"), "{}", raised.source);
        // What is slower than the bound stays as it is, bit by bit.
        let same = bound.apply(estimate(&graph, 1.0), &graph);
        assert_eq!((same.times[0].to_bits(), same.source.as_str()), (1f64.to_bits(), "learned"));
    }
}

#[test]
fn a_quick_passport_bounds_with_a_margin() {
    let graph = product(512);
    let mut passport = tests::passport(2);
    // A busy host: two threads reached no more than one.
    passport.compute[1].multiply_adds_per_second = 20e9;
    passport.is_quick = true;
    let raised = PhysicalBound::new(&passport, 2).apply(estimate(&graph, 1e-6), &graph);
    let least = 512f64.powi(3) / (2.0 * 20e9 * QUICK_MARGIN);
    assert!((raised.times[0] / least - 1.0).abs() < 1e-12, "{}", raised.times[0]);
}

#[test]
fn what_no_cache_holds_comes_from_memory() {
    let mut graph = GraphBuilder::new(1);
    let input = graph.add_input(DataType::Float, &[64 << 20]);
    let made = graph.encode_node("Relu", &[&input], &[]);
    graph.add_output(&made);
    let graph = analyse(&graph.finish(), &ShapeBindings::default()).unwrap();
    let passport = tests::passport(1);
    let raised = PhysicalBound::new(&passport, 1).apply(estimate(&graph, 1e-3), &graph);
    let outside = 2.0 * 4.0 * f64::from(64 << 20) - LEAST_CACHE_BYTES;
    assert!((raised.times[0] / (outside / 5e9) - 1.0).abs() < 1e-12, "{}", raised.times[0]);
    // Of what fits into a cache, memory says nothing.
    let small = product(64);
    assert_eq!(PhysicalBound::new(&passport, 1).memory_bytes, Some(5e9));
    let kept = PhysicalBound::new(&passport, 1).apply(estimate(&small, 1e-4), &small);
    assert_eq!(kept.times[0], 1e-4);
}

#[test]
fn a_passport_without_figures_bounds_nothing() {
    let graph = product(512);
    let mut passport = tests::passport(1);
    (passport.compute, passport.bandwidth) = (Vec::new(), Vec::new());
    let same = PhysicalBound::new(&passport, 1).apply(estimate(&graph, 1e-9), &graph);
    assert_eq!((same.times[0], same.least), (1e-9, 0.0));
}

#[test]
fn an_operator_of_unknown_cost_widens_the_interval_upwards() {
    let mut graph = product(64);
    let before = widen_for_unknown(estimate(&graph, 1e-3), &graph);
    assert_eq!((before.factors, before.in_range), ((1.2, 1.2), true));
    graph.operators[0].multiply_adds = None;
    let after = widen_for_unknown(estimate(&graph, 1e-3), &graph);
    assert_eq!((after.factors, after.in_range), ((1.2, 2.4), false));
    assert!(after.source.contains("the cost of MatMul is unknown"), "{}", after.source);
}

#[test]
fn a_predictor_without_a_cost_of_work_is_refused_unless_a_passport_bounds_it() {
    use crate::latency::learned_predictor::LatencyPredictorFile;
    let bytes = include_bytes!("../../../tests/fixtures/latency-1.json");
    let mut file: serde_json::Value = serde_json::from_slice(bytes).unwrap();
    let laws = file["law"]["operators"]["laws"].as_object_mut().unwrap();
    let law = ["matmul", "conv", "conv-point"].into_iter().find(|name| laws.contains_key(*name)).unwrap();
    let lines: BTreeMap<String, Vec<f64>> =
        serde_json::from_value(laws[law]["coefficients"].clone()).unwrap();
    let without = |line: &Vec<f64>| {
        let mut line = line.clone();
        line[1] = 0.0;
        line
    };
    laws[law]["coefficients"] =
        json!(lines.iter().map(|(threads, line)| (threads, without(line))).collect::<BTreeMap<_, _>>());
    let read = |file: &serde_json::Value| {
        let bytes = serde_json::to_vec(file).unwrap();
        LatencyPredictorFile::read(&metier_store::digest::digest_bytes(&bytes), &bytes)
    };
    file["passport"] = serde_json::Value::Null;
    let why = read(&file).unwrap_err().to_string();
    assert!(why.contains("no cost per multiply-add") && why.contains(law), "{why}");
    file["passport"] = serde_json::to_value(tests::passport(2)).unwrap();
    assert!(read(&file).is_ok());
}
