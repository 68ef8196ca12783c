//! The lab's real graphs in both engines: each runs, and the outputs agree.

use std::path::PathBuf;

use metier_infer::graph_inputs::{self, InputOptions};
use metier_infer::{EngineRuntime, GraphSource, InferenceEngine, NamedTensor, library};
use metier_onnx::{GraphAnalysis, OnnxLimits, ShapeBindings};

fn graphs() -> Option<PathBuf> {
    let folder = std::env::var_os("METIER_LAB_GRAPHS").map(PathBuf::from);
    if folder.is_none() {
        println!("SKIP: real graphs, because METIER_LAB_GRAPHS is not set; `lab/lab up graphs` gets them");
    }
    folder
}

/// Sizes of open dimensions, as in the benchmarks.
fn bindings(name: &str) -> ShapeBindings {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../bench/graphs/shapes.json");
    let all: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let shapes = all.get(name).and_then(|one| one.as_object()).into_iter().flatten();
    let sizes = |shape: &serde_json::Value| {
        shape.as_array().unwrap().iter().map(|size| size.as_u64().unwrap()).collect()
    };
    ShapeBindings {
        shapes: shapes.map(|(input, shape)| (input.clone(), sizes(shape))).collect(),
        ..ShapeBindings::default()
    }
}

fn told(bytes: &[u8], bindings: &ShapeBindings) -> GraphAnalysis {
    let model = metier_onnx::read_onnx(bytes, &OnnxLimits::default()).unwrap();
    metier_onnx::analyse_graph(&model, bindings, &OnnxLimits::default()).unwrap()
}

/// The largest difference relative to the largest value.
fn difference(a: &[NamedTensor], b: &[NamedTensor]) -> f64 {
    assert_eq!(a.len(), b.len());
    let mut worst: f64 = 0.0;
    for one in a {
        let other = b.iter().find(|other| other.name == one.name).unwrap();
        assert_eq!(one.shape, other.shape, "{}", one.name);
        let (x, y) = (one.values.to_numbers(), other.values.to_numbers());
        let scale = y.iter().fold(1e-3, |most: f64, value| most.max(value.abs()));
        worst = x.iter().zip(&y).map(|(x, y)| (x - y).abs() / scale).fold(worst, f64::max);
    }
    worst
}

/// Small graphs only, since a debug build has a time budget; the benchmark covers the others.
const SMALL: [&str; 6] =
    ["silero-vad", "ppocr-angle", "magika", "light-shufflenet", "arabic-diacritics", "lstm-ocr"];

/// Graphs with operators that the built-in engine lacks or interprets differently.
const ADAPTED: [&str; 4] = ["light-bvlc_alexnet", "light-inception_v1", "light-squeezenet", "light-zfnet512"];

fn found() -> Option<PathBuf> {
    let found = std::env::var_os("METIER_LAB_ONNXRUNTIME").map(PathBuf::from);
    let library = found.or_else(|| library::find_library(None, |name| std::env::var_os(name)));
    if library.is_none() {
        println!("SKIP: agreement with ONNX Runtime, because no library of it was found; {}", library::FIX);
    }
    library
}

