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

use metier_onnx::graph_builder::AttributeValue;
use metier_onnx::graph_rewrite::GraphRewrite;
use metier_onnx::{GraphNode, NodeAttribute, OnnxFile, OnnxLimits, ShapeBindings};

/// Operator set since which `Softmax` normalises over one dimension.
const SINGLE_AXIS_SOFTMAX_OPSET: i64 = 13;

/// An adapted graph file.
pub struct AdaptedGraph {
    pub bytes: Vec<u8>,
    /// External weight files: the name in the original graph, and the name in the adapted one.
    pub beside: Vec<(String, String)>,
}

/// Adapts a file to the engine; `None` if no change is needed or the file is unreadable.
pub fn adapt_graph(bytes: &[u8]) -> Option<AdaptedGraph> {
    let model = metier_onnx::read_onnx(bytes, &OnnxLimits::default()).ok()?;
    let mut rewrite = GraphRewrite::new(bytes, &model);
    let is_old = model.opset() < SINGLE_AXIS_SOFTMAX_OPSET;
    let mut shapes: Option<ShapeTable> = None;
    for (index, node) in model.graph.nodes.iter().enumerate().filter(|(_, node)| node.is_standard()) {
        match node.kind.as_str() {
            "LRN" => adapt_lrn(&mut rewrite, index, node),
            "Softmax" | "LogSoftmax" if is_old => {
                adapt_softmax(
                    &mut rewrite,
                    index,
                    node,
                    shapes.get_or_insert_with(|| collect_shapes(&model)),
                );
            }
            "Conv" | "ConvTranspose" if !node.attributes.contains_key("kernel_shape") => {
                adapt_convolution(
                    &mut rewrite,
                    index,
                    node,
                    shapes.get_or_insert_with(|| collect_shapes(&model)),
                );
            }
            _ => {}
        }
    }
    let mut names = BTreeSet::new();
    let mut is_told = true;
    metier_onnx::constants::for_each_constant(&model.graph, &mut |tensor| {
        is_told &= tensor.external.is_none() || tensor.is_span_told;
        names.extend(tensor.external.clone());
    });
    if !is_told {
        rewrite.write_external_spans();
    }
    let mut beside = Vec::with_capacity(names.len());
    for (number, name) in names.into_iter().enumerate() {
        let taken = if is_supported_name(&name) { name.clone() } else { format!("{number}.data") };
        if taken != name {
            rewrite.rename_external_file(&name, &taken);
        }
        beside.push((name, taken));
    }
    if rewrite.is_empty() {
        return None;
    }
    Some(AdaptedGraph { bytes: rewrite.finish().ok()?, beside })
}

/// Whether the engine accepts weights from a file of that name.
fn is_supported_name(name: &str) -> bool {
    let path = Path::new(name);
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let is_alone = path.file_name().is_some_and(|alone| alone == path.as_os_str());
    is_alone && (ending.starts_with("data") || ending.starts_with("onnx_data"))
}

/// Dimensions of values by name, for values of known rank.
type ShapeTable = HashMap<String, Vec<Option<u64>>>;

/// Dimensions of the inputs of all main graph operators, weights included.
fn collect_shapes(model: &OnnxFile) -> ShapeTable {
    let analysis = metier_onnx::analyse_graph(model, &ShapeBindings::default(), &OnnxLimits::default());
    let operators = analysis.map(|graph_analysis| graph_analysis.operators).unwrap_or_default();
    let values = operators.into_iter().filter(|cost| cost.inside.is_empty()).flat_map(|cost| cost.inputs);
    let constants =
        model.graph.initializers.iter().map(|tensor| {
            (tensor.name.clone(), tensor.dims.iter().map(|size| Some(*size)).collect::<Vec<_>>())
        });
    constants.chain(values.filter_map(|value| Some((value.name, value.shape?)))).collect()
}

fn single_input_output(node: &GraphNode) -> Option<(&str, &str)> {
    Some((node.inputs.first()?, node.outputs.first()?))
}

fn float_attribute(node: &GraphNode, name: &str, otherwise: f64) -> f32 {
    match node.attributes.get(name) {
        Some(NodeAttribute::Float(value)) => *value as f32,
        _ => otherwise as f32,
    }
}

