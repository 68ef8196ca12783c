//! Parts of a graph: each is readable, has all inputs from the whole's inputs and earlier parts,
//! and contains only its own weights. `bench/split` checks with a runtime that the parts compute
//! the same as the whole.

use std::collections::BTreeSet;

use crate::common::{self, file, graph, integers, node, value, weights};
use metier_onnx::split::{OperatorChain, WeightSegment};
use metier_onnx::{OnnxFile, OnnxLimits, ShapeBindings, analyse_graph, read_onnx};

/// Two convolutions with a shortcut, a computed weight, and a weight that both halves use.
fn shortcut() -> Vec<u8> {
    let nodes = [
        node("ConstantOfShape", &["dims"], &["made"], &[]),
        node("Conv", &["x", "w1"], &["a"], &[("pads", &[1, 1, 1, 1])]),
        node("Mul", &["a", "shared"], &["b"], &[]),
        node("Conv", &["b", "made"], &["c"], &[("pads", &[1, 1, 1, 1])]),
        node("Add", &["a", "c"], &["d"], &[]),
        node("Mul", &["d", "shared"], &["y"], &[]),
    ];
    let constants = [weights("w1", &[4, 3, 3, 3]), weights("shared", &[1]), integers("dims", &[4, 4, 3, 3])];
    file(&graph(&nodes, &constants, &[value("x", &[1, 3, 8, 8])], &[value("y", &[])]), 17)
}

fn parameters(bytes: &[u8]) -> u64 {
    let model = read_onnx(bytes, &OnnxLimits::default()).unwrap();
    analyse_graph(&model, &ShapeBindings::default(), &OnnxLimits::default()).unwrap().parameters
}

/// Properties of the parts of any graph.
fn holds(bytes: &[u8], model: &OnnxFile, chain: &OperatorChain, cuts: &[usize], name: &str) {
    let parts = chain.write_parts(cuts).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(parts.len(), cuts.len() + 1);
    assert_eq!(parts.iter().map(|part| part.operators).sum::<usize>(), chain.len(), "{name}");
    let mut there: BTreeSet<String> = model.graph.inputs.iter().map(|input| input.name.clone()).collect();
    for (number, part) in parts.iter().enumerate() {
        let inner = read_onnx(&part.bytes, &OnnxLimits::default())
            .unwrap_or_else(|error| panic!("{name}.{number}: {error}"));
        assert_eq!(inner.opsets, model.opsets, "{name}");
        assert!(part.bytes.len() <= bytes.len() + 4096, "{name}.{number} is larger than the whole");
        let inputs: BTreeSet<String> = inner.graph.inputs.iter().map(|input| input.name.clone()).collect();
        assert_eq!(inputs, part.inputs.iter().cloned().collect(), "{name}.{number}");
        assert!(inputs.is_subset(&there), "{name}.{number} wants {:?}", inputs.difference(&there));
        there.extend(part.outputs.iter().cloned());
    }
    let results: BTreeSet<String> = model.graph.outputs.iter().map(|output| output.name.clone()).collect();
    assert!(results.is_subset(&there), "{name} lacks {:?}", results.difference(&there));
}

#[test]
fn a_part_carries_only_its_own_weights_and_what_flows_over_the_cut() {
    let bytes = shortcut();
    let (limits, bindings) = (OnnxLimits::default(), ShapeBindings::default());
    let model = read_onnx(&bytes, &limits).unwrap();
    let chain = OperatorChain::new(&bytes, &model, &bindings, &limits).unwrap();
    // The operator that computes a weight does not count.
    assert_eq!(chain.len(), 5);
    let flows: Vec<(Vec<String>, Option<u64>)> =
        chain.crossings().into_iter().map(|one| (one.values, one.bytes)).collect();
    let one = 4 * 8 * 8 * 4;
    let named = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        flows,
        [
            (named(&["a"]), Some(one)),
            (named(&["a", "b"]), Some(2 * one)),
            (named(&["a", "c"]), Some(2 * one)),
            (named(&["d"]), Some(one)),
        ]
    );
    let cut = chain.place_after("b").unwrap();
    holds(&bytes, &model, &chain, &[cut], "shortcut");
    let parts = chain.write_parts(&[cut]).unwrap();
    assert_eq!((parts[0].inputs.clone(), parts[0].outputs.clone()), (named(&["x"]), named(&["a", "b"])));
    assert_eq!((parts[1].inputs.clone(), parts[1].outputs.clone()), (named(&["a", "b"]), named(&["y"])));
    // 4·3·9 and the shared weight; then 4·4·9 and the shared weight again.
    assert_eq!((parameters(&parts[0].bytes), parameters(&parts[1].bytes)), (109, 145));
    assert_eq!(parts[0].weights.parameters + parts[1].weights.parameters, 109 + 145);
}

