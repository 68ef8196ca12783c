//! The candidates of a response: the ranked nodes, or one described device, in the interface's
//! fields.
//!
//! The ranking is [`metier_place::rank_commands`], with ONNX Runtime. Two rules belong to this
//! interface: a predictor file of the original has times without intervals. If no node has memory
//! for the graph, each keeps its time with a note that the graph may not fit, because the original
//! answers such requests, too.

use std::time::Instant;

use metier_onnx::GraphAnalysis;
use metier_place::{
    MissingFact, NodeCost, NodeFacts, NodeInventory, Placement, PlacementDemand, PlacementEstimate,
    PrometheusNode, RankedNode, rank, requested_memory,
};
use metier_predict::latency::conditions::{ALL_PROCESSORS, ONNX_RUNTIME};
use metier_predict::latency::{InferenceConditions, SopranoCounts};
use metier_predict::node_predictor::{GraphWorkload, NodePredictor};
use metier_predict::passport_resolver::PassportResolver;
use metier_types::{Bytes, ContentDigest, PassportOrigin, Ratio};
use schemars::JsonSchema;
use serde::Serialize;

use super::request::DescribedDevice;
use crate::placement_cache::{FileInputs, FilePredictor, PlacementPredictors};

/// The graph to be ranked.
#[derive(Debug, Clone)]
pub struct GraphQuestion {
    /// The counts of the SOPRANO profiler.
    pub counts: SopranoCounts,
    /// The graph itself, if known.
    pub graph: Option<Box<GraphAnalysis>>,
    /// Number of threads; else all of the device's.
    pub threads: Option<u32>,
}

/// Source of the device's speed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Known")]
pub struct SpeedSource {
    /// The passport.
    pub passport: String,
    /// `measured`, `specified`, or `generic` where only cores and instruction set are known.
    pub origin: &'static str,
}

/// A node and the predicted time of the graph there.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[schemars(rename = "Candidate")]
pub struct ProfilingCandidate {
    /// Name of the node in the cluster; `null` for a described device.
    pub node: Option<String>,
    /// The model of the device.
    pub device_model: Option<String>,
    /// The machine class that it reports.
    pub class: Option<String>,
    /// The identifier that it reports.
    pub node_uuid: Option<String>,
    /// Predicted time in seconds; `null` if there is no prediction.
    pub predicted_execution_time: Option<f64>,
    /// Lower end of the interval, in seconds.
    pub low: Option<f64>,
    /// Upper end of the interval, in seconds.
    pub high: Option<f64>,
    /// Nominal coverage of the interval.
    pub coverage: Option<f64>,
    /// Whether the graph lies within the predictor's training range.
    pub in_range: Option<bool>,
    /// Threads of the prediction; `null` for a predictor file, and without a prediction.
    pub threads: Option<u32>,
    /// The predictor; `null` for a predictor file, and without a prediction.
    pub predictor: Option<ContentDigest>,
    /// Reason for the time, or why there is no prediction.
    pub reason: String,
    /// Source of the device's speed.
    pub known_from: Option<SpeedSource>,
    /// Processor time that other programs use, in per cent of all cores.
    pub cpu_usage: Option<f64>,
    /// Per cent of the root file system in use.
    pub disk_usage: Option<f64>,
    /// Memory available to a new program.
    pub memory_available_bytes: Option<Bytes>,
    /// Age of the oldest figure that the answer used, in seconds, when the snapshot was taken.
    pub age_seconds: Option<f64>,
    /// Facts about the node that are missing.
    pub missing: Vec<MissingFact>,
}

/// A time from a predictor file.
struct FileTime(f32);

impl NodeCost for FileTime {
    fn seconds(&self) -> f64 {
        f64::from(self.0)
    }

    fn memory_high(&self) -> Option<f64> {
        None
    }
}

impl GraphQuestion {
    /// The predictor for nodes.
    pub fn node_predictor<'a>(&'a self, predictors: &'a PlacementPredictors) -> NodePredictor<'a> {
        let runtime = ONNX_RUNTIME.to_string();
        let conditions = InferenceConditions {
            runtime,
            threads: self.threads.unwrap_or(ALL_PROCESSORS),
            ..InferenceConditions::default()
        };
        let workload = GraphWorkload { graph: self.graph.as_deref(), counts: Some(self.counts) };
        NodePredictor::new(&predictors.latency, &predictors.passports, workload, conditions)
    }

