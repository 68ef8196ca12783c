//! How long a graph takes on a device: predicted, with an interval and the reason.
//!
//! [`step`] says what a runtime really does for a graph; [`physical`] answers from a device's
//! passport alone; a predictor that was [`learned`] on the device answers better, and one that was
//! learned elsewhere is carried over. [`trial`] makes what is learned from, [`runs`] takes what was
//! measured anyway, [`fit`] learns, and [`retrain`] does so again when there is something new;
//! [`memory`] is about how much of that a graph needs. [`Latency`] is where everybody asks: the
//! command line, the doors, placement. It holds the predictors that are in use, is cheap to share
//! between threads, and the same question has the same answer.

pub mod compare_predictors;
pub mod conditions;
pub mod counts;
mod error;
pub mod family;
pub mod fit;
mod fuse;
pub mod generic;
mod kinds;
pub mod learned;
pub mod memory;
pub mod physical;
pub mod retrain;
pub mod runs;
pub mod step;
pub mod trial;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::lifecycle::standing;
use crate::operator_model::adapt::Measured;
use metier_onnx::{Analysis, DataType};
use metier_store::Store;
use metier_types::passport::Origin;
use metier_types::{Device, Digest, Interval, Passport, Precision, Prediction, Ratio, Seconds, Timestamp};

pub use conditions::Conditions;
use conditions::{ONNX_RUNTIME, RTEN};
pub use counts::Counts;
pub use error::Error;
use family::Family;
pub use kinds::{KINDS, LatencyKind, MemoryKind};
use learned::{File, KIND, Learned, Moved};
use physical::{Accelerator, Speeds};
use step::Step;
use trial::record::{self, Kept};

/// The coverage that all intervals plan.
pub const COVERAGE: f64 = 0.9;
/// What a runtime needs before it has a graph.
const RUNTIME_BYTES: f64 = 16e6;

/// Who says how long a graph takes.
#[derive(Debug, Clone)]
pub struct Latency {
    passport: Digest,
    learned: Arc<Vec<Learned>>,
    memory: Arc<Vec<(Digest, memory::Law)>>,
}

/// What one answer is made of.
struct Told {
    steps: Vec<Step>,
    /// Seconds of each step, all turns.
    times: Vec<f64>,
    /// Factors to below and to above.
    factors: (f64, f64),
    in_range: bool,
    predictor: Digest,
    /// Where it comes from, in words.
    source: String,
}

/// The predicted time of one operator.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorTime {
    /// Its place among the graph's operators.
    pub operator: usize,
    /// All its turns together.
    pub seconds: Seconds,
    /// Share of the whole.
    pub share: Ratio,
    /// The operator that does it in passing, where one does.
    pub within: Option<usize>,
}

impl Latency {
    /// With the predictors that are in use.
    pub fn open(store: &Store) -> Result<Self, Error> {
        let read = standing::read_in_use(store, KIND, File::read)?.into_iter();
        let mut all: Vec<Learned> =
            read.map(|(id, file)| Learned { id, file, elsewhere: BTreeMap::new() }).collect();
        if !all.is_empty() {
            elsewhere(store, &mut all)?;
        }
        let memory = Arc::new(standing::read_in_use(store, memory::KIND, memory::Law::read)?);
        Ok(Self { passport: physical::id(), learned: Arc::new(all), memory })
    }

    pub fn from_passports() -> Self {
        Self { passport: physical::id(), learned: Arc::default(), memory: Arc::default() }
    }

    /// How long one inference takes.
    pub fn graph(
        &self,
        graph: &Analysis,
        passport: &Passport,
        conditions: &Conditions,
    ) -> Result<Prediction, Error> {
        let told = self.told(graph, passport, &conditions.on(passport))?;
        let sum: f64 = told.times.iter().sum();
        let because = because_of(&told, graph);
        let interval = Interval::new(sum / told.factors.0, sum * told.factors.1, Ratio(COVERAGE))?;
        Ok(Prediction::new(sum, "seconds", interval, told.predictor, told.in_range, because)?)
    }

    /// How long each operator takes.
    pub fn operators(
        &self,
        graph: &Analysis,
        passport: &Passport,
        conditions: &Conditions,
    ) -> Result<Vec<OperatorTime>, Error> {
        let Told { steps, times, .. } = self.told(graph, passport, &conditions.on(passport))?;
        let sum: f64 = times.iter().sum();
        let mut all: Vec<OperatorTime> = (0..graph.operators.len())
            .map(|operator| OperatorTime { operator, seconds: Seconds(0.0), share: Ratio(0.0), within: None })
            .collect();
        for (step, seconds) in steps.iter().zip(&times) {
            if let Some(one) = all.get_mut(step.operator) {
                (one.seconds, one.share) = (Seconds(*seconds), Ratio(seconds / sum));
            }
            for absorbed in &step.absorbed {
                if let Some(one) = all.get_mut(*absorbed) {
                    one.within = Some(step.operator);
                }
            }
        }
        Ok(all)
    }

