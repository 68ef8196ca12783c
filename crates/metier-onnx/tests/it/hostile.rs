//! Malicious files: rejected within limits, without a panic, a hang or excessive memory.

use crate::common::{Message, file, graph, integers, node, value, weights};
use metier_onnx::{Error, OnnxLimits, ShapeBindings, analyse_graph, read_onnx};
use proptest::prelude::*;

fn tell(bytes: &[u8], limits: &OnnxLimits) -> Result<metier_onnx::GraphAnalysis, Error> {
    analyse_graph(&read_onnx(bytes, limits)?, &ShapeBindings::default(), limits)
}

/// A graph with all families of operators: products, windows, shapes, a branch, a loop.
fn everything() -> Vec<u8> {
    let branch = |name: &str| {
        let nodes = [node("Relu", &["c"], &[name], &[])];
        graph(&nodes, &[], &[], &[value(name, &[])])
    };
    let sub = |name: &str, graph: &Message| Message::default().text(1, name).message(6, graph).number(20, 5);
    let choice = node("If", &["truth"], &["i"], &[])
        .message(5, &sub("then_branch", &branch("t")))
        .message(5, &sub("else_branch", &branch("e")));
    let body = graph(
        &[node("Identity", &["cond"], &["again"], &[]), node("Relu", &["state"], &["next"], &[])],
        &[],
        &[value("turn", &[]), value("cond", &[]), value("state", &[])],
        &[value("again", &[]), value("next", &[])],
    );
    let turns = node("Loop", &["three", "", "i"], &["l"], &[]).message(5, &sub("body", &body));
    let nodes = [
        node("Conv", &["x", "w"], &["c"], &[("pads", &[1, 1, 1, 1])]),
        node("Shape", &["c"], &["s"], &[]),
        node("Reshape", &["c", "s"], &["r"], &[]),
        choice,
        turns,
        node("MatMul", &["r", "v"], &["y"], &[]),
    ];
    let constants = [weights("w", &[4, 3, 3, 3]), weights("v", &[8, 2]), integers("three", &[3])];
    let inputs = [value("x", &[-1, 3, 8, 8]), value("truth", &[])];
    file(&graph(&nodes, &constants, &inputs, &[value("y", &[]), value("l", &[])]), 17)
}

#[test]
fn a_graph_with_something_of_everything_is_understood() {
    let told = tell(&everything(), &OnnxLimits::default()).unwrap();
    assert_eq!(told.multiply_adds, 4 * 64 * 27 + 4 * 8 * 8 * 2);
    let looped = told.operators.iter().find(|one| one.inside.contains("Loop") && one.kind == "Relu").unwrap();
    assert_eq!(looped.turns, 3);
}

#[test]
fn every_cut_of_a_file_is_refused_or_read_but_never_panics() {
    let whole = everything();
    let read_whole =
        (0..whole.len()).filter(|end| tell(&whole[..*end], &OnnxLimits::default()).is_ok()).count();
    // The graph is the last field, so every truncation damages it.
    assert_eq!(read_whole, 0);
}

