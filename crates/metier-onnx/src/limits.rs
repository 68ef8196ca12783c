//! Resource limits for reading a file.

/// Limits for every file; an error for a file beyond one names the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnnxLimits {
    /// Bytes of the file.
    pub file_bytes: usize,
    /// Operators, including subgraphs.
    pub nodes: usize,
    /// Tensors, values, attributes and names together.
    pub items: usize,
    pub depth: usize,
    /// Dimensions of one value.
    pub rank: usize,
    /// Elements of one value.
    pub elements: u64,
    /// Counted iterations of a loop.
    pub turns: u64,
}

impl Default for OnnxLimits {
    fn default() -> Self {
        Self {
            // Protocol buffers are limited to 2 GiB; larger networks store their weights
            // externally.
            file_bytes: 1 << 31,
            nodes: 200_000,
            items: 4_000_000,
            depth: 16,
            rank: 32,
            elements: 1 << 40,
            turns: 1 << 20,
        }
    }
}
