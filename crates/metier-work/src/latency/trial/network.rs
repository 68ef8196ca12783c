//! Made-up networks that look like real ones: what trials run.
//!
//! A network is a few blocks of one of several styles, with sizes drawn so that they look like those people use. The same
//! number makes the same network. Blocks and not single operators: a runtime joins operators, and an operator finds its input
//! in a cache or not, by what runs before it.

mod small;

use metier_onnx::DataType;
use metier_onnx::build::{Builder, Setting};

/// Styles of networks, drawn in turns.
pub const STYLES: [&str; 12] = [
    "cnn",
    "mobile",
    "words",
    "attention",
    "tiny",
    "cnn",
    "recurrent",
    "mobile",
    "soup",
    "sound",
    "reader",
    "tiny",
];

/// Elements of a tensor at most.
const MOST_ELEMENTS: u64 = 4_000_000;
/// Weights of one operator at most.
const MOST_WEIGHTS: u64 = 12_000_000;

/// Repeatable chance (SplitMix64).
pub struct Chance(u64);

impl Chance {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x9e37_79b9)
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.draw() % end.max(1)
    }

    fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }

    fn is(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Evenly on the logarithm, from low to high.
    fn size(&mut self, low: u64, high: u64) -> u64 {
        let share = self.below(1 << 20) as f64 / f64::from(1 << 20);
        let value = (low as f64).ln() + share * ((high as f64).ln() - (low as f64).ln());
        (value.exp().round() as u64).clamp(low, high)
    }

    /// A number of channels: mostly a multiple of 8.
    fn channels(&mut self, low: u64, high: u64) -> u64 {
        let size = self.size(low, high);
        if size >= 12 && self.is(85) { (size + 4) / 8 * 8 } else { size }
    }
}

/// A made-up network: the content of its file.
pub fn network(number: u64) -> (String, Vec<u8>) {
    let style = STYLES[(number % STYLES.len() as u64) as usize];
    let mut made = Making {
        graph: Builder::new(number),
        chance: Chance::new(number),
        value: String::new(),
        shape: Vec::new(),
        adds: 0,
    };
    match style {
        "cnn" => made.cnn(),
        "mobile" => made.mobile(),
        "attention" => made.attention(),
        "sound" => made.sound(),
        "recurrent" => made.recurrent(),
        "words" => made.words(),
        "reader" => made.reader(),
        "tiny" => made.tiny(),
        _ => made.soup(),
    }
    let value = made.value.clone();
    made.graph.output(&value);
    (format!("{style}-{number}"), made.graph.finish())
}

struct Making {
    graph: Builder,
    chance: Chance,
    /// The value that the next operator takes.
    value: String,
    shape: Vec<u64>,
    adds: u64,
}

use Setting::{Float, Integer, Integers, Text};

impl Making {
    fn elements(&self) -> u64 {
        self.shape.iter().product()
    }

    fn start(&mut self, shape: &[u64]) {
        self.value = self.graph.input(DataType::Float, shape);
        self.shape = shape.to_vec();
    }

    fn then(&mut self, kind: &str, settings: &[(&str, Setting)]) {
        let value = self.value.clone();
        self.value = self.graph.node(kind, &[&value], settings);
    }

    fn with(&mut self, kind: &str, other: &str, settings: &[(&str, Setting)]) {
        let value = self.value.clone();
        self.value = self.graph.node(kind, &[&value, other], settings);
    }

    fn image(&mut self, channels: &[u64]) {
        let channels = self.chance.one_of(channels);
        let side = self.chance.one_of(&[
            24, 32, 40, 48, 56, 64, 80, 96, 104, 112, 128, 160, 192, 208, 224, 256, 320, 416, 512, 640,
        ]);
        let width =
            if self.chance.is(25) { (side * self.chance.one_of(&[2, 3, 5, 6])).min(960) } else { side };
        let batch = if side <= 160 && self.chance.is(35) { self.chance.one_of(&[2, 3, 4, 8]) } else { 1 };
        let height = if channels > 64 { side.min(80) } else { side };
        let width = if channels > 64 { width.min(160) } else { width };
        self.start(&[batch, channels, height, width]);
    }

