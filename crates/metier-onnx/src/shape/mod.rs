//! Infers the type and shape of every value of a graph, operator by operator.
//!
//! A [`Fact`] holds what is known of a value. If a size depends on a value (the target of Reshape,
//! the bounds of Slice), small constants are tracked through the operators with which exporters
//! compute shapes. Unknown sizes are `None`: an unsupported operator has outputs of unknown shape,
//! and is not an error. A contradiction (a matrix product of 3 and 4 columns) is an error that
//! names the operator.
//!
//! Each family of operators is one file; [`of_kind`] lists the rules by operator type.

mod arrange;
mod attention;
mod elementwise;
mod numbers;
mod products;
mod quantised;
mod recurrent;
mod reduce;
mod signal;
mod vision;
mod window;

pub(crate) use attention::{heads, linear_sizes};
pub(crate) use products::letters;
pub(crate) use quantised::weights_at;

use crate::graph::{DataType, Node, Small, Tensor};
use crate::{Error, Limits};

/// Largest number of tracked elements per value.
pub(crate) const FOLLOWED: usize = 4096;

/// Inferred facts of a value.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fact {
    /// Type of its elements.
    pub data_type: Option<DataType>,
    /// Its dimensions if its rank is known; each if known.
    pub shape: Option<Vec<Option<u64>>>,
    /// Its elements, if they are few and known before the graph runs.
    pub small: Option<Small>,
    /// Whether it is the same in every run: a weight, or computed from weights only.
    pub is_constant: bool,
}

impl Fact {
    /// A value of that type and shape.
    pub fn new(data_type: Option<DataType>, shape: Option<Vec<Option<u64>>>) -> Self {
        Self { data_type, shape, small: None, is_constant: false }
    }

    /// A constant of the file.
    pub fn of_tensor(tensor: &Tensor) -> Self {
        Self {
            data_type: Some(tensor.data_type),
            shape: Some(tensor.dims.iter().map(|size| Some(*size)).collect()),
            small: tensor.small.clone(),
            is_constant: true,
        }
    }

    /// Integers that are known before the graph runs, as a list or a scalar.
    pub(crate) fn integers(data_type: DataType, shape: Vec<Option<u64>>, values: Vec<i64>) -> Self {
        Self { small: Some(Small::Integers(values)), ..Self::new(Some(data_type), Some(shape)) }
    }

    pub fn rank(&self) -> Option<usize> {
        self.shape.as_ref().map(Vec::len)
    }

    pub fn dims(&self) -> Option<Vec<u64>> {
        self.shape.as_ref()?.iter().copied().collect()
    }

    pub fn elements(&self) -> Option<u64> {
        self.dims()?.iter().try_fold(1u64, |product, size| product.checked_mul(*size))
    }

    pub fn bytes(&self) -> Option<u64> {
        let bits = self.elements()?.checked_mul(self.data_type?.bits()?)?;
        Some(bits.div_ceil(8))
    }

    /// Number of elements known before the graph runs.
    pub(crate) fn followed(&self) -> usize {
        match &self.small {
            Some(Small::Integers(values)) => values.len(),
            Some(Small::Floats(values)) => values.len(),
            None => 0,
        }
    }

    /// Its elements as integers.
    pub fn whole(&self) -> Option<&[i64]> {
        match &self.small {
            Some(Small::Integers(values)) => Some(values),
            _ => None,
        }
    }

    /// Its elements as floats.
    pub fn real(&self) -> Option<Vec<f64>> {
        Some(match self.small.as_ref()? {
            Small::Integers(values) => values.iter().map(|value| *value as f64).collect(),
            Small::Floats(values) => values.clone(),
        })
    }
}

/// Context of a rule: the operator, its inputs, and the operator set version.
pub struct Given<'a> {
    pub node: &'a Node,
    /// Facts of the inputs; `None` for an omitted optional input.
    pub inputs: Vec<Option<&'a Fact>>,
    /// Version of ONNX's own operators.
    pub opset: i64,
    pub limits: &'a Limits,
}