    /// All nodes: those with a time first, fastest first; then the others, by name.
    pub fn rank_candidates(
        &self,
        predictors: &PlacementPredictors,
        inventory: &NodeInventory,
    ) -> Vec<ProfilingCandidate> {
        let demand = PlacementDemand::single("");
        if let Some(file) = &predictors.file {
            let ranking = rank(inventory, &demand, &|node| self.predict_by_file(file.as_ref(), node));
            return ranking.iter().map(file_candidate).collect();
        }
        let predictor = self.node_predictor(predictors);
        let ranking = rank(inventory, &demand, &|node| predictor.on_node(node));
        ranked_candidates(&ranking, &predictors.passports)
    }

    /// Candidates and placement from one ranking.
    pub fn rank_and_place(
        &self,
        predictors: &PlacementPredictors,
        inventory: &NodeInventory,
        demand: &PlacementDemand,
    ) -> (Vec<ProfilingCandidate>, Placement) {
        let began = Instant::now();
        let predictor = self.node_predictor(predictors);
        let ranking = rank(inventory, demand, &|node| predictor.on_node(node));
        let placement = Placement::new(inventory, demand, &ranking, began.elapsed());
        (ranked_candidates(&ranking, &predictors.passports), placement)
    }

    /// The device that the request describes. There is no alternative, so it keeps its time also
    /// where the graph may not fit; the reason mentions that.
    pub fn predict_described(
        &self,
        predictors: &PlacementPredictors,
        device: &DescribedDevice,
    ) -> ProfilingCandidate {
        let mut candidate = ProfilingCandidate {
            device_model: Some(device.model.clone()),
            cpu_usage: Some(device.cpu_percent),
            disk_usage: Some(device.disk_percent),
            ..ProfilingCandidate::default()
        };
        if let Some(file) = &predictors.file {
            let time = self.file_prediction(file.as_ref(), &candidate);
            candidate.set_file_time(time.as_ref());
            return candidate;
        }
        let Some(source) = predictors.passports.named(&device.model) else {
            let model = &device.model;
            candidate.reason =
                format!("there is no passport of {model:?}; `metier device list` shows those that there are");
            return candidate;
        };
        let load = Ratio(device.cpu_percent / 100.0);
        match self.node_predictor(predictors).on_passport(source, Some(load)) {
            Ok(estimate) => {
                candidate.set_estimate(&estimate);
                let needed = requested_memory(estimate.memory.interval().high());
                let size = estimate.source.passport.device.memory_bytes;
                if let Some(size) = size.filter(|size| needed > *size) {
                    candidate
                        .add_doubt(&format!("it may need {needed} of memory, and the device has {size}"));
                }
            }
            Err(why) => candidate.reason = format!("left out: {why}"),
        }
        candidate
    }

    fn predict_by_file(&self, file: &dyn FilePredictor, node: &NodeFacts) -> Result<FileTime, String> {
        self.file_prediction(file, &ProfilingCandidate::from_node(node))
    }

    fn file_prediction(
        &self,
        file: &dyn FilePredictor,
        candidate: &ProfilingCandidate,
    ) -> Result<FileTime, String> {
        // Predictor files were trained on counts by the original's rules, including operators that
        // the rules miss.
        let by_rules = self.graph.as_ref().and_then(|graph| graph.characteristics_by_rules);
        let SopranoCounts { model_input_size, model_output_size, .. } = self.counts;
        let counts = by_rules
            .map_or(self.counts, |rules| SopranoCounts::of(&rules, model_input_size, model_output_size));
        let inputs = FileInputs {
            counts,
            cpu_percent: candidate.cpu_usage,
            disk_percent: candidate.disk_usage,
            device: candidate.device_model.as_deref(),
        };
        match file.predict(&inputs) {
            Ok(seconds) if !(0.0..f32::INFINITY).contains(&seconds) => Err(format!(
                "the predictor file returned {seconds} s, outside the plausible range; the input is probably outside its training data"
            )),
            Ok(seconds) => Ok(FileTime(seconds)),
            Err(lacking) => Err(format!("the predictor file needs {lacking}")),
        }
    }
}

