//! Graph characteristics of the SOPRANO profiler: by its own rules, and counted correctly.
//!
//! Its rules consider only the main graph and only weights that are initialisers. A graph with
//! weights in `Constant` operators or inside an `If` thus has no layers and no parameters.
//! Predictors trained on such counts need them unchanged; other uses need the corrected ones.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::graph::{ConstantTensor, Graph, GraphNode};

/// The counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct GraphCharacteristics {
    /// Convolutions.
    pub conv_layers: u64,
    /// Pools.
    pub pool_layers: u64,
    /// Fully connected layers.
    pub fc_layers: u64,
    /// Output channels of all convolutions together.
    pub filter_details: u64,
    /// Weights.
    pub total_parameters: u64,
}

/// Which kind of network it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum NetworkType {
    /// Has a convolution.
    #[serde(rename = "CNN")]
    Cnn,
    /// Has LSTM, GRU or RNN.
    #[serde(rename = "RNN")]
    Rnn,
    /// Nothing but Gemm.
    #[serde(rename = "MLP")]
    Mlp,
    /// Has an operator for attention.
    Transformer,
    /// None of these.
    #[serde(rename = "unknown")]
    Unknown,
}

/// Counts by SOPRANO's rules, including their omissions.
pub fn count_by_soprano_rules(graph: &Graph) -> GraphCharacteristics {
    // By name; of equal names the first, as in SOPRANO. Files may contain many of both, so a map is
    // needed.
    let mut weights: HashMap<&str, &ConstantTensor> = HashMap::new();
    for tensor in &graph.initializers {
        weights.entry(&tensor.name).or_insert(tensor);
    }
    let mut makers: HashMap<&str, &GraphNode> = HashMap::new();
    for node in &graph.nodes {
        for name in node.outputs.iter().filter(|name| !name.is_empty()) {
            makers.entry(name).or_insert(node);
        }
    }
    let weight = |name: Option<&String>| name.and_then(|name| weights.get(name.as_str()).copied());
    let maker = |name: Option<&String>| name.and_then(|name| makers.get(name.as_str()).copied());
    let mut counts = GraphCharacteristics {
        total_parameters: graph
            .initializers
            .iter()
            .fold(0, |sum: u64, tensor| sum.saturating_add(tensor.elements())),
        ..GraphCharacteristics::default()
    };
    for node in &graph.nodes {
        match node.kind.as_str() {
            "Conv" => {
                let Some(weights) = weight(node.inputs.get(1)) else { continue };
                counts.conv_layers += 1;
                let filters = weights.dims.first().copied().unwrap_or(0);
                counts.filter_details = counts.filter_details.saturating_add(filters);
                if maker(node.inputs.first()).is_some_and(|before| before.kind == "GlobalAveragePool") {
                    counts.fc_layers += 1;
                }
            }
            "Gemm" => counts.fc_layers += 1,
            "MatMul" => {
                let is_flattened = maker(node.inputs.first()).is_some_and(|before| before.kind == "Flatten");
                counts.fc_layers += u64::from(is_flattened || weight(node.inputs.get(1)).is_some());
            }
            "MaxPool" | "AveragePool" | "GlobalAveragePool" => counts.pool_layers += 1,
            _ => {}
        }
    }
    counts
}

/// Adds one operator to the corrected counts, wherever its weights are stored.
pub fn count_operator(
    counts: &mut GraphCharacteristics,
    node: &GraphNode,
    has_constant_weights: bool,
    channels: u64,
) {
    match node.kind.as_str() {
        "Conv" | "ConvInteger" | "QLinearConv" | "ConvTranspose" | "FusedConv" | "DeformConv"
            if has_constant_weights =>
        {
            counts.conv_layers += 1;
            counts.filter_details = counts.filter_details.saturating_add(channels);
        }
        "Gemm"
        | "MatMul"
        | "MatMulInteger"
        | "QLinearMatMul"
        | "FusedMatMul"
        | "FusedGemm"
        | "QGemm"
        | "DynamicQuantizeMatMul"
        | "MatMulIntegerToFloat"
        | "MatMulNBits"
            if has_constant_weights =>
        {
            counts.fc_layers += 1;
        }
        "MaxPool"
        | "AveragePool"
        | "LpPool"
        | "GlobalAveragePool"
        | "GlobalMaxPool"
        | "GlobalLpPool"
        | "QLinearAveragePool"
        | "QLinearGlobalAveragePool" => {
            counts.pool_layers += 1;
        }
        _ => {}
    }
}

/// Network type by SOPRANO's rule, including subgraphs.
pub fn network_type(graph: &Graph) -> NetworkType {
    fn any_node(graph: &Graph, is: &dyn Fn(&GraphNode) -> bool) -> bool {
        graph.nodes.iter().any(|node| is(node) || node.graphs().any(|inner| any_node(inner, is)))
    }
    if any_node(graph, &|node| node.kind.contains("Conv")) {
        NetworkType::Cnn
    } else if any_node(graph, &|node| matches!(node.kind.as_str(), "LSTM" | "GRU" | "RNN")) {
        NetworkType::Rnn
    } else if any_node(graph, &|node| node.kind.contains("Attention")) {
        NetworkType::Transformer
    } else if graph.nodes.iter().all(|node| node.kind == "Gemm") {
        NetworkType::Mlp
    } else {
        NetworkType::Unknown
    }
}
