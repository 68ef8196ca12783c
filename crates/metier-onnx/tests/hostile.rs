//! Files that nobody means well with: refused within limits, never a panic, a hang or a flood.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{Message, file, graph, integers, node, value, weights};
use metier_onnx::{Bindings, Error, Limits, analyse, read};
use proptest::prelude::*;

fn tell(bytes: &[u8], limits: &Limits) -> Result<metier_onnx::Analysis, Error> {
    analyse(&read(bytes, limits)?, &Bindings::default(), limits)
}

/// A graph with something of everything: products, windows, shapes, a branch, a loop.
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
    let told = tell(&everything(), &Limits::default()).unwrap();
    assert_eq!(told.multiply_adds, 4 * 64 * 27 + 4 * 8 * 8 * 2);
    let looped = told.operators.iter().find(|one| one.inside.contains("Loop") && one.kind == "Relu").unwrap();
    assert_eq!(looped.turns, 3);
}

#[test]
fn every_cut_of_a_file_is_refused_or_read_but_never_panics() {
    let whole = everything();
    let read_whole = (0..whole.len()).filter(|end| tell(&whole[..*end], &Limits::default()).is_ok()).count();
    // The graph is the last field: no cut leaves it whole.
    assert_eq!(read_whole, 0);
}

#[test]
fn what_is_no_graph_says_so() {
    for (bytes, part) in [
        (&b""[..], "there is no graph in its 0 bytes"),
        (b"PK\x03\x04 a zip archive", "not an ONNX file"),
        (b"{\"a\": \"json\"}", "not an ONNX file"),
    ] {
        let said = tell(bytes, &Limits::default()).unwrap_err().to_string();
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn a_cycle_is_refused_by_the_operator_that_cannot_run() {
    let nodes = [node("Add", &["x", "b"], &["a"], &[]), node("Relu", &["a"], &["b"], &[])];
    let bytes = file(&graph(&nodes, &[], &[value("x", &[2])], &[value("b", &[])]), 13);
    let said = tell(&bytes, &Limits::default()).unwrap_err().to_string();
    assert_eq!(
        said,
        "operator Add #0 needs \"b\" before anything has made it: the graph has a cycle or a gap"
    );
}

#[test]
fn giant_dimensions_are_refused() {
    for dims in [&[u64::MAX][..], &[1 << 30, 1 << 30], &[1 << 62, 1 << 62, 0]] {
        let nodes = [node("MatMul", &["x", "w"], &["y"], &[])];
        let bytes =
            file(&graph(&nodes, &[weights("w", dims)], &[value("x", &[1, 1])], &[value("y", &[])]), 13);
        let said = tell(&bytes, &Limits::default()).unwrap_err();
        assert!(matches!(said, Error::TooMuch { .. }), "{said}");
    }
    // The same by operators that make values out of numbers.
    let nodes = [node("ConstantOfShape", &["s"], &["y"], &[])];
    let constants = [integers("s", &[1 << 40, 1 << 40])];
    let said =
        tell(&file(&graph(&nodes, &constants, &[], &[value("y", &[])]), 13), &Limits::default()).unwrap_err();
    assert!(matches!(said, Error::Misfit { .. }), "{said}");
}

#[test]
fn graphs_inside_graphs_end_somewhere() {
    let mut inner = graph(&[node("Relu", &["x"], &["y"], &[])], &[], &[], &[value("y", &[])]);
    for _ in 0..200 {
        let sub = Message::default().text(1, "then_branch").message(6, &inner).number(20, 5);
        inner = graph(&[node("If", &["x"], &["y"], &[]).message(5, &sub)], &[], &[], &[value("y", &[])]);
    }
    let said = read(&file(&inner, 13), &Limits::default()).unwrap_err().to_string();
    assert_eq!(said, "the depth of graphs inside graphs is 17; at most 16 are read");
}

#[test]
fn a_flood_of_empty_operators_is_refused() {
    let nodes = vec![Message::default(); 1001];
    let limits = Limits { nodes: 1000, ..Limits::default() };
    let said = read(&file(&graph(&nodes, &[], &[], &[]), 13), &limits).unwrap_err().to_string();
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
        tell(&file(&graph(&nodes, &[], &[value("x", &[2])], &[value("y", &[])]), 13), &Limits::default())
            .unwrap();
    assert_eq!(told.operators[0].turns, 1);
    assert!(told.notes.iter().any(|note| note.contains("how often it turns")), "{:?}", told.notes);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_refused_or_told_of(bytes: Vec<u8>) {
        let _ = tell(&bytes, &Limits::default());
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
        let _ = tell(&bytes, &Limits::default());
    }
}
