//! Time by operator in the built-in engine, whose log is caught on its way to stdout.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "tests")]

#[path = "../../metier-onnx/tests/common/mod.rs"]
mod common;

use common::{file, graph, node, value};
use metier_infer::{Engine, Loaded, Tensor, Values};

fn main() {
    let nodes = [
        node("Sigmoid", &["x"], &["half (1)"], &[]).text(3, "the curve"),
        node("Concat", &["half (1)", "x"], &["y"], &[("axis", &[0])]),
    ];
    let bytes = file(&graph(&nodes, &[], &[value("x", &[2])], &[value("y", &[4])]), 17);
    let mut loaded = Loaded::new(&Engine::Rten, &bytes, 1).expect("it loads");
    loaded
        .give(&[Tensor { name: "x".into(), shape: vec![2], values: Values::Float(vec![0.0; 2]) }])
        .expect("it fits");
    let operators = loaded.operators(3).expect("it is looked at");
    let seen: Vec<_> = operators
        .iter()
        .map(|one| (one.kind.as_str(), one.name.as_str(), one.inputs.join("+"), one.outputs.join("+")))
        .collect();
    assert_eq!(seen.len(), 2, "each operator once: {operators:?}");
    assert_eq!(seen[0], ("Sigmoid", "the curve", "x".into(), "half (1)".into()));
    assert_eq!((seen[1].0, &seen[1].2, &seen[1].3), ("Concat", &"half (1)+x".to_string(), &"y".to_string()));
    assert!(operators.iter().all(|one| (0.0..1.0).contains(&one.seconds)), "{operators:?}");
    joined_operators_are_found_in_the_file();
    // stdout is back.
    println!("time by operator: ok");
}

/// A convolution, its bias and its bend are one operator in an engine, whatever it is called there.
fn joined_operators_are_found_in_the_file() {
    let nodes = [
        node("Conv", &["x", "w"], &["c"], &[]).text(3, "conv"),
        node("Relu", &["c"], &["r"], &[]).text(3, "bend"),
        node("Conv", &["r", "w2"], &["y"], &[]),
    ];
    let weights = [common::weights("w", &[4, 3, 1, 1]), common::weights("w2", &[2, 4, 1, 1])];
    let bytes =
        file(&graph(&nodes, &weights, &[value("x", &[1, 3, 5, 5])], &[value("y", &[1, 2, 5, 5])]), 17);
    let limits = metier_onnx::Limits::default();
    let model = metier_onnx::read(&bytes, &limits).expect("a graph");
    let told = metier_onnx::analyse(&model, &metier_onnx::Bindings::default(), &limits).expect("sizes");
    let time = |name: &str, inputs: &[&str], outputs: &[&str]| metier_infer::OperatorTime {
        name: name.into(),
        kind: "Conv".into(),
        inputs: inputs.iter().map(ToString::to_string).collect(),
        outputs: outputs.iter().map(ToString::to_string).collect(),
        seconds: 1.0,
    };
    // By values, joined; and by names, in a layout of its own, whose values are not the file's.
    let shares =
        metier_infer::shares(&told, &[time("any", &["x", "w"], &["r"]), time("y_nchwc", &["q"], &["p"])]);
    assert_eq!(shares[0].operators, ["conv", "bend"]);
    assert_eq!((shares[0].multiply_adds, shares[1].multiply_adds), (Some(4 * 3 * 25), Some(2 * 4 * 25)));
    assert_eq!(shares[1].operators, ["y"]);
}
