//! Quantised, recurrent, attention and self-defined operators: sizes and costs calculated by hand
//! from their definitions.

use crate::common::{Message, file, graph, integers, node, value, weights};
use metier_onnx::{DataType, GraphAnalysis, OnnxLimits, ShapeBindings, analyse_graph, read_onnx};

fn analysed(bytes: &[u8]) -> GraphAnalysis {
    analyse_graph(
        &read_onnx(bytes, &OnnxLimits::default()).unwrap(),
        &ShapeBindings::default(),
        &OnnxLimits::default(),
    )
    .unwrap()
}

/// A constant of a type, without content.
fn typed(name: &str, kind: i64, dims: &[i64]) -> Message {
    dims.iter().fold(Message::default(), |tensor, size| tensor.number(1, *size)).number(2, kind).text(8, name)
}

fn shape(told: &GraphAnalysis, output: usize) -> Vec<u64> {
    told.outputs[output].shape.clone().unwrap().into_iter().map(Option::unwrap).collect()
}

const FLOAT: i64 = 1;
const UINT8: i64 = 2;
const INT8: i64 = 3;
const INT32: i64 = 6;
const BFLOAT16: i64 = 16;
const INT4: i64 = 22;

#[test]
fn attention_counts_heads_that_share_keys_and_what_was_before() {
    // 8 heads of queries on 2 of keys; 3 new positions after 5 old ones; 4 elements per key and 6
    // per value.
    let inputs = [
        value("q", &[1, 8, 3, 4]),
        value("k", &[1, 2, 3, 4]),
        value("v", &[1, 2, 3, 6]),
        value("pk", &[1, 2, 5, 4]),
        value("pv", &[1, 2, 5, 6]),
    ];
    let outputs = [value("y", &[]), value("nk", &[]), value("nv", &[])];
    let nodes = [node("Attention", &["q", "k", "v", "", "pk", "pv"], &["y", "nk", "nv"], &[])];
    let told = analysed(&file(&graph(&nodes, &[], &inputs, &outputs), 23));
    assert_eq!(shape(&told, 0), [1, 8, 3, 6]);
    assert_eq!((shape(&told, 1), shape(&told, 2)), (vec![1, 2, 8, 4], vec![1, 2, 8, 6]));
    assert_eq!(told.multiply_adds, 8 * 3 * 8 * (4 + 6));
    assert!(told.peak_activation_bytes.is_some());

    // The same with concatenated heads: the result is as wide as all heads of queries, not as the
    // values.
    let inputs = [value("q", &[1, 3, 32]), value("k", &[1, 3, 8]), value("v", &[1, 3, 12])];
    let heads: [(&str, &[i64]); 2] = [("q_num_heads", &[8]), ("kv_num_heads", &[2])];
    let nodes = [node("Attention", &["q", "k", "v"], &["y"], &heads)];
    let told = analysed(&file(&graph(&nodes, &[], &inputs, &[value("y", &[])]), 23));
    assert_eq!(shape(&told, 0), [1, 3, 48]);
    assert_eq!(told.multiply_adds, 8 * 3 * 3 * (4 + 6));
}

#[test]
fn attention_of_onnx_runtime_is_known_too() {
    let whose = |node: Message| node.text(7, "com.microsoft");
    let nodes = [whose(node("Attention", &["x", "w", "b"], &["y"], &[("num_heads", &[4])]))];
    let constants = [weights("w", &[16, 48]), weights("b", &[48])];
    let told =
        analysed(&file(&graph(&nodes, &constants, &[value("x", &[2, 5, 16])], &[value("y", &[])]), 17));
    assert_eq!(shape(&told, 0), [2, 5, 16]);
    assert_eq!(told.multiply_adds, 2 * 5 * 16 * 48 + 2 * 5 * 5 * 2 * 16);

    let heads: [(&str, &[i64]); 2] = [("num_heads", &[8]), ("kv_num_heads", &[2])];
    let inputs = [
        value("q", &[1, 1, 32]),
        value("k", &[1, 1, 8]),
        value("v", &[1, 1, 8]),
        value("pk", &[1, 2, 9, 4]),
        value("pv", &[1, 2, 9, 4]),
    ];
    let nodes =
        [whose(node("GroupQueryAttention", &["q", "k", "v", "pk", "pv"], &["y", "nk", "nv"], &heads))];
    let outputs = [value("y", &[]), value("nk", &[]), value("nv", &[])];
    let told = analysed(&file(&graph(&nodes, &[], &inputs, &outputs), 17));
    assert_eq!((shape(&told, 0), shape(&told, 1)), (vec![1, 1, 32], vec![1, 2, 10, 4]));
    assert_eq!(told.multiply_adds, 8 * 10 * (4 + 4));
}

