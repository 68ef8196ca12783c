//! Sizes and costs of single operators, calculated by hand from their definitions.

use crate::common::{Message, file, graph, integers, node, value, weights};
use metier_onnx::{Error, GraphAnalysis, OnnxLimits, ShapeBindings, analyse_graph, read_onnx};

fn analysed(bytes: &[u8]) -> Result<GraphAnalysis, Error> {
    analyse_graph(
        &read_onnx(bytes, &OnnxLimits::default())?,
        &ShapeBindings::default(),
        &OnnxLimits::default(),
    )
}

/// Shape of the output and multiply-adds of one operator on an input `x`.
fn one(
    kind: &str,
    x: &[i64],
    constants: &[Message],
    more: &[&str],
    attributes: &[(&str, &[i64])],
) -> (Vec<u64>, u64) {
    let inputs: Vec<&str> = ["x"].iter().chain(more).copied().collect();
    let nodes = [node(kind, &inputs, &["y"], attributes)];
    let told = analysed(&file(&graph(&nodes, constants, &[value("x", x)], &[value("y", &[])]), 18)).unwrap();
    let shape = told.outputs[0].shape.clone().unwrap().into_iter().map(Option::unwrap).collect();
    (shape, told.multiply_adds)
}

#[test]
fn a_convolution_counts_windows_pads_strides_dilations_and_groups() {
    let w = |dims: &[u64]| [weights("w", dims)];
    let conv =
        |x: &[i64], dims: &[u64], attributes: &[(&str, &[i64])]| one("Conv", x, &w(dims), &["w"], attributes);
    assert_eq!(
        conv(&[1, 3, 224, 224], &[64, 3, 7, 7], &[("strides", &[2, 2]), ("pads", &[3, 3, 3, 3])]),
        (vec![1, 64, 112, 112], 64 * 112 * 112 * 3 * 49)
    );
    assert_eq!(conv(&[2, 8, 10, 10], &[8, 1, 3, 3], &[("group", &[8])]), (vec![2, 8, 8, 8], 2 * 8 * 64 * 9));
    assert_eq!(conv(&[1, 1, 10], &[1, 1, 3], &[("dilations", &[2,])]), (vec![1, 1, 6], 18));
}

#[test]
fn a_transposed_convolution_grows() {
    let (shape, adds) =
        one("ConvTranspose", &[1, 4, 5, 5], &[weights("w", &[4, 2, 3, 3])], &["w"], &[("strides", &[2, 2])]);
    assert_eq!((shape, adds), (vec![1, 2, 11, 11], 4 * 25 * 2 * 9));
}

#[test]
fn products_follow_numpy() {
    let matmul = |x: &[i64], dims: &[u64]| one("MatMul", x, &[weights("w", dims)], &["w"], &[]);
    assert_eq!(matmul(&[5, 7, 3], &[3, 2]), (vec![5, 7, 2], 5 * 7 * 3 * 2));
    assert_eq!(matmul(&[3], &[4, 3, 2]), (vec![4, 2], 4 * 3 * 2));
    assert_eq!(matmul(&[1, 2, 3], &[6, 3, 4]), (vec![6, 2, 4], 6 * 2 * 3 * 4));
    let gemm = one("Gemm", &[3, 5], &[weights("w", &[7, 3])], &["w"], &[("transA", &[1]), ("transB", &[1])]);
    assert_eq!(gemm, (vec![5, 7], 5 * 7 * 3));
}

#[test]
fn a_pool_may_round_up_but_not_start_behind_the_end() {
    let pool = |size: i64, stride: i64, ceil: i64| {
        let attributes: [(&str, &[i64]); 3] =
            [("kernel_shape", &[2]), ("strides", &[stride]), ("ceil_mode", &[ceil])];
        one("MaxPool", &[1, 1, size], &[], &[], &attributes).0[2]
    };
    assert_eq!((pool(5, 2, 0), pool(5, 2, 1)), (2, 3));
    // With a stride of 3 over 6 elements a third window would start at 6, after the end.
    assert_eq!((pool(6, 3, 0), pool(6, 3, 1)), (2, 2));
}

#[test]
fn sizes_that_are_computed_from_sizes_are_followed() {
    // y = reshape(x, [shape(x)[0], -1]), as exporters write it.
    let nodes = [
        node("Shape", &["x"], &["s"], &[]),
        node("Gather", &["s", "zero"], &["b"], &[]),
        node("Concat", &["b", "rest"], &["t"], &[("axis", &[0])]),
        node("Reshape", &["x", "t"], &["y"], &[]),
    ];
    let constants = [integers("zero", &[0]), integers("rest", &[-1])];
    let told = analysed(&file(&graph(&nodes, &constants, &[value("x", &[4, 3, 5])], &[value("y", &[])]), 13))
        .unwrap();
    assert_eq!(told.outputs[0].shape, Some(vec![Some(4), Some(15)]));
}

#[test]
fn a_slice_counts_as_numpy_does() {
    let slice = |size: i64, bounds: [i64; 3]| {
        let constants = [
            integers("a", &bounds[..1]),
            integers("b", &bounds[1..2]),
            integers("c", &[0]),
            integers("d", &bounds[2..]),
        ];
        one("Slice", &[size, 2], &constants, &["a", "b", "c", "d"], &[]).0[0]
    };
    for (size, bounds, count) in [
        (10, [2, 8, 2], 3),
        (10, [-3, i64::MAX, 1], 3),
        (10, [9, i64::MIN, -1], 10),
        (10, [-1, 0, -3], 3),
        (10, [8, 2, 1], 0),
        (0, [0, 5, 1], 0),
    ] {
        assert_eq!(slice(size, bounds), count, "{size} {bounds:?}");
    }
}

