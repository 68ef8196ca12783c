//! Element-wise operators, with or without broadcasting.

use super::{InferredFacts, ShapeContext, ValueFact};
use crate::Error;
use crate::graph::{DataType, SmallElements};

/// The output has the type and shape of the first input; `Identity` also keeps the elements.
pub fn like_first_input(given: &ShapeContext) -> InferredFacts {
    let mut fact = given.input(0).cloned().unwrap_or_default();
    fact.is_constant = false;
    match given.node.kind.as_str() {
        "Identity" => {}
        "Not" => map_integers(&mut fact, |value| i64::from(value == 0)),
        "Neg" => map_integers(&mut fact, i64::wrapping_neg),
        "Abs" => map_integers(&mut fact, i64::wrapping_abs),
        "Ceil" => map_floats(&mut fact, f64::ceil),
        "Floor" => map_floats(&mut fact, f64::floor),
        "Sqrt" => map_floats(&mut fact, f64::sqrt),
        _ => fact.small = None,
    }
    Ok(vec![fact])
}

fn map_integers(fact: &mut ValueFact, of: impl Fn(i64) -> i64) {
    fact.small = fact
        .as_integers()
        .map(|values| SmallElements::Integers(values.iter().map(|value| of(*value)).collect()));
}

fn map_floats(fact: &mut ValueFact, of: impl Fn(f64) -> f64) {
    fact.small = match &fact.small {
        Some(SmallElements::Floats(values)) => {
            Some(SmallElements::Floats(values.iter().map(|value| of(*value)).collect()))
        }
        _ => None,
    };
}

/// The first output has the type and shape of the first input, as does the mask of `Dropout`.
/// Statistics have the shape of the remaining dimensions.
pub fn normalisation(given: &ShapeContext) -> InferredFacts {
    let mut fact = given.input(0).cloned().unwrap_or_default();
    fact.small = None;
    fact.is_constant = false;
    Ok(match given.node.kind.as_str() {
        "Dropout" => {
            let mask = ValueFact { data_type: Some(DataType::Bool), ..fact.clone() };
            vec![fact, mask]
        }
        "BatchNormalization" => {
            let channels = given.input(1).map(|scale| ValueFact::new(scale.data_type, scale.shape.clone()));
            let channels = channels.unwrap_or_default();
            vec![fact, channels.clone(), channels.clone(), channels.clone(), channels]
        }
        kind => {
            let rank = fact.rank().unwrap_or(0);
            let axis = given.axis_from_front(given.node.integer("axis").unwrap_or(-1), rank)?;
            let sizes = fact.shape.iter().flatten().enumerate();
            let shape = sizes.map(|(at, size)| if at < axis { *size } else { Some(1) }).collect();
            let means = ValueFact::new(Some(DataType::Float), fact.shape.is_some().then_some(shape));
            // The `Skip` variants of ONNX Runtime also return the sum of their inputs, last.
            let sum = if kind.starts_with("Skip") { vec![fact.clone()] } else { Vec::new() };
            [vec![fact, means.clone(), means], sum].concat()
        }
    })
}

/// `EmbedLayerNormalization`: one table row for each word, and the length of each text.
pub fn embed_layer_normalisation(given: &ShapeContext) -> InferredFacts {
    let Some(words) = given.shape(0) else { return Ok(vec![ValueFact::default(); given.node.outputs.len()]) };
    let width = given.shape(2).and_then(|table| table.get(1).copied().flatten());
    let rows = ValueFact::new(given.data_type(2), Some([words, &[width]].concat()));
    let lengths = ValueFact::new(Some(DataType::Int32), words.first().map(|batch| vec![*batch]));
    Ok(vec![rows.clone(), lengths, rows])
}

/// Broadcasts several shapes by numpy's rule.
pub fn broadcast(
    given: &ShapeContext,
    shapes: &[Option<&[Option<u64>]>],
) -> Result<Option<Vec<Option<u64>>>, Error> {
    let Some(shapes) = shapes.iter().copied().collect::<Option<Vec<_>>>() else { return Ok(None) };
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut out = Vec::with_capacity(rank);
    for position in 0..rank {
        let mut size = Some(1);
        for shape in &shapes {
            let Some(index) = (position + shape.len()).checked_sub(rank) else { continue };
            size = match (size, shape[index]) {
                (Some(1), other) => other,
                (other, Some(1)) => other,
                (Some(a), Some(b)) if a != b => {
                    return Err(given.mismatch_error(format!("sizes {a} and {b} do not go together")));
                }
                // A known size above 1 determines an unknown one.
                (Some(a), _) => Some(a),
                (None, other) => other,
            };
        }
        out.push(size);
    }
    Ok(Some(out))
}

