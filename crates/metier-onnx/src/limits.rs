//! How much a file may ask of us.

/// Bounds that every file is read within; a file beyond one is refused with its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the file.
    pub file_bytes: usize,
    /// Operators, in sub-graphs too.
    pub nodes: usize,
    /// Tensors, values, attributes and names together.
    pub items: usize,
    pub depth: usize,
    /// Dimensions of one value.
    pub rank: usize,
    /// Elements of one value.
    pub elements: u64,
    /// Turns of a loop that are counted.
    pub turns: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // Protocol buffers end at 2 GiB; larger networks keep their weights outside of the file.
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
