//! Operators that remove dimensions.

use super::{InferredFacts, ShapeContext, ValueFact};
use crate::Error;
use crate::graph::{DataType, SmallElements};

/// `ReduceMean` and similar: axes as an attribute, from version 13 (sum) or 18 (all) as an input.
pub fn reduce(given: &ShapeContext) -> InferredFacts {
    let keep = given.node.integer("keepdims").unwrap_or(1) != 0;
    let Some(shape) = given.shape(0) else { return Ok(vec![ValueFact::new(given.data_type(0), None)]) };
    let Some(axes) = given.input_or_attribute(1, "axes") else {
        let shape = keep.then(|| vec![None; shape.len()]);
        return Ok(vec![ValueFact::new(given.data_type(0), shape)]);
    };
    let axes = axes.filter(|axes| !axes.is_empty());
    if axes.is_none() && given.node.integer("noop_with_empty_axes").unwrap_or(0) != 0 {
        return Ok(vec![ValueFact::new(given.data_type(0), Some(shape.to_vec()))]);
    }
    let mut gone = vec![axes.is_none(); shape.len()];
    for axis in axes.iter().flatten() {
        let axis = given.axis_from_front(*axis, shape.len())?;
        if let Some(gone) = gone.get_mut(axis) {
            *gone = true;
        }
    }
    let mut fact = ValueFact::new(given.data_type(0), Some(reduced_shape(shape, &gone, keep)));
    fact.small = fold_elements(given).map(|value| SmallElements::Integers(vec![value]));
    Ok(vec![fact])
}

/// Reduces all elements of a short integer list, as in shape computations.
fn fold_elements(given: &ShapeContext) -> Option<i64> {
    let values = given.input(0)?.as_integers()?;
    if given.input(0)?.rank()? > 1 {
        return None;
    }
    match given.node.kind.as_str() {
        "ReduceProd" => values.iter().try_fold(1i64, |product, value| product.checked_mul(*value)),
        "ReduceSum" => values.iter().try_fold(0i64, |sum, value| sum.checked_add(*value)),
        "ReduceMax" => values.iter().copied().max(),
        "ReduceMin" => values.iter().copied().min(),
        _ => None,
    }
}

fn reduced_shape(shape: &[Option<u64>], gone: &[bool], keep: bool) -> Vec<Option<u64>> {
    let sizes = shape.iter().zip(gone);
    sizes
        .filter(|(_, gone)| keep || !**gone)
        .map(|(size, gone)| if *gone { Some(1) } else { *size })
        .collect()
}

/// `ArgMax`, `ArgMin`.
pub fn arg_min_max(given: &ShapeContext) -> InferredFacts {
    let Some(shape) = given.shape(0) else { return Ok(vec![ValueFact::new(Some(DataType::Int64), None)]) };
    let axis = given.axis_from_front(given.node.integer("axis").unwrap_or(0), shape.len())?;
    let mut gone = vec![false; shape.len()];
    if let Some(gone) = gone.get_mut(axis) {
        *gone = true;
    }
    let keep = given.node.integer("keepdims").unwrap_or(1) != 0;
    Ok(vec![ValueFact::new(Some(DataType::Int64), Some(reduced_shape(shape, &gone, keep)))])
}

/// `TopK`: values and indices.
pub fn top_k(given: &ShapeContext) -> InferredFacts {
    let shape = given.shape(0).map(<[_]>::to_vec).map(|mut shape| -> Result<_, Error> {
        let axis = given.axis_from_front(given.node.integer("axis").unwrap_or(-1), shape.len())?;
        let count =
            given.input(1).and_then(ValueFact::as_integers).and_then(|values| values.first().copied());
        let count = count
            .or(given.node.integer("k"))
            .map(|count| given.checked_size(i128::from(count)))
            .transpose()?;
        if let Some(size) = shape.get_mut(axis) {
            *size = count;
        }
        Ok(shape)
    });
    let shape = shape.transpose()?;
    Ok(vec![ValueFact::new(given.data_type(0), shape.clone()), ValueFact::new(Some(DataType::Int64), shape)])
}

/// `Det`: one number for each matrix.
pub fn determinant(given: &ShapeContext) -> InferredFacts {
    let shape = given.shape(0).and_then(|shape| shape.get(..shape.len().checked_sub(2)?)).map(<[_]>::to_vec);
    Ok(vec![ValueFact::new(given.data_type(0), shape)])
}

/// `NegativeLogLikelihoodLoss`, `SoftmaxCrossEntropyLoss`: one number, or one for each label; the
/// latter also returns log probabilities.
pub fn loss(given: &ShapeContext) -> InferredFacts {
    let shape = match given.node.text("reduction") {
        Some("none") => given.shape(1).map(<[_]>::to_vec),
        _ => Some(Vec::new()),
    };
    let scores = ValueFact::new(given.data_type(0), given.shape(0).map(<[_]>::to_vec));
    Ok(vec![ValueFact::new(given.data_type(0), shape), scores])
}

/// `Compress`: the number of kept elements, along an axis or overall, is unknown before a run.
pub fn compress(given: &ShapeContext) -> InferredFacts {
    let shape = match (given.node.integer("axis"), given.shape(0)) {
        (None, _) => Some(vec![None]),
        (Some(_), None) => None,
        (Some(axis), Some(shape)) => {
            let axis = given.axis_from_front(axis, shape.len())?;
            Some(shape.iter().enumerate().map(|(at, size)| size.filter(|_| at != axis)).collect())
        }
    };
    Ok(vec![ValueFact::new(given.data_type(0), shape)])
}

/// `Unique`: the number of results is unknown before a run; further outputs are indices and counts.
pub fn unique(given: &ShapeContext) -> InferredFacts {
    let facts = compress(given)?;
    let list = ValueFact::new(Some(DataType::Int64), Some(vec![None]));
    Ok(facts.into_iter().chain([list.clone(), list.clone(), list]).collect())
}
