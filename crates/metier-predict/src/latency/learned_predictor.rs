//! Trained predictors: their files and their predictions.

use std::collections::{BTreeMap, BTreeSet};

use crate::operator_model::device_adaptation::{DeviceAdaptation, TransferGraph};
use crate::operator_model::{GraphOperator, GraphTimeEstimate, GraphTimePredictor as Law, ResourcePressure};
use metier_learn::boost::BoostedTrees;
use metier_learn::conformal::ConformalCalibration;
use metier_types::{ContentDigest, DeviceRef, NumberPrecision, Passport};
use serde::{Deserialize, Serialize};

use super::conditions::InferenceConditions;
use super::error::LatencyError;
use super::operator_features::{self, OperatorStep};
use super::passport_estimate::{self, DeviceSpeeds, SpeedBasis};
use super::trial::record::TrialRecord;
use super::{COVERAGE, SopranoCounts};
use crate::lifecycle;

/// The record's `kind`.
pub const KIND: &str = "latency";
/// Schema of the predictor's file.
pub const SCHEMA: &str = "metier.latency/1";

/// File of a predictor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyPredictorFile {
    /// `metier.latency/1`.
    pub schema: String,
    /// Version of its features ([`operator_features::FEATURE_VERSION`]).
    #[serde(default)]
    pub counted: u32,
    /// Device of the training data.
    pub device: DeviceRef,
    /// Processors of that device.
    pub cores: u32,
    /// Passport of that device, needed to transfer predictions to other devices.
    pub passport: Option<Passport>,
    /// Model over operators.
    pub law: Law,
    /// Model over counts alone.
    pub counts: Option<CountsPredictor>,
}

/// Model from the SOPRANO profiler's counts and the number of threads to the logarithm of seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CountsPredictor {
    pub trees: BoostedTrees,
    pub calibration: ConformalCalibration,
    /// Smallest and largest training value of each feature.
    pub range: Vec<(f64, f64)>,
}

/// A predictor in use.
#[derive(Debug, Clone)]
pub struct LearnedPredictor {
    pub id: ContentDigest,
    pub file: LatencyPredictorFile,
    /// Transfers to other devices and to the other runtime, fitted on a few graphs, by device and
    /// runtime.
    pub elsewhere: BTreeMap<(String, String), DeviceTransfer>,
}

/// Adaptation of a predictor to another device or runtime, fitted on a few graphs measured there.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceTransfer {
    pub by: DeviceAdaptation,
    /// Number of graphs.
    pub graphs: usize,
    /// Leave-one-out error, as a logarithm: root mean square; `None` for a single graph.
    pub spread: Option<f64>,
    /// Whether all graphs ran with co-runners. Their slowdown was divided out with the trained load
    /// model.
    pub is_busy: bool,
}

/// 95 % quantiles of Student's t distribution for 1, 2, … degrees of freedom; the last is used for
/// all larger numbers.
const STUDENT_T_95: [f64; 12] = [6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81, 1.80, 1.75];
/// Lower bound of the estimated error spread; with few graphs the sample spread is unreliable.
const MIN_SPREAD: f64 = 0.05;

impl DeviceTransfer {
    /// Fits on graphs by name, each with one or more points.
    pub fn fit(measured: &[(String, TransferGraph)]) -> Self {
        let prior = DeviceAdaptation::prior(1.0);
        let of = |is: &dyn Fn(&str) -> bool| -> Vec<TransferGraph> {
            measured.iter().filter(|(name, _)| is(name)).map(|(_, graph)| graph.clone()).collect()
        };
        let names: BTreeSet<&str> = measured.iter().map(|(name, _)| name.as_str()).collect();
        let mut squares = Vec::new();
        for left_out in names.iter().filter(|_| names.len() > 1) {
            let rest = DeviceAdaptation::fit(&prior, &of(&|name| name != *left_out));
            let own = of(&|name| name == *left_out);
            let error =
                |graph: &TransferGraph| (graph.seconds / rest.apply(&graph.seconds_by_family)).ln().powi(2);
            squares.push(own.iter().map(error).sum::<f64>() / own.len() as f64);
        }
        let mean = squares.iter().sum::<f64>() / squares.len().max(1) as f64;
        let spread = (!squares.is_empty()).then(|| mean.sqrt().max(MIN_SPREAD));
        Self {
            by: DeviceAdaptation::fit(&prior, &of(&|_| true)),
            graphs: names.len(),
            spread,
            is_busy: false,
        }
    }

