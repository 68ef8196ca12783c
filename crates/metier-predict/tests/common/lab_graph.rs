//! Real lab graphs, parsed and counted, for tests of this crate and of its dependants.

use std::collections::BTreeMap;

use metier_onnx::{GraphAnalysis, OnnxLimits, ShapeBindings};

/// A lab graph with the given batch size; inputs with equal shapes are separated by commas.
pub fn graph(name: &str, input: &str, shape: &[u64]) -> Option<GraphAnalysis> {
    let Some(folder) = std::env::var_os("METIER_LAB_GRAPHS") else {
        eprintln!("SKIP: {name}, because METIER_LAB_GRAPHS is not set; `lab/lab up graphs` gets the graphs");
        return None;
    };
    let bytes = std::fs::read(std::path::Path::new(&folder).join(format!("{name}.onnx"))).unwrap();
    let model = metier_onnx::read_onnx(&bytes, &OnnxLimits::default()).unwrap();
    let shapes: BTreeMap<_, _> = input.split(',').map(|name| (name.to_string(), shape.to_vec())).collect();
    let bindings = ShapeBindings { shapes, ..ShapeBindings::default() };
    Some(metier_onnx::analyse_graph(&model, &bindings, &OnnxLimits::default()).unwrap())
}
