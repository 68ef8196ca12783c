//! Signal operators: windows, Fourier transforms, mel filters.

use super::{InferredFacts, ShapeContext, ValueFact};
use crate::graph::DataType;

/// An integer that is known before the graph runs.
fn single_integer(given: &ShapeContext, input: usize) -> Option<i64> {
    given.input(input).and_then(ValueFact::as_integers).and_then(|values| values.first().copied())
}

fn data_type_attribute(given: &ShapeContext, name: &str) -> Option<DataType> {
    given
        .node
        .integer(name)
        .map_or(Some(DataType::Float), |number| Some(DataType::from_number(number as u64)))
}

/// `HannWindow`, `HammingWindow`, `BlackmanWindow`: the length is an input.
pub fn window_function(given: &ShapeContext) -> InferredFacts {
    let count = single_integer(given, 0).map(|count| given.checked_size(i128::from(count))).transpose()?;
    Ok(vec![ValueFact::new(data_type_attribute(given, "output_datatype"), Some(vec![count]))])
}

/// `MelWeightMatrix`: half of a transform's bins, by the requested number of bands.
pub fn mel_weight_matrix(given: &ShapeContext) -> InferredFacts {
    let bands = single_integer(given, 0).map(|count| given.checked_size(i128::from(count))).transpose()?;
    let bins =
        single_integer(given, 1).map(|count| given.checked_size(i128::from(count) / 2 + 1)).transpose()?;
    Ok(vec![ValueFact::new(data_type_attribute(given, "output_datatype"), Some(vec![bins, bands]))])
}

/// The transformed axis as given; `None` if only a run tells it.
fn dft_axis_attribute(given: &ShapeContext) -> Option<i64> {
    match given.opset {
        ..20 => Some(given.node.integer("axis").unwrap_or(1)),
        _ if given.input(2).is_some() => single_integer(given, 2),
        _ => Some(-2),
    }
}

/// The transformed axis of a signal of this rank.
pub(crate) fn dft_axis(given: &ShapeContext, rank: usize) -> Option<usize> {
    given.axis_from_front(dft_axis_attribute(given)?, rank).ok()
}

/// `DFT` along one axis; the last axis holds real and imaginary parts.
pub fn dft(given: &ShapeContext) -> InferredFacts {
    let Some(shape) = given.shape(0) else { return Ok(vec![ValueFact::new(given.data_type(0), None)]) };
    let Some(axis) = dft_axis_attribute(given) else {
        return Ok(vec![ValueFact::new(given.data_type(0), Some(vec![None; shape.len()]))]);
    };
    let axis = given.axis_from_front(axis, shape.len())?;
    let is_set = |name| given.node.integer(name).unwrap_or(0) != 0;
    let mut out = shape.to_vec();
    let length = match given.input(1) {
        Some(_) => {
            single_integer(given, 1).map(|length| given.checked_size(i128::from(length))).transpose()?
        }
        None => out.get(axis).copied().flatten(),
    };
    if let Some(place) = out.get_mut(axis) {
        *place = match (is_set("onesided"), is_set("inverse")) {
            (true, false) => length.map(|length| length / 2 + 1),
            // An inverse transform from half of the bins: twice their number except the two ends,
            // unless a length is given.
            (true, true) if given.input(1).is_none() => {
                length.map(|length| length.saturating_sub(1).saturating_mul(2))
            }
            _ => length,
        };
    }
    if let Some(last) = out.last_mut() {
        *last = Some(if is_set("onesided") && is_set("inverse") { 1 } else { 2 });
    }
    Ok(vec![ValueFact::new(given.data_type(0), Some(out))])
}

/// `STFT`: a transform for each frame of a signal.
pub fn stft(given: &ShapeContext) -> InferredFacts {
    let signal = |axis: usize| given.shape(0).and_then(|shape| shape.get(axis).copied().flatten());
    let length = match (given.input(3), given.shape(2)) {
        (Some(_), _) => single_integer(given, 3).and_then(|length| u64::try_from(length).ok()),
        (None, Some(&[length])) => length,
        _ => None,
    };
    let step = single_integer(given, 1).and_then(|step| u64::try_from(step).ok()).filter(|step| *step > 0);
    let count = || Some(signal(1)?.checked_sub(length?)? / step? + 1);
    let is_half = given.node.integer("onesided").unwrap_or(1) != 0;
    let bins = length.map(|length| if is_half { length / 2 + 1 } else { length });
    Ok(vec![ValueFact::new(given.data_type(0), Some(vec![signal(0), count(), bins, Some(2)]))])
}
