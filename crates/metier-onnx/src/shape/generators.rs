//! Operators that compute values from shapes, attributes or random numbers.

use super::{InferredFacts, MAX_TRACKED_ELEMENTS, ShapeContext, ValueFact};
use crate::graph::{DataType, NodeAttribute, SmallElements};

/// `Shape`, with the bounds added in version 15.
pub fn shape(given: &ShapeContext) -> InferredFacts {
    let Some(shape) = given.shape(0) else {
        return Ok(vec![ValueFact::new(Some(DataType::Int64), Some(vec![None]))]);
    };
    let rank = shape.len() as i64;
    let place = |name, otherwise: i64| {
        let at = given.node.integer(name).unwrap_or(otherwise);
        (if at < 0 { at + rank } else { at }).clamp(0, rank) as usize
    };
    let (start, end) = (place("start", 0), place("end", rank));
    let part = shape.get(start..end).unwrap_or_default();
    let mut fact = ValueFact::new(Some(DataType::Int64), Some(vec![Some(part.len() as u64)]));
    let sizes: Option<Vec<i64>> = part.iter().map(|size| size.map(|size| size as i64)).collect();
    fact.small = sizes.map(SmallElements::Integers);
    Ok(vec![fact])
}

/// `Size`.
pub fn size(given: &ShapeContext) -> InferredFacts {
    let mut fact = ValueFact::new(Some(DataType::Int64), Some(Vec::new()));
    fact.small =
        given.input(0).and_then(ValueFact::elements).map(|count| SmallElements::Integers(vec![count as i64]));
    Ok(vec![fact])
}

/// `Constant`.
pub fn constant(given: &ShapeContext) -> InferredFacts {
    let node = given.node;
    let list = |count: usize| Some(vec![Some(count as u64)]);
    // Longer lists are not tracked; a loop may call this very often.
    let is_short = |count: usize| count <= MAX_TRACKED_ELEMENTS;
    let fact =
        match node.attributes.iter().find(|(name, _)| name.starts_with("value") || *name == "sparse_value") {
            Some((_, NodeAttribute::Tensor(tensor))) => ValueFact::from_tensor(tensor),
            Some((_, NodeAttribute::Integer(value))) => {
                ValueFact::from_integers(DataType::Int64, Vec::new(), vec![*value])
            }
            Some((_, NodeAttribute::Integers(values))) => {
                let small = is_short(values.len()).then(|| SmallElements::Integers(values.clone()));
                ValueFact { small, ..ValueFact::new(Some(DataType::Int64), list(values.len())) }
            }
            Some((_, NodeAttribute::Float(value))) => ValueFact {
                small: Some(SmallElements::Floats(vec![*value])),
                ..ValueFact::new(Some(DataType::Float), Some(Vec::new()))
            },
            Some((_, NodeAttribute::Floats(values))) => {
                let small = is_short(values.len()).then(|| SmallElements::Floats(values.clone()));
                ValueFact { small, ..ValueFact::new(Some(DataType::Float), list(values.len())) }
            }
            Some((_, NodeAttribute::Text(_))) => ValueFact::new(Some(DataType::String), Some(Vec::new())),
            Some((_, NodeAttribute::Texts(values))) => {
                ValueFact::new(Some(DataType::String), list(values.len()))
            }
            _ => ValueFact::default(),
        };
    Ok(vec![ValueFact { is_constant: true, ..fact }])
}

/// `ConstantOfShape`.
pub fn constant_of_shape(given: &ShapeContext) -> InferredFacts {
    let value = match given.node.attributes.get("value") {
        Some(NodeAttribute::Tensor(tensor)) => Some(tensor),
        _ => None,
    };
    let data_type = value.map_or(DataType::Float, |tensor| tensor.data_type);
    let Some(sizes) = given.input(0).and_then(ValueFact::as_integers) else {
        let rank = given.shape(0).and_then(|shape| shape.first().copied().flatten());
        let shape =
            rank.filter(|rank| *rank <= given.limits.rank as u64).map(|rank| vec![None; rank as usize]);
        return Ok(vec![ValueFact::new(Some(data_type), shape)]);
    };
    let shape = sizes
        .iter()
        .map(|size| given.checked_size(i128::from(*size)).map(Some))
        .collect::<Result<Vec<_>, _>>()?;
    let mut fact = ValueFact::new(Some(data_type), Some(shape));
    if let Some(count) = fact.elements().filter(|count| *count <= MAX_TRACKED_ELEMENTS as u64) {
        let count = count as usize;
        fact.small = match value.and_then(|tensor| tensor.small.as_ref()) {
            Some(SmallElements::Integers(values)) => {
                values.first().map(|value| SmallElements::Integers(vec![*value; count]))
            }
            Some(SmallElements::Floats(values)) => {
                values.first().map(|value| SmallElements::Floats(vec![*value; count]))
            }
            None => value.is_none().then(|| SmallElements::Floats(vec![0.0; count])),
        };
    }
    Ok(vec![fact])
}

