//! Which node would run a graph fastest: every node with its predicted time, or with the reason why there is none.
//!
//! [`Chooser`] holds what answers need (predictors, passports), so that an answer costs no store call; [`Chooser::rank`] answers for the
//! nodes of a snapshot, [`Chooser::device`] for one device that somebody describes. The times come from [`metier_predict::latency`], or from a predictor file
//! of XGBoost ([`Columns`]).
//!
//! - A node is left out of the choice when its load is not known or too old, when nothing is known of its device's speed, or when the least that
//!   the graph needs is more memory than the node has available. It is still listed, and says so.
//! - A node that says nothing of its device is known by its name, if a passport was measured on the host of that name.
//! - A device without a passport is judged by its cores and its instruction set alone ([`latency::generic`]); the interval is wider, and it says so.
//! - Equal times are ordered by name, so the same question has the same answer.

mod columns;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use metier_device::passport;
use metier_onnx::Analysis;
use metier_store::Store;
use metier_types::{Bytes, Digest, Interval, Origin, Passport, Prediction, Ratio};
use schemars::JsonSchema;
use serde::Serialize;

pub use columns::{Columns, Error as ColumnsError, Inputs};

use crate::nodes::{Node, Snapshot};
use metier_predict::latency::conditions::ONNX_RUNTIME;
use metier_predict::latency::{self, Conditions, Counts, Latency, generic};

/// Most names of devices that are remembered with their passport.
const MOST_REMEMBERED: usize = 2000;
/// Why nothing is placed with a predictor file.
const WITHOUT_INTERVAL: &str =
    "the predictor file that the server was given has no interval, and nothing is placed without one";

/// What is to run.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The counts of the SOPRANO profiler.
    pub counts: Counts,
    /// The graph itself, where it is known.
    pub graph: Option<&'a Analysis>,
    /// Threads that it will have; else all of the device's.
    pub threads: Option<u32>,
}

/// A device that somebody describes instead of a Prometheus.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Described<'a> {
    pub model: &'a str,
    /// Per cent of all cores' time in use; as it was written, so that a predictor file sees the very number.
    pub cpu_percent: f64,
    /// Per cent of the root file system in use.
    pub disk_percent: f64,
}

/// What the device's speed is known from.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Known {
    /// The passport.
    pub passport: String,
    /// `measured`, `specified`, or `generic` where only cores and instruction set are known.
    pub origin: &'static str,
}

/// What is not known of a node, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Lack {
    /// `device`, `cpu`, `disk`, `memory`.
    pub what: &'static str,
    /// Why.
    pub why: String,
}

/// A node, and how long the graph would take there.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Candidate {
    /// What the cluster calls it; `null` for a device that was described.
    pub node: Option<String>,
    /// The model of the device.
    pub device_model: Option<String>,
    /// What sort of machine it says it is.
    pub class: Option<String>,
    /// The identifier that it shows.
    pub node_uuid: Option<String>,
    /// Seconds; `null` where nothing can be said.
    pub predicted_execution_time: Option<f64>,
    /// Lower end of the interval, in seconds.
    pub low: Option<f64>,
    /// Upper end of the interval, in seconds.
    pub high: Option<f64>,
    /// Share of true times that the interval is planned to hold.
    pub coverage: Option<f64>,
    /// Whether the question lies within what the predictor has learned from.
    pub in_range: Option<bool>,
    /// Threads that the time is for; `null` for a predictor file, and where nothing can be said.
    pub threads: Option<u32>,
    /// The predictor that says so; `null` for a predictor file, and where nothing can be said.
    pub predictor: Option<Digest>,
    /// Why it takes so long, or why nothing can be said.
    pub reason: String,
    /// What the device's speed is known from.
    pub known_from: Option<Known>,
    /// Per cent of all cores' time that others use.
    pub cpu_usage: Option<f64>,
    /// Per cent of the root file system in use.
    pub disk_usage: Option<f64>,
    /// Memory that a new program could have.
    pub memory_available_bytes: Option<Bytes>,
    /// Age of the oldest figure that the answer used, in seconds, when the snapshot was taken.
    pub age_seconds: Option<f64>,
    /// What is not known of it.
    pub missing: Vec<Lack>,
}

impl Candidate {
    /// Its time as a prediction. The error says why there is none.
    pub fn prediction(&self) -> Result<Prediction, String> {
        let Some(time) = self.predicted_execution_time else { return Err(self.reason.clone()) };
        let (Some(low), Some(high), Some(coverage), Some(predictor)) =
            (self.low, self.high, self.coverage, self.predictor)
        else {
            return Err(WITHOUT_INTERVAL.to_string());
        };
        Interval::new(low, high, Ratio(coverage))
            .and_then(|interval| {
                let in_range = self.in_range.unwrap_or(false);
                Prediction::new(time, "seconds", interval, predictor, in_range, self.reason.clone())
            })
            .map_err(|error| error.to_string())
    }
}

