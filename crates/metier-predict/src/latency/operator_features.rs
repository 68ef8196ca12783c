//! Computes the operators that a runtime executes for a graph, and their features.
//!
//! A step is one operator as executed, with the operators fused into it (`fuse`). Its *basis* are
//! counts that its time is roughly proportional to; its *features* are further inputs of the model.

use std::collections::BTreeMap;

use metier_onnx::analysis::ValueDescription;
use metier_onnx::{DataType, GraphAnalysis, OperatorCost};

use super::error::LatencyError;
use super::family::OperatorFamily;
use super::operator_fusion;

/// Increment when counts, generated networks or the timing method change: older trials are then
/// excluded from training, and older predictors are not used.
pub const FEATURE_VERSION: u32 = 3;

/// Names of the basis counts.
pub const LINEAR_FEATURES: [&str; 9] =
    ["one", "work", "left", "right", "made", "pieces", "turned", "beyond-cache", "from-afar"];

/// Names of the features.
pub const TREE_FEATURES: [&str; 31] = [
    "kind",
    "work",
    "read",
    "written",
    "weights",
    "intensity",
    "batch",
    "rows",
    "depth",
    "columns",
    "pieces",
    "kernel",
    "kernel-width",
    "stride",
    "stride-down",
    "dilation",
    "channels",
    "height",
    "width",
    "last",
    "run",
    "bits",
    "broadcast",
    "own",
    "passing",
    "turned",
    "apart",
    "twos",
    "between",
    "turns",
    "threads",
];

pub const FEATURE_COUNT: usize = TREE_FEATURES.len();

/// Indices of the counts and features that depend on neighbouring steps; the threads come last.
const WEIGHTS_OUTSIDE_CACHE: usize = LINEAR_FEATURES.len() - 1;
const BYTES_BETWEEN: usize = FEATURE_COUNT - 3;

/// One operator as executed.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorStep {
    /// Index of the operator in the graph.
    pub operator: usize,
    /// Operators fused into it.
    pub absorbed: Vec<usize>,
    pub family: OperatorFamily,
    /// Operator kind; a fused operator has the name of the result.
    pub kind: String,
    /// Number of iterations.
    pub turns: u64,
    /// Multiply-adds per iteration.
    pub multiply_adds: f64,
    /// Bytes read and written per iteration.
    pub bytes: f64,
    /// Bytes of weights read per iteration.
    pub weight_bytes: f64,
    /// See [`LINEAR_FEATURES`].
    pub basis: [f64; LINEAR_FEATURES.len()],
    /// See [`TREE_FEATURES`]; the last is set once the number of threads is known.
    pub features: [f64; FEATURE_COUNT],
}

/// The steps of a graph in a runtime. Operators that the runtime removes have no step; fused ones
/// belong to another step.
pub fn steps(graph: &GraphAnalysis, runtime: &str) -> Result<Vec<OperatorStep>, LatencyError> {
    let open: Vec<&OperatorCost> = graph
        .operators
        .iter()
        .filter(|cost| cost.multiply_adds.is_none() && !OperatorFamily::of_kind(&cost.kind).is_small())
        .filter(|cost| cost.elements.is_none())
        .collect();
    if let Some(first) = open.first() {
        let first = if first.name.is_empty() { first.kind.clone() } else { first.name.clone() };
        return Err(LatencyError::Open { operators: open.len() as u64, first });
    }
    let mut steps: Vec<OperatorStep> =
        operator_fusion::plan(graph, runtime).into_iter().map(|plan| step(&graph.operators, plan)).collect();
    place_weights(&mut steps, &graph.operators);
    if steps.is_empty() {
        return Err(LatencyError::Empty);
    }
    Ok(steps)
}

