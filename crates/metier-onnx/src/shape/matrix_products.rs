//! Matrix products and operators based on them.

use std::collections::BTreeMap;

use super::elementwise::broadcast;
use super::{InferredFacts, ShapeContext, ValueFact};
use crate::Error;
use crate::graph::DataType;

/// `Gemm`.
pub fn gemm(given: &ShapeContext) -> InferredFacts {
    let data_type = given.data_type(0);
    let (Some(a), Some(b)) = (given.shape(0), given.shape(1)) else {
        return Ok(vec![ValueFact::new(data_type, None)]);
    };
    let (&[a0, a1], &[b0, b1]) = (a, b) else {
        return Err(given.mismatch_error(format!(
            "matrices of {} and {} dimensions; want 2",
            a.len(),
            b.len()
        )));
    };
    let is_set = |name| given.node.integer(name).unwrap_or(0) != 0;
    let (rows, inner) = if is_set("transA") { (a1, a0) } else { (a0, a1) };
    let (other, columns) = if is_set("transB") { (b1, b0) } else { (b0, b1) };
    check_inner_dimension(given, inner, other)?;
    Ok(vec![ValueFact::new(data_type, Some(vec![rows, columns]))])
}

fn check_inner_dimension(given: &ShapeContext, a: Option<u64>, b: Option<u64>) -> Result<(), Error> {
    match (a, b) {
        (Some(a), Some(b)) if a != b => {
            Err(given.mismatch_error(format!("a product of {a} columns and {b} rows")))
        }
        _ => Ok(()),
    }
}

/// `MatMul`, `MatMulInteger` and `FusedMatMul`, by numpy's rule.
pub fn matmul(given: &ShapeContext) -> InferredFacts {
    let data_type = match given.node.kind.as_str() {
        "MatMulInteger" => Some(DataType::Int32),
        _ => given.data_type(0),
    };
    matrix_product(given, data_type, given.shape(0), given.shape(1))
}

/// `QLinearMatMul`.
pub fn quantised_matmul(given: &ShapeContext) -> InferredFacts {
    matrix_product(given, given.data_type(7), given.shape(0), given.shape(3))
}

fn matrix_product(
    given: &ShapeContext,
    data_type: Option<DataType>,
    a: Option<&[Option<u64>]>,
    b: Option<&[Option<u64>]>,
) -> InferredFacts {
    let (Some(a), Some(b)) = (a, b) else { return Ok(vec![ValueFact::new(data_type, None)]) };
    let (mut a, mut b) = (a.to_vec(), b.to_vec());
    for name in ["transA", "transB"] {
        let side = if name == "transA" { &mut a } else { &mut b };
        if given.node.integer(name).unwrap_or(0) != 0 && side.len() >= 2 {
            let last = side.len() - 1;
            side.swap(last, last - 1);
        }
    }
    if a.is_empty() || b.is_empty() {
        return Err(given.mismatch_error("a product with a single number"));
    }
    // A vector is a row on the left and a column on the right; that dimension is removed from the
    // result.
    let (is_row, is_column) = (a.len() == 1, b.len() == 1);
    if is_row {
        a.insert(0, Some(1));
    }
    if is_column {
        b.push(Some(1));
    }
    check_inner_dimension(given, a[a.len() - 1], b[b.len() - 2])?;
    let batches = broadcast(given, &[Some(&a[..a.len() - 2]), Some(&b[..b.len() - 2])])?;
    let mut shape = batches.unwrap_or_default();
    if !is_row {
        shape.push(a[a.len() - 2]);
    }
    if !is_column {
        shape.push(b[b.len() - 1]);
    }
    Ok(vec![ValueFact::new(data_type, Some(shape))])
}

/// First of the private-use letters for dimensions under an ellipsis; no equation contains them.
const FIRST_ELLIPSIS_LETTER: u32 = 0xE000;
/// Largest number of displayed characters of an equation.
const MAX_EQUATION_CHARS: usize = 60;