/// A constant with external content.
fn outside(name: &str, dims: &[u64], place: &[(&str, &str)]) -> common::Message {
    let entry = |(key, value): &(&str, &str)| common::Message::default().text(1, key).text(2, value);
    place.iter().fold(weights(name, dims).number(14, 1), |tensor, one| tensor.message(13, &entry(one)))
}

#[test]
fn weights_outside_of_the_file_are_parted_too() {
    let place = |offset: &'static str, length: &'static str| {
        [("location", "w.bin"), ("offset", offset), ("length", length)]
    };
    let constants =
        [outside("a", &[3, 5], &place("4096", "60")), outside("b", &[5, 2], &[("location", "w.bin")])];
    let nodes = [node("MatMul", &["x", "a"], &["m"], &[]), node("MatMul", &["m", "b"], &["y"], &[])];
    let bytes = file(&graph(&nodes, &constants, &[value("x", &[1, 3])], &[value("y", &[])]), 17);
    let (limits, bindings) = (OnnxLimits::default(), ShapeBindings::default());
    let model = read_onnx(&bytes, &limits).unwrap();
    let chain = OperatorChain::new(&bytes, &model, &bindings, &limits).unwrap().with_file_stem("net");
    let parts = chain.write_parts(&[1]).unwrap();
    let names: Vec<_> = parts.iter().map(|part| part.outside.clone().unwrap()).collect();
    assert_eq!((names[0].name.as_str(), names[1].name.as_str()), ("net.1.onnx.data", "net.2.onnx.data"));
    let piece = |from, length| vec![WeightSegment { file: "w.bin".to_string(), from, length, to: 0 }];
    assert_eq!((&names[0].pieces, &names[1].pieces), (&piece(4096, 60), &piece(0, 40)));
    let inner = read_onnx(&parts[1].bytes, &limits).unwrap();
    let tensor = &inner.graph.initializers[0];
    assert_eq!(tensor.external.as_deref(), Some("net.2.onnx.data"));
    assert_eq!((tensor.name.as_str(), tensor.external_span), ("b", (0, Some(40))));
    // In one part the two follow each other, each aligned for mapping.
    let whole = chain.write_parts(&[]).unwrap();
    let starts: Vec<u64> = whole[0].outside.iter().flat_map(|all| &all.pieces).map(|one| one.to).collect();
    assert_eq!(starts, [0, 64]);
}

#[test]
fn a_result_that_no_run_changes_comes_from_the_last_part() {
    let nodes = [
        node("ConstantOfShape", &["dims"], &["fixed"], &[]),
        node("Relu", &["x"], &["m"], &[]),
        node("Relu", &["m"], &["y"], &[]),
    ];
    let outputs = [value("y", &[1, 3]), value("fixed", &[2])];
    let bytes = file(&graph(&nodes, &[integers("dims", &[2])], &[value("x", &[1, 3])], &outputs), 17);
    let (limits, bindings) = (OnnxLimits::default(), ShapeBindings::default());
    let model = read_onnx(&bytes, &limits).unwrap();
    let chain = OperatorChain::new(&bytes, &model, &bindings, &limits).unwrap();
    holds(&bytes, &model, &chain, &[1], "fixed");
}

