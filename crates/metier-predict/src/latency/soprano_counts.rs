//! Predicts from the counts of the SOPRANO profiler alone. They lack shapes, so this is less
//! accurate.
//!
//! Sources in order of preference: a predictor of the device and runtime; one of the device's other
//! runtime, or of another device with this runtime, transferred; the passport.

use metier_onnx::soprano::GraphCharacteristics;
use metier_types::{Bytes, ContentDigest, NumberPrecision, Passport, Prediction, PredictionInterval, Ratio};

use super::conditions::{InferenceConditions, ONNX_RUNTIME};
use super::learned_predictor::LearnedPredictor;
use super::passport_estimate::{self, AcceleratorSpeed, DeviceSpeeds};
use super::{COVERAGE, LatencyError, LatencyPredictor, RUNTIME_BYTES, accelerator_note, format_count};

/// Interval factor of a prediction from counts and a passport alone.
///
/// From the 23 lab graphs, 25 points, timed next to the passport of the same host, which was busy
/// with other work. With rates and shrinking refitted leave-one-graph-out (one thread), 9 of 10
/// held-out graphs were within a factor of 7 (ONNX Runtime) and 10 (built in). With the constants
/// as they stand, 24 and 22 of 25 (ONNX Runtime, one and two threads) and 22 and 22 (built in) are
/// within 10: 90 of 100. The rules of [`SopranoCounts::multiply_adds`] were designed on all of
/// these graphs, so coverage on other graphs may be lower. The outliers do much work at full
/// resolution with few weights, or are recurrent.
const COUNTS_INTERVAL_FACTOR: f64 = 10.0;
/// Reached share of the multiply-add rate for whole networks, in the built-in runtime and in ONNX
/// Runtime.
const REACHED_SHARES: (f64, f64) = (0.2, 0.4);
/// Overhead of each layer in seconds, for the small operators around it.
const SECONDS_PER_LAYER: f64 = 10e-6;
/// Accelerator operators per layer after fusion.
const OPERATORS_PER_LAYER: f64 = 3.0;
/// Default share of a graph's time spent on moving bytes.
const MOVING_SHARE: f64 = 0.3;
/// Image positions for each use of a weight: images shrink on their way through a network.
const POSITIONS_PER_WEIGHT: f64 = 200.0;
/// Bytes of a word in a sequence.
const BYTES_PER_WORD: f64 = 8.0;
/// Fewest fully connected layers of a network without others that reads sequences; with fewer it
/// reads a single item.
const MIN_SEQUENCE_LAYERS: f64 = 8.0;
/// Upper bound of live activations, in multiples of input and output size.
const MAX_ALIVE_SIZES: f64 = 64.0;

/// Counts of the SOPRANO profiler for a graph, without its name.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SopranoCounts {
    pub conv_layers: f64,
    pub pool_layers: f64,
    pub fc_layers: f64,
    /// Sum of the output channels of all convolutions.
    pub filter_details: f64,
    pub total_parameters: f64,
    /// Bytes of the graph's inputs.
    pub model_input_size: f64,
    /// Bytes of the graph's outputs.
    pub model_output_size: f64,
}

