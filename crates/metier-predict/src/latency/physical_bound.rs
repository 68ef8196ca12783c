//! Lower bound of an operator's time from the passport: no operator is faster than the device's
//! peak arithmetic, or than its memory (the roofline of Williams, Waterman and Patterson, 2009).
//!
//! A fitted model may extrapolate below it. The bound is applied to each operator of a prediction
//! and to the lower end of the interval. It is a bound of the processor: times on an accelerator
//! are not bounded. A passport without a figure bounds nothing.

use metier_onnx::{DataType, GraphAnalysis};
use metier_types::{NumberPrecision, Passport};

use super::GraphEstimate;
use super::family::OperatorFamily;
use super::operator_features::OperatorStep;

/// Least assumed size of all caches: passports of several sockets state one.
const LEAST_CACHE_BYTES: f64 = (32u64 << 20) as f64;
/// Factor on the figures of a quick passport, which a busy host makes too low.
const QUICK_MARGIN: f64 = 1.5;
/// Interval factor above for each operator of unknown cost, and the most of them that count.
const UNKNOWN_FACTOR: f64 = 2.0;
const MAX_UNKNOWN: i32 = 3;

/// Peak rates of a device for a number of threads.
#[derive(Debug, Clone, PartialEq)]
pub struct PhysicalBound<'a> {
    passport: &'a Passport,
    threads: u32,
    /// Bytes per second read from the fastest cache, and of memory.
    cache_bytes: Option<f64>,
    memory_bytes: Option<f64>,
    cache_size: f64,
}

/// The largest rate for this number of threads; for the next larger number if there is none. So a
/// missing figure never makes the bound too strict. Figures of a quick passport get a margin, and
/// those of fewer threads count in proportion.
fn peak(all: impl Iterator<Item = (u32, f64)>, threads: u32, is_quick: bool) -> Option<f64> {
    let all: Vec<(u32, f64)> = all.filter(|(_, rate)| rate.is_finite() && *rate > 0.0).collect();
    let known = || all.iter().map(|(known, _)| *known);
    let at = known().filter(|known| *known >= threads).min().or_else(|| known().max())?;
    let of = |(known, rate): &(u32, f64)| match (*known == at, is_quick && *known > 0 && *known < at) {
        (true, _) => Some(*rate),
        (_, true) => Some(rate * f64::from(at) / f64::from(*known)),
        _ => None,
    };
    let largest = all.iter().filter_map(of).reduce(f64::max)?;
    Some(if is_quick { QUICK_MARGIN * largest } else { largest })
}

impl<'a> PhysicalBound<'a> {
    pub fn new(passport: &'a Passport, threads: u32) -> Self {
        // Figures with a working set are of caches.
        let bandwidth = |is_memory: bool| {
            let rates =
                passport.bandwidth.iter().filter(|rate| rate.working_set_bytes.is_none() == is_memory);
            peak(rates.map(|rate| (rate.threads, rate.bytes_per_second)), threads, passport.is_quick)
        };
        let caches = &passport.device.cpu.caches;
        let cores = f64::from(passport.device.cpu.threads.max(1));
        // Caches of the first two levels belong to a core.
        let size = |level: u32, bytes: f64| if level < 3 { bytes * cores } else { bytes };
        let known: f64 = caches.iter().map(|cache| size(cache.level, cache.size_bytes.get() as f64)).sum();
        Self {
            passport,
            threads,
            cache_bytes: bandwidth(false),
            memory_bytes: bandwidth(true),
            cache_size: known.max(LEAST_CACHE_BYTES),
        }
    }

    fn adds(&self, precision: NumberPrecision) -> Option<f64> {
        let rates = self.passport.compute.iter().filter(|rate| rate.precision == precision);
        let figures = rates.map(|rate| (rate.threads, rate.multiply_adds_per_second));
        peak(figures, self.threads, self.passport.is_quick)
    }

    /// The least seconds of one step over all iterations.
    fn least_seconds(&self, graph: &GraphAnalysis, step: &OperatorStep) -> f64 {
        let inputs = graph.operators.get(step.operator).map(|cost| &cost.inputs);
        let precision = operator_precision(inputs.and_then(|all| all.first()?.data_type));
        let arithmetic = self.adds(precision).map_or(0.0, |rate| step.multiply_adds / rate);
        // These may be done without touching the values.
        let is_moved = !matches!(step.family, OperatorFamily::View | OperatorFamily::Scalar)
            && !matches!(step.kind.as_str(), "Slice" | "Expand");
        let bytes = if is_moved { step.bytes } else { 0.0 };
        // A core reads and writes at the same time.
        let near = self.cache_bytes.map_or(0.0, |rate| 0.5 * bytes / rate);
        // What the caches hold need not come from memory.
        let afar = self.memory_bytes.map_or(0.0, |rate| (bytes - self.cache_size).max(0.0) / rate);
        arithmetic.max(near).max(afar) * step.turns as f64
    }

    /// Raises the operators of an estimate that are below the bound.
    pub(super) fn apply(&self, mut estimate: GraphEstimate, graph: &GraphAnalysis) -> GraphEstimate {
        let mut raised = 0;
        estimate.least = 0.0;
        for (step, seconds) in estimate.steps.iter().zip(&mut estimate.times) {
            let least = self.least_seconds(graph, step);
            estimate.least += least;
            if *seconds < least {
                *seconds = least;
                raised += 1;
            }
        }
        if raised > 0 {
            estimate.source.push_str(&format!("; {raised} operators raised to the device's peak rates"));
        }
        estimate
    }
}

fn operator_precision(data_type: Option<DataType>) -> NumberPrecision {
    match data_type {
        Some(DataType::Int8 | DataType::Uint8) => NumberPrecision::I8,
        Some(DataType::Float16 | DataType::Bfloat16) => NumberPrecision::F16,
        Some(DataType::Double) => NumberPrecision::F64,
        _ => NumberPrecision::F32,
    }
}

/// Widens the interval upwards for operators of unknown cost: they count as nearly nothing, and may
/// cost anything.
pub(super) fn widen_for_unknown(mut estimate: GraphEstimate, graph: &GraphAnalysis) -> GraphEstimate {
    let is_unknown = |step: &&OperatorStep| {
        let is_costless = graph.operators.get(step.operator).is_none_or(|cost| cost.multiply_adds.is_none());
        is_costless && !matches!(step.family, OperatorFamily::View | OperatorFamily::Scalar)
    };
    let kinds: std::collections::BTreeSet<&str> =
        estimate.steps.iter().filter(is_unknown).map(|step| step.kind.as_str()).collect();
    if kinds.is_empty() {
        return estimate;
    }
    let few: Vec<&str> = kinds.iter().take(4).copied().collect();
    estimate
        .source
        .push_str(&format!("; the cost of {} is unknown, so the interval is wider", few.join(", ")));
    let count = estimate.steps.iter().filter(is_unknown).count();
    estimate.factors.1 *= UNKNOWN_FACTOR.powi(i32::try_from(count).unwrap_or(MAX_UNKNOWN).min(MAX_UNKNOWN));
    estimate.in_range = false;
    estimate
}

#[cfg(test)]
mod tests;
