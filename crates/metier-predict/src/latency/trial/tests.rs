use std::collections::BTreeSet;
use std::time::Duration;

use metier_infer::GraphSource;
use metier_onnx::graph_builder::{AttributeValue, GraphBuilder};
use metier_onnx::{DataType, ShapeBindings};

use super::collect::analyse;
use super::noise_probe::NoiseProbe;
use super::record::TrialRecord;
use super::*;
use crate::latency::family::OperatorFamily;

#[test]
fn the_same_number_makes_the_same_network_and_every_network_can_be_read() {
    let mut families = BTreeSet::new();
    for number in 0..64 {
        let (name, bytes) = network::network(number);
        assert_eq!((name.clone(), bytes.clone()), network::network(number));
        let graph =
            analyse(&bytes, &ShapeBindings::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(graph.operators_without_cost, 0, "{name}");
        let steps = measure::steps(&graph, "rten", 1).unwrap();
        families.extend(steps.into_iter().map(|step| step.family.name()));
    }
    for family in [
        OperatorFamily::Conv,
        OperatorFamily::ConvPoint,
        OperatorFamily::ConvDepth,
        OperatorFamily::MatMul,
        OperatorFamily::Recurrent,
        OperatorFamily::Softmax,
        OperatorFamily::Move,
    ] {
        assert!(families.contains(family.name()), "{} in {families:?}", family.name());
    }
}

/// Trial records identify networks by number, so these must not change.
#[test]
fn the_first_networks_are_those_of_earlier_versions() {
    let all: Vec<u8> = (0..2 * network::STYLES.len() as u64).flat_map(|n| network::network(n).1).collect();
    let digest = metier_store::digest::digest_bytes(&all).to_string();
    assert_eq!(digest, "sha256:cd1392293383e4806e619871348fa48d91a8ade08e61a50ae1e33225c5473309");
}

#[test]
fn a_runtime_runs_what_is_made_up() {
    let runtime = metier_infer::EngineRuntime::open(&InferenceEngine::Rten, 1).unwrap();
    let effort = measure::MeasureEffort { seconds: 0.0, fewest: 1, most: 1, looks: 0 };
    let mut pulse = NoiseProbe::calibrate(&[1], Duration::ZERO);
    let (mut kinds, mut run) = (BTreeSet::new(), BTreeSet::new());
    for number in 0..16 * network::STYLES.len() as u64 {
        let (name, bytes) = network::network(number);
        let graph = analyse(&bytes, &ShapeBindings::default()).unwrap();
        kinds.extend(graph.operators.iter().map(|cost| cost.kind.clone()));
        // The largest take long; others run if they have a new operator kind.
        let is_new = graph.operators.iter().any(|cost| !run.contains(&cost.kind));
        if !is_new || graph.multiply_adds > 2_000_000_000 {
            continue;
        }
        run.extend(graph.operators.iter().map(|cost| cost.kind.clone()));
        // Timed like a user graph: generated networks are rejected under contention.
        let probe =
            TrialPoint { id: &name, name: &name, is_trial: false, threads: 1, pressure: Default::default() };
        let record = measure_point(&runtime, GraphSource::Bytes(&bytes), &graph, &probe, &effort, &mut pulse)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(record.seconds > 0.0 && !record.parts.is_empty(), "{name}");
    }
    let texts = [
        "LRN",
        "Sum",
        "ReduceSum",
        "ReduceMax",
        "ReduceMin",
        "Equal",
        "Less",
        "Not",
        "Where",
        "Expand",
        "Shape",
        "Transpose",
        "LSTM",
        "GRU",
        "Sin",
        "Cos",
    ];
    let missing: Vec<&str> = texts.into_iter().filter(|kind| !kinds.contains(*kind)).collect();
    assert!(missing.is_empty(), "no made-up network has {missing:?}; all kinds: {kinds:?}");
    assert_eq!(run, kinds);
}

#[test]
fn a_large_point_is_kept_in_pieces_and_joined_again() {
    let (name, bytes) = network::network(3);
    let graph = analyse(&bytes, &ShapeBindings::default()).unwrap();
    let steps = measure::steps(&graph, "rten", 2).unwrap();
    let many: Vec<_> =
        std::iter::repeat_n(steps, 20).flatten().map(|step| measure::part(&step, Some(1.25e-6))).collect();
    let runtime = metier_infer::EngineRuntime::open(&InferenceEngine::Rten, 2).unwrap();
    let probe =
        TrialPoint { id: "g", name: &name, is_trial: false, threads: 2, pressure: Default::default() };
    let effort = measure::MeasureEffort { seconds: 0.0, fewest: 1, most: 1, looks: 0 };
    let mut pulse = NoiseProbe::calibrate(&[1], Duration::ZERO);
    let record = TrialRecord {
        parts: TrialRecord::kept_parts(&many),
        ..measure_point(&runtime, GraphSource::Bytes(&bytes), &graph, &probe, &effort, &mut pulse).unwrap()
    };
    let mut pieces = record.pieces().unwrap();
    assert!(pieces.len() > 1 && pieces.iter().all(|piece| piece.record.len() < 64 << 10));
    pieces.reverse();
    let joined = TrialRecord::join(&pieces);
    assert_eq!(joined.len(), 1);
    assert_eq!(joined[0].parts, record.parts);
    assert_eq!(TrialRecord::join(&pieces[1..]), Vec::new());
}

#[test]
fn operators_that_are_written_with_others_have_the_time_of_all_of_these() {
    let mut graph = GraphBuilder::new(1);
    let input = graph.add_input(DataType::Float, &[1, 16, 32, 32]);
    let made = graph.encode_node("LRN", &[&input], &[("size", AttributeValue::Integer(5))]);
    graph.add_output(&made);
    let bytes = graph.finish();
    let graph = analyse(&bytes, &ShapeBindings::default()).unwrap();
    let steps = measure::steps(&graph, "rten", 1).unwrap();
    let operator_time = |value: String, seconds: f64| metier_infer::EngineOperatorTime {
        name: String::new(),
        kind: "Mul".to_string(),
        inputs: Vec::new(),
        outputs: vec![value],
        seconds,
    };
    let all = [
        operator_time(format!("{made}~squares"), 2e-6),
        operator_time(format!("{made}~sum"), 3e-6),
        operator_time(made, 4e-6),
    ];
    let (parts, beside) = measure::parts(&graph, &steps, &all);
    assert_eq!(beside, Vec::new());
    assert!((parts[0].seconds.unwrap() - 9e-6).abs() < 1e-12);
    let (_, beside) = measure::parts(&graph, &steps, &[operator_time("elsewhere~sum".to_string(), 1e-6)]);
    assert_eq!(beside.len(), 1);
}

#[test]
fn trials_that_another_version_counted_otherwise_are_left_out() {
    let (name, bytes) = network::network(5);
    let graph = analyse(&bytes, &ShapeBindings::default()).unwrap();
    let runtime = metier_infer::EngineRuntime::open(&InferenceEngine::Rten, 1).unwrap();
    let probe =
        TrialPoint { id: "g", name: &name, is_trial: false, threads: 1, pressure: Default::default() };
    let effort = measure::MeasureEffort { seconds: 0.0, fewest: 1, most: 1, looks: 0 };
    let mut pulse = NoiseProbe::calibrate(&[1], Duration::ZERO);
    let mut record =
        measure_point(&runtime, GraphSource::Bytes(&bytes), &graph, &probe, &effort, &mut pulse).unwrap();
    assert!(record.is_of_this_version());
    assert!(!TrialRecord { counted: 1, ..record.clone() }.is_of_this_version());
    record.parts[0].4.pop();
    assert!(!record.is_of_this_version());
}

#[test]
fn calm_repeats_stand_for_all_where_there_are_enough_and_else_the_shortest_does() {
    let all = vec![1.0, 1.5, 1.4, 1.1, 1.2, 1.6, 1.05];
    let calm = measure::TimedInference::of_calm(vec![1.0, 1.1, 1.2, 1.05], all.clone(), vec![1.0; 7]);
    assert_eq!((calm.seconds, calm.median, calm.runs), (1.05, 1.1, 7));
    let few = measure::TimedInference::of_calm(vec![1.4, 1.5], all, vec![1.0; 7]);
    assert_eq!((few.seconds, few.median), (1.0, 1.2));
}

#[test]
fn graphs_of_one_name_and_shape_do_not_take_each_others_place() {
    let of = |width: u64| {
        let mut graph = metier_onnx::graph_builder::GraphBuilder::new(1);
        let input = graph.add_input(metier_onnx::DataType::Float, &[1, 8]);
        let weights = graph.add_weights(&[8, width], 8);
        let made = graph.encode_node("MatMul", &[&input, &weights], &[]);
        graph.add_output(&made);
        super::collect::graph_id("model", &analyse(&graph.finish(), &ShapeBindings::default()).unwrap())
    };
    assert_eq!(of(16), of(16));
    assert_ne!(of(16), of(32));
}