/// Determines for each step where its weights are before their next use: in the next iteration for
/// a loop body, else in the next inference. Data read and written in between evicts them from
/// caches that are too small.
fn place_weights(steps: &mut [OperatorStep], operators: &[OperatorCost]) {
    let mut bodies: BTreeMap<(&str, u64), (f64, f64)> = BTreeMap::new();
    let body = |step: &OperatorStep| (operators[step.operator].inside.as_str(), step.turns);
    for step in steps.iter() {
        let (weights, others) = bodies.entry(body(step)).or_default();
        *weights += step.weight_bytes;
        *others = f64::max(*others, step.bytes - step.weight_bytes);
    }
    let whole = bodies.values().fold((0.0, 0.0), |all: (f64, f64), one| (all.0 + one.0, all.1.max(one.1)));
    for step in steps {
        let (inside, turns) = body(step);
        // A branch or function inside a loop body belongs to the loop: its path starts with the
        // loop's.
        let is_own = |other: &str| other.starts_with(inside) || inside.starts_with(other);
        let own = || bodies.iter().filter(|((other, often), _)| *often == turns && is_own(other));
        let (weights, others) = match turns {
            0 | 1 => whole,
            _ => own().fold((0.0, 0.0), |all: (f64, f64), (_, one)| (all.0 + one.0, all.1.max(one.1))),
        };
        let between = weights + others;
        let afar = ((between / OWN_CACHE_BYTES).log2() / (ALL_CACHES_BYTES / OWN_CACHE_BYTES).log2())
            .clamp(0.0, 1.0);
        step.basis[WEIGHTS_OUTSIDE_CACHE] = step.weight_bytes * afar;
        step.features[BYTES_BETWEEN] = (1.0 + between).log2();
        step.features[BYTES_BETWEEN + 1] = (step.turns as f64).log2();
    }
}

impl OperatorFamily {
    /// Whether an operator of unknown size may be assumed small.
    fn is_small(self) -> bool {
        !matches!(
            self,
            Self::Conv
                | Self::ConvPoint
                | Self::ConvDepth
                | Self::ConvTranspose
                | Self::MatMul
                | Self::Recurrent
        )
    }
}

/// Dimensions of a value; unknown ones count as 1.
pub fn dims(value: Option<&ValueDescription>) -> Vec<f64> {
    let shape = value.and_then(|value| value.shape.as_ref());
    shape.map(|shape| shape.iter().map(|size| size.unwrap_or(1) as f64).collect()).unwrap_or_default()
}

/// Number of elements.
pub fn count(dims: &[f64]) -> f64 {
    dims.iter().product()
}

/// A batch of matrix products: `rows × depth` times `depth × columns`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct MatrixProduct {
    times: f64,
    rows: f64,
    depth: f64,
    columns: f64,
}

/// Register tile and block depth of the runtimes' kernels for wide vectors. Other kernels differ;
/// the trained model corrects for that.
const TILE_ROWS: f64 = 6.0;
const TILE_COLUMNS: f64 = 32.0;
const BLOCK_DEPTH: f64 = 256.0;
/// Data larger than this does not fit into a core's private cache.
const OWN_CACHE_BYTES: f64 = (1u64 << 20) as f64;
/// Data larger than this fits into no cache; data in between partly fits into a shared one.
const ALL_CACHES_BYTES: f64 = (32u64 << 20) as f64;

