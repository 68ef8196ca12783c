//! From the counts of the SOPRANO profiler alone: without shapes, so coarser.

use metier_onnx::soprano::Characteristics;

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