impl Given<'_> {
    pub(crate) fn input(&self, index: usize) -> Option<&Fact> {
        self.inputs.get(index).copied().flatten()
    }

    pub(crate) fn shape(&self, index: usize) -> Option<&[Option<u64>]> {
        self.input(index)?.shape.as_deref()
    }

    pub(crate) fn data_type(&self, index: usize) -> Option<DataType> {
        self.input(index)?.data_type
    }

    /// Integers that newer versions take as an input and older ones as an attribute. `Some(None)`
    /// if omitted, `None` if unknown.
    pub(crate) fn listed(&self, input: usize, attribute: &str) -> Option<Option<Vec<i64>>> {
        match self.input(input) {
            Some(fact) => fact.whole().map(|values| Some(values.to_vec())),
            None => Some(self.node.integers(attribute).map(<[i64]>::to_vec)),
        }
    }

    /// An axis counted from the front.
    pub(crate) fn axis(&self, axis: i64, rank: usize) -> Result<usize, Error> {
        let counted = if axis < 0 { axis + rank as i64 } else { axis };
        usize::try_from(counted)
            .ok()
            .filter(|axis| *axis < rank.max(1))
            .ok_or_else(|| self.misfit(format!("axis {axis} of a value with {rank} dimensions")))
    }

    pub(crate) fn misfit(&self, why: impl Into<String>) -> Error {
        Error::Misfit { node: self.node.called(0), why: why.into() }
    }

    /// Checks a computed size.
    pub(crate) fn size(&self, value: i128) -> Result<u64, Error> {
        u64::try_from(value)
            .ok()
            .filter(|size| *size <= self.limits.elements)
            .ok_or_else(|| self.misfit(format!("a dimension would be {value}")))
    }
}

/// Result of a rule: a fact for each output.
pub type Made = Result<Vec<Fact>, Error>;

type Rule = fn(&Given) -> Made;

/// The rule of an operator; `None` if its type or its domain is unknown.
pub fn rule(node: &Node) -> Option<Rule> {
    node.is_familiar().then(|| of_kind(&node.kind)).flatten()
}

