//! A style of operators that move and mix values.

use metier_onnx::graph_builder::AttributeValue::{Integer, Integers};

use super::{MAX_ELEMENTS, NetworkBuilder};

impl NetworkBuilder {
    /// Operators that move and mix values, almost without weights.
    pub(super) fn soup(&mut self) {
        let rank = self.chance.one_of(&[2, 3, 4, 4]);
        let total = self.chance.size(2_000, 3_000_000);
        let mut shape: Vec<u64> = (0..rank).map(|_| self.chance.size(2, 96)).collect();
        shape[0] = if self.chance.with_percent(70) { 1 } else { shape[0].min(8) };
        let others: u64 = shape[..rank - 1].iter().product();
        shape[rank - 1] = (total / others).clamp(2, 8_000);
        self.start(&shape);
        for _ in 0..self.chance.below(8) + 4 {
            self.mix();
        }
    }

    pub(super) fn mix(&mut self) {
        let rank = self.shape.len();
        let last = rank - 1;
        let value = self.value.clone();
        match self.chance.below(17) {
            0 => {
                let kind = self.chance.one_of(&["Add", "Mul", "Sub", "Div"]);
                let other = self.graph.add_filled(&[], 1.1);
                self.append_with(kind, &other, &[]);
            }
            1 => {
                let kind = self.chance.one_of(&["Add", "Mul", "Sub"]);
                let dims = [self.shape[last]];
                let other = self.graph.add_weights(&dims, 1);
                self.append_with(kind, &other, &[]);
            }
            2 => {
                let kind = self.chance.one_of(&["Add", "Mul", "Sub", "Max"]);
                let axis = self.chance.below(rank as u64) as usize;
                let mut dims = vec![1; rank];
                dims[axis] = self.shape[axis];
                let other = self.graph.add_weights(&dims, 1);
                self.append_with(kind, &other, &[]);
            }
            3 => {
                let kind = self.chance.one_of(&["Add", "Mul", "Sub", "Sum"]);
                let other = self.graph.encode_node("Abs", &[&value], &[]);
                self.append_with(kind, &other, &[]);
            }
            4 => {
                let kind = self.chance.one_of(&["Exp", "Sigmoid", "Tanh", "Erf", "Softplus", "Sin", "Cos"]);
                // Bounded, so that nothing overflows.
                self.append("Tanh", &[]);
                self.append(kind, &[]);
            }
            5 => {
                let kind =
                    self.chance.one_of(&["Relu", "Neg", "Abs", "LeakyRelu", "HardSigmoid", "HardSwish"]);
                self.append(kind, &[]);
            }
            6 => self.turn_axes(),
            7 => {
                let axis = self.chance.below(rank as u64) as usize;
                if self.elements() < MAX_ELEMENTS / 2 {
                    let other = self.graph.encode_node("Neg", &[&value], &[]);
                    self.value = self.graph.encode_node(
                        "Concat",
                        &[&value, &other],
                        &[("axis", Integer(axis as i64))],
                    );
                    self.shape[axis] *= 2;
                }
            }
            8 => {
                let axis = self.chance.below(rank as u64) as usize;
                let size = self.shape[axis];
                if size >= 4 {
                    let start = self.graph.add_integers(&[(size / 4) as i64]);
                    let end = self.graph.add_integers(&[(3 * size / 4) as i64]);
                    let axes = self.graph.add_integers(&[axis as i64]);
                    self.value = self.graph.encode_node("Slice", &[&value, &start, &end, &axes], &[]);
                    self.shape[axis] = 3 * size / 4 - size / 4;
                }
            }
            9 => {
                let axis = self.chance.below(rank as u64) as usize;
                let size = self.shape[axis];
                if size >= 4 && size.is_multiple_of(2) {
                    let sizes = self.graph.add_integers(&[(size / 2) as i64; 2]);
                    let two = self.graph.add_node_with_outputs(
                        "Split",
                        &[&value, &sizes],
                        &[("axis", Integer(axis as i64))],
                        2,
                    );
                    self.value = self.graph.encode_node("Add", &[&two[0], &two[1]], &[]);
                    self.shape[axis] = size / 2;
                }
            }
            10 => {
                let axis = if self.chance.with_percent(60) {
                    last as i64
                } else {
                    self.chance.below(rank as u64) as i64
                };
                let mean = self.reduced(axis);
                self.append_with("Sub", &mean, &[]);
            }
            11 => {
                let axis =
                    if self.chance.with_percent(50) { -1 } else { self.chance.below(rank as u64) as i64 };
                self.append("Softmax", &[("axis", Integer(axis))]);
            }
            12 => {
                if rank == 4 && self.elements() < MAX_ELEMENTS / 2 {
                    let pads = self.graph.add_integers(&[0, 0, 1, 1, 0, 0, 1, 1]);
                    self.append_with("Pad", &pads, &[]);
                    self.shape[2] += 2;
                    self.shape[3] += 2;
                }
            }
            13 => {
                let axis = self.chance.below(rank as u64) as usize;
                let size = self.shape[axis];
                let numbers: Vec<i64> =
                    (0..(size / 2).clamp(1, 200)).map(|_| self.chance.below(size) as i64).collect();
                let places = self.graph.add_integers(&numbers);
                self.append_with("Gather", &places, &[("axis", Integer(axis as i64))]);
                self.shape[axis] = numbers.len() as u64;
            }
            14 => self.compare(),
            15 => {
                let axis = self.chance.below(rank as u64) as i64;
                let text = self.reduced(axis);
                let whole: Vec<i64> = self.shape.iter().map(|size| *size as i64).collect();
                let whole = self.graph.add_integers(&whole);
                self.value = self.graph.encode_node("Expand", &[&text, &whole], &[]);
            }
            _ => {
                let flat = [self.shape[0] as i64, -1];
                let whole: Vec<i64> = self.shape.iter().map(|size| *size as i64).collect();
                let (flat, whole) = (self.graph.add_integers(&flat), self.graph.add_integers(&whole));
                self.append_with("Reshape", &flat, &[]);
                self.append("Relu", &[]);
                self.append_with("Reshape", &whole, &[]);
            }
        }
    }

