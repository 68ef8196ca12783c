//! The series codec (being built).

use metier_types::Series;

/// Why bytes are not a series.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// They end too early, contradict themselves, or a checksum is wrong.
    #[error("{0}")]
    Damaged(String),
    /// Larger than the reader allows.
    #[error("{what} is {got}, at most {limit} allowed")]
    TooLarge {
        /// What.
        what: &'static str,
        /// How large.
        got: u64,
        /// How large it may be.
        limit: u64,
    },
}

/// How much a reader is willing to decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub columns: u32,
    /// Values: rows × columns.
    pub values: u64,
}

impl Default for Limits {
    /// 16 Mi rows, 4096 columns, 64 Mi values (512 MiB).
    fn default() -> Self {
        Self { rows: 1 << 24, columns: 4096, values: 1 << 26 }
    }
}

/// The bytes of a series.
pub fn encode(series: &Series) -> Result<Vec<u8>, CodecError> {
    let _ = series;
    Err(CodecError::Damaged("the codec is being built".to_string()))
}

/// The series of bytes.
pub fn decode(bytes: &[u8], limits: Limits) -> Result<Series, CodecError> {
    let _ = (bytes, limits);
    Err(CodecError::Damaged("the codec is being built".to_string()))
}