#[test]
fn a_quantised_network_has_the_weights_and_products_of_the_one_that_it_was() {
    let scale = |name: &str| weights(name, &[]);
    let zero = |name: &str| typed(name, UINT8, &[]);
    let constants = [
        scale("s"),
        zero("z"),
        typed("w", INT8, &[8, 3, 3, 3]),
        typed("b", INT32, &[8]),
        typed("m", INT8, &[8, 10]),
    ];
    let of = |kind: &str, inputs: &[&str], output: &str, settings: &[(&str, &[i64])]| {
        node(kind, inputs, &[output], settings).text(7, "com.microsoft")
    };
    let nodes = [
        node("QuantizeLinear", &["x", "s", "z"], &["q"], &[]),
        node(
            "QLinearConv",
            &["q", "s", "z", "w", "s", "z", "s", "z", "b"],
            &["c"],
            &[("pads", &[1, 1, 1, 1])],
        ),
        of("QLinearAdd", &["c", "s", "z", "c", "s", "z", "s", "z"], "a", &[]),
        of("QLinearConcat", &["s", "z", "a", "s", "z", "c", "s", "z"], "n", &[("axis", &[1])]),
        of("QLinearGlobalAveragePool", &["a", "s", "z", "s", "z"], "p", &[]),
        node("Flatten", &["p"], &["f"], &[]),
        of("QGemm", &["f", "s", "z", "m", "s", "z", "", "s", "z"], "y", &[]),
    ];
    let outputs = [value("y", &[]), value("n", &[])];
    let told = analysed(&file(&graph(&nodes, &constants, &[value("x", &[1, 3, 16, 16])], &outputs), 17));
    assert_eq!(told.operators_without_cost, 0, "{:?}", told.notes);
    assert_eq!((shape(&told, 0), shape(&told, 1)), (vec![1, 10], vec![1, 16, 16, 16]));
    assert_eq!(told.outputs[0].data_type, Some(DataType::Uint8));
    assert_eq!(told.multiply_adds, 8 * 256 * 27 + 10 * 8);
    // Weights of both layers, and the one scale; zero points and integer biases do not count.
    assert_eq!(told.parameters, 8 * 27 + 8 * 10 + 1);
    assert_eq!(told.weight_bytes.0, 8 * 27 + 8 * 10 + 4 + 1 + 8 * 4);
    let counts = told.characteristics;
    assert_eq!(
        (counts.conv_layers, counts.fc_layers, counts.pool_layers, counts.filter_details),
        (1, 1, 1, 8)
    );
}

#[test]
fn weights_of_4_bits_take_half_a_byte() {
    let constants = [typed("w", INT4, &[16, 33]), typed("s", BFLOAT16, &[])];
    let nodes =
        [node("DequantizeLinear", &["w", "s"], &["d"], &[]), node("MatMul", &["x", "d"], &["y"], &[])];
    let told = analysed(&file(&graph(&nodes, &constants, &[value("x", &[2, 16])], &[value("y", &[])]), 21));
    assert_eq!((told.parameters, told.weight_bytes.0), (16 * 33 + 1, 16 * 33 / 2 + 2));
    assert_eq!(told.multiply_adds, 2 * 16 * 33);
    // Packed by ONNX Runtime, with their sizes as attributes.
    let settings: [(&str, &[i64]); 4] = [("K", &[64]), ("N", &[10]), ("bits", &[4]), ("block_size", &[32])];
    let nodes = [node("MatMulNBits", &["x", "w", "s"], &["y"], &settings).text(7, "com.microsoft")];
    let constants = [typed("w", UINT8, &[10, 2, 16]), typed("s", FLOAT, &[20])];
    let told = analysed(&file(&graph(&nodes, &constants, &[value("x", &[3, 64])], &[value("y", &[])]), 21));
    assert_eq!((shape(&told, 0), told.multiply_adds), (vec![3, 10], 3 * 64 * 10));
    assert_eq!(told.parameters, 64 * 10 + 20);
}

