//! Operator times of the built-in engine, whose log is captured from stdout. The standard harness
//! would print to stdout at the same time, so this process runs without it. Like a harness it lists
//! its test for cargo-nextest.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "tests")]

#[path = "../../metier-onnx/tests/it/common/mod.rs"]
mod common;

use common::{file, graph, node, value};
use metier_infer::{InferenceEngine, LoadedGraph, NamedTensor, TensorValues};

const NAME: &str = "time_by_operator_is_read_from_the_engine";

fn main() {
    let is_given = |flag: &str| std::env::args().any(|argument| argument == flag);
    if is_given("--list") {
        if !is_given("--ignored") {
            println!("{NAME}: test");
        }
        return;
    }
    let nodes = [
        node("Sigmoid", &["x"], &["half (1)"], &[]).text(3, "the curve"),
        node("Concat", &["half (1)", "x"], &["y"], &[("axis", &[0])]),
    ];
    let bytes = file(&graph(&nodes, &[], &[value("x", &[2])], &[value("y", &[4])]), 17);
    let mut loaded = LoadedGraph::new(&InferenceEngine::Rten, &bytes, 1).expect("it loads");
    loaded
        .set_inputs(&[NamedTensor {
            name: "x".into(),
            shape: vec![2],
            values: TensorValues::Float(vec![0.0; 2]),
        }])
        .expect("it fits");
    let operators = loaded.time_operators(3).expect("it is looked at");
    let seen: Vec<_> = operators
        .iter()
        .map(|one| (one.kind.as_str(), one.name.as_str(), one.inputs.join("+"), one.outputs.join("+")))
        .collect();
    assert_eq!(seen.len(), 2, "each operator once: {operators:?}");
    assert_eq!(seen[0], ("Sigmoid", "the curve", "x".into(), "half (1)".into()));
    assert_eq!((seen[1].0, &seen[1].2, &seen[1].3), ("Concat", &"half (1)+x".to_string(), &"y".to_string()));
    assert!(operators.iter().all(|one| (0.0..1.0).contains(&one.seconds)), "{operators:?}");
    // stdout is restored.
    println!("{NAME}: ok");
}
