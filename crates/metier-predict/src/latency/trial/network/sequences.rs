//! Styles of networks for text, sound and time series: attention, 1-D convolutions, recurrent
//! operators, loops.

use metier_onnx::graph_builder::AttributeValue::{Float, Integer, Integers, Text};

use super::{MAX_ELEMENTS, NetworkBuilder};

impl NetworkBuilder {
    /// A matrix product with weights, and a bias.
    pub(super) fn dense(&mut self, out: u64) {
        let inner = self.shape.last().copied().unwrap_or(1);
        if self.shape.len() > 1 && self.chance.with_percent(15) {
            return self.gemm(out);
        }
        let weights = self.graph.add_weights(&[inner, out], inner);
        self.append_with("MatMul", &weights, &[]);
        self.adds += self.elements() * out;
        if let Some(last) = self.shape.last_mut() {
            *last = out;
        }
        if self.chance.with_percent(85) {
            let bias = self.graph.add_weights(&[out], 100);
            self.append_with("Add", &bias, &[]);
        }
    }

    /// The same as a `Gemm` over flattened rows with transposed weights, as some exporters write
    /// it.
    fn gemm(&mut self, out: u64) {
        let inner = self.shape.last().copied().unwrap_or(1);
        let before = self.shape.clone();
        if let Some(last) = self.shape.last_mut() {
            *last = out;
        }
        let weights = self.graph.add_weights(&[out, inner], inner);
        let bias = self.graph.add_weights(&[out], 100);
        if before.len() > 2 {
            let flat = self.graph.add_integers(&[-1, inner as i64]);
            self.append_with("Reshape", &flat, &[]);
        }
        let value = self.value.clone();
        self.value = self.graph.encode_node("Gemm", &[&value, &weights, &bias], &[("transB", Integer(1))]);
        if before.len() > 2 {
            let whole: Vec<i64> = self.shape.iter().map(|size| *size as i64).collect();
            let whole = self.graph.add_integers(&whole);
            self.append_with("Reshape", &whole, &[]);
        }
        self.adds += self.elements() * inner;
    }

    pub(super) fn layer_norm(&mut self) {
        let width = self.shape.last().copied().unwrap_or(1);
        let (text, zero) = (self.graph.add_filled(&[width], 1.0), self.graph.add_filled(&[width], 0.0));
        let value = self.value.clone();
        if self.chance.with_percent(60) {
            self.value = self.graph.encode_node(
                "LayerNormalization",
                &[&value, &text, &zero],
                &[("axis", Integer(-1)), ("epsilon", Float(1e-5))],
            );
            return;
        }
        // Decomposed, as in older exports.
        let axes = || [("axes", Integers(vec![-1])), ("keepdims", Integer(1))];
        let mean = self.graph.encode_node("ReduceMean", &[&value], &axes());
        let center = self.graph.encode_node("Sub", &[&value, &mean], &[]);
        let two = self.graph.add_filled(&[], 2.0);
        let square = self.graph.encode_node("Pow", &[&center, &two], &[]);
        let variance = self.graph.encode_node("ReduceMean", &[&square], &axes());
        let small = self.graph.add_filled(&[], 1e-5);
        let sum = self.graph.encode_node("Add", &[&variance, &small], &[]);
        let root = self.graph.encode_node("Sqrt", &[&sum], &[]);
        self.value = self.graph.encode_node("Div", &[&center, &root], &[]);
        self.append_with("Mul", &text, &[]);
        self.append_with("Add", &zero, &[]);
    }

    pub(super) fn attention(&mut self) {
        let heads = self.chance.one_of(&[1, 2, 4, 8]);
        let width = heads * self.chance.one_of(&[16, 24, 32, 40, 64]);
        let tokens = self.chance.size(8, 400);
        let batch = if tokens < 100 { self.chance.one_of(&[1, 1, 2, 4, 8]) } else { 1 };
        self.start(&[batch, tokens, width]);
        self.encoder(heads);
    }