    /// A sum, mean or extremum along an axis, which remains with size 1.
    fn reduced(&mut self, axis: i64) -> String {
        let kind = self.chance.one_of(&["ReduceMean", "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"]);
        let value = self.value.clone();
        let keep = ("keepdims", Integer(1));
        // In this opset, `ReduceSum` takes its axes as an input.
        if kind == "ReduceSum" {
            let axes = self.graph.add_integers(&[axis]);
            return self.graph.encode_node(kind, &[&value, &axes], &[keep]);
        }
        self.graph.encode_node(kind, &[&value], &[("axes", Integers(vec![axis])), keep])
    }

    /// A transpose; sometimes with an additional axis of size 1.
    fn turn_axes(&mut self) {
        let extra = self.chance.with_percent(30).then(|| self.chance.below(self.shape.len() as u64 + 1));
        if let Some(axis) = extra {
            let axes = self.graph.add_integers(&[axis as i64]);
            self.append_with("Unsqueeze", &axes, &[]);
            self.shape.insert(axis as usize, 1);
        }
        let rank = self.shape.len();
        let mut perm: Vec<i64> = (0..rank as i64).collect();
        for at in (1..rank).rev() {
            perm.swap(at, self.chance.below(at as u64 + 1) as usize);
        }
        self.shape = perm.iter().map(|axis| self.shape[*axis as usize]).collect();
        let place = extra.and_then(|axis| perm.iter().position(|from| *from == axis as i64));
        self.append("Transpose", &[("perm", Integers(perm))]);
        self.append("Relu", &[]);
        if let Some(place) = place {
            let axes = self.graph.add_integers(&[place as i64]);
            self.append_with("Squeeze", &axes, &[]);
            self.shape.remove(place);
        }
    }

    /// Comparisons with a few numbers: elementwise, or each element of a row with each of a list,
    /// as in networks that count classes.
    fn compare(&mut self) {
        let rank = self.shape.len();
        let kind = self.chance.one_of(&["Equal", "Less", "Greater"]);
        let other = if self.chance.with_percent(50) {
            let axis = self.chance.below(rank as u64) as usize;
            let mut dims = vec![1; rank];
            dims[axis] = self.shape[axis];
            self.graph.add_weights(&dims, 1)
        } else {
            self.value = self.reduced(-1);
            self.shape[rank - 1] = 1;
            let most = (MAX_ELEMENTS / 2 / self.elements()).max(2);
            let count = self.chance.size(2, 400).min(most);
            self.shape[rank - 1] = count;
            self.graph.add_weights(&[count], 1)
        };
        self.append_with(kind, &other, &[]);
        // 1 is FLOAT.
        self.append("Cast", &[("to", Integer(1))]);
    }
}
