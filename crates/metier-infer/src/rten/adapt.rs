//! Adapts graphs to the built-in engine: operators that it lacks, or interprets differently from
//! the standard, are replaced by others.
//!
//! - `LRN` is unknown to it. Replaced by squares, an average pool along the channels, and a power.
//! - `Softmax` and `LogSoftmax` before operator set 13 flattened all dimensions from `axis` on. The
//!   engine normalises over the dimension `axis` alone, by default the last.
//! - A `Conv` may omit `kernel_shape`, to be inferred from the weights. The engine requires it.
//! - External weights may be in files of any name. The engine requires the suffix `.data` or
//!   `.onnx_data`, and no folder. Offset and length may be omitted; the engine requires both.
//!
//! Only operators of the main graph are adapted, not those inside an `If` or a loop.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use metier_onnx::build::Setting;
use metier_onnx::rewrite::Rewrite;
use metier_onnx::{Attribute, Bindings, Limits, Model, Node};

/// Operator set since which `Softmax` normalises over one dimension.
const SOFTMAX_OF_ONE: i64 = 13;

/// An adapted graph file.
pub struct Adapted {
    pub bytes: Vec<u8>,
    /// External weight files: the name in the original graph, and the name in the adapted one.
    pub beside: Vec<(String, String)>,
}

/// Adapts a file to the engine; `None` if no change is needed or the file is unreadable.
pub fn adapted(bytes: &[u8]) -> Option<Adapted> {
    let model = metier_onnx::read(bytes, &Limits::default()).ok()?;
    let mut rewrite = Rewrite::new(bytes, &model);
    let is_old = model.opset() < SOFTMAX_OF_ONE;
    let mut shapes: Option<Shapes> = None;
    for (index, node) in model.graph.nodes.iter().enumerate().filter(|(_, node)| node.is_standard()) {
        match node.kind.as_str() {
            "LRN" => normalisation(&mut rewrite, index, node),
            "Softmax" | "LogSoftmax" if is_old => {
                softmax(&mut rewrite, index, node, shapes.get_or_insert_with(|| shapes_of(&model)));
            }
            "Conv" | "ConvTranspose" if !node.attributes.contains_key("kernel_shape") => {
                convolution(&mut rewrite, index, node, shapes.get_or_insert_with(|| shapes_of(&model)));
            }
            _ => {}
        }
    }
    let mut names = BTreeSet::new();
    let mut is_told = true;
    metier_onnx::constants::each(&model.graph, &mut |tensor| {
        is_told &= tensor.external.is_none() || tensor.is_span_told;
        names.extend(tensor.external.clone());
    });
    if !is_told {
        rewrite.tell_spans();
    }
    let mut beside = Vec::with_capacity(names.len());
    for (number, name) in names.into_iter().enumerate() {
        let taken = if is_taken(&name) { name.clone() } else { format!("{number}.data") };
        if taken != name {
            rewrite.file(&name, &taken);
        }
        beside.push((name, taken));
    }
    if rewrite.is_empty() {
        return None;
    }
    Some(Adapted { bytes: rewrite.finish().ok()?, beside })
}

/// Whether the engine accepts weights from a file of that name.
fn is_taken(name: &str) -> bool {
    let path = Path::new(name);
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let is_alone = path.file_name().is_some_and(|alone| alone == path.as_os_str());
    is_alone && (ending.starts_with("data") || ending.starts_with("onnx_data"))
}

/// Dimensions of values by name, for values of known rank.
type Shapes = HashMap<String, Vec<Option<u64>>>;

/// Dimensions of the inputs of all main graph operators, weights included.
fn shapes_of(model: &Model) -> Shapes {
    let told = metier_onnx::analyse(model, &Bindings::default(), &Limits::default());
    let operators = told.map(|told| told.operators).unwrap_or_default();
    let values = operators.into_iter().filter(|one| one.inside.is_empty()).flat_map(|one| one.inputs);
    let constants =
        model.graph.initializers.iter().map(|tensor| {
            (tensor.name.clone(), tensor.dims.iter().map(|size| Some(*size)).collect::<Vec<_>>())
        });
    constants.chain(values.filter_map(|value| Some((value.name, value.shape?)))).collect()
}

fn single(node: &Node) -> Option<(&str, &str)> {
    Some((node.inputs.first()?, node.outputs.first()?))
}

