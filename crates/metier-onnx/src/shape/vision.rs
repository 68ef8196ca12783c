//! Operators of image detectors and generators, apart from convolutions and pools.

use super::{Fact, Given, Made};
use crate::Error;
use crate::graph::DataType;

/// Leading dimensions before the spatial ones: batch and channels.
const FRONT: usize = 2;

fn like_first(given: &Given, shape: Option<Vec<Option<u64>>>) -> Made {
    Ok(vec![Fact::new(given.data_type(0), shape)])
}

fn size(given: &Given, input: usize, axis: usize) -> Option<u64> {
    given.shape(input)?.get(axis).copied().flatten()
}

/// The integers of an input as sizes; `None` if unknown.
fn sizes(given: &Given, input: usize) -> Result<Option<Vec<Option<u64>>>, Error> {
    let Some(values) = given.input(input).and_then(Fact::whole) else { return Ok(None) };
    values
        .iter()
        .map(|value| given.size(i128::from(*value)).map(Some))
        .collect::<Result<Vec<_>, _>>()
        .map(Some)
}

/// `GridSample`: batch and channels of the image, and the positions of the grid.
pub fn grid_sample(given: &Given) -> Made {
    let (Some(image), Some(grid)) = (given.shape(0), given.shape(1)) else { return like_first(given, None) };
    let places = grid.get(1..grid.len().saturating_sub(1)).unwrap_or_default();
    let front = image.get(..FRONT).unwrap_or_default();
    like_first(given, Some([front, places].concat()))
}

/// `AffineGrid`: a position for each element of an image of that size.
pub fn affine_grid(given: &Given) -> Made {
    let Some(image) = sizes(given, 1)? else { return like_first(given, None) };
    let spatial = image.get(FRONT..).unwrap_or_default();
    let batch = image.first().copied().flatten();
    let depth = Some(spatial.len() as u64);
    like_first(given, Some([&[batch], spatial, &[depth]].concat()))
}

/// `RoiAlign`, `MaxRoiPool`: the requested number of elements for each region.
pub fn regions(given: &Given) -> Made {
    let [height, width] = match given.node.kind.as_str() {
        "RoiAlign" => ["output_height", "output_width"].map(|name| given.node.integer(name).unwrap_or(1)),
        _ => {
            let shape = given.node.integers("pooled_shape").unwrap_or_default();
            [0, 1].map(|at| shape.get(at).copied().unwrap_or(1))
        }
    };
    let [height, width] = [given.size(i128::from(height))?, given.size(i128::from(width))?];
    like_first(given, Some(vec![size(given, 1, 0), size(given, 0, 1), Some(height), Some(width)]))
}

/// `NonMaxSuppression`: the number of remaining boxes is unknown before a run; three indices
/// identify each.
pub fn boxes(_: &Given) -> Made {
    Ok(vec![Fact::new(Some(DataType::Int64), Some(vec![None, Some(3)]))])
}

/// `CenterCropPad`: the requested sizes, of all axes or of the given ones.
pub fn center(given: &Given) -> Made {
    let Some(shape) = given.shape(0) else { return like_first(given, None) };
    let Some(wanted) = sizes(given, 1)? else {
        return like_first(given, Some(vec![None; shape.len()]));
    };
    let axes: Vec<i64> = match given.node.integers("axes") {
        Some(axes) => axes.to_vec(),
        None => (0..shape.len() as i64).collect(),
    };
    if axes.len() != wanted.len() {
        return Err(given.misfit(format!("{} sizes for {} axes", wanted.len(), axes.len())));
    }
    let mut out = shape.to_vec();
    for (axis, size) in axes.iter().zip(wanted) {
        let axis = given.axis(*axis, shape.len())?;
        if let Some(place) = out.get_mut(axis) {
            *place = size;
        }
    }
    like_first(given, Some(out))
}

/// `Col2Im`: columns of blocks to an image.
pub fn image(given: &Given) -> Made {
    let (Some(spatial), Some(block)) = (sizes(given, 1)?, sizes(given, 2)?) else {
        return like_first(given, None);
    };
    let block = block.iter().try_fold(1u64, |product, size| product.checked_mul((*size)?));
    let channels = block.filter(|block| *block > 0).and_then(|block| Some(size(given, 0, 1)? / block));
    like_first(given, Some([&[size(given, 0, 0), channels], spatial.as_slice()].concat()))
}

/// `MaxUnpool`: the requested shape, else the input shape of the corresponding pool.
pub fn unpool(given: &Given) -> Made {
    if given.input(2).is_some() {
        return like_first(given, sizes(given, 2)?);
    }
    let Some(shape) = given.shape(0) else { return like_first(given, None) };
    let kernel = given.node.integers("kernel_shape").unwrap_or_default();
    let (front, spatial) = shape.split_at(FRONT.min(shape.len()));
    let mut out = front.to_vec();
    for (axis, size) in spatial.iter().enumerate() {
        let at = |name: &str, place: usize, otherwise: i64| {
            let list = given.node.integers(name);
            i128::from(list.and_then(|list| list.get(place).copied()).unwrap_or(otherwise))
        };
        let pads = at("pads", axis, 0) + at("pads", axis + spatial.len(), 0);
        let window = i128::from(kernel.get(axis).copied().unwrap_or(1));
        let whole = size.map(|size| (i128::from(size) - 1) * at("strides", axis, 1) + window - pads);
        out.push(whole.map(|whole| given.size(whole)).transpose()?);
    }
    like_first(given, Some(out))
}
