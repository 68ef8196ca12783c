//! Infers the type and shape of every value of a graph, operator by operator.
//!
//! A [`ValueFact`] holds what is known of a value. If a size depends on a value (the target of
//! Reshape, the bounds of Slice), small constants are tracked through the operators with which
//! exporters compute shapes. Unknown sizes are `None`: an unsupported operator has outputs of
//! unknown shape, and is not an error. A contradiction (a matrix product of 3 and 4 columns) is an
//! error that names the operator.
//!
//! Each family of operators is one file; [`rule_for_kind`] lists the rules by operator type.

mod attention;
mod convolution;
mod data_movement;
mod elementwise;
mod generators;
mod matrix_products;
mod quantised;
mod recurrent;
mod reduce;
mod signal;
mod vision;

pub(crate) use attention::{attention_sizes, linear_attention_sizes};
pub(crate) use matrix_products::einsum_sizes;
pub(crate) use quantised::weights_input_index;
pub(crate) use signal::dft_axis;

use crate::graph::{ConstantTensor, DataType, GraphNode, SmallElements};
use crate::{Error, OnnxLimits};

/// Largest number of tracked elements per value.
pub(crate) const MAX_TRACKED_ELEMENTS: usize = 4096;

/// Inferred facts of a value.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ValueFact {
    /// Type of its elements.
    pub data_type: Option<DataType>,
    /// Its dimensions if its rank is known; each if known.
    pub shape: Option<Vec<Option<u64>>>,
    /// Its elements, if they are few and known before the graph runs.
    pub small: Option<SmallElements>,
    /// Whether it is the same in every run: a weight, or computed from weights only.
    pub is_constant: bool,
}

impl ValueFact {
    /// A value of that type and shape.
    pub fn new(data_type: Option<DataType>, shape: Option<Vec<Option<u64>>>) -> Self {
        Self { data_type, shape, small: None, is_constant: false }
    }

    /// A constant of the file.
    pub fn from_tensor(tensor: &ConstantTensor) -> Self {
        Self {
            data_type: Some(tensor.data_type),
            shape: Some(tensor.dims.iter().map(|size| Some(*size)).collect()),
            small: tensor.small.clone(),
            is_constant: true,
        }
    }

    /// Integers that are known before the graph runs, as a list or a scalar.
    pub(crate) fn from_integers(data_type: DataType, shape: Vec<Option<u64>>, values: Vec<i64>) -> Self {
        Self { small: Some(SmallElements::Integers(values)), ..Self::new(Some(data_type), Some(shape)) }
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
    pub(crate) fn tracked_elements(&self) -> usize {
        match &self.small {
            Some(SmallElements::Integers(values)) => values.len(),
            Some(SmallElements::Floats(values)) => values.len(),
            None => 0,
        }
    }

    /// Its elements as integers.
    pub fn as_integers(&self) -> Option<&[i64]> {
        match &self.small {
            Some(SmallElements::Integers(values)) => Some(values),
            _ => None,
        }
    }

    /// Its elements as floats.
    pub fn to_floats(&self) -> Option<Vec<f64>> {
        Some(match self.small.as_ref()? {
            SmallElements::Integers(values) => values.iter().map(|value| *value as f64).collect(),
            SmallElements::Floats(values) => values.clone(),
        })
    }
}

/// Context of a rule: the operator, its inputs, and the operator set version.
pub struct ShapeContext<'a> {
    pub node: &'a GraphNode,
    /// Facts of the inputs; `None` for an omitted optional input.
    pub inputs: Vec<Option<&'a ValueFact>>,
    /// Version of ONNX's own operators.
    pub opset: i64,
    pub limits: &'a OnnxLimits,
}

