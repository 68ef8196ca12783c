//! `metier inspect` as people and programs see it.

use crate::common::Place;
use crate::onnx;

/// A convolution whose weights an operator makes, which the original profiler does not see; of an
/// open size.
fn network() -> Vec<u8> {
    let nodes = [
        onnx::node("ConstantOfShape", &["dims"], &["w"], &[]),
        onnx::node("Conv", &["x", "w"], &["c"], &[("pads", &[1, 1, 1, 1])]).text(3, "first"),
        onnx::node("Relu", &["c"], &["y"], &[]),
    ];
    let constants = [onnx::integers("dims", &[8, 3, 3, 3])];
    let (x, y) = (onnx::value("x", &[1, 3, -1, -1]), onnx::value("y", &[]));
    onnx::file(&onnx::graph(&nodes, &constants, &[x], &[y]), 17)
}

#[test]
fn a_graph_is_summed_up_with_both_counts_and_what_is_open_is_no_zero() {
    let place = Place::new();
    std::fs::write(place.path("net.onnx"), network()).unwrap();
    let told = place.ok(&["inspect", "net.onnx", "--shape", "x=1x3x16x16"]);
    for part in [
        "y 1x8x16x16 float",
        "216 in 896 B",
        "multiply-adds  55.3 k",
        "16.0 KiB at most",
        "1 conv, 0 pool, 0 fc, 8 filters, 216 parameters",
        "by its own rules: 0 conv, 0 pool, 0 fc, 0 filters, 4 parameters",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let open = place.ok(&["inspect", "net.onnx"]);
    assert!(open.contains("not known: some size is open") && open.contains("(opset 17)"), "{open}");
    let relu = open.lines().find(|line| line.starts_with("Relu")).unwrap();
    assert!(relu.trim_end().ends_with('–'), "{relu}");

    let json = place.json(&["inspect", "net.onnx", "--dim", "n=16", "-o", "json"]);
    assert_eq!((&json["schema"], &json["multiply_adds"]), (&"metier.graph/1".into(), &(8 * 256 * 27).into()));
    let conv = &json["operators"][0];
    assert_eq!((&conv["name"], &conv["weight_bytes"]), (&"first".into(), &864.into()));
    assert_eq!(conv["read_bytes"], 3 * 256 * 4 + 864);
    let csv = place.ok(&["inspect", "net.onnx", "--dim", "n=16", "-o", "csv"]);
    assert!(csv.starts_with("name,kind,") && csv.lines().count() == 3, "{csv}");
}

#[test]
fn what_cannot_be_read_is_refused_in_one_line() {
    let place = Place::new();
    std::fs::write(place.path("net.onnx"), network()).unwrap();
    std::fs::write(place.path("text.onnx"), "not a graph").unwrap();
    let cases: [(&[&str], i32, &str); 5] = [
        (&["absent.onnx"], 1, "absent.onnx"),
        (&["."], 1, "is not a file"),
        (&["text.onnx"], 1, "not an ONNX"),
        (&["net.onnx", "--shape", "x=1x3"], 2, "want 1x3xnxn"),
        (&["net.onnx", "--shape", "z=1"], 2, "one of the inputs x"),
    ];
    for (words, want, said) in cases {
        let (code, error) = place.fails(&[&["inspect"], words].concat());
        assert!(code == want && error.contains(said), "{words:?}: {code} {error}");
    }
}
