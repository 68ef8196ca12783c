//! Memory check before a graph runs: an engine that exceeds the memory aborts the whole process.
//! Reads `/proc/meminfo`.

use metier_onnx::GraphAnalysis;
use metier_types::Bytes;

use crate::Error;

/// Memory available to a program, swap included; `None` if the kernel does not report it.
pub fn available_memory() -> Option<Bytes> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let of = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    Some(Bytes(of("MemAvailable")?.saturating_add(of("SwapFree").unwrap_or(0))))
}

/// Rejects a graph whose weights and activations exceed the available memory. Engines need more
/// than that, so an accepted graph may still be too large.
pub fn check_memory(analysis: &GraphAnalysis, available: Bytes) -> Result<(), Error> {
    let weights = analysis.weight_bytes;
    // If some size is unknown, single values may still be known.
    let largest = analysis.operators.iter().flat_map(|cost| &cost.outputs).filter_map(|value| {
        let count = value.shape.as_ref()?.iter().try_fold(1u64, |count, size| count.checked_mul((*size)?))?;
        Some(count.saturating_mul(value.data_type?.bits()?) / 8)
    });
    let alive = analysis.peak_activation_bytes.map_or(0, Bytes::get).max(largest.max().unwrap_or(0));
    let needed = Bytes(weights.get().saturating_add(alive));
    match needed > available {
        true => Err(Error::Memory { needed, weights, available }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use metier_onnx::graph_builder::GraphBuilder;
    use metier_onnx::{DataType, OnnxLimits, ShapeBindings, analyse_graph, read_onnx};

    use super::*;
    use crate::graph_inputs::{InputOptions, make_inputs};

    fn analyse_built(graph: GraphBuilder) -> GraphAnalysis {
        let bytes = graph.finish();
        let model = read_onnx(&bytes, &OnnxLimits::default()).unwrap();
        analyse_graph(&model, &ShapeBindings::default(), &OnnxLimits::default()).unwrap()
    }

    #[test]
    fn a_few_bytes_that_ask_for_terabytes_are_refused_before_anything_is_run() {
        let mut graph = GraphBuilder::new(1);
        let sizes = graph.add_integers(&[1 << 20, 1 << 19]);
        let made = graph.encode_node("ConstantOfShape", &[&sizes], &[]);
        graph.add_output(&made);
        let error = make_inputs(&analyse_built(graph), &InputOptions::default()).unwrap_err().to_string();
        assert!(error.contains("at least 2.00 TiB of memory"), "{error}");
    }

    #[test]
    fn weights_and_activations_count_together() {
        let mut graph = GraphBuilder::new(1);
        let x = graph.add_input(DataType::Float, &[1, 1024]);
        let weights = graph.add_weights(&[1024, 1024], 1024);
        let made = graph.encode_node("MatMul", &[&x, &weights], &[]);
        graph.add_output(&made);
        let analysis = analyse_built(graph);
        assert!(check_memory(&analysis, Bytes(5 << 20)).is_ok());
        assert!(
            matches!(check_memory(&analysis, Bytes(4 << 20)), Err(Error::Memory { weights: Bytes(w), .. }) if w == 4 << 20)
        );
    }
}