/// Who tells the times.
enum Predictor {
    Ours(Box<Latency>),
    File(Arc<Columns>),
}

/// A passport and where it comes from.
#[derive(Clone)]
struct Judged {
    passport: Arc<Passport>,
    is_generic: bool,
}

/// Everything that answers need, at hand.
pub struct Chooser {
    predictor: Predictor,
    passports: Vec<Passport>,
    remembered: Mutex<HashMap<String, Option<Arc<Passport>>>>,
}

impl Chooser {
    /// With the predictors and passports of a store, as they are now. Blocks.
    pub fn read(store: &Store, file: Option<Arc<Columns>>) -> Result<Self, latency::Error> {
        let predictor = match file {
            Some(columns) => Predictor::File(columns),
            None => Predictor::Ours(Box::new(Latency::open(store)?)),
        };
        Ok(Self::with(predictor, passport::all(Some(store))))
    }

    /// With shipped passports and nothing learned, for where there is no store to ask.
    pub fn without_store(file: Option<Arc<Columns>>) -> Self {
        let ours = || Predictor::Ours(Box::new(Latency::from_passports()));
        Self::with(file.map_or_else(ours, Predictor::File), passport::all(None))
    }

    fn with(predictor: Predictor, passports: Vec<Passport>) -> Self {
        Self { predictor, passports, remembered: Mutex::default() }
    }

    /// All nodes: those with a time first, fastest first; then the others, by name. One without room for the graph has no time, unless none has room: then each has
    /// its time, and says that the graph does not fit.
    pub fn rank(&self, snapshot: &Snapshot, question: &Question<'_>) -> Vec<Candidate> {
        let least = self.least_memory(question);
        let all = |least| -> Vec<Candidate> {
            snapshot.nodes.iter().map(|node| self.candidate(node, question, least)).collect()
        };
        let mut candidates = all(least);
        if candidates.iter().all(|one| one.predicted_execution_time.is_none()) {
            candidates = all(None);
            for one in candidates.iter_mut().filter(|one| one.predicted_execution_time.is_some()) {
                if let Some((least, available)) = without_room(least, one.memory_available_bytes) {
                    one.reason.push_str(&format!(
                        "; it cannot run there: it needs at least {least} of memory, and {available} are available"
                    ));
                }
            }
        }
        candidates.sort_by(|one, other| {
            let time = |candidate: &Candidate| candidate.predicted_execution_time.unwrap_or(f64::INFINITY);
            let has = |candidate: &Candidate| candidate.predicted_execution_time.is_none();
            has(one)
                .cmp(&has(other))
                .then(time(one).total_cmp(&time(other)))
                .then_with(|| one.node.cmp(&other.node))
        });
        candidates
    }

    /// How much memory it needs, on whatever node. The error says why that is not known.
    pub fn memory(&self, question: &Question<'_>) -> Result<Prediction, String> {
        let Predictor::Ours(latency) = &self.predictor else { return Err(WITHOUT_INTERVAL.to_string()) };
        // Where sizes are open, what is alive at one moment is not known.
        let graph = question.graph.filter(|graph| graph.peak_activation_bytes.is_some());
        let told = match graph {
            Some(graph) => {
                let runtime = ONNX_RUNTIME.to_string();
                latency.memory(graph, &Conditions { runtime, ..Conditions::default() })
            }
            None => latency.memory_of_counts(&question.counts),
        };
        told.map_err(|error| error.to_string())
    }

    /// The lower end of what it needs, where that is known: what has less cannot run it.
    fn least_memory(&self, question: &Question<'_>) -> Option<Bytes> {
        let told = self.memory(question).ok()?;
        Some(Bytes(told.interval().low().clamp(0.0, 1e18) as u64))
    }

    /// One device that somebody describes. There is no other to choose, so it has its time also where the graph does not fit, and says so.
    pub fn device(&self, device: &Described<'_>, question: &Question<'_>) -> Candidate {
        let mut candidate = Candidate {
            node: None,
            device_model: Some(device.model.to_string()),
            class: None,
            node_uuid: None,
            cpu_usage: Some(device.cpu_percent),
            disk_usage: Some(device.disk_percent),
            ..empty()
        };
        let judged = self.passport(device.model).map(|passport| Judged { passport, is_generic: false });
        let busy = Some(Ratio(device.cpu_percent / 100.0));
        let size = judged.as_ref().and_then(|judged| judged.passport.device.memory_bytes);
        self.answer(&mut candidate, judged, busy, question, || {
            format!(
                "there is no passport of {:?}; `metier device list` shows those that there are",
                device.model
            )
        });
        if let Some((least, size)) = without_room(self.least_memory(question), size) {
            candidate.reason.push_str(&format!(
                "; it cannot run there: it needs at least {least} of memory, and the device has {size}"
            ));
        }
        candidate
    }

