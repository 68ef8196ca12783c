//! Chooses cuts that divide a graph into parts with about equal work.

use metier_onnx::OperatorCost;
use metier_onnx::split::OperatorChain;

/// Multiply-adds of an operator including nested ones.
pub fn multiply_adds(operators: &[OperatorCost]) -> Option<u64> {
    operators.iter().try_fold(0u64, |sum, cost| sum.checked_add(cost.multiply_adds?.checked_mul(cost.turns)?))
}

/// Lower bound of the work if some is unknown: every operator counts a little.
pub fn least_work(operators: &[OperatorCost]) -> f64 {
    let operator_work =
        |cost: &OperatorCost| cost.multiply_adds.unwrap_or(0) as f64 * cost.turns as f64 + 1.0;
    operators.iter().map(operator_work).sum::<f64>().max(1.0)
}

/// Cuts that divide the work evenly. Each is moved by at most a tenth of a part to the place with
/// the least data flow. Every part has an operator with multiply-adds, if there are enough; so
/// there may be fewer parts.
pub fn even_cuts(chain: &OperatorChain, work: &[f64], parts: usize) -> Vec<usize> {
    let crossings = chain.crossings();
    let is_some = work.iter().any(|value| *value > 1.0);
    let (mut sums, mut busy) = (vec![0.0], vec![0]);
    for value in work {
        sums.push(sums[sums.len() - 1] + value);
        busy.push(busy[busy.len() - 1] + usize::from(*value > 1.0 || !is_some));
    }
    let share = sums[work.len()] / parts as f64;
    let mut cuts: Vec<usize> = Vec::new();
    for part in 1..parts {
        let target = share * part as f64;
        let before = cuts.last().map_or(0, |last| busy[*last]);
        let does = |place: usize| busy[place] > before && busy[work.len()] > busy[place];
        let near = crossings.iter().filter(|crossing| does(crossing.place));
        let distance = |place: usize| (sums[place] - target).abs();
        let closest = near.clone().map(|crossing| distance(crossing.place)).fold(f64::INFINITY, f64::min);
        let reach = closest.max(share * 0.1);
        let best = near
            .filter(|crossing| distance(crossing.place) <= reach)
            .min_by_key(|crossing| crossing.bytes.unwrap_or(u64::MAX));
        cuts.extend(best.map(|crossing| crossing.place));
    }
    // If one operator has the work of several parts, other parts are divided further.
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
        let best = crossings.iter().filter_map(|crossing| Some((crossing.place, smaller(crossing.place)?)));
        let Some((place, _)) = best.max_by(|a, b| a.1.total_cmp(&b.1)) else { break };
        cuts.insert(cuts.partition_point(|cut| *cut < place), place);
    }
    cuts
}

#[cfg(test)]
mod tests {
    use metier_onnx::graph_builder::GraphBuilder;
    use metier_onnx::{DataType, OnnxLimits, ShapeBindings, analyse_graph, read_onnx};

    use super::*;

    #[test]
    fn every_part_has_an_operator_that_multiplies_and_adds() {
        let mut graph = GraphBuilder::new(1);
        let mut value = graph.add_input(DataType::Float, &[1, 512]);
        for width in [512, 512] {
            let weights = graph.add_weights(&[512, width], 512);
            value = graph.encode_node("MatMul", &[&value, &weights], &[]);
            for _ in 0..5 {
                value = graph.encode_node("Relu", &[&value], &[]);
            }
        }
        graph.add_output(&value);
        let bytes = graph.finish();
        let limits = OnnxLimits::default();
        let model = read_onnx(&bytes, &limits).unwrap();
        let whole = analyse_graph(&model, &ShapeBindings::default(), &limits).unwrap();
        let chain = OperatorChain::new(&bytes, &model, &ShapeBindings::default(), &limits).unwrap();
        let costs = chain.cost_ranges(&whole);
        let work: Vec<f64> = costs.iter().map(|range| least_work(&whole.operators[range.clone()])).collect();
        for parts in [2, 3, 8, 60] {
            let cuts = even_cuts(&chain, &work, parts);
            assert_eq!(cuts.len(), 1, "{parts}: {cuts:?}");
            assert!((1..7).contains(&cuts[0]), "{parts}: {cuts:?}");
        }
    }
}
