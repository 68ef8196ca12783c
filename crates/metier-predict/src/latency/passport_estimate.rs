//! The first answer: from a passport alone, before anything was measured on a device.
//!
//! Each step takes the longer of computing and of moving bytes, and a moment for itself. How near a family of operators comes to what the
//! passport states is a table of estimates here, not learned from anything; so the interval is wide, and the answer says where it
//! comes from.

use metier_types::{ContentDigest, NumberPrecision, Passport};

use super::conditions::{InferenceConditions, MAX_LOAD, ONNX_RUNTIME};
use super::error::LatencyError;
use super::family::OperatorFamily;
use super::generic_device;
use super::operator_features::OperatorStep;

/// What a passport says of speed, for one number of threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceSpeeds {
    /// Multiply-adds in a second.
    pub adds: f64,
    /// Bytes from memory in a second.
    pub bytes: f64,
    /// Cores or hardware threads that work can be spread over.
    pub cores: f64,
    /// Where it comes from.
    pub known: SpeedBasis,
}

/// What speeds are known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpeedBasis {
    /// All of it stands in the passport.
    Stated,
    /// Some of it is a guess from frequency and cores.
    Guessed,
    /// What devices of so many cores and that instruction set usually do.
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

/// Factor by which the truth is taken to lie to either side on a device with stated rates, and without. Estimates: not calibrated.
pub const STATED_INTERVAL_FACTOR: f64 = 3.0;
const GUESSED_INTERVAL_FACTOR: f64 = 5.0;

/// Multiply-adds in a cycle of one core, where only a frequency is known.
const ADDS_A_CYCLE: [(&str, f64); 3] = [("x86_64", 16.0), ("aarch64", 8.0), ("arm", 4.0)];
/// Bytes in a second from memory, where nothing is known.
const BYTES_GUESSED: f64 = 4e9;
/// One operator's own moment, on a core of 50 × 10⁹ multiply-adds a second.
const OPERATOR_OVERHEAD: f64 = 3e-6;
const OPERATOR_OVERHEAD_RATE: f64 = 50e9;

/// Share of an accelerator's stated multiply-adds and of memory's bytes a second that is taken to be reached, and the moment that the processor needs to start one
/// operator there. Estimates: not calibrated.
const ACCELERATOR_SHARES: (f64, f64, f64) = (0.4, 0.5, 30e-6);

/// An accelerator beside the processor, as a passport states it.
#[derive(Debug, Clone, PartialEq)]
pub struct AcceleratorSpeed {
    pub name: String,
    /// Multiply-adds in a second.
    adds: f64,
    /// Bytes from memory in a second.
    bytes: f64,
}

impl AcceleratorSpeed {
    /// The fastest one of a device that a runtime could use: ONNX Runtime, where it was built for that. The built-in runtime has the processor only.
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
        // Boards share their memory with it; of a card's own memory a passport says nothing.
        let bytes = passport.memory_bytes_per_second(u32::MAX).unwrap_or(BYTES_GUESSED);
        (adds > 0.0 && bytes > 0.0).then(|| Self { name: rate.name.clone(), adds, bytes })
    }

    /// Seconds of so much work in so many operators; others on the processor slow down only the starting of them.
    pub fn seconds(&self, multiply_adds: f64, bytes: f64, operators: f64, slowdown: f64) -> f64 {
        let (adds, of_bytes, moment) = ACCELERATOR_SHARES;
        (multiply_adds / (self.adds * adds)).max(bytes / (self.bytes * of_bytes))
            + moment * operators * slowdown
    }
}

/// Share of the stated multiply-adds and bytes a second that a family reaches, and multiply-adds' worth of work for an element.
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
    // ONNX Runtime's kernels come nearer to what the processor can do.
    let better = if runtime == ONNX_RUNTIME { 1.6 } else { 1.0 };
    ((adds * better).min(1.0), (bytes * better).min(1.0), each)
}

impl DeviceSpeeds {
    /// Of a device, for so many threads.
    pub fn of(passport: &Passport, threads: u32, precision: NumberPrecision) -> Result<Self, LatencyError> {
        let cpu = &passport.device.cpu;
        let cores = f64::from(cpu.threads.max(1));
        let used = f64::from(threads).min(cores);
        let stated = passport.multiply_adds_per_second(precision, threads).or_else(|| {
            // Of another precision, by how many fit into the same vector.
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

    /// Factor to either side of an answer from this alone.
    pub fn reach(&self) -> f64 {
        match self.known {
            SpeedBasis::Stated => STATED_INTERVAL_FACTOR,
            SpeedBasis::Guessed => GUESSED_INTERVAL_FACTOR,
            SpeedBasis::Generic => STATED_INTERVAL_FACTOR * generic_device::GENERIC_INTERVAL_FACTOR,
        }
    }
}

/// Seconds of one turn of a step on an idle device.
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

/// By how much others' use of the processor and of memory slows a step down; never below 1, never less with more load.
pub fn slowdown(conditions: &InferenceConditions, cores: f64, memory_share: f64) -> f64 {
    let load = conditions.cpu_load.map_or(0.0, |load| load.get()).clamp(0.0, MAX_LOAD);
    let threads = f64::from(conditions.threads).min(cores);
    let free = cores * (1.0 - load).max(0.0);
    // Whoever competes shares evenly: others' load stands for so many busy threads.
    let fair = (load * cores + threads) / cores;
    let cpu = (threads / free.max(1e-9)).min(fair).max(1.0);
    let memory = conditions.memory_load.map_or(0.0, |load| load.get()).clamp(0.0, 1.0);
    cpu * (1.0 + memory * memory_share)
}

/// The id under which answers from a passport alone go: of the table above.
pub fn id() -> ContentDigest {
    let mut text = format!(
        "metier.latency.passport/1 {STATED_INTERVAL_FACTOR} {GUESSED_INTERVAL_FACTOR} {BYTES_GUESSED} {OPERATOR_OVERHEAD} {ADDS_A_CYCLE:?} {ACCELERATOR_SHARES:?}"
    );
    for family in OperatorFamily::ALL {
        text.push_str(&format!(" {} {:?}", family.name(), reached_shares(family, "rten")));
    }
    metier_store::digest::digest_bytes(text.as_bytes())
}
