//! The benchmark of a graph: the document `metier.bench/1`.

use std::path::Path;

use metier_onnx::{DataType, GraphAnalysis};
use metier_types::{Bytes, ContentDigest, Joules, Run, Seconds};
use schemars::JsonSchema;
use serde::Serialize;

use crate::inference_job::InferenceOutcome;
use crate::{InferenceTime, NamedTensor, OutputDifference, match_operators};

/// Benchmark of a graph on this host.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Bench")]
pub struct BenchReport {
    /// `metier.bench/1`.
    pub schema: &'static str,
    /// The graph.
    pub graph: BenchedGraph,
    /// The inputs of the graph.
    pub inputs: Vec<BenchInput>,
    /// Maximum number of threads.
    pub threads: usize,
    /// One result per runtime.
    pub results: Vec<RuntimeTimes>,
    /// Runtimes that failed, each with its last run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<RuntimeFailure>,
    /// Comparison of the first two runtimes, if there are two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<RuntimeComparison>,
    /// Assumptions about the inputs.
    pub notes: Vec<String>,
}

/// The benchmarked graph.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Graph")]
pub struct BenchedGraph {
    /// Path of the file.
    pub file: String,
    /// SHA-256 of the file's content.
    pub digest: ContentDigest,
    /// Number of floating-point weights.
    pub parameters: u64,
    /// Known multiply-adds of one inference.
    pub multiply_adds: u64,
    /// Number of executed operators.
    pub operators: usize,
}

/// An input of the graph.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Input")]
pub struct BenchInput {
    /// Name in the graph.
    pub name: String,
    /// Element type.
    pub data_type: DataType,
    /// Dimensions.
    pub shape: Vec<usize>,
}

/// A runtime whose benchmark failed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Failed")]
pub struct RuntimeFailure {
    /// `rten` or `onnxruntime`.
    pub runtime: &'static str,
    /// The run with the reason.
    pub run: Option<String>,
    /// How that run ended.
    pub verdict: Option<String>,
}

/// Times of one runtime.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Timed")]
pub struct RuntimeTimes {
    /// `rten` or `onnxruntime`.
    pub runtime: &'static str,
    /// The runs, one per process; inference times are those of the last run.
    pub runs: Vec<String>,
    /// Whether the runs are in the store.
    pub is_kept: bool,
    /// Time to load the graph.
    pub load_seconds: Seconds,
    /// Time of the first inference.
    pub first_seconds: Seconds,
    /// Load and first inference; the median over processes.
    pub cold_start_seconds: Seconds,
    /// Cold start of each process, in run order.
    pub cold_starts_seconds: Vec<Seconds>,
    /// State of the file in the page cache before the start, if requested.
    pub page_cache: Option<String>,
    /// Number of timed inferences.
    pub inferences: u64,
    /// Median time of an inference.
    pub median_seconds: Seconds,
    /// Lower and upper quartile of the inference time.
    pub quartile_seconds: [Seconds; 2],
    /// Shortest inference time.
    pub min_seconds: Seconds,
    /// 95 % quantile of the inference time.
    pub p95_seconds: Seconds,
    /// 99 % quantile of the inference time.
    pub p99_seconds: Seconds,
    /// Median CPU time of an inference, over all threads.
    pub cpu_seconds_median: Seconds,
    /// Inferences per second, from the median.
    pub per_second: f64,
    /// Multiply-adds per second; `null` if those of an operator are unknown.
    pub multiply_adds_per_second: Option<f64>,
    /// Peak memory of the run's control group.
    pub peak_memory_bytes: Option<Bytes>,
    /// Energy of one inference, if it can be measured.
    pub joules_per_inference: Option<Joules>,
    /// Times of operators, if requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub operators: Vec<OperatorShare>,
}

/// Time of one operator of a runtime.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Operator")]
pub struct OperatorShare {
    /// The operator's name in the runtime.
    pub name: String,
    /// The operator's type in the runtime.
    pub kind: String,
    /// Time in one inference.
    pub seconds: Seconds,
    /// Share of the time of all operators.
    pub share: f64,
    /// Multiply-adds of the file's operators that it covers.
    pub multiply_adds: Option<u64>,
    /// Multiply-adds per second.
    pub multiply_adds_per_second: Option<f64>,
    /// The file's operators that it covers.
    pub covers: Vec<String>,
}

/// Comparison of two runtimes.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Comparison")]
pub struct RuntimeComparison {
    /// Median time of the first runtime divided by that of the second.
    pub time_ratio: f64,
    /// Whether all outputs agree.
    pub agrees: bool,
    /// Difference of each output.
    pub outputs: Vec<OutputDifference>,
}

impl RuntimeComparison {
    /// Compares the first two runtimes; `None` with fewer.
    pub fn of(results: &[RuntimeTimes], outputs: Vec<OutputDifference>) -> Option<Self> {
        let [first, second, ..] = results else { return None };
        let time_ratio = first.median_seconds.get() / second.median_seconds.get();
        Some(Self { time_ratio, agrees: outputs.iter().all(|output| output.agrees), outputs })
    }
}

/// The nearest-rank quantile of a sorted list; the median is the mean of the middle two.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let middle = sorted.len() / 2;
    if part == 0.5 && sorted.len().is_multiple_of(2) && middle > 0 {
        return (sorted[middle - 1] + sorted[middle]) / 2.0;
    }
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1).min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

/// Time of load and first inference, from the stages of a run.
fn cold_start(run: &Run) -> Option<f64> {
    let stage = |name: &str| run.stages.iter().find(|stage| stage.name == name)?.p50;
    Some(stage("load")? + stage("first")?)
}