#[test]
fn a_slice_whose_bounds_only_a_run_tells_is_open_there_and_only_there() {
    let inputs = [value("x", &[4, 5, 6]), value("a", &[2]), value("b", &[2])];
    let nodes = [node("Slice", &["x", "a", "b"], &["y"], &[])];
    let told = analysed(&file(&graph(&nodes, &[], &inputs, &[value("y", &[])]), 13)).unwrap();
    assert_eq!(told.outputs[0].shape, Some(vec![None, None, Some(6)]));
}

#[test]
fn what_does_not_fit_is_named() {
    let nodes = [node("MatMul", &["x", "w"], &["y"], &[])];
    let bytes =
        file(&graph(&nodes, &[weights("w", &[4, 2])], &[value("x", &[5, 3])], &[value("y", &[])]), 13);
    assert_eq!(
        analysed(&bytes).unwrap_err().to_string(),
        "operator MatMul #0: a product of 3 columns and 4 rows"
    );
}

#[test]
fn an_operator_that_nobody_knows_leaves_its_cost_open() {
    let nodes = [node("Frobnicate", &["x"], &["m"], &[]), node("Relu", &["m"], &["y"], &[])];
    let told = analysed(&file(&graph(&nodes, &[], &[value("x", &[2])], &[value("y", &[])]), 13)).unwrap();
    assert_eq!(told.operators_without_cost, 1);
    assert_eq!(told.peak_activation_bytes, None);
    assert!(told.notes[0].contains("Frobnicate"), "{:?}", told.notes);
}

#[test]
fn the_most_that_is_alive_at_one_moment_counts() {
    // x (8 B) → a (8 B) → b (8 B), y = a + b: at the sum a, b and y are alive; x is gone after a.
    let nodes = [
        node("Relu", &["x"], &["a"], &[]),
        node("Sigmoid", &["a"], &["b"], &[]),
        node("Add", &["a", "b"], &["y"], &[]),
    ];
    let told = analysed(&file(&graph(&nodes, &[], &[value("x", &[2])], &[value("y", &[])]), 13)).unwrap();
    assert_eq!(told.peak_activation_bytes.map(|bytes| bytes.0), Some(24));
}

#[test]
fn a_size_that_one_input_gives_to_a_name_holds_for_all() {
    let nodes = [node("MatMul", &["a", "b"], &["y"], &[])];
    let inputs = [value("a", &[-1, 16, 8]), value("b", &[-1, 8, 4])];
    let bytes = file(&graph(&nodes, &[], &inputs, &[value("y", &[])]), 17);
    let model = read_onnx(&bytes, &OnnxLimits::default()).unwrap();
    let told = |bindings: &ShapeBindings| analyse_graph(&model, bindings, &OnnxLimits::default());
    let mut bindings = ShapeBindings::default();
    bindings.shapes.insert("a".to_string(), vec![3, 16, 8]);
    let bound = told(&bindings).unwrap();
    assert_eq!(bound.inputs[1].shape, Some(vec![Some(3), Some(8), Some(4)]));
    assert_eq!((bound.multiply_adds, bound.notes.len()), (3 * 16 * 8 * 4, 0), "{:?}", bound.notes);
    // Given shapes of both inputs are used unchanged.
    bindings.shapes.insert("b".to_string(), vec![1, 8, 4]);
    assert_eq!(told(&bindings).unwrap().inputs[1].shape, Some(vec![Some(1), Some(8), Some(4)]));
    // The markers of some exporters for unknown dimensions are not names.
    let unnamed = |name: &str| {
        let dim = |text: &str| Message::default().message(1, &Message::default().text(2, text));
        let shape = dim("?").message(1, &Message::default().number(1, 8));
        let tensor = Message::default().number(1, 1).message(2, &shape);
        Message::default().text(1, name).message(2, &Message::default().message(1, &tensor))
    };
    let nodes = [node("Relu", &["a"], &["y"], &[]), node("Relu", &["b"], &["z"], &[])];
    let outputs = [value("y", &[]), value("z", &[])];
    let bytes = file(&graph(&nodes, &[], &[unnamed("a"), unnamed("b")], &outputs), 17);
    let mut bindings = ShapeBindings::default();
    bindings.shapes.insert("a".to_string(), vec![3, 8]);
    let open = read_onnx(&bytes, &OnnxLimits::default()).unwrap();
    let open = analyse_graph(&open, &bindings, &OnnxLimits::default()).unwrap();
    assert_eq!(open.inputs[1].shape, Some(vec![Some(1), Some(8)]));
    let mut bindings = ShapeBindings::default();
    bindings.dims.insert("n".to_string(), 5);
    assert_eq!(told(&bindings).unwrap().multiply_adds, 5 * 16 * 8 * 4);
    bindings.dims.insert("batch".to_string(), 5);
    let said = told(&bindings).unwrap_err().to_string();
    assert_eq!(said, "dimension \"batch\" is given; want one of n");
}
