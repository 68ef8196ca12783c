//! Operators by what they do to a processor.

/// Operators whose time follows the same law.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// A convolution with a window: rows of patches times a matrix of weights.
    Conv,
    /// A convolution of one element: a product of matrices.
    ConvPoint,
    /// A convolution of each channel for itself.
    ConvDepth,
    ConvTranspose,
    /// A product of matrices.
    MatMul,
    /// A row times a matrix: every weight is used once.
    MatVec,
    /// Pools with a window.
    Pool,
    /// Means, maxima and sums over axes.
    Reduce,
    /// One value in, one out: a comparison or an addition.
    Unary,
    /// One value in, one out, through an exponential or the like.
    Curve,
    /// Two values in, one out.
    Binary,
    /// Normalisations over rows or channels.
    Norm,
    /// A normalisation by neighbouring channels: a power of every value.
    Neighbours,
    Softmax,
    /// Images made larger or smaller.
    Resize,
    /// Values are copied to other places.
    Move,
    /// The same values under another shape.
    View,
    Recurrent,
    Search,
    /// Arithmetic of a few numbers: shapes, indices.
    Scalar,
    Other,
}

impl Family {
    pub const ALL: [Family; 21] = [
        Self::Conv,
        Self::ConvPoint,
        Self::ConvDepth,
        Self::ConvTranspose,
        Self::MatMul,
        Self::MatVec,
        Self::Pool,
        Self::Reduce,
        Self::Unary,
        Self::Curve,
        Self::Binary,
        Self::Norm,
        Self::Neighbours,
        Self::Softmax,
        Self::Resize,
        Self::Move,
        Self::View,
        Self::Recurrent,
        Self::Search,
        Self::Scalar,
        Self::Other,
    ];

    /// Its name in files and for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Conv => "conv",
            Self::ConvPoint => "conv-point",
            Self::ConvDepth => "conv-depth",
            Self::ConvTranspose => "conv-transpose",
            Self::MatMul => "matmul",
            Self::MatVec => "matvec",
            Self::Pool => "pool",
            Self::Reduce => "reduce",
            Self::Unary => "unary",
            Self::Curve => "curve",
            Self::Binary => "binary",
            Self::Norm => "norm",
            Self::Neighbours => "neighbours",
            Self::Softmax => "softmax",
            Self::Resize => "resize",
            Self::Move => "move",
            Self::View => "view",
            Self::Recurrent => "recurrent",
            Self::Search => "search",
            Self::Scalar => "scalar",
            Self::Other => "other",
        }
    }

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
