//! Small synthetic graphs in both engines.

use crate::common::{self, file, graph, node, value, weights};
use metier_infer::graph_inputs::{self, InputOptions};
use metier_infer::{
    EngineRuntime, Error, GraphSource, InferenceEngine, LoadedGraph, NamedTensor, TensorValues, TimingPlan,
    TimingStep,
};
use metier_onnx::{OnnxLimits, ShapeBindings};

/// A constant with content.
fn filled(name: &str, dims: &[u64], values: &[f32]) -> common::Message {
    let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    weights(name, dims).bytes(9, &raw)
}

/// `y = relu(x · w)`, with 2 x 3 weights.
fn product() -> Vec<u8> {
    let nodes = [
        node("MatMul", &["x", "w"], &["p"], &[]).text(3, "the product"),
        node("Relu", &["p"], &["y"], &[]).text(3, "the bend"),
    ];
    let w = filled("w", &[2, 3], &[1.0, 2.0, 3.0, -4.0, 5.0, -6.0]);
    file(&graph(&nodes, &[w], &[value("x", &[-1, 2])], &[value("y", &[-1, 3])]), 17)
}

fn given(values: Vec<f32>) -> Vec<NamedTensor> {
    vec![NamedTensor {
        name: "x".into(),
        shape: vec![values.len() / 2, 2],
        values: TensorValues::Float(values),
    }]
}

fn analysed(bytes: &[u8], bindings: &ShapeBindings) -> metier_onnx::GraphAnalysis {
    let model = metier_onnx::read_onnx(bytes, &OnnxLimits::default()).unwrap();
    metier_onnx::analyse_graph(&model, bindings, &OnnxLimits::default()).unwrap()
}

#[test]
fn a_graph_gives_what_it_computes() {
    let mut loaded = LoadedGraph::new(&InferenceEngine::Rten, &product(), 1).unwrap();
    loaded.set_inputs(&given(vec![1.0, 1.0, 2.0, 0.0])).unwrap();
    let outputs = loaded.run_for_outputs().unwrap();
    assert_eq!(outputs.len(), 1);
    assert_eq!((outputs[0].name.as_str(), outputs[0].shape.as_slice()), ("y", [2, 3].as_slice()));
    assert_eq!(outputs[0].values, TensorValues::Float(vec![0.0, 7.0, 0.0, 2.0, 4.0, 6.0]));
}

#[test]
fn one_runtime_loads_many_graphs_one_after_the_other() {
    let runtime = EngineRuntime::open(&InferenceEngine::Rten, 2).unwrap();
    for _ in 0..200 {
        let mut loaded = runtime.load(GraphSource::Bytes(&product())).unwrap();
        loaded.set_inputs(&given(vec![1.0; 8])).unwrap();
        let spent = loaded.run_once().unwrap();
        assert!(spent.wall.0 > 0.0 && spent.cpu.0 >= 0.0, "{spent:?}");
    }
}

#[test]
fn a_plan_is_kept_to_step_by_step() {
    let plan = TimingPlan {
        warmup: 3,
        repeats: 5,
        looks: 2,
        outputs: true,
        ..TimingPlan::new(InferenceEngine::Rten, given(vec![1.0; 4]))
    };
    let mut steps = Vec::new();
    let timing =
        metier_infer::time_graph(GraphSource::Bytes(&product()), &plan, &mut |step| steps.push(*step))
            .unwrap();
    assert!(matches!(steps[..2], [TimingStep::Load(_), TimingStep::First(_)]), "{steps:?}");
    assert_eq!(steps.iter().filter(|step| matches!(step, TimingStep::Warmup(_))).count(), 3);
    assert_eq!((timing.runs.len(), steps.len()), (5, 10));
    assert_eq!(timing.outputs.len(), 1);
}