    /// A convolution of the image; kernel (height, width), stride, groups, dilation.
    fn conv(&mut self, out: u64, kernel: (u64, u64), stride: u64, group: u64, dilation: u64) {
        let &[batch, input, height, width] = self.shape.as_slice() else { return };
        let group = if input.is_multiple_of(group) && out.is_multiple_of(group) { group } else { 1 };
        let stride = if height < 2 * stride || width < 2 * stride { 1 } else { stride };
        let fan = input / group * kernel.0 * kernel.1;
        let after = |size: u64| size.div_ceil(stride);
        let (tall, wide) = (after(height), after(width));
        if batch * out * tall * wide > MOST_ELEMENTS || out * fan > MOST_WEIGHTS {
            return;
        }
        let weights = self.graph.weights(&[out, input / group, kernel.0, kernel.1], fan);
        let bias = self.graph.weights(&[out], 100);
        let pad = |kernel: u64, size: u64| {
            let total =
                ((size.div_ceil(stride) - 1) * stride + (kernel - 1) * dilation + 1).saturating_sub(size);
            (total / 2, total - total / 2)
        };
        let (top, bottom) = pad(kernel.0, height);
        let (left, right) = pad(kernel.1, width);
        let list = |numbers: [u64; 4]| Integers(numbers.map(|number| number as i64).to_vec());
        let settings = [
            ("kernel_shape", Integers(vec![kernel.0 as i64, kernel.1 as i64])),
            ("strides", Integers(vec![stride as i64; 2])),
            ("dilations", Integers(vec![dilation as i64; 2])),
            ("group", Integer(group as i64)),
            ("pads", list([top, left, bottom, right])),
        ];
        let value = self.value.clone();
        let inputs: &[&str] =
            if self.chance.is(75) { &[&value, &weights, &bias] } else { &[&value, &weights] };
        self.value = self.graph.node("Conv", inputs, &settings);
        self.shape = vec![batch, out, tall, wide];
        self.adds += batch * out * tall * wide * fan;
        if self.chance.is(15) {
            self.norm();
        }
    }

    fn norm(&mut self) {
        let channels = self.shape[1];
        let one = self.graph.same(&[channels], 1.0);
        let zero = self.graph.same(&[channels], 0.0);
        let value = self.value.clone();
        self.value = self.graph.node("BatchNormalization", &[&value, &one, &zero, &zero, &one], &[]);
    }

    fn act(&mut self) {
        match self.chance.below(13) {
            0..=2 => self.then("Relu", &[]),
            3 => self.then("LeakyRelu", &[("alpha", Float(0.1))]),
            4 => {
                let (low, high) = (self.graph.same(&[], 0.0), self.graph.same(&[], 6.0));
                let value = self.value.clone();
                self.value = self.graph.node("Clip", &[&value, &low, &high], &[]);
            }
            5 => self.then("HardSwish", &[]),
            6 => {
                let value = self.value.clone();
                let gate = self.graph.node("HardSigmoid", &[&value], &[("alpha", Float(0.166_666_67))]);
                self.with("Mul", &gate, &[]);
            }
            7 | 8 => {
                let value = self.value.clone();
                let gate = self.graph.node("Sigmoid", &[&value], &[]);
                self.with("Mul", &gate, &[]);
            }
            9 => {
                let kind = self.chance.one_of(&["Tanh", "Sigmoid", "Elu"]);
                self.then(kind, &[]);
            }
            10 | 11 => self.hard_swish(),
            _ => {}
        }
    }

    fn pool(&mut self) {
        let &[batch, channels, height, width] = self.shape.as_slice() else { return };
        let kernel = self.chance.one_of(&[2u64, 3, 3, 5]);
        let stride = self.chance.one_of(&[1u64, 2, 2]);
        if height.min(width) < kernel + stride {
            return;
        }
        let kind = self.chance.one_of(&["MaxPool", "MaxPool", "AveragePool"]);
        let pad = (kernel / 2) as i64;
        let pads = if kernel == 2 { 0 } else { pad };
        self.then(
            kind,
            &[
                ("kernel_shape", Integers(vec![kernel as i64; 2])),
                ("strides", Integers(vec![stride as i64; 2])),
                ("pads", Integers(vec![pads; 4])),
            ],
        );
        let after = |size: u64| (size + 2 * pads as u64 - kernel) / stride + 1;
        self.shape = vec![batch, channels, after(height), after(width)];
    }