impl SopranoCounts {
    /// Counts of a parsed graph.
    pub fn of(counts: &GraphCharacteristics, input_bytes: f64, output_bytes: f64) -> Self {
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

    /// All counts on a scale on which times are roughly linear.
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

    /// Estimated multiply-adds of a network with these counts.
    ///
    /// Each convolution weight is used once per output position, every other weight once.
    /// Convolutions are assumed to be 3 × 3 between the average number of channels. The remaining
    /// weights belong to other layers, which in image networks are few and large. If those layers
    /// are the majority and there is hardly any pooling, the network reads sequences, and every
    /// weight is used once per word.
    pub fn multiply_adds(&self) -> f64 {
        let (conv, full, pools) =
            (positive(self.conv_layers), positive(self.fc_layers), positive(self.pool_layers));
        let (weights, bytes) = (positive(self.total_parameters), positive(self.model_input_size));
        if full > conv && pools <= 1.0 && (conv > 0.0 || full >= MIN_SEQUENCE_LAYERS) {
            return weights * (bytes / BYTES_PER_WORD).clamp(1.0, 20_000.0);
        }
        let channels = positive(self.filter_details) / conv.max(1.0);
        let in_conv = (9.0 * conv * channels * channels).min(weights);
        // 4 bytes for each of 3 channels of a position.
        let uses = (bytes / 12.0 / POSITIONS_PER_WEIGHT).clamp(1.0, 20_000.0);
        in_conv * uses + (weights - in_conv)
    }

    fn layers(&self) -> f64 {
        positive(self.conv_layers) + positive(self.pool_layers) + positive(self.fc_layers)
    }
}

/// Replaces invalid counts by 0.
fn positive(count: f64) -> f64 {
    if count.is_finite() { count.max(0.0) } else { 0.0 }
}

/// Prediction from counts.
struct CountsEstimate {
    seconds: f64,
    /// Interval factors below and above.
    factors: (f64, f64),
    in_range: bool,
    predictor: ContentDigest,
    source: String,
}

/// Seconds on an idle device, from counts and passport speeds.
pub fn seconds(counts: &SopranoCounts, speeds: &DeviceSpeeds, runtime: &str) -> f64 {
    let share = if runtime == ONNX_RUNTIME { REACHED_SHARES.1 } else { REACHED_SHARES.0 };
    let weights = 4.0 * positive(counts.total_parameters);
    let work = (counts.multiply_adds() / (share * speeds.adds)).max(weights / speeds.bytes);
    work + SECONDS_PER_LAYER * (1.0 + counts.layers())
}

impl LatencyPredictor {
    /// Predicts the time of a graph from counts.
    pub fn counts(
        &self,
        counts: &SopranoCounts,
        passport: &Passport,
        conditions: &InferenceConditions,
    ) -> Result<Prediction, LatencyError> {
        conditions.check()?;
        let conditions = &conditions.on(passport);
        let estimate = match self.counts_learned(counts, passport, conditions) {
            Some(counts_estimate) => counts_estimate,
            None => self.counts_physical(counts, passport, conditions)?,
        };
        let (low, high) = (estimate.seconds / estimate.factors.0, estimate.seconds * estimate.factors.1);
        let interval = PredictionInterval::new(low, high, Ratio(COVERAGE))?;
        let because = format!("from counts alone, without shapes: {}", estimate.source);
        Ok(Prediction::new(
            estimate.seconds,
            "seconds",
            interval,
            estimate.predictor,
            estimate.in_range,
            because,
        )?)
    }

    /// Prediction by a model trained on the device, else in the other runtime or on another device.
    fn counts_learned(
        &self,
        counts: &SopranoCounts,
        passport: &Passport,
        conditions: &InferenceConditions,
    ) -> Option<CountsEstimate> {
        let is_own = |predictor: &&LearnedPredictor| {
            predictor.is_of(passport) && predictor.file.law.runtime == conditions.runtime
        };
        let own = self.learned.iter().filter(is_own);
        let others = self
            .nearest(passport, &conditions.runtime)
            .into_iter()
            .filter(|learned_predictor| !is_own(learned_predictor));
        own.chain(others).find_map(|learned_predictor| {
            let (seconds, factor, in_range) = learned_predictor.counts(counts, passport, conditions)?;
            let source = match is_own(&learned_predictor) {
                true => format!("by graphs that were timed on {}", passport.name),
                false => learned_predictor.transfer_source(passport, &conditions.runtime),
            };
            let estimate = CountsEstimate {
                seconds,
                factors: (factor, factor),
                in_range,
                predictor: learned_predictor.id,
                source,
            };
            let is_timed = learned_predictor.is_of(passport)
                || learned_predictor.transfer_to(passport, &conditions.runtime).is_some();
            Some(if is_timed { estimate } else { with_accelerator(estimate, counts, passport, conditions) })
        })
    }