/// All rules by operator type.
fn of_kind(kind: &str) -> Option<Rule> {
    Some(match kind {
        "Conv" | "ConvInteger" | "QLinearConv" | "FusedConv" | "DeformConv" => window::conv,
        "CausalConvWithState" => window::causal,
        "ConvTranspose" => window::conv_transpose,
        "MaxPool" | "AveragePool" | "LpPool" => window::pool,
        "GlobalAveragePool" | "GlobalMaxPool" | "GlobalLpPool" => window::global_pool,
        "Gemm" | "FusedGemm" => products::gemm,
        "QGemm" => quantised::gemm,
        "DynamicQuantizeMatMul" | "MatMulIntegerToFloat" => quantised::matmul,
        "MatMulNBits" => quantised::packed,
        "QLinearAdd" | "QLinearMul" => quantised::arithmetic,
        "QLinearWhere" => quantised::choose,
        "QLinearConcat" => quantised::concat,
        "QLinearAveragePool" | "QLinearGlobalAveragePool" => quantised::pool,
        "QLinearReduceMean" => quantised::reduce,
        "DynamicQuantizeLSTM" => quantised::recurrent,
        "MatMul" | "MatMulInteger" => products::matmul,
        "QLinearMatMul" => products::quantised_matmul,
        "FusedMatMul" => products::matmul,
        "Einsum" => products::einsum,
        "Attention" | "QAttention" | "MultiHeadAttention" | "GroupQueryAttention" => attention::attention,
        "LinearAttention" => attention::linear,
        "LSTM" | "GRU" | "RNN" => recurrent::recurrent,
        "Relu"
        | "LeakyRelu"
        | "PRelu"
        | "Sigmoid"
        | "Tanh"
        | "Exp"
        | "Log"
        | "Sqrt"
        | "Erf"
        | "Neg"
        | "Abs"
        | "Ceil"
        | "Floor"
        | "Round"
        | "Reciprocal"
        | "Sign"
        | "Sin"
        | "Cos"
        | "Tan"
        | "Asin"
        | "Acos"
        | "Atan"
        | "Sinh"
        | "Cosh"
        | "Asinh"
        | "Acosh"
        | "Atanh"
        | "Softplus"
        | "Softsign"
        | "Elu"
        | "Selu"
        | "Celu"
        | "Gelu"
        | "Mish"
        | "HardSigmoid"
        | "HardSwish"
        | "ThresholdedRelu"
        | "Clip"
        | "Softmax"
        | "LogSoftmax"
        | "Hardmax"
        | "LRN"
        | "Identity"
        | "InstanceNormalization"
        | "GroupNormalization"
        | "LpNormalization"
        | "MeanVarianceNormalization"
        | "RMSNormalization"
        | "CumSum"
        | "CumProd"
        | "SwiGLU"
        | "RotaryEmbedding"
        | "TensorScatter"
        | "QLinearSigmoid"
        | "QLinearLeakyRelu"
        | "QLinearSoftmax"
        | "BitwiseNot"
        | "Not"
        | "Trilu"
        | "Shrink"
        | "QuickGelu"
        | "FastGelu"
        | "BiasGelu"
        | "Swish"
        | "ReverseSequence"
        | "EyeLike" => elementwise::same,
        "BatchNormalization"
        | "LayerNormalization"
        | "SimplifiedLayerNormalization"
        | "SkipLayerNormalization"
        | "SkipSimplifiedLayerNormalization"
        | "Dropout" => elementwise::normalise,
        "EmbedLayerNormalization" => elementwise::embed,
        "Add" | "Sub" | "Mul" | "Div" | "Pow" | "Mod" | "Max" | "Min" | "Sum" | "Mean" | "BitShift"
        | "BitwiseAnd" | "BitwiseOr" | "BitwiseXor" => elementwise::arithmetic,
        "Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual" | "And" | "Or" | "Xor" => {
            elementwise::compare
        }
        "IsNaN" | "IsInf" => elementwise::truth,
        "Where" => elementwise::choose,
        "Cast" => elementwise::cast,
        "CastLike" => elementwise::cast_like,
        "BitCast" => elementwise::recast,
        "QuantizeLinear" => elementwise::quantise,
        "DequantizeLinear" => elementwise::dequantise,
        "DynamicQuantizeLinear" => elementwise::dynamic_quantise,
        "Shape" => numbers::shape,
        "Size" => numbers::size,
        "Constant" => numbers::constant,
        "ConstantOfShape" => numbers::constant_of_shape,
        "Range" => numbers::range,
        "NonZero" => numbers::non_zero,
        "OneHot" => numbers::one_hot,
        "RandomNormal" | "RandomUniform" => numbers::random,
        "RandomNormalLike" | "RandomUniformLike" | "Bernoulli" => numbers::random_like,
        "Multinomial" => numbers::drawn,
        "HannWindow" | "HammingWindow" | "BlackmanWindow" => signal::window,
        "MelWeightMatrix" => signal::mel,
        "DFT" => signal::transform,
        "STFT" => signal::frames,
        "GridSample" => vision::grid_sample,
        "AffineGrid" => vision::affine_grid,
        "RoiAlign" | "MaxRoiPool" => vision::regions,
        "NonMaxSuppression" => vision::boxes,
        "CenterCropPad" => vision::center,
        "Col2Im" => vision::image,
        "MaxUnpool" => vision::unpool,
        "Reshape" => arrange::reshape,
        "Flatten" => arrange::flatten,
        "Squeeze" => arrange::squeeze,
        "Unsqueeze" => arrange::unsqueeze,
        "Transpose" => arrange::transpose,
        "Concat" => arrange::concat,
        "Split" => arrange::split,
        "Slice" => arrange::slice,
        "Gather" => arrange::gather,
        "GatherElements" => arrange::gather_elements,
        "GatherND" => arrange::gather_nd,
        "ScatterElements" | "Scatter" | "ScatterND" => elementwise::same,
        "Expand" => arrange::expand,
        "Tile" => arrange::tile,
        "Pad" => arrange::pad,
        "Resize" | "Upsample" => arrange::resize,
        "DepthToSpace" | "SpaceToDepth" => arrange::blocks,
        "ReduceMean" | "ReduceSum" | "ReduceMax" | "ReduceMin" | "ReduceProd" | "ReduceL1" | "ReduceL2"
        | "ReduceLogSum" | "ReduceLogSumExp" | "ReduceSumSquare" => reduce::reduce,
        "ArgMax" | "ArgMin" => reduce::arg,
        "TopK" => reduce::top_k,
        "Det" => reduce::determinant,
        "NegativeLogLikelihoodLoss" | "SoftmaxCrossEntropyLoss" => reduce::loss,
        "Compress" => reduce::compress,
        "Unique" => reduce::unique,
        _ => return None,
    })
}

/// Infers the outputs of an operator.
pub fn infer(given: &Given) -> Made {
    let Some(rule) = rule(given.node) else {
        return Ok(vec![Fact::default(); given.node.outputs.len()]);
    };
    let mut made = rule(given)?;
    let is_constant = is_made_of_constants(given);
    for fact in &mut made {
        fact.is_constant |= is_constant;
        // Drop the elements if there are too many to track; the shape stays.
        if fact.followed() > FOLLOWED {
            fact.small = None;
        }
        let rank = fact.rank().unwrap_or(0);
        if rank > given.limits.rank {
            return Err(given.misfit(format!("a value of {rank} dimensions")));
        }
        if fact.dims().is_some() && fact.elements().is_none_or(|count| count > given.limits.elements) {
            return Err(given.misfit("a value of more elements than the limit"));
        }
    }
    made.resize(given.node.outputs.len(), Fact::default());
    Ok(made)
}

/// Whether all inputs are constant and the operator is not random.
fn is_made_of_constants(given: &Given) -> bool {
    let kind = given.node.kind.as_str();
    if kind.starts_with("Random") || matches!(kind, "Bernoulli" | "Multinomial") {
        return false;
    }
    given.inputs.iter().flatten().all(|fact| fact.is_constant)
}
