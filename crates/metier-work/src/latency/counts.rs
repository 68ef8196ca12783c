//! From the counts of the SOPRANO profiler alone: without shapes, so coarser.

use metier_onnx::soprano::Characteristics;
use metier_types::{Bytes, Interval, Prediction, Ratio};

use super::{COVERAGE, Error, Latency, RUNTIME_BYTES};

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

impl Latency {
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