#[test]
fn what_is_no_graph_says_so() {
    for (bytes, part) in [
        (&b""[..], "there is no graph in its 0 bytes"),
        (b"PK\x03\x04 a zip archive", "not an ONNX file"),
        (b"{\"a\": \"json\"}", "not an ONNX file"),
    ] {
        let said = tell(bytes, &OnnxLimits::default()).unwrap_err().to_string();
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn a_cycle_is_refused_by_the_operator_that_cannot_run() {
    let nodes = [node("Add", &["x", "b"], &["a"], &[]), node("Relu", &["a"], &["b"], &[])];
    let bytes = file(&graph(&nodes, &[], &[value("x", &[2])], &[value("b", &[])]), 13);
    let said = tell(&bytes, &OnnxLimits::default()).unwrap_err().to_string();
    assert_eq!(
        said,
        "operator Add #0 needs \"b\" before any operator produces it: the graph has a cycle or a gap"
    );
}

#[test]
fn giant_dimensions_are_refused() {
    for dims in [&[u64::MAX][..], &[1 << 30, 1 << 30], &[1 << 62, 1 << 62, 0]] {
        let nodes = [node("MatMul", &["x", "w"], &["y"], &[])];
        let bytes =
            file(&graph(&nodes, &[weights("w", dims)], &[value("x", &[1, 1])], &[value("y", &[])]), 13);
        let said = tell(&bytes, &OnnxLimits::default()).unwrap_err();
        assert!(matches!(said, Error::LimitExceeded { .. }), "{said}");
    }
    // The same by operators that compute values from numbers.
    let nodes = [node("ConstantOfShape", &["s"], &["y"], &[])];
    let constants = [integers("s", &[1 << 40, 1 << 40])];
    let said = tell(&file(&graph(&nodes, &constants, &[], &[value("y", &[])]), 13), &OnnxLimits::default())
        .unwrap_err();
    assert!(matches!(said, Error::OperatorMismatch { .. }), "{said}");
}

#[test]
fn graphs_inside_graphs_end_somewhere() {
    let mut inner = graph(&[node("Relu", &["x"], &["y"], &[])], &[], &[], &[value("y", &[])]);
    for _ in 0..200 {
        let sub = Message::default().text(1, "then_branch").message(6, &inner).number(20, 5);
        inner = graph(&[node("If", &["x"], &["y"], &[]).message(5, &sub)], &[], &[], &[value("y", &[])]);
    }
    let said = read_onnx(&file(&inner, 13), &OnnxLimits::default()).unwrap_err().to_string();
    assert_eq!(said, "the depth of graphs inside graphs is 17; at most 16 are read");
}

#[test]
fn a_flood_of_empty_operators_is_refused() {
    let nodes = vec![Message::default(); 1001];
    let limits = OnnxLimits { nodes: 1000, ..OnnxLimits::default() };
    let said = read_onnx(&file(&graph(&nodes, &[], &[], &[]), 13), &limits).unwrap_err().to_string();
    assert_eq!(said, "the number of operators is 1001; at most 1000 are read");
}

#[test]
fn a_loop_without_an_end_is_counted_once() {
    let body = graph(
        &[node("Identity", &["cond"], &["again"], &[]), node("Relu", &["state"], &["next"], &[])],
        &[],
        &[value("turn", &[]), value("cond", &[]), value("state", &[])],
        &[value("again", &[]), value("next", &[])],
    );
    let sub = Message::default().text(1, "body").message(6, &body).number(20, 5);
    let nodes = [node("Loop", &["", "", "x"], &["y"], &[]).message(5, &sub)];
    let told =
        tell(&file(&graph(&nodes, &[], &[value("x", &[2])], &[value("y", &[])]), 13), &OnnxLimits::default())
            .unwrap();
    assert_eq!(told.operators[0].turns, 1);
    assert!(
        told.notes.iter().any(|note| note.contains("number of iterations is unknown")),
        "{:?}",
        told.notes
    );
}

/// Far more than all tests here need together, and less than without limits.
const MOST_MIB: u64 = 1000;

/// Peak memory of this process.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// A loop body whose condition is always true, and that runs `inner` in each iteration.
fn endless(inner: Option<Message>) -> Message {
    let truth = Message::default().number(1, 1).number(2, 9).bytes(9, &[1]);
    let truth = Message::default().text(1, "value").message(5, &truth).number(20, 4);
    let mut nodes = vec![node("Constant", &[], &["again"], &[]).message(5, &truth)];
    nodes.extend(inner);
    graph(&nodes, &[], &[value("turn", &[]), value("cond", &[])], &[value("again", &[])])
}

#[test]
fn endless_loops_inside_of_each_other_cost_no_more_than_one() {
    let sub = |body: &Message| Message::default().text(1, "body").message(6, body).number(20, 5);
    let mut body = endless(None);
    for _ in 0..12 {
        body = endless(Some(node("Loop", &["", ""], &[], &[]).message(5, &sub(&body))));
    }
    let nodes =
        [node("Loop", &["", ""], &[], &[]).message(5, &sub(&body)), node("Relu", &["x"], &["y"], &[])];
    let bytes = file(&graph(&nodes, &[], &[value("x", &[2])], &[value("y", &[])]), 13);
    let told = tell(&bytes, &OnnxLimits::default()).unwrap();
    assert!(
        told.notes.iter().any(|note| note.contains("number of iterations is unknown")),
        "{:?}",
        told.notes
    );
    assert!(told.operators.iter().all(|one| one.turns == 1));
}

#[test]
fn one_constant_that_is_taken_very_often_is_not_kept_as_often() {
    // 300,000 times 4096 integers would take 9.8 GB, from a file of 1.2 MB.
    let many = vec!["w"; 300_000];
    let nodes = [node("Concat", &many, &["y"], &[("axis", &[0])]), node("Sum", &many, &["z"], &[])];
    let constants = [integers("w", &[1; 4096])];
    let bytes = file(&graph(&nodes, &constants, &[], &[value("y", &[]), value("z", &[])]), 13);
    let told = tell(&bytes, &OnnxLimits::default()).unwrap();
    assert_eq!(told.outputs[0].shape, Some(vec![Some(300_000 * 4096)]));
    assert_eq!(told.outputs[1].shape, Some(vec![Some(4096)]));
    assert!(peak_mib() < MOST_MIB, "{} MiB", peak_mib());
}

#[test]
fn copies_of_followed_values_are_bounded_together() {
    // 40,000 values of 4096 integers would take 1.3 GB, from a file of 1 MB.
    let names: Vec<String> = (0..=40_000).map(|at| format!("v{at}")).collect();
    let nodes: Vec<Message> =
        names.windows(2).map(|pair| node("Neg", &[&pair[0]], &[&pair[1]], &[])).collect();
    let constants = [integers("v0", &[1; 4096])];
    let bytes = file(&graph(&nodes, &constants, &[], &[value("v40000", &[])]), 13);
    let told = tell(&bytes, &OnnxLimits::default()).unwrap();
    assert_eq!(told.outputs[0].shape, Some(vec![Some(4096)]));
    assert!(peak_mib() < MOST_MIB, "{} MiB", peak_mib());
}

#[test]
fn a_long_name_is_not_repeated_for_all_that_is_inside() {
    let names: Vec<String> = (0..=5_000).map(|at| format!("v{at}")).collect();
    let nodes: Vec<Message> =
        names.windows(2).map(|pair| node("Relu", &[&pair[0]], &[&pair[1]], &[])).collect();
    let branch = graph(&nodes, &[], &[], &[value("v5000", &[])]);
    let sub = |name: &str| Message::default().text(1, name).message(6, &branch).number(20, 5);
    let long = "n".repeat(1 << 20);
    let choice = node("If", &["truth"], &["y"], &[])
        .text(3, &long)
        .message(5, &sub("then_branch"))
        .message(5, &sub("else_branch"));
    let inputs = [value("v0", &[2]), value("truth", &[])];
    let told =
        tell(&file(&graph(&[choice], &[], &inputs, &[value("y", &[])]), 13), &OnnxLimits::default()).unwrap();
    assert_eq!(told.operators.len(), 5_000);
    assert!(told.operators.iter().all(|one| one.inside.len() < 200 && one.inside.ends_with("… #0 (If)")));
}

#[test]
fn functions_that_call_each_other_twice_are_refused_before_they_are_many() {
    let function = |name: &str, inner: &str| {
        let call = |from: &str, to: &str| node(inner, &[from], &[to], &[]).text(7, "own");
        let nodes = match inner {
            "" => vec![node("Relu", &["a"], &["b"], &[])],
            _ => vec![call("a", "m"), call("m", "b")],
        };
        let named = Message::default().text(1, name).text(4, "a").text(5, "b").text(10, "own");
        nodes.iter().fold(named, |message, node| message.message(7, node))
    };
    let names: Vec<String> = (0..16).map(|at| format!("F{at}")).collect();
    let nodes = [node(&names[15], &["x"], &["y"], &[]).text(7, "own")];
    let mut bytes = file(&graph(&nodes, &[], &[value("x", &[2])], &[value("y", &[])]), 17);
    for (at, name) in names.iter().enumerate() {
        let inner = at.checked_sub(1).map_or("", |below| names[below].as_str());
        bytes.extend(Message::default().message(25, &function(name, inner)).0);
    }
    let limits = OnnxLimits { nodes: 10_000, ..OnnxLimits::default() };
    let said = tell(&bytes, &limits).unwrap_err().to_string();
    assert!(said.contains("operators that functions stand for"), "{said}");
    // A function that calls itself never ends.
    let nodes = [node("F", &["x"], &["y"], &[]).text(7, "own")];
    let mut bytes = file(&graph(&nodes, &[], &[value("x", &[2])], &[value("y", &[])]), 17);
    bytes.extend(Message::default().message(25, &function("F", "F")).0);
    let said = tell(&bytes, &OnnxLimits::default()).unwrap_err().to_string();
    assert_eq!(said, "the depth of functions inside functions is 17; at most 16 are read");
}

#[test]
fn a_constant_whose_content_does_not_fill_its_dimensions_is_refused() {
    let nodes = [node("MatMul", &["x", "w"], &["y"], &[])];
    let told = |content: &[u8]| {
        let constants = [weights("w", &[8, 8]).bytes(9, content)];
        tell(
            &file(&graph(&nodes, &constants, &[value("x", &[1, 8])], &[value("y", &[])]), 13),
            &OnnxLimits::default(),
        )
    };
    assert_eq!(told(&[0; 256]).unwrap().parameters, 64);
    for wrong in [16, 255, 257] {
        let said = told(&vec![0; wrong]).unwrap_err().to_string();
        assert_eq!(said, format!("constant \"w\" holds {wrong} bytes; want 256 for its elements, 8x8"));
    }
}

/// An operator with a list attribute of a million numbers.
fn long_list() -> Message {
    let list = Message::default().text(1, "value_ints").number(20, 7).bytes(8, &[1; 1_000_000]);
    node("Constant", &[], &["list"], &[]).message(5, &list)
}

#[test]
fn a_function_with_a_long_list_is_not_copied_for_each_of_very_many_calls() {
    // 60,000 copies of 8 MB, from a file of 3 MB.
    let names: Vec<String> = (0..=60_000).map(|at| format!("v{at}")).collect();
    let call = |pair: &[String]| node("F", &[&pair[0]], &[&pair[1]], &[]).text(7, "own");
    let nodes: Vec<Message> = names.windows(2).map(call).collect();
    let bytes = |nodes: &[Message]| {
        let output = format!("v{}", nodes.len());
        let mut bytes = file(&graph(nodes, &[], &[value("v0", &[2])], &[value(&output, &[])]), 17);
        let function = Message::default().text(1, "F").text(4, "a").text(5, "b").text(10, "own");
        let function = function.message(7, &long_list()).message(7, &node("Relu", &["a"], &["b"], &[]));
        bytes.extend(Message::default().message(25, &function).0);
        bytes
    };
    let said = tell(&bytes(&nodes), &OnnxLimits::default()).unwrap_err().to_string();
    assert!(said.starts_with("the number of bytes that calls of functions repeat is"), "{said}");
    assert_eq!(tell(&bytes(&nodes[..10]), &OnnxLimits::default()).unwrap().operators.len(), 10);
}

#[test]
fn a_loop_with_a_long_list_is_followed_for_a_few_turns_only() {
    let body = graph(
        &[long_list(), node("Less", &["turn", "last"], &["again"], &[])],
        &[],
        &[value("turn", &[]), value("cond", &[])],
        &[value("again", &[])],
    );
    let sub = Message::default().text(1, "body").message(6, &body).number(20, 5);
    let nodes = [node("Loop", &["", ""], &[], &[]).message(5, &sub), node("Relu", &["x"], &["y"], &[])];
    let constants = [integers("last", &[12_000])];
    let bytes = file(&graph(&nodes, &constants, &[value("x", &[2])], &[value("y", &[])]), 17);
    let told = tell(&bytes, &OnnxLimits::default()).unwrap();
    assert!(
        told.notes.iter().any(|note| note.contains("number of iterations is unknown")),
        "{:?}",
        told.notes
    );
}

#[test]
fn numbers_at_the_end_of_what_there_is_do_not_overflow() {
    let nodes = [node("Range", &["a", "b", "c"], &["y"], &[])];
    let constants = [integers("a", &[i64::MIN]), integers("b", &[i64::MAX]), integers("c", &[i64::MAX / 2])];
    let told =
        tell(&file(&graph(&nodes, &constants, &[], &[value("y", &[])]), 13), &OnnxLimits::default()).unwrap();
    assert_eq!(told.outputs[0].shape, Some(vec![Some(4)]));
}

#[test]
fn very_many_layers_and_weights_are_looked_up_by_name() {
    // Searching all weights for each layer would take 4·10^8 comparisons of long names.
    let count = 20_000;
    let names: Vec<String> = (0..count).map(|at| format!("weights-of-layer-{at}")).collect();
    let nodes: Vec<Message> = names
        .iter()
        .rev()
        .enumerate()
        .map(|(at, name)| node("Conv", &["x", name], &[&format!("y{at}")], &[]))
        .collect();
    let constants: Vec<Message> = names.iter().map(|name| weights(name, &[1, 1, 1, 1])).collect();
    let bytes = file(&graph(&nodes, &constants, &[value("x", &[1, 1, 1, 1])], &[value("y0", &[])]), 13);
    let told = tell(&bytes, &OnnxLimits::default()).unwrap();
    assert_eq!((told.characteristics.conv_layers, told.characteristics_by_rules), (count, None));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_refused_or_told_of(bytes: Vec<u8>) {
        let _ = tell(&bytes, &OnnxLimits::default());
    }

    #[test]
    fn a_good_file_with_some_bytes_changed_never_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = everything();
        for (place, byte) in changes {
            let at = place.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = tell(&bytes, &OnnxLimits::default());
    }
}