#[test]
fn cuts_that_are_none_are_refused() {
    let bytes = shortcut();
    let (limits, bindings) = (OnnxLimits::default(), ShapeBindings::default());
    let model = read_onnx(&bytes, &limits).unwrap();
    let chain = OperatorChain::new(&bytes, &model, &bindings, &limits).unwrap();
    for cuts in [&[0][..], &[5], &[3, 2], &[2, 2], &[99]] {
        assert!(chain.write_parts(cuts).is_err(), "{cuts:?}");
    }
    assert_eq!(chain.place_after("w1"), None);
}

#[test]
fn real_graphs_can_be_cut_into_any_number_of_parts() {
    let Some(folder) = std::env::var_os("METIER_LAB_GRAPHS") else {
        eprintln!(
            "SKIP: real networks, because METIER_LAB_GRAPHS is not set; `lab/lab up graphs` fetches them"
        );
        return;
    };
    let (limits, bindings) = (OnnxLimits::default(), ShapeBindings::default());
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let model = read_onnx(&bytes, &limits).unwrap();
        let chain = OperatorChain::new(&bytes, &model, &bindings, &limits).unwrap();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        for parts in [1, 2, 3, 5] {
            let cuts: Vec<usize> =
                (1..parts).map(|part| chain.len() * part / parts).filter(|cut| *cut > 0).collect();
            if cuts.windows(2).all(|pair| pair[0] < pair[1]) {
                holds(&bytes, &model, &chain, &cuts, &name);
            }
        }
        seen += 1;
    }
    assert_eq!(seen, 23);
}

#[test]
fn weights_inside_of_sub_graphs_are_those_of_the_part_that_has_the_operator() {
    let Some(folder) = std::env::var_os("METIER_LAB_GRAPHS") else {
        eprintln!("SKIP: a real graph with sub-graphs, because METIER_LAB_GRAPHS is not set");
        return;
    };
    let bytes = std::fs::read(std::path::Path::new(&folder).join("silero-vad.onnx")).unwrap();
    let (limits, bindings) = (OnnxLimits::default(), ShapeBindings::default());
    let model = read_onnx(&bytes, &limits).unwrap();
    let chain = OperatorChain::new(&bytes, &model, &bindings, &limits).unwrap();
    let whole = chain.write_parts(&[]).unwrap();
    assert!(whole[0].weights.parameters > 500_000, "{:?}", whole[0].weights);
}

#[test]
fn sizes_that_were_given_stand_in_the_parts() {
    use metier_onnx::TensorDimension;
    use metier_onnx::graph_builder::GraphBuilder;
    let bytes = {
        let mut made = GraphBuilder::new(1);
        let x = made.add_input(metier_onnx::DataType::Float, &[1, 8]);
        let bent = made.encode_node("Relu", &[&x], &[]);
        let back = made.encode_node("Neg", &[&bent], &[]);
        made.add_output(&back);
        made.finish()
    };
    let limits = OnnxLimits::default();
    let mut model = read_onnx(&bytes, &limits).unwrap();
    let input = model.graph.inputs[0].name.clone();
    model.graph.inputs[0].shape =
        Some(vec![TensorDimension::Named("batch".into()), TensorDimension::Known(8)]);
    let sizes = |bindings: &ShapeBindings| {
        let chain = OperatorChain::new(&bytes, &model, bindings, &limits).unwrap();
        let parts = chain.write_parts(&[1]).unwrap();
        let shape =
            |part: usize| read_onnx(&parts[part].bytes, &limits).unwrap().graph.inputs[0].shape.clone();
        (shape(0).unwrap(), shape(1).unwrap())
    };
    let (open, _) = sizes(&ShapeBindings::default());
    assert_eq!(open[0], TensorDimension::Named("batch".into()), "no size was given");
    let shapes = [(input, vec![4, 8])].into_iter().collect();
    let want = vec![TensorDimension::Known(4), TensorDimension::Known(8)];
    assert_eq!(sizes(&ShapeBindings { shapes, ..ShapeBindings::default() }), (want.clone(), want));
}