fn broadcast_inputs(
    given: &ShapeContext,
    inputs: std::ops::Range<usize>,
) -> Result<Option<Vec<Option<u64>>>, Error> {
    if let Some(shape) = legacy_broadcast_shape(given) {
        return Ok(Some(shape));
    }
    let shapes: Vec<_> = inputs.map(|index| given.shape(index)).collect();
    broadcast(given, &shapes)
}

/// Before version 7 the second value was aligned to the first at a given axis; the result has the
/// first one's shape.
fn legacy_broadcast_shape(given: &ShapeContext) -> Option<Vec<Option<u64>>> {
    let is_old = given.opset < 7 && given.node.integer("broadcast").unwrap_or(0) != 0;
    (is_old && given.node.integer("axis").is_some()).then(|| given.shape(0).map(<[_]>::to_vec)).flatten()
}

/// Two or more inputs, one output of their type.
pub fn arithmetic(given: &ShapeContext) -> InferredFacts {
    let shape = broadcast_inputs(given, 0..given.inputs.len())?;
    let mut fact = ValueFact::new(given.data_type(0), shape);
    let of: Option<fn(i64, i64) -> Option<i64>> = match given.node.kind.as_str() {
        "Add" | "Sum" => Some(i64::checked_add),
        "Sub" => Some(i64::checked_sub),
        "Mul" => Some(i64::checked_mul),
        "Div" => Some(i64::checked_div),
        "Mod" => Some(i64::checked_rem_euclid),
        "Max" => Some(|a, b| Some(a.max(b))),
        "Min" => Some(|a, b| Some(a.min(b))),
        _ => None,
    };
    fact.small = of
        .and_then(|of| fold_integers(given, of))
        .map(SmallElements::Integers)
        .or_else(|| fold_floats(given).map(SmallElements::Floats));
    Ok(vec![fact])
}

/// Elements of operators with more inputs are not tracked, since no shape is computed that way.
const MAX_FOLDED_INPUTS: usize = 64;

/// Folds element-wise, if all inputs have the same number of elements or one.
fn fold_integers(given: &ShapeContext, of: fn(i64, i64) -> Option<i64>) -> Option<Vec<i64>> {
    if given.inputs.len() > MAX_FOLDED_INPUTS {
        return None;
    }
    let mut inputs = given.inputs.iter().map(|input| input.and_then(|fact| fact.as_integers()));
    let mut result = inputs.next()??.to_vec();
    for input in inputs {
        result =
            broadcast_pairs(&result, input?)?.into_iter().map(|(a, b)| of(a, b)).collect::<Option<_>>()?;
    }
    Some(result)
}

fn fold_floats(given: &ShapeContext) -> Option<Vec<f64>> {
    let [a, b] = given.inputs[..] else { return None };
    let (a, b) = (a?.to_floats()?, b?.to_floats()?);
    let of: fn(f64, f64) -> f64 = match given.node.kind.as_str() {
        "Add" => |a, b| a + b,
        "Sub" => |a, b| a - b,
        "Mul" => |a, b| a * b,
        "Div" => |a, b| a / b,
        _ => return None,
    };
    Some(broadcast_pairs(&a, &b)?.into_iter().map(|(a, b)| of(a, b)).collect())
}

fn broadcast_pairs<T: Copy>(a: &[T], b: &[T]) -> Option<Vec<(T, T)>> {
    match (a, b) {
        ([a], b) => Some(b.iter().map(|b| (*a, *b)).collect()),
        (a, [b]) => Some(a.iter().map(|a| (*a, *b)).collect()),
        (a, b) if a.len() == b.len() => Some(a.iter().copied().zip(b.iter().copied()).collect()),
        _ => None,
    }
}