impl ShapeContext<'_> {
    pub(crate) fn input(&self, index: usize) -> Option<&ValueFact> {
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
    pub(crate) fn input_or_attribute(&self, input: usize, attribute: &str) -> Option<Option<Vec<i64>>> {
        match self.input(input) {
            Some(fact) => fact.as_integers().map(|values| Some(values.to_vec())),
            None => Some(self.node.integers(attribute).map(<[i64]>::to_vec)),
        }
    }

    /// An axis counted from the front.
    pub(crate) fn axis_from_front(&self, axis: i64, rank: usize) -> Result<usize, Error> {
        let counted = if axis < 0 { axis + rank as i64 } else { axis };
        usize::try_from(counted)
            .ok()
            .filter(|axis| *axis < rank.max(1))
            .ok_or_else(|| self.mismatch_error(format!("axis {axis} of a value with {rank} dimensions")))
    }

    pub(crate) fn mismatch_error(&self, why: impl Into<String>) -> Error {
        Error::OperatorMismatch { node: self.node.display_name(0), why: why.into() }
    }

    /// Checks a computed size.
    pub(crate) fn checked_size(&self, value: i128) -> Result<u64, Error> {
        u64::try_from(value)
            .ok()
            .filter(|size| *size <= self.limits.elements)
            .ok_or_else(|| self.mismatch_error(format!("a dimension would be {value}")))
    }
}

/// Result of a rule: a fact for each output.
pub type InferredFacts = Result<Vec<ValueFact>, Error>;

type ShapeRule = fn(&ShapeContext) -> InferredFacts;

/// The rule of an operator; `None` if its type or its domain is unknown.
pub fn shape_rule(node: &GraphNode) -> Option<ShapeRule> {
    node.is_known_domain().then(|| rule_for_kind(&node.kind)).flatten()
}

/// All rules by operator type.
fn rule_for_kind(kind: &str) -> Option<ShapeRule> {
    Some(match kind {
        "Conv" | "ConvInteger" | "QLinearConv" | "FusedConv" | "DeformConv" => convolution::conv,
        "CausalConvWithState" => convolution::causal_conv,
        "ConvTranspose" => convolution::conv_transpose,
        "MaxPool" | "AveragePool" | "LpPool" => convolution::pool,
        "GlobalAveragePool" | "GlobalMaxPool" | "GlobalLpPool" => convolution::global_pool,
        "Gemm" | "FusedGemm" => matrix_products::gemm,
        "QGemm" => quantised::gemm,
        "DynamicQuantizeMatMul" | "MatMulIntegerToFloat" => quantised::matmul,
        "MatMulNBits" => quantised::matmul_n_bits,
        "QLinearAdd" | "QLinearMul" => quantised::arithmetic,
        "QLinearWhere" => quantised::select_where,
        "QLinearConcat" => quantised::concat,
        "QLinearAveragePool" | "QLinearGlobalAveragePool" => quantised::pool,
        "QLinearReduceMean" => quantised::reduce,
        "DynamicQuantizeLSTM" => quantised::dynamic_lstm,
        "MatMul" | "MatMulInteger" => matrix_products::matmul,
        "QLinearMatMul" => matrix_products::quantised_matmul,
        "FusedMatMul" => matrix_products::matmul,
        "Einsum" => matrix_products::einsum,
        "Attention" | "QAttention" | "MultiHeadAttention" | "GroupQueryAttention" => attention::attention,
        "LinearAttention" => attention::linear_attention,
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
        | "EyeLike" => elementwise::like_first_input,
        "BatchNormalization"
        | "LayerNormalization"
        | "SimplifiedLayerNormalization"
        | "SkipLayerNormalization"
        | "SkipSimplifiedLayerNormalization"
        | "Dropout" => elementwise::normalisation,
        "EmbedLayerNormalization" => elementwise::embed_layer_normalisation,
        "Add" | "Sub" | "Mul" | "Div" | "Pow" | "Mod" | "Max" | "Min" | "Sum" | "Mean" | "BitShift"
        | "BitwiseAnd" | "BitwiseOr" | "BitwiseXor" => elementwise::arithmetic,
        "Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual" | "And" | "Or" | "Xor" => {
            elementwise::compare
        }
        "IsNaN" | "IsInf" => elementwise::boolean_like_input,
        "Where" => elementwise::select_where,
        "Cast" => elementwise::cast,
        "CastLike" => elementwise::cast_like,
        "BitCast" => elementwise::bit_cast,
        "QuantizeLinear" => elementwise::quantise,
        "DequantizeLinear" => elementwise::dequantise,
        "DynamicQuantizeLinear" => elementwise::dynamic_quantise,
        "Shape" => generators::shape,
        "Size" => generators::size,
        "Constant" => generators::constant,
        "ConstantOfShape" => generators::constant_of_shape,
        "Range" => generators::range,
        "NonZero" => generators::non_zero,
        "OneHot" => generators::one_hot,
        "RandomNormal" | "RandomUniform" => generators::random,
        "RandomNormalLike" | "RandomUniformLike" | "Bernoulli" => generators::random_like,
        "Multinomial" => generators::multinomial,
        "HannWindow" | "HammingWindow" | "BlackmanWindow" => signal::window_function,
        "MelWeightMatrix" => signal::mel_weight_matrix,
        "DFT" => signal::dft,
        "STFT" => signal::stft,
        "GridSample" => vision::grid_sample,
        "AffineGrid" => vision::affine_grid,
        "RoiAlign" | "MaxRoiPool" => vision::region_pool,
        "NonMaxSuppression" => vision::non_max_suppression,
        "CenterCropPad" => vision::center_crop_pad,
        "Col2Im" => vision::col2im,
        "MaxUnpool" => vision::max_unpool,
        "Reshape" => data_movement::reshape,
        "Flatten" => data_movement::flatten,
        "Squeeze" => data_movement::squeeze,
        "Unsqueeze" => data_movement::unsqueeze,
        "Transpose" => data_movement::transpose,
        "Concat" => data_movement::concat,
        "Split" => data_movement::split,
        "Slice" => data_movement::slice,
        "Gather" => data_movement::gather,
        "GatherElements" => data_movement::gather_elements,
        "GatherND" => data_movement::gather_nd,
        "ScatterElements" | "Scatter" | "ScatterND" => elementwise::like_first_input,
        "Expand" => data_movement::expand,
        "Tile" => data_movement::tile,
        "Pad" => data_movement::pad,
        "Resize" | "Upsample" => data_movement::resize,
        "DepthToSpace" | "SpaceToDepth" => data_movement::depth_space,
        "ReduceMean" | "ReduceSum" | "ReduceMax" | "ReduceMin" | "ReduceProd" | "ReduceL1" | "ReduceL2"
        | "ReduceLogSum" | "ReduceLogSumExp" | "ReduceSumSquare" => reduce::reduce,
        "ArgMax" | "ArgMin" => reduce::arg_min_max,
        "TopK" => reduce::top_k,
        "Det" => reduce::determinant,
        "NegativeLogLikelihoodLoss" | "SoftmaxCrossEntropyLoss" => reduce::loss,
        "Compress" => reduce::compress,
        "Unique" => reduce::unique,
        _ => return None,
    })
}