fn step(operators: &[OperatorCost], plan: operator_fusion::FusedOperator) -> OperatorStep {
    let cost = &operators[plan.operator];
    let attribute = |name: &str, at: usize| {
        cost.attributes.get(name).and_then(|values| values.get(at)).map(|value| *value as f64)
    };
    let out = dims(cost.outputs.first());
    let input = dims(cost.inputs.first());
    let made: f64 = cost.outputs.iter().map(|value| count(&dims(Some(value)))).sum();
    let written = cost.written_bytes.map_or(0.0, |bytes| bytes.0 as f64);
    // Inputs that are only indexed are not read completely.
    let most = match plan.kind.as_str() {
        "Gather" | "GatherElements" | "GatherND" | "Slice" => 2.0 * written,
        "Shape" | "Size" => 0.0,
        _ => f64::INFINITY,
    };
    let read = cost.read_bytes.map_or(0.0, |bytes| bytes.0 as f64).min(most);
    let mut weights = cost.weight_bytes.map_or(0.0, |bytes| bytes.0 as f64).min(read);
    // Some exporters pass a loop's weights as loop state; the right side of a product is then
    // reused in every iteration.
    if weights == 0.0 && cost.turns > 1 && cost.kind == "MatMul" {
        let right = dims(cost.inputs.get(1));
        weights = if right.len() == 2 { 4.0 * count(&right) } else { 0.0 };
    }
    let adds = cost.multiply_adds.unwrap_or(0) as f64;
    let bits = cost.inputs.first().and_then(|value| value.data_type).and_then(DataType::bits);
    let mut family = plan.family;
    let mut features = [0.0; FEATURE_COUNT];
    let weight_at = if cost.kind.starts_with("QLinear") { 3 } else { 1 };
    let kernel = dims(cost.inputs.get(weight_at));
    let group = attribute("group", 0).unwrap_or(1.0).max(1.0);
    let window: Vec<f64> = match cost.attributes.get("kernel_shape") {
        Some(shape) => shape.iter().map(|size| *size as f64).collect(),
        None if matches!(family, OperatorFamily::Conv | OperatorFamily::ConvTranspose) => {
            kernel.iter().skip(2).copied().collect()
        }
        None => Vec::new(),
    };
    let stride = attribute("strides", 0).unwrap_or(1.0).max(1.0);
    let across = cost
        .attributes
        .get("strides")
        .and_then(|strides| strides.last())
        .map_or(1.0, |stride| *stride as f64);
    let is_padded = cost.attributes.get("pads").is_some_and(|pads| pads.iter().any(|pad| *pad != 0));
    let product = product(cost, family, &out, &input, &kernel, group);
    if family == OperatorFamily::Conv {
        let is_depth = group > 1.0
            && group == input.get(1).copied().unwrap_or(0.0)
            && group == out.get(1).copied().unwrap_or(0.0);
        let is_point = count(&window) == 1.0 && stride == 1.0 && across == 1.0 && group == 1.0 && !is_padded;
        family = if is_depth {
            OperatorFamily::ConvDepth
        } else if is_point {
            OperatorFamily::ConvPoint
        } else {
            family
        };
    }
    if family == OperatorFamily::MatMul && product.is_some_and(|product| product.rows == 1.0) {
        family = OperatorFamily::MatVec;
    }
    let last = out.last().copied().unwrap_or(1.0).max(1.0);
    let run = run_length(cost, &out, &input);
    let bytes = read + written;
    let beyond = (bytes - OWN_CACHE_BYTES).max(0.0);
    let window_size = count(&window).max(1.0);
    let up = |value: f64, step: f64| (value / step).ceil() * step;
    let turned = transposed_sides(operators, cost, &plan.absorbed);
    let basis = match (family, product) {
        (OperatorFamily::ConvDepth, _) => {
            // The kernel loops along each output row for each window element. Neighbouring inputs
            // use vectors, strided ones are scalar. Elements in the padding are left out.
            let (loops, adds) =
                unpadded_work(cost, &window, &out, &input).unwrap_or((made / last * window_size, adds));
            let (near, apart) = if across == 1.0 { (adds, 0.0) } else { (0.0, adds) };
            [1.0, near, loops, apart, made, made / last, 0.0, beyond]
        }
        (OperatorFamily::Recurrent, _) => recurrent(cost, &input, made),
        (_, Some(MatrixProduct { times, rows, depth, columns })) => {
            // The right side is packed by rows, or element by element if it is transposed.
            let right = times * depth * up(columns, TILE_COLUMNS);
            let (right, across) = if turned.right { (0.0, right) } else { (right, 0.0) };
            [
                1.0,
                times * up(rows, TILE_ROWS) * up(columns, TILE_COLUMNS) * depth,
                times * rows * depth,
                right,
                times * rows * columns * (depth / BLOCK_DEPTH).ceil(),
                times,
                across,
                beyond,
            ]
        }
        (OperatorFamily::Pool, _) => [1.0, made * window_size, read, 0.0, made, made / last, 0.0, beyond],
        // No copy is made if the input has no other consumer.
        (OperatorFamily::View, _) if plan.is_own || matches!(plan.kind.as_str(), "Shape" | "Size") => {
            [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        }
        _ => {
            let taken: f64 = input.iter().product::<f64>().max(0.0);
            // Without contiguous runs, the loop follows the last axis of the output.
            let run = if plan.kind == "Transpose" { run.max(last) } else { run };
            [1.0, made, read - weights, weights, taken, (made.max(taken)) / run.max(1.0), 0.0, beyond]
        }
    };
    let mut counts = [0.0; LINEAR_FEATURES.len()];
    counts[..WEIGHTS_OUTSIDE_CACHE].copy_from_slice(&basis);
    let product = product.unwrap_or(MatrixProduct { times: 0.0, rows: 0.0, depth: 0.0, columns: 0.0 });
    let log = |value: f64| (1.0 + value.max(0.0)).log2();
    let values = [
        plan.code,
        log(basis[1]),
        log(read),
        log(written),
        log(weights),
        log(adds) - log(bytes),
        log(if product.times > 0.0 { product.times } else { out.first().copied().unwrap_or(1.0) }),
        log(product.rows),
        log(product.depth),
        log(product.columns),
        log(basis[5]),
        window_size,
        window.last().copied().unwrap_or(1.0),
        across,
        stride,
        attribute("dilations", 0).unwrap_or(1.0),
        log(out.get(1).copied().unwrap_or(1.0)),
        out.get(out.len().saturating_sub(2)).copied().unwrap_or(1.0).min(1e6),
        last.min(1e6),
        log(last),
        log(run),
        bits.unwrap_or(32) as f64,
        broadcast(cost, &out),
        f64::from(u8::from(plan.is_own)),
        plan.absorbed.len() as f64,
        f64::from(u8::from(turned.right)) + 2.0 * f64::from(u8::from(turned.left)),
        log(element_stride(cost, &out, &input)),
        power_of_two(element_stride(cost, &out, &input)),
    ];
    features[..values.len()].copy_from_slice(&values);
    OperatorStep {
        operator: plan.operator,
        absorbed: plan.absorbed,
        family,
        kind: plan.kind,
        turns: cost.turns.max(1),
        multiply_adds: adds,
        bytes,
        weight_bytes: weights,
        basis: counts,
        features,
    }
}

/// The matrix products of an operator.
fn product(
    cost: &OperatorCost,
    family: OperatorFamily,
    out: &[f64],
    input: &[f64],
    kernel: &[f64],
    group: f64,
) -> Option<MatrixProduct> {
    match family {
        OperatorFamily::Conv => {
            let depth = count(kernel.get(1..)?);
            let (batch, channels) = (out.first()?, out.get(1)?);
            let columns = count(out.get(2..)?);
            Some(MatrixProduct { times: batch * group, rows: channels / group, depth, columns })
        }
        OperatorFamily::ConvTranspose => {
            // Weights are input channels × output channels × window: the product computes patches
            // that are then summed.
            let depth = *kernel.first()?;
            let rows = count(kernel.get(1..)?);
            let columns = count(input.get(2..)?);
            Some(MatrixProduct { times: *out.first()?, rows, depth, columns })
        }
        OperatorFamily::Recurrent => {
            let (times, columns) = (*kernel.first()?, *kernel.get(1)?);
            let depth = *input.last()?;
            Some(MatrixProduct { times, rows: count(input) / depth.max(1.0), depth, columns })
        }
        OperatorFamily::MatMul => {
            let columns = *out.last()?;
            let rows = *out.get(out.len().checked_sub(2)?).unwrap_or(&1.0);
            let elements = count(out);
            let depth = cost.multiply_adds? as f64 / elements.max(1.0);
            let batch = elements / (rows * columns).max(1.0);
            // With weights shared by the batch it is one product with more rows.
            let is_flat = cost.inputs.get(1).is_some_and(|value| dims(Some(value)).len() <= 2);
            if is_flat {
                return Some(MatrixProduct { times: 1.0, rows: rows * batch, depth, columns });
            }
            Some(MatrixProduct { times: batch, rows, depth, columns })
        }
        _ => None,
    }
}

/// Counts of a recurrent operator: the input is multiplied for all time steps at once, the state
/// step by step.
fn recurrent(cost: &OperatorCost, input: &[f64], made: f64) -> [f64; WEIGHTS_OUTSIDE_CACHE] {
    let state = dims(cost.inputs.get(2));
    let size = |dims: &[f64], at: usize| dims.get(at).copied().unwrap_or(1.0);
    let (ways, gates, hidden) = (size(&state, 0), size(&state, 1), size(&state, 2));
    let (steps, batch, taken) = (size(input, 0), size(input, 1), size(input, 2));
    let all = steps * batch;
    let beyond = (4.0 * gates * hidden - OWN_CACHE_BYTES).max(0.0);
    [
        1.0,
        ways * (all / TILE_ROWS).ceil() * TILE_ROWS * gates * taken,
        ways * all * gates * hidden,
        ways * gates * (taken + hidden),
        made + ways * all * gates,
        ways * steps,
        0.0,
        ways * steps * beyond,
    ]
}

/// Loops and multiply-adds of a depthwise convolution outside the padding; for images with few rows
/// far fewer than the total.
fn unpadded_work(cost: &OperatorCost, window: &[f64], out: &[f64], input: &[f64]) -> Option<(f64, f64)> {
    let at = |name: &str, axis: usize| {
        cost.attributes.get(name).and_then(|values| values.get(axis)).map(|value| *value as f64)
    };
    // Pairs along one axis of an output and a window element whose input exists.
    let pairs = |axis: usize| {
        let (size, out, input) = (*window.get(axis)?, *out.get(axis + 2)?, *input.get(axis + 2)?);
        let stride = at("strides", axis).unwrap_or(1.0).max(1.0);
        let dilation = at("dilations", axis).unwrap_or(1.0);
        // Without explicit pads the missing ones are split between both ends.
        let missing = ((out - 1.0) * stride + (size - 1.0) * dilation + 1.0 - input).max(0.0);
        let pad = at("pads", axis).unwrap_or((missing / 2.0).floor());
        let reach = |element: u64| {
            let shift = pad - element as f64 * dilation;
            let end = ((input + shift) / stride).ceil().clamp(0.0, out);
            (end - (shift / stride).ceil().clamp(0.0, out)).max(0.0)
        };
        Some((0..size.min(MAX_WINDOW_SIDE) as u64).map(reach).sum::<f64>())
    };
    let channels = out.first()? * out.get(1)?;
    match window {
        [wide] => Some((channels * wide, channels * pairs(0)?)),
        [_, wide] => {
            let rows = channels * pairs(0)?;
            Some((rows * wide, rows * pairs(1)?))
        }
        _ => None,
    }
}

/// Largest window side that is enumerated.
const MAX_WINDOW_SIDE: f64 = 1024.0;

/// Sides of a product that are transposed: their rows are columns in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct TransposedSides {
    left: bool,
    right: bool,
}

