//! Operators that move elements.

use super::{InferredFacts, MAX_TRACKED_ELEMENTS, ShapeContext, ValueFact};
use crate::Error;
use crate::graph::{NodeAttribute, SmallElements};

fn unknown_sizes(given: &ShapeContext, rank: Option<usize>) -> InferredFacts {
    Ok(vec![ValueFact::new(given.data_type(0), rank.map(|rank| vec![None; rank]))])
}

/// The same elements in another shape.
fn with_new_shape(given: &ShapeContext, shape: Vec<Option<u64>>) -> InferredFacts {
    let small = given.input(0).and_then(|fact| fact.small.clone());
    Ok(vec![ValueFact { small, ..ValueFact::new(given.data_type(0), Some(shape)) }])
}

/// `Reshape`: 0 keeps a dimension (unless `allowzero` is set), -1 is inferred.
pub fn reshape(given: &ShapeContext) -> InferredFacts {
    let Some(Some(numbers)) = given.input_or_attribute(1, "shape") else {
        let rank = given.shape(1).and_then(|shape| shape.first().copied().flatten());
        return unknown_sizes(
            given,
            rank.filter(|rank| *rank <= given.limits.rank as u64).map(|rank| rank as usize),
        );
    };
    let input = given.shape(0);
    let keeps_zero = given.node.integer("allowzero").unwrap_or(0) == 0;
    let mut shape = Vec::with_capacity(numbers.len());
    let mut open = None;
    for (axis, size) in numbers.iter().enumerate() {
        shape.push(match size {
            0 if keeps_zero => input.and_then(|shape| shape.get(axis).copied().flatten()),
            -1 if open.is_none() => {
                open = Some(axis);
                None
            }
            -1 => return Err(given.mismatch_error("two dimensions of -1")),
            size => Some(given.checked_size(i128::from(*size))?),
        });
    }
    let count = given.input(0).and_then(ValueFact::elements);
    let others: Option<u64> = (0..shape.len())
        .filter(|axis| Some(*axis) != open)
        .try_fold(1u64, |product, axis| product.checked_mul(shape[axis]?));
    if let (Some(count), Some(others)) = (count, others) {
        match open {
            Some(axis) if others > 0 && count % others == 0 => shape[axis] = Some(count / others),
            Some(_) if others > 0 => {
                return Err(given.mismatch_error(format!("{count} elements do not fit into {numbers:?}")));
            }
            None if count != others => {
                return Err(given.mismatch_error(format!("{count} elements do not fit into {numbers:?}")));
            }
            _ => {}
        }
    }
    with_new_shape(given, shape)
}

/// `Flatten`.
pub fn flatten(given: &ShapeContext) -> InferredFacts {
    let Some(shape) = given.shape(0) else { return unknown_sizes(given, Some(2)) };
    let axis = given.node.integer("axis").unwrap_or(1);
    let axis =
        if axis == shape.len() as i64 { shape.len() } else { given.axis_from_front(axis, shape.len())? };
    let product =
        |part: &[Option<u64>]| part.iter().try_fold(1u64, |product, size| product.checked_mul((*size)?));
    let (before, after) = shape.split_at(axis);
    with_new_shape(given, vec![product(before), product(after)])
}

/// `Squeeze`.
pub fn squeeze(given: &ShapeContext) -> InferredFacts {
    let (Some(shape), Some(axes)) = (given.shape(0), given.input_or_attribute(1, "axes")) else {
        return unknown_sizes(given, None);
    };
    let mut gone = vec![false; shape.len()];
    match axes {
        Some(axes) => {
            for axis in axes {
                let axis = given.axis_from_front(axis, shape.len())?;
                if let Some(size) = shape.get(axis).copied().flatten().filter(|size| *size != 1) {
                    return Err(given.mismatch_error(format!("dimension {axis} is {size}, not 1")));
                }
                if let Some(gone) = gone.get_mut(axis) {
                    *gone = true;
                }
            }
        }
        // Without axes all dimensions of size 1 are removed; with an unknown size their number is
        // unknown.
        None if shape.contains(&None) => return unknown_sizes(given, None),
        None => gone = shape.iter().map(|size| *size == Some(1)).collect(),
    }
    let left = shape.iter().zip(gone).filter(|(_, gone)| !gone).map(|(size, _)| *size).collect();
    with_new_shape(given, left)
}

