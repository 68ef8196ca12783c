//! How long a graph takes on a device: predicted, with an interval and the reason.
//!
//! [`step`] says what a runtime really does for a graph; [`physical`] answers from a device's passport alone; a predictor that was learned on the
//! device answers better. [`Latency`] is where everybody asks: the command line, the doors, placement. It holds the predictors that are in use, is cheap to share
//! between threads, and the same question has the same answer.

pub mod conditions;
pub mod counts;
mod error;
pub mod family;
mod fuse;
pub mod physical;
pub mod step;

use metier_onnx::{Analysis, DataType};
use metier_store::Store;
use metier_types::{Bytes, Digest, Interval, Passport, Precision, Prediction, Ratio, Seconds};

pub use conditions::Conditions;
pub use counts::Counts;
pub use error::Error;
use physical::Speeds;
use step::Step;

/// The coverage that all intervals plan.
pub const COVERAGE: f64 = 0.9;
/// Factor to either side of an answer from counts alone.
const COUNTS_REACH: f64 = 8.0;
/// What a runtime needs before it has a graph.
const RUNTIME_BYTES: f64 = 16e6;

/// Who says how long a graph takes.
#[derive(Debug, Clone)]
pub struct Latency {
    passport: Digest,
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
    pub fn open(_store: &Store) -> Result<Self, Error> {
        Ok(Self::from_passports())
    }

    /// Without anything learned.
    pub fn from_passports() -> Self {
        Self { passport: physical::id() }
    }

    /// How long one inference takes.
    pub fn graph(
        &self,
        graph: &Analysis,
        passport: &Passport,
        conditions: &Conditions,
    ) -> Result<Prediction, Error> {
        let (steps, times, speeds) = self.times(graph, passport, conditions)?;
        let sum: f64 = times.iter().sum();
        let reach = speeds.reach();
        let because = because_of(&steps, &times, graph, passport, &speeds);
        let interval = Interval::new(sum / reach, sum * reach, Ratio(COVERAGE))?;
        Ok(Prediction::new(sum, "seconds", interval, self.passport, false, because)?)
    }

    /// How long each operator takes.
    pub fn operators(
        &self,
        graph: &Analysis,
        passport: &Passport,
        conditions: &Conditions,
    ) -> Result<Vec<OperatorTime>, Error> {
        let (steps, times, _) = self.times(graph, passport, conditions)?;
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

    /// How long a graph takes of which only counts are known.
    pub fn counts(
        &self,
        counts: &Counts,
        passport: &Passport,
        conditions: &Conditions,
    ) -> Result<Prediction, Error> {
        conditions.check()?;
        let speeds = Speeds::of(passport, conditions.threads, Precision::F32)?;
        let layers = [counts.conv_layers, counts.pool_layers, counts.fc_layers];
        let layers: f64 = layers.iter().filter(|count| count.is_finite()).map(|count| count.max(0.0)).sum();
        let adds = counts.multiply_adds();
        let weights =
            if counts.total_parameters.is_finite() { 4.0 * counts.total_parameters.max(0.0) } else { 0.0 };
        // Half of what the processor can do, and a few small operators for each layer.
        let work = (adds / (0.4 * speeds.adds)).max(weights / speeds.bytes);
        let seconds = (work + 10e-6 * (1.0 + layers)) * physical::slowdown(conditions, speeds.cores, 0.3);
        let reach = COUNTS_REACH * speeds.reach() / physical::REACH;
        let interval = Interval::new(seconds / reach, seconds * reach, Ratio(COVERAGE))?;
        let because = format!(
            "from counts alone, without shapes: about {} multiply-adds at what the passport of {} says; nothing was measured there",
            big(adds),
            passport.name
        );
        Ok(Prediction::new(seconds, "seconds", interval, self.passport, false, because)?)
    }

    /// How much memory running it needs.
    pub fn memory(&self, graph: &Analysis, conditions: &Conditions) -> Result<Prediction, Error> {
        conditions.check()?;
        let weights = graph.weight_bytes.0 as f64;
        let largest =
            graph.operators.iter().filter_map(|one| Some(one.read_bytes?.0 + one.written_bytes?.0)).max();
        let alive = graph.peak_activation_bytes.map_or(largest.unwrap_or(0), |bytes| bytes.0) as f64;
        let value = RUNTIME_BYTES + 1.2 * weights + 1.3 * alive;
        let interval =
            Interval::new(weights.min(value), RUNTIME_BYTES + 2.5 * weights + 3.0 * alive, Ratio(COVERAGE))?;
        let because = format!(
            "{} of weights, at most {} of activations at one moment, and the runtime itself",
            graph.weight_bytes,
            Bytes(alive as u64)
        );
        let in_range = graph.peak_activation_bytes.is_some();
        Ok(Prediction::new(value, "bytes", interval, self.passport, in_range, because)?)
    }

    fn times(
        &self,
        graph: &Analysis,
        passport: &Passport,
        conditions: &Conditions,
    ) -> Result<(Vec<Step>, Vec<f64>, Speeds), Error> {
        conditions.check()?;
        let steps = step::steps(graph, &conditions.runtime)?;
        let speeds = Speeds::of(passport, conditions.threads, precision(graph))?;
        let times = steps
            .iter()
            .map(|step| {
                let idle = physical::seconds(step, &speeds, conditions) * step.turns as f64;
                let moved = step.bytes * step.turns as f64 / speeds.bytes;
                idle * physical::slowdown(conditions, speeds.cores, (moved / idle.max(1e-12)).min(1.0))
            })
            .collect();
        Ok((steps, times, speeds))
    }
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
fn because_of(
    steps: &[Step],
    times: &[f64],
    graph: &Analysis,
    passport: &Passport,
    speeds: &Speeds,
) -> String {
    let sum: f64 = times.iter().sum();
    let mut families: std::collections::BTreeMap<&str, f64> = std::collections::BTreeMap::new();
    for (step, seconds) in steps.iter().zip(times) {
        *families.entry(step.family.name()).or_default() += seconds;
    }
    let most = families.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default();
    let source =
        if speeds.is_stated { "what the passport states" } else { "guesses from frequency and cores" };
    format!(
        "{} multiply-adds in {} operators, {} takes {:.0} %; from {source} of {}: nothing was measured there, so the interval is wide",
        big(graph.multiply_adds as f64),
        steps.len(),
        most.0,
        100.0 * most.1 / sum,
        passport.name
    )
}

/// A count as people read it.
fn big(count: f64) -> String {
    let steps = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match steps.into_iter().find(|(step, _)| count >= *step) {
        Some((step, word)) => format!("{:.3} {word}", count / step).replace("000 ", " "),
        None => format!("{count:.0}"),
    }
}

#[cfg(test)]
mod tests;
