//! What a runtime really does for a graph: operators that it runs, with what each has to do.
//!
//! A step is one operator as a runtime runs it, together with those that it does in passing (`fuse`). Its *basis* are
//! counts that its time is about proportional to, its *features* what the rest may depend on.

use std::collections::BTreeMap;

use metier_onnx::analysis::ValueDescription;
use metier_onnx::{DataType, GraphAnalysis, OperatorCost};

use super::error::LatencyError;
use super::family::OperatorFamily;
use super::operator_fusion;

/// Raised whenever counts, made-up networks or the way of timing change: what was timed before is then not learned from, and what was learned from it not asked.
pub const FEATURE_VERSION: u32 = 3;

/// Names of the counts that a step's time is about proportional to.
pub const LINEAR_FEATURES: [&str; 9] =
    ["one", "work", "left", "right", "made", "pieces", "turned", "beyond-cache", "from-afar"];

/// Names of what the rest may depend on.
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

/// Where the counts and features are that are told by what is around a step; the threads come last.
const WEIGHTS_OUTSIDE_CACHE: usize = LINEAR_FEATURES.len() - 1;
const BYTES_BETWEEN: usize = FEATURE_COUNT - 3;

/// One operator as it is run.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorStep {
    /// Which of the graph's operators it is.
    pub operator: usize,
    /// Operators that are done in passing.
    pub absorbed: Vec<usize>,
    pub family: OperatorFamily,
    /// Its kind; a fused one has the name of what came of it.
    pub kind: String,
    /// How often it runs.
    pub turns: u64,
    /// Multiply-adds of one turn.
    pub multiply_adds: f64,
    /// Bytes that one turn reads and writes.
    pub bytes: f64,
    /// Bytes of weights that one turn reads.
    pub weight_bytes: f64,
    /// See [`LINEAR_FEATURES`].
    pub basis: [f64; LINEAR_FEATURES.len()],
    /// See [`TREE_FEATURES`]; the last is set when the number of threads is known.
    pub features: [f64; FEATURE_COUNT],
}

/// The steps of a graph in a runtime; the operators that the runtime leaves out or does in passing are in none or beside another.
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

/// Says of each step where its weights are when they are wanted again: those of a loop's body in the next turn, others in the next inference. What was read and
/// written meanwhile has taken their place in a cache, as far as it is large enough.
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
        // A branch or a function in a loop's body belongs to it: its place begins with that of the loop.
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
    /// Whether an operator of open size may be taken for a small one.
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

/// The dimensions of a value; those that are not known count one.
pub fn dims(value: Option<&ValueDescription>) -> Vec<f64> {
    let shape = value.and_then(|value| value.shape.as_ref());
    shape.map(|shape| shape.iter().map(|size| size.unwrap_or(1) as f64).collect()).unwrap_or_default()
}

/// How many elements a value of these dimensions has.
pub fn count(dims: &[f64]) -> f64 {
    dims.iter().product()
}

/// So many products of matrices: `rows × depth` times `depth × columns`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct MatrixProduct {
    times: f64,
    rows: f64,
    depth: f64,
    columns: f64,
}

/// Tiles that registers hold, and how deep a block is; of the runtimes' kernels for wide vectors. Others differ, which the learned part evens out.
const TILE_ROWS: f64 = 6.0;
const TILE_COLUMNS: f64 = 32.0;
const BLOCK_DEPTH: f64 = 256.0;
/// Bytes from which on a step does not stay in a core's own cache.
const OWN_CACHE_BYTES: f64 = (1u64 << 20) as f64;
/// Bytes that stay in no cache: what is between is in a larger one in part.
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
    // What is only looked into is not read as a whole.
    let most = match plan.kind.as_str() {
        "Gather" | "GatherElements" | "GatherND" | "Slice" => 2.0 * written,
        "Shape" | "Size" => 0.0,
        _ => f64::INFINITY,
    };
    let read = cost.read_bytes.map_or(0.0, |bytes| bytes.0 as f64).min(most);
    let mut weights = cost.weight_bytes.map_or(0.0, |bytes| bytes.0 as f64).min(read);
    // Some exporters carry the weights of a loop along as a state: what a product multiplies by comes again in every turn.
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
            // A loop along each row of the output for each element of the window: neighbours are taken together, those apart one by one. What lies in the padding is left out.
            let (loops, adds) =
                unpadded_work(cost, &window, &out, &input).unwrap_or((made / last * window_size, adds));
            let (near, apart) = if across == 1.0 { (adds, 0.0) } else { (0.0, adds) };
            [1.0, near, loops, apart, made, made / last, 0.0, beyond]
        }
        (OperatorFamily::Recurrent, _) => recurrent(cost, &input, made),
        (_, Some(MatrixProduct { times, rows, depth, columns })) => {
            // The right side is packed line by line, or value by value where its lines lie across.
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
        // Nothing is copied where nobody else wants the values.
        (OperatorFamily::View, _) if plan.is_own || matches!(plan.kind.as_str(), "Shape" | "Size") => {
            [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        }
        _ => {
            let taken: f64 = input.iter().product::<f64>().max(0.0);
            // Where nothing stays in a row, a loop goes along the last axis of what is made.
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

/// The products of matrices that an operator is.
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
            // Weights are input channels × output channels × window: the product makes patches that are added up.
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
            // With weights for all of a batch it is one product of more rows.
            let is_flat = cost.inputs.get(1).is_some_and(|value| dims(Some(value)).len() <= 2);
            if is_flat {
                return Some(MatrixProduct { times: 1.0, rows: rows * batch, depth, columns });
            }
            Some(MatrixProduct { times: batch, rows, depth, columns })
        }
        _ => None,
    }
}

