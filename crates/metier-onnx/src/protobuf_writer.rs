//! Writes protocol buffer fields, the inverse of `protobuf_reader`.

use crate::protobuf_reader::ProtobufField;

fn write_varint(mut value: u64, into: &mut Vec<u8>) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

/// A message under construction.
#[derive(Debug, Default)]
pub struct ProtobufWriter(Vec<u8>);

impl ProtobufWriter {
    /// Adds bytes, a text or a finished message.
    pub fn write_bytes(&mut self, field: u64, bytes: &[u8]) {
        write_varint(field << 3 | 2, &mut self.0);
        write_varint(bytes.len() as u64, &mut self.0);
        self.0.extend_from_slice(bytes);
    }

    /// Adds an integer.
    pub fn write_number(&mut self, field: u64, value: u64) {
        write_varint(field << 3, &mut self.0);
        write_varint(value, &mut self.0);
    }

    /// Adds a 32-bit float.
    pub fn write_float(&mut self, field: u64, value: f32) {
        write_varint(field << 3 | 5, &mut self.0);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Adds a field as it was read.
    pub fn write_field(&mut self, number: u64, field: ProtobufField) {
        match field {
            ProtobufField::Number(value) => self.write_number(number, value),
            ProtobufField::Bytes(slice) => self.write_bytes(number, slice.bytes),
            ProtobufField::Fixed64(bytes) => {
                write_varint(number << 3 | 1, &mut self.0);
                self.0.extend_from_slice(&bytes);
            }
            ProtobufField::Fixed32(bytes) => {
                write_varint(number << 3 | 5, &mut self.0);
                self.0.extend_from_slice(&bytes);
            }
        }
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}