/// Outputs of a graph in an engine.
fn outputs(
    runtime: &EngineRuntime,
    source: GraphSource<'_>,
    made: &[NamedTensor],
    name: &str,
) -> Vec<NamedTensor> {
    let mut graph = runtime.load(source).unwrap_or_else(|error| panic!("{name}: {error}"));
    graph.set_inputs(made).unwrap();
    graph.run_for_outputs().unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn real_graphs_run_and_the_two_engines_agree() {
    let Some(folder) = graphs() else { return };
    let rten = EngineRuntime::open(&InferenceEngine::Rten, 2).unwrap();
    let other =
        found().map(|library| EngineRuntime::open(&InferenceEngine::OnnxRuntime(library), 2).unwrap());
    for name in SMALL {
        let path = folder.join(format!("{name}.onnx"));
        let told = told(&std::fs::read(&path).unwrap(), &bindings(name));
        let (made, _) =
            graph_inputs::make_inputs(&told, &InputOptions { seed: 7, ..InputOptions::default() }).unwrap();
        let ours = outputs(&rten, GraphSource::File(&path), &made, name);
        assert!(!ours.is_empty() && ours.iter().any(|output| !output.values.is_empty()), "{name}");
        if let Some(other) = &other {
            let apart = difference(&ours, &outputs(other, GraphSource::File(&path), &made, name));
            assert!(apart < 2e-3, "{name}: outputs are {apart} apart");
        }
    }
}

/// The weights of these graphs are all alike. The inputs of their last softmax are thus equal
/// except for rounding, which the softmax amplifies. So the test compares these inputs, and the
/// softmax of equal numbers.
#[test]
fn graphs_with_old_operators_run_and_the_two_engines_agree() {
    let Some(folder) = graphs() else { return };
    let rten = EngineRuntime::open(&InferenceEngine::Rten, 2).unwrap();
    let other =
        found().map(|library| EngineRuntime::open(&InferenceEngine::OnnxRuntime(library), 2).unwrap());
    let (limits, bindings) = (OnnxLimits::default(), ShapeBindings::default());
    for name in ADAPTED {
        let bytes = std::fs::read(folder.join(format!("{name}.onnx"))).unwrap();
        let model = metier_onnx::read_onnx(&bytes, &limits).unwrap();
        let chain = metier_onnx::split::OperatorChain::new(&bytes, &model, &bindings, &limits).unwrap();
        let softmax = model.graph.nodes.iter().rfind(|node| node.kind == "Softmax").unwrap();
        let parts = chain.write_parts(&[chain.place_after(&softmax.inputs[0]).unwrap()]).unwrap();
        let made = |bytes: &[u8]| {
            graph_inputs::make_inputs(&told(bytes, &bindings), &InputOptions::default()).unwrap().0
        };
        for (number, part) in parts.iter().enumerate() {
            let (source, made) = (GraphSource::Bytes(&part.bytes), made(&part.bytes));
            let ours = outputs(&rten, source, &made, name);
            assert!(ours[0].values.to_numbers().iter().any(|value| *value != 0.0), "{name}");
            if let Some(other) = &other {
                let apart = difference(&ours, &outputs(other, source, &made, name));
                assert!(apart < 2e-3, "{name}: outputs of part {number} are {apart} apart");
            }
        }
    }
}

#[test]
fn onnx_runtime_times_operators_of_a_real_graph() {
    let Some(folder) = graphs() else { return };
    let found = std::env::var_os("METIER_LAB_ONNXRUNTIME").map(PathBuf::from);
    let Some(library) = found.or_else(|| library::find_library(None, |name| std::env::var_os(name))) else {
        println!("SKIP: operators in ONNX Runtime, because no library of it was found; {}", library::FIX);
        return;
    };
    let path = folder.join("light-squeezenet.onnx");
    let told = told(&std::fs::read(&path).unwrap(), &ShapeBindings::default());
    let (made, _) = graph_inputs::make_inputs(&told, &InputOptions::default()).unwrap();
    let mut graph = EngineRuntime::open(&InferenceEngine::OnnxRuntime(library), 1)
        .unwrap()
        .load(GraphSource::File(&path))
        .unwrap();
    graph.set_inputs(&made).unwrap();
    let operators = graph.time_operators(2).unwrap();
    let convolutions = operators.iter().filter(|one| one.kind.contains("Conv")).count();
    assert_eq!(convolutions, 26, "{operators:?}");
    assert!(operators.iter().filter(|one| one.seconds > 0.0).count() > 20);
    assert!(operators.iter().all(|one| !one.outputs.is_empty()), "{operators:?}");
}

#[test]
fn a_library_that_is_none_is_said_with_the_fix() {
    let wrong = InferenceEngine::OnnxRuntime("/no/such/libonnxruntime.so".into());
    let error = EngineRuntime::open(&wrong, 1).err().unwrap().to_string();
    assert!(
        error.contains("/no/such/libonnxruntime.so") && error.contains("pip install onnxruntime"),
        "{error}"
    );
}