    /// Attention over channels: pool, two small convolutions, a product with the image.
    fn squeeze(&mut self) {
        let (value, shape) = (self.value.clone(), self.shape.clone());
        if self.chance.is(70) {
            self.then("GlobalAveragePool", &[]);
        } else {
            self.then("ReduceMean", &[("axes", Integers(vec![2, 3])), ("keepdims", Integer(1))]);
        }
        self.shape = vec![shape[0], shape[1], 1, 1];
        let divisor = self.chance.one_of(&[4, 8, 16]);
        self.conv((shape[1] / divisor).max(4), (1, 1), 1, 1, 1);
        self.then("Relu", &[]);
        self.conv(shape[1], (1, 1), 1, 1, 1);
        let kind = self.chance.one_of(&["Sigmoid", "HardSigmoid"]);
        self.then(kind, &[]);
        let gate = self.value.clone();
        self.value = self.graph.node("Mul", &[&value, &gate], &[]);
        self.shape = shape;
    }

    fn head(&mut self) {
        let &[batch, channels, height, width] = self.shape.as_slice() else { return };
        let classes = self.chance.one_of(&[2, 10, 100, 256, 1000, 4096]);
        let inner = if self.chance.is(60) {
            self.then("GlobalAveragePool", &[]);
            channels
        } else {
            channels * height * width
        };
        if inner * classes > MOST_WEIGHTS {
            return;
        }
        self.then("Flatten", &[("axis", Integer(1))]);
        let weights = self.graph.weights(&[classes, inner], inner);
        let bias = self.graph.weights(&[classes], 10);
        let value = self.value.clone();
        self.value = self.graph.node("Gemm", &[&value, &weights, &bias], &[("transB", Integer(1))]);
        self.shape = vec![batch, classes];
        self.adds += batch * inner * classes;
        if self.chance.is(50) {
            self.then("Softmax", &[("axis", Integer(-1))]);
        }
    }

    /// What a network of blocks may cost.
    fn budget(&mut self) -> u64 {
        self.chance.size(2_000_000, 500_000_000)
    }

    fn cnn(&mut self) {
        let budget = self.budget();
        self.image(&[1, 3, 3, 3, 16, 32, 64, 128, 256]);
        if self.shape[1] <= 3 {
            let out = self.chance.channels(8, 96);
            let kernel = self.chance.one_of(&[3, 3, 5, 7, 11]);
            let stride = self.chance.one_of(&[1, 2, 2, 4]);
            self.conv(out, (kernel, kernel), stride, 1, 1);
            self.act();
        }
        for _ in 0..self.chance.below(4) + 2 {
            if self.adds > budget {
                break;
            }
            self.cnn_block();
        }
        if self.chance.is(45) {
            self.head();
        }
    }