/// `Unsqueeze`.
pub fn unsqueeze(given: &ShapeContext) -> InferredFacts {
    let (Some(shape), Some(Some(axes))) = (given.shape(0), given.input_or_attribute(1, "axes")) else {
        return unknown_sizes(given, None);
    };
    let rank = shape.len() + axes.len();
    let mut places =
        axes.iter().map(|axis| given.axis_from_front(*axis, rank)).collect::<Result<Vec<_>, Error>>()?;
    places.sort_unstable();
    let mut out = shape.to_vec();
    for place in places {
        if place > out.len() {
            return Err(given.mismatch_error(format!("axes {axes:?} for {} dimensions", shape.len())));
        }
        out.insert(place, Some(1));
    }
    with_new_shape(given, out)
}

/// `Transpose`.
pub fn transpose(given: &ShapeContext) -> InferredFacts {
    let Some(shape) = given.shape(0) else { return unknown_sizes(given, None) };
    let order: Vec<i64> = match given.node.integers("perm") {
        Some(order) => order.to_vec(),
        None => (0..shape.len() as i64).rev().collect(),
    };
    if order.len() != shape.len() {
        return Err(given.mismatch_error(format!(
            "an order of {} for {} dimensions",
            order.len(),
            shape.len()
        )));
    }
    let out = order
        .iter()
        .map(|axis| Ok(shape[given.axis_from_front(*axis, shape.len())?]))
        .collect::<Result<Vec<_>, Error>>()?;
    let mut fact = ValueFact::new(given.data_type(0), Some(out));
    fact.small = fact.dims().and_then(|sizes| {
        let order: Vec<usize> =
            order.iter().filter_map(|axis| given.axis_from_front(*axis, shape.len()).ok()).collect();
        pick_elements(given, &sizes, |place, axis| {
            order
                .iter()
                .position(|from| *from == axis)
                .and_then(|at| place.get(at))
                .map_or(0, |at| *at as i64)
        })
    });
    Ok(vec![fact])
}

/// Elements of the first input at each position of an output of these sizes; `from` maps a position
/// to an index along an input axis. Shapes are computed from small tables, too.
fn pick_elements(
    given: &ShapeContext,
    sizes: &[u64],
    from: impl Fn(&[u64], usize) -> i64,
) -> Option<SmallElements> {
    let input = given.input(0)?;
    let (values, dims) = (input.as_integers()?, input.dims()?);
    let count = sizes.iter().try_fold(1u64, |product, size| product.checked_mul(*size))?;
    if count > MAX_TRACKED_ELEMENTS as u64 {
        return None;
    }
    let mut out = Vec::with_capacity(count as usize);
    let mut place = vec![0u64; sizes.len()];
    for _ in 0..count {
        let mut at = 0i64;
        for (axis, size) in dims.iter().enumerate() {
            at = at.checked_mul(*size as i64)?.checked_add(from(&place, axis))?;
        }
        out.push(*values.get(usize::try_from(at).ok()?)?);
        for axis in (0..place.len()).rev() {
            place[axis] += 1;
            if place[axis] < sizes[axis] {
                break;
            }
            place[axis] = 0;
        }
    }
    Some(SmallElements::Integers(out))
}

/// `Concat`.
pub fn concat(given: &ShapeContext) -> InferredFacts {
    let shapes: Option<Vec<&[Option<u64>]>> =
        (0..given.inputs.len()).map(|index| given.shape(index)).collect();
    let Some(shapes) = shapes.filter(|shapes| !shapes.is_empty()) else { return unknown_sizes(given, None) };
    let rank = shapes[0].len();
    let axis = given.axis_from_front(given.node.integer("axis").unwrap_or(1), rank)?;
    let mut out = shapes[0].to_vec();
    for shape in &shapes[1..] {
        if shape.len() != rank {
            return Err(
                given.mismatch_error(format!("values of {rank} and {} dimensions side by side", shape.len()))
            );
        }
        for (place, size) in shape.iter().enumerate() {
            out[place] = match (place == axis, out[place], *size) {
                (true, Some(a), Some(b)) => Some(given.checked_size(i128::from(a) + i128::from(b))?),
                (true, ..) => None,
                (false, Some(a), Some(b)) if a != b => {
                    return Err(
                        given.mismatch_error(format!("sizes {a} and {b} of dimension {place} side by side"))
                    );
                }
                (false, a, b) => a.or(b),
            };
        }
    }
    let mut fact = ValueFact::new(given.data_type(0), Some(out));
    let count =
        given.inputs.iter().flatten().fold(0usize, |sum, input| sum.saturating_add(input.tracked_elements()));
    if rank == 1 && count <= MAX_TRACKED_ELEMENTS {
        let parts: Option<Vec<&[i64]>> =
            given.inputs.iter().map(|input| input.and_then(|fact| fact.as_integers())).collect();
        fact.small = parts.map(|parts| SmallElements::Integers(parts.concat())).or_else(|| {
            let parts: Option<Vec<Vec<f64>>> =
                given.inputs.iter().map(|input| input.and_then(ValueFact::to_floats)).collect();
            parts.map(|parts| SmallElements::Floats(parts.concat()))
        });
    }
    Ok(vec![fact])
}

