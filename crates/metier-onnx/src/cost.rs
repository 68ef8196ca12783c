//! What one operator has to do: multiply-adds.
//!
//! A multiply-add is one multiplication and the addition of its product: half of what others count as floating point
//! operations. Only operators that are sums of products have any; the others cost time by the elements that they touch.

use crate::Error;
use crate::graph::DataType;
use crate::shape::{Fact, Given, letters, rule};

/// Multiply-adds of an operator with these inputs and outputs; `None` where a size or the operator is not known.
pub fn multiply_adds(given: &Given, outputs: &[Fact]) -> Result<Option<u64>, Error> {
    let node = given.node;
    let out = || outputs.first().and_then(Fact::elements);
    let count = match node.kind.as_str() {
        "Conv" | "ConvInteger" => per_output(out(), given.input(1)),
        "QLinearConv" => per_output(out(), given.input(3)),
        // Every element of the input meets every weight of its channel.
        "ConvTranspose" => per_output(given.input(0).and_then(Fact::elements), given.input(1)),
        "Gemm" => {
            let inner = given.input(0).and_then(Fact::dims).and_then(|dims| {
                dims.get(if node.integer("transA").unwrap_or(0) != 0 { 0 } else { 1 }).copied()
            });
            product(&[out(), inner])
        }
        "MatMul" | "MatMulInteger" | "QLinearMatMul" | "FusedMatMul" => {
            let dims = given.input(0).and_then(Fact::dims);
            let from_end = if node.integer("transA").unwrap_or(0) != 0 { 2 } else { 1 };
            product(&[out(), dims.and_then(|dims| dims.len().checked_sub(from_end).map(|at| dims[at]))])
        }
        "Einsum" => {
            let is_product = given.inputs.len() > 1;
            letters(given)?.and_then(|(sizes, _)| {
                let all = sizes.values().try_fold(1u64, |product, size| product.checked_mul(*size));
                if is_product { all } else { Some(0) }
            })
        }
        "LSTM" => recurrent(given, 4),
        "GRU" => recurrent(given, 3),
        "RNN" => recurrent(given, 1),
        "Attention" => attention(given),
        kind => rule(kind).map(|_| 0),
    };
    Ok(count)
}

fn product(factors: &[Option<u64>]) -> Option<u64> {
    factors.iter().try_fold(1u64, |product, factor| product.checked_mul((*factor)?))
}

/// Each of these elements is the sum of one output channel's weights.
fn per_output(elements: Option<u64>, weights: Option<&Fact>) -> Option<u64> {
    let dims = weights?.dims()?;
    let per_channel = dims.get(1..)?.iter().try_fold(1u64, |product, size| product.checked_mul(*size))?;
    elements?.checked_mul(per_channel)
}

/// Every step multiplies the input and the state with the weights of all gates.
fn recurrent(given: &Given, gates: u64) -> Option<u64> {
    let input = given.input(0)?.dims()?;
    let &[first, second, width] = input.as_slice() else { return None };
    let state = given.input(2)?.dims()?;
    let &[directions, _, hidden] = state.as_slice() else { return None };
    product(&[
        Some(first),
        Some(second),
        Some(directions),
        Some(gates),
        Some(hidden),
        width.checked_add(hidden),
    ])
}

/// Scores (queries × keys) and their sums over the values; the fused operator of ONNX Runtime projects its input first.
fn attention(given: &Given) -> Option<u64> {
    let queries = given.input(0)?.dims()?;
    if given.node.is_standard() {
        let (keys, values) = (given.input(1)?.dims()?, given.input(2)?.dims()?);
        let rows = queries.get(queries.len().checked_sub(2)?).copied();
        let others = keys.get(keys.len().checked_sub(2)?).copied()?;
        // With 3 dimensions heads stand side by side in the last one, with 4 in the second: the products are the same.
        let outer: u64 =
            queries.iter().take(queries.len() - 2).try_fold(1u64, |all, size| all.checked_mul(*size))?;
        let width = queries.last()?.checked_add(*values.last()?)?;
        return product(&[Some(outer), rows, Some(others), Some(width)]);
    }
    let &[batch, length, width] = queries.as_slice() else { return None };
    let wide = *given.input(1)?.dims()?.last()?;
    let project = product(&[Some(batch), Some(length), Some(width), Some(wide)])?;
    let scores = product(&[Some(batch), Some(length), Some(length), Some(wide / 3), Some(2)])?;
    project.checked_add(scores)
}

/// Bytes of a value; `None` where its size is not known.
pub(crate) fn bytes(fact: Option<&Fact>) -> Option<u64> {
    match fact {
        None => Some(0),
        // Texts have no fixed size, and no operator that matters works on many of them.
        Some(fact) if fact.data_type == Some(DataType::String) => Some(0),
        Some(fact) => fact.bytes(),
    }
}
