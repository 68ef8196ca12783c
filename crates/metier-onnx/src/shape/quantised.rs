//! Integer operators written by ONNX Runtime's quantiser: each value is followed by a scale and a
//! zero point.

use super::elementwise::broadcast;
use super::{InferredFacts, ShapeContext, ValueFact};
use crate::graph::DataType;

/// Index of the weights among an operator's inputs.
pub(crate) fn weights_input_index(kind: &str) -> usize {
    match kind {
        "QLinearConv" | "QLinearMatMul" | "QGemm" => 3,
        _ => 1,
    }
}

/// The operator's context with these inputs only.
fn with_inputs<'a>(given: &'a ShapeContext, inputs: &[usize]) -> ShapeContext<'a> {
    let inputs = inputs.iter().map(|index| given.inputs.get(*index).copied().flatten()).collect();
    ShapeContext { node: given.node, inputs, opset: given.opset, limits: given.limits }
}

fn with_data_type(made: InferredFacts, data_type: Option<DataType>) -> InferredFacts {
    made.map(|facts| facts.into_iter().map(|fact| ValueFact { data_type, ..fact }).collect())
}

/// `QLinearAdd`, `QLinearMul`.
pub fn arithmetic(given: &ShapeContext) -> InferredFacts {
    let shape = broadcast(given, &[given.shape(0), given.shape(3)])?;
    Ok(vec![ValueFact::new(given.data_type(0), shape)])
}

/// `QLinearWhere`: the condition, then two values.
pub fn select_where(given: &ShapeContext) -> InferredFacts {
    let shape = broadcast(given, &[given.shape(0), given.shape(1), given.shape(4)])?;
    Ok(vec![ValueFact::new(given.data_type(1), shape)])
}

/// `QLinearConcat`: scale and zero point of the result come first.
pub fn concat(given: &ShapeContext) -> InferredFacts {
    let values: Vec<usize> = (2..given.inputs.len()).step_by(3).collect();
    super::data_movement::concat(&with_inputs(given, &values))
}

/// `QLinearAveragePool`, `QLinearGlobalAveragePool`; sizes are unknown with `channels_last`.
pub fn pool(given: &ShapeContext) -> InferredFacts {
    if given.node.integer("channels_last").unwrap_or(0) != 0 {
        let rank = given.input(0).and_then(ValueFact::rank);
        return Ok(vec![ValueFact::new(given.data_type(0), rank.map(|rank| vec![None; rank]))]);
    }
    let inner = with_inputs(given, &[0]);
    let made = match given.node.kind.as_str() {
        "QLinearAveragePool" => super::convolution::pool(&inner)?,
        _ => super::convolution::global_pool(&inner)?,
    };
    Ok(made.into_iter().take(1).collect())
}

/// `QLinearReduceMean`.
pub fn reduce(given: &ShapeContext) -> InferredFacts {
    super::reduce::reduce(&with_inputs(given, &[0]))
}

/// `QGemm`: integers if the result has a zero point, else floats.
pub fn gemm(given: &ShapeContext) -> InferredFacts {
    let data_type = given.data_type(8).or(given.data_type(1));
    with_data_type(super::matrix_products::gemm(&with_inputs(given, &[0, 3])), data_type)
}

/// `DynamicQuantizeMatMul`, `MatMulIntegerToFloat`: the result is float.
pub fn matmul(given: &ShapeContext) -> InferredFacts {
    let data_type = given.data_type(2).or(Some(DataType::Float));
    with_data_type(super::matrix_products::matmul(&with_inputs(given, &[0, 1])), data_type)
}

/// `MatMulNBits`: packed weights of a few bits; their sizes are attributes.
pub fn matmul_n_bits(given: &ShapeContext) -> InferredFacts {
    let Some(shape) = given.shape(0) else { return Ok(vec![ValueFact::new(given.data_type(0), None)]) };
    let columns = given.node.integer("N").map(|size| given.checked_size(i128::from(size))).transpose()?;
    let mut shape = shape.to_vec();
    match (shape.last_mut(), given.node.integer("K")) {
        (Some(Some(inner)), Some(rows)) if i64::try_from(*inner) != Ok(rows) => {
            return Err(given.mismatch_error(format!("a product of {inner} columns and {rows} rows")));
        }
        (Some(last), _) => *last = columns,
        (None, _) => return Err(given.mismatch_error("a product with a single number")),
    }
    Ok(vec![ValueFact::new(given.data_type(0), Some(shape))])
}

/// `DynamicQuantizeLSTM`: an LSTM with transposed weights.
pub fn dynamic_lstm(given: &ShapeContext) -> InferredFacts {
    with_data_type(super::recurrent::recurrent(&with_inputs(given, &[0])), given.data_type(0))
}