/// Energy of one inference: the run's mean power times the mean inference time. This excludes
/// loading and warm-up.
fn energy_each(energy: Joules, whole: Seconds, wall: &[f64]) -> Option<Joules> {
    let mean = wall.iter().sum::<f64>() / wall.len() as f64;
    Some(Joules(energy.get() / whole.get() * mean)).filter(|joules| joules.get().is_finite())
}

impl BenchReport {
    /// An empty report, before any run.
    pub fn new(
        path: &Path,
        digest: ContentDigest,
        analysis: &GraphAnalysis,
        made: &[NamedTensor],
        threads: usize,
        notes: Vec<String>,
    ) -> Self {
        let input = |tensor: &NamedTensor| BenchInput {
            name: tensor.name.clone(),
            data_type: tensor.values.data_type(),
            shape: tensor.shape.clone(),
        };
        Self {
            schema: "metier.bench/1",
            graph: BenchedGraph {
                file: path.display().to_string(),
                digest,
                parameters: analysis.parameters,
                multiply_adds: analysis.multiply_adds,
                operators: analysis.operators.len(),
            },
            inputs: made.iter().map(input).collect(),
            threads,
            results: Vec::new(),
            failed: Vec::new(),
            comparison: None,
            notes,
        }
    }

    /// Adds a failed runtime, with its last run and that run's verdict.
    pub fn add_failure(&mut self, runtime: &'static str, last: Option<(&Run, String)>) {
        let run = last.as_ref().map(|(run, _)| run.id.to_string());
        self.failed.push(RuntimeFailure { runtime, run, verdict: last.map(|(_, verdict)| verdict) });
    }

    /// Adds the times of a runtime.
    pub fn add_runtime(
        &mut self,
        runtime: &'static str,
        records: &[Run],
        outcome: &InferenceOutcome,
        analysis: &GraphAnalysis,
        is_kept: bool,
    ) {
        let (Some(load), Some(first), Some(run)) = (outcome.load, outcome.first, records.last()) else {
            return;
        };
        let sorted = |of: fn(&InferenceTime) -> f64| {
            let mut all: Vec<f64> = outcome.runs.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let wall = sorted(|spent| spent.wall.get());
        let cpu = sorted(|spent| spent.cpu.get());
        let at = |part: f64| Seconds(quantile(&wall, part));
        let median = at(0.5);
        let known = (analysis.multiply_adds > 0 && analysis.operators_without_cost == 0)
            .then(|| analysis.multiply_adds as f64 / median.get());
        let mut cold: Vec<f64> = records.iter().filter_map(cold_start).collect();
        if records.len() == 1 || cold.len() != records.len() {
            cold = vec![load.wall.get() + first.wall.get()];
        }
        let cold_starts_seconds = cold.iter().copied().map(Seconds).collect();
        cold.sort_by(f64::total_cmp);
        self.results.push(RuntimeTimes {
            runtime,
            runs: records.iter().map(|run| run.id.to_string()).collect(),
            is_kept,
            load_seconds: load.wall,
            first_seconds: first.wall,
            cold_start_seconds: Seconds(quantile(&cold, 0.5)),
            cold_starts_seconds,
            page_cache: run.context.dataset.as_ref().and_then(|dataset_use| {
                Some(serde_json::to_value(dataset_use.page_cache).ok()?.as_str()?.to_string())
            }),
            inferences: outcome.inferences,
            median_seconds: median,
            quartile_seconds: [at(0.25), at(0.75)],
            min_seconds: at(0.0),
            p95_seconds: at(0.95),
            p99_seconds: at(0.99),
            cpu_seconds_median: Seconds(quantile(&cpu, 0.5)),
            per_second: 1.0 / median.get(),
            multiply_adds_per_second: known,
            peak_memory_bytes: run.summary.peak_memory_bytes,
            joules_per_inference: run
                .summary
                .energy_joules
                .zip(run.summary.wall_seconds)
                .and_then(|(energy, whole)| energy_each(energy, whole, &wall)),
            operators: operators(outcome, analysis),
        });
    }
}

fn operators(outcome: &InferenceOutcome, analysis: &GraphAnalysis) -> Vec<OperatorShare> {
    let whole: f64 = outcome.operators.iter().map(|time| time.seconds).sum();
    let shares = match_operators(analysis, &outcome.operators);
    let mut all: Vec<OperatorShare> = outcome
        .operators
        .iter()
        .zip(shares)
        .map(|(time, share)| OperatorShare {
            name: time.name.clone(),
            kind: time.kind.clone(),
            seconds: Seconds(time.seconds),
            share: if whole > 0.0 { time.seconds / whole } else { 0.0 },
            multiply_adds: share.multiply_adds,
            multiply_adds_per_second: share
                .multiply_adds
                .filter(|cost| *cost > 0 && time.seconds > 0.0)
                .map(|cost| cost as f64 / time.seconds),
            covers: share.operators,
        })
        .collect();
    all.sort_by(|a, b| b.seconds.get().total_cmp(&a.seconds.get()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inference_is_charged_with_power_for_its_own_time() {
        // 100 J in 20 s are 5 W, so an inference of 0.2 s takes 1 J, independent of their number.
        let each = energy_each(Joules(100.0), Seconds(20.0), &[0.1, 0.3]).unwrap();
        assert!((each.get() - 1.0).abs() < 1e-12);
        assert_eq!(energy_each(Joules(1.0), Seconds(1.0), &[]), None);
    }

    #[test]
    fn quantiles_are_of_the_list() {
        let list: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!((quantile(&list, 0.5), quantile(&list, 0.95), quantile(&list, 0.0)), (50.5, 95.0, 1.0));
        assert_eq!((quantile(&[3.0], 0.5), quantile(&[3.0], 0.99), quantile(&[], 0.5)), (3.0, 3.0, 0.0));
    }
}