/// Two inputs, one boolean output.
pub fn compare(given: &ShapeContext) -> InferredFacts {
    let mut fact = ValueFact::new(Some(DataType::Bool), broadcast_inputs(given, 0..2)?);
    let of: fn(f64, f64) -> bool = match given.node.kind.as_str() {
        "Equal" => |a, b| a == b,
        "Less" => |a, b| a < b,
        "LessOrEqual" => |a, b| a <= b,
        "Greater" => |a, b| a > b,
        "GreaterOrEqual" => |a, b| a >= b,
        "And" => |a, b| a != 0.0 && b != 0.0,
        "Or" => |a, b| a != 0.0 || b != 0.0,
        _ => |a, b| (a != 0.0) != (b != 0.0),
    };
    // Sizes and counters are far below 2^53, so comparing them as floats is exact.
    let both = || {
        let (a, b) = (given.input(0)?.to_floats()?, given.input(1)?.to_floats()?);
        Some(broadcast_pairs(&a, &b)?.into_iter().map(|(a, b)| i64::from(of(a, b))).collect())
    };
    fact.small = both().map(SmallElements::Integers);
    Ok(vec![fact])
}

/// One input, a boolean for each element.
pub fn boolean_like_input(given: &ShapeContext) -> InferredFacts {
    Ok(vec![ValueFact::new(Some(DataType::Bool), given.shape(0).map(<[_]>::to_vec))])
}

/// `Where`.
pub fn select_where(given: &ShapeContext) -> InferredFacts {
    let mut fact = ValueFact::new(given.data_type(1), broadcast_inputs(given, 0..3)?);
    let chosen = || {
        let (which, yes, no) =
            (given.input(0)?.as_integers()?, given.input(1)?.as_integers()?, given.input(2)?.as_integers()?);
        let count = which.len().max(yes.len()).max(no.len());
        let at =
            |values: &[i64], index: usize| values.get(if values.len() == 1 { 0 } else { index }).copied();
        (0..count)
            .map(|i| if at(which, i)? != 0 { at(yes, i) } else { at(no, i) })
            .collect::<Option<Vec<_>>>()
    };
    fact.small = chosen().map(SmallElements::Integers);
    Ok(vec![fact])
}

/// `Cast`: integers keep their values.
pub fn cast(given: &ShapeContext) -> InferredFacts {
    let to = given.node.integer("to").map(|number| DataType::from_number(number as u64));
    let mut fact = ValueFact::new(to, given.shape(0).map(<[_]>::to_vec));
    fact.small = given.input(0).and_then(|input| match (&input.small, to?.is_float()) {
        (Some(SmallElements::Floats(values)), false) => {
            Some(SmallElements::Integers(values.iter().map(|value| *value as i64).collect()))
        }
        (Some(SmallElements::Integers(values)), true) => {
            Some(SmallElements::Floats(values.iter().map(|value| *value as f64).collect()))
        }
        (small, _) => small.clone(),
    });
    if to == Some(DataType::Bool) {
        map_integers(&mut fact, |value| i64::from(value != 0));
    }
    Ok(vec![fact])
}

/// `CastLike`: the type of another value.
pub fn cast_like(given: &ShapeContext) -> InferredFacts {
    Ok(vec![ValueFact::new(given.data_type(1), given.shape(0).map(<[_]>::to_vec))])
}

/// `BitCast`: the same bits, read as another type.
pub fn bit_cast(given: &ShapeContext) -> InferredFacts {
    let to = given.node.integer("to").map(|number| DataType::from_number(number as u64));
    Ok(vec![ValueFact::new(to, given.shape(0).map(<[_]>::to_vec))])
}

/// `QuantizeLinear`: the type of the zero point, or of the attribute.
pub fn quantise(given: &ShapeContext) -> InferredFacts {
    let count = given.node.integer("output_dtype").filter(|number| *number > 0);
    let data_type = count.map(|number| DataType::from_number(number as u64));
    let to = given.data_type(2).or(data_type).or(Some(DataType::Uint8));
    Ok(vec![ValueFact::new(to, given.shape(0).map(<[_]>::to_vec))])
}

/// `DequantizeLinear`: the type of the attribute, else of the scale.
pub fn dequantise(given: &ShapeContext) -> InferredFacts {
    let count = given.node.integer("output_dtype").filter(|number| *number > 0);
    let to = count.map(|number| DataType::from_number(number as u64)).or(given.data_type(1));
    Ok(vec![ValueFact::new(to, given.shape(0).map(<[_]>::to_vec))])
}

/// `DynamicQuantizeLinear`: the value, its scale, its zero point.
pub fn dynamic_quantise(given: &ShapeContext) -> InferredFacts {
    let byte = Some(DataType::Uint8);
    Ok(vec![
        ValueFact::new(byte, given.shape(0).map(<[_]>::to_vec)),
        ValueFact::new(Some(DataType::Float), Some(Vec::new())),
        ValueFact::new(byte, Some(Vec::new())),
    ])
}