    /// Predictors that were not learned for a device and runtime, those first that know most of it.
    fn nearest(&self, passport: &Passport, runtime: &str) -> Vec<&Learned> {
        let graphs = |one: &Learned| one.moved(passport, runtime).map_or(0, |moved| moved.graphs);
        let is_alike = |one: &Learned| one.file.law.runtime == runtime;
        let mut all: Vec<&Learned> = self
            .learned
            .iter()
            // Another device and another runtime, and nothing measured: a passport says as much.
            .filter(|one| graphs(one) > 0 || is_alike(one) || one.is_of(passport))
            .collect();
        all.sort_by_key(|one| (Reverse(graphs(one)), !is_alike(one), !one.is_of(passport)));
        all
    }

    fn told(&self, graph: &Analysis, passport: &Passport, conditions: &Conditions) -> Result<Told, Error> {
        conditions.check()?;
        let steps = step::steps(graph, &conditions.runtime)?;
        let precision = precision(graph);
        let is_own = |one: &&Learned| one.is_of(passport) && one.file.law.runtime == conditions.runtime;
        if let Some(one) = self.learned.iter().find(is_own) {
            let answer = one.tell(&steps, conditions);
            let mut source = format!("learned from {} timed graphs on {}", one.file.law.rows, passport.name);
            if !answer.in_range {
                source
                    .push_str(&format!("; {:.0} % of the time is like what was seen", 100.0 * answer.inside));
                if !answer.unseen.is_empty() {
                    let few: Vec<&str> = answer.unseen.iter().take(4).map(String::as_str).collect();
                    source.push_str(&format!(", never seen: {}", few.join(", ")));
                }
            }
            let (factors, in_range) = ((answer.factor, answer.factor), answer.in_range);
            return Ok(Told { steps, times: answer.each, factors, in_range, predictor: one.id, source });
        }
        for one in self.nearest(passport, &conditions.runtime) {
            let Some(answer) = one.tell_elsewhere(&steps, conditions, passport, precision)? else {
                continue;
            };
            let source = one.source_elsewhere(passport, &conditions.runtime);
            let (factors, in_range) = ((answer.factor, answer.factor), answer.in_range);
            let told = Told { steps, times: answer.each, factors, in_range, predictor: one.id, source };
            // What was timed on the device was timed on its processor.
            let is_timed = one.is_of(passport) || one.moved(passport, &conditions.runtime).is_some();
            return Ok(if is_timed { told } else { accelerated(told, passport, conditions, precision) });
        }
        let speeds = Speeds::of(passport, conditions.threads, precision)?;
        let times = steps
            .iter()
            .map(|step| {
                let idle = physical::seconds(step, &speeds, conditions) * step.turns as f64;
                let moved = step.bytes * step.turns as f64 / speeds.bytes;
                idle * physical::slowdown(conditions, speeds.cores, (moved / idle.max(1e-12)).min(1.0))
            })
            .collect();
        let source = format!(
            "from {} of {}: no graph was timed there, so the interval is wide",
            speeds.known.source(),
            passport.name
        );
        let factors = (speeds.reach(), speeds.reach());
        let told = Told { steps, times, factors, in_range: false, predictor: self.passport, source };
        Ok(accelerated(told, passport, conditions, precision))
    }
}

/// The same where the device has an accelerator that is taken to be faster: its time, and an
/// interval that reaches from it to what the processor alone would take.
fn accelerated(told: Told, passport: &Passport, conditions: &Conditions, precision: Precision) -> Told {
    let Some(accelerator) = Accelerator::of(passport, &conditions.runtime, precision) else { return told };
    let cores = f64::from(passport.device.cpu.threads.max(1));
    let slowdown = physical::slowdown(conditions, cores, 0.0);
    let time = |step: &Step| {
        let turns = step.turns as f64;
        let starts = if matches!(step.family, Family::View | Family::Scalar) { 0.0 } else { turns };
        let bytes = if starts > 0.0 { step.bytes * turns } else { 0.0 };
        accelerator.seconds(step.multiply_adds * turns, bytes, starts, slowdown)
    };
    let times: Vec<f64> = told.steps.iter().map(time).collect();
    let (alone, with) = (told.times.iter().sum::<f64>(), times.iter().sum::<f64>());
    if with >= alone || with <= 0.0 {
        return told;
    }
    let factors = (told.factors.0.max(physical::REACH), told.factors.1 * alone / with);
    let source = beside_the_processor(&told.source, &accelerator, alone);
    Told { times, factors, in_range: false, source, ..told }
}

