//! Convolutions and pools: a window that moves over the spatial dimensions.

use super::{InferredFacts, ShapeContext, ValueFact};
use crate::Error;
use crate::graph::DataType;

/// Parameters of a window in one dimension.
#[derive(Debug, Clone, Copy)]
struct WindowStep {
    size: u64,
    stride: i64,
    dilation: i64,
    before: i64,
    after: i64,
}

/// The window parameters for each spatial dimension.
fn window_steps(given: &ShapeContext, kernel: &[u64]) -> Result<Vec<WindowStep>, Error> {
    let rank = kernel.len();
    let list = |name: &str, otherwise: i64, want: usize| -> Result<Vec<i64>, Error> {
        match given.node.integers(name) {
            Some(values) if values.len() == want => Ok(values.to_vec()),
            Some(values) => {
                Err(given.mismatch_error(format!("{} {name} for {rank} dimensions", values.len())))
            }
            None => Ok(vec![otherwise; want]),
        }
    };
    let strides = list("strides", 1, rank)?;
    let dilations = list("dilations", 1, rank)?;
    let pads = list("pads", 0, rank * 2)?;
    if let Some(bad) = strides.iter().chain(&dilations).find(|value| **value < 1) {
        return Err(given.mismatch_error(format!("a stride or dilation of {bad}")));
    }
    Ok((0..rank)
        .map(|axis| WindowStep {
            size: kernel[axis],
            stride: strides[axis],
            dilation: dilations[axis],
            before: pads[axis],
            after: pads[axis + rank],
        })
        .collect())
}

/// Output size of a window over one dimension.
fn window_output_size(
    given: &ShapeContext,
    input: Option<u64>,
    step: WindowStep,
    is_ceiling: bool,
) -> Result<Option<u64>, Error> {
    let Some(input) = input else { return Ok(None) };
    let (input, stride) = (i128::from(input), i128::from(step.stride));
    let size = match given.node.text("auto_pad") {
        Some("SAME_UPPER" | "SAME_LOWER") => (input + stride - 1) / stride,
        mode => {
            let pads =
                if mode == Some("VALID") { 0 } else { i128::from(step.before) + i128::from(step.after) };
            let reach = i128::from(step.dilation) * (i128::from(step.size) - 1) + 1;
            let room = input + pads - reach;
            if room < 0 {
                return Err(given.mismatch_error(format!(
                    "a window of {reach} over {input} elements with {pads} of padding"
                )));
            }
            let mut count = if is_ceiling { (room + stride - 1) / stride } else { room / stride } + 1;
            // A window that would start in the padding after the end is dropped.
            if is_ceiling && (count - 1) * stride >= input + i128::from(step.before) {
                count -= 1;
            }
            count
        }
    };
    given.checked_size(size).map(Some)
}

/// Sizes of the kernel: from the attribute or from the weights.
fn kernel_sizes(given: &ShapeContext, weights: Option<&[Option<u64>]>) -> Result<Option<Vec<u64>>, Error> {
    if let Some(shape) = given.node.integers("kernel_shape") {
        return shape
            .iter()
            .map(|size| given.checked_size(i128::from(*size)))
            .collect::<Result<Vec<_>, _>>()
            .map(Some);
    }
    Ok(weights.and_then(|shape| shape.get(2..)?.iter().copied().collect()))
}

/// `Conv`, `ConvInteger`, `QLinearConv`.
pub fn conv(given: &ShapeContext) -> InferredFacts {
    let (weight, data_type) = match given.node.kind.as_str() {
        "ConvInteger" => (1, Some(DataType::Int32)),
        "QLinearConv" => (3, given.data_type(7).or(given.data_type(0))),
        _ => (1, given.data_type(0)),
    };
    let (Some(input), weights) = (given.shape(0), given.shape(weight)) else {
        return Ok(vec![ValueFact::new(data_type, None)]);
    };
    let Some(kernel) = kernel_sizes(given, weights)? else {
        return Ok(vec![ValueFact::new(data_type, Some(vec![None; input.len()]))]);
    };
    if input.len() != kernel.len() + 2 {
        return Err(given.mismatch_error(format!(
            "an input of {} dimensions for a kernel of {}",
            input.len(),
            kernel.len()
        )));
    }
    if let Some(&[_, Some(per_group), ..]) = weights {
        let groups = given.checked_size(i128::from(given.node.integer("group").unwrap_or(1)))?;
        if let Some(channels) = input[1].filter(|channels| Some(*channels) != per_group.checked_mul(groups)) {
            return Err(given.mismatch_error(format!(
                "{channels} channels for weights of {per_group} in {groups} groups"
            )));
        }
    }
    let mut shape = vec![input[0], weights.and_then(|shape| shape.first().copied().flatten())];
    for (step, size) in window_steps(given, &kernel)?.into_iter().zip(&input[2..]) {
        shape.push(window_output_size(given, *size, step, false)?);
    }
    Ok(vec![ValueFact::new(data_type, Some(shape))])
}