    fn cnn_block(&mut self) {
        let high = if self.shape[2] > 64 { 128 } else { 640 };
        let out = self.chance.channels(12, high);
        match self.chance.below(12) {
            0..=3 => {
                let kernel = self.chance.one_of(&[3, 3, 3, 5]);
                let stride = self.chance.one_of(&[1, 1, 1, 2]);
                self.conv(out, (kernel, kernel), stride, 1, 1);
                self.act();
            }
            4 => {
                self.conv(out, (1, 1), 1, 1, 1);
                self.act();
            }
            // A bottleneck around which the image goes as it is.
            5 | 6 => {
                let (value, shape) = (self.value.clone(), self.shape.clone());
                let inner = self.chance.channels(8, 160);
                let is_thick = self.chance.is(50);
                self.conv(inner, (1, 1), 1, 1, 1);
                self.act();
                self.conv(inner, (3, 3), 1, 1, 1);
                self.act();
                if is_thick {
                    self.conv(shape[1], (1, 1), 1, 1, 1);
                } else {
                    self.conv(shape[1], (3, 3), 1, 1, 1);
                }
                if self.shape == shape {
                    self.with("Add", &value, &[]);
                    self.act();
                }
            }
            7 | 8 => self.branches(),
            9 => self.pool(),
            10 => {
                let kernel = self.chance.one_of(&[3, 5, 7, 9]);
                let (tall, wide) = if self.chance.is(50) { (1, kernel) } else { (kernel, 1) };
                let dilation = self.chance.one_of(&[1, 1, 2, 4]);
                self.conv(out, (tall, wide), 1, 1, dilation);
                self.act();
            }
            _ => match self.chance.below(8) {
                0 | 6 => self.then("LRN", &[("size", Integer(5)), ("alpha", Float(1e-4))]),
                1 => self.affine(),
                2 => self.upsample(),
                3 => self.transposed(),
                4 => self.shuffle(),
                _ => {
                    let group = self.chance.one_of(&[2, 3, 4, 8]);
                    let out = (out / 24).max(1) * 24;
                    self.conv(out, (3, 3), 1, group, 1);
                    self.act();
                }
            },
        }
    }

    /// Scale and shift by channel, written out.
    fn affine(&mut self) {
        let channels = self.shape[1];
        if self.chance.is(50) {
            self.norm();
        }
        let dims = [channels, 1, 1];
        let (scale, shift) = (self.graph.same(&dims, 0.9), self.graph.same(&dims, 0.1));
        self.with("Mul", &scale, &[]);
        self.with("Add", &shift, &[]);
        self.then("Relu", &[]);
    }

    fn upsample(&mut self) {
        if self.elements() > MOST_ELEMENTS / 8 {
            return;
        }
        let scales = self.graph.constant_floats(&[1.0, 1.0, 2.0, 2.0]);
        let mode = self.chance.one_of(&["nearest", "nearest", "linear"]);
        let value = self.value.clone();
        let settings = if mode == "nearest" {
            vec![
                ("mode", Text("nearest")),
                ("coordinate_transformation_mode", Text("asymmetric")),
                ("nearest_mode", Text("floor")),
            ]
        } else {
            vec![("mode", Text("linear"))]
        };
        self.value = self.graph.node("Resize", &[&value, "", &scales], &settings);
        self.shape[2] *= 2;
        self.shape[3] *= 2;
    }

    fn transposed(&mut self) {
        let &[batch, input, height, width] = self.shape.as_slice() else { return };
        let out = self.chance.channels(4, 64);
        if batch * out * height * width * 4 > MOST_ELEMENTS || input > 256 {
            return;
        }
        let weights = self.graph.weights(&[input, out, 2, 2], input);
        self.with(
            "ConvTranspose",
            &weights,
            &[("kernel_shape", Integers(vec![2, 2])), ("strides", Integers(vec![2, 2]))],
        );
        self.shape = vec![batch, out, 2 * height, 2 * width];
        self.adds += batch * input * height * width * out * 4;
    }

    fn shuffle(&mut self) {
        let &[batch, channels, height, width] = self.shape.as_slice() else { return };
        let group = self.chance.one_of(&[2, 3, 4, 8]);
        if !channels.is_multiple_of(group) {
            return;
        }
        let as_list = |dims: &[u64]| dims.iter().map(|size| *size as i64).collect::<Vec<_>>();
        let apart = self.graph.integers(&as_list(&[batch, group, channels / group, height, width]));
        let back = self.graph.integers(&as_list(&self.shape));
        self.with("Reshape", &apart, &[]);
        self.then("Transpose", &[("perm", Integers(vec![0, 2, 1, 3, 4]))]);
        self.with("Reshape", &back, &[]);
    }

