#[path = "../../tests/common/lab_graph.rs"]
pub mod lab_graph;

use metier_onnx::ShapeBindings;
use metier_onnx::graph_builder::{AttributeValue, GraphBuilder};
use serde_json::json;

use super::*;
pub use lab_graph::graph;

/// A device of 20 × 10⁹ multiply-adds per second and thread.
pub fn passport(threads: u32) -> Passport {
    let compute = |threads: u32| json!({ "precision": "f32", "threads": threads, "multiply_adds_per_second": 20e9 * f64::from(threads) });
    let bandwidth = |threads: u32| json!({ "threads": threads, "bytes_per_second": 5e9 });
    let device = json!({
        "schema": "metier.device/1",
        "id": "00000000000000000000000000000001",
        "name": "bench board",
        "class": "board",
        "cpu": { "architecture": "aarch64", "threads": threads },
        "seen": "1970-01-01T00:00:00Z",
    });
    let passport = json!({
        "schema": "metier.passport/1",
        "id": "bench-board",
        "name": "bench board",
        "origin": "specified",
        "made": "1970-01-01T00:00:00Z",
        "device": device,
        "compute": (1..=threads).map(compute).collect::<Vec<_>>(),
        "bandwidth": (1..=threads).map(bandwidth).collect::<Vec<_>>(),
    });
    serde_json::from_value(passport).unwrap()
}

#[test]
fn more_work_or_load_never_takes_less_time() {
    let latency = LatencyPredictor::from_passports();
    let passport = passport(4);
    let Some(small) = graph("pplcnet-orientation", "x", &[1, 3, 224, 224]) else { return };
    let large = graph("pplcnet-orientation", "x", &[4, 3, 224, 224]).unwrap();
    let idle = InferenceConditions::default();
    let prediction = latency.graph(&small, &passport, &idle).unwrap();
    let four = latency.graph(&large, &passport, &idle).unwrap();
    assert!(four.value() > 2.0 * prediction.value() && four.value() < 5.0 * prediction.value());
    let mut before = 0.0;
    for load in [0.0, 0.2, 0.5, 0.8, 1.0] {
        let busy = InferenceConditions {
            cpu_load: Some(Ratio(load)),
            memory_load: Some(Ratio(load)),
            ..idle.clone()
        };
        let value = latency.graph(&small, &passport, &busy).unwrap().value();
        assert!(value >= before, "{load}: {value} after {before}");
        before = value;
    }
    assert!(before > 1.1 * prediction.value());
}

#[test]
fn operators_add_up_to_the_graph_and_each_has_a_time_or_a_host() {
    let latency = LatencyPredictor::from_passports();
    let Some(graph) = graph("yolov8n-320", "images", &[1, 3, 320, 320]) else { return };
    let conditions = InferenceConditions::default();
    let whole = latency.graph(&graph, &passport(4), &conditions).unwrap();
    let parts = latency.operators(&graph, &passport(4), &conditions).unwrap();
    assert_eq!(parts.len(), graph.operators.len());
    let sum: f64 = parts.iter().map(|part| part.seconds.0).sum();
    assert!((sum / whole.value() - 1.0).abs() < 1e-9);
    // Its activations are written as x · sigmoid(x), which a runtime fuses.
    let sigmoids = |is: &dyn Fn(&PredictedOperatorTime) -> bool| {
        parts.iter().filter(|part| graph.operators[part.operator].kind == "Sigmoid" && is(part)).count()
    };
    assert!(sigmoids(&|part| part.within.is_some()) > 50);
}

#[test]
fn a_passport_without_speed_is_refused_by_name() {
    let mut passport = passport(1);
    passport.compute.clear();
    passport.device.cpu.architecture = "vax".to_string();
    let counts = SopranoCounts { total_parameters: 1e6, conv_layers: 10.0, ..SopranoCounts::default() };
    let error = LatencyPredictor::from_passports()
        .counts(&counts, &passport, &InferenceConditions::default())
        .unwrap_err();
    assert!(error.to_string().contains("bench board"), "{error}");
}

#[test]
fn what_cannot_be_is_refused() {
    let latency = LatencyPredictor::from_passports();
    let counts = SopranoCounts::default();
    for (conditions, field) in [
        (InferenceConditions { threads: 0, ..InferenceConditions::default() }, "threads"),
        (InferenceConditions { runtime: "tflite".into(), ..InferenceConditions::default() }, "runtime"),
        (InferenceConditions { cpu_load: Some(Ratio(50.0)), ..InferenceConditions::default() }, "cpu_load"),
        (
            InferenceConditions { memory_load: Some(Ratio(f64::NAN)), ..InferenceConditions::default() },
            "memory_load",
        ),
    ] {
        let error = latency.counts(&counts, &passport(1), &conditions).unwrap_err();
        assert!(error.to_string().starts_with(field), "{error}");
    }
}