#[test]
fn recurrence_counts_steps_gates_and_directions() {
    let outputs = [value("y", &[]), value("h", &[]), value("c", &[])];
    let direction = Message::default().text(1, "direction").text(4, "bidirectional").number(20, 3);
    let nodes =
        [node("LSTM", &["x", "w", "r"], &["y", "h", "c"], &[("hidden_size", &[6])]).message(5, &direction)];
    let constants = [weights("w", &[2, 24, 5]), weights("r", &[2, 24, 6])];
    let told = analysed(&file(&graph(&nodes, &constants, &[value("x", &[7, 3, 5])], &outputs), 14));
    assert_eq!((shape(&told, 0), shape(&told, 1)), (vec![7, 2, 3, 6], vec![2, 3, 6]));
    assert_eq!(told.multiply_adds, 7 * 3 * 2 * 4 * 6 * (5 + 6));
}

#[test]
fn a_scan_goes_along_the_axis_that_it_names() {
    let body = graph(
        &[node("Add", &["s", "p"], &["t"], &[]), node("MatMul", &["t", "w"], &["o"], &[])],
        &[weights("w", &[4, 2])],
        &[value("s", &[]), value("p", &[])],
        &[value("t", &[]), value("o", &[])],
    );
    let sub = Message::default().text(1, "body").message(6, &body).number(20, 5);
    let list = |name: &str, value: i64| Message::default().text(1, name).number(20, 7).number(8, value);
    let nodes = [node("Scan", &["a", "x"], &["b", "y"], &[("num_scan_inputs", &[1])])
        .message(5, &list("scan_input_axes", 1))
        .message(5, &list("scan_output_axes", -1))
        .message(5, &sub)];
    let inputs = [value("a", &[3, 4]), value("x", &[3, 9, 4])];
    let told = analysed(&file(&graph(&nodes, &[], &inputs, &[value("b", &[]), value("y", &[])]), 13));
    assert_eq!((shape(&told, 0), shape(&told, 1)), (vec![3, 4], vec![3, 2, 9]));
    assert_eq!(told.multiply_adds, 9 * 3 * 2 * 4);
}

#[test]
fn operators_that_a_file_defines_itself_are_gone_into() {
    let outer = Message::default().text(1, "alpha").number(20, 1).text(21, "slope");
    let body = [
        node("MatMul", &["a", "b"], &["m"], &[]).text(3, "inner"),
        node("Add", &["m", "c"], &["n"], &[]),
        node("LeakyRelu", &["n"], &["o"], &[]).message(5, &outer),
    ];
    let function =
        ["a", "b", "c"].iter().fold(Message::default().text(1, "Layer"), |all, name| all.text(4, name));
    let function = function.text(5, "o").text(6, "slope").text(10, "own");
    let function = body.iter().fold(function, |all, node| all.message(7, node));
    let nodes = [node("Layer", &["x", "w", "v"], &["y"], &[]).text(7, "own").text(3, "first")];
    let constants = [weights("w", &[4, 3]), weights("v", &[3])];
    let mut bytes = file(&graph(&nodes, &constants, &[value("x", &[2, 4])], &[value("y", &[])]), 17);
    bytes.extend(Message::default().message(25, &function).0);
    let told = analysed(&bytes);
    assert_eq!((shape(&told, 0), told.multiply_adds), (vec![2, 3], 2 * 4 * 3));
    let inside: Vec<(&str, &str)> =
        told.operators.iter().map(|one| (one.kind.as_str(), one.inside.as_str())).collect();
    let place = "\"first\" (Layer)";
    assert_eq!(inside, [("MatMul", place), ("Add", place), ("LeakyRelu", place)]);
    assert!(told.notes.is_empty(), "{:?}", told.notes);
}

#[test]
fn before_version_7_a_value_is_put_to_another_at_a_named_axis() {
    let settings: [(&str, &[i64]); 2] = [("axis", &[1]), ("broadcast", &[1])];
    let nodes = [node("Add", &["x", "b"], &["y"], &settings)];
    let bytes =
        file(&graph(&nodes, &[weights("b", &[3])], &[value("x", &[2, 3, 8, 8])], &[value("y", &[])]), 6);
    assert_eq!(shape(&analysed(&bytes), 0), [2, 3, 8, 8]);
}

#[test]
fn shapes_that_only_a_run_tells_are_left_open() {
    let inputs = [value("boxes", &[1, 100, 4]), value("scores", &[1, 2, 100])];
    let nodes = [node("NonMaxSuppression", &["boxes", "scores"], &["y"], &[])];
    let told = analysed(&file(&graph(&nodes, &[], &inputs, &[value("y", &[])]), 17));
    assert_eq!(told.outputs[0].shape, Some(vec![None, Some(3)]));
    let constants = [integers("n", &[512]), integers("step", &[128])];
    let nodes = [node("HannWindow", &["n"], &["w"], &[]), node("STFT", &["x", "step", "w"], &["y"], &[])];
    let told =
        analysed(&file(&graph(&nodes, &constants, &[value("x", &[1, 16000, 1])], &[value("y", &[])]), 17));
    assert_eq!(shape(&told, 0), [1, 122, 257, 2]);
}