    fn counts_physical(
        &self,
        counts: &SopranoCounts,
        passport: &Passport,
        conditions: &InferenceConditions,
    ) -> Result<CountsEstimate, LatencyError> {
        let speeds = DeviceSpeeds::of(passport, conditions.threads, NumberPrecision::F32)?;
        let idle = seconds(counts, &speeds, &conditions.runtime);
        let seconds = idle * passport_estimate::slowdown(conditions, speeds.cores, MOVING_SHARE);
        let reach = COUNTS_INTERVAL_FACTOR * speeds.reach() / passport_estimate::STATED_INTERVAL_FACTOR;
        let source = format!(
            "about {} multiply-adds at {} of {}; no graph was timed there",
            format_count(counts.multiply_adds()),
            speeds.known.source(),
            passport.name
        );
        let estimate = CountsEstimate {
            seconds,
            factors: (reach, reach),
            in_range: false,
            predictor: self.passport,
            source,
        };
        Ok(with_accelerator(estimate, counts, passport, conditions))
    }

    /// Predicts memory from counts: weights of four bytes, inputs, outputs and the runtime.
    /// Activations are unknown, so the interval is wide.
    pub fn memory_of_counts(&self, counts: &SopranoCounts) -> Result<Prediction, LatencyError> {
        let weights = 4.0 * positive(counts.total_parameters);
        let ends = positive(counts.model_input_size) + positive(counts.model_output_size);
        let value = RUNTIME_BYTES + weights + ends;
        let high = RUNTIME_BYTES + 2.5 * weights + MAX_ALIVE_SIZES * ends;
        // Weights may have one byte.
        let interval = PredictionInterval::new(weights / 4.0, high, Ratio(COVERAGE))?;
        let because = format!(
            "from counts alone: {} of weights at 4 bytes each, {} of input and output, and the runtime itself; activations are not known",
            Bytes(weights as u64),
            Bytes(ends as u64)
        );
        Ok(Prediction::new(value, "bytes", interval, self.passport, false, because)?)
    }
}

/// The prediction for a device with a faster accelerator.
fn with_accelerator(
    estimate: CountsEstimate,
    counts: &SopranoCounts,
    passport: &Passport,
    conditions: &InferenceConditions,
) -> CountsEstimate {
    let Some(accelerator) = AcceleratorSpeed::of(passport, &conditions.runtime, NumberPrecision::F32) else {
        return estimate;
    };
    let slowdown =
        passport_estimate::slowdown(conditions, f64::from(passport.device.cpu.threads.max(1)), 0.0);
    let weights = 4.0 * positive(counts.total_parameters);
    let operators = OPERATORS_PER_LAYER * (1.0 + counts.layers());
    let with = accelerator.seconds(counts.multiply_adds(), weights, operators, slowdown);
    if with >= estimate.seconds {
        return estimate;
    }
    let factors = (estimate.factors.0, estimate.factors.1 * estimate.seconds / with);
    let source = accelerator_note(&estimate.source, &accelerator, estimate.seconds);
    CountsEstimate { seconds: with, factors, in_range: false, source, ..estimate }
}

#[cfg(test)]
mod tests {
    use super::super::tests::graph;
    use super::*;

