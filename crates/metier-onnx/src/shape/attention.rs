//! Attention operators of ONNX (since operator set 23) and of ONNX Runtime.
//!
//! [`AttentionSizes`] describes all variants: heads of queries attend to a number of keys,
//! including those of earlier calls. Outputs are the sums over the values and, if requested, the
//! keys and values to pass to the next call.

use super::{InferredFacts, ShapeContext, ValueFact};

/// Sizes of an attention; `None` for unknown ones.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AttentionSizes {
    batch: Option<u64>,
    /// Heads of queries, and of keys and values.
    heads: [Option<u64>; 2],
    /// Number of queries, and of keys including earlier calls.
    lengths: [Option<u64>; 2],
    /// Elements of one head's key, and of one head's value.
    widths: [Option<u64>; 2],
    /// Multiply-adds of the projections to queries, keys and values; 0 if these are inputs.
    before: Option<u64>,
    /// Whether heads have a separate dimension.
    is_apart: bool,
}

fn checked_product(factors: &[Option<u64>]) -> Option<u64> {
    factors.iter().try_fold(1u64, |product, factor| product.checked_mul((*factor)?))
}

fn checked_quotient(whole: Option<u64>, by: Option<u64>) -> Option<u64> {
    by.filter(|by| *by > 0).and_then(|by| Some(whole? / by))
}

impl AttentionSizes {
    /// Multiply-adds of the scores (queries × keys) and of the sums over the values.
    pub(crate) fn multiply_adds(&self) -> Option<u64> {
        let width = self.widths[0]?.checked_add(self.widths[1]?)?;
        let sums =
            checked_product(&[self.batch, self.heads[0], self.lengths[0], self.lengths[1], Some(width)])?;
        sums.checked_add(self.before?)
    }

    fn output_shape(&self) -> Vec<Option<u64>> {
        let ([heads, _], [queries, _], [_, width]) = (self.heads, self.lengths, self.widths);
        match self.is_apart {
            true => vec![self.batch, heads, queries, width],
            false => vec![self.batch, queries, checked_product(&[heads, width])],
        }
    }

    /// Shape of the keys or values of all calls.
    fn present_shape(&self, which: usize) -> Vec<Option<u64>> {
        vec![self.batch, self.heads[1], self.lengths[1], self.widths[which]]
    }
}

/// A positive integer attribute.
fn positive_attribute(given: &ShapeContext, name: &str) -> Option<u64> {
    given.node.integer(name).and_then(|count| u64::try_from(count).ok()).filter(|count| *count > 0)
}

fn input_dimension(given: &ShapeContext, input: usize, axis: usize) -> Option<u64> {
    given.shape(input)?.get(axis).copied().flatten()
}

/// Number of keys of this call, plus those of earlier calls if given.
fn total_keys(given: &ShapeContext, own: Option<u64>, past: usize, axis: usize) -> Option<u64> {
    match given.input(past) {
        Some(_) => own?.checked_add(input_dimension(given, past, axis)?),
        None => own,
    }
}

/// Sizes of an attention operator; `None` for unsupported inputs.
pub(crate) fn attention_sizes(given: &ShapeContext) -> Option<AttentionSizes> {
    match (given.node.kind.as_str(), given.node.is_standard()) {
        ("Attention", true) => standard_attention(given),
        ("Attention", false) => fused_attention(given, 4),
        ("QAttention", _) => fused_attention(given, 8),
        ("MultiHeadAttention", _) => separate_attention(given, 6, "num_heads", "num_heads"),
        ("GroupQueryAttention", _) => separate_attention(given, 3, "num_heads", "kv_num_heads"),
        _ => None,
    }
}

/// `Attention` of ONNX: heads in a separate dimension, or concatenated in the last one.
fn standard_attention(given: &ShapeContext) -> Option<AttentionSizes> {
    let before = Some(0);
    match given.shape(0)?.len() {
        4 => Some(AttentionSizes {
            batch: input_dimension(given, 0, 0),
            heads: [input_dimension(given, 0, 1), input_dimension(given, 1, 1)],
            lengths: [input_dimension(given, 0, 2), total_keys(given, input_dimension(given, 1, 2), 4, 2)],
            widths: [input_dimension(given, 0, 3), input_dimension(given, 2, 3)],
            before,
            is_apart: true,
        }),
        3 => {
            let heads = [positive_attribute(given, "q_num_heads"), positive_attribute(given, "kv_num_heads")];
            Some(AttentionSizes {
                batch: input_dimension(given, 0, 0),
                heads,
                lengths: [
                    input_dimension(given, 0, 1),
                    total_keys(given, input_dimension(given, 1, 1), 4, 2),
                ],
                widths: [
                    checked_quotient(input_dimension(given, 0, 2), heads[0]),
                    checked_quotient(input_dimension(given, 2, 2), heads[1]),
                ],
                before,
                is_apart: false,
            })
        }
        _ => None,
    }
}

