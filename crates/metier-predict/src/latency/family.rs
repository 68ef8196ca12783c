//! Operators by what they do to a processor.

use metier_types::words;

words! { (name, from_name)
    /// Operators whose time follows the same law.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum OperatorFamily {
        /// A convolution with a window: rows of patches times a matrix of weights.
        Conv = "conv",
        /// A convolution of one element: a product of matrices.
        ConvPoint = "conv-point",
        /// A convolution of each channel for itself.
        ConvDepth = "conv-depth",
        ConvTranspose = "conv-transpose",
        /// A product of matrices.
        MatMul = "matmul",
        /// A row times a matrix: every weight is used once.
        MatVec = "matvec",
        /// Pools with a window.
        Pool = "pool",
        /// Means, maxima and sums over axes.
        Reduce = "reduce",
        /// One value in, one out: a comparison or an addition.
        Unary = "unary",
        /// One value in, one out, through an exponential or the like.
        Curve = "curve",
        /// Two values in, one out.
        Binary = "binary",
        /// Normalisations over rows or channels.
        Norm = "norm",
        /// A normalisation by neighbouring channels: a power of every value.
        Neighbours = "neighbours",
        Softmax = "softmax",
        /// Images made larger or smaller.
        Resize = "resize",
        /// Values are copied to other places.
        Move = "move",
        /// The same values under another shape.
        View = "view",
        Recurrent = "recurrent",
        Search = "search",
        /// Arithmetic of a few numbers: shapes, indices.
        Scalar = "scalar",
        Other = "other",
    }
}

impl OperatorFamily {
    /// By the kind of operator alone; products and convolutions are told apart by their shapes later.
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