/// `Split`: sizes as an input or attribute, else equal parts.
pub fn split(given: &ShapeContext) -> InferredFacts {
    let count = given.node.outputs.len();
    let Some(shape) = given.shape(0) else {
        return Ok(vec![ValueFact::new(given.data_type(0), None); count]);
    };
    let axis = given.axis_from_front(given.node.integer("axis").unwrap_or(0), shape.len())?;
    let whole = shape.get(axis).copied().flatten();
    let sizes: Vec<Option<u64>> = match given.input_or_attribute(1, "split") {
        Some(Some(sizes)) => sizes
            .iter()
            .map(|size| given.checked_size(i128::from(*size)).map(Some))
            .collect::<Result<_, _>>()?,
        Some(None) => {
            let parts =
                given.node.integer("num_outputs").map_or(count as u64, |parts| parts.max(1) as u64).max(1);
            let part = whole.map(|whole| whole.div_ceil(parts));
            (0..count as u64).map(|n| Some(part?.min(whole?.saturating_sub(part? * n)))).collect()
        }
        None => vec![None; count],
    };
    let values = given.input(0).filter(|input| input.rank() == Some(1)).and_then(ValueFact::as_integers);
    let mut from = Some(0usize);
    let mut made = Vec::with_capacity(count);
    for index in 0..count {
        let size = sizes.get(index).copied().flatten();
        let mut out = shape.to_vec();
        if let Some(place) = out.get_mut(axis) {
            *place = size;
        }
        let mut fact = ValueFact::new(given.data_type(0), Some(out));
        let to = from.zip(size).and_then(|(from, size)| from.checked_add(usize::try_from(size).ok()?));
        fact.small = values
            .zip(from.zip(to))
            .and_then(|(values, (from, to))| values.get(from..to))
            .map(|part| SmallElements::Integers(part.to_vec()));
        from = to;
        made.push(fact);
    }
    Ok(made)
}

/// `ProtobufSlice`: bounds as inputs, up to version 9 as attributes.
pub fn slice(given: &ShapeContext) -> InferredFacts {
    let Some(shape) = given.shape(0) else { return unknown_sizes(given, None) };
    let (starts, ends, axes, steps) = if given.inputs.len() > 1 {
        let get = |index: usize| given.input(index).map(|fact| fact.as_integers().map(<[i64]>::to_vec));
        (get(1).flatten(), get(2).flatten(), get(3), get(4))
    } else {
        let get = |name: &str| given.node.integers(name).map(<[i64]>::to_vec);
        (get("starts"), get("ends"), get("axes").map(Some), None)
    };
    let (axes, is_told) = match axes {
        // As many axes as bounds, even if the bounds are unknown before a run.
        None => {
            let bounds = given.shape(1).and_then(|bounds| bounds.first().copied().flatten());
            let count = starts.as_ref().map(|starts| starts.len() as u64).or(bounds);
            match count.filter(|count| *count <= shape.len() as u64) {
                Some(count) => ((0..count as i64).collect(), true),
                None => (Vec::new(), false),
            }
        }
        Some(Some(axes)) => (axes, true),
        Some(None) => (Vec::new(), false),
    };
    if !is_told {
        return unknown_sizes(given, Some(shape.len()));
    }
    let mut out = shape.to_vec();
    let mut cuts: Vec<(i64, i64)> = vec![(0, 1); shape.len()];
    for (index, axis) in axes.iter().enumerate() {
        let axis = given.axis_from_front(*axis, shape.len())?;
        let Some(place) = out.get_mut(axis) else { continue };
        let at = |list: &Option<Vec<i64>>| list.as_ref().and_then(|list| list.get(index).copied());
        let step = match &steps {
            None => Some(1),
            Some(steps) => at(steps),
        };
        *place = match (*place, at(&starts), at(&ends), step) {
            (_, _, _, Some(0)) => return Err(given.mismatch_error("a step of 0")),
            (Some(size), Some(start), Some(end), Some(step)) => {
                let (from, count) = slice_range(size, start, end, step);
                cuts[axis] = (from, step);
                Some(count)
            }
            _ => None,
        };
    }
    let mut fact = ValueFact::new(given.data_type(0), Some(out));
    fact.small = fact.dims().and_then(|sizes| {
        pick_elements(given, &sizes, |place, axis| {
            let (from, step) = cuts[axis];
            place.get(axis).map_or(-1, |at| from.saturating_add((*at as i64).saturating_mul(step)))
        })
    });
    Ok(vec![fact])
}