fn transposed_sides(operators: &[OperatorCost], cost: &OperatorCost, absorbed: &[usize]) -> TransposedSides {
    let is_set =
        |name: &str| cost.attributes.get(name).and_then(|value| value.first()).is_some_and(|is| *is != 0);
    // A fused transpose that moves the contiguous axis makes a side strided.
    let is_turned = |side: usize| {
        let Some(value) = cost.inputs.get(side) else { return false };
        let made = |at: &&usize| operators[**at].outputs.first().is_some_and(|made| made.name == value.name);
        let Some(turn) = absorbed.iter().find(made).map(|at| &operators[*at]) else { return false };
        let rank = dims(turn.outputs.first()).len();
        let flag = match turn.attributes.get("perm") {
            Some(perm) => perm.last().is_some_and(|last| *last + 1 == rank as i64),
            None => rank < 2,
        };
        turn.kind == "Transpose" && !flag
    };
    TransposedSides { left: is_set("transA") != is_turned(0), right: is_set("transB") != is_turned(1) }
}

/// Stride in elements of the inner loop; 0 for contiguous values.
fn element_stride(cost: &OperatorCost, out: &[f64], input: &[f64]) -> f64 {
    let behind = |axis: usize| input.get(axis + 1..).map_or(1.0, count);
    let axis = match cost.kind.as_str() {
        "Transpose" => match cost.attributes.get("perm") {
            Some(perm) => perm.last().map(|axis| *axis as usize),
            None => Some(0),
        },
        "Softmax" | "LogSoftmax" => {
            let axis = cost.attributes.get("axis").and_then(|axes| axes.first()).copied().unwrap_or(-1);
            Some(if axis < 0 { input.len() as i64 + axis } else { axis } as usize)
        }
        kind if kind.starts_with("Reduce") => reduced(cost, out, input).last().copied(),
        _ => None,
    };
    match axis.filter(|axis| *axis < input.len()).map(behind) {
        Some(apart) if apart > 1.0 => apart,
        _ => 0.0,
    }
}

