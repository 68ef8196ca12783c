//! Synthetic input tensors that fit a graph's declarations.
//!
//! The same seed gives the same tensors on every host and in every engine, so that outputs are
//! comparable. Floats are uniform in 0 to 1. Integers are small and stay within the tables that
//! they index. An input named as a sampling rate is 16000, and one named as a length is that of the
//! longest input. Every such assumption is reported.

use std::collections::{BTreeMap, BTreeSet};

use metier_onnx::analysis::ValueDescription;
use metier_onnx::{DataType, Graph, GraphAnalysis, ShapeBindings, TensorDimension};
use metier_types::random::{SplitMix64, hash_name};

use crate::{Error, NamedTensor, TensorValues, memory};

/// Largest number of elements of all inputs together.
pub const MAX_INPUT_ELEMENTS: usize = 1 << 29;
/// Integers are drawn below this, or below the size of the table that they index.
const DEFAULT_INTEGER_RANGE: u64 = 8;
/// Sampling rate of nearly all speech networks.
const SAMPLING_RATE_HERTZ: f64 = 16_000.0;

/// Options for the inputs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InputOptions {
    /// Seed of the random numbers.
    pub seed: u64,
    /// Zeros instead of random numbers.
    pub zeros: bool,
    /// Given inputs as numbers by name: one for all elements, or one each.
    pub numbers: BTreeMap<String, Vec<f64>>,
    /// Given inputs as tensors by name.
    pub tensors: BTreeMap<String, NamedTensor>,
}

/// Creates the inputs of a graph in its order, with notes about assumptions. Rejects a graph that
/// exceeds this host's memory, because the inputs serve to run it.
pub fn make_inputs(
    analysis: &GraphAnalysis,
    making: &InputOptions,
) -> Result<(Vec<NamedTensor>, Vec<String>), Error> {
    if let Some(available) = memory::available_memory() {
        memory::check_memory(analysis, available)?;
    }
    let known: BTreeSet<&str> = analysis.inputs.iter().map(|input| input.name.as_str()).collect();
    for name in making.numbers.keys().chain(making.tensors.keys()) {
        if !known.contains(name.as_str()) {
            let want = format!("one of {}", known.iter().copied().collect::<Vec<_>>().join(", "));
            return Err(Error::Input { name: name.clone(), got: "given".to_string(), want });
        }
    }
    let mut notes = Vec::new();
    let mut made = Vec::with_capacity(analysis.inputs.len());
    let mut room = MAX_INPUT_ELEMENTS;
    for input in &analysis.inputs {
        let tensor = match making.tensors.get(&input.name) {
            Some(tensor) => convert_given_tensor(input, tensor)?,
            None => make_input(analysis, input, making, room, &mut notes)?,
        };
        room = room.saturating_sub(tensor.values.len());
        made.push(tensor);
    }
    Ok((made, notes))
}

/// Converts a given tensor to the type that the graph declares.
fn convert_given_tensor(input: &ValueDescription, tensor: &NamedTensor) -> Result<NamedTensor, Error> {
    let misfit = |got: String, want: String| Error::Input { name: input.name.clone(), got, want };
    if let Some(shape) = &input.shape {
        let fits = shape.len() == tensor.shape.len()
            && shape.iter().zip(&tensor.shape).all(|(want, got)| want.is_none_or(|want| want == *got as u64));
        if !fits {
            return Err(misfit(
                format_shape(tensor.shape.iter().map(|size| Some(*size as u64))),
                format_shape(shape.iter().copied()),
            ));
        }
    }
    let kind = input.data_type.unwrap_or(tensor.values.data_type());
    let values = if kind == tensor.values.data_type() {
        Some(tensor.values.clone())
    } else {
        TensorValues::from_numbers(kind, tensor.values.to_numbers().into_iter())
    };
    let values = values.ok_or_else(|| misfit(type_name(tensor.values.data_type()), type_name(kind)))?;
    Ok(NamedTensor { name: input.name.clone(), shape: tensor.shape.clone(), values })
}

fn make_input(
    analysis: &GraphAnalysis,
    input: &ValueDescription,
    making: &InputOptions,
    room: usize,
    notes: &mut Vec<String>,
) -> Result<NamedTensor, Error> {
    let misfit = |got: String, want: String| Error::Input { name: input.name.clone(), got, want };
    let open = || misfit("of unknown shape".to_string(), "a shape for it, such as 1x3x224x224".to_string());
    let declared = input.shape.as_ref().ok_or_else(open)?;
    let sizes = declared.iter().map(|size| size.and_then(|size| usize::try_from(size).ok()));
    let shape = sizes.collect::<Option<Vec<usize>>>().ok_or_else(|| {
        misfit(format_shape(declared.iter().copied()), "a size for each of its dimensions".to_string())
    })?;
    let count =
        shape.iter().try_fold(1usize, |count, size| count.checked_mul(*size)).filter(|count| *count <= room);
    let count = count.ok_or_else(|| {
        misfit(
            format_shape(declared.iter().copied()),
            format!("at most {MAX_INPUT_ELEMENTS} elements in all inputs"),
        )
    })?;
    let kind = input.data_type.unwrap_or(DataType::Float);
    let values = match making.numbers.get(&input.name) {
        Some(given) if given.len() == 1 => {
            TensorValues::from_numbers(kind, std::iter::repeat_n(given[0], count))
        }
        Some(given) if given.len() == count => TensorValues::from_numbers(kind, given.iter().copied()),
        Some(given) => return Err(misfit(format!("{} numbers", given.len()), format!("1 or {count}"))),
        None => draw_values(analysis, input, kind, count, making, notes),
    };
    let values =
        values.ok_or_else(|| misfit(type_name(kind), "a supported type: numbers or bool".to_string()))?;
    Ok(NamedTensor { name: input.name.clone(), shape, values })
}