/// Says that an accelerator was reckoned with, and what the processor alone would take.
fn beside_the_processor(source: &str, accelerator: &Accelerator, alone: f64) -> String {
    format!(
        "on its accelerator ({}) by what the passport states, if the runtime uses it: else {} on the processor, {source}",
        accelerator.name,
        Seconds(alone)
    )
}

/// What few graphs that were timed on other devices, or in the other runtime, say of them.
fn elsewhere(store: &Store, all: &mut [Learned]) -> Result<(), Error> {
    for device in store.devices()? {
        let has_own = |runtime: &str| {
            all.iter().any(|one| one.file.device.id == device.id && one.file.law.runtime == runtime)
        };
        let strange: Vec<&str> = [RTEN, ONNX_RUNTIME].into_iter().filter(|name| !has_own(name)).collect();
        // Thousands of trials may have taught the device's own predictor: those are not read.
        let mut trials = store.trials(&device.id, record::KIND)?;
        trials.retain(|trial| strange.iter().any(|runtime| record::is_of_runtime(&trial.key, runtime)));
        let kept = Kept::join(&trials);
        if kept.is_empty() {
            continue;
        }
        let known = metier_device::passport::of_device(Some(store), &device);
        let passport = known.unwrap_or_else(|| unmeasured(device.clone()));
        for runtime in strange {
            for one in all.iter_mut() {
                let of = |is_idle: bool| -> Vec<(String, Measured)> {
                    let usable = kept.iter().filter(|kept| {
                        kept.runtime == runtime && !kept.is_trial && kept.pressure.is_idle() == is_idle
                    });
                    let told =
                        |kept: &Kept| Some((kept.name.clone(), one.measured_elsewhere(kept, &passport)?));
                    usable.filter_map(told).collect()
                };
                // What ran beside others says less, and more than nothing.
                let idle = of(true);
                let is_busy = idle.is_empty();
                let measured = if is_busy { of(false) } else { idle };
                if !measured.is_empty() {
                    let place = (device.id.to_string(), runtime.to_string());
                    one.elsewhere.insert(place, Moved { is_busy, ..Moved::fit(&measured) });
                }
            }
        }
    }
    Ok(())
}

/// A passport of a device of which nothing was measured or specified.
pub fn unmeasured(device: Device) -> Passport {
    Passport { made: Timestamp::UNIX_EPOCH, ..Passport::of(device, Origin::Specified) }
}

/// What most of the graph is computed in.
fn precision(graph: &Analysis) -> Precision {
    let by_adds = |wanted: fn(DataType) -> bool| -> u64 {
        let of = graph
            .operators
            .iter()
            .filter(|one| one.inputs.first().and_then(|value| value.data_type).is_some_and(wanted));
        of.filter_map(|one| one.multiply_adds?.checked_mul(one.turns)).fold(0, u64::saturating_add)
    };
    let small = by_adds(|kind| matches!(kind, DataType::Int8 | DataType::Uint8));
    let half = by_adds(|kind| matches!(kind, DataType::Float16 | DataType::Bfloat16));
    let double = by_adds(|kind| kind == DataType::Double);
    let most = graph.multiply_adds / 2;
    match (small > most, half > most, double > most) {
        (true, ..) => Precision::I8,
        (_, true, _) => Precision::F16,
        (.., true) => Precision::F64,
        _ => Precision::F32,
    }
}

/// The reason in a sentence: what costs most, and where the figures come from.
fn because_of(told: &Told, graph: &Analysis) -> String {
    let sum: f64 = told.times.iter().sum();
    let mut families: BTreeMap<&str, f64> = BTreeMap::new();
    for (step, seconds) in told.steps.iter().zip(&told.times) {
        *families.entry(step.family.name()).or_default() += seconds;
    }
    let most = families.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default();
    format!(
        "{} multiply-adds in {} operators, {} takes {:.0} %; {}",
        big(graph.multiply_adds as f64),
        told.steps.len(),
        most.0,
        100.0 * most.1 / sum,
        told.source
    )
}

/// A count as people read it.
fn big(count: f64) -> String {
    let steps = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match steps.into_iter().find(|(step, _)| count >= *step) {
        Some((step, word)) => format!("{:.2} {word}", count / step),
        None => format!("{count:.0}"),
    }
}

#[cfg(test)]
pub(crate) mod tests;
