//! From the counts of the SOPRANO profiler alone: without shapes, so coarser.
//!
//! The order is that of graphs: what was learned on the device in the runtime that is asked for, then what was learned there in the other runtime or elsewhere in
//! this one, carried over, then the passport.

use metier_onnx::soprano::Characteristics;
use metier_types::{Bytes, Interval, Passport, Precision, Prediction, Ratio};

use super::conditions::{Conditions, ONNX_RUNTIME};
use super::learned::Learned;
use super::physical::{self, Speeds};
use super::{COVERAGE, Error, Latency, RUNTIME_BYTES, big};

/// Factor to either side of an answer from counts and a passport alone.
const REACH: f64 = 8.0;
/// Share of the stated multiply-adds a second that whole networks reach, in the built-in runtime and in ONNX Runtime.
const REACHED: (f64, f64) = (0.25, 0.4);
/// Every layer comes with a few small operators, which take so many seconds.
const LAYER: f64 = 10e-6;
/// Share of a graph's time that moves bytes, where its operators are not known.
const MOVING: f64 = 0.3;

/// What is alive at one moment, at most, in sizes of input and output together.
const MOST_ALIVE: f64 = 64.0;

/// What the SOPRANO profiler says of a graph, beside its name.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Counts {
    /// Convolutions.
    pub conv_layers: f64,
    /// Pools.
    pub pool_layers: f64,
    /// Fully connected layers.
    pub fc_layers: f64,
    /// Output channels of all convolutions together.
    pub filter_details: f64,
    /// Weights.
    pub total_parameters: f64,
    /// Bytes of what the graph is given.
    pub model_input_size: f64,
    /// Bytes of what it gives.
    pub model_output_size: f64,
}

impl Counts {
    /// Of a graph that was read.
    pub fn of(counts: &Characteristics, input_bytes: f64, output_bytes: f64) -> Self {
        Self {
            conv_layers: counts.conv_layers as f64,
            pool_layers: counts.pool_layers as f64,
            fc_layers: counts.fc_layers as f64,
            filter_details: counts.filter_details as f64,
            total_parameters: counts.total_parameters as f64,
            model_input_size: input_bytes,
            model_output_size: output_bytes,
        }
    }

    /// All of them, on a scale on which times are about straight lines.
    pub fn features(&self) -> [f64; 7] {
        [
            self.conv_layers,
            self.pool_layers,
            self.fc_layers,
            self.filter_details,
            self.total_parameters,
            self.model_input_size,
            self.model_output_size,
        ]
        .map(|count| if count.is_finite() { (1.0 + count.max(0.0)).log2() } else { f64::NAN })
    }

    /// Multiply-adds of a network with such counts: each weight of a convolution is used once for every place of its output,
    /// and images shrink to about a hundredth of their places on the way; each other weight is used once.
    pub fn multiply_adds(&self) -> f64 {
        let positive = |count: f64| if count.is_finite() { count.max(0.0) } else { 0.0 };
        let (conv, full) = (positive(self.conv_layers), positive(self.fc_layers));
        let share = if conv + full > 0.0 { conv / (conv + full) } else { 0.0 };
        // 4 bytes for each of 3 channels of a place.
        let places = positive(self.model_input_size) / 12.0;
        let uses = (places / 100.0).clamp(1.0, 20_000.0);
        positive(self.total_parameters) * (share * uses + (1.0 - share))
    }
}

/// Seconds on an idle device, from counts and what a passport says.
pub fn seconds(counts: &Counts, speeds: &Speeds, runtime: &str) -> f64 {
    let positive = |count: f64| if count.is_finite() { count.max(0.0) } else { 0.0 };
    let layers: f64 = [counts.conv_layers, counts.pool_layers, counts.fc_layers].map(positive).iter().sum();
    let share = if runtime == ONNX_RUNTIME { REACHED.1 } else { REACHED.0 };
    let weights = 4.0 * positive(counts.total_parameters);
    (counts.multiply_adds() / (share * speeds.adds)).max(weights / speeds.bytes) + LAYER * (1.0 + layers)
}