/// Number of factors of two in the stride in bytes, up to a page: such strides map to few cache
/// sets.
fn power_of_two(apart: f64) -> f64 {
    if apart < 1.0 { 0.0 } else { (apart as u64).saturating_mul(4).trailing_zeros().min(12).into() }
}

/// Axes of a reduction in ascending order; inferred from the shapes if they are an input.
fn reduced(cost: &OperatorCost, out: &[f64], input: &[f64]) -> Vec<usize> {
    let rank = input.len();
    let mut axes: Vec<usize> = match cost.attributes.get("axes") {
        Some(axes) => {
            axes.iter().map(|axis| if *axis < 0 { rank as i64 + axis } else { *axis } as usize).collect()
        }
        None if out.len() == rank => (0..rank).filter(|at| out[*at] != input[*at]).collect(),
        // One axis is missing: the last possible one is assumed, the usual case.
        None if out.len() + 1 == rank => {
            let fits = |axis: &usize| out[..*axis] == input[..*axis] && out[*axis..] == input[*axis + 1..];
            (0..rank).rev().find(fits).into_iter().collect()
        }
        None => (out.len()..rank).collect(),
    };
    axes.retain(|axis| *axis < rank);
    axes.sort_unstable();
    axes
}

/// Length of contiguous runs, in elements, when values are moved.
fn run_length(cost: &OperatorCost, out: &[f64], input: &[f64]) -> f64 {
    let rank = out.len();
    let behind = |dims: &[f64], axis: usize| dims.get(axis..).map_or(1.0, count).max(1.0);
    let axis = |rank: usize| {
        let axis = cost.attributes.get("axis").and_then(|values| values.first()).copied().unwrap_or(0);
        if axis < 0 { (rank as i64 + axis).max(0) as usize } else { axis as usize }
    };
    match cost.kind.as_str() {
        "Transpose" => {
            let perm: Vec<i64> = match cost.attributes.get("perm") {
                Some(perm) => perm.clone(),
                None => (0..rank as i64).rev().collect(),
            };
            let number = (0..rank).rev().take_while(|at| perm.get(*at) == Some(&(*at as i64))).count();
            behind(out, rank - number.min(rank))
        }
        "Concat" | "Split" => behind(if cost.kind == "Split" { out } else { input }, axis(rank)),
        "Gather" => behind(input, axis(input.len()) + 1),
        "Softmax" | "LogSoftmax" => {
            // One run for each row, on any axis.
            let at = cost.attributes.get("axis").and_then(|axes| axes.first()).copied().unwrap_or(-1);
            let at = if at < 0 { (input.len() as i64 + at).max(0) } else { at } as usize;
            input.get(at).copied().unwrap_or(1.0)
        }
        "ReduceMean" | "ReduceSum" | "ReduceMax" | "ReduceMin" | "ReduceProd" | "ReduceL2" => {
            let reduces_last = reduced(cost, out, input).last().is_some_and(|axis| axis + 1 == input.len());
            if reduces_last { input.last().copied().unwrap_or(1.0) } else { 1.0 }
        }
        "Slice" | "Pad" | "Tile" | "Expand" => {
            // Trailing dimensions that are equal before and after.
            let same = out.iter().rev().zip(input.iter().rev()).take_while(|(a, b)| a == b).count();
            let run = behind(out, rank - same);
            run * out
                .get(rank.wrapping_sub(same + 1))
                .copied()
                .unwrap_or(1.0)
                .min(input.get(input.len().wrapping_sub(same + 1)).copied().unwrap_or(1.0))
                .max(1.0)
        }
        "GlobalAveragePool" | "GlobalMaxPool" => behind(input, 2),
        "LayerNormalization" => out.last().copied().unwrap_or(1.0),
        "InstanceNormalization" | "BatchNormalization" => behind(out, 2),
        _ => behind(out, 0),
    }
}