#[test]
fn transforms_cost_something() {
    let constants = [integers("n", &[512]), integers("step", &[128])];
    let nodes = [node("HannWindow", &["n"], &["w"], &[]), node("STFT", &["x", "step", "w"], &["y"], &[])];
    let told =
        analysed(&file(&graph(&nodes, &constants, &[value("x", &[1, 16000, 1])], &[value("y", &[])]), 17));
    // 122 frames, each times the window, then 9 stages of 256 butterflies of 4 each. The window
    // itself is computed at load.
    assert_eq!(told.multiply_adds, 122 * (512 + 9 * 256 * 4));
    let nodes = [node("DFT", &["x"], &["y"], &[("axis", &[1]), ("onesided", &[1])])];
    let told = analysed(&file(&graph(&nodes, &[], &[value("x", &[3, 1024, 1])], &[value("y", &[])]), 17));
    assert_eq!((shape(&told, 0), told.multiply_adds), (vec![3, 513, 2], 3 * 10 * 512 * 4));
    let constants = [integers("bands", &[40]), integers("length", &[512]), integers("rate", &[16000])];
    // An edge that only a run tells, so that the matrix is not computed at load.
    let inputs = [value("low", &[]), value("high", &[])];
    let nodes = [node("MelWeightMatrix", &["bands", "length", "rate", "low", "high"], &["y"], &[])];
    let told = analysed(&file(&graph(&nodes, &constants, &inputs, &[value("y", &[])]), 17));
    assert_eq!((shape(&told, 0), told.multiply_adds), (vec![257, 40], 257 * 40));
    assert_eq!(told.operators_without_cost, 0);
}

/// A loop whose condition `again` computes, with 2 × 8 × 8 multiply-adds in each iteration.
fn looped(again: Message, count: Option<i64>, begins: u8) -> GraphAnalysis {
    let body = graph(
        &[again, node("MatMul", &["state", "w"], &["next"], &[])],
        &[],
        &[value("turn", &[]), value("cond", &[]), value("state", &[2, 8])],
        &[value("again", &[]), value("next", &[])],
    );
    let sub = Message::default().text(1, "body").message(6, &body).number(20, 5);
    let whole = |name: &str, number: i64| {
        Message::default().number(2, 7).text(8, name).bytes(9, &number.to_le_bytes())
    };
    let begins = Message::default().number(2, 9).text(8, "begins").bytes(9, &[begins]);
    let mut constants = vec![weights("w", &[8, 8]), whole("last", 3), begins];
    constants.extend(count.map(|count| whole("count", count)));
    let inputs = [if count.is_some() { "count" } else { "" }, "begins", "x"];
    let nodes = [node("Loop", &inputs, &["y"], &[]).message(5, &sub)];
    let given = [value("x", &[2, 8]), value("open", &[])];
    analysed(&file(&graph(&nodes, &constants, &given, &[value("y", &[])]), 17))
}

#[test]
fn a_condition_may_end_a_loop_before_its_count() {
    let once = 2 * 8 * 8;
    // Iterations 0, 1, 2 continue, iteration 3 is the last.
    let less = || node("Less", &["turn", "last"], &["again"], &[]);
    let told = looped(less(), Some(1000), 1);
    assert_eq!((told.multiply_adds, told.notes.len()), (4 * once, 0), "{:?}", told.notes);
    assert_eq!(looped(less(), None, 1).multiply_adds, 4 * once);
    assert_eq!(looped(less(), Some(2), 1).multiply_adds, 2 * once);
    assert_eq!(looped(less(), Some(1000), 0).multiply_adds, 0);
    // A condition that is passed through never ends the loop, however many iterations there are.
    let same = || node("Identity", &["cond"], &["again"], &[]);
    let told = looped(same(), Some(1_000_000), 1);
    assert_eq!((told.multiply_adds, told.notes.len()), (1_000_000 * once, 0), "{:?}", told.notes);
    // A condition that is unknown before a run: all iterations are counted, with a note.
    let told = looped(node("Not", &["open"], &["again"], &[]), Some(1000), 1);
    assert_eq!(told.multiply_adds, 1000 * once);
    assert!(told.notes.iter().any(|note| note.contains("end before iteration 1000")), "{:?}", told.notes);
}

