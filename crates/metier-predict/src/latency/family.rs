//! Operator families by their use of the processor.

use metier_types::words;

words! { (name, from_name)
    /// Operators whose times share one model.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum OperatorFamily {
        /// Windowed convolution: patch rows times a weight matrix.
        Conv = "conv",
        /// Pointwise convolution: a matrix product.
        ConvPoint = "conv-point",
        /// Depthwise convolution.
        ConvDepth = "conv-depth",
        ConvTranspose = "conv-transpose",
        /// Matrix product.
        MatMul = "matmul",
        /// Vector times matrix: every weight is used once.
        MatVec = "matvec",
        /// Windowed pooling.
        Pool = "pool",
        /// Means, maxima and sums over axes.
        Reduce = "reduce",
        /// Unary operator of simple arithmetic, such as a comparison.
        Unary = "unary",
        /// Unary operator with an exponential or similar function.
        Curve = "curve",
        /// Binary elementwise operator.
        Binary = "binary",
        /// Normalisation over rows or channels.
        Norm = "norm",
        /// Local response normalisation: a power for every value.
        Neighbours = "neighbours",
        Softmax = "softmax",
        /// Image resizing.
        Resize = "resize",
        /// Copies of values to other positions.
        Move = "move",
        /// The same values with another shape.
        View = "view",
        Recurrent = "recurrent",
        Search = "search",
        /// Arithmetic on a few numbers: shapes, indices.
        Scalar = "scalar",
        Other = "other",
    }
}

impl OperatorFamily {
    /// Family by operator kind alone; products and convolutions are distinguished by their shapes
    /// later.
    pub fn of_kind(kind: &str) -> Self {
        match kind {
            "Conv" | "ConvInteger" | "QLinearConv" => Self::Conv,
            "ConvTranspose" => Self::ConvTranspose,
            "Gemm"
            | "MatMul"
            | "MatMulInteger"
            | "QLinearMatMul"
            | "FusedMatMul"
            | "Einsum"
            | "Attention"
            | "MatMulNBits"
            | "QGemm"
            | "FusedGemm"
            | "MultiHeadAttention"
            | "GroupQueryAttention"
            | "QAttention" => Self::MatMul,
            "MaxPool" | "AveragePool" | "LpPool" => Self::Pool,
            "GlobalAveragePool" | "GlobalMaxPool" | "GlobalLpPool" | "ReduceMean" | "ReduceSum"
            | "ReduceMax" | "ReduceMin" | "ReduceProd" | "ReduceL1" | "ReduceL2" | "ReduceLogSum"
            | "ReduceLogSumExp" | "ReduceSumSquare" | "CumSum" => Self::Reduce,
            "Relu"
            | "LeakyRelu"
            | "Clip"
            | "Neg"
            | "Abs"
            | "Not"
            | "Ceil"
            | "Floor"
            | "Round"
            | "Sign"
            | "HardSigmoid"
            | "HardSwish"
            | "ThresholdedRelu"
            | "Cast"
            | "Reciprocal"
            | "Sqrt"
            | "IsNaN"
            | "IsInf"
            | "QuantizeLinear"
            | "DequantizeLinear"
            | "DynamicQuantizeLinear" => Self::Unary,
            "Sigmoid" | "Tanh" | "Exp" | "Log" | "Erf" | "Gelu" | "Elu" | "Selu" | "Celu" | "Softplus"
            | "Softsign" | "Silu" | "Swish" | "Mish" | "Sin" | "Cos" | "Tan" | "Atan" | "QuickGelu" => {
                Self::Curve
            }
            "Add" | "Sub" | "Mul" | "Div" | "Pow" | "Max" | "Min" | "Mean" | "Sum" | "Equal" | "Greater"
            | "GreaterOrEqual" | "Less" | "LessOrEqual" | "And" | "Or" | "Xor" | "Mod" | "Where"
            | "PRelu" | "BitShift" => Self::Binary,
            "BatchNormalization"
            | "LayerNormalization"
            | "InstanceNormalization"
            | "GroupNormalization"
            | "RMSNormalization"
            | "SimplifiedLayerNormalization"
            | "SkipLayerNormalization"
            | "LpNormalization"
            | "MeanVarianceNormalization" => Self::Norm,
            "LRN" => Self::Neighbours,
            "Softmax" | "LogSoftmax" | "Hardmax" => Self::Softmax,
            "Resize" | "Upsample" | "GridSample" => Self::Resize,
            "Concat" | "Transpose" | "Slice" | "Split" | "Gather" | "GatherElements" | "GatherND" | "Pad"
            | "Expand" | "Tile" | "ScatterND" | "ScatterElements" | "Scatter" | "DepthToSpace"
            | "SpaceToDepth" | "OneHot" | "Trilu" | "ConstantOfShape" | "Range" | "EyeLike"
            | "ReverseSequence" | "Compress" => Self::Move,
            "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Identity" | "Dropout" | "Shape" | "Size"
            | "Constant" => Self::View,
            "LSTM" | "GRU" | "RNN" => Self::Recurrent,
            "TopK" | "NonMaxSuppression" | "NonZero" | "ArgMax" | "ArgMin" | "Unique" => Self::Search,
            _ => Self::Other,
        }
    }
}