/// Infers the outputs of an operator.
pub fn infer_outputs(given: &ShapeContext) -> InferredFacts {
    let Some(rule) = shape_rule(given.node) else {
        return Ok(vec![ValueFact::default(); given.node.outputs.len()]);
    };
    let mut made = rule(given)?;
    let is_constant = has_constant_inputs_only(given);
    for fact in &mut made {
        fact.is_constant |= is_constant;
        // Drop the elements if there are too many to track; the shape stays.
        if fact.tracked_elements() > MAX_TRACKED_ELEMENTS {
            fact.small = None;
        }
        let rank = fact.rank().unwrap_or(0);
        if rank > given.limits.rank {
            return Err(given.mismatch_error(format!("a value of {rank} dimensions")));
        }
        if fact.dims().is_some() && fact.elements().is_none_or(|count| count > given.limits.elements) {
            return Err(given.mismatch_error("a value of more elements than the limit"));
        }
    }
    made.resize(given.node.outputs.len(), ValueFact::default());
    Ok(made)
}

/// Whether all inputs are constant and the operator is not random.
fn has_constant_inputs_only(given: &ShapeContext) -> bool {
    let kind = given.node.kind.as_str();
    if kind.starts_with("Random") || matches!(kind, "Bernoulli" | "Multinomial") {
        return false;
    }
    given.inputs.iter().flatten().all(|fact| fact.is_constant)
}
