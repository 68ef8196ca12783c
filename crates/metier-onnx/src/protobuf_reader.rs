//! Decodes protocol buffer bytes without copying them.
//!
//! It handles the wire format only: fields with a number and one of four wire types. Groups (wire
//! types 3 and 4) were deprecated before ONNX and are rejected.

use crate::Error;

/// One field of a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ProtobufField<'a> {
    /// An integer; negative ones as two's complement.
    Number(u64),
    Fixed64([u8; 8]),
    Fixed32([u8; 4]),
    /// Text, bytes, a message or packed numbers.
    Bytes(ProtobufSlice<'a>),
}

/// A slice of the file with its offset.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProtobufSlice<'a> {
    pub bytes: &'a [u8],
    /// Offset in the file.
    pub start: usize,
}

impl<'a> ProtobufSlice<'a> {
    pub fn from_file(bytes: &'a [u8]) -> Self {
        Self { bytes, start: 0 }
    }

    /// The fields in order.
    pub fn fields(self) -> ProtobufFields<'a> {
        ProtobufFields { rest: self.bytes, end: self.start + self.bytes.len() }
    }

    /// Decodes text; invalid UTF-8 becomes replacement characters.
    pub fn text(self) -> String {
        String::from_utf8_lossy(self.bytes).into_owned()
    }

    /// The packed numbers inside.
    pub fn numbers(self) -> PackedNumbers<'a> {
        PackedNumbers(self.fields())
    }
}

/// Iterates over the fields of a message.
pub struct ProtobufFields<'a> {
    rest: &'a [u8],
    end: usize,
}

impl<'a> ProtobufFields<'a> {
    fn position(&self) -> usize {
        self.end - self.rest.len()
    }

    fn malformed_error(&self, what: &'static str) -> Error {
        Error::MalformedBytes { at: self.position(), what }
    }

    fn take_bytes(&mut self, count: usize) -> Result<&'a [u8], Error> {
        if count > self.rest.len() {
            return Err(self.malformed_error("a field that is longer than what is left"));
        }
        let (taken, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(taken)
    }

    fn read_varint(&mut self) -> Result<u64, Error> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let [byte] = *self.take_bytes(1)? else {
                return Err(self.malformed_error("a number without an end"));
            };
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.malformed_error("a number of more than ten bytes"))
    }

    fn read_array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut array = [0; N];
        array.copy_from_slice(self.take_bytes(N)?);
        Ok(array)
    }

    /// Number and content of the next field; `None` at the end.
    pub fn next_field(&mut self) -> Result<Option<(u64, ProtobufField<'a>)>, Error> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.read_varint()?;
        let field = match tag & 7 {
            0 => ProtobufField::Number(self.read_varint()?),
            1 => ProtobufField::Fixed64(self.read_array()?),
            2 => {
                let length = usize::try_from(self.read_varint()?)
                    .map_err(|_| self.malformed_error("a length beyond any file size"))?;
                let start = self.position();
                ProtobufField::Bytes(ProtobufSlice { bytes: self.take_bytes(length)?, start })
            }
            5 => ProtobufField::Fixed32(self.read_array()?),
            _ => return Err(self.malformed_error("an unknown wire type")),
        };
        if tag >> 3 == 0 {
            return Err(self.malformed_error("a field without a number"));
        }
        Ok(Some((tag >> 3, field)))
    }
}

/// Iterates over packed integers.
pub struct PackedNumbers<'a>(ProtobufFields<'a>);

impl PackedNumbers<'_> {
    /// The next number; `None` at the end.
    pub fn next_number(&mut self) -> Result<Option<u64>, Error> {
        if self.0.rest.is_empty() { Ok(None) } else { self.0.read_varint().map(Some) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_come_with_their_place_in_the_file() {
        let bytes = [0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x1d, 0, 0, 0x80, 0x3f];
        let mut fields = ProtobufSlice::from_file(&bytes).fields();
        assert_eq!(fields.next_field().unwrap(), Some((1, ProtobufField::Number(150))));
        let Some((2, ProtobufField::Bytes(text))) = fields.next_field().unwrap() else {
            panic!("want a text")
        };
        assert_eq!((text.text().as_str(), text.start), ("hi", 5));
        assert_eq!(fields.next_field().unwrap(), Some((3, ProtobufField::Fixed32(1f32.to_le_bytes()))));
        assert_eq!(fields.next_field().unwrap(), None);
    }

    #[test]
    fn a_cut_is_an_error_that_says_where() {
        let error = ProtobufSlice::from_file(&[0x12, 0x05, b'h']).fields().next_field().unwrap_err();
        assert_eq!(error.to_string(), "not an ONNX file: a field that is longer than what is left at byte 2");
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_fields_or_an_error(bytes: Vec<u8>) {
            let mut fields = ProtobufSlice::from_file(&bytes).fields();
            let mut count = 0;
            while let Ok(Some(_)) = fields.next_field() {
                count += 1;
                prop_assert!(count <= bytes.len());
            }
        }
    }
}
