//! The shipped example graph equals the one built here. `METIER_BLESS=1` rewrites it.

use metier_onnx::graph_builder::{AttributeValue, GraphBuilder};
use metier_onnx::{DataType, OnnxLimits, ShapeBindings, analyse_graph, read_onnx};

/// A small image network: strided convolutions and ten classes.
fn network() -> Vec<u8> {
    let list = |sizes: &[i64]| AttributeValue::Integers(sizes.to_vec());
    let mut made = GraphBuilder::new(1789);
    let mut at = made.add_input(DataType::Float, &[1, 3, 160, 160]);
    for (before, channels, stride) in [(3, 16, 2), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 2)] {
        let weights = made.add_weights(&[channels, before, 3, 3], before * 9);
        let settings =
            [("kernel_shape", list(&[3, 3])), ("pads", list(&[1; 4])), ("strides", list(&[stride, stride]))];
        at = made.encode_node("Conv", &[&at, &weights], &settings);
        at = made.encode_node("Relu", &[&at], &[]);
    }
    at = made.encode_node("GlobalAveragePool", &[&at], &[]);
    at = made.encode_node("Flatten", &[&at], &[("axis", AttributeValue::Integer(1))]);
    let (weights, bias) = (made.add_weights(&[64, 10], 64), made.add_weights(&[10], 10));
    at = made.encode_node("Gemm", &[&at, &weights, &bias], &[]);
    at = made.encode_node("Softmax", &[&at], &[("axis", AttributeValue::Integer(-1))]);
    made.add_output(&at);
    made.finish()
}

#[test]
fn the_shipped_graph_is_the_one_that_is_made_here() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/pictures.onnx");
    let made = network();
    if std::env::var_os("METIER_BLESS").is_some() {
        std::fs::write(&file, &made).unwrap();
    }
    assert!(std::fs::read(&file).unwrap_or_default() == made, "{} is stale", file.display());
    let model = read_onnx(&made, &OnnxLimits::default()).unwrap();
    let told = analyse_graph(&model, &ShapeBindings::default(), &OnnxLimits::default()).unwrap();
    assert_eq!((told.operators.len(), told.operators_without_cost), (14, 0));
    assert!(told.multiply_adds > 10_000_000 && made.len() < 300_000, "{} {}", told.multiply_adds, made.len());
}
