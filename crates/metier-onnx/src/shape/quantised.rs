//! Integer operators written by ONNX Runtime's quantiser: each value is followed by a scale and a
//! zero point.

use super::elementwise::broadcast;
use super::{Fact, Given, Made};
use crate::graph::DataType;

/// Index of the weights among an operator's inputs.
pub(crate) fn weights_at(kind: &str) -> usize {
    match kind {
        "QLinearConv" | "QLinearMatMul" | "QGemm" => 3,
        _ => 1,
    }
}

/// The operator's context with these inputs only.
fn with<'a>(given: &'a Given, inputs: &[usize]) -> Given<'a> {
    let inputs = inputs.iter().map(|index| given.inputs.get(*index).copied().flatten()).collect();
    Given { node: given.node, inputs, opset: given.opset, limits: given.limits }
}

fn typed(made: Made, data_type: Option<DataType>) -> Made {
    made.map(|facts| facts.into_iter().map(|fact| Fact { data_type, ..fact }).collect())
}

/// `QLinearAdd`, `QLinearMul`.
pub fn arithmetic(given: &Given) -> Made {
    let shape = broadcast(given, &[given.shape(0), given.shape(3)])?;
    Ok(vec![Fact::new(given.data_type(0), shape)])
}

/// `QLinearWhere`: the condition, then two values.
pub fn choose(given: &Given) -> Made {
    let shape = broadcast(given, &[given.shape(0), given.shape(1), given.shape(4)])?;
    Ok(vec![Fact::new(given.data_type(1), shape)])
}

/// `QLinearConcat`: scale and zero point of the result come first.
pub fn concat(given: &Given) -> Made {
    let values: Vec<usize> = (2..given.inputs.len()).step_by(3).collect();
    super::arrange::concat(&with(given, &values))
}

/// `QLinearAveragePool`, `QLinearGlobalAveragePool`; sizes are unknown with `channels_last`.
pub fn pool(given: &Given) -> Made {
    if given.node.integer("channels_last").unwrap_or(0) != 0 {
        let rank = given.input(0).and_then(Fact::rank);
        return Ok(vec![Fact::new(given.data_type(0), rank.map(|rank| vec![None; rank]))]);
    }
    let inner = with(given, &[0]);
    let made = match given.node.kind.as_str() {
        "QLinearAveragePool" => super::window::pool(&inner)?,
        _ => super::window::global_pool(&inner)?,
    };
    Ok(made.into_iter().take(1).collect())
}

/// `QLinearReduceMean`.
pub fn reduce(given: &Given) -> Made {
    super::reduce::reduce(&with(given, &[0]))
}

/// `QGemm`: integers if the result has a zero point, else floats.
pub fn gemm(given: &Given) -> Made {
    let data_type = given.data_type(8).or(given.data_type(1));
    typed(super::products::gemm(&with(given, &[0, 3])), data_type)
}

/// `DynamicQuantizeMatMul`, `MatMulIntegerToFloat`: the result is float.
pub fn matmul(given: &Given) -> Made {
    let data_type = given.data_type(2).or(Some(DataType::Float));
    typed(super::products::matmul(&with(given, &[0, 1])), data_type)
}

/// `MatMulNBits`: packed weights of a few bits; their sizes are attributes.
pub fn packed(given: &Given) -> Made {
    let Some(shape) = given.shape(0) else { return Ok(vec![Fact::new(given.data_type(0), None)]) };
    let columns = given.node.integer("N").map(|size| given.size(i128::from(size))).transpose()?;
    let mut shape = shape.to_vec();
    match (shape.last_mut(), given.node.integer("K")) {
        (Some(Some(inner)), Some(rows)) if i64::try_from(*inner) != Ok(rows) => {
            return Err(given.misfit(format!("a product of {inner} columns and {rows} rows")));
        }
        (Some(last), _) => *last = columns,
        (None, _) => return Err(given.misfit("a product with a single number")),
    }
    Ok(vec![Fact::new(given.data_type(0), Some(shape))])
}

/// `DynamicQuantizeLSTM`: an LSTM with transposed weights.
pub fn recurrent(given: &Given) -> Made {
    typed(super::recurrent::recurrent(&with(given, &[0])), given.data_type(0))
}