/// How the second operand is broadcast over the first: 0 equal shapes, 1 scalar, 2 along the last
/// axis, 3 by channel, 4 otherwise. Add 5 if the first operand is broadcast. For a softmax 5 means
/// rows that are not contiguous.
fn broadcast(cost: &OperatorCost, out: &[f64]) -> f64 {
    if matches!(cost.kind.as_str(), "Softmax" | "LogSoftmax") {
        let at = cost.attributes.get("axis").and_then(|axes| axes.first()).copied().unwrap_or(-1);
        return if at == -1 || at + 1 == out.len() as i64 { 0.0 } else { 5.0 };
    }
    if cost.inputs.len() < 2 {
        return 0.0;
    }
    let all = count(out);
    let sizes: Vec<Vec<f64>> = cost.inputs.iter().take(3).map(|value| dims(Some(value))).collect();
    let Some(small) = sizes.iter().min_by(|a, b| count(a).total_cmp(&count(b))) else { return 0.0 };
    let elements = count(small);
    let turned = if sizes.first().is_some_and(|first| count(first) < all) { 5.0 } else { 0.0 };
    if elements >= all {
        return 0.0;
    }
    let kind = if elements <= 1.0 {
        1.0
    } else if small.last() == out.last() && elements == small.last().copied().unwrap_or(0.0) {
        2.0
    } else if small.last().is_some_and(|size| *size == 1.0) {
        3.0
    } else {
        4.0
    };
    kind + turned
}
