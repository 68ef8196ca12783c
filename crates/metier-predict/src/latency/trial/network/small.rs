//! Styles of networks with many small operators: words, lines of text, and arithmetic on a few
//! numbers.

use metier_onnx::DataType;
use metier_onnx::graph_builder::AttributeValue::{Float, Integer, Integers};

use super::{MAX_ELEMENTS, MAX_WEIGHTS, NetworkBuilder};

impl NetworkBuilder {
    /// Word embeddings, convolutions along the words, and attention.
    pub(super) fn words(&mut self) {
        let heads = self.chance.one_of(&[1, 2, 4, 8]);
        let width = heads * self.chance.one_of(&[8, 16, 32, 48, 64]);
        let tokens = self.chance.size(8, 320);
        let batch = if tokens < 130 { self.chance.one_of(&[1, 1, 2, 4, 8]) } else { 1 };
        let known = self.chance.size(16, 2000);
        let table = self.graph.add_weights(&[known, width], width);
        let ids = self.graph.add_input(DataType::Int64, &[batch, tokens]);
        self.value = self.graph.encode_node("Gather", &[&table, &ids], &[("axis", Integer(0))]);
        self.shape = vec![batch, tokens, width];
        if self.chance.with_percent(60) {
            let places = self.graph.add_weights(&[1, tokens, width], width);
            self.append_with("Add", &places, &[]);
        }
        for _ in 0..self.chance.below(3) {
            self.along();
        }
        if self.shape != [batch, tokens, width] {
            self.dense(width);
        }
        if self.chance.with_percent(75) {
            self.encoder(heads);
        }
        if self.chance.with_percent(40) {
            for _ in 0..self.chance.below(4) + 1 {
                self.highway();
            }
        }
    }

    /// `x · clip(x + 3, 0, 6)
    /// 6`, as some frameworks export it.
    pub(super) fn hard_swish(&mut self) {
        let (three, six, zero) = (
            self.graph.add_filled(&[], 3.0),
            self.graph.add_filled(&[], 6.0),
            self.graph.add_filled(&[], 0.0),
        );
        let value = self.value.clone();
        let more = self.graph.encode_node("Add", &[&value, &three], &[]);
        let gate = self.graph.encode_node("Clip", &[&more, &zero, &six], &[]);
        self.append_with("Mul", &gate, &[]);
        self.append_with("Div", &six, &[]);
    }

    /// A convolution along the words, transposed to the last axis for it.
    fn along(&mut self) {
        let &[batch, tokens, width] = self.shape.as_slice() else { return };
        let kernel = self.chance.one_of(&[1, 3, 3, 5, 7]);
        let out = if self.chance.with_percent(60) { width } else { self.chance.channels(16, 512) };
        if kernel > tokens || width * out * kernel > MAX_WEIGHTS {
            return;
        }
        let weights = self.graph.add_weights(&[out, width, kernel], width * kernel);
        self.append("Transpose", &[("perm", Integers(vec![0, 2, 1]))]);
        let pad = (kernel / 2) as i64;
        let window = [("kernel_shape", Integers(vec![kernel as i64])), ("pads", Integers(vec![pad, pad]))];
        self.append_with("Conv", &weights, &window);
        self.act();
        self.append("Transpose", &[("perm", Integers(vec![0, 2, 1]))]);
        self.shape = vec![batch, tokens, out];
        self.adds += batch * tokens * width * out * kernel;
    }

    /// A highway gate that mixes the input with its transformation.
    fn highway(&mut self) {
        let (before, shape) = (self.value.clone(), self.shape.clone());
        let width = shape.last().copied().unwrap_or(1);
        self.dense(width);
        self.append("Relu", &[]);
        let made = self.value.clone();
        (self.value, self.shape) = (before.clone(), shape);
        self.dense(width);
        self.append("Sigmoid", &[]);
        let gate = self.value.clone();
        let text = self.graph.add_filled(&[], 1.0);
        let rest = self.graph.encode_node("Sub", &[&text, &gate], &[]);
        let new = self.graph.encode_node("Mul", &[&made, &gate], &[]);
        let old = self.graph.encode_node("Mul", &[&before, &rest], &[]);
        self.value = self.graph.encode_node("Add", &[&new, &old], &[]);
    }

    /// Text recognition: convolutions over the image of a line, then a sequence network.
    pub(super) fn reader(&mut self) {
        let tall = self.chance.one_of(&[32, 48, 64]);
        let wide = self.chance.size(40, 480);
        let channels = self.chance.one_of(&[1, 1, 3]);
        self.start(&[1, channels, tall, wide]);
        let mut out = self.chance.channels(12, 64);
        for _ in 0..self.chance.below(4) + 2 {
            self.conv(out, (3, 3), 1, 1, 1);
            self.act();
            let is_small = self.shape[2] <= 4;
            if !is_small && self.chance.with_percent(80) {
                self.halve();
            }
            out = (out * self.chance.one_of(&[1, 2])).min(384);
        }
        let &[batch, channels, tall, wide] = self.shape.as_slice() else { return };
        if channels * tall > 2048 || self.elements() > MAX_ELEMENTS {
            return;
        }
        let flat = self.graph.add_integers(&[batch as i64, (channels * tall) as i64, wide as i64]);
        self.append_with("Reshape", &flat, &[]);
        self.append("Transpose", &[("perm", Integers(vec![2, 0, 1]))]);
        self.shape = vec![wide, batch, channels * tall];
        self.sequence();
        if self.chance.with_percent(50) {
            self.append("Softmax", &[("axis", Integer(-1))]);
        }
    }