#[test]
fn filters_of_a_transposed_convolution_are_those_of_all_groups() {
    let nodes = [node("ConvTranspose", &["x", "w"], &["y"], &[("group", &[4])])];
    let constants = [weights("w", &[8, 3, 2, 2])];
    let told =
        analysed(&file(&graph(&nodes, &constants, &[value("x", &[1, 8, 5, 5])], &[value("y", &[])]), 17));
    assert_eq!((shape(&told, 0), told.characteristics.filter_details), (vec![1, 12, 6, 6], 12));
}

#[test]
fn an_einsum_may_leave_dimensions_to_dots() {
    let of = |equation: &str, x: &[i64], w: &[u64]| {
        let text = Message::default().text(1, "equation").text(4, equation).number(20, 3);
        let nodes = [node("Einsum", &["x", "w"], &["y"], &[]).message(5, &text)];
        let bytes = file(&graph(&nodes, &[weights("w", w)], &[value("x", x)], &[value("y", &[])]), 17);
        let told = analyse_graph(
            &read_onnx(&bytes, &OnnxLimits::default()).unwrap(),
            &ShapeBindings::default(),
            &OnnxLimits::default(),
        );
        told.map(|told| (shape(&told, 0), told.multiply_adds))
    };
    assert_eq!(of("...ij,jk->...ik", &[2, 3, 4, 5], &[5, 7]).unwrap(), (vec![2, 3, 4, 7], 6 * 4 * 5 * 7));
    // Without a right side the ellipsis comes first, then the letters that occur once.
    assert_eq!(of("b...a, ...c", &[9, 3, 4], &[3, 6]).unwrap(), (vec![3, 4, 9, 6], 9 * 3 * 4 * 6));
    // Dimensions under an ellipsis are aligned at the last one, and broadcast where they are 1.
    assert_eq!(of("...i,...i->...", &[2, 3, 5], &[1, 5]).unwrap(), (vec![2, 3], 2 * 3 * 5));
    let said = of("...ij,jk->ik", &[5], &[5, 7]).unwrap_err().to_string();
    assert!(said.contains("for values of 1 and 2 dimensions"), "{said}");
}

#[test]
fn an_operator_of_somebody_else_is_not_taken_for_one_of_the_same_name() {
    for (kind, inputs) in [("Split", &["x"][..]), ("Gemm", &["x", "x"]), ("If", &["x"])] {
        let nodes =
            [node(kind, inputs, &["m"], &[]).text(7, "acme"), node("MatMul", &["m", "w"], &["y"], &[])];
        let constants = [weights("w", &[4, 4])];
        let told =
            analysed(&file(&graph(&nodes, &constants, &[value("x", &[2, 3, 4])], &[value("y", &[])]), 17));
        assert_eq!((told.operators_without_cost, told.characteristics.fc_layers), (2, 1), "{kind}");
        let note = format!("operator {kind} of acme is not supported");
        assert!(told.notes.iter().any(|one| one.starts_with(&note)), "{:?}", told.notes);
    }
}

#[test]
fn constants_count_in_whatever_form_they_stand() {
    let listed = (0..64).fold(Message::default().text(1, "value_floats").number(20, 6), |list, _| {
        let mut list = list;
        list.0.extend([7 << 3 | 5, 0, 0, 0, 0]);
        list
    });
    let nodes = [
        node("Constant", &[], &["w"], &[]).message(5, &listed),
        node("Reshape", &["w", "s"], &["v"], &[]),
        node("MatMul", &["x", "v"], &["y"], &[]),
    ];
    let bytes = |nodes: &[Message], constants: &[Message]| {
        file(&graph(nodes, constants, &[value("x", &[1, 8])], &[value("y", &[])]), 17)
    };
    let told = analysed(&bytes(&nodes, &[integers("s", &[8, 8])]));
    assert_eq!((told.parameters, told.weight_bytes.0, told.multiply_adds), (64, 256 + 16, 64));
    let values = Message::default().number(1, 2).number(2, FLOAT).bytes(9, &[0; 8]);
    let sparse = Message::default().message(1, &values).message(2, &integers("", &[0, 9]));
    let sparse = sparse.number(3, 8).number(3, 8);
    let sparse = Message::default().text(1, "sparse_value").message(22, &sparse).number(20, 11);
    let nodes =
        [node("Constant", &[], &["w"], &[]).message(5, &sparse), node("MatMul", &["x", "w"], &["y"], &[])];
    let told = analysed(&bytes(&nodes, &[]));
    assert_eq!((told.parameters, told.multiply_adds, shape(&told, 0)), (64, 64, vec![1, 8]));
}