/// Start and number of the elements between two bounds, by numpy's rule.
fn slice_range(size: u64, start: i64, end: i64, step: i64) -> (i64, u64) {
    let (length, step) = (size as i128, i128::from(step));
    let place = |at: i64, low: i128, high: i128| {
        let at = i128::from(at);
        (if at < 0 { at + length } else { at }).clamp(low, high)
    };
    let (start, end) = if step > 0 {
        (place(start, 0, length), place(end, 0, length))
    } else {
        (place(start, 0, (length - 1).max(0)), place(end, -1, length - 1))
    };
    let count = if step > 0 { (end - start + step - 1) / step } else { (start - end - step - 1) / -step };
    (start as i64, count.max(0) as u64)
}

/// `Gather`.
pub fn gather(given: &ShapeContext) -> InferredFacts {
    let (Some(shape), Some(places)) = (given.shape(0), given.shape(1)) else {
        return unknown_sizes(given, None);
    };
    let axis = given.axis_from_front(given.node.integer("axis").unwrap_or(0), shape.len())?;
    let mut out = shape.get(..axis).unwrap_or_default().to_vec();
    out.extend_from_slice(places);
    out.extend_from_slice(shape.get(axis + 1..).unwrap_or_default());
    let mut fact = ValueFact::new(given.data_type(0), Some(out));
    if shape.len() == 1 {
        let picked = || {
            let (values, places) = (given.input(0)?.as_integers()?, given.input(1)?.as_integers()?);
            let length = values.len() as i64;
            let at = |place: i64| {
                values.get(usize::try_from(if place < 0 { place + length } else { place }).ok()?)
            };
            places.iter().map(|place| at(*place).copied()).collect::<Option<Vec<i64>>>()
        };
        fact.small = picked().map(SmallElements::Integers);
    }
    Ok(vec![fact])
}

/// `GatherElements`: one element for each index.
pub fn gather_elements(given: &ShapeContext) -> InferredFacts {
    Ok(vec![ValueFact::new(given.data_type(0), given.shape(1).map(<[_]>::to_vec))])
}

/// `GatherND`.
pub fn gather_nd(given: &ShapeContext) -> InferredFacts {
    let (Some(shape), Some(places)) = (given.shape(0), given.shape(1)) else {
        return unknown_sizes(given, None);
    };
    let batches = given.node.integer("batch_dims").unwrap_or(0).max(0) as usize;
    let Some((Some(depth), outer)) = places.split_last() else { return unknown_sizes(given, None) };
    let Some(rest) = shape.get(batches.saturating_add(*depth as usize)..) else {
        return Err(given
            .mismatch_error(format!("places of {depth} numbers in a value of {} dimensions", shape.len())));
    };
    Ok(vec![ValueFact::new(given.data_type(0), Some([outer, rest].concat()))])
}

/// `Expand`: broadcast to a shape.
pub fn expand(given: &ShapeContext) -> InferredFacts {
    let Some(numbers) = given.input(1).and_then(ValueFact::as_integers) else {
        return unknown_sizes(given, None);
    };
    let counts = numbers
        .iter()
        .map(|size| given.checked_size(i128::from(*size)).map(Some))
        .collect::<Result<Vec<_>, Error>>()?;
    let shape = super::elementwise::broadcast(given, &[given.shape(0), Some(&counts)])?;
    let mut fact = ValueFact::new(given.data_type(0), shape);
    if let (Some(count), Some([value])) = (fact.elements(), given.input(0).and_then(ValueFact::as_integers))
        && count <= MAX_TRACKED_ELEMENTS as u64
    {
        fact.small = Some(SmallElements::Integers(vec![*value; count as usize]));
    }
    Ok(vec![fact])
}

/// `Tile`.
pub fn tile(given: &ShapeContext) -> InferredFacts {
    let (Some(shape), Some(times)) = (given.shape(0), given.input(1).and_then(ValueFact::as_integers)) else {
        return unknown_sizes(given, given.input(0).and_then(ValueFact::rank));
    };
    if shape.len() != times.len() {
        return Err(given.mismatch_error(format!("{} repeats for {} dimensions", times.len(), shape.len())));
    }
    let sizes = shape.iter().zip(times).map(|(size, times)| {
        size.map(|size| given.checked_size(i128::from(size) * i128::from(*times))).transpose()
    });
    Ok(vec![ValueFact::new(given.data_type(0), Some(sizes.collect::<Result<_, _>>()?))])
}