/// Values for an input that is not given.
fn draw_values(
    analysis: &GraphAnalysis,
    input: &ValueDescription,
    kind: DataType,
    count: usize,
    making: &InputOptions,
    notes: &mut Vec<String>,
) -> Option<TensorValues> {
    let name = input.name.to_lowercase();
    let is_whole = !kind.is_float() && kind != DataType::Bool;
    let mut assume = |number: f64| {
        notes.push(format!("input {:?}: {number} is assumed", input.name));
        TensorValues::from_numbers(kind, std::iter::repeat_n(number, count))
    };
    if count <= 1 && (name == "sr" || name.contains("sample_rate") || name.contains("sampling_rate")) {
        return assume(SAMPLING_RATE_HERTZ);
    }
    if is_whole && (name.ends_with("length") || name.ends_with("lengths") || name.ends_with("_len")) {
        let second =
            |input: &ValueDescription| input.shape.as_ref().and_then(|shape| shape.get(1).copied().flatten());
        if let Some(longest) = analysis.inputs.iter().filter_map(second).max() {
            return assume(longest as f64);
        }
    }
    // Inputs of one graph differ by their names.
    let mut random = SplitMix64::new(making.seed ^ hash_name(&input.name));
    let zero = |draw: f64| if making.zeros { 0.0 } else { draw };
    if kind.is_float() {
        return TensorValues::from_numbers(kind, (0..count).map(|_| zero(random.next_fraction())));
    }
    let below = if kind == DataType::Bool {
        2
    } else {
        smallest_indexed_table(analysis, &input.name)
            .unwrap_or(DEFAULT_INTEGER_RANGE)
            .clamp(1, DEFAULT_INTEGER_RANGE)
    };
    TensorValues::from_numbers(kind, (0..count).map(|_| zero((random.next_u64() % below) as f64)))
}

/// Size of the smallest table that an input indexes, directly or after a change of type or shape.
fn smallest_indexed_table(analysis: &GraphAnalysis, input: &str) -> Option<u64> {
    let mut same = BTreeSet::from([input]);
    let mut smallest = None;
    for cost in &analysis.operators {
        let takes = |at: usize| cost.inputs.get(at).is_some_and(|value| same.contains(value.name.as_str()));
        match cost.kind.as_str() {
            "Cast" | "Reshape" | "Squeeze" | "Unsqueeze" | "Identity" | "Flatten" if takes(0) => {
                same.extend(cost.outputs.first().map(|value| value.name.as_str()));
            }
            "Gather" if takes(1) => {
                let axis = cost.attributes.get("axis").and_then(|axis| axis.first()).copied().unwrap_or(0);
                let shape = cost.inputs.first().and_then(|value| value.shape.as_ref());
                let size = shape.and_then(|shape| {
                    let axis = if axis < 0 { axis + shape.len() as i64 } else { axis };
                    shape.get(usize::try_from(axis).ok()?).copied().flatten()
                });
                smallest = [smallest, size].into_iter().flatten().min();
            }
            _ => {}
        }
    }
    smallest
}

/// Binds the open first dimension of every input; fails if all are fixed to another size.
pub fn bind_batch_size(graph: &Graph, size: u64, bindings: &mut ShapeBindings) -> Result<(), Error> {
    let mut is_bound = false;
    for input in &graph.inputs {
        if bindings.shapes.contains_key(&input.name) {
            continue;
        }
        let Some([first, rest @ ..]) = input.shape.as_deref() else { continue };
        match first {
            TensorDimension::Named(name) => {
                bindings.dims.entry(name.clone()).or_insert(size);
                is_bound = true;
            }
            TensorDimension::Unknown => {
                let known = |dim: &TensorDimension| match dim {
                    TensorDimension::Known(size) => Some(*size),
                    TensorDimension::Named(name) => bindings.dims.get(name).copied(),
                    TensorDimension::Unknown => None,
                };
                if let Some(rest) = rest.iter().map(known).collect::<Option<Vec<u64>>>() {
                    bindings.shapes.insert(input.name.clone(), [vec![size], rest].concat());
                    is_bound = true;
                }
            }
            TensorDimension::Known(_) => {}
        }
    }
    if is_bound || size == 1 {
        return Ok(());
    }
    let fixed = graph.inputs.first();
    Err(Error::Input {
        name: fixed.map(|input| input.name.clone()).unwrap_or_default(),
        got: format!("requested with a batch size of {size}"),
        want: "a graph that leaves its first dimension open, or a whole shape for each input".to_string(),
    })
}

fn format_shape(shape: impl Iterator<Item = Option<u64>>) -> String {
    shape.map(|size| size.map_or("?".to_string(), |size| size.to_string())).collect::<Vec<_>>().join("x")
}

fn type_name(kind: DataType) -> String {
    format!("{kind:?}").to_lowercase()
}
