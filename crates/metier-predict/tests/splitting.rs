//! Splitting over devices with shipped passports.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use metier_onnx::graph_builder::{AttributeValue, GraphBuilder};
use metier_onnx::split::OperatorChain;
use metier_onnx::split::solver::SplitObjective;
use metier_onnx::{DataType, OnnxLimits, ShapeBindings};
use metier_predict::latency::{InferenceConditions, LatencyPredictor};
use metier_predict::splitting::{SplitQuestion, SplittingError, StagePlan};
use metier_types::{Bytes, Passport, Seconds};

fn passport(name: &str) -> Passport {
    metier_device::passport::find_passport(None, name).unwrap()
}

/// A chain of convolutions, some with fused operators.
fn network() -> Vec<u8> {
    let mut made = GraphBuilder::new(5);
    let mut at = made.add_input(DataType::Float, &[1, 8, 32, 32]);
    for (number, channels) in [16u64, 32, 16, 8].into_iter().enumerate() {
        let before = [8u64, 16, 32, 16][number];
        let weights = made.add_weights(&[channels, before, 3, 3], before * 9);
        let pads = ("pads", AttributeValue::Integers(vec![1; 4]));
        let conv = made.encode_node("Conv", &[&at, &weights], &[pads]);
        let gate = made.encode_node("Sigmoid", &[&conv], &[]);
        at = made.encode_node("Mul", &[&conv, &gate], &[]);
    }
    made.add_output(&at);
    made.finish()
}

fn answer(
    devices: &[Passport],
    change: impl Fn(&mut SplitQuestion<'_>),
) -> Result<StagePlan, SplittingError> {
    let bytes = network();
    let limits = OnnxLimits::default();
    let model = metier_onnx::read_onnx(&bytes, &limits).unwrap();
    let graph = metier_onnx::analyse_graph(&model, &ShapeBindings::default(), &limits).unwrap();
    let chain = OperatorChain::new(&bytes, &model, &ShapeBindings::default(), &limits).unwrap();
    let bandwidth = vec![vec![1e9; devices.len()]; devices.len()];
    let mut question = SplitQuestion {
        chain: &chain,
        graph: &graph,
        devices,
        conditions: &InferenceConditions::default(),
        bandwidth: &bandwidth,
        delay: Seconds(0.0),
        input_at: None,
        output_at: None,
        goal: SplitObjective::Throughput,
        cuts: None,
    };
    change(&mut question);
    question.answer(&LatencyPredictor::from_passports())
}

#[test]
fn a_pipeline_of_equal_devices_is_shorter_than_one_and_never_cuts_what_runs_in_one_go() {
    let devices = [passport("raspberry-pi-4b"), passport("raspberry-pi-4b"), passport("raspberry-pi-4b")];
    let plan = answer(&devices, |_| {}).unwrap();
    assert!(plan.stages.len() == 3, "{:?}", plan.stages.len());
    let alone = plan.alone[0].unwrap();
    assert!(plan.total.seconds.get() < 0.7 * alone.seconds.get());
    // The runtime fuses x · sigmoid(x), so no part ends between the two.
    assert!(plan.stages.iter().all(|stage| stage.part.range.end % 3 != 2), "{:?}", plan.stages);
    // So the parts' times add up to the whole graph's.
    let sum: f64 = plan.stages.iter().map(|stage| stage.predictions[0].as_ref().unwrap().value()).sum();
    assert!((sum / alone.seconds.get() - 1.0).abs() < 1e-9, "{sum} against {alone:?}");
}

#[test]
fn what_has_no_room_on_one_device_is_spread_over_two() {
    let with = |memory: u64| {
        let mut one = passport("raspberry-pi-4b");
        one.device.memory_bytes = Some(Bytes(memory));
        one
    };
    // 4 × (8·16 + 16·32 + 32·16 + 16·8) × 9 bytes of weights.
    let all = 4 * 9 * (128 + 512 + 512 + 128);
    let plan =
        answer(&[with(all / 2), with(all / 2)], |question| question.goal = SplitObjective::Latency).unwrap();
    assert_eq!((plan.alone.clone(), plan.stages.len()), (vec![None, None], 2));
    assert!(plan.stages.iter().all(|stage| stage.part.weights.bytes <= all / 2));
    let error = answer(&[with(all / 4), with(all / 4)], |_| {}).unwrap_err();
    assert!(matches!(error, SplittingError::Memory { .. }), "{error}");
}

#[test]
fn the_answer_is_never_slower_than_one_device_and_sending_counts() {
    for goal in [SplitObjective::Latency, SplitObjective::Throughput] {
        for speed in [1e4, 1e6, 1e8] {
            let bandwidth = vec![vec![speed; 2]; 2];
            let plan = answer(&[passport("raspberry-pi-3b"), passport("server-avx512")], |question| {
                question.goal = goal;
                question.bandwidth = bandwidth.clone().leak();
                (question.input_at, question.output_at) = (Some(0), Some(0));
            })
            .unwrap();
            let alone =
                plan.alone.iter().flatten().map(|one| one.seconds.get()).fold(f64::INFINITY, f64::min);
            assert!(
                plan.total.seconds.get() <= alone * (1.0 + 1e-9),
                "{goal:?} {speed}: {:?} {alone}",
                plan.total
            );
        }
    }
    // The whole graph on the other device needs both transfers.
    let slow: &[Vec<f64>] = vec![vec![1e4; 2]; 2].leak();
    let plan = answer(&[passport("raspberry-pi-3b"), passport("server-avx512")], |question| {
        (question.goal, question.bandwidth) = (SplitObjective::Latency, slow);
        (question.input_at, question.output_at) = (Some(0), Some(0));
    })
    .unwrap();
    let both = f64::from(2 * 8 * 32 * 32 * 4) / 1e4;
    let there = plan.alone[1].unwrap().seconds.get();
    assert!(there > both && there < both + 1.0, "{there} against {both}");
}
