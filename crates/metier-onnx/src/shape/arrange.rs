//! Operators that move elements.

use super::{FOLLOWED, Fact, Given, Made};
use crate::Error;
use crate::graph::{Attribute, Small};

fn unknown(given: &Given, rank: Option<usize>) -> Made {
    Ok(vec![Fact::new(given.data_type(0), rank.map(|rank| vec![None; rank]))])
}

/// The same elements in another shape.
fn reshaped(given: &Given, shape: Vec<Option<u64>>) -> Made {
    let small = given.input(0).and_then(|fact| fact.small.clone());
    Ok(vec![Fact { small, ..Fact::new(given.data_type(0), Some(shape)) }])
}

/// `Reshape`: 0 keeps a dimension (unless `allowzero` is set), -1 is inferred.
pub fn reshape(given: &Given) -> Made {
    let Some(Some(wanted)) = given.listed(1, "shape") else {
        let rank = given.shape(1).and_then(|shape| shape.first().copied().flatten());
        return unknown(
            given,
            rank.filter(|rank| *rank <= given.limits.rank as u64).map(|rank| rank as usize),
        );
    };
    let input = given.shape(0);
    let keeps_zero = given.node.integer("allowzero").unwrap_or(0) == 0;
    let mut shape = Vec::with_capacity(wanted.len());
    let mut open = None;
    for (axis, size) in wanted.iter().enumerate() {
        shape.push(match size {
            0 if keeps_zero => input.and_then(|shape| shape.get(axis).copied().flatten()),
            -1 if open.is_none() => {
                open = Some(axis);
                None
            }
            -1 => return Err(given.misfit("two dimensions of -1")),
            size => Some(given.size(i128::from(*size))?),
        });
    }
    let count = given.input(0).and_then(Fact::elements);
    let others: Option<u64> = (0..shape.len())
        .filter(|axis| Some(*axis) != open)
        .try_fold(1u64, |product, axis| product.checked_mul(shape[axis]?));
    if let (Some(count), Some(others)) = (count, others) {
        match open {
            Some(axis) if others > 0 && count % others == 0 => shape[axis] = Some(count / others),
            Some(_) if others > 0 => {
                return Err(given.misfit(format!("{count} elements do not fit into {wanted:?}")));
            }
            None if count != others => {
                return Err(given.misfit(format!("{count} elements do not fit into {wanted:?}")));
            }
            _ => {}
        }
    }
    reshaped(given, shape)
}

/// `Flatten`.
pub fn flatten(given: &Given) -> Made {
    let Some(shape) = given.shape(0) else { return unknown(given, Some(2)) };
    let axis = given.node.integer("axis").unwrap_or(1);
    let axis = if axis == shape.len() as i64 { shape.len() } else { given.axis(axis, shape.len())? };
    let product =
        |part: &[Option<u64>]| part.iter().try_fold(1u64, |product, size| product.checked_mul((*size)?));
    let (before, after) = shape.split_at(axis);
    reshaped(given, vec![product(before), product(after)])
}

/// `Squeeze`.
pub fn squeeze(given: &Given) -> Made {
    let (Some(shape), Some(axes)) = (given.shape(0), given.listed(1, "axes")) else {
        return unknown(given, None);
    };
    let mut gone = vec![false; shape.len()];
    match axes {
        Some(axes) => {
            for axis in axes {
                let axis = given.axis(axis, shape.len())?;
                if let Some(size) = shape.get(axis).copied().flatten().filter(|size| *size != 1) {
                    return Err(given.misfit(format!("dimension {axis} is {size}, not 1")));
                }
                if let Some(gone) = gone.get_mut(axis) {
                    *gone = true;
                }
            }
        }
        // Without axes all dimensions of size 1 are removed; with an unknown size their number is
        // unknown.
        None if shape.contains(&None) => return unknown(given, None),
        None => gone = shape.iter().map(|size| *size == Some(1)).collect(),
    }
    let left = shape.iter().zip(gone).filter(|(_, gone)| !gone).map(|(size, _)| *size).collect();
    reshaped(given, left)
}

/// `Unsqueeze`.
pub fn unsqueeze(given: &Given) -> Made {
    let (Some(shape), Some(Some(axes))) = (given.shape(0), given.listed(1, "axes")) else {
        return unknown(given, None);
    };
    let rank = shape.len() + axes.len();
    let mut places = axes.iter().map(|axis| given.axis(*axis, rank)).collect::<Result<Vec<_>, Error>>()?;
    places.sort_unstable();
    let mut out = shape.to_vec();
    for place in places {
        if place > out.len() {
            return Err(given.misfit(format!("axes {axes:?} for {} dimensions", shape.len())));
        }
        out.insert(place, Some(1));
    }
    reshaped(given, out)
}