    /// Several ways that are put side by side.
    fn branches(&mut self) {
        let (value, shape) = (self.value.clone(), self.shape.clone());
        let mut ways = Vec::new();
        let mut channels = 0;
        for way in 0..self.chance.below(3) + 2 {
            (self.value, self.shape) = (value.clone(), shape.clone());
            if way == 0 && self.chance.is(50) {
                ways.push((value.clone(), shape[1]));
                continue;
            }
            let out = self.chance.channels(8, 96);
            let kernel = self.chance.one_of(&[1, 1, 3, 5]);
            self.conv(out, (1, 1), 1, 1, 1);
            self.act();
            if kernel > 1 {
                let out = self.chance.channels(8, 96);
                self.conv(out, (kernel, kernel), 1, 1, 1);
                self.act();
            }
            ways.push((self.value.clone(), self.shape[1]));
        }
        let names: Vec<&str> = ways.iter().map(|(name, _)| name.as_str()).collect();
        channels += ways.iter().map(|(_, count)| count).sum::<u64>();
        self.value = self.graph.node("Concat", &names, &[("axis", Integer(1))]);
        self.shape = vec![shape[0], channels, shape[2], shape[3]];
    }

    fn mobile(&mut self) {
        let budget = self.budget() / 4;
        self.image(&[3, 3, 16, 24, 40, 64, 96, 160]);
        if self.shape[1] <= 3 {
            let out = self.chance.channels(8, 48);
            self.conv(out, (3, 3), 2, 1, 1);
            self.act();
        }
        for _ in 0..self.chance.below(4) + 2 {
            if self.adds > budget {
                break;
            }
            let (value, shape) = (self.value.clone(), self.shape.clone());
            let wide = self.chance.one_of(&[1, 2, 3, 4, 6]);
            if wide > 1 {
                self.conv((shape[1] * wide).min(1280), (1, 1), 1, 1, 1);
                self.act();
            }
            let kernel = self.chance.one_of(&[3, 3, 5, 5, 7]);
            let kernel = if self.chance.is(8) { (1, kernel) } else { (kernel, kernel) };
            let stride = self.chance.one_of(&[1, 1, 1, 2]);
            let inner = self.shape[1];
            self.conv(inner, kernel, stride, inner, 1);
            self.act();
            if self.chance.is(30) {
                self.squeeze();
            }
            let out = if self.chance.is(50) { shape[1] } else { self.chance.channels(8, 320) };
            self.conv(out, (1, 1), 1, 1, 1);
            if self.shape == shape {
                self.with("Add", &value, &[]);
            } else if self.chance.is(40) {
                self.act();
            }
        }
        if self.chance.is(40) {
            self.head();
        }
    }

    /// A product with weights, and its bias.
    fn dense(&mut self, out: u64) {
        let inner = self.shape.last().copied().unwrap_or(1);
        let weights = self.graph.weights(&[inner, out], inner);
        self.with("MatMul", &weights, &[]);
        self.adds += self.elements() * out;
        if let Some(last) = self.shape.last_mut() {
            *last = out;
        }
        if self.chance.is(85) {
            let bias = self.graph.weights(&[out], 100);
            self.with("Add", &bias, &[]);
        }
    }

    fn layer_norm(&mut self) {
        let width = self.shape.last().copied().unwrap_or(1);
        let (one, zero) = (self.graph.same(&[width], 1.0), self.graph.same(&[width], 0.0));
        let value = self.value.clone();
        if self.chance.is(60) {
            self.value = self.graph.node(
                "LayerNormalization",
                &[&value, &one, &zero],
                &[("axis", Integer(-1)), ("epsilon", Float(1e-5))],
            );
            return;
        }
        // Written out, as older exports do.
        let axes = || [("axes", Integers(vec![-1])), ("keepdims", Integer(1))];
        let mean = self.graph.node("ReduceMean", &[&value], &axes());
        let center = self.graph.node("Sub", &[&value, &mean], &[]);
        let two = self.graph.same(&[], 2.0);
        let square = self.graph.node("Pow", &[&center, &two], &[]);
        let variance = self.graph.node("ReduceMean", &[&square], &axes());
        let small = self.graph.same(&[], 1e-5);
        let sum = self.graph.node("Add", &[&variance, &small], &[]);
        let root = self.graph.node("Sqrt", &[&sum], &[]);
        self.value = self.graph.node("Div", &[&center, &root], &[]);
        self.with("Mul", &one, &[]);
        self.with("Add", &zero, &[]);
    }