#[test]
fn counts_give_a_wider_answer_than_shapes() {
    let latency = LatencyPredictor::from_passports();
    let Some(graph) = graph("light-squeezenet", "data_0", &[1, 3, 224, 224]) else { return };
    let counts = SopranoCounts::of(&graph.characteristics, 602_112.0, 4_000.0);
    let (coarse, fine) = (
        latency.counts(&counts, &passport(4), &InferenceConditions::default()).unwrap(),
        latency.graph(&graph, &passport(4), &InferenceConditions::default()).unwrap(),
    );
    let width = |prediction: &Prediction| {
        let json = serde_json::to_value(prediction).unwrap();
        json["high"].as_f64().unwrap() / json["low"].as_f64().unwrap()
    };
    assert!(width(&coarse) > width(&fine));
    let ratio = coarse.value() / fine.value();
    assert!((0.125..8.0).contains(&ratio), "{ratio}");
}

#[test]
fn the_same_values_under_another_shape_are_copied_only_where_somebody_else_wants_them() {
    let bytes_of_view = |is_wanted: bool| {
        let mut graph = GraphBuilder::new(1);
        let input = graph.add_input(DataType::Float, &[64, 64]);
        let made = graph.encode_node("Relu", &[&input], &[]);
        let flat = graph.add_integers(&[4096]);
        let view = graph.encode_node("Reshape", &[&made, &flat], &[]);
        graph.add_output(&view);
        if is_wanted {
            let other = graph.encode_node("Neg", &[&made], &[]);
            graph.add_output(&other);
        }
        let bytes = graph.finish();
        let graph = trial::collect::analyse(&bytes, &ShapeBindings::default()).unwrap();
        let steps = operator_features::steps(&graph, "rten").unwrap();
        steps.into_iter().find(|step| step.kind == "Reshape").unwrap().basis
    };
    assert_eq!(bytes_of_view(false)[1..], [0.0; operator_features::LINEAR_FEATURES.len() - 1]);
    assert_eq!(bytes_of_view(true)[1], 4096.0);
}

/// Interval ends and reasons from counts and from a graph, on a shipped board.
fn on_board(board: &str, runtime: &str, load: f64, graph: &GraphAnalysis) -> [Prediction; 2] {
    let latency = LatencyPredictor::from_passports();
    let passport = metier_device::passport::find_passport(None, board).unwrap();
    let threads = passport.device.cpu.threads;
    let runtime = runtime.to_string();
    let conditions = InferenceConditions { runtime, threads, cpu_load: Some(Ratio(load)), memory_load: None };
    let counts = SopranoCounts::of(&graph.characteristics, 602_112.0, 4_000.0);
    let by_counts = latency.counts(&counts, &passport, &conditions).unwrap();
    [latency.graph(graph, &passport, &conditions).unwrap(), by_counts]
}

#[test]
fn a_board_with_an_accelerator_is_judged_by_it_and_the_interval_reaches_to_the_processor_alone() {
    let Some(graph) = graph("light-resnet50", "gpu_0/data_0", &[1, 3, 224, 224]) else { return };
    let nano = on_board("jetson-nano", ONNX_RUNTIME, 0.8, &graph);
    let pi = on_board("raspberry-pi-4b", ONNX_RUNTIME, 0.8, &graph);
    let alone = on_board("jetson-nano", RTEN, 0.8, &graph);
    for ((nano, pi), alone) in nano.iter().zip(&pi).zip(&alone) {
        assert!(nano.value() < pi.value(), "{nano:?} {pi:?}");
        assert!(nano.reason().contains(" on its accelerator (NVIDIA Maxwell"), "{}", nano.reason());
        // The built-in runtime uses the processor only.
        assert!(!alone.reason().contains("accelerator"), "{}", alone.reason());
        let (low, high) = (nano.interval().low(), nano.interval().high());
        assert!(low < nano.value() && high > 3.0 * nano.value() && !nano.in_range(), "{nano:?}");
    }
}

