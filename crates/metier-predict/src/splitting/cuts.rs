//! Where to cut a graph into parts of about the same work.

use metier_onnx::OperatorCost;
use metier_onnx::split::Chain;

/// Multiply-adds of an operator, or of those inside of it.
pub fn multiply_adds(operators: &[OperatorCost]) -> Option<u64> {
    operators.iter().try_fold(0u64, |sum, one| sum.checked_add(one.multiply_adds?.checked_mul(one.turns)?))
}

/// What they do at least, where some of it is not known: every operator counts a little.
pub fn least_work(operators: &[OperatorCost]) -> f64 {
    let one = |one: &OperatorCost| one.multiply_adds.unwrap_or(0) as f64 * one.turns as f64 + 1.0;
    operators.iter().map(one).sum::<f64>().max(1.0)
}

/// Places that part the work evenly, each moved by at most a tenth of a share to where least flows over it. Every part has an operator that multiplies and
/// adds, where any does; so there are fewer where these or the places are too few.
pub fn even_cuts(chain: &Chain, work: &[f64], parts: usize) -> Vec<usize> {
    let crossings = chain.crossings();
    let is_some = work.iter().any(|one| *one > 1.0);
    let (mut sums, mut busy) = (vec![0.0], vec![0]);
    for one in work {
        sums.push(sums[sums.len() - 1] + one);
        busy.push(busy[busy.len() - 1] + usize::from(*one > 1.0 || !is_some));
    }
    let share = sums[work.len()] / parts as f64;
    let mut cuts: Vec<usize> = Vec::new();
    for part in 1..parts {
        let target = share * part as f64;
        let before = cuts.last().map_or(0, |last| busy[*last]);
        let does = |place: usize| busy[place] > before && busy[work.len()] > busy[place];
        let near = crossings.iter().filter(|one| does(one.place));
        let distance = |place: usize| (sums[place] - target).abs();
        let closest = near.clone().map(|one| distance(one.place)).fold(f64::INFINITY, f64::min);
        let reach = closest.max(share * 0.1);
        let best =
            near.filter(|one| distance(one.place) <= reach).min_by_key(|one| one.bytes.unwrap_or(u64::MAX));
        cuts.extend(best.map(|one| one.place));
    }
    // Where one operator has the work of several parts, others are cut once more.
    while cuts.len() + 1 < parts {
        let ends = |place: usize| {
            let at = cuts.partition_point(|cut| *cut < place);
            let from = if at == 0 { 0 } else { cuts[at - 1] };
            (from, cuts.get(at).copied().unwrap_or(work.len()))
        };
        let smaller = |place: usize| {
            let (from, to) = ends(place);
            let does = busy[place] > busy[from] && busy[to] > busy[place];
            does.then(|| (sums[place] - sums[from]).min(sums[to] - sums[place]))
        };
        let best = crossings.iter().filter_map(|one| Some((one.place, smaller(one.place)?)));
        let Some((place, _)) = best.max_by(|a, b| a.1.total_cmp(&b.1)) else { break };
        cuts.insert(cuts.partition_point(|cut| *cut < place), place);
    }
    cuts
}

#[cfg(test)]
mod tests {
    use metier_onnx::build::Builder;
    use metier_onnx::{Bindings, DataType, Limits, analyse, read};

    use super::*;

    #[test]
    fn every_part_has_an_operator_that_multiplies_and_adds() {
        let mut graph = Builder::new(1);
        let mut value = graph.input(DataType::Float, &[1, 512]);
        for width in [512, 512] {
            let weights = graph.weights(&[512, width], 512);
            value = graph.node("MatMul", &[&value, &weights], &[]);
            for _ in 0..5 {
                value = graph.node("Relu", &[&value], &[]);
            }
        }
        graph.output(&value);
        let bytes = graph.finish();
        let limits = Limits::default();
        let model = read(&bytes, &limits).unwrap();
        let whole = analyse(&model, &Bindings::default(), &limits).unwrap();
        let chain = Chain::new(&bytes, &model, &Bindings::default(), &limits).unwrap();
        let costs = chain.costs(&whole);
        let work: Vec<f64> = costs.iter().map(|range| least_work(&whole.operators[range.clone()])).collect();
        for parts in [2, 3, 8, 60] {
            let cuts = even_cuts(&chain, &work, parts);
            assert_eq!(cuts.len(), 1, "{parts}: {cuts:?}");
            assert!((1..7).contains(&cuts[0]), "{parts}: {cuts:?}");
        }
    }
}