impl ProfilingCandidate {
    /// A node without a time.
    fn from_node(node: &NodeFacts) -> Self {
        let shown = node.prometheus.as_ref();
        let text = |of: fn(&PrometheusNode) -> &Option<String>| shown.and_then(|shown| of(shown).clone());
        Self {
            node: Some(node.name.clone()),
            device_model: text(|shown| &shown.model),
            class: text(|shown| &shown.class),
            node_uuid: text(|shown| &shown.uuid),
            cpu_usage: node.cpu_busy().map(|busy| 100.0 * busy.get()),
            disk_usage: shown.and_then(|shown| shown.disk_used).map(|used| 100.0 * used.value.get()),
            memory_available_bytes: node.memory_available(),
            age_seconds: shown.and_then(|shown| shown.cpu_busy).map(|busy| busy.age.get()),
            missing: shown.map(|shown| shown.missing.clone()).unwrap_or_default(),
            ..Self::default()
        }
    }

    fn set_estimate(&mut self, estimate: &PlacementEstimate) {
        let (latency, passport) = (&estimate.latency, &estimate.source.passport);
        let interval = latency.interval();
        self.predicted_execution_time = Some(latency.value());
        self.low = Some(interval.low());
        self.high = Some(interval.high());
        self.coverage = Some(interval.coverage().get());
        self.in_range = Some(latency.in_range());
        self.threads = Some(estimate.threads);
        self.predictor = Some(latency.predictor());
        self.reason = latency.reason().to_string();
        let origin = match (estimate.source.is_generic, passport.origin) {
            (true, _) => "generic",
            (_, PassportOrigin::Measured) => "measured",
            _ => "specified",
        };
        self.known_from = Some(SpeedSource { passport: passport.id.clone(), origin });
    }

    fn set_file_time(&mut self, time: Result<&FileTime, &String>) {
        match time {
            Ok(time) => {
                self.predicted_execution_time = Some(time.seconds());
                self.reason =
                    "by the predictor file that the server was given, which has no interval".to_string();
            }
            Err(why) => self.reason = format!("left out: {why}"),
        }
    }

    fn add_doubt(&mut self, why: &str) {
        self.reason.push_str(&format!("; it may not run there: {why}"));
    }

    /// Adds that the device has no passport, unless its series already do.
    fn add_missing_passport(&mut self) {
        if self.missing.iter().all(|lack| lack.what != "device") {
            let model = self.device_model.as_deref().unwrap_or_default();
            let why = format!("there is no passport of {model:?}; `metier device bench` there makes one");
            self.missing.push(MissingFact { what: "device", why });
        }
    }
}

fn file_candidate(node: &RankedNode<'_, FileTime>) -> ProfilingCandidate {
    let mut candidate = ProfilingCandidate::from_node(node.node);
    let unknown = String::new();
    candidate.set_file_time(match (&node.obstacle, &node.cost) {
        (None, Some(time)) => Ok(time),
        (why, _) => Err(why.as_ref().unwrap_or(&unknown)),
    });
    candidate
}

/// Writes a ranking in the interface's fields. A node with too little memory has no time, unless
/// every node has too little.
fn ranked_candidates(
    ranking: &[RankedNode<'_, PlacementEstimate>],
    passports: &PassportResolver,
) -> Vec<ProfilingCandidate> {
    let none_fits = ranking.iter().all(|node| node.obstacle.is_some());
    let of_one = |node: &RankedNode<'_, PlacementEstimate>| {
        let mut candidate = ProfilingCandidate::from_node(node.node);
        match (&node.cost, &node.obstacle) {
            (Some(estimate), None) => {
                candidate.set_estimate(estimate);
                if node.is_memory_unknown {
                    candidate.reason.push_str("; how much memory it has available is not known");
                }
            }
            (Some(estimate), Some(why)) if none_fits => {
                candidate.set_estimate(estimate);
                candidate.add_doubt(why);
            }
            (_, why) => candidate.reason = format!("left out: {}", why.as_deref().unwrap_or_default()),
        }
        let is_known = match &node.cost {
            Some(estimate) => !estimate.source.is_generic,
            None => passports.resolve(node.node).is_ok_and(|source| !source.is_generic),
        };
        if !is_known {
            candidate.add_missing_passport();
        }
        candidate
    };
    let mut candidates: Vec<ProfilingCandidate> = ranking.iter().map(of_one).collect();
    if none_fits {
        let time =
            |candidate: &ProfilingCandidate| candidate.predicted_execution_time.unwrap_or(f64::INFINITY);
        candidates.sort_by(|profiling_candidate, other| time(profiling_candidate).total_cmp(&time(other)));
    }
    candidates
}

#[cfg(test)]
mod equivalence;
#[cfg(test)]
mod tests;