#[test]
fn an_operator_that_nobody_knows_is_named() {
    let unknown = file(
        &graph(&[node("Frobnicate", &["x"], &["y"], &[])], &[], &[value("x", &[1])], &[value("y", &[1])]),
        17,
    );
    let error = LoadedGraph::new(&InferenceEngine::Rten, &unknown, 1).err().unwrap();
    assert!(matches!(error, Error::Load { .. }) && error.to_string().contains("Frobnicate"), "{error}");
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let mut loaded = LoadedGraph::new(&InferenceEngine::Rten, &product(), 1).unwrap();
    let wrong =
        NamedTensor { name: "z".into(), shape: vec![1, 2], values: TensorValues::Float(vec![0.0; 2]) };
    assert_eq!(loaded.set_inputs(&[wrong]).unwrap_err().to_string(), "input \"z\" is given; want one of x");
    let short =
        NamedTensor { name: "x".into(), shape: vec![1, 2], values: TensorValues::Float(vec![0.0; 3]) };
    let error = loaded.set_inputs(&[short]).unwrap_err().to_string();
    assert!(error.contains("3 elements") && error.contains('2'), "{error}");
    // Without inputs: an error, not a panic.
    let mut loaded = LoadedGraph::new(&InferenceEngine::Rten, &product(), 1).unwrap();
    assert!(matches!(loaded.run_once(), Err(Error::Run { .. })));
    assert!(EngineRuntime::open(&InferenceEngine::Rten, 0).is_err());
    for bytes in [&b"not a graph"[..], &[], &product()[..40]] {
        assert!(LoadedGraph::new(&InferenceEngine::Rten, bytes, 1).is_err());
    }
}

#[test]
fn inputs_fit_the_graph_and_are_the_same_for_the_same_seed() {
    let mut bindings = ShapeBindings::default();
    let model = metier_onnx::read_onnx(&product(), &OnnxLimits::default()).unwrap();
    graph_inputs::bind_batch_size(&model.graph, 4, &mut bindings).unwrap();
    let told = analysed(&product(), &bindings);
    let (made, _) = graph_inputs::make_inputs(&told, &InputOptions::default()).unwrap();
    assert_eq!((made[0].name.as_str(), made[0].shape.as_slice()), ("x", [4, 2].as_slice()));
    assert!(made[0].values.to_numbers().iter().all(|number| (0.0..1.0).contains(number)));
    assert_eq!(graph_inputs::make_inputs(&told, &InputOptions::default()).unwrap().0, made);
    let other =
        graph_inputs::make_inputs(&told, &InputOptions { seed: 1, ..InputOptions::default() }).unwrap().0;
    assert_ne!(other, made);
    let numbers = [("x".to_string(), vec![2.5])].into();
    let (fixed, _) =
        graph_inputs::make_inputs(&told, &InputOptions { numbers, ..InputOptions::default() }).unwrap();
    assert_eq!(fixed[0].values, TensorValues::Float(vec![2.5; 8]));
    let numbers = [("x".to_string(), vec![1.0, 2.0])].into();
    let error = graph_inputs::make_inputs(&told, &InputOptions { numbers, ..InputOptions::default() })
        .unwrap_err()
        .to_string();
    assert!(error.contains("\"x\"") && error.contains("1 or 8"), "{error}");
}

#[test]
fn ids_stay_inside_the_table_that_they_index() {
    let ids = common::Message::default().text(1, "ids").message(
        2,
        &common::Message::default().message(
            1,
            &common::Message::default().number(1, 7).message(
                2,
                &common::Message::default().message(1, &common::Message::default().number(1, 50)),
            ),
        ),
    );
    let table = filled("table", &[3, 1], &[0.0, 10.0, 20.0]);
    let bytes = file(
        &graph(&[node("Gather", &["table", "ids"], &["y"], &[])], &[table], &[ids], &[value("y", &[50, 1])]),
        17,
    );
    let told = analysed(&bytes, &ShapeBindings::default());
    let (made, _) = graph_inputs::make_inputs(&told, &InputOptions::default()).unwrap();
    let numbers = made[0].values.to_numbers();
    assert!(numbers.iter().all(|number| *number < 3.0) && numbers.contains(&2.0), "{numbers:?}");
    let mut loaded = LoadedGraph::new(&InferenceEngine::Rten, &bytes, 1).unwrap();
    loaded.set_inputs(&made).unwrap();
    let want: Vec<f64> = numbers.iter().map(|number| number * 10.0).collect();
    assert_eq!(loaded.run_for_outputs().unwrap()[0].values.to_numbers(), want);
}