#[test]
fn a_device_of_which_nothing_but_cores_is_known_has_a_wide_answer_that_says_so() {
    let mut bare = passport(4);
    (bare.compute, bare.bandwidth) = (Vec::new(), Vec::new());
    let latency = LatencyPredictor::from_passports();
    let counts = SopranoCounts { total_parameters: 1e6, conv_layers: 10.0, ..SopranoCounts::default() };
    let [bare, known] = [bare, passport(4)]
        .map(|passport| latency.counts(&counts, &passport, &InferenceConditions::default()).unwrap());
    assert!(bare.reason().contains("(generic)") && !bare.in_range(), "{}", bare.reason());
    let width = |prediction: &Prediction| prediction.interval().high() / prediction.interval().low();
    assert!(width(&bare) > 8.0 * width(&known));
}

#[test]
fn all_threads_are_those_of_the_device_that_is_asked_for() {
    let latency = LatencyPredictor::from_passports();
    let sizes = SopranoCounts { model_input_size: 6e5, ..SopranoCounts::default() };
    let counts = SopranoCounts { total_parameters: 1e6, conv_layers: 10.0, filter_details: 1e3, ..sizes };
    let times_with = |threads: u32| {
        let conditions = InferenceConditions { threads, ..InferenceConditions::default() };
        latency.counts(&counts, &passport(4), &conditions).unwrap()
    };
    assert_eq!(times_with(conditions::ALL_PROCESSORS), times_with(4));
    assert_ne!(times_with(conditions::ALL_PROCESSORS), times_with(1));
}

/// Steps of a graph with one or a few operators.
fn steps_of(make: impl FnOnce(&mut GraphBuilder)) -> Vec<OperatorStep> {
    let mut graph = GraphBuilder::new(1);
    make(&mut graph);
    let graph = trial::collect::analyse(&graph.finish(), &ShapeBindings::default()).unwrap();
    operator_features::steps(&graph, RTEN).unwrap()
}

/// Number of runs of the only step of a kind.
fn pieces(steps: &[OperatorStep], kind: &str) -> f64 {
    let pieces = operator_features::LINEAR_FEATURES.iter().position(|name| *name == "pieces").unwrap();
    steps.iter().find(|step| step.kind == kind).unwrap().basis[pieces]
}

#[test]
fn rows_that_are_added_up_and_values_that_lie_apart_are_told_apart() {
    let reduce = |axis: i64, keep: i64, as_input: bool| {
        let steps = steps_of(|graph| {
            let input = graph.add_input(DataType::Float, &[4, 64, 64]);
            let axes = graph.add_integers(&[axis]);
            let keep = ("keepdims", AttributeValue::Integer(keep));
            let made = match as_input {
                true => graph.encode_node("ReduceSum", &[&input, &axes], &[keep]),
                false => graph.encode_node(
                    "ReduceMax",
                    &[&input],
                    &[("axes", AttributeValue::Integers(vec![axis])), keep],
                ),
            };
            graph.add_output(&made);
        });
        pieces(&steps, if as_input { "ReduceSum" } else { "ReduceMax" })
    };
    let (rows, elements) = (4.0 * 64.0, 4.0 * 64.0 * 64.0);
    // Also for a square, where the shapes do not show which axis was reduced.
    assert_eq!((reduce(2, 1, false), reduce(-1, 0, false), reduce(2, 1, true)), (rows, rows, rows));
    assert_eq!(
        (reduce(1, 1, false), reduce(1, 0, false), reduce(1, 1, true)),
        (elements, elements, elements)
    );
    let turned = |dims: &[u64], perm: Vec<i64>| {
        let steps = steps_of(|graph| {
            let input = graph.add_input(DataType::Float, dims);
            let made = graph.encode_node("Transpose", &[&input], &[("perm", AttributeValue::Integers(perm))]);
            graph.add_output(&made);
        });
        pieces(&steps, "Transpose")
    };
    assert_eq!(turned(&[4, 8, 16], vec![0, 2, 1]), 64.0, "a loop along the last axis");
    assert_eq!(turned(&[4, 1, 16], vec![0, 2, 1]), 64.0, "which has one element here");
    assert_eq!(turned(&[4, 8, 16], vec![1, 0, 2]), 32.0, "rows stay rows");
}

#[test]
fn weights_that_a_loop_carries_along_are_weights_of_its_body() {
    let steps = steps_of(|graph| {
        let weights = graph.add_weights(&[256, 256], 256);
        let given = graph.add_input(DataType::Float, &[256, 256]);
        let carried = graph.encode_node("Add", &[&given, &weights], &[]);
        let all = graph.add_loop(5, &[&carried], &[256, 256], |turn, _, states| {
            vec![turn.encode_node("MatMul", &[&states[0], &states[0]], &[])]
        });
        graph.add_output(&all[0]);
    });
    let product = steps.iter().find(|step| step.kind == "MatMul").unwrap();
    assert_eq!((product.turns, product.weight_bytes), (5, 4.0 * 256.0 * 256.0));
}

