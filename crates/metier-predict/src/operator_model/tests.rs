//! Tests on synthetic devices with known times.

use super::device_adaptation::{DeviceAdaptation, TransferGraph};
use super::graph::{LoadSlowdown, LoadedPoint};
use super::*;
use metier_learn::random::SplitMix64;

struct Device {
    random: SplitMix64,
    noise: f64,
}

impl Device {
    fn new(seed: u64, noise: f64) -> Self {
        Self { random: SplitMix64::new(seed), noise }
    }

    fn uniform(&mut self) -> f64 {
        self.random.next_fraction()
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    /// Two families; the second has a step that no linear model can fit.
    fn part(&mut self) -> GraphOperator {
        let work = 10f64.powf(4.0 + 4.0 * self.uniform());
        let bytes = 10f64.powf(3.0 + 3.0 * self.uniform());
        let is_conv = self.uniform() < 0.5;
        let truth = if is_conv {
            2e-6 + work / 40e9 + bytes / 8e9
        } else {
            1e-6 + bytes / if bytes > 1e5 { 2e9 } else { 8e9 }
        };
        let own = (self.noise * self.normal()).exp();
        GraphOperator {
            family: if is_conv { "conv" } else { "move" }.to_string(),
            kind: if is_conv { "Conv" } else { "Concat" }.to_string(),
            turns: 1.0,
            basis: vec![1.0, if is_conv { work } else { 0.0 }, bytes],
            features: vec![0.0, work.log2(), bytes.log2()],
            seconds: Some(truth * own),
        }
    }

    fn point(&mut self, group: u64, pressure: ResourcePressure) -> TimedGraph {
        let parts: Vec<GraphOperator> = (0..20).map(|_| self.part()).collect();
        let sum: f64 = parts.iter().filter_map(|part| part.seconds).sum();
        // A graph takes a tenth more than its operators, a microsecond for each, and a random
        // factor.
        let habit = (0.04 * self.normal()).exp();
        let slow = (0.8 * pressure.sharing + 0.3 * pressure.memory).exp();
        let seconds = (1.1 * sum + 20.0 * 1e-6) * habit * slow;
        TimedGraph { group, is_trial: false, threads: 1, pressure, parts, seconds }
    }
}

fn names() -> Vec<String> {
    ["kind", "work", "bytes"].map(String::from).to_vec()
}

fn learned(points: &[TimedGraph]) -> (GraphTimePredictor, Vec<HeldOutGraph>) {
    let names = names();
    GraphTimePredictor::fit(&GraphTrainingSet { points, features: &names, basis: 3, runtime: "rten" })
        .unwrap()
}

#[test]
fn the_truth_of_a_made_up_device_is_found_and_intervals_hold_on_new_graphs() {
    let mut device = Device::new(3, 0.05);
    let points: Vec<TimedGraph> =
        (0..40).map(|group| device.point(group, ResourcePressure::default())).collect();
    let (predictor, unseen) = learned(&points);
    assert_eq!(unseen.len(), points.len());
    let (mut covered, mut close, rounds) = (0, 0, 300);
    for group in 0..rounds {
        let new = device.point(1000 + group, ResourcePressure::default());
        let answer = predictor.predict(&new.parts, 1, ResourcePressure::default(), 0.9);
        let off = (new.seconds / answer.seconds).ln().abs();
        covered += usize::from(off <= answer.factor.ln());
        close += usize::from(off <= 0.15);
        assert!(answer.in_range);
        assert!((answer.each.iter().sum::<f64>() / answer.seconds - 1.0).abs() < 1e-9);
    }
    let share = covered as f64 / rounds as f64;
    assert!((0.83..=0.98).contains(&share), "{share}");
    assert!(close as f64 / rounds as f64 > 0.9, "{close}");
}

#[test]
fn a_graph_without_which_nothing_is_left_to_learn_from_is_not_scored() {
    let mut device = Device::new(4, 0.05);
    let mut points: Vec<TimedGraph> =
        (0..2).map(|group| device.point(group, ResourcePressure::default())).collect();
    for part in &mut points[1].parts {
        part.seconds = None;
    }
    let (_, unseen) = learned(&points);
    assert_eq!(unseen.iter().map(|graph| graph.point).collect::<Vec<_>>(), [1]);
}

#[test]
fn a_file_gives_the_same_answers() {
    let mut device = Device::new(5, 0.05);
    let points: Vec<TimedGraph> =
        (0..14).map(|group| device.point(group, ResourcePressure::default())).collect();
    let (predictor, _) = learned(&points);
    let file = serde_json::to_vec(&predictor).unwrap();
    let read: GraphTimePredictor = serde_json::from_slice(&file).unwrap();
    read.check().unwrap();
    assert_eq!(read, predictor);
    assert_eq!(serde_json::to_vec(&learned(&points).0).unwrap(), file);
    let mut broken = read.clone();
    broken.operators.any.coefficients.insert(1, vec![1.0]);
    assert!(broken.check().unwrap_err().to_string().contains("law.operators"));
    let later = GraphTimePredictor { schema: "metier.latency.law/9".to_string(), ..read };
    assert!(later.check().unwrap_err().to_string().contains("law.schema"));
}

#[test]
fn what_was_never_seen_is_out_of_range_and_wider() {
    let mut device = Device::new(7, 0.05);
    let points: Vec<TimedGraph> =
        (0..20).map(|group| device.point(group, ResourcePressure::default())).collect();
    let (predictor, _) = learned(&points);
    let mut strange = device.point(99, ResourcePressure::default());
    let usual = predictor.predict(&strange.parts, 1, ResourcePressure::default(), 0.9);
    for part in &mut strange.parts {
        part.kind = "GridSample".to_string();
    }
    let answer = predictor.predict(&strange.parts, 1, ResourcePressure::default(), 0.9);
    assert!(!answer.in_range && answer.factor > usual.factor);
    assert_eq!(answer.unseen, ["GridSample"]);
    assert!(!predictor.predict(&points[0].parts, 16, ResourcePressure::default(), 0.9).in_range);
}

#[test]
fn load_is_learned_and_more_of_it_never_takes_less() {
    let mut device = Device::new(9, 0.03);
    let mut points: Vec<TimedGraph> =
        (0..15).map(|group| device.point(group, ResourcePressure::default())).collect();
    for group in 0..15 {
        for step in 1..4 {
            let level = f64::from(step) / 4.0;
            let mut loaded = points[group as usize].clone();
            loaded.pressure = ResourcePressure { sharing: level, cpu: level, memory: level };
            loaded.seconds *= (0.8 * level + 0.3 * level).exp();
            points.push(loaded);
        }
    }
    let (predictor, _) = learned(&points);
    let parts = &points[0].parts;
    let mut before = 0.0;
    for step in 0..=10 {
        let level = f64::from(step) / 10.0;
        let pressure = ResourcePressure { sharing: level, cpu: level, memory: level };
        let seconds = predictor.predict(parts, 1, pressure, 0.9).seconds;
        assert!(seconds >= before);
        before = seconds;
    }
    let idle = predictor.predict(parts, 1, ResourcePressure::default(), 0.9).seconds;
    assert!((before / idle).ln() > 0.9 && (before / idle).ln() < 1.3, "{}", (before / idle).ln());
    assert!(LoadSlowdown::fit(&[]).coefficients.iter().all(|value| *value >= 0.0));
}

#[test]
fn load_is_fair_sharing_unless_graphs_say_otherwise_and_one_that_is_far_off_does_not_count() {
    let row = |group: u64, level: f64, slower: f64| LoadedPoint {
        pressure: ResourcePressure { sharing: level, cpu: 0.0, memory: 0.0 },
        threads: 1,
        moving: 0.5,
        slower,
        group,
        is_trial: false,
    };
    let levels = [0.2, 0.4, 0.7, 1.1];
    let slowdown_of =
        |rows: &[LoadedPoint]| LoadSlowdown::fit(rows).logarithm(row(0, 1.0, 0.0).pressure, 0.5, 1);
    let mut rows: Vec<LoadedPoint> =
        (0..12).flat_map(|group| levels.map(|level| row(group, level, 0.7 * level))).collect();
    assert!((slowdown_of(&rows) - 0.7).abs() < 0.03, "{}", slowdown_of(&rows));
    // A co-runner disturbed one of the measurements.
    rows.extend(levels.map(|level| row(12, level, 0.7 * level + 1.5)));
    assert!((slowdown_of(&rows) - 0.7).abs() < 0.06, "{}", slowdown_of(&rows));
    // A single graph does not move the model far from fair sharing.
    let points: Vec<LoadedPoint> =
        (0..3).flat_map(|_| levels.map(|level| row(1, level, 0.2 * level))).collect();
    assert!(slowdown_of(&points) > 0.35, "{}", slowdown_of(&points));
}

#[test]
fn threads_that_wait_for_each_other_are_seen_to_lose_more_and_more_load_never_takes_less() {
    let pressure = |level: f64| ResourcePressure { sharing: level, cpu: level.min(1.0), memory: 0.0 };
    // With two threads half the load costs as much as full load.
    let truth =
        |level: f64, threads: u32| if threads == 2 { level + 0.3 * (2.0 * level).min(1.0) } else { level };
    let mut rows = Vec::new();
    for group in 0..30 {
        for level in [0.2, 0.5, 0.8, 1.1] {
            for threads in [1, 2] {
                let noise = 0.02 * ((group * 7 + threads as u64) % 5) as f64 - 0.04;
                let slower = truth(level, threads) + noise;
                let row = LoadedPoint {
                    pressure: pressure(level),
                    threads,
                    moving: 0.5,
                    slower,
                    group,
                    is_trial: false,
                };
                rows.push(row);
            }
        }
    }
    let learned = LoadSlowdown::fit(&rows);
    assert!(learned.trees.is_some());
    for (level, threads) in [(0.5, 1), (0.5, 2), (1.1, 1), (1.1, 2)] {
        let value = learned.logarithm(pressure(level), 0.5, threads);
        assert!((value - truth(level, threads)).abs() < 0.07, "{level} {threads}: {value}");
    }
    for threads in [1, 2, 3] {
        let all: Vec<f64> =
            (0..=30).map(|step| learned.logarithm(pressure(f64::from(step) / 20.0), 0.5, threads)).collect();
        assert_eq!(all[0], 0.0, "without load there is nothing");
        assert!(all.windows(2).all(|pair| pair[0] <= pair[1]), "{all:?}");
    }
}

#[test]
fn a_few_graphs_move_it_to_another_device() {
    let truth = |family: &str| if family == "conv" { 3.0 } else { 1.5 };
    let mut device = Device::new(13, 0.0);
    let mut graph = || {
        let mut sums = std::collections::BTreeMap::new();
        for _ in 0..10 {
            let part = device.part();
            *sums.entry(part.family).or_insert(0.0) += part.seconds.unwrap();
        }
        let seconds = sums.iter().map(|(family, seconds)| truth(family) * seconds).sum();
        TransferGraph { seconds_by_family: sums, seconds }
    };
    let seen: Vec<TransferGraph> = (0..5).map(|_| graph()).collect();
    let prior = DeviceAdaptation::prior(2.0);
    let adapted = DeviceAdaptation::fit(&prior, &seen);
    let (mut by_prior, mut by_graphs) = (0.0, 0.0);
    for _ in 0..50 {
        let new = graph();
        by_prior += (new.seconds / prior.apply(&new.seconds_by_family)).ln().abs();
        by_graphs += (new.seconds / adapted.apply(&new.seconds_by_family)).ln().abs();
    }
    assert!(by_graphs < 0.5 * by_prior, "{by_graphs} {by_prior}");
    assert_eq!(adapted.graphs, 5);
}

#[test]
fn what_operators_take_adds_up_to_the_whole_also_where_looks_say_nothing() {
    let mut device = Device::new(17, 0.0);
    let mut point = device.point(1, ResourcePressure::default());
    // A profile in whole microseconds: short operators have time 0.
    let truth: Vec<f64> = point.parts.iter().filter_map(|part| part.seconds).collect();
    point.seconds = truth.iter().sum::<f64>() + 20.0 * 0.3e-6;
    for (part, truth) in point.parts.iter_mut().zip(&truth) {
        part.seconds = Some(if *truth < 3e-6 { 0.0 } else { *truth });
    }
    let samples = point.samples(0.0);
    assert_eq!(samples.len(), 20);
    let sum: f64 = samples.iter().map(|sample| sample.seconds).sum();
    assert!((sum / point.seconds - 1.0).abs() < 1e-9, "{sum} {}", point.seconds);
    assert!(samples.iter().all(|sample| sample.seconds > 0.0));
    // The missing time is distributed evenly over the operators, not by their length.
    let longest = |list: &mut dyn Iterator<Item = f64>| list.fold(0.0, f64::max);
    let (value, was) =
        (longest(&mut samples.iter().map(|sample| sample.seconds)), longest(&mut truth.iter().copied()));
    assert!((value - was).abs() < 3e-6, "{value} {was}");
}

#[test]
fn what_it_takes_to_start_is_told_apart_from_operators_and_belongs_to_every_graph() {
    let mut device = Device::new(23, 0.0);
    let mut points: Vec<TimedGraph> =
        (0..60).map(|group| device.point(group, ResourcePressure::default())).collect();
    let start = 40e-6;
    for (at, point) in points.iter_mut().enumerate() {
        // One to twenty operators: overhead per operator is separated from overhead per inference.
        point.parts.truncate(1 + at % 20);
        let sum: f64 = point.parts.iter().filter_map(|part| part.seconds).sum();
        point.seconds = sum + start + 0.05e-6 * point.parts.len() as f64;
    }
    let all: Vec<&TimedGraph> = points.iter().collect();
    let found = graph::starts(&all)[&1];
    assert!((found / start - 1.0).abs() < 0.05, "{found}");
    let laws = OperatorPredictor::learn(&all, &names(), 3).unwrap();
    for point in &points {
        let sum = graph::sum(&laws, &point.parts, 1);
        assert!((sum.each.iter().sum::<f64>() / sum.seconds - 1.0).abs() < 1e-9);
        assert!(sum.seconds > laws.start(1), "{} {}", sum.seconds, laws.start(1));
    }
    // Too few graphs give no estimate.
    assert_eq!(graph::starts(&all[..10]), std::collections::BTreeMap::new());
}

#[test]
fn kinds_of_a_family_that_differ_a_hundredfold_have_lines_of_their_own() {
    let mut device = Device::new(29, 0.0);
    let sample = |kind: &str, each: f64, elements: f64, group: u64| OperatorSample {
        family: "norm".to_string(),
        kind: kind.to_string(),
        threads: 1,
        basis: vec![1.0, elements, 0.0],
        features: vec![0.0, elements.log2(), 0.0],
        seconds: 1e-6 + each * elements,
        group,
        weight: 1.0,
    };
    let mut samples = Vec::new();
    for group in 0..300 {
        let elements = 10f64.powf(3.0 + 3.0 * device.uniform());
        let (kind, each) = if group % 5 == 0 { ("LRN", 9e-9) } else { ("LayerNormalization", 5e-11) };
        samples.push(sample(kind, each, elements, group));
    }
    let laws = OperatorPredictor::fit(&samples, &names(), 3).unwrap();
    for (kind, each) in [("LRN", 9e-9), ("LayerNormalization", 5e-11)] {
        let new = sample(kind, each, 2e5, 999);
        let estimate = laws.predict(&new.query());
        assert!(
            (estimate.seconds / new.seconds - 1.0).abs() < 0.05,
            "{kind} {} {}",
            estimate.seconds,
            new.seconds
        );
    }
}

#[test]
fn a_host_that_does_next_to_nothing_has_the_interval_of_an_idle_one_and_a_busy_one_a_wider() {
    let mut device = Device::new(31, 0.05);
    let points: Vec<TimedGraph> =
        (0..30).map(|group| device.point(group, ResourcePressure::default())).collect();
    let (predictor, _) = learned(&points);
    assert!(predictor.loaded.is_none());
    let factor = |cpu: f64| {
        let pressure = ResourcePressure { sharing: cpu, cpu, memory: 0.0 };
        predictor.predict(&points[0].parts, 1, pressure, 0.9).factor
    };
    assert_eq!(factor(0.0), factor(0.02));
    assert!(factor(0.5) > factor(0.02));
}

#[test]
fn threads_share_a_line_where_they_do_nothing_and_have_their_own_where_they_help() {
    let mut device = Device::new(37, 0.0);
    let mut samples = Vec::new();
    for group in 0..400 {
        let threads = 1 + (group % 2) as u32;
        let (elements, noise) = (10f64.powf(3.0 + 3.0 * device.uniform()), (0.1 * device.normal()).exp());
        for (family, helps) in [("move", false), ("conv", true)] {
            let each = if helps { 1e-9 / f64::from(threads) } else { 1e-9 };
            samples.push(OperatorSample {
                family: family.to_string(),
                kind: family.to_string(),
                threads,
                basis: vec![1.0, elements, 0.0],
                features: vec![0.0, elements.log2(), f64::from(threads)],
                seconds: (1e-6 + each * elements) * noise,
                group,
                weight: 1.0,
            });
        }
    }
    let laws = OperatorPredictor::fit(&samples, &names(), 3).unwrap();
    let of = |family: &str| &laws.laws[family].coefficients;
    assert_eq!(of("move")[&1], of("move")[&2]);
    let ratio = of("conv")[&1][1] / of("conv")[&2][1];
    assert!((ratio - 2.0).abs() < 0.2, "{ratio}");
}

#[test]
fn a_product_always_costs_something_per_multiply_add() {
    // Small products, whose time another count explains as well, and better because of noise.
    let sample = |at: u32| {
        let size = 2f64.powi(at as i32 % 6 + 2);
        let (work, left) = (size.powi(3), size.powi(2));
        let seconds = 1e-6 + left * 1e-9 * (1.0 - 0.001 * size);
        super::operators::OperatorSample {
            family: "matmul".to_string(),
            kind: "MatMul".to_string(),
            threads: 1,
            basis: vec![1.0, work, left],
            features: vec![0.0, work.log2(), left.log2()],
            seconds,
            group: u64::from(at),
            weight: 1.0,
        }
    };
    let samples: Vec<_> = (0..60).map(sample).collect();
    let rows: Vec<(&[f64], f64, f64)> =
        samples.iter().map(|sample| (sample.basis.as_slice(), sample.seconds, 1.0)).collect();
    assert_eq!(super::linear::fit_proportional(&rows, 3)[1], 0.0, "the free fit is degenerate");
    let predictor = super::operators::OperatorPredictor::fit(&samples, &names(), 3).unwrap();
    assert_eq!(predictor.degenerate_lines(), Vec::<String>::new());
    let fastest = samples.iter().map(|sample| sample.seconds / sample.basis[1]).fold(f64::INFINITY, f64::min);
    let line = &predictor.laws["matmul"].coefficients[&1];
    assert!(line[1] >= 0.4 * fastest, "{line:?}, fastest {fastest}");
    let mut bad = predictor.clone();
    bad.laws.get_mut("matmul").unwrap().coefficients.get_mut(&1).unwrap()[1] = 0.0;
    assert_eq!(bad.degenerate_lines(), ["matmul with 1 threads"]);
}