/// `Transpose`.
pub fn transpose(given: &Given) -> Made {
    let Some(shape) = given.shape(0) else { return unknown(given, None) };
    let order: Vec<i64> = match given.node.integers("perm") {
        Some(order) => order.to_vec(),
        None => (0..shape.len() as i64).rev().collect(),
    };
    if order.len() != shape.len() {
        return Err(given.misfit(format!("an order of {} for {} dimensions", order.len(), shape.len())));
    }
    let out = order
        .iter()
        .map(|axis| Ok(shape[given.axis(*axis, shape.len())?]))
        .collect::<Result<Vec<_>, Error>>()?;
    let mut fact = Fact::new(given.data_type(0), Some(out));
    fact.small = fact.dims().and_then(|sizes| {
        let order: Vec<usize> = order.iter().filter_map(|axis| given.axis(*axis, shape.len()).ok()).collect();
        picked(given, &sizes, |place, axis| {
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
fn picked(given: &Given, sizes: &[u64], from: impl Fn(&[u64], usize) -> i64) -> Option<Small> {
    let input = given.input(0)?;
    let (values, dims) = (input.whole()?, input.dims()?);
    let count = sizes.iter().try_fold(1u64, |product, size| product.checked_mul(*size))?;
    if count > FOLLOWED as u64 {
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
    Some(Small::Integers(out))
}

/// `Concat`.
pub fn concat(given: &Given) -> Made {
    let shapes: Option<Vec<&[Option<u64>]>> =
        (0..given.inputs.len()).map(|index| given.shape(index)).collect();
    let Some(shapes) = shapes.filter(|shapes| !shapes.is_empty()) else { return unknown(given, None) };
    let rank = shapes[0].len();
    let axis = given.axis(given.node.integer("axis").unwrap_or(1), rank)?;
    let mut out = shapes[0].to_vec();
    for shape in &shapes[1..] {
        if shape.len() != rank {
            return Err(given.misfit(format!("values of {rank} and {} dimensions side by side", shape.len())));
        }
        for (place, size) in shape.iter().enumerate() {
            out[place] = match (place == axis, out[place], *size) {
                (true, Some(a), Some(b)) => Some(given.size(i128::from(a) + i128::from(b))?),
                (true, ..) => None,
                (false, Some(a), Some(b)) if a != b => {
                    return Err(given.misfit(format!("sizes {a} and {b} of dimension {place} side by side")));
                }
                (false, a, b) => a.or(b),
            };
        }
    }
    let mut fact = Fact::new(given.data_type(0), Some(out));
    let count = given.inputs.iter().flatten().fold(0usize, |sum, input| sum.saturating_add(input.followed()));
    if rank == 1 && count <= FOLLOWED {
        let parts: Option<Vec<&[i64]>> =
            given.inputs.iter().map(|input| input.and_then(|fact| fact.whole())).collect();
        fact.small = parts.map(|parts| Small::Integers(parts.concat())).or_else(|| {
            let parts: Option<Vec<Vec<f64>>> =
                given.inputs.iter().map(|input| input.and_then(Fact::real)).collect();
            parts.map(|parts| Small::Floats(parts.concat()))
        });
    }
    Ok(vec![fact])
}

/// `Split`: sizes as an input or attribute, else equal parts.
pub fn split(given: &Given) -> Made {
    let count = given.node.outputs.len();
    let Some(shape) = given.shape(0) else { return Ok(vec![Fact::new(given.data_type(0), None); count]) };
    let axis = given.axis(given.node.integer("axis").unwrap_or(0), shape.len())?;
    let whole = shape.get(axis).copied().flatten();
    let sizes: Vec<Option<u64>> = match given.listed(1, "split") {
        Some(Some(sizes)) => {
            sizes.iter().map(|size| given.size(i128::from(*size)).map(Some)).collect::<Result<_, _>>()?
        }
        Some(None) => {
            let parts =
                given.node.integer("num_outputs").map_or(count as u64, |parts| parts.max(1) as u64).max(1);
            let part = whole.map(|whole| whole.div_ceil(parts));
            (0..count as u64).map(|n| Some(part?.min(whole?.saturating_sub(part? * n)))).collect()
        }
        None => vec![None; count],
    };
    let values = given.input(0).filter(|input| input.rank() == Some(1)).and_then(Fact::whole);
    let mut from = Some(0usize);
    let mut made = Vec::with_capacity(count);
    for index in 0..count {
        let size = sizes.get(index).copied().flatten();
        let mut out = shape.to_vec();
        if let Some(place) = out.get_mut(axis) {
            *place = size;
        }
        let mut fact = Fact::new(given.data_type(0), Some(out));
        let to = from.zip(size).and_then(|(from, size)| from.checked_add(usize::try_from(size).ok()?));
        fact.small = values
            .zip(from.zip(to))
            .and_then(|(values, (from, to))| values.get(from..to))
            .map(|part| Small::Integers(part.to_vec()));
        from = to;
        made.push(fact);
    }
    Ok(made)
}

/// `Slice`: bounds as inputs, up to version 9 as attributes.
pub fn slice(given: &Given) -> Made {
    let Some(shape) = given.shape(0) else { return unknown(given, None) };
    let (starts, ends, axes, steps) = if given.inputs.len() > 1 {
        let get = |index: usize| given.input(index).map(|fact| fact.whole().map(<[i64]>::to_vec));
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
        return unknown(given, Some(shape.len()));
    }
    let mut out = shape.to_vec();
    let mut cuts: Vec<(i64, i64)> = vec![(0, 1); shape.len()];
    for (index, axis) in axes.iter().enumerate() {
        let axis = given.axis(*axis, shape.len())?;
        let Some(place) = out.get_mut(axis) else { continue };
        let at = |list: &Option<Vec<i64>>| list.as_ref().and_then(|list| list.get(index).copied());
        let step = match &steps {
            None => Some(1),
            Some(steps) => at(steps),
        };
        *place = match (*place, at(&starts), at(&ends), step) {
            (_, _, _, Some(0)) => return Err(given.misfit("a step of 0")),
            (Some(size), Some(start), Some(end), Some(step)) => {
                let (from, count) = part(size, start, end, step);
                cuts[axis] = (from, step);
                Some(count)
            }
            _ => None,
        };
    }
    let mut fact = Fact::new(given.data_type(0), Some(out));
    fact.small = fact.dims().and_then(|sizes| {
        picked(given, &sizes, |place, axis| {
            let (from, step) = cuts[axis];
            place.get(axis).map_or(-1, |at| from.saturating_add((*at as i64).saturating_mul(step)))
        })
    });
    Ok(vec![fact])
}

/// Start and number of the elements between two bounds, by numpy's rule.
fn part(size: u64, start: i64, end: i64, step: i64) -> (i64, u64) {
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
pub fn gather(given: &Given) -> Made {
    let (Some(shape), Some(places)) = (given.shape(0), given.shape(1)) else { return unknown(given, None) };
    let axis = given.axis(given.node.integer("axis").unwrap_or(0), shape.len())?;
    let mut out = shape.get(..axis).unwrap_or_default().to_vec();
    out.extend_from_slice(places);
    out.extend_from_slice(shape.get(axis + 1..).unwrap_or_default());
    let mut fact = Fact::new(given.data_type(0), Some(out));
    if shape.len() == 1 {
        let picked = || {
            let (values, places) = (given.input(0)?.whole()?, given.input(1)?.whole()?);
            let length = values.len() as i64;
            let at = |place: i64| {
                values.get(usize::try_from(if place < 0 { place + length } else { place }).ok()?)
            };
            places.iter().map(|place| at(*place).copied()).collect::<Option<Vec<i64>>>()
        };
        fact.small = picked().map(Small::Integers);
    }
    Ok(vec![fact])
}

/// `GatherElements`: one element for each index.
pub fn gather_elements(given: &Given) -> Made {
    Ok(vec![Fact::new(given.data_type(0), given.shape(1).map(<[_]>::to_vec))])
}

/// `GatherND`.
pub fn gather_nd(given: &Given) -> Made {
    let (Some(shape), Some(places)) = (given.shape(0), given.shape(1)) else { return unknown(given, None) };
    let batches = given.node.integer("batch_dims").unwrap_or(0).max(0) as usize;
    let Some((Some(depth), outer)) = places.split_last() else { return unknown(given, None) };
    let Some(rest) = shape.get(batches.saturating_add(*depth as usize)..) else {
        return Err(
            given.misfit(format!("places of {depth} numbers in a value of {} dimensions", shape.len()))
        );
    };
    Ok(vec![Fact::new(given.data_type(0), Some([outer, rest].concat()))])
}

/// `Expand`: broadcast to a shape.
pub fn expand(given: &Given) -> Made {
    let Some(wanted) = given.input(1).and_then(Fact::whole) else { return unknown(given, None) };
    let wanted = wanted
        .iter()
        .map(|size| given.size(i128::from(*size)).map(Some))
        .collect::<Result<Vec<_>, Error>>()?;
    let shape = super::elementwise::broadcast(given, &[given.shape(0), Some(&wanted)])?;
    let mut fact = Fact::new(given.data_type(0), shape);
    if let (Some(count), Some([value])) = (fact.elements(), given.input(0).and_then(Fact::whole))
        && count <= FOLLOWED as u64
    {
        fact.small = Some(Small::Integers(vec![*value; count as usize]));
    }
    Ok(vec![fact])
}

/// `Tile`.
pub fn tile(given: &Given) -> Made {
    let (Some(shape), Some(times)) = (given.shape(0), given.input(1).and_then(Fact::whole)) else {
        return unknown(given, given.input(0).and_then(Fact::rank));
    };
    if shape.len() != times.len() {
        return Err(given.misfit(format!("{} repeats for {} dimensions", times.len(), shape.len())));
    }
    let sizes = shape
        .iter()
        .zip(times)
        .map(|(size, times)| size.map(|size| given.size(i128::from(size) * i128::from(*times))).transpose());
    Ok(vec![Fact::new(given.data_type(0), Some(sizes.collect::<Result<_, _>>()?))])
}

/// `Pad`: amounts before and after each dimension, or of the given axes.
pub fn pad(given: &Given) -> Made {
    let Some(shape) = given.shape(0) else { return unknown(given, None) };
    let Some(Some(pads)) = given.listed(1, "pads") else { return unknown(given, Some(shape.len())) };
    let axes: Vec<usize> = match given.input(3) {
        None => (0..shape.len()).collect(),
        Some(axes) => match axes.whole() {
            Some(axes) => axes.iter().map(|axis| given.axis(*axis, shape.len())).collect::<Result<_, _>>()?,
            None => return unknown(given, Some(shape.len())),
        },
    };
    if pads.len() != axes.len() * 2 {
        return Err(given.misfit(format!("{} pads for {} dimensions", pads.len(), axes.len())));
    }
    let mut out = shape.to_vec();
    for (index, axis) in axes.iter().enumerate() {
        let Some(Some(size)) = out.get(*axis).copied() else { continue };
        let more = i128::from(pads[index]) + i128::from(pads[index + axes.len()]);
        out[*axis] = Some(given.size(i128::from(size) + more)?);
    }
    Ok(vec![Fact::new(given.data_type(0), Some(out))])
}

/// `Resize`, `Upsample`: by sizes or by scales.
pub fn resize(given: &Given) -> Made {
    let Some(shape) = given.shape(0) else { return unknown(given, None) };
    let is_new = given.node.kind == "Resize" && given.opset >= 11;
    let sizes = is_new.then(|| given.input(3)).flatten().filter(|fact| fact.elements() != Some(0));
    let scales = given.input(if is_new { 2 } else { 1 }).filter(|fact| fact.elements() != Some(0));
    // Up to version 8 of `Upsample` the scales were an attribute.
    let said = match given.node.attributes.get("scales") {
        Some(Attribute::Floats(scales)) => Some(scales.clone()),
        _ => None,
    };
    let axes: Vec<usize> = match given.node.integers("axes") {
        Some(axes) => axes.iter().map(|axis| given.axis(*axis, shape.len())).collect::<Result<_, _>>()?,
        None => (0..shape.len()).collect(),
    };
    let mut out = shape.to_vec();
    if let Some(sizes) = sizes {
        let Some(sizes) = sizes.whole() else { return unknown(given, Some(shape.len())) };
        for (axis, size) in axes.iter().zip(sizes) {
            out[*axis] = Some(given.size(i128::from(*size))?);
        }
    } else if scales.is_some() || said.is_some() {
        let Some(scales) = scales.and_then(Fact::real).or(said) else {
            return unknown(given, Some(shape.len()));
        };
        for (axis, scale) in axes.iter().zip(scales) {
            if let Some(size) = out[*axis] {
                let scaled = (size as f64 * scale).floor();
                out[*axis] = Some(given.size(if scaled.is_finite() { scaled as i128 } else { -1 })?);
            }
        }
    } else {
        return unknown(given, Some(shape.len()));
    }
    Ok(vec![Fact::new(given.data_type(0), Some(out))])
}

/// `DepthToSpace`, `SpaceToDepth`.
pub fn blocks(given: &Given) -> Made {
    let block = given.node.integer("blocksize").filter(|block| *block > 0).map(|block| block as u64);
    let (Some(&[batch, channels, height, width]), Some(block)) = (given.shape(0), block) else {
        return unknown(given, Some(4));
    };
    let square = block.saturating_mul(block);
    let times = |size: Option<u64>, by: u64| size.and_then(|size| size.checked_mul(by));
    let over = |size: Option<u64>, by: u64| size.map(|size| size / by);
    let out = if given.node.kind == "DepthToSpace" {
        vec![batch, over(channels, square), times(height, block), times(width, block)]
    } else {
        vec![batch, times(channels, square), over(height, block), over(width, block)]
    };
    Ok(vec![Fact::new(given.data_type(0), Some(out))])
}