/// `CausalConvWithState`: a depthwise convolution over past elements, and the state for the next
/// call.
pub fn causal_conv(given: &ShapeContext) -> InferredFacts {
    let (Some(input), weights) = (given.shape(0), given.shape(1)) else {
        return Ok(vec![ValueFact::new(given.data_type(0), None); 2]);
    };
    let kernel = weights.and_then(|shape| shape.last().copied().flatten());
    let mut state = input.to_vec();
    if let Some(last) = state.last_mut() {
        *last = kernel.map(|size| size.saturating_sub(1));
    }
    Ok([input.to_vec(), state].map(|shape| ValueFact::new(given.data_type(0), Some(shape))).to_vec())
}

/// `ConvTranspose`.
pub fn conv_transpose(given: &ShapeContext) -> InferredFacts {
    let (Some(input), weights) = (given.shape(0), given.shape(1)) else {
        return Ok(vec![ValueFact::new(given.data_type(0), None)]);
    };
    let Some(kernel) = kernel_sizes(given, weights)? else {
        return Ok(vec![ValueFact::new(given.data_type(0), Some(vec![None; input.len()]))]);
    };
    if input.len() != kernel.len() + 2 {
        return Err(given.mismatch_error(format!(
            "an input of {} dimensions for a kernel of {}",
            input.len(),
            kernel.len()
        )));
    }
    let groups = given.checked_size(i128::from(given.node.integer("group").unwrap_or(1)))?;
    let per_group = weights.and_then(|shape| shape.get(1).copied().flatten());
    let channels = per_group
        .map(|per_group| given.checked_size(i128::from(per_group) * i128::from(groups)))
        .transpose()?;
    let mut shape = vec![input[0], channels];
    let outside = given.node.integers("output_padding").unwrap_or_default();
    let numbers = given.node.integers("output_shape");
    let is_same = matches!(given.node.text("auto_pad"), Some("SAME_UPPER" | "SAME_LOWER"));
    for (axis, (step, size)) in window_steps(given, &kernel)?.into_iter().zip(&input[2..]).enumerate() {
        if let Some(number) = numbers.and_then(|shape| shape.get(axis)) {
            shape.push(Some(given.checked_size(i128::from(*number))?));
            continue;
        }
        let size = size.map(|size| {
            let (size, stride) = (i128::from(size), i128::from(step.stride));
            let whole = if is_same {
                size * stride
            } else {
                stride * (size - 1)
                    + i128::from(outside.get(axis).copied().unwrap_or(0))
                    + (i128::from(step.size) - 1) * i128::from(step.dilation)
                    + 1
                    - i128::from(step.before)
                    - i128::from(step.after)
            };
            given.checked_size(whole)
        });
        shape.push(size.transpose()?);
    }
    Ok(vec![ValueFact::new(given.data_type(0), Some(shape))])
}

/// `MaxPool`, `AveragePool`, `LpPool`.
pub fn pool(given: &ShapeContext) -> InferredFacts {
    let Some(input) = given.shape(0) else { return Ok(vec![ValueFact::new(given.data_type(0), None)]) };
    let Some(kernel) = kernel_sizes(given, None)? else {
        return Err(given.mismatch_error("no kernel_shape"));
    };
    if input.len() != kernel.len() + 2 {
        return Err(given.mismatch_error(format!(
            "an input of {} dimensions for a kernel of {}",
            input.len(),
            kernel.len()
        )));
    }
    let is_ceiling = given.node.integer("ceil_mode").unwrap_or(0) != 0;
    let mut shape = input[..2].to_vec();
    for (step, size) in window_steps(given, &kernel)?.into_iter().zip(&input[2..]) {
        shape.push(window_output_size(given, *size, step, is_ceiling)?);
    }
    Ok(vec![
        ValueFact::new(given.data_type(0), Some(shape.clone())),
        ValueFact::new(Some(DataType::Int64), Some(shape)),
    ])
}

/// `GlobalAveragePool` and similar.
pub fn global_pool(given: &ShapeContext) -> InferredFacts {
    let shape = given.shape(0).map(|shape| {
        shape.iter().enumerate().map(|(axis, size)| if axis < 2 { *size } else { Some(1) }).collect()
    });
    Ok(vec![ValueFact::new(given.data_type(0), shape)])
}
