//! Writes small ONNX files for tests: just enough of the format.
#![allow(dead_code, reason = "each test file uses a part")]

/// A message under construction.
#[derive(Default, Clone)]
pub struct Message(pub Vec<u8>);

fn varint(mut value: u64, into: &mut Vec<u8>) {
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        into.push(if value == 0 { byte } else { byte | 0x80 });
        if value == 0 {
            return;
        }
    }
}

impl Message {
    pub fn number(mut self, field: u64, value: i64) -> Self {
        varint(field << 3, &mut self.0);
        varint(value as u64, &mut self.0);
        self
    }
    pub fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        varint(field << 3 | 2, &mut self.0);
        varint(bytes.len() as u64, &mut self.0);
        self.0.extend_from_slice(bytes);
        self
    }
    pub fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }
    pub fn message(self, field: u64, message: &Message) -> Self {
        self.bytes(field, &message.0)
    }
}

/// A constant of float type without content.
pub fn weights(name: &str, dims: &[u64]) -> Message {
    let tensor = dims.iter().fold(Message::default(), |tensor, size| tensor.number(1, *size as i64));
    tensor.number(2, 1).text(8, name)
}

/// A constant integer list.
pub fn integers(name: &str, values: &[i64]) -> Message {
    let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Message::default().number(1, values.len() as i64).number(2, 7).text(8, name).bytes(9, &raw)
}

/// A value of float type; a size of -1 is an open dimension called `n`.
pub fn value(name: &str, dims: &[i64]) -> Message {
    let shape = dims.iter().fold(Message::default(), |shape, size| {
        let dim =
            if *size < 0 { Message::default().text(2, "n") } else { Message::default().number(1, *size) };
        shape.message(1, &dim)
    });
    let tensor = Message::default().number(1, 1).message(2, &shape);
    Message::default().text(1, name).message(2, &Message::default().message(1, &tensor))
}

/// List attributes, also with one number.
const LISTS: [&str; 5] = ["strides", "pads", "dilations", "kernel_shape", "perm"];

/// An operator with integer attributes.
pub fn node(kind: &str, inputs: &[&str], outputs: &[&str], attributes: &[(&str, &[i64])]) -> Message {
    let mut node = Message::default();
    for input in inputs {
        node = node.text(1, input);
    }
    for output in outputs {
        node = node.text(2, output);
    }
    node = node.text(4, kind);
    for (name, values) in attributes {
        let mut attribute = Message::default().text(1, name);
        attribute = match values {
            [value] if !LISTS.contains(name) => attribute.number(3, *value).number(20, 2),
            values => values.iter().fold(attribute.number(20, 7), |list, value| list.number(8, *value)),
        };
        node = node.message(5, &attribute);
    }
    node
}

/// A graph of these parts.
pub fn graph(nodes: &[Message], constants: &[Message], inputs: &[Message], outputs: &[Message]) -> Message {
    let mut graph = Message::default().text(2, "g");
    for (field, parts) in [(1, nodes), (5, constants), (11, inputs), (12, outputs)] {
        for part in parts {
            graph = graph.message(field, part);
        }
    }
    graph
}

pub fn file(graph: &Message, opset: i64) -> Vec<u8> {
    let set = Message::default().number(2, opset);
    Message::default().number(1, 8).message(8, &set).message(7, graph).0
}