/// `x / (bias + alpha · mean of x² over size channels) ^ beta`; channels beyond the ends count as
/// 0.
fn adapt_lrn(rewrite: &mut GraphRewrite<'_>, index: usize, node: &GraphNode) {
    let (Some((x, y)), Some(size)) =
        (single_input_output(node), node.integer("size").filter(|size| *size > 0))
    else {
        return;
    };
    let value = |what: &str| format!("{y}~{what}");
    let called = |what: &str| format!("{}~{what}", node.name);
    rewrite.add_integers(&value("flat"), &[0, 0, -1]);
    rewrite.add_float(&value("alpha"), float_attribute(node, "alpha", 1e-4));
    rewrite.add_float(&value("bias"), float_attribute(node, "bias", 1.0));
    rewrite.add_float(&value("beta"), float_attribute(node, "beta", 0.75));
    let pool = [
        ("kernel_shape", AttributeValue::Integers(vec![size, 1])),
        ("strides", AttributeValue::Integers(vec![1, 1])),
        ("pads", AttributeValue::Integers(vec![(size - 1) / 2, 0, size / 2, 0])),
        ("count_include_pad", AttributeValue::Integer(1)),
    ];
    let mut add = |what: &str, kind: &str, inputs: &[&str], settings: &[(&str, AttributeValue)]| {
        rewrite.replace_node(index, kind, &called(what), inputs, &value(what), settings);
    };
    add("shape", "Shape", &[x], &[]);
    add("squares", "Mul", &[x, x], &[]);
    add("rows", "Reshape", &[&value("squares"), &value("flat")], &[]);
    add("picture", "Unsqueeze", &[&value("rows")], &[("axes", AttributeValue::Integers(vec![1]))]);
    add("means", "AveragePool", &[&value("picture")], &pool);
    add("back", "Reshape", &[&value("means"), &value("shape")], &[]);
    add("scaled", "Mul", &[&value("back"), &value("alpha")], &[]);
    add("sum", "Add", &[&value("scaled"), &value("bias")], &[]);
    add("divisor", "Pow", &[&value("sum"), &value("beta")], &[]);
    rewrite.replace_node(index, "Div", &node.name, &[x, &value("divisor")], y, &[]);
}

/// Flattens all dimensions from `axis` on, and restores them.
fn adapt_softmax(rewrite: &mut GraphRewrite<'_>, index: usize, node: &GraphNode, shapes: &ShapeTable) {
    let Some((x, y)) = single_input_output(node) else { return };
    let axis = node.integer("axis");
    // The engine handles the last dimension alone correctly, and may then fuse the operator.
    let last = shapes.get(x).and_then(|shape| i64::try_from(shape.len()).ok()?.checked_sub(1));
    if axis == Some(-1) || last.is_some_and(|last| axis.unwrap_or(1) == last) {
        return;
    }
    let axis = axis.unwrap_or(1);
    let value = |what: &str| format!("{y}~{what}");
    let called = |what: &str| format!("{}~{what}", node.name);
    let mut add = |what: &str, kind: &str, inputs: &[&str], settings: &[(&str, AttributeValue)]| {
        rewrite.replace_node(index, kind, &called(what), inputs, &value(what), settings);
    };
    add("shape", "Shape", &[x], &[]);
    add("flat", "Flatten", &[x], &[("axis", AttributeValue::Integer(axis))]);
    add("shares", &node.kind, &[&value("flat")], &[("axis", AttributeValue::Integer(-1))]);
    rewrite.replace_node(index, "Reshape", &node.name, &[&value("shares"), &value("shape")], y, &[]);
}

/// Infers the kernel size from the weights, which are constants or outputs of other operators.
fn adapt_convolution(rewrite: &mut GraphRewrite<'_>, index: usize, node: &GraphNode, shapes: &ShapeTable) {
    let weights = node.inputs.get(1).and_then(|name| shapes.get(name));
    let Some(window) = weights.and_then(|weights| weights.get(2..)) else { return };
    let size = |size: &Option<u64>| size.and_then(|size| i64::try_from(size).ok());
    let Some(window) = window.iter().map(size).collect::<Option<Vec<i64>>>() else { return };
    rewrite.add_attributes(index, &[("kernel_shape", AttributeValue::Integers(window))]);
}