    fn attention(&mut self) {
        let heads = self.chance.one_of(&[1, 2, 4, 8]);
        let width = heads * self.chance.one_of(&[16, 24, 32, 40, 64]);
        let tokens = self.chance.size(8, 400);
        let batch = if tokens < 100 { self.chance.one_of(&[1, 1, 2, 4, 8]) } else { 1 };
        self.start(&[batch, tokens, width]);
        self.encoder(heads);
    }

    /// Blocks of attention over rows of numbers, so many heads each.
    fn encoder(&mut self, heads: u64) {
        let &[batch, tokens, width] = self.shape.as_slice() else { return };
        for _ in 0..self.chance.below(2) + 1 {
            let before = self.value.clone();
            self.layer_norm();
            let source = self.value.clone();
            let shape = self.shape.clone();
            let apart =
                self.graph.integers(&[batch as i64, tokens as i64, heads as i64, (width / heads) as i64]);
            let mut three = Vec::new();
            for way in 0..3 {
                (self.value, self.shape) = (source.clone(), shape.clone());
                self.dense(width);
                self.with("Reshape", &apart, &[]);
                let perm = if way == 1 { vec![0, 2, 3, 1] } else { vec![0, 2, 1, 3] };
                self.then("Transpose", &[("perm", Integers(perm))]);
                three.push(self.value.clone());
            }
            let scores = self.graph.node("MatMul", &[&three[0], &three[1]], &[]);
            let scale = self.graph.same(&[], 8.0);
            let scaled = self.graph.node("Div", &[&scores, &scale], &[]);
            let weights = self.graph.node("Softmax", &[&scaled], &[("axis", Integer(-1))]);
            let mixed = self.graph.node("MatMul", &[&weights, &three[2]], &[]);
            self.adds += 2 * batch * tokens * tokens * width;
            self.value = self.graph.node("Transpose", &[&mixed], &[("perm", Integers(vec![0, 2, 1, 3]))]);
            let back = self.graph.integers(&[batch as i64, tokens as i64, width as i64]);
            self.with("Reshape", &back, &[]);
            self.shape = shape;
            self.dense(width);
            self.with("Add", &before, &[]);
            let before = self.value.clone();
            self.layer_norm();
            let inner = width * self.chance.one_of(&[1, 2, 4]);
            self.dense(inner);
            match self.chance.below(3) {
                0 => self.then("Relu", &[]),
                1 => self.gelu(),
                _ => self.act(),
            }
            self.dense(width);
            self.with("Add", &before, &[]);
        }
        if self.chance.is(50) {
            let classes = self.chance.size(4, 6000);
            self.dense(classes);
            self.then("Softmax", &[("axis", Integer(-1))]);
        }
    }

    fn gelu(&mut self) {
        let value = self.value.clone();
        let root = self.graph.same(&[], std::f32::consts::SQRT_2);
        let (one, half) = (self.graph.same(&[], 1.0), self.graph.same(&[], 0.5));
        let scaled = self.graph.node("Div", &[&value, &root], &[]);
        let erf = self.graph.node("Erf", &[&scaled], &[]);
        let sum = self.graph.node("Add", &[&erf, &one], &[]);
        let product = self.graph.node("Mul", &[&value, &sum], &[]);
        self.value = self.graph.node("Mul", &[&product, &half], &[]);
    }

    /// Convolutions along one axis.
    fn sound(&mut self) {
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
            if kernel >= length || batch * out * length > MOST_ELEMENTS {
                continue;
            }
            let is_depth = channels > 8 && self.chance.is(15);
            let (out, group) = if is_depth { (channels, channels) } else { (out, 1) };
            let weights = self.graph.weights(&[out, channels / group, kernel], channels / group * kernel);
            let pad = (kernel / 2) as i64;
            self.with(
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
            if self.chance.is(20) {
                self.then("Transpose", &[("perm", Integers(vec![0, 2, 1]))]);
                self.layer_norm_last();
                self.then("Transpose", &[("perm", Integers(vec![0, 2, 1]))]);
            }
        }
        if self.chance.is(30) {
            self.then("ReduceMax", &[("axes", Integers(vec![2])), ("keepdims", Integer(0))]);
            self.shape.pop();
            let out = self.chance.channels(4, 512);
            self.dense(out);
        }
    }