impl Latency {
    /// How long a graph takes of which only counts are known.
    pub fn counts(
        &self,
        counts: &Counts,
        passport: &Passport,
        conditions: &Conditions,
    ) -> Result<Prediction, Error> {
        conditions.check()?;
        if let Some(answer) = self.counts_learned(counts, passport, conditions)? {
            return Ok(answer);
        }
        let speeds = Speeds::of(passport, conditions.threads, Precision::F32)?;
        let idle = seconds(counts, &speeds, &conditions.runtime);
        let seconds = idle * physical::slowdown(conditions, speeds.cores, MOVING);
        let reach = REACH * speeds.reach() / physical::REACH;
        let interval = Interval::new(seconds / reach, seconds * reach, Ratio(COVERAGE))?;
        let because = format!(
            "from counts alone, without shapes: about {} multiply-adds at what the passport of {} says; no graph was timed there",
            big(counts.multiply_adds()),
            passport.name
        );
        Ok(Prediction::new(seconds, "seconds", interval, self.passport, false, because)?)
    }

    /// By what was learned on the device, or else in the other runtime or on another device.
    fn counts_learned(
        &self,
        counts: &Counts,
        passport: &Passport,
        conditions: &Conditions,
    ) -> Result<Option<Prediction>, Error> {
        let is_own = |one: &&Learned| one.is_of(passport) && one.file.law.runtime == conditions.runtime;
        let own = self.learned.iter().filter(is_own);
        let others = self.nearest(passport, &conditions.runtime).into_iter().filter(|one| !is_own(one));
        for one in own.chain(others) {
            let Some((seconds, factor, in_range)) = one.counts(counts, passport, conditions) else {
                continue;
            };
            let interval = Interval::new(seconds / factor, seconds * factor, Ratio(COVERAGE))?;
            let source = match is_own(&one) {
                true => format!("by graphs that were timed on {}", passport.name),
                false => one.source_elsewhere(passport, &conditions.runtime),
            };
            let because = format!("from counts alone, without shapes, {source}");
            return Ok(Some(Prediction::new(seconds, "seconds", interval, one.id, in_range, because)?));
        }
        Ok(None)
    }

    /// How much memory a graph needs of which only counts are known: weights of four bytes, what goes in and out, and the runtime. What is
    /// between input and output is not known, so the interval is wide.
    pub fn memory_of_counts(&self, counts: &Counts) -> Result<Prediction, Error> {
        let positive = |count: f64| if count.is_finite() { count.max(0.0) } else { 0.0 };
        let weights = 4.0 * positive(counts.total_parameters);
        let ends = positive(counts.model_input_size) + positive(counts.model_output_size);
        let value = RUNTIME_BYTES + weights + ends;
        let high = RUNTIME_BYTES + 2.5 * weights + MOST_ALIVE * ends;
        // Weights may have one byte.
        let interval = Interval::new(weights / 4.0, high, Ratio(COVERAGE))?;
        let because = format!(
            "from counts alone: {} of weights at 4 bytes each, {} of input and output, and the runtime itself; activations are not known",
            Bytes(weights as u64),
            Bytes(ends as u64)
        );
        Ok(Prediction::new(value, "bytes", interval, self.passport, false, because)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_from_counts_holds_the_weights_and_is_finite_for_absurd_ones() {
        let latency = Latency::from_passports();
        let counts = Counts {
            total_parameters: 25e6,
            model_input_size: 602_112.0,
            model_output_size: 4000.0,
            ..Counts::default()
        };
        let told = latency.memory_of_counts(&counts).unwrap();
        assert!(told.value() > 100e6 && told.value() < 150e6 && told.unit() == "bytes", "{told:?}");
        let wide = told.interval();
        assert!(wide.low() <= 25e6 && wide.high() > 2.0 * told.value() && !told.in_range(), "{told:?}");
        for absurd in [1e30, f64::NAN, f64::INFINITY, -1.0] {
            let told = latency.memory_of_counts(&Counts { total_parameters: absurd, ..counts }).unwrap();
            assert!(told.interval().high().is_finite(), "{told:?}");
        }
    }
}
