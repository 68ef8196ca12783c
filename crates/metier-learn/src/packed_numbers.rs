//! Compact encoding of numbers as text, for trees in predictor files. A text field per number would
//! take ten times the space.
//!
//! Counts take one byte for seven bits, numbers have single precision, and the result is base64.
//! The caller validates the decoded values.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

#[derive(Debug, Default)]
pub struct PackedWriter(Vec<u8>);

impl PackedWriter {
    pub fn write_count(&mut self, mut count: u64) {
        while count >= 0x80 {
            self.0.push(count as u8 | 0x80);
            count >>= 7;
        }
        self.0.push(count as u8);
    }

    pub fn write_number(&mut self, number: f32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub fn to_base64(&self) -> String {
        STANDARD_NO_PAD.encode(&self.0)
    }
}

/// Reads the values back in the order written; `None` at the end or for malformed input.
#[derive(Debug)]
pub struct PackedReader {
    bytes: Vec<u8>,
    at: usize,
}

impl PackedReader {
    pub fn new(text: &str) -> Option<Self> {
        Some(Self { bytes: STANDARD_NO_PAD.decode(text).ok()?, at: 0 })
    }

    pub fn read_count(&mut self) -> Option<u64> {
        let mut count = 0u64;
        for shift in (0..63).step_by(7) {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            count |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(count);
            }
        }
        None
    }

    pub fn read_number(&mut self) -> Option<f32> {
        let bytes = self.bytes.get(self.at..self.at + 4)?;
        self.at += 4;
        Some(f32::from_le_bytes(bytes.try_into().ok()?))
    }

    /// Number of remaining bytes, an upper bound for the length of any list.
    pub fn remaining_bytes(&self) -> usize {
        self.bytes.len() - self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_written_is_read(list in prop::collection::vec((0u64..1 << 62, -1e30f32..1e30), 0..50)) {
            let mut writer = PackedWriter::default();
            for (count, number) in &list {
                writer.write_count(*count);
                writer.write_number(*number);
            }
            let mut reader = PackedReader::new(&writer.to_base64()).unwrap();
            for (count, number) in &list {
                prop_assert_eq!(reader.read_count(), Some(*count));
                prop_assert_eq!(reader.read_number(), Some(*number));
            }
            prop_assert_eq!((reader.remaining_bytes(), reader.read_count(), reader.read_number()), (0, None, None));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[A-Za-z0-9+/=]{0,40}") {
            if let Some(mut reader) = PackedReader::new(&text) {
                while reader.read_count().is_some() {}
                reader.read_number();
            }
        }
    }
}
