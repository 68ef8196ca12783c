//! Roofline estimate from a passport alone, without measurements on the device.
//!
//! Each step takes the longer of its compute and memory times, plus a constant overhead. The
//! efficiency of each operator family relative to the passport's rates is a table of estimates
//! here, not trained. So the interval is wide, and the answer names its source.

use metier_types::{ContentDigest, NumberPrecision, Passport};

use super::conditions::{InferenceConditions, MAX_LOAD, ONNX_RUNTIME};
use super::error::LatencyError;
use super::family::OperatorFamily;
use super::generic_device;
use super::operator_features::OperatorStep;

/// Speeds of a device for a number of threads, from its passport.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceSpeeds {
    /// Multiply-adds per second.
    pub adds: f64,
    /// Memory bandwidth in bytes per second.
    pub bytes: f64,
    /// Cores or hardware threads available for parallel work.
    pub cores: f64,
    /// Origin of the speeds.
    pub known: SpeedBasis,
}

/// Origin of the speeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpeedBasis {
    /// All are stated in the passport.
    Stated,
    /// Some are guessed from frequency and cores.
    Guessed,
    /// Defaults for this number of cores and instruction set.
    Generic,
}

impl SpeedBasis {
    pub const fn source(self) -> &'static str {
        match self {
            Self::Stated => "what the passport states",
            Self::Guessed => "guesses from frequency and cores",
            Self::Generic => "what devices of so many cores and that instruction set usually do (generic)",
        }
    }
}

/// Interval factor to either side on a device with stated rates, and without. Estimates, not
/// calibrated.
pub const STATED_INTERVAL_FACTOR: f64 = 3.0;
const GUESSED_INTERVAL_FACTOR: f64 = 5.0;

/// Multiply-adds per cycle and core, used if only the frequency is known.
const ADDS_A_CYCLE: [(&str, f64); 3] = [("x86_64", 16.0), ("aarch64", 8.0), ("arm", 4.0)];
/// Memory bandwidth in bytes per second if nothing is known.
const BYTES_GUESSED: f64 = 4e9;
/// Overhead of one operator on a core of 50 × 10⁹ multiply-adds per second.
const OPERATOR_OVERHEAD: f64 = 3e-6;
const OPERATOR_OVERHEAD_RATE: f64 = 50e9;

/// Reached share of an accelerator's multiply-add rate, reached share of its memory bandwidth, and
/// the processor's time to launch one operator. Estimates, not calibrated.
const ACCELERATOR_SHARES: (f64, f64, f64) = (0.4, 0.5, 30e-6);

/// An accelerator of a device, as stated in the passport.
#[derive(Debug, Clone, PartialEq)]
pub struct AcceleratorSpeed {
    pub name: String,
    /// Multiply-adds per second.
    adds: f64,
    /// Memory bandwidth in bytes per second.
    bytes: f64,
}

impl AcceleratorSpeed {
    /// The fastest accelerator that the runtime could use. Only ONNX Runtime builds may use one;
    /// the built-in runtime uses the processor only.
    pub fn of(passport: &Passport, runtime: &str, precision: NumberPrecision) -> Option<Self> {
        if runtime != ONNX_RUNTIME {
            return None;
        }
        let of = |precision| {
            let all = passport.accelerators.iter().filter(move |rate| rate.precision == precision);
            all.max_by(|a, b| a.multiply_adds_per_second.total_cmp(&b.multiply_adds_per_second))
        };
        let rate = of(precision).or_else(|| of(NumberPrecision::F32))?;
        let adds = rate.multiply_adds_per_second;
        // Boards share their memory with the accelerator; a passport has no bandwidth of a card's
        // own memory.
        let bytes = passport.memory_bytes_per_second(u32::MAX).unwrap_or(BYTES_GUESSED);
        (adds > 0.0 && bytes > 0.0).then(|| Self { name: rate.name.clone(), adds, bytes })
    }

    /// Seconds for this work in this many operators. Co-runners on the processor slow down only the
    /// launches.
    pub fn seconds(&self, multiply_adds: f64, bytes: f64, operators: f64, slowdown: f64) -> f64 {
        let (adds, of_bytes, moment) = ACCELERATOR_SHARES;
        (multiply_adds / (self.adds * adds)).max(bytes / (self.bytes * of_bytes))
            + moment * operators * slowdown
    }
}

/// Reached share of the multiply-add rate and of the bandwidth for a family, and the work per
/// element in multiply-adds.
fn reached_shares(family: OperatorFamily, runtime: &str) -> (f64, f64, f64) {
    let (adds, bytes, each): (f64, f64, f64) = match family {
        OperatorFamily::Conv => (0.55, 0.5, 0.0),
        OperatorFamily::ConvPoint => (0.60, 0.5, 0.0),
        OperatorFamily::ConvDepth => (0.08, 0.4, 0.0),
        OperatorFamily::ConvTranspose => (0.35, 0.4, 0.0),
        OperatorFamily::MatMul => (0.55, 0.5, 0.0),
        OperatorFamily::MatVec => (0.30, 0.8, 0.0),
        OperatorFamily::Recurrent => (0.20, 0.7, 0.0),
        OperatorFamily::Pool => (1.0, 0.25, 10.0),
        OperatorFamily::Reduce => (1.0, 0.3, 4.0),
        OperatorFamily::Unary | OperatorFamily::Binary => (1.0, 0.6, 2.0),
        OperatorFamily::Curve => (1.0, 0.4, 12.0),
        OperatorFamily::Norm => (1.0, 0.2, 12.0),
        OperatorFamily::Neighbours => (1.0, 0.2, 300.0),
        OperatorFamily::Softmax => (1.0, 0.3, 16.0),
        OperatorFamily::Resize => (1.0, 0.2, 20.0),
        OperatorFamily::Move | OperatorFamily::Search | OperatorFamily::Other => (1.0, 0.3, 4.0),
        OperatorFamily::View | OperatorFamily::Scalar => (1.0, 1.0, 0.0),
    };
    // ONNX Runtime's kernels are more efficient.
    let better = if runtime == ONNX_RUNTIME { 1.6 } else { 1.0 };
    ((adds * better).min(1.0), (bytes * better).min(1.0), each)
}