    fn layer_norm_last(&mut self) {
        let width = self.shape[1];
        let (one, zero) = (self.graph.same(&[width], 1.0), self.graph.same(&[width], 0.0));
        let value = self.value.clone();
        self.value = self.graph.node("LayerNormalization", &[&value, &one, &zero], &[("axis", Integer(-1))]);
    }

    fn recurrent(&mut self) {
        let steps = self.chance.size(1, 160);
        let batch = if steps < 40 { self.chance.one_of(&[1, 1, 2, 4, 8]) } else { 1 };
        let input = self.chance.channels(16, 1024);
        self.start(&[steps, batch, input]);
        self.sequence();
    }

    /// Goes through steps one after the other, and says something of each.
    fn sequence(&mut self) {
        let &[steps, batch, _] = self.shape.as_slice() else { return };
        for _ in 0..self.chance.below(2) + 1 {
            let hidden = self.chance.channels(32, 512);
            let kind = self.chance.one_of(&["LSTM", "LSTM", "GRU"]);
            let gates = if kind == "LSTM" { 4 } else { 3 };
            let ways = self.chance.one_of(&[1, 2]);
            let input = self.shape.last().copied().unwrap_or(1);
            let weights = self.graph.weights(&[ways, gates * hidden, input], input);
            let state = self.graph.weights(&[ways, gates * hidden, hidden], hidden);
            let bias = self.graph.weights(&[ways, 2 * gates * hidden], 100);
            let direction = if ways == 2 { "bidirectional" } else { "forward" };
            let value = self.value.clone();
            let mut settings = vec![("hidden_size", Integer(hidden as i64)), ("direction", Text(direction))];
            if kind == "GRU" {
                settings.push(("linear_before_reset", Integer(1)));
            }
            self.value = self.graph.node(kind, &[&value, &weights, &state, &bias], &settings);
            self.adds += steps * batch * ways * gates * hidden * (input + hidden);
            self.then("Transpose", &[("perm", Integers(vec![0, 2, 1, 3]))]);
            let flat = self.graph.integers(&[steps as i64, batch as i64, -1]);
            self.with("Reshape", &flat, &[]);
            self.shape = vec![steps, batch, ways * hidden];
        }
        let out = self.chance.channels(4, 4000);
        self.dense(out);
    }

    /// Operators that move and mix values, without weights to speak of.
    fn soup(&mut self) {
        let rank = self.chance.one_of(&[2, 3, 4, 4]);
        let total = self.chance.size(2_000, 3_000_000);
        let mut shape: Vec<u64> = (0..rank).map(|_| self.chance.size(2, 96)).collect();
        shape[0] = if self.chance.is(70) { 1 } else { shape[0].min(8) };
        let others: u64 = shape[..rank - 1].iter().product();
        shape[rank - 1] = (total / others).clamp(2, 8_000);
        self.start(&shape);
        for _ in 0..self.chance.below(8) + 4 {
            self.mix();
        }
    }