    /// Attention blocks with this many heads.
    pub(super) fn encoder(&mut self, heads: u64) {
        let &[batch, tokens, width] = self.shape.as_slice() else { return };
        for _ in 0..self.chance.below(2) + 1 {
            let before = self.value.clone();
            self.layer_norm();
            let source = self.value.clone();
            let shape = self.shape.clone();
            let apart =
                self.graph.add_integers(&[batch as i64, tokens as i64, heads as i64, (width / heads) as i64]);
            let mut three = Vec::new();
            for way in 0..3 {
                (self.value, self.shape) = (source.clone(), shape.clone());
                self.dense(width);
                self.append_with("Reshape", &apart, &[]);
                let perm = if way == 1 { vec![0, 2, 3, 1] } else { vec![0, 2, 1, 3] };
                self.append("Transpose", &[("perm", Integers(perm))]);
                three.push(self.value.clone());
            }
            let scores = self.graph.encode_node("MatMul", &[&three[0], &three[1]], &[]);
            let scale = self.graph.add_filled(&[], 8.0);
            let scaled = self.graph.encode_node("Div", &[&scores, &scale], &[]);
            let weights = self.graph.encode_node("Softmax", &[&scaled], &[("axis", Integer(-1))]);
            let mixed = self.graph.encode_node("MatMul", &[&weights, &three[2]], &[]);
            self.adds += 2 * batch * tokens * tokens * width;
            self.value =
                self.graph.encode_node("Transpose", &[&mixed], &[("perm", Integers(vec![0, 2, 1, 3]))]);
            let back = self.graph.add_integers(&[batch as i64, tokens as i64, width as i64]);
            self.append_with("Reshape", &back, &[]);
            self.shape = shape;
            self.dense(width);
            self.append_with("Add", &before, &[]);
            let before = self.value.clone();
            self.layer_norm();
            let inner = width * self.chance.one_of(&[1, 2, 4]);
            self.dense(inner);
            match self.chance.below(3) {
                0 => self.append("Relu", &[]),
                1 => self.gelu(),
                _ => self.act(),
            }
            self.dense(width);
            self.append_with("Add", &before, &[]);
        }
        if self.chance.with_percent(50) {
            let classes = self.chance.size(4, 6000);
            self.dense(classes);
            self.append("Softmax", &[("axis", Integer(-1))]);
        }
    }

    pub(super) fn gelu(&mut self) {
        let value = self.value.clone();
        let root = self.graph.add_filled(&[], std::f32::consts::SQRT_2);
        let (text, half) = (self.graph.add_filled(&[], 1.0), self.graph.add_filled(&[], 0.5));
        let scaled = self.graph.encode_node("Div", &[&value, &root], &[]);
        let erf = self.graph.encode_node("Erf", &[&scaled], &[]);
        let sum = self.graph.encode_node("Add", &[&erf, &text], &[]);
        let product = self.graph.encode_node("Mul", &[&value, &sum], &[]);
        self.value = self.graph.encode_node("Mul", &[&product, &half], &[]);
    }

    /// Convolutions along one axis.
    pub(super) fn sound(&mut self) {
        let length = self.chance.size(60, 20_000);
        let input =
            if length > 4000 { self.chance.one_of(&[1, 1, 8, 16]) } else { self.chance.channels(1, 192) };
        let batch = if length < 1000 { self.chance.one_of(&[1, 1, 2, 4]) } else { 1 };
        self.start(&[batch, input, length]);
        for _ in 0..self.chance.below(4) + 1 {
            let (channels, length) = (self.shape[1], self.shape[2]);
            let out = self.chance.channels(4, if length > 4000 { 48 } else { 320 });
            let kernel = self.chance.one_of(&[1, 3, 3, 5, 9, 15, 39]);
            let stride = if length > 200 { self.chance.one_of(&[1, 1, 2, 3]) } else { 1 };
            if kernel >= length || batch * out * length > MAX_ELEMENTS {
                continue;
            }
            let is_depth = channels > 8 && self.chance.with_percent(15);
            let (out, group) = if is_depth { (channels, channels) } else { (out, 1) };
            let weights = self.graph.add_weights(&[out, channels / group, kernel], channels / group * kernel);
            let pad = (kernel / 2) as i64;
            self.append_with(
                "Conv",
                &weights,
                &[
                    ("kernel_shape", Integers(vec![kernel as i64])),
                    ("strides", Integers(vec![stride as i64])),
                    ("pads", Integers(vec![pad, pad])),
                    ("group", Integer(group as i64)),
                ],
            );
            self.shape = vec![batch, out, (length + 2 * (kernel / 2) - kernel) / stride + 1];
            self.adds += self.elements() * channels / group * kernel;
            self.act();
            if self.chance.with_percent(20) {
                self.append("Transpose", &[("perm", Integers(vec![0, 2, 1]))]);
                self.layer_norm_last();
                self.append("Transpose", &[("perm", Integers(vec![0, 2, 1]))]);
            }
        }
        if self.chance.with_percent(30) {
            self.append("ReduceMax", &[("axes", Integers(vec![2])), ("keepdims", Integer(0))]);
            self.shape.pop();
            let out = self.chance.channels(4, 512);
            self.dense(out);
        }
    }

    pub(super) fn layer_norm_last(&mut self) {
        let width = self.shape[1];
        let (text, zero) = (self.graph.add_filled(&[width], 1.0), self.graph.add_filled(&[width], 0.0));
        let value = self.value.clone();
        self.value =
            self.graph.encode_node("LayerNormalization", &[&value, &text, &zero], &[("axis", Integer(-1))]);
    }