    fn candidate(&self, node: &Node, question: &Question<'_>, least: Option<Bytes>) -> Candidate {
        let mut candidate = Candidate {
            node: Some(node.name.clone()),
            device_model: node.model.clone(),
            class: node.class.clone(),
            node_uuid: node.uuid.clone(),
            cpu_usage: node.cpu_busy.map(|busy| 100.0 * busy.value.get()),
            disk_usage: node.disk_used.map(|used| 100.0 * used.value.get()),
            memory_available_bytes: node.memory_available.map(|available| available.value),
            age_seconds: node.cpu_busy.map(|busy| busy.age.get()),
            missing: node
                .missing
                .iter()
                .map(|lack| Lack { what: lack.what, why: lack.why.clone() })
                .collect(),
            ..empty()
        };
        if let Some(why) = node.why_missing("cpu") {
            candidate.reason = format!("left out, its load is not known: {why}");
            return candidate;
        }
        if let Some((least, available)) = without_room(least, candidate.memory_available_bytes) {
            candidate.reason =
                format!("left out: it needs at least {least} of memory, and {available} are available");
            return candidate;
        }
        let judged = self.judged(node);
        let busy = node.cpu_busy.map(|busy| busy.value);
        self.answer(&mut candidate, judged, busy, question, || {
            let unknown = match (node.cores, node.architecture.as_deref()) {
                (None, None) => "neither its cores nor its instruction set are known".to_string(),
                (Some(cores), None) => format!("of its {cores} cores the instruction set is not known"),
                (None, Some(kind)) => format!("how many {kind} cores it has is not known"),
                (Some(cores), Some(kind)) => {
                    format!("nothing is known of {kind}, which its {cores} cores are")
                }
            };
            match &node.model {
                Some(model) => format!("left out: there is no passport of {model:?}, and {unknown}"),
                None => {
                    let why = node.why_missing("device").unwrap_or("its device is not known");
                    format!("left out: {why}, and {unknown}")
                }
            }
        });
        let is_told = candidate.missing.iter().any(|lack| lack.what == "device");
        let wants = matches!(self.predictor, Predictor::Ours(_));
        if wants && !is_told && candidate.known_from.as_ref().is_none_or(|known| known.origin == "generic") {
            let model = node.model.as_deref().unwrap_or_default();
            let why = format!("there is no passport of {model:?}; `metier device bench` there makes one");
            candidate.missing.push(Lack { what: "device", why });
        }
        candidate
    }

    /// Its own passport, that of its model or of its processor, or one that its cores and instruction set allow.
    fn judged(&self, node: &Node) -> Option<Judged> {
        let by_name = |name: &Option<String>| name.as_deref().and_then(|name| self.passport(name));
        if let Some(passport) = by_name(&node.uuid)
            .or_else(|| self.measured_on(node))
            .or_else(|| by_name(&node.model))
            .or_else(|| by_name(&node.brand))
        {
            return Some(Judged { passport, is_generic: false });
        }
        let (architecture, cores) = (node.architecture.as_deref()?, node.cores?);
        let made = || generic::passport(architecture, cores);
        let passport = self.remembered(&format!("{architecture} \u{d7} {cores}"), made)?;
        Some(Judged { passport, is_generic: true })
    }

    /// The passport that was measured on the host of this name, if there is but one such host and it has as many cores: node_exporter
    /// tells no more of a device than that.
    fn measured_on(&self, node: &Node) -> Option<Arc<Passport>> {
        self.remembered(&format!("node {} \u{d7} {:?}", node.name, node.cores), || {
            let is_of = |passport: &&Passport| {
                passport.origin == Origin::Measured && passport.device.name.eq_ignore_ascii_case(&node.name)
            };
            let mut found = self.passports.iter().filter(is_of);
            let first = found.next()?;
            let is_alone = found.all(|other| other.device.id == first.device.id);
            let fits = node.cores.is_none_or(|cores| cores == first.device.cpu.threads);
            (is_alone && fits).then(|| first.clone())
        })
    }