/// `Range`.
pub fn range(given: &ShapeContext) -> InferredFacts {
    let single = |index: usize| {
        given.input(index).and_then(ValueFact::to_floats).and_then(|values| values.first().copied())
    };
    let mut fact = ValueFact::new(given.data_type(0), Some(vec![None]));
    if let (Some(start), Some(limit), Some(step)) = (single(0), single(1), single(2)) {
        let count = ((limit - start) / step).ceil().max(0.0);
        if !count.is_finite() || count > given.limits.elements as f64 {
            return Err(given.mismatch_error(format!("a range from {start} to {limit} in steps of {step}")));
        }
        fact.shape = Some(vec![Some(count as u64)]);
        if count <= MAX_TRACKED_ELEMENTS as f64 && given.data_type(0).is_some_and(|kind| !kind.is_float()) {
            let (start, step) = (start as i64, step as i64);
            let values = (0..count as i64).map(|turn| start.checked_add(turn.checked_mul(step)?));
            fact.small = values.collect::<Option<_>>().map(SmallElements::Integers);
        }
    }
    Ok(vec![fact])
}

/// `NonZero`: the number of results is unknown before a run.
pub fn non_zero(given: &ShapeContext) -> InferredFacts {
    let rank = given.input(0).and_then(ValueFact::rank).map(|rank| rank as u64);
    Ok(vec![ValueFact::new(Some(DataType::Int64), Some(vec![rank, None]))])
}

/// `OneHot`.
pub fn one_hot(given: &ShapeContext) -> InferredFacts {
    let Some(shape) = given.shape(0) else { return Ok(vec![ValueFact::new(given.data_type(2), None)]) };
    let depth = given.input(1).and_then(ValueFact::as_integers).and_then(|values| values.first().copied());
    let depth = depth.map(|depth| given.checked_size(i128::from(depth))).transpose()?;
    let axis = given.axis_from_front(given.node.integer("axis").unwrap_or(-1), shape.len() + 1)?;
    let mut shape = shape.to_vec();
    shape.insert(axis, depth);
    Ok(vec![ValueFact::new(given.data_type(2), Some(shape))])
}

/// `RandomNormal`, `RandomUniform`.
pub fn random(given: &ShapeContext) -> InferredFacts {
    let shape = given.node.integers("shape").unwrap_or_default().iter();
    let shape =
        shape.map(|size| given.checked_size(i128::from(*size)).map(Some)).collect::<Result<Vec<_>, _>>()?;
    Ok(vec![ValueFact::new(Some(dtype_attribute(given).unwrap_or(DataType::Float)), Some(shape))])
}

/// Random values with the shape of another value.
pub fn random_like(given: &ShapeContext) -> InferredFacts {
    Ok(vec![ValueFact::new(dtype_attribute(given).or(given.data_type(0)), given.shape(0).map(<[_]>::to_vec))])
}

/// `Multinomial`: a number of draws for each row.
pub fn multinomial(given: &ShapeContext) -> InferredFacts {
    let count = given.checked_size(i128::from(given.node.integer("sample_size").unwrap_or(1)))?;
    let rows = given.shape(0).and_then(|shape| shape.first().copied().flatten());
    Ok(vec![ValueFact::new(
        Some(dtype_attribute(given).unwrap_or(DataType::Int32)),
        Some(vec![rows, Some(count)]),
    )])
}

fn dtype_attribute(given: &ShapeContext) -> Option<DataType> {
    given.node.integer("dtype").map(|number| DataType::from_number(number as u64))
}