    pub(super) fn recurrent(&mut self) {
        let steps = self.chance.size(1, 160);
        let batch = if steps < 40 { self.chance.one_of(&[1, 1, 2, 4, 8]) } else { 1 };
        let input = self.chance.channels(16, 1024);
        self.start(&[steps, batch, input]);
        self.sequence();
    }

    /// A recurrent network with an output for each time step.
    pub(super) fn sequence(&mut self) {
        let &[steps, batch, _] = self.shape.as_slice() else { return };
        for _ in 0..self.chance.below(2) + 1 {
            let hidden = self.chance.channels(32, 512);
            let kind = self.chance.one_of(&["LSTM", "LSTM", "GRU"]);
            let gates = if kind == "LSTM" { 4 } else { 3 };
            let ways = self.chance.one_of(&[1, 2]);
            let input = self.shape.last().copied().unwrap_or(1);
            let weights = self.graph.add_weights(&[ways, gates * hidden, input], input);
            let state = self.graph.add_weights(&[ways, gates * hidden, hidden], hidden);
            let bias = self.graph.add_weights(&[ways, 2 * gates * hidden], 100);
            let direction = if ways == 2 { "bidirectional" } else { "forward" };
            let value = self.value.clone();
            let mut settings = vec![("hidden_size", Integer(hidden as i64)), ("direction", Text(direction))];
            if kind == "GRU" {
                settings.push(("linear_before_reset", Integer(1)));
            }
            self.value = self.graph.encode_node(kind, &[&value, &weights, &state, &bias], &settings);
            self.adds += steps * batch * ways * gates * hidden * (input + hidden);
            self.append("Transpose", &[("perm", Integers(vec![0, 2, 1, 3]))]);
            let flat = self.graph.add_integers(&[steps as i64, batch as i64, -1]);
            self.append_with("Reshape", &flat, &[]);
            self.shape = vec![steps, batch, ways * hidden];
        }
        let out = self.chance.channels(4, 9000);
        self.dense(out);
    }

    /// A loop over plain operators, as some frameworks export recurrent networks; small weights
    /// stay in a cache.
    pub(super) fn turns(&mut self) {
        let steps = self.chance.size(4, 120);
        let batch = self.chance.one_of(&[1, 1, 1, 2, 4, 8]);
        let input = self.chance.channels(16, 512);
        self.start(&[steps, batch, input]);
        for _ in 0..self.chance.below(2) + 1 {
            let hidden = self.chance.channels(32, 640);
            let is_at_once = self.chance.with_percent(50);
            self.cells(hidden, is_at_once);
        }
        let out = self.chance.channels(4, 512);
        self.dense(out);
    }

    /// An LSTM from single operators; the input is multiplied for all time steps at once, or in
    /// each step.
    pub(super) fn cells(&mut self, hidden: u64, is_at_once: bool) {
        let &[steps, batch, input] = self.shape.as_slice() else { return };
        let outer = self.graph.add_weights(&[input, 4 * hidden], input);
        if is_at_once {
            self.append_with("MatMul", &outer, &[]);
        }
        let taken = self.value.clone();
        let state = self.graph.add_weights(&[hidden, 4 * hidden], hidden);
        let bias = self.graph.add_weights(&[4 * hidden], 100);
        let begin = self.graph.add_filled(&[batch, hidden], 0.0);
        let all = self.graph.add_loop(steps, &[&begin, &begin], &[batch, hidden], |turn, number, states| {
            let mut own = turn.encode_node("Gather", &[&taken, number], &[("axis", Integer(0))]);
            if !is_at_once {
                own = turn.encode_node("MatMul", &[&own, &outer], &[]);
            }
            let before = turn.encode_node("MatMul", &[&states[0], &state], &[]);
            let mixed = turn.encode_node("Add", &[&own, &before], &[]);
            let mixed = turn.encode_node("Add", &[&mixed, &bias], &[]);
            let gates = turn.add_node_with_outputs("Split", &[&mixed], &[("axis", Integer(-1))], 4);
            let open = ["Sigmoid", "Sigmoid", "Sigmoid", "Tanh"];
            let gates: Vec<String> =
                gates.iter().zip(open).map(|(gate, kind)| turn.encode_node(kind, &[gate], &[])).collect();
            let text = turn.encode_node("Mul", &[&gates[0], &states[1]], &[]);
            let added = turn.encode_node("Mul", &[&gates[1], &gates[3]], &[]);
            let cell = turn.encode_node("Add", &[&text, &added], &[]);
            let shown = turn.encode_node("Tanh", &[&cell], &[]);
            vec![turn.encode_node("Mul", &[&gates[2], &shown], &[]), cell]
        });
        self.adds += steps * batch * 4 * hidden * (input + hidden);
        self.value = all[2].clone();
        self.shape = vec![steps, batch, hidden];
    }
}