    /// Interval factor that covers 9 of 10 graphs for normal errors on the logarithm; `None` for a
    /// single graph.
    fn factor(&self) -> Option<f64> {
        let freedom = self.graphs.checked_sub(2)?;
        let student = STUDENT_T_95.get(freedom).or(STUDENT_T_95.last())?;
        Some((student * self.spread? * (1.0 + 1.0 / self.graphs as f64).sqrt()).exp())
    }
}

/// Default share of a graph's time spent on moving bytes.
const USUALLY_MOVING: f64 = 0.3;
/// Half width of the central 90 % of a normal distribution, in standard deviations.
const NORMAL_90: f64 = 1.645;
/// Largest half width of an interval, as a logarithm.
const MAX_LOG_INTERVAL: f64 = 5.0;

/// Resource pressure of the conditions on a device with this many processors.
pub fn pressure(conditions: &InferenceConditions, cores: f64) -> ResourcePressure {
    let share = |load: Option<metier_types::Ratio>| load.map_or(0.0, |load| load.get().clamp(0.0, 1.0));
    let only_cpu = InferenceConditions { memory_load: None, ..conditions.clone() };
    ResourcePressure {
        sharing: passport_estimate::slowdown(&only_cpu, cores, 0.0).ln(),
        cpu: share(conditions.cpu_load),
        memory: share(conditions.memory_load),
    }
}

/// Converts steps to operators of the model.
pub fn parts(steps: &[OperatorStep], threads: u32) -> Vec<GraphOperator> {
    steps
        .iter()
        .map(|step| {
            let mut features = step.features.to_vec();
            if let Some(last) = features.last_mut() {
                *last = f64::from(threads);
            }
            GraphOperator {
                family: step.family.name().to_string(),
                kind: step.kind.clone(),
                turns: step.turns as f64,
                basis: step.basis.to_vec(),
                features,
                seconds: None,
            }
        })
        .collect()
}

impl LatencyPredictorFile {
    /// Reads and checks a file.
    pub fn read(id: &ContentDigest, bytes: &[u8]) -> Result<Self, lifecycle::LifecycleError> {
        let wrong = |why: String| lifecycle::LifecycleError::unusable(id, why);
        let file: Self = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        if file.schema != SCHEMA {
            return Err(wrong(format!("schema is {:?}; want {SCHEMA:?}", file.schema)));
        }
        file.law.check().map_err(|error| wrong(error.to_string()))?;
        let is_alike = file.law.basis == operator_features::LINEAR_FEATURES.len()
            && file.law.features == operator_features::TREE_FEATURES;
        if !is_alike || file.counted != operator_features::FEATURE_VERSION {
            return Err(wrong("it was trained by another version, on other features".to_string()));
        }
        match file.degeneracy() {
            Some(why) if !file.has_peak() => return Err(wrong(why)),
            Some(why) => {
                tracing::warn!(%id, why, "the passport's peak rates bound this predictor from below");
            }
            None => {}
        }
        Ok(file)
    }

    /// Whether its passport has a peak rate, which bounds predictions from below.
    pub fn has_peak(&self) -> bool {
        self.passport.as_ref().is_some_and(|passport| !passport.compute.is_empty())
    }

    /// Why large products would cost far too little; `None` for a sound predictor.
    pub fn degeneracy(&self) -> Option<String> {
        let lines = self.law.operators.degenerate_lines();
        (!lines.is_empty()).then(|| {
            format!(
                "has no cost per multiply-add for {}: large ones would cost far too little; train again",
                lines.join(", ")
            )
        })
    }
}

impl LearnedPredictor {
    /// Whether it was trained on this device.
    pub fn is_of(&self, passport: &Passport) -> bool {
        let id = self.file.device.id.as_str();
        passport.id == id || passport.device.id.as_str() == id
    }

    /// Prediction for its own device.
    pub fn predict(&self, steps: &[OperatorStep], conditions: &InferenceConditions) -> GraphTimeEstimate {
        let pressure = pressure(conditions, f64::from(self.file.cores));
        self.file.law.predict(&parts(steps, conditions.threads), conditions.threads, pressure, COVERAGE)
    }

    /// The transfer to a device and runtime, fitted on graphs measured there.
    pub fn transfer_to(&self, passport: &Passport, runtime: &str) -> Option<&DeviceTransfer> {
        self.elsewhere.get(&(passport.device.id.to_string(), runtime.to_string()))
    }