impl DeviceSpeeds {
    /// Speeds of a device for this many threads.
    pub fn of(passport: &Passport, threads: u32, precision: NumberPrecision) -> Result<Self, LatencyError> {
        let cpu = &passport.device.cpu;
        let cores = f64::from(cpu.threads.max(1));
        let used = f64::from(threads).min(cores);
        let stated = passport.multiply_adds_per_second(precision, threads).or_else(|| {
            // Other precisions scale with the number of values in a vector register.
            let scale = match precision {
                NumberPrecision::F16 => 1.0,
                NumberPrecision::I8 => 2.0,
                NumberPrecision::F64 => 0.5,
                _ => return None,
            };
            Some(scale * passport.multiply_adds_per_second(NumberPrecision::F32, threads)?)
        });
        let guessed = || {
            let hertz = cpu.max_frequency_hertz?.get();
            let known = ADDS_A_CYCLE.iter().find(|(name, _)| cpu.architecture.starts_with(name));
            Some(used * hertz * known.map_or(4.0, |(_, adds)| *adds))
        };
        let is_positive = |rate: &f64| rate.is_finite() && *rate > 0.0;
        let bytes = passport.memory_bytes_per_second(threads).filter(is_positive);
        let usual = generic_device::rates(&cpu.architecture, used as u32);
        let (adds, known) = match (stated.filter(is_positive), guessed().filter(is_positive), usual) {
            (Some(adds), ..) if bytes.is_some() => (adds, SpeedBasis::Stated),
            (Some(adds), ..) | (None, Some(adds), _) => (adds, SpeedBasis::Guessed),
            (None, None, Some((adds, _))) => (adds, SpeedBasis::Generic),
            (None, None, None) => {
                let missing = "neither multiply-adds a second, nor a frequency, nor a known instruction set";
                return Err(LatencyError::Passport { device: passport.name.clone(), missing });
            }
        };
        let bytes = match known {
            SpeedBasis::Generic => bytes.or(usual.map(|(_, bytes)| bytes)),
            _ => bytes,
        };
        Ok(Self { adds, bytes: bytes.unwrap_or(BYTES_GUESSED), cores, known })
    }

    /// Interval factor of a passport estimate.
    pub fn reach(&self) -> f64 {
        match self.known {
            SpeedBasis::Stated => STATED_INTERVAL_FACTOR,
            SpeedBasis::Guessed => GUESSED_INTERVAL_FACTOR,
            SpeedBasis::Generic => STATED_INTERVAL_FACTOR * generic_device::GENERIC_INTERVAL_FACTOR,
        }
    }
}

/// Seconds of one iteration of a step on an idle device.
pub fn seconds(step: &OperatorStep, speeds: &DeviceSpeeds, conditions: &InferenceConditions) -> f64 {
    let (adds, bytes, each) = reached_shares(step.family, &conditions.runtime);
    let work = step.multiply_adds / (speeds.adds * adds) + each * step.basis[1] / speeds.adds;
    let moved = match step.family {
        OperatorFamily::View | OperatorFamily::Scalar => 0.0,
        _ => step.bytes / (speeds.bytes * bytes),
    };
    let single = speeds.adds / f64::from(conditions.threads).min(speeds.cores);
    work.max(moved)
        + OPERATOR_OVERHEAD * OPERATOR_OVERHEAD_RATE
            / single.clamp(OPERATOR_OVERHEAD_RATE / 20.0, OPERATOR_OVERHEAD_RATE * 4.0)
}

/// Slowdown by co-runners' use of processor and memory; at least 1 and monotone in the load.
pub fn slowdown(conditions: &InferenceConditions, cores: f64, memory_share: f64) -> f64 {
    let load = conditions.cpu_load.map_or(0.0, |load| load.get()).clamp(0.0, MAX_LOAD);
    let threads = f64::from(conditions.threads).min(cores);
    let free = cores * (1.0 - load).max(0.0);
    // The scheduler shares evenly, so the load counts as that many busy threads.
    let fair = (load * cores + threads) / cores;
    let cpu = (threads / free.max(1e-9)).min(fair).max(1.0);
    let memory = conditions.memory_load.map_or(0.0, |load| load.get()).clamp(0.0, 1.0);
    cpu * (1.0 + memory * memory_share)
}

/// Id of passport estimates: a digest of the table above.
pub fn id() -> ContentDigest {
    let mut text = format!(
        "metier.latency.passport/1 {STATED_INTERVAL_FACTOR} {GUESSED_INTERVAL_FACTOR} {BYTES_GUESSED} {OPERATOR_OVERHEAD} {ADDS_A_CYCLE:?} {ACCELERATOR_SHARES:?}"
    );
    for family in OperatorFamily::ALL {
        text.push_str(&format!(" {} {:?}", family.name(), reached_shares(family, "rten")));
    }
    metier_store::digest::digest_bytes(text.as_bytes())
}