    /// Lab graphs, each with an input and its shape.
    const GRAPHS: [(&str, &str, &[u64]); 23] = [
        ("light-bvlc_alexnet", "data_0", &[1, 3, 224, 224]),
        ("light-densenet121", "data_0", &[1, 3, 224, 224]),
        ("light-inception_v1", "data_0", &[1, 3, 224, 224]),
        ("light-inception_v2", "data_0", &[1, 3, 224, 224]),
        ("light-resnet50", "gpu_0/data_0", &[1, 3, 224, 224]),
        ("light-shufflenet", "gpu_0/data_0", &[1, 3, 224, 224]),
        ("light-squeezenet", "data_0", &[1, 3, 224, 224]),
        ("light-vgg19", "data_0", &[1, 3, 224, 224]),
        ("light-zfnet512", "gpu_0/data_0", &[1, 3, 224, 224]),
        ("picodet-layout", "image", &[1, 3, 800, 608]),
        ("yolox-detector", "images", &[1, 3, 416, 416]),
        ("ppocr4-detector", "x", &[1, 3, 640, 640]),
        ("ppocr4-recogniser", "x", &[1, 3, 48, 320]),
        ("ppocr6-recogniser", "x", &[1, 3, 48, 320]),
        ("ppocr-angle", "x", &[1, 3, 48, 192]),
        ("pplcnet-orientation", "x", &[1, 3, 224, 224]),
        ("yolov8n-320", "images", &[1, 3, 320, 320]),
        ("lstm-ocr", "input1", &[1, 1, 64, 160]),
        ("silero-vad", "input", &[1, 576]),
        ("magika", "bytes", &[1, 2048]),
        ("basic-pitch", "serving_default_input_2:0", &[1, 43_844, 1]),
        ("hebrew-diacritics", "input_1", &[1, 64]),
        ("arabic-diacritics", "char_inputs,diac_inputs", &[1, 64]),
    ];

    #[test]
    fn multiply_adds_of_most_real_graphs_are_within_reach_of_their_counts() {
        let mut off = Vec::new();
        for (name, input, shape) in GRAPHS {
            let Some(graph) = graph(name, input, shape) else { return };
            let ends = [&graph.inputs, &graph.outputs].map(|values| -> f64 {
                let of = |value: &metier_onnx::analysis::ValueDescription| -> f64 {
                    let sizes = value.shape.iter().flatten().map(|size| size.unwrap_or(1) as f64);
                    let bits = value.data_type.and_then(metier_onnx::DataType::bits).unwrap_or(32);
                    sizes.product::<f64>() * bits as f64 / 8.0
                };
                values.iter().map(of).sum()
            });
            let counts = SopranoCounts::of(&graph.characteristics, ends[0], ends[1]);
            off.push((name, counts.multiply_adds() / graph.multiply_adds as f64));
        }
        let far: Vec<_> =
            off.iter().filter(|(_, factor)| factor.ln().abs() > COUNTS_INTERVAL_FACTOR.ln()).collect();
        // Two recurrent graphs, and one so small that the operator overhead dominates.
        assert!(far.len() <= 3, "{far:?}");
        // Most of AlexNet's weights are in its last layers and used once.
        assert!((0.3..3.0).contains(&off[0].1), "{off:?}");
    }

    #[test]
    fn memory_from_counts_holds_the_weights_and_is_finite_for_absurd_ones() {
        let latency = LatencyPredictor::from_passports();
        let counts = SopranoCounts {
            total_parameters: 25e6,
            model_input_size: 602_112.0,
            model_output_size: 4000.0,
            ..SopranoCounts::default()
        };
        let prediction = latency.memory_of_counts(&counts).unwrap();
        assert!(
            prediction.value() > 100e6 && prediction.value() < 150e6 && prediction.unit() == "bytes",
            "{prediction:?}"
        );
        let wide = prediction.interval();
        assert!(
            wide.low() <= 25e6 && wide.high() > 2.0 * prediction.value() && !prediction.in_range(),
            "{prediction:?}"
        );
        for absurd in [1e30, f64::NAN, f64::INFINITY, -1.0] {
            let prediction =
                latency.memory_of_counts(&SopranoCounts { total_parameters: absurd, ..counts }).unwrap();
            assert!(prediction.interval().high().is_finite(), "{prediction:?}");
        }
    }
}