    /// Prediction for another device or runtime. It is scaled per operator by the ratio of the two
    /// passports, or by a transfer fitted on graphs measured there.
    pub fn predict_transferred(
        &self,
        steps: &[OperatorStep],
        conditions: &InferenceConditions,
        passport: &Passport,
        precision: NumberPrecision,
    ) -> Result<Option<GraphTimeEstimate>, LatencyError> {
        let Some((here, there, alone)) = self.speeds(passport, conditions, precision)? else {
            return Ok(None);
        };
        let mut answer = self.predict(steps, &alone);
        let moved = self.transfer_to(passport, &conditions.runtime);
        for (step, seconds) in steps.iter().zip(&mut answer.each) {
            *seconds *= match moved {
                Some(moved) => here.adds / there.adds * moved.by.factor(step.family.name()),
                None => {
                    passport_estimate::seconds(step, &there, conditions)
                        / passport_estimate::seconds(step, &here, &alone)
                }
            };
        }
        // Slowdown by co-runners is assumed to be equal there.
        let slowdown = &self.file.law.slowdown;
        let pressure = pressure(conditions, there.cores);
        let slow = slowdown.logarithm(pressure, USUALLY_MOVING, conditions.threads).exp();
        answer.each.iter_mut().for_each(|value| *value *= slow);
        answer.seconds = answer.each.iter().sum();
        // The spread of a few graphs estimates the error; without them the passport's interval is
        // used. A transfer never widens the interval beyond the passport's.
        let passports = there.reach();
        let factor = moved
            .and_then(DeviceTransfer::factor)
            .map_or(passports, |factor| factor.max(answer.factor).min(passports));
        let is_idle = pressure.is_idle() && moved.is_none_or(|moved| !moved.is_busy);
        let by_load = if is_idle { 0.0 } else { NORMAL_90 * slowdown.spread };
        answer.factor = factor.ln().hypot(by_load).min(MAX_LOG_INTERVAL).exp();
        answer.in_range = answer.in_range && moved.is_some_and(|moved| moved.graphs >= 5 && !moved.is_busy);
        Ok(Some(answer))
    }

    /// Description of the data behind a transferred prediction.
    pub fn transfer_source(&self, passport: &Passport, runtime: &str) -> String {
        let home = &self.file;
        let with = match home.law.runtime == runtime {
            true => String::new(),
            false => format!(" with {}", home.law.runtime),
        };
        let learned = format!("learned{with} on {}", home.device.name);
        match self.transfer_to(passport, runtime) {
            Some(moved) => {
                let (count, s) = (moved.graphs, if moved.graphs == 1 { "" } else { "s" });
                let busy = if moved.is_busy { ", all with co-runners" } else { "" };
                format!(
                    "{learned}, moved by {count} graph{s} timed with {runtime} on {}{busy}",
                    passport.name
                )
            }
            None if self.is_of(passport) => {
                format!("{learned}, and no graph was timed with {runtime}, so the interval is wide")
            }
            None => format!(
                "{learned}, carried over by the two passports; no graph was timed on {}, so the interval is wide",
                passport.name
            ),
        }
    }

    /// Speeds of the training device and of the target device according to their passports, and the
    /// conditions on the training device.
    fn speeds(
        &self,
        passport: &Passport,
        conditions: &InferenceConditions,
        precision: NumberPrecision,
    ) -> Result<Option<(DeviceSpeeds, DeviceSpeeds, InferenceConditions)>, LatencyError> {
        let threads = conditions.threads.min(self.file.cores);
        let runtime = self.file.law.runtime.clone();
        let alone = InferenceConditions { runtime, threads, cpu_load: None, memory_load: None };
        // For the same device no passport is needed; only the ratio of the runtimes counts.
        if self.is_of(passport) {
            let cores = f64::from(self.file.cores);
            let some = DeviceSpeeds { adds: 50e9, bytes: 10e9, cores, known: SpeedBasis::Guessed };
            let known = self.file.passport.as_ref().unwrap_or(passport);
            let same = DeviceSpeeds::of(known, threads, precision).unwrap_or(some);
            return Ok(Some((same, same, alone)));
        }
        let Some(home) = &self.file.passport else { return Ok(None) };
        let here = DeviceSpeeds::of(home, threads, precision)?;
        let there = DeviceSpeeds::of(passport, conditions.threads, precision)?;
        Ok(Some((here, there, alone)))
    }

