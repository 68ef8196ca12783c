//! Generates realistic networks for trials.
//!
//! A network is a few blocks of one of several styles, with sizes drawn from typical ranges. Equal
//! numbers give equal networks. Blocks rather than single operators, since runtimes fuse operators,
//! and preceding operators determine whether inputs are in a cache.

mod images;
mod mixed;
mod sequences;
mod small;

use metier_onnx::DataType;
use metier_onnx::graph_builder::{AttributeValue, GraphBuilder};
use metier_types::random::SplitMix64;

/// Styles of networks, in rotation.
pub const STYLES: [&str; 13] = [
    "cnn",
    "mobile",
    "words",
    "attention",
    "tiny",
    "cnn",
    "recurrent",
    "mobile",
    "soup",
    "sound",
    "reader",
    "tiny",
    "loop",
];

/// Largest number of elements of a tensor.
const MAX_ELEMENTS: u64 = 4_000_000;
/// Largest number of weights of one operator.
const MAX_WEIGHTS: u64 = 12_000_000;

/// Reproducible random numbers. Networks are identified by seed, so the draws must never change.
pub struct NetworkRandom(SplitMix64);

impl NetworkRandom {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x9e37_79b9))
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end.max(1)
    }

    fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }

    fn with_percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Log-uniform between low and high; sometimes a power of two, as in real networks.
    fn size(&mut self, low: u64, high: u64) -> u64 {
        let share = self.below(1 << 20) as f64 / f64::from(1 << 20);
        let value = (low as f64).log2() + share * ((high as f64).log2() - (low as f64).log2());
        let value = if self.with_percent(20) { value.round() } else { value };
        (value.exp2().round() as u64).clamp(low, high)
    }

    /// A number of channels: mostly a multiple of 8.
    fn channels(&mut self, low: u64, high: u64) -> u64 {
        let size = self.size(low, high);
        if size >= 12 && self.with_percent(85) { (size + 4) / 8 * 8 } else { size }
    }
}

/// A generated network: name and file content.
pub fn network(number: u64) -> (String, Vec<u8>) {
    let style = STYLES[(number % STYLES.len() as u64) as usize];
    let mut made = NetworkBuilder {
        graph: GraphBuilder::new(number),
        chance: NetworkRandom::new(number),
        value: String::new(),
        shape: Vec::new(),
        adds: 0,
    };
    match style {
        "cnn" => made.cnn(),
        "mobile" => made.mobile(),
        "attention" => made.attention(),
        "sound" => made.sound(),
        "recurrent" => made.recurrent(),
        "words" => made.words(),
        "reader" => made.reader(),
        "loop" => made.turns(),
        "tiny" => made.tiny(),
        _ => made.soup(),
    }
    let value = made.value.clone();
    made.graph.add_output(&value);
    (format!("{style}-{number}"), made.graph.finish())
}

struct NetworkBuilder {
    graph: GraphBuilder,
    chance: NetworkRandom,
    /// The value that the next operator consumes.
    value: String,
    shape: Vec<u64>,
    adds: u64,
}

impl NetworkBuilder {
    fn elements(&self) -> u64 {
        self.shape.iter().product()
    }

    fn start(&mut self, shape: &[u64]) {
        self.value = self.graph.add_input(DataType::Float, shape);
        self.shape = shape.to_vec();
    }

    fn append(&mut self, kind: &str, settings: &[(&str, AttributeValue)]) {
        let value = self.value.clone();
        self.value = self.graph.encode_node(kind, &[&value], settings);
    }

    fn append_with(&mut self, kind: &str, other: &str, settings: &[(&str, AttributeValue)]) {
        let value = self.value.clone();
        self.value = self.graph.encode_node(kind, &[&value, other], settings);
    }
}