/// `Pad`: amounts before and after each dimension, or of the given axes.
pub fn pad(given: &ShapeContext) -> InferredFacts {
    let Some(shape) = given.shape(0) else { return unknown_sizes(given, None) };
    let Some(Some(pads)) = given.input_or_attribute(1, "pads") else {
        return unknown_sizes(given, Some(shape.len()));
    };
    let axes: Vec<usize> = match given.input(3) {
        None => (0..shape.len()).collect(),
        Some(axes) => match axes.as_integers() {
            Some(axes) => {
                axes.iter().map(|axis| given.axis_from_front(*axis, shape.len())).collect::<Result<_, _>>()?
            }
            None => return unknown_sizes(given, Some(shape.len())),
        },
    };
    if pads.len() != axes.len() * 2 {
        return Err(given.mismatch_error(format!("{} pads for {} dimensions", pads.len(), axes.len())));
    }
    let mut out = shape.to_vec();
    for (index, axis) in axes.iter().enumerate() {
        let Some(Some(size)) = out.get(*axis).copied() else { continue };
        let more = i128::from(pads[index]) + i128::from(pads[index + axes.len()]);
        out[*axis] = Some(given.checked_size(i128::from(size) + more)?);
    }
    Ok(vec![ValueFact::new(given.data_type(0), Some(out))])
}

/// `Resize`, `Upsample`: by sizes or by scales.
pub fn resize(given: &ShapeContext) -> InferredFacts {
    let Some(shape) = given.shape(0) else { return unknown_sizes(given, None) };
    let is_new = given.node.kind == "Resize" && given.opset >= 11;
    let sizes = is_new.then(|| given.input(3)).flatten().filter(|fact| fact.elements() != Some(0));
    let scales = given.input(if is_new { 2 } else { 1 }).filter(|fact| fact.elements() != Some(0));
    // Up to version 8 of `Upsample` the scales were an attribute.
    let values = match given.node.attributes.get("scales") {
        Some(NodeAttribute::Floats(scales)) => Some(scales.clone()),
        _ => None,
    };
    let axes: Vec<usize> = match given.node.integers("axes") {
        Some(axes) => {
            axes.iter().map(|axis| given.axis_from_front(*axis, shape.len())).collect::<Result<_, _>>()?
        }
        None => (0..shape.len()).collect(),
    };
    let mut out = shape.to_vec();
    if let Some(sizes) = sizes {
        let Some(sizes) = sizes.as_integers() else { return unknown_sizes(given, Some(shape.len())) };
        for (axis, size) in axes.iter().zip(sizes) {
            out[*axis] = Some(given.checked_size(i128::from(*size))?);
        }
    } else if scales.is_some() || values.is_some() {
        let Some(scales) = scales.and_then(ValueFact::to_floats).or(values) else {
            return unknown_sizes(given, Some(shape.len()));
        };
        for (axis, scale) in axes.iter().zip(scales) {
            if let Some(size) = out[*axis] {
                let scaled = (size as f64 * scale).floor();
                out[*axis] =
                    Some(given.checked_size(if scaled.is_finite() { scaled as i128 } else { -1 })?);
            }
        }
    } else {
        return unknown_sizes(given, Some(shape.len()));
    }
    Ok(vec![ValueFact::new(given.data_type(0), Some(out))])
}

/// `DepthToSpace`, `SpaceToDepth`.
pub fn depth_space(given: &ShapeContext) -> InferredFacts {
    let block = given.node.integer("blocksize").filter(|block| *block > 0).map(|block| block as u64);
    let (Some(&[batch, channels, height, width]), Some(block)) = (given.shape(0), block) else {
        return unknown_sizes(given, Some(4));
    };
    let square = block.saturating_mul(block);
    let times = |size: Option<u64>, by: u64| size.and_then(|size| size.checked_mul(by));
    let over = |size: Option<u64>, by: u64| size.map(|size| size / by);
    let out = if given.node.kind == "DepthToSpace" {
        vec![batch, over(channels, square), times(height, block), times(width, block)]
    } else {
        vec![batch, times(channels, square), over(height, block), over(width, block)]
    };
    Ok(vec![ValueFact::new(given.data_type(0), Some(out))])
}
