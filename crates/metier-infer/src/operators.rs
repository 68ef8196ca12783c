//! Time by operator, as an engine tells it, and which operators of the file that is.

use std::collections::{HashMap, HashSet};

use metier_onnx::Analysis;
use serde::{Deserialize, Serialize};

/// What one operator took in one inference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperatorTime {
    /// The engine's name for it, mostly that of an operator in the file.
    pub name: String,
    /// Its kind in the engine; operators that were joined have kinds of their own.
    pub kind: String,
    /// Values that it takes, where the engine names them.
    pub inputs: Vec<String>,
    /// Values that it makes, where the engine names them.
    pub outputs: Vec<String>,
    /// Time of one inference: the median over those looked at, all its turns together.
    pub seconds: f64,
}

/// Below this a look may be exact to a microsecond only, and says once 0 and once 1 of the same operator: then the mean tells more than the median.
const SHORT: f64 = 10e-6;

/// Joins the looks at several inferences: for each operator (by its place) the median of its sums, or the mean of short ones.
pub(crate) fn medians(looks: Vec<Vec<OperatorTime>>) -> Vec<OperatorTime> {
    let mut order: Vec<OperatorTime> = Vec::new();
    let mut times: Vec<Vec<f64>> = Vec::new();
    let mut places = HashMap::new();
    for (number, look) in looks.into_iter().enumerate() {
        for one in look {
            // A loop runs the same operator many times: one line for it.
            let key = (one.name.clone(), one.kind.clone(), one.outputs.clone());
            let place = *places.entry(key).or_insert_with(|| {
                order.push(one.clone());
                times.push(Vec::new());
                order.len() - 1
            });
            let sums = &mut times[place];
            sums.resize(number + 1, 0.0);
            sums[number] += one.seconds;
        }
    }
    for (one, sums) in order.iter_mut().zip(&mut times) {
        sums.sort_by(f64::total_cmp);
        let median = sums.get(sums.len() / 2).copied().unwrap_or_default();
        let short = &sums[..sums.partition_point(|sum| *sum < SHORT)];
        one.seconds = if median < SHORT && !short.is_empty() {
            short.iter().sum::<f64>() / short.len() as f64
        } else {
            median
        };
    }
    order
}

/// What an engine's operator stands for in the file.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Share {
    /// Operators of the file, by their names, or by what they make where they have none.
    pub operators: Vec<String>,
    /// Their multiply-adds; `None` where one is not known.
    pub multiply_adds: Option<u64>,
}

/// Says for each of an engine's operators which of the file it covers.
///
/// Engines join operators, and rename what they join. First each gets the operator that makes what it makes, or that has its name; then those before it
/// that nobody else has, back to what it takes. Each operator of the file belongs to one at most.
pub fn shares(told: &Analysis, times: &[OperatorTime]) -> Vec<Share> {
    let (mut makers, mut names) = (HashMap::<&str, usize>::new(), HashMap::<&str, usize>::new());
    for (place, one) in told.operators.iter().enumerate() {
        makers.extend(one.outputs.iter().map(|value| (value.name.as_str(), place)));
        names.entry(&one.name).or_insert(place);
    }
    let mut claimed: HashSet<usize> = HashSet::new();
    let mut covered: Vec<Vec<usize>> = Vec::with_capacity(times.len());
    for time in times {
        // ONNX Runtime names a convolution in its own layout after the operator, or after what that makes.
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
                told.operators[place].inputs.iter().filter(|value| !ends.contains(value.name.as_str()))
            {
                mine.extend(makers.get(value.name.as_str()).copied().filter(|place| claimed.insert(*place)));
            }
        }
        mine.sort_unstable();
    }
    covered.iter().map(|mine| share(told, mine)).collect()
}

fn share(told: &Analysis, mine: &[usize]) -> Share {
    let cost = |place: &usize| {
        let one = &told.operators[*place];
        one.multiply_adds.map(|cost| cost.saturating_mul(one.turns))
    };
    let multiply_adds = mine.iter().map(cost).try_fold(0u64, |sum, cost| Some(sum.saturating_add(cost?)));
    let name = |place: &usize| {
        let one = &told.operators[*place];
        let made = one.outputs.first().map(|value| value.name.clone()).unwrap_or_default();
        if one.name.is_empty() { made } else { one.name.clone() }
    };
    Share {
        operators: mine.iter().map(name).collect(),
        multiply_adds: multiply_adds.filter(|_| !mine.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(seconds: f64) -> Vec<OperatorTime> {
        let (name, kind) = ("one".to_string(), "Relu".to_string());
        vec![OperatorTime { name, kind, inputs: Vec::new(), outputs: Vec::new(), seconds }]
    }

    #[test]
    fn short_operators_are_told_by_their_mean_and_long_ones_by_their_median() {
        let told = |all: &[f64]| medians(all.iter().map(|seconds| look(*seconds)).collect())[0].seconds;
        assert!((told(&[0.0, 1e-6, 0.0, 1e-6]) - 0.5e-6).abs() < 1e-12);
        // Something came in between once.
        assert!((told(&[1e-6, 0.0, 5e-4]) - 0.5e-6).abs() < 1e-12);
        assert_eq!(told(&[1e-4, 3e-4, 2e-4]), 2e-4);
    }
}