/// Counts of a network that goes through a sequence: what is taken is multiplied for all steps at once, the state step by step.
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

/// Loops and multiply-adds of a convolution of each channel that do not lie in the padding: of an image of few rows that is much less than all.
fn unpadded_work(cost: &OperatorCost, window: &[f64], out: &[f64], input: &[f64]) -> Option<(f64, f64)> {
    let at = |name: &str, axis: usize| {
        cost.attributes.get(name).and_then(|values| values.get(axis)).map(|value| *value as f64)
    };
    // Of one axis: pairs of an output and an element of the window whose input is there.
    let pairs = |axis: usize| {
        let (size, out, input) = (*window.get(axis)?, *out.get(axis + 2)?, *input.get(axis + 2)?);
        let stride = at("strides", axis).unwrap_or(1.0).max(1.0);
        let dilation = at("dilations", axis).unwrap_or(1.0);
        // Where pads are not stated, as many as are missing, shared by both ends.
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

/// Longest side of a window that is gone through.
const MAX_WINDOW_SIDE: f64 = 1024.0;

/// Which sides of a product lie across: their lines are columns in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct TransposedSides {
    left: bool,
    right: bool,
}

fn transposed_sides(operators: &[OperatorCost], cost: &OperatorCost, absorbed: &[usize]) -> TransposedSides {
    let is_set =
        |name: &str| cost.attributes.get(name).and_then(|value| value.first()).is_some_and(|is| *is != 0);
    // A turn of the axes that is done in passing: what was next to each other is one below the other now.
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

/// Elements between values that an inner loop takes one after the other; 0 where they are neighbours.
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

/// How often the distance in bytes can be halved, up to a page: values so far apart share the same few places of a cache.
fn power_of_two(apart: f64) -> f64 {
    if apart < 1.0 { 0.0 } else { (apart as u64).saturating_mul(4).trailing_zeros().min(12).into() }
}

/// The axes that a reduction goes along, ascending; told by the sizes where they are an input.
fn reduced(cost: &OperatorCost, out: &[f64], input: &[f64]) -> Vec<usize> {
    let rank = input.len();
    let mut axes: Vec<usize> = match cost.attributes.get("axes") {
        Some(axes) => {
            axes.iter().map(|axis| if *axis < 0 { rank as i64 + axis } else { *axis } as usize).collect()
        }
        None if out.len() == rank => (0..rank).filter(|at| out[*at] != input[*at]).collect(),
        // One axis is gone: the last one that can be, as it mostly is.
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

/// How many elements in a row stay in a row when values are moved.
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
            // One piece for each row, whichever axis the rows lie along.
            let at = cost.attributes.get("axis").and_then(|axes| axes.first()).copied().unwrap_or(-1);
            let at = if at < 0 { (input.len() as i64 + at).max(0) } else { at } as usize;
            input.get(at).copied().unwrap_or(1.0)
        }
        "ReduceMean" | "ReduceSum" | "ReduceMax" | "ReduceMin" | "ReduceProd" | "ReduceL2" => {
            let reduces_last = reduced(cost, out, input).last().is_some_and(|axis| axis + 1 == input.len());
            if reduces_last { input.last().copied().unwrap_or(1.0) } else { 1.0 }
        }
        "Slice" | "Pad" | "Tile" | "Expand" => {
            // Dimensions at the end that are the same before and after.
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

/// How the second operand is spread over the first: 0 alike, 1 one number, 2 along the last axis, 3 by channel, 4 otherwise, and 5 more where the first is the one that is
/// spread; of a softmax 5 where its rows do not lie in a row.
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
