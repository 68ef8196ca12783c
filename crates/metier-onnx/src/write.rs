//! Writes protocol buffer fields, the inverse of `protobuf_reader`.

use crate::wire::Field;

fn varint(mut value: u64, into: &mut Vec<u8>) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

/// A message under construction.
#[derive(Debug, Default)]
pub struct Message(Vec<u8>);

impl Message {
    /// Adds bytes, a text or a finished message.
    pub fn bytes(&mut self, field: u64, bytes: &[u8]) {
        varint(field << 3 | 2, &mut self.0);
        varint(bytes.len() as u64, &mut self.0);
        self.0.extend_from_slice(bytes);
    }

    /// Adds an integer.
    pub fn number(&mut self, field: u64, value: u64) {
        varint(field << 3, &mut self.0);
        varint(value, &mut self.0);
    }

    /// Adds a 32-bit float.
    pub fn float(&mut self, field: u64, value: f32) {
        varint(field << 3 | 5, &mut self.0);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Adds a field as it was read.
    pub fn field(&mut self, number: u64, field: Field) {
        match field {
            Field::Number(value) => self.number(number, value),
            Field::Bytes(slice) => self.bytes(number, slice.bytes),
            Field::Fixed64(bytes) => {
                varint(number << 3 | 1, &mut self.0);
                self.0.extend_from_slice(&bytes);
            }
            Field::Fixed32(bytes) => {
                varint(number << 3 | 5, &mut self.0);
                self.0.extend_from_slice(&bytes);
            }
        }
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}
