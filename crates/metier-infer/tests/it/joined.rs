//! Fused operators of an engine map to operators of the file.

use crate::common::{file, graph, node, value, weights};

/// A convolution, its bias and its activation are one engine operator of any name.
#[test]
fn joined_operators_are_found_in_the_file() {
    let nodes = [
        node("Conv", &["x", "w"], &["c"], &[]).text(3, "conv"),
        node("Relu", &["c"], &["r"], &[]).text(3, "bend"),
        node("Conv", &["r", "w2"], &["y"], &[]),
    ];
    let constants = [weights("w", &[4, 3, 1, 1]), weights("w2", &[2, 4, 1, 1])];
    let bytes =
        file(&graph(&nodes, &constants, &[value("x", &[1, 3, 5, 5])], &[value("y", &[1, 2, 5, 5])]), 17);
    let limits = metier_onnx::OnnxLimits::default();
    let model = metier_onnx::read_onnx(&bytes, &limits).expect("a graph");
    let told =
        metier_onnx::analyse_graph(&model, &metier_onnx::ShapeBindings::default(), &limits).expect("sizes");
    let time = |name: &str, inputs: &[&str], outputs: &[&str]| metier_infer::EngineOperatorTime {
        name: name.into(),
        kind: "Conv".into(),
        inputs: inputs.iter().map(ToString::to_string).collect(),
        outputs: outputs.iter().map(ToString::to_string).collect(),
        seconds: 1.0,
    };
    // Fused, mapped by values; and mapped by name, in a layout whose values are not the file's.
    let shares = metier_infer::match_operators(
        &told,
        &[time("any", &["x", "w"], &["r"]), time("y_nchwc", &["q"], &["p"])],
    );
    assert_eq!(shares[0].operators, ["conv", "bend"]);
    assert_eq!((shares[0].multiply_adds, shares[1].multiply_adds), (Some(4 * 3 * 25), Some(2 * 4 * 25)));
    assert_eq!(shares[1].operators, ["y"]);
}