/// The letters of each `Einsum` input, given its rank, and of the output. Dimensions under an
/// ellipsis get private-use letters, aligned at their last dimension. `None` if the equation does
/// not fit the ranks.
fn parse_equation(text: &str, ranks: &[usize]) -> Option<(Vec<Vec<char>>, Vec<char>)> {
    let text: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
    let (left, right) = match text.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (text.as_str(), None),
    };
    let parts: Vec<&str> = left.split(',').collect();
    let under = |part: &str, rank: usize| match part.contains("...") {
        true => (rank + "...".len()).checked_sub(part.chars().count()),
        false => Some(0),
    };
    if parts.len() != ranks.len() {
        return None;
    }
    let counts =
        parts.iter().zip(ranks).map(|(part, rank)| under(part, *rank)).collect::<Option<Vec<_>>>()?;
    let most = counts.iter().copied().max().unwrap_or(0);
    let written = |part: &str, count: usize| -> Option<Vec<char>> {
        let dots: String =
            (most - count..most).filter_map(|at| char::from_u32(FIRST_ELLIPSIS_LETTER + at as u32)).collect();
        let letters = part.replacen("...", &dots, 1);
        (!letters.contains('.')).then(|| letters.chars().collect())
    };
    let inputs =
        parts.iter().zip(&counts).map(|(part, count)| written(part, *count)).collect::<Option<Vec<_>>>()?;
    let output = match right {
        Some(right) => written(right, most)?,
        None => {
            let mut counts = BTreeMap::new();
            inputs.iter().flatten().for_each(|letter| *counts.entry(*letter).or_insert(0) += 1);
            let is_under = |letter: &char| u32::from(*letter) >= FIRST_ELLIPSIS_LETTER;
            // Dimensions under an ellipsis come first in the output.
            let single = counts.into_iter().filter(|(letter, count)| *count == 1 && !is_under(letter));
            written("...", most)?.into_iter().chain(single.map(|(letter, _)| letter)).collect()
        }
    };
    Some((inputs, output))
}

/// The size of each letter of an `Einsum`, and the letters of its output.
type EinsumSizes = (BTreeMap<char, u64>, Vec<char>);

/// The letters of an `Einsum` with their sizes; `None` if one is unknown.
pub fn einsum_sizes(given: &ShapeContext) -> Result<Option<EinsumSizes>, Error> {
    let dims: Option<Vec<Vec<u64>>> =
        (0..given.inputs.len()).map(|index| given.input(index).and_then(ValueFact::dims)).collect();
    let Some(dims) = dims else { return Ok(None) };
    let ranks: Vec<usize> = dims.iter().map(Vec::len).collect();
    let Some(text) = given.node.text("equation") else { return Ok(None) };
    let Some((inputs, output)) = parse_equation(text, &ranks) else {
        let ranks: Vec<String> = ranks.iter().map(ToString::to_string).collect();
        let text: String = text.chars().take(MAX_EQUATION_CHARS).collect();
        return Err(
            given.mismatch_error(format!("{text:?} for values of {} dimensions", ranks.join(" and ")))
        );
    };
    let mut sizes: BTreeMap<char, u64> = BTreeMap::new();
    for (letters, dims) in inputs.iter().zip(dims) {
        if dims.len() != letters.len() {
            return Err(given.mismatch_error(format!(
                "{} letters for {} dimensions",
                letters.len(),
                dims.len()
            )));
        }
        for (letter, size) in letters.iter().zip(dims) {
            match sizes.insert(*letter, size) {
                Some(before) if before != size && before != 1 && size != 1 => {
                    return Err(given.mismatch_error(format!("{letter} is {before} and {size}")));
                }
                Some(before) => {
                    sizes.insert(*letter, before.max(size));
                }
                None => {}
            }
        }
    }
    Ok(Some((sizes, output)))
}

/// `Einsum`.
pub fn einsum(given: &ShapeContext) -> InferredFacts {
    let shape = einsum_sizes(given)?
        .map(|(sizes, output)| output.iter().map(|letter| sizes.get(letter).copied()).collect::<Vec<_>>());
    Ok(vec![ValueFact::new(given.data_type(0), shape)])
}