    fn halve(&mut self) {
        let across = if self.chance.with_percent(70) && self.shape[3] >= 16 { 2 } else { 1 };
        let window = [
            ("kernel_shape", Integers(vec![2, across as i64])),
            ("strides", Integers(vec![2, across as i64])),
        ];
        self.append("MaxPool", &window);
        self.shape[2] /= 2;
        self.shape[3] /= across;
    }

    /// Many operators on few values, which measure the overhead of an operator.
    pub(super) fn tiny(&mut self) {
        let rank = self.chance.one_of(&[2, 3, 3, 4]);
        let total = self.chance.size(16, 40_000);
        let mut shape: Vec<u64> = (0..rank).map(|_| self.chance.size(2, 24)).collect();
        shape[0] = if self.chance.with_percent(70) { 1 } else { shape[0].min(8) };
        let others: u64 = shape[..rank - 1].iter().product();
        shape[rank - 1] = (total / others).clamp(2, 1_000);
        self.start(&shape);
        for _ in 0..self.chance.below(40) + 10 {
            if self.elements() > 200_000 {
                break;
            }
            match self.chance.below(10) {
                0 | 1 => self.view(),
                2 => self.numbers(),
                3 => self.choose(),
                4 if self.shape.len() < 4 => {
                    let out = self.chance.size(4, 128);
                    self.dense(out);
                }
                _ => self.mix(),
            }
        }
    }

    /// The same values in another shape and back, with one or two consumers.
    fn view(&mut self) {
        let axis = self.chance.below(self.shape.len() as u64 + 1) as i64;
        let axes = self.graph.add_integers(&[axis]);
        let value = self.value.clone();
        let wider = self.graph.encode_node("Unsqueeze", &[&value, &axes], &[]);
        let back = self.graph.encode_node("Squeeze", &[&wider, &axes], &[]);
        self.value = if self.chance.with_percent(50) {
            self.graph.encode_node("Add", &[&value, &back], &[])
        } else {
            back
        };
    }

    /// Arithmetic on a few integers, as graphs do with shapes.
    fn numbers(&mut self) {
        let given = self.graph.add_input(DataType::Int64, &[4]);
        let mut value = given;
        for _ in 0..self.chance.below(6) + 2 {
            let number = self.graph.add_integers(&[1 + self.chance.below(3) as i64]);
            let place = self.graph.add_integers(&[self.chance.below(2) as i64]);
            value = match self.chance.below(7) {
                0 => {
                    let kind = self.chance.one_of(&["Add", "Mul", "Sub", "Div"]);
                    self.graph.encode_node(kind, &[&value, &number], &[])
                }
                1 => {
                    let text = self.graph.encode_node("Gather", &[&value, &place], &[("axis", Integer(0))]);
                    self.graph.encode_node("Concat", &[&text, &value], &[("axis", Integer(0))])
                }
                2 => {
                    let (begin, end) = (self.graph.add_integers(&[0]), self.graph.add_integers(&[2]));
                    self.graph.encode_node("Slice", &[&value, &begin, &end], &[])
                }
                3 => {
                    let is_equal = self.graph.encode_node("Equal", &[&value, &number], &[]);
                    let is_other = self.graph.encode_node("Not", &[&is_equal], &[]);
                    self.graph.encode_node("Where", &[&is_other, &value, &number], &[])
                }
                4 => {
                    let is_less = self.graph.encode_node("Less", &[&value, &number], &[]);
                    self.graph.encode_node("Where", &[&is_less, &value, &number], &[])
                }
                5 => {
                    let whole = self.value.clone();
                    let shape = self.graph.encode_node("Shape", &[&whole], &[]);
                    self.graph.encode_node("Concat", &[&shape, &value], &[("axis", Integer(0))])
                }
                _ => {
                    let axes = self.graph.add_integers(&[0]);
                    let wide = self.graph.encode_node("Unsqueeze", &[&value, &axes], &[]);
                    self.graph.encode_node("Squeeze", &[&wide, &axes], &[])
                }
            };
        }
        // 1 is FLOAT.
        let real = self.graph.encode_node("Cast", &[&value], &[("to", Integer(1))]);
        let sum = self.graph.encode_node("ReduceMean", &[&real], &[("axes", Integers(vec![0]))]);
        self.append_with("Add", &sum, &[]);
        self.append("Tanh", &[]);
    }

    /// Selects values by a condition.
    fn choose(&mut self) {
        let value = self.value.clone();
        let zero = self.graph.add_filled(&[], 0.1);
        match self.chance.below(4) {
            0 => {
                let is_more = self.graph.encode_node("Greater", &[&value, &zero], &[]);
                self.value = self.graph.encode_node("Where", &[&is_more, &value, &zero], &[]);
            }
            1 => {
                let two = self.graph.add_filled(&[], 2.0);
                self.append_with("Pow", &two, &[]);
                self.append("Sqrt", &[]);
            }
            2 => {
                self.append("HardSigmoid", &[("alpha", Float(0.2))]);
                self.append_with("Mul", &value, &[]);
            }
            _ => {
                let text = self.graph.add_filled(&[], 1.0);
                self.value = self.graph.encode_node("Sub", &[&text, &value], &[]);
            }
        }
    }
}
