//! Styles of networks for images.

use metier_onnx::graph_builder::AttributeValue::{Float, Integer, Integers, Text};

use super::{MAX_ELEMENTS, MAX_WEIGHTS, NetworkBuilder};

impl NetworkBuilder {
    pub(super) fn image(&mut self, channels: &[u64]) {
        let channels = self.chance.one_of(channels);
        if self.chance.with_percent(12) {
            return self.line(channels);
        }
        let side = self.chance.one_of(&[
            24, 32, 40, 48, 56, 64, 80, 96, 104, 112, 128, 160, 192, 208, 224, 256, 320, 416, 512, 640,
        ]);
        let width = if self.chance.with_percent(25) {
            (side * self.chance.one_of(&[2, 3, 5, 6])).min(960)
        } else {
            side
        };
        let batch =
            if side <= 160 && self.chance.with_percent(35) { self.chance.one_of(&[2, 3, 4, 8]) } else { 1 };
        let height = if channels > 64 { side.min(80) } else { side };
        let width = if channels > 64 { width.min(160) } else { width };
        self.start(&[batch, channels, height, width]);
    }

    /// An image of one or several lines of text.
    fn line(&mut self, channels: u64) {
        let tall = if channels > 3 { self.chance.size(2, 24) } else { self.chance.one_of(&[24, 32, 48, 64]) };
        let wide = self.chance.size(16, 480);
        let most = (MAX_ELEMENTS / 4 / (channels * tall * wide)).clamp(1, 16);
        let batch = if self.chance.with_percent(50) { 1 } else { self.chance.size(1, most) };
        self.start(&[batch, channels, tall, wide]);
    }

    /// Adds a convolution of the image; kernel is (height, width).
    pub(super) fn conv(&mut self, out: u64, kernel: (u64, u64), stride: u64, group: u64, dilation: u64) {
        self.conv_by(out, kernel, (stride, stride), group, dilation);
    }

    /// Adds a convolution with a stride for each axis.
    pub(super) fn conv_by(
        &mut self,
        out: u64,
        kernel: (u64, u64),
        stride: (u64, u64),
        group: u64,
        dilation: u64,
    ) {
        let &[batch, input, height, width] = self.shape.as_slice() else { return };
        let group = if input.is_multiple_of(group) && out.is_multiple_of(group) { group } else { 1 };
        let is_small = height < 2 * stride.0 || width < 2 * stride.1;
        let stride = if is_small { (1, 1) } else { stride };
        let fan = input / group * kernel.0 * kernel.1;
        let (tall, wide) = (height.div_ceil(stride.0), width.div_ceil(stride.1));
        if batch * out * tall * wide > MAX_ELEMENTS || out * fan > MAX_WEIGHTS {
            return;
        }
        let weights = self.graph.add_weights(&[out, input / group, kernel.0, kernel.1], fan);
        let bias = self.graph.add_weights(&[out], 100);
        let pad = |kernel: u64, size: u64, stride: u64| {
            let total =
                ((size.div_ceil(stride) - 1) * stride + (kernel - 1) * dilation + 1).saturating_sub(size);
            (total / 2, total - total / 2)
        };
        let (top, bottom) = pad(kernel.0, height, stride.0);
        let (left, right) = pad(kernel.1, width, stride.1);
        let list = |numbers: [u64; 4]| Integers(numbers.map(|number| number as i64).to_vec());
        let settings = [
            ("kernel_shape", Integers(vec![kernel.0 as i64, kernel.1 as i64])),
            ("strides", Integers(vec![stride.0 as i64, stride.1 as i64])),
            ("dilations", Integers(vec![dilation as i64; 2])),
            ("group", Integer(group as i64)),
            ("pads", list([top, left, bottom, right])),
        ];
        let value = self.value.clone();
        let inputs: &[&str] =
            if self.chance.with_percent(75) { &[&value, &weights, &bias] } else { &[&value, &weights] };
        self.value = self.graph.encode_node("Conv", inputs, &settings);
        self.shape = vec![batch, out, tall, wide];
        self.adds += batch * out * tall * wide * fan;
        if self.chance.with_percent(15) {
            self.norm();
        }
    }

    pub(super) fn norm(&mut self) {
        let channels = self.shape[1];
        let text = self.graph.add_filled(&[channels], 1.0);
        let zero = self.graph.add_filled(&[channels], 0.0);
        let value = self.value.clone();
        self.value = self.graph.encode_node("BatchNormalization", &[&value, &text, &zero, &zero, &text], &[]);
    }