    fn mix(&mut self) {
        let rank = self.shape.len();
        let last = rank - 1;
        let value = self.value.clone();
        match self.chance.below(15) {
            0 => {
                let kind = self.chance.one_of(&["Add", "Mul", "Sub", "Div"]);
                let other = self.graph.same(&[], 1.1);
                self.with(kind, &other, &[]);
            }
            1 => {
                let kind = self.chance.one_of(&["Add", "Mul", "Sub"]);
                let dims = [self.shape[last]];
                let other = self.graph.weights(&dims, 1);
                self.with(kind, &other, &[]);
            }
            2 => {
                let kind = self.chance.one_of(&["Add", "Mul", "Sub", "Max"]);
                let axis = self.chance.below(rank as u64) as usize;
                let mut dims = vec![1; rank];
                dims[axis] = self.shape[axis];
                let other = self.graph.weights(&dims, 1);
                self.with(kind, &other, &[]);
            }
            3 => {
                let kind = self.chance.one_of(&["Add", "Mul", "Sub"]);
                let other = self.graph.node("Abs", &[&value], &[]);
                self.with(kind, &other, &[]);
            }
            4 => {
                let kind = self.chance.one_of(&["Exp", "Sigmoid", "Tanh", "Erf", "Softplus"]);
                // Kept small, so that nothing overflows.
                self.then("Tanh", &[]);
                self.then(kind, &[]);
            }
            5 => {
                let kind =
                    self.chance.one_of(&["Relu", "Neg", "Abs", "LeakyRelu", "HardSigmoid", "HardSwish"]);
                self.then(kind, &[]);
            }
            6 => {
                let mut perm: Vec<i64> = (0..rank as i64).collect();
                for at in (1..rank).rev() {
                    perm.swap(at, self.chance.below(at as u64 + 1) as usize);
                }
                self.shape = perm.iter().map(|axis| self.shape[*axis as usize]).collect();
                self.then("Transpose", &[("perm", Integers(perm))]);
                self.then("Relu", &[]);
            }
            7 => {
                let axis = self.chance.below(rank as u64) as usize;
                if self.elements() < MOST_ELEMENTS / 2 {
                    let other = self.graph.node("Neg", &[&value], &[]);
                    self.value =
                        self.graph.node("Concat", &[&value, &other], &[("axis", Integer(axis as i64))]);
                    self.shape[axis] *= 2;
                }
            }
            8 => {
                let axis = self.chance.below(rank as u64) as usize;
                let size = self.shape[axis];
                if size >= 4 {
                    let start = self.graph.integers(&[(size / 4) as i64]);
                    let end = self.graph.integers(&[(3 * size / 4) as i64]);
                    let axes = self.graph.integers(&[axis as i64]);
                    self.value = self.graph.node("Slice", &[&value, &start, &end, &axes], &[]);
                    self.shape[axis] = 3 * size / 4 - size / 4;
                }
            }
            9 => {
                let axis = self.chance.below(rank as u64) as usize;
                let size = self.shape[axis];
                if size >= 4 && size.is_multiple_of(2) {
                    let sizes = self.graph.integers(&[(size / 2) as i64; 2]);
                    let two =
                        self.graph.node_of("Split", &[&value, &sizes], &[("axis", Integer(axis as i64))], 2);
                    self.value = self.graph.node("Add", &[&two[0], &two[1]], &[]);
                    self.shape[axis] = size / 2;
                }
            }
            10 => {
                let axis =
                    if self.chance.is(60) { last as i64 } else { self.chance.below(rank as u64) as i64 };
                let mean = self.graph.node(
                    "ReduceMean",
                    &[&value],
                    &[("axes", Integers(vec![axis])), ("keepdims", Integer(1))],
                );
                self.with("Sub", &mean, &[]);
            }
            11 => {
                let axis = if self.chance.is(50) { -1 } else { self.chance.below(rank as u64) as i64 };
                self.then("Softmax", &[("axis", Integer(axis))]);
            }
            12 => {
                if rank == 4 && self.elements() < MOST_ELEMENTS / 2 {
                    let pads = self.graph.integers(&[0, 0, 1, 1, 0, 0, 1, 1]);
                    self.with("Pad", &pads, &[]);
                    self.shape[2] += 2;
                    self.shape[3] += 2;
                }
            }
            13 => {
                let axis = self.chance.below(rank as u64) as usize;
                let size = self.shape[axis];
                let wanted: Vec<i64> =
                    (0..(size / 2).clamp(1, 200)).map(|_| self.chance.below(size) as i64).collect();
                let places = self.graph.integers(&wanted);
                self.with("Gather", &places, &[("axis", Integer(axis as i64))]);
                self.shape[axis] = wanted.len() as u64;
            }
            _ => {
                let flat = [self.shape[0] as i64, -1];
                let whole: Vec<i64> = self.shape.iter().map(|size| *size as i64).collect();
                let (flat, whole) = (self.graph.integers(&flat), self.graph.integers(&whole));
                self.with("Reshape", &flat, &[]);
                self.then("Relu", &[]);
                self.with("Reshape", &whole, &[]);
            }
        }
    }
}