    fn passport(&self, name: &str) -> Option<Arc<Passport>> {
        self.remembered(name, || passport::among(&self.passports, name).cloned())
    }

    fn remembered(&self, name: &str, make: impl FnOnce() -> Option<Passport>) -> Option<Arc<Passport>> {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = remembered.get(name) {
            return known.clone();
        }
        let found = make().map(Arc::new);
        if remembered.len() >= MOST_REMEMBERED {
            remembered.clear();
        }
        remembered.insert(name.to_string(), found.clone());
        found
    }

    fn answer(
        &self,
        candidate: &mut Candidate,
        judged: Option<Judged>,
        busy: Option<Ratio>,
        question: &Question<'_>,
        unknown: impl FnOnce() -> String,
    ) {
        match &self.predictor {
            Predictor::File(columns) => by_file(columns, candidate, question),
            Predictor::Ours(latency) => match judged {
                Some(judged) => by_passport(latency, &judged, candidate, busy, question),
                None => candidate.reason = unknown(),
            },
        }
    }
}

/// What a graph needs at least and what there is, where that is less.
fn without_room(least: Option<Bytes>, available: Option<Bytes>) -> Option<(Bytes, Bytes)> {
    least.zip(available).filter(|(least, available)| least > available)
}

fn by_passport(
    latency: &Latency,
    judged: &Judged,
    candidate: &mut Candidate,
    busy: Option<Ratio>,
    question: &Question<'_>,
) {
    let passport = &judged.passport;
    let conditions = Conditions {
        runtime: ONNX_RUNTIME.to_string(),
        threads: question.threads.unwrap_or(u32::MAX).clamp(1, passport.device.cpu.threads.max(1)),
        cpu_load: busy,
        ..Conditions::default()
    };
    let mut note = String::new();
    let of_graph = question.graph.map(|graph| latency.graph(graph, passport, &conditions));
    let predicted = match of_graph {
        Some(Err(error @ latency::Error::Open { .. })) => {
            note = format!("{error}; so ");
            latency.counts(&question.counts, passport, &conditions)
        }
        Some(answered) => answered,
        None => latency.counts(&question.counts, passport, &conditions),
    };
    let origin = match (judged.is_generic, passport.origin) {
        (true, _) => "generic",
        (_, Origin::Measured) => "measured",
        _ => "specified",
    };
    candidate.known_from = Some(Known { passport: passport.id.clone(), origin });
    match predicted {
        Ok(prediction) => {
            let interval = prediction.interval();
            candidate.predicted_execution_time = Some(prediction.value());
            candidate.threads = Some(conditions.threads);
            candidate.low = Some(interval.low());
            candidate.high = Some(interval.high());
            candidate.coverage = Some(interval.coverage().get());
            candidate.predictor = Some(prediction.predictor());
            candidate.in_range = Some(prediction.in_range() && !judged.is_generic);
            candidate.reason = format!("{note}{}", prediction.because());
        }
        Err(error) => candidate.reason = format!("left out: {error}"),
    }
}

fn by_file(columns: &Columns, candidate: &mut Candidate, question: &Question<'_>) {
    // Such files were learned from counts by the original's rules, its blind spots included.
    let by_rules = question.graph.and_then(|graph| graph.characteristics_by_rules);
    let Counts { model_input_size, model_output_size, .. } = question.counts;
    let counts =
        by_rules.map_or(question.counts, |rules| Counts::of(&rules, model_input_size, model_output_size));
    let inputs = Inputs {
        counts,
        cpu_percent: candidate.cpu_usage,
        disk_percent: candidate.disk_usage,
        device: candidate.device_model.as_deref(),
    };
    match columns.predict(&inputs) {
        Ok(seconds) if !(0.0..f32::INFINITY).contains(&seconds) => {
            candidate.reason = format!(
                "left out: the predictor file says {seconds} s, which nothing takes; it was not learned from the like"
            );
        }
        Ok(seconds) => {
            candidate.predicted_execution_time = Some(f64::from(seconds));
            candidate.reason =
                "by the predictor file that the server was given, which has no interval".to_string();
        }
        Err(lacking) => candidate.reason = format!("left out: the predictor file needs {lacking}"),
    }
}

fn empty() -> Candidate {
    Candidate {
        node: None,
        device_model: None,
        class: None,
        node_uuid: None,
        predicted_execution_time: None,
        low: None,
        high: None,
        coverage: None,
        in_range: None,
        threads: None,
        predictor: None,
        reason: String::new(),
        known_from: None,
        cpu_usage: None,
        disk_usage: None,
        memory_available_bytes: None,
        age_seconds: None,
        missing: Vec::new(),
    }
}