/// One input, and one matrix that projects it to queries, keys and values.
fn fused_attention(given: &ShapeContext, past: usize) -> Option<AttentionSizes> {
    let (length, inner, wide) =
        (input_dimension(given, 0, 1), input_dimension(given, 0, 2), input_dimension(given, 1, 1));
    let heads = positive_attribute(given, "num_heads").or(Some(1));
    let own = given.node.integers("qkv_hidden_sizes").filter(|sizes| sizes.len() == 3);
    let own = own.map(|sizes| [sizes[0], sizes[2]].map(|size| u64::try_from(size).ok()));
    let widths = own.unwrap_or([wide.map(|wide| wide / 3); 2]);
    Some(AttentionSizes {
        batch: input_dimension(given, 0, 0),
        heads: [heads, heads],
        // Keys and values of earlier calls are stacked in one input along its first dimension.
        lengths: [length, total_keys(given, length, past, 3)],
        widths: widths.map(|width| checked_quotient(width, heads)),
        before: checked_product(&[input_dimension(given, 0, 0), length, inner, wide]),
        is_apart: false,
    })
}

/// Queries, keys and values as separate inputs with concatenated heads, or all three in the first
/// input.
fn separate_attention(
    given: &ShapeContext,
    past: usize,
    queries: &str,
    keys: &str,
) -> Option<AttentionSizes> {
    if given.shape(0)?.len() != 3 {
        return None;
    }
    let heads = [positive_attribute(given, queries)?, positive_attribute(given, keys)?];
    let (batch, length, wide) =
        (input_dimension(given, 0, 0), input_dimension(given, 0, 1), input_dimension(given, 0, 2));
    let (own, widths) = match given.shape(1).map(<[_]>::len) {
        Some(3) => {
            let width = checked_quotient(wide, Some(heads[0]));
            (
                input_dimension(given, 1, 1),
                [width, checked_quotient(input_dimension(given, 2, 2), Some(heads[1])).or(width)],
            )
        }
        Some(4) => (
            input_dimension(given, 1, 2),
            [checked_quotient(wide, Some(heads[0])), input_dimension(given, 2, 3)],
        ),
        Some(_) => return None,
        // Queries, keys and values concatenated.
        None => {
            let all = heads[1].checked_mul(2).and_then(|both| both.checked_add(heads[0]));
            (length, [checked_quotient(wide, all); 2])
        }
    };
    Some(AttentionSizes {
        batch,
        heads: heads.map(Some),
        lengths: [length, total_keys(given, own, past, 2)],
        widths,
        before: Some(0),
        is_apart: false,
    })
}

/// All attention operators: the result, and the keys and values for the next call.
pub fn attention(given: &ShapeContext) -> InferredFacts {
    let data_type = match given.node.kind.as_str() {
        // Integer inputs; the output has the type of their scale.
        "QAttention" => given.data_type(3),
        _ => given.data_type(0),
    };
    let fact = |shape| ValueFact::new(data_type, Some(shape));
    let Some(heads) = attention_sizes(given) else {
        return Ok(vec![ValueFact::new(data_type, None); given.node.outputs.len()]);
    };
    if matches!(given.node.kind.as_str(), "Attention" | "QAttention") && !given.node.is_standard() {
        let present = [vec![Some(2)], heads.present_shape(0)].concat();
        return Ok(vec![fact(heads.output_shape()), fact(present)]);
    }
    let scores = vec![heads.batch, heads.heads[0], heads.lengths[0], heads.lengths[1]];
    Ok(vec![
        fact(heads.output_shape()),
        fact(heads.present_shape(0)),
        fact(heads.present_shape(1)),
        fact(scores),
    ])
}

/// Sizes of a `LinearAttention`, which carries a state instead of all keys. Heads are concatenated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinearAttentionSizes {
    batch: Option<u64>,
    steps: Option<u64>,
    heads: [Option<u64>; 2],
    widths: [Option<u64>; 2],
    /// Passes of one step over the state of each head of keys.
    passes: u64,
}

pub(crate) fn linear_attention_sizes(given: &ShapeContext) -> LinearAttentionSizes {
    let heads = [positive_attribute(given, "q_num_heads"), positive_attribute(given, "kv_num_heads")];
    let is_delta = given.node.text("update_rule").is_some_and(|rule| rule.contains("delta"));
    LinearAttentionSizes {
        batch: input_dimension(given, 0, 0),
        steps: input_dimension(given, 0, 1),
        heads,
        widths: [1, 2].map(|input| checked_quotient(input_dimension(given, input, 2), heads[1])),
        passes: if is_delta { 2 } else { 1 },
    }
}

impl LinearAttentionSizes {
    /// Every step updates the state by a product of key and value, and each head of queries sums
    /// over it.
    pub(crate) fn multiply_adds(&self) -> Option<u64> {
        let passes = self.heads[1]?.checked_mul(self.passes)?.checked_add(self.heads[0]?);
        checked_product(&[self.batch, self.steps, passes, self.widths[0], self.widths[1]])
    }
}

/// `LinearAttention`: the result and the state.
pub fn linear_attention(given: &ShapeContext) -> InferredFacts {
    let sizes = linear_attention_sizes(given);
    let result = vec![sizes.batch, sizes.steps, checked_product(&[sizes.heads[0], sizes.widths[1]])];
    let state = vec![sizes.batch, sizes.heads[1], sizes.widths[0], sizes.widths[1]];
    Ok([result, state].map(|shape| ValueFact::new(given.data_type(0), Some(shape))).to_vec())
}
