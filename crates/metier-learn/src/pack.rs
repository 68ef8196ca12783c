//! Compact encoding of numbers as text, for trees in predictor files. A text field per number would
//! take ten times the space.
//!
//! Counts take one byte for seven bits, numbers have single precision, and the result is base64.
//! The caller validates the decoded values.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    pub fn count(&mut self, mut count: u64) {
        while count >= 0x80 {
            self.0.push(count as u8 | 0x80);
            count >>= 7;
        }
        self.0.push(count as u8);
    }

    pub fn number(&mut self, number: f32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub fn text(&self) -> String {
        STANDARD_NO_PAD.encode(&self.0)
    }
}

/// Reads the values back in the order written; `None` at the end or for malformed input.
#[derive(Debug)]
pub struct Reader {
    bytes: Vec<u8>,
    at: usize,
}

impl Reader {
    pub fn new(text: &str) -> Option<Self> {
        Some(Self { bytes: STANDARD_NO_PAD.decode(text).ok()?, at: 0 })
    }

    pub fn count(&mut self) -> Option<u64> {
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

    pub fn number(&mut self) -> Option<f32> {
        let bytes = self.bytes.get(self.at..self.at + 4)?;
        self.at += 4;
        Some(f32::from_le_bytes(bytes.try_into().ok()?))
    }

    /// Number of remaining bytes, an upper bound for the length of any list.
    pub fn left(&self) -> usize {
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
            let mut writer = Writer::default();
            for (count, number) in &list {
                writer.count(*count);
                writer.number(*number);
            }
            let mut reader = Reader::new(&writer.text()).unwrap();
            for (count, number) in &list {
                prop_assert_eq!(reader.count(), Some(*count));
                prop_assert_eq!(reader.number(), Some(*number));
            }
            prop_assert_eq!((reader.left(), reader.count(), reader.number()), (0, None, None));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[A-Za-z0-9+/=]{0,40}") {
            if let Some(mut reader) = Reader::new(&text) {
                while reader.count().is_some() {}
                reader.number();
            }
        }
    }
}
