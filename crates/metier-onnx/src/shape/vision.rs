//! Operators of image detectors and generators, apart from convolutions and pools.

use super::{InferredFacts, ShapeContext, ValueFact};
use crate::Error;
use crate::graph::DataType;

/// Leading dimensions before the spatial ones: batch and channels.
const LEADING_DIMENSIONS: usize = 2;

fn like_first_input(given: &ShapeContext, shape: Option<Vec<Option<u64>>>) -> InferredFacts {
    Ok(vec![ValueFact::new(given.data_type(0), shape)])
}

fn input_dimension(given: &ShapeContext, input: usize, axis: usize) -> Option<u64> {
    given.shape(input)?.get(axis).copied().flatten()
}

/// The integers of an input as sizes; `None` if unknown.
fn input_sizes(given: &ShapeContext, input: usize) -> Result<Option<Vec<Option<u64>>>, Error> {
    let Some(values) = given.input(input).and_then(ValueFact::as_integers) else { return Ok(None) };
    values
        .iter()
        .map(|value| given.checked_size(i128::from(*value)).map(Some))
        .collect::<Result<Vec<_>, _>>()
        .map(Some)
}

/// `GridSample`: batch and channels of the image, and the positions of the grid.
pub fn grid_sample(given: &ShapeContext) -> InferredFacts {
    let (Some(image), Some(grid)) = (given.shape(0), given.shape(1)) else {
        return like_first_input(given, None);
    };
    let places = grid.get(1..grid.len().saturating_sub(1)).unwrap_or_default();
    let front = image.get(..LEADING_DIMENSIONS).unwrap_or_default();
    like_first_input(given, Some([front, places].concat()))
}

/// `AffineGrid`: a position for each element of an image of that size.
pub fn affine_grid(given: &ShapeContext) -> InferredFacts {
    let Some(image) = input_sizes(given, 1)? else { return like_first_input(given, None) };
    let spatial = image.get(LEADING_DIMENSIONS..).unwrap_or_default();
    let batch = image.first().copied().flatten();
    let depth = Some(spatial.len() as u64);
    like_first_input(given, Some([&[batch], spatial, &[depth]].concat()))
}

/// `RoiAlign`, `MaxRoiPool`: the requested number of elements for each region.
pub fn region_pool(given: &ShapeContext) -> InferredFacts {
    let [height, width] = match given.node.kind.as_str() {
        "RoiAlign" => ["output_height", "output_width"].map(|name| given.node.integer(name).unwrap_or(1)),
        _ => {
            let shape = given.node.integers("pooled_shape").unwrap_or_default();
            [0, 1].map(|at| shape.get(at).copied().unwrap_or(1))
        }
    };
    let [height, width] = [given.checked_size(i128::from(height))?, given.checked_size(i128::from(width))?];
    like_first_input(
        given,
        Some(vec![input_dimension(given, 1, 0), input_dimension(given, 0, 1), Some(height), Some(width)]),
    )
}

/// `NonMaxSuppression`: the number of remaining boxes is unknown before a run; three indices
/// identify each.
pub fn non_max_suppression(_: &ShapeContext) -> InferredFacts {
    Ok(vec![ValueFact::new(Some(DataType::Int64), Some(vec![None, Some(3)]))])
}

/// `CenterCropPad`: the requested sizes, of all axes or of the given ones.
pub fn center_crop_pad(given: &ShapeContext) -> InferredFacts {
    let Some(shape) = given.shape(0) else { return like_first_input(given, None) };
    let Some(numbers) = input_sizes(given, 1)? else {
        return like_first_input(given, Some(vec![None; shape.len()]));
    };
    let axes: Vec<i64> = match given.node.integers("axes") {
        Some(axes) => axes.to_vec(),
        None => (0..shape.len() as i64).collect(),
    };
    if axes.len() != numbers.len() {
        return Err(given.mismatch_error(format!("{} sizes for {} axes", numbers.len(), axes.len())));
    }
    let mut out = shape.to_vec();
    for (axis, size) in axes.iter().zip(numbers) {
        let axis = given.axis_from_front(*axis, shape.len())?;
        if let Some(place) = out.get_mut(axis) {
            *place = size;
        }
    }
    like_first_input(given, Some(out))
}

/// `Col2Im`: columns of blocks to an image.
pub fn col2im(given: &ShapeContext) -> InferredFacts {
    let (Some(spatial), Some(block)) = (input_sizes(given, 1)?, input_sizes(given, 2)?) else {
        return like_first_input(given, None);
    };
    let block = block.iter().try_fold(1u64, |product, size| product.checked_mul((*size)?));
    let channels =
        block.filter(|block| *block > 0).and_then(|block| Some(input_dimension(given, 0, 1)? / block));
    like_first_input(given, Some([&[input_dimension(given, 0, 0), channels], spatial.as_slice()].concat()))
}

/// `MaxUnpool`: the requested shape, else the input shape of the corresponding pool.
pub fn max_unpool(given: &ShapeContext) -> InferredFacts {
    if given.input(2).is_some() {
        return like_first_input(given, input_sizes(given, 2)?);
    }
    let Some(shape) = given.shape(0) else { return like_first_input(given, None) };
    let kernel = given.node.integers("kernel_shape").unwrap_or_default();
    let (front, spatial) = shape.split_at(LEADING_DIMENSIONS.min(shape.len()));
    let mut out = front.to_vec();
    for (axis, size) in spatial.iter().enumerate() {
        let at = |name: &str, place: usize, otherwise: i64| {
            let list = given.node.integers(name);
            i128::from(list.and_then(|list| list.get(place).copied()).unwrap_or(otherwise))
        };
        let pads = at("pads", axis, 0) + at("pads", axis + spatial.len(), 0);
        let window = i128::from(kernel.get(axis).copied().unwrap_or(1));
        let whole = size.map(|size| (i128::from(size) - 1) * at("strides", axis, 1) + window - pads);
        out.push(whole.map(|whole| given.checked_size(whole)).transpose()?);
    }
    like_first_input(given, Some(out))
}
