//! Operator times reported by an engine, and their mapping to the file's operators.

use std::collections::{HashMap, HashSet};

use metier_onnx::GraphAnalysis;
use serde::{Deserialize, Serialize};

/// Time of one operator in one inference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EngineOperatorTime {
    /// The engine's name for it, usually that of an operator in the file.
    pub name: String,
    /// Its operator type in the engine; fused operators have types of their own.
    pub kind: String,
    /// Names of its inputs, if the engine reports them.
    pub inputs: Vec<String>,
    /// Names of its outputs, if the engine reports them.
    pub outputs: Vec<String>,
    /// Seconds per inference: the median over the profiled inferences, summed over all iterations
    /// of a loop.
    pub seconds: f64,
}

/// Below this, engines with a resolution of 1 µs report 0 or 1 µs for one operator, so the mean is
/// more informative than the median.
const SHORT_OPERATOR_SECONDS: f64 = 10e-6;

/// Combines the operator times of several inferences: the median of each operator's sums, or the
/// mean for short ones.
pub(crate) fn median_times(looks: Vec<Vec<EngineOperatorTime>>) -> Vec<EngineOperatorTime> {
    let mut order: Vec<EngineOperatorTime> = Vec::new();
    let mut times: Vec<Vec<f64>> = Vec::new();
    let mut places = HashMap::new();
    for (number, look) in looks.into_iter().enumerate() {
        for time in look {
            // A loop runs an operator repeatedly; its iterations are summed.
            let key = (time.name.clone(), time.kind.clone(), time.outputs.clone());
            let place = *places.entry(key).or_insert_with(|| {
                order.push(time.clone());
                times.push(Vec::new());
                order.len() - 1
            });
            let sums = &mut times[place];
            sums.resize(number + 1, 0.0);
            sums[number] += time.seconds;
        }
    }
    for (time, sums) in order.iter_mut().zip(&mut times) {
        sums.sort_by(f64::total_cmp);
        let median = sums.get(sums.len() / 2).copied().unwrap_or_default();
        let short = &sums[..sums.partition_point(|sum| *sum < SHORT_OPERATOR_SECONDS)];
        time.seconds = if median < SHORT_OPERATOR_SECONDS && !short.is_empty() {
            short.iter().sum::<f64>() / short.len() as f64
        } else {
            median
        };
    }
    order
}

/// Operators of the file that an engine's operator covers.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct OperatorTimeShare {
    /// Operators of the file by name, or by first output if they have no name.
    pub operators: Vec<String>,
    /// Their multiply-adds; `None` if one is unknown.
    pub multiply_adds: Option<u64>,
}

/// Maps each of an engine's operators to the operators of the file that it covers.
///
/// Engines fuse and rename operators. Each engine operator first gets the file operator with the
/// same output or the same name. Then it gets the unclaimed operators before that, back to its
/// inputs. An operator of the file belongs to at most one engine operator.
pub fn match_operators(analysis: &GraphAnalysis, times: &[EngineOperatorTime]) -> Vec<OperatorTimeShare> {
    let (mut makers, mut names) = (HashMap::<&str, usize>::new(), HashMap::<&str, usize>::new());
    for (place, cost) in analysis.operators.iter().enumerate() {
        makers.extend(cost.outputs.iter().map(|value| (value.name.as_str(), place)));
        names.entry(&cost.name).or_insert(place);
    }
    let mut claimed: HashSet<usize> = HashSet::new();
    let mut covered: Vec<Vec<usize>> = Vec::with_capacity(times.len());
    for time in times {
        // ONNX Runtime names a convolution in its own layout after the operator or after its
        // output.
        let name = time.name.strip_suffix("_nchwc").unwrap_or(&time.name);
        let mut mine: Vec<usize> =
            time.outputs.iter().filter_map(|value| makers.get(value.as_str()).copied()).collect();
        if mine.is_empty() && !name.is_empty() {
            mine.extend(names.get(name).or_else(|| makers.get(name)));
        }
        mine.retain(|place| claimed.insert(*place));
        covered.push(mine);
    }
    for (time, mine) in times.iter().zip(&mut covered) {
        let ends: HashSet<&str> = time.inputs.iter().map(String::as_str).collect();
        let mut next = 0;
        while let Some(place) = mine.get(next).copied() {
            next += 1;
            for value in
                analysis.operators[place].inputs.iter().filter(|value| !ends.contains(value.name.as_str()))
            {
                mine.extend(makers.get(value.name.as_str()).copied().filter(|place| claimed.insert(*place)));
            }
        }
        mine.sort_unstable();
    }
    covered.iter().map(|mine| operator_share(analysis, mine)).collect()
}

fn operator_share(analysis: &GraphAnalysis, mine: &[usize]) -> OperatorTimeShare {
    let cost = |place: &usize| {
        let operator_cost = &analysis.operators[*place];
        operator_cost.multiply_adds.map(|cost| cost.saturating_mul(operator_cost.turns))
    };
    let multiply_adds = mine.iter().map(cost).try_fold(0u64, |sum, cost| Some(sum.saturating_add(cost?)));
    let name = |place: &usize| {
        let cost = &analysis.operators[*place];
        let made = cost.outputs.first().map(|value| value.name.clone()).unwrap_or_default();
        if cost.name.is_empty() { made } else { cost.name.clone() }
    };
    OperatorTimeShare {
        operators: mine.iter().map(name).collect(),
        multiply_adds: multiply_adds.filter(|_| !mine.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(seconds: f64) -> Vec<EngineOperatorTime> {
        let (name, kind) = ("one".to_string(), "Relu".to_string());
        vec![EngineOperatorTime { name, kind, inputs: Vec::new(), outputs: Vec::new(), seconds }]
    }

    #[test]
    fn short_operators_are_told_by_their_mean_and_long_ones_by_their_median() {
        let median_of =
            |all: &[f64]| median_times(all.iter().map(|seconds| look(*seconds)).collect())[0].seconds;
        assert!((median_of(&[0.0, 1e-6, 0.0, 1e-6]) - 0.5e-6).abs() < 1e-12);
        // One inference was disturbed.
        assert!((median_of(&[1e-6, 0.0, 5e-4]) - 0.5e-6).abs() < 1e-12);
        assert_eq!(median_of(&[1e-4, 3e-4, 2e-4]), 2e-4);
    }
}