fn float(node: &Node, name: &str, otherwise: f64) -> f32 {
    match node.attributes.get(name) {
        Some(Attribute::Float(value)) => *value as f32,
        _ => otherwise as f32,
    }
}

/// `x / (bias + alpha · mean of x² over size channels) ^ beta`; channels beyond the ends count as
/// 0.
fn normalisation(rewrite: &mut Rewrite<'_>, index: usize, node: &Node) {
    let (Some((x, y)), Some(size)) = (single(node), node.integer("size").filter(|size| *size > 0)) else {
        return;
    };
    let value = |what: &str| format!("{y}~{what}");
    let called = |what: &str| format!("{}~{what}", node.name);
    rewrite.integers(&value("flat"), &[0, 0, -1]);
    rewrite.number(&value("alpha"), float(node, "alpha", 1e-4));
    rewrite.number(&value("bias"), float(node, "bias", 1.0));
    rewrite.number(&value("beta"), float(node, "beta", 0.75));
    let pool = [
        ("kernel_shape", Setting::Integers(vec![size, 1])),
        ("strides", Setting::Integers(vec![1, 1])),
        ("pads", Setting::Integers(vec![(size - 1) / 2, 0, size / 2, 0])),
        ("count_include_pad", Setting::Integer(1)),
    ];
    let mut add = |what: &str, kind: &str, inputs: &[&str], settings: &[(&str, Setting)]| {
        rewrite.instead(index, kind, &called(what), inputs, &value(what), settings);
    };
    add("shape", "Shape", &[x], &[]);
    add("squares", "Mul", &[x, x], &[]);
    add("rows", "Reshape", &[&value("squares"), &value("flat")], &[]);
    add("picture", "Unsqueeze", &[&value("rows")], &[("axes", Setting::Integers(vec![1]))]);
    add("means", "AveragePool", &[&value("picture")], &pool);
    add("back", "Reshape", &[&value("means"), &value("shape")], &[]);
    add("scaled", "Mul", &[&value("back"), &value("alpha")], &[]);
    add("sum", "Add", &[&value("scaled"), &value("bias")], &[]);
    add("divisor", "Pow", &[&value("sum"), &value("beta")], &[]);
    rewrite.instead(index, "Div", &node.name, &[x, &value("divisor")], y, &[]);
}

/// Flattens all dimensions from `axis` on, and restores them.
fn softmax(rewrite: &mut Rewrite<'_>, index: usize, node: &Node, shapes: &Shapes) {
    let Some((x, y)) = single(node) else { return };
    let axis = node.integer("axis");
    // The engine handles the last dimension alone correctly, and may then fuse the operator.
    let last = shapes.get(x).and_then(|shape| i64::try_from(shape.len()).ok()?.checked_sub(1));
    if axis == Some(-1) || last.is_some_and(|last| axis.unwrap_or(1) == last) {
        return;
    }
    let axis = axis.unwrap_or(1);
    let value = |what: &str| format!("{y}~{what}");
    let called = |what: &str| format!("{}~{what}", node.name);
    let mut add = |what: &str, kind: &str, inputs: &[&str], settings: &[(&str, Setting)]| {
        rewrite.instead(index, kind, &called(what), inputs, &value(what), settings);
    };
    add("shape", "Shape", &[x], &[]);
    add("flat", "Flatten", &[x], &[("axis", Setting::Integer(axis))]);
    add("shares", &node.kind, &[&value("flat")], &[("axis", Setting::Integer(-1))]);
    rewrite.instead(index, "Reshape", &node.name, &[&value("shares"), &value("shape")], y, &[]);
}

/// Infers the kernel size from the weights, which are constants or outputs of other operators.
fn convolution(rewrite: &mut Rewrite<'_>, index: usize, node: &Node, shapes: &Shapes) {
    let weights = node.inputs.get(1).and_then(|name| shapes.get(name));
    let Some(window) = weights.and_then(|weights| weights.get(2..)) else { return };
    let size = |size: &Option<u64>| size.and_then(|size| i64::try_from(size).ok());
    let Some(window) = window.iter().map(size).collect::<Option<Vec<i64>>>() else { return };
    rewrite.add(index, &[("kernel_shape", Setting::Integers(window))]);
}
