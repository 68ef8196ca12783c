//! Cost of one operator in multiply-adds.
//!
//! A multiply-add is one multiplication and the addition of its product, which other tools count as
//! two floating point operations. Only sums of products have multiply-adds. The time of other
//! operators depends on the elements that they touch.

use crate::Error;
use crate::graph::DataType;
use crate::shape::{
    ShapeContext, ValueFact, attention_sizes, dft_axis, einsum_sizes, linear_attention_sizes, shape_rule,
};

/// Multiply-adds of an operator with these inputs and outputs; `None` if a size or the operator is
/// unknown.
pub fn multiply_adds(given: &ShapeContext, outputs: &[ValueFact]) -> Result<Option<u64>, Error> {
    let node = given.node;
    let Some(_) = shape_rule(node) else { return Ok(None) };
    let out = || outputs.first().and_then(ValueFact::elements);
    let count = match node.kind.as_str() {
        "Conv" | "ConvInteger" | "FusedConv" | "DeformConv" | "CausalConvWithState" => {
            output_multiply_adds(out(), given.input(1))
        }
        "QLinearConv" => output_multiply_adds(out(), given.input(3)),
        // Every input element is multiplied by every weight of its channel.
        "ConvTranspose" => output_multiply_adds(given.input(0).and_then(ValueFact::elements), given.input(1)),
        "Gemm" | "FusedGemm" | "QGemm" => {
            let inner = given.input(0).and_then(ValueFact::dims).and_then(|dims| {
                dims.get(if node.integer("transA").unwrap_or(0) != 0 { 0 } else { 1 }).copied()
            });
            checked_product(&[out(), inner])
        }
        "MatMul"
        | "MatMulInteger"
        | "QLinearMatMul"
        | "FusedMatMul"
        | "DynamicQuantizeMatMul"
        | "MatMulIntegerToFloat"
        | "MatMulNBits" => {
            let dims = given.input(0).and_then(ValueFact::dims);
            let from_end = if node.integer("transA").unwrap_or(0) != 0 { 2 } else { 1 };
            checked_product(&[
                out(),
                dims.and_then(|dims| dims.len().checked_sub(from_end).map(|at| dims[at])),
            ])
        }
        "Einsum" => {
            let is_product = given.inputs.len() > 1;
            einsum_sizes(given)?.and_then(|(sizes, _)| {
                let all = sizes.values().try_fold(1u64, |product, size| product.checked_mul(*size));
                if is_product { all } else { Some(0) }
            })
        }
        "LSTM" | "DynamicQuantizeLSTM" => recurrent_multiply_adds(given, 4),
        "GRU" => recurrent_multiply_adds(given, 3),
        "RNN" => recurrent_multiply_adds(given, 1),
        "Attention" | "QAttention" | "MultiHeadAttention" | "GroupQueryAttention" => {
            attention_sizes(given).and_then(|heads| heads.multiply_adds())
        }
        "LinearAttention" => linear_attention_sizes(given).multiply_adds(),
        "DFT" => dft_multiply_adds(given, outputs),
        "STFT" => stft_multiply_adds(given, outputs),
        // A triangle for each band over all bins.
        "MelWeightMatrix" => out(),
        // A sum of one cosine, or of two.
        "HannWindow" | "HammingWindow" => out(),
        "BlackmanWindow" => checked_product(&[out(), Some(2)]),
        _ => Some(0),
    };
    Ok(count)
}

fn checked_product(factors: &[Option<u64>]) -> Option<u64> {
    factors.iter().try_fold(1u64, |product, factor| product.checked_mul((*factor)?))
}

/// Each output element is a sum over the weights of one output channel.
fn output_multiply_adds(elements: Option<u64>, weights: Option<&ValueFact>) -> Option<u64> {
    let dims = weights?.dims()?;
    let per_channel = dims.get(1..)?.iter().try_fold(1u64, |product, size| product.checked_mul(*size))?;
    elements?.checked_mul(per_channel)
}

/// Every step multiplies the input and the state by the weights of all gates.
fn recurrent_multiply_adds(given: &ShapeContext, gates: u64) -> Option<u64> {
    let input = given.input(0)?.dims()?;
    let &[first, second, width] = input.as_slice() else { return None };
    let state = given.input(2)?.dims()?;
    let &[directions, rows, columns] = state.as_slice() else { return None };
    // Quantised weights are transposed.
    let hidden = if given.node.kind == "DynamicQuantizeLSTM" { rows } else { columns };
    checked_product(&[
        Some(first),
        Some(second),
        Some(directions),
        Some(gates),
        Some(hidden),
        width.checked_add(hidden),
    ])
}

/// A fast transform of `length` complex values: length/2 · log₂ length butterflies of 4 each
/// (Cooley and Tukey, 1965). Lengths that are no power of 2 need more, so this is a lower bound.
fn transform_multiply_adds(length: u64) -> Option<u64> {
    let stages = u64::from(length.max(1).next_power_of_two().trailing_zeros());
    length.checked_mul(2)?.checked_mul(stages)
}

/// A transform along one axis for every place on the other axes. The last axis of the output holds
/// real and imaginary part.
fn dft_multiply_adds(given: &ShapeContext, outputs: &[ValueFact]) -> Option<u64> {
    let (signal, out) = (given.input(0)?.dims()?, outputs.first()?.dims()?);
    let axis = dft_axis(given, signal.len())?;
    // One side may hold half of the bins only.
    let length = (*signal.get(axis)?).max(*out.get(axis)?);
    let others = (0..signal.len().checked_sub(1)?).filter(|other| *other != axis);
    let count = others.map(|other| signal[other]).try_fold(1u64, u64::checked_mul)?;
    transform_multiply_adds(length)?.checked_mul(count)
}

/// The window and a transform for each frame.
fn stft_multiply_adds(given: &ShapeContext, outputs: &[ValueFact]) -> Option<u64> {
    let out = outputs.first()?.dims()?;
    let &[batch, frames, bins, _] = out.as_slice() else { return None };
    let is_half = given.node.integer("onesided").unwrap_or(1) != 0;
    let length = if is_half { bins.saturating_sub(1).checked_mul(2)? } else { bins };
    let each = transform_multiply_adds(length)?.checked_add(length)?;
    checked_product(&[Some(batch), Some(frames), Some(each)])
}

/// Bytes of a value; `None` if its size is unknown.
pub(crate) fn value_bytes(fact: Option<&ValueFact>) -> Option<u64> {
    match fact {
        None => Some(0),
        // Strings have no fixed size, and no relevant operator processes many of them.
        Some(fact) if fact.data_type == Some(DataType::String) => Some(0),
        Some(fact) => fact.bytes(),
    }
}