    /// A graph timed elsewhere, with its prediction from the passports alone.
    pub fn transfer_sample(&self, record: &TrialRecord, passport: &Passport) -> Option<TransferGraph> {
        let conditions = InferenceConditions { threads: record.threads, ..InferenceConditions::default() };
        let (here, there, alone) = self.speeds(passport, &conditions, NumberPrecision::F32).ok()??;
        let (point, law) = (record.point(), &self.file.law);
        // Another version may compute features differently.
        if !record.is_of_this_version() {
            return None;
        }
        let answer = law.predict(&point.parts, alone.threads, ResourcePressure::default(), COVERAGE);
        let mut sums = BTreeMap::new();
        for (part, seconds) in point.parts.iter().zip(&answer.each) {
            *sums.entry(part.family.clone()).or_insert(0.0) += seconds * here.adds / there.adds;
        }
        // Slowdown by co-runners there is assumed to equal the trained one.
        let slow = law.slowdown.logarithm(record.pressure, USUALLY_MOVING, record.threads).exp();
        Some(TransferGraph { seconds_by_family: sums, seconds: record.seconds / slow })
    }

    /// Seconds, interval factor, and range check for a graph with only counts known. `None` if no
    /// counts model was trained, or no transfer to the target device exists.
    ///
    /// For another runtime, another device, or an untried number of threads, the prediction is
    /// scaled by the ratio of the passport estimates for these counts.
    pub fn counts(
        &self,
        counts: &SopranoCounts,
        passport: &Passport,
        conditions: &InferenceConditions,
    ) -> Option<(f64, f64, bool)> {
        let law = self.file.counts.as_ref()?;
        let is_own = self.is_of(passport) && self.file.law.runtime == conditions.runtime;
        let (least, most) = law.range.last().copied().unwrap_or((1.0, 1.0));
        let tried = f64::from(conditions.threads).clamp(least.max(1.0), most.max(least).max(1.0)) as u32;
        let row = counts_row(counts.features(), tried);
        let (ratio, cores, by_passports) = if is_own && tried == conditions.threads {
            (1.0, f64::from(self.file.cores), 1.0)
        } else {
            self.counts_ratio(counts, passport, conditions, tried)?
        };
        let pressure = pressure(conditions, cores);
        let slow = self.file.law.slowdown.logarithm(pressure, USUALLY_MOVING, tried);
        let seconds = (law.trees.predict(&row) + slow).exp() * ratio;
        let reach = law.calibration.interval_factor(COVERAGE).unwrap_or(2.5);
        let mut is_inside = law
            .range
            .iter()
            .zip(&row)
            .all(|((low, high), value)| value.is_finite() && *value >= low - 1.0 && *value <= high + 1.0);
        let mut reach = reach * if is_inside { 1.0 } else { 1.5 };
        if !is_own {
            // The uncertainty of the passports is added to that of the counts model.
            reach = reach.hypot(by_passports.ln());
            is_inside = false;
        }
        Some((seconds, reach.min(7.0).exp(), is_inside))
    }

    /// For a graph with these counts: the time ratio of target to training device with this many
    /// threads, the target's processors, and the interval factor of the passports.
    fn counts_ratio(
        &self,
        counts: &SopranoCounts,
        passport: &Passport,
        conditions: &InferenceConditions,
        tried: u32,
    ) -> Option<(f64, f64, f64)> {
        let home = self.file.passport.as_ref();
        let (here, there) = if self.is_of(passport) {
            let cores = f64::from(self.file.cores);
            let some = DeviceSpeeds { adds: 50e9, bytes: 10e9, cores, known: SpeedBasis::Guessed };
            let of = |threads| {
                DeviceSpeeds::of(home.unwrap_or(passport), threads, NumberPrecision::F32).unwrap_or(some)
            };
            (of(tried), of(conditions.threads))
        } else {
            let there = DeviceSpeeds::of(passport, conditions.threads, NumberPrecision::F32).ok()?;
            (DeviceSpeeds::of(home?, tried, NumberPrecision::F32).ok()?, there)
        };
        let ratio = match self.transfer_to(passport, &conditions.runtime) {
            // Graphs timed there are better evidence than the typical ratio of runtimes.
            Some(moved) => here.adds / there.adds * moved.by.common.exp(),
            None => {
                super::soprano_counts::seconds(counts, &there, &conditions.runtime)
                    / super::soprano_counts::seconds(counts, &here, &self.file.law.runtime)
            }
        };
        // On the same device only the ratio of the runtimes is uncertain.
        let reach =
            if self.is_of(passport) { passport_estimate::STATED_INTERVAL_FACTOR } else { there.reach() };
        Some((ratio, there.cores, reach))
    }
}

/// Features of the counts model.
pub fn counts_row(counts: [f64; 7], threads: u32) -> Vec<f64> {
    counts.into_iter().chain([f64::from(threads)]).collect()
}

pub const COUNT_FEATURES: [&str; 8] = [
    "conv_layers",
    "pool_layers",
    "fc_layers",
    "filter_details",
    "total_parameters",
    "model_input_size",
    "model_output_size",
    "threads",
];

#[cfg(test)]
mod tests;