    pub(super) fn act(&mut self) {
        match self.chance.below(13) {
            0..=2 => self.append("Relu", &[]),
            3 => self.append("LeakyRelu", &[("alpha", Float(0.1))]),
            4 => {
                let (low, high) = (self.graph.add_filled(&[], 0.0), self.graph.add_filled(&[], 6.0));
                let value = self.value.clone();
                self.value = self.graph.encode_node("Clip", &[&value, &low, &high], &[]);
            }
            5 => self.append("HardSwish", &[]),
            6 => {
                let value = self.value.clone();
                let gate =
                    self.graph.encode_node("HardSigmoid", &[&value], &[("alpha", Float(0.166_666_67))]);
                self.append_with("Mul", &gate, &[]);
            }
            7 | 8 => {
                let value = self.value.clone();
                let gate = self.graph.encode_node("Sigmoid", &[&value], &[]);
                self.append_with("Mul", &gate, &[]);
            }
            9 => {
                let kind = self.chance.one_of(&["Tanh", "Sigmoid", "Elu"]);
                self.append(kind, &[]);
            }
            10 | 11 => self.hard_swish(),
            _ => {}
        }
    }

    pub(super) fn pool(&mut self) {
        let &[batch, channels, height, width] = self.shape.as_slice() else { return };
        let kernel = self.chance.one_of(&[2u64, 3, 3, 5]);
        let stride = self.chance.one_of(&[1u64, 2, 2]);
        if height.min(width) < kernel + stride {
            return;
        }
        let kind = self.chance.one_of(&["MaxPool", "MaxPool", "AveragePool"]);
        let pad = (kernel / 2) as i64;
        let pads = if kernel == 2 { 0 } else { pad };
        self.append(
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

    /// Channel attention (squeeze and excitation): pooling, two small convolutions, a product with
    /// the image.
    pub(super) fn squeeze(&mut self) {
        let (value, shape) = (self.value.clone(), self.shape.clone());
        if self.chance.with_percent(70) {
            self.append("GlobalAveragePool", &[]);
        } else {
            self.append("ReduceMean", &[("axes", Integers(vec![2, 3])), ("keepdims", Integer(1))]);
        }
        self.shape = vec![shape[0], shape[1], 1, 1];
        let divisor = self.chance.one_of(&[4, 8, 16]);
        self.conv((shape[1] / divisor).max(4), (1, 1), 1, 1, 1);
        self.append("Relu", &[]);
        self.conv(shape[1], (1, 1), 1, 1, 1);
        let kind = self.chance.one_of(&["Sigmoid", "HardSigmoid"]);
        self.append(kind, &[]);
        let gate = self.value.clone();
        self.value = self.graph.encode_node("Mul", &[&value, &gate], &[]);
        self.shape = shape;
    }

    pub(super) fn head(&mut self) {
        let &[batch, channels, height, width] = self.shape.as_slice() else { return };
        let classes = self.chance.one_of(&[2, 10, 100, 256, 1000, 4096]);
        let inner = if self.chance.with_percent(60) {
            self.append("GlobalAveragePool", &[]);
            channels
        } else {
            channels * height * width
        };
        if inner * classes > MAX_WEIGHTS {
            return;
        }
        self.append("Flatten", &[("axis", Integer(1))]);
        let weights = self.graph.add_weights(&[classes, inner], inner);
        let bias = self.graph.add_weights(&[classes], 10);
        let value = self.value.clone();
        self.value = self.graph.encode_node("Gemm", &[&value, &weights, &bias], &[("transB", Integer(1))]);
        self.shape = vec![batch, classes];
        self.adds += batch * inner * classes;
        if self.chance.with_percent(50) {
            self.append("Softmax", &[("axis", Integer(-1))]);
        }
    }

    /// Cost budget of a network of blocks.
    pub(super) fn budget(&mut self) -> u64 {
        self.chance.size(2_000_000, 500_000_000)
    }

    pub(super) fn cnn(&mut self) {
        let budget = self.budget();
        self.image(&[1, 3, 3, 3, 16, 32, 64, 128, 256]);
        if self.shape[1] <= 3 {
            let out = self.chance.channels(8, 96);
            let kernel = self.chance.one_of(&[3, 3, 5, 7, 11]);
            let stride = self.chance.one_of(&[1, 2, 2, 4]);
            self.conv(out, (kernel, kernel), stride, 1, 1);
            self.act();
            if self.chance.with_percent(15) {
                self.neighbours();
            }
            if self.chance.with_percent(30) {
                self.pool();
            }
        }
        for _ in 0..self.chance.below(5) + 3 {
            if self.adds > budget {
                break;
            }
            self.cnn_block();
        }
        if self.chance.with_percent(45) {
            self.head();
        }
    }

    pub(super) fn cnn_block(&mut self) {
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
            // A bottleneck with a residual connection.
            5 | 6 => {
                let (value, shape) = (self.value.clone(), self.shape.clone());
                let inner = self.chance.channels(8, 160);
                let is_thick = self.chance.with_percent(50);
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
                    let kind = self.chance.one_of(&["Add", "Add", "Sum"]);
                    self.append_with(kind, &value, &[]);
                    self.act();
                }
            }
            7 | 8 => self.branches(),
            9 => self.pool(),
            10 => {
                let kernel = self.chance.one_of(&[3, 5, 7, 9]);
                let (tall, wide) = if self.chance.with_percent(50) { (1, kernel) } else { (kernel, 1) };
                let dilation = self.chance.one_of(&[1, 1, 2, 4]);
                self.conv(out, (tall, wide), 1, 1, dilation);
                self.act();
            }
            _ => match self.chance.below(8) {
                0 | 6 => self.neighbours(),
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

    /// Local response normalisation.
    fn neighbours(&mut self) {
        let size = self.chance.one_of(&[3, 5, 5, 5]);
        self.append("LRN", &[("size", Integer(size)), ("alpha", Float(1e-4))]);
    }

    /// Scale and shift by channel, as separate operators.
    pub(super) fn affine(&mut self) {
        let channels = self.shape[1];
        if self.chance.with_percent(50) {
            self.norm();
        }
        let dims = [channels, 1, 1];
        let (scale, shift) = (self.graph.add_filled(&dims, 0.9), self.graph.add_filled(&dims, 0.1));
        self.append_with("Mul", &scale, &[]);
        self.append_with("Add", &shift, &[]);
        self.append("Relu", &[]);
    }

    pub(super) fn upsample(&mut self) {
        if self.elements() > MAX_ELEMENTS / 8 {
            return;
        }
        let scales = self.graph.add_floats(&[1.0, 1.0, 2.0, 2.0]);
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
        self.value = self.graph.encode_node("Resize", &[&value, "", &scales], &settings);
        self.shape[2] *= 2;
        self.shape[3] *= 2;
    }

    pub(super) fn transposed(&mut self) {
        let &[batch, input, height, width] = self.shape.as_slice() else { return };
        let out = self.chance.channels(4, 64);
        if batch * out * height * width * 4 > MAX_ELEMENTS || input > 256 {
            return;
        }
        let weights = self.graph.add_weights(&[input, out, 2, 2], input);
        self.append_with(
            "ConvTranspose",
            &weights,
            &[("kernel_shape", Integers(vec![2, 2])), ("strides", Integers(vec![2, 2]))],
        );
        self.shape = vec![batch, out, 2 * height, 2 * width];
        self.adds += batch * input * height * width * out * 4;
    }

    pub(super) fn shuffle(&mut self) {
        let &[batch, channels, height, width] = self.shape.as_slice() else { return };
        let group = self.chance.one_of(&[2, 3, 4, 8]);
        if !channels.is_multiple_of(group) {
            return;
        }
        let as_list = |dims: &[u64]| dims.iter().map(|size| *size as i64).collect::<Vec<_>>();
        let apart = self.graph.add_integers(&as_list(&[batch, group, channels / group, height, width]));
        let back = self.graph.add_integers(&as_list(&self.shape));
        self.append_with("Reshape", &apart, &[]);
        self.append("Transpose", &[("perm", Integers(vec![0, 2, 1, 3, 4]))]);
        self.append_with("Reshape", &back, &[]);
    }

    /// Several branches that are concatenated.
    pub(super) fn branches(&mut self) {
        let (value, shape) = (self.value.clone(), self.shape.clone());
        let mut ways = Vec::new();
        let mut channels = 0;
        for way in 0..self.chance.below(3) + 2 {
            (self.value, self.shape) = (value.clone(), shape.clone());
            if way == 0 && self.chance.with_percent(50) {
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
        self.value = self.graph.encode_node("Concat", &names, &[("axis", Integer(1))]);
        self.shape = vec![shape[0], channels, shape[2], shape[3]];
    }

    pub(super) fn mobile(&mut self) {
        let budget = self.budget() / 4;
        self.image(&[3, 3, 16, 24, 40, 64, 96, 160]);
        if self.shape[1] <= 3 {
            let out = self.chance.channels(8, 48);
            self.conv(out, (3, 3), 2, 1, 1);
            self.act();
        }
        for _ in 0..self.chance.below(5) + 2 {
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
            let kernel = if self.chance.with_percent(8) { (1, kernel) } else { (kernel, kernel) };
            let stride = self.chance.one_of(&[(1, 1), (1, 1), (1, 1), (2, 2), (2, 2), (2, 1)]);
            let inner = self.shape[1];
            self.conv_by(inner, kernel, stride, inner, 1);
            self.act();
            if self.chance.with_percent(30) {
                self.squeeze();
            }
            let out = if self.chance.with_percent(50) { shape[1] } else { self.chance.channels(8, 320) };
            self.conv(out, (1, 1), 1, 1, 1);
            if self.shape == shape {
                self.append_with("Add", &value, &[]);
            } else if self.chance.with_percent(40) {
                self.act();
            }
        }
        if self.chance.with_percent(40) {
            self.head();
        }
    }
}
