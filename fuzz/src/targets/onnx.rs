//! Any bytes as an ONNX file. The file is refused, or it is analysed within the default limits.
//! Totals equal the sums of their parts, and the parts of a split can be read.

use metier_onnx::split::OperatorChain;
use metier_onnx::{OnnxLimits, ShapeBindings, analyse_graph, read_onnx};

use super::FuzzTarget;

pub const TARGET: FuzzTarget = FuzzTarget { name: "onnx", seeds, run };

/// Largest graph of the lab that is a seed.
const MAX_SEED_BYTES: u64 = 32 << 10;

/// A graph of one Relu; the lab's small graphs where they are.
fn seeds() -> Vec<Vec<u8>> {
    let value = |name: u8| {
        let shape = [10, 4, 10, 2, 8, 1];
        let tensor = [&[8, 1, 18, shape.len() as u8][..], &shape].concat();
        let kind = [&[10, tensor.len() as u8][..], &tensor].concat();
        [&[10, 1, name, 18, kind.len() as u8][..], &kind].concat()
    };
    let node = [10, 1, b'x', 18, 1, b'y', 34, 4, b'R', b'e', b'l', b'u'];
    let mut graph = [&[10, node.len() as u8][..], &node, &[18, 1, b'g']].concat();
    for (tag, name) in [(90, b'x'), (98, b'y')] {
        let value = value(name);
        graph.extend([&[tag, value.len() as u8][..], &value].concat());
    }
    let mut seeds = vec![[&[8, 8, 66, 2, 16, 17, 58, graph.len() as u8][..], &graph].concat()];
    if let Some(folder) = std::env::var_os("METIER_LAB_GRAPHS") {
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        let small =
            files.filter(|file| file.metadata().is_ok_and(|it| it.is_file() && it.len() < MAX_SEED_BYTES));
        seeds.extend(small.map(|file| std::fs::read(file.path()).unwrap()));
    }
    seeds
}

fn run(bytes: &[u8]) {
    let limits = OnnxLimits::default();
    let Ok(model) = read_onnx(bytes, &limits) else { return };
    let Ok(analysis) = analyse_graph(&model, &ShapeBindings::default(), &limits) else { return };
    let kinds = analysis.kinds.values();
    assert_eq!(kinds.clone().map(|kind| kind.multiply_adds).sum::<u64>(), analysis.multiply_adds);
    assert_eq!(kinds.map(|kind| kind.operators).sum::<u64>(), analysis.operators.len() as u64);
    assert!(serde_json::to_string(&analysis).is_ok());
    let Ok(chain) = OperatorChain::new(bytes, &model, &ShapeBindings::default(), &limits) else { return };
    if let Ok(parts) = chain.write_parts(&[chain.len() / 2]) {
        assert!(parts.iter().all(|part| read_onnx(&part.bytes, &limits).is_ok()));
    }
}