/// A named count of the only step of a kind.
fn counted(steps: &[OperatorStep], kind: &str, name: &str) -> f64 {
    let at = operator_features::LINEAR_FEATURES.iter().position(|known| *known == name).unwrap();
    steps.iter().find(|step| step.kind == kind).unwrap().basis[at]
}

#[test]
fn what_a_convolution_of_each_channel_leaves_out_in_the_padding_is_not_counted() {
    let of = |strides: [i64; 2], pads: Option<[i64; 4]>| {
        steps_of(|graph| {
            let input = graph.add_input(DataType::Float, &[1, 8, 3, 40]);
            let weights = graph.add_weights(&[8, 1, 5, 5], 25);
            let mut settings = vec![
                ("group", AttributeValue::Integer(8)),
                ("kernel_shape", AttributeValue::Integers(vec![5, 5])),
                ("strides", AttributeValue::Integers(strides.to_vec())),
            ];
            match pads {
                Some(pads) => settings.push(("pads", AttributeValue::Integers(pads.to_vec()))),
                None => settings.push(("auto_pad", AttributeValue::Text("SAME_UPPER"))),
            }
            let made = graph.encode_node("Conv", &[&input, &weights], &settings);
            graph.add_output(&made);
        })
    };
    // Each of three rows overlaps three of the window's five; of 40 columns 2, 1, 0, 1 and 2 are
    // missing.
    for pads in [Some([2, 2, 2, 2]), None] {
        let steps = of([1, 1], pads);
        assert_eq!(counted(&steps, "Conv", "left"), 8.0 * 9.0 * 5.0);
        assert_eq!(counted(&steps, "Conv", "work"), 8.0 * 9.0 * 194.0);
    }
    // Stride two: rows 0 and 2 overlap three each; the columns are strided.
    let steps = of([2, 2], Some([2, 2, 2, 2]));
    assert_eq!(counted(&steps, "Conv", "left"), 8.0 * 6.0 * 5.0);
    assert_eq!(counted(&steps, "Conv", "work"), 0.0);
    assert_eq!(counted(&steps, "Conv", "right"), 8.0 * 6.0 * (19.0 + 19.0 + 20.0 + 20.0 + 19.0));
}

#[test]
fn a_right_side_whose_lines_lie_across_is_packed_value_by_value() {
    let gemm = |across: i64| {
        steps_of(|graph| {
            let input = graph.add_input(DataType::Float, &[20, 64]);
            let weights = graph.add_weights(&[64, 64], 64);
            let made = graph.encode_node(
                "Gemm",
                &[&input, &weights],
                &[("transB", AttributeValue::Integer(across))],
            );
            graph.add_output(&made);
        })
    };
    let sides =
        |steps: &[OperatorStep], kind: &str| (counted(steps, kind, "right"), counted(steps, kind, "turned"));
    assert_eq!(sides(&gemm(0), "Gemm"), (4096.0, 0.0));
    assert_eq!(sides(&gemm(1), "Gemm"), (0.0, 4096.0));
    // Fused transposes count only if they move the contiguous axis.
    let product = |perm: Vec<i64>, dims: &[u64]| {
        steps_of(|graph| {
            let (left, right) =
                (graph.add_input(DataType::Float, &[2, 4, 16, 32]), graph.add_input(DataType::Float, dims));
            let turned =
                graph.encode_node("Transpose", &[&right], &[("perm", AttributeValue::Integers(perm))]);
            let made = graph.encode_node("MatMul", &[&left, &turned], &[]);
            graph.add_output(&made);
        })
    };
    assert_eq!(sides(&product(vec![0, 2, 3, 1], &[2, 64, 4, 32]), "MatMul"), (0.0, 8.0 * 32.0 * 64.0));
    assert_eq!(sides(&product(vec![0, 2, 1, 3], &[2, 32, 4, 64]), "MatMul"), (8.0 * 32.0 * 64.0, 0.0));
}

#[test]
fn a_table_that_is_looked_into_is_not_read_as_a_whole() {
    let steps = steps_of(|graph| {
        let table = graph.add_weights(&[30_000, 64], 64);
        let words = graph.add_input(DataType::Int64, &[1, 4]);
        let made = graph.encode_node("Gather", &[&table, &words], &[("axis", AttributeValue::Integer(0))]);
        graph.add_output(&made);
    });
    let read = steps[0].bytes;
    assert!(read <= 3.0 * 4.0 * 64.0 * 4.0, "{read}");
}
