//! The first answer: from a passport alone, before anything was measured on a device.
//!
//! Each step takes the longer of computing and of moving bytes, and a moment for itself. How near a family of operators comes to what the
//! passport states is a table of estimates here, not learned from anything; so the interval is wide, and the answer says where it
//! comes from.

use metier_types::{Digest, Passport, Precision};

use super::conditions::{Conditions, MOST_LOAD, ONNX_RUNTIME};
use super::error::Error;
use super::family::Family;
use super::generic;
use super::step::Step;

/// What a passport says of speed, for one number of threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speeds {
    /// Multiply-adds in a second.
    pub adds: f64,
    /// Bytes from memory in a second.
    pub bytes: f64,
    /// Cores or hardware threads that work can be spread over.
    pub cores: f64,
    /// Where it comes from.
    pub known: Known,
}

/// What speeds are known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// All of it stands in the passport.
    Stated,
    /// Some of it is a guess from frequency and cores.
    Guessed,
    /// What devices of so many cores and that instruction set usually do.
    Generic,
}

impl Known {
    pub const fn source(self) -> &'static str {
        match self {
            Self::Stated => "what the passport states",
            Self::Guessed => "guesses from frequency and cores",
            Self::Generic => "what devices of so many cores and that instruction set usually do (generic)",
        }
    }
}

/// Factor by which the truth is taken to lie to either side on a device with stated rates, and without. Estimates: not calibrated.
pub const REACH: f64 = 3.0;
const REACH_GUESSED: f64 = 5.0;

/// Multiply-adds in a cycle of one core, where only a frequency is known.
const ADDS_A_CYCLE: [(&str, f64); 3] = [("x86_64", 16.0), ("aarch64", 8.0), ("arm", 4.0)];
/// Bytes in a second from memory, where nothing is known.
const BYTES_GUESSED: f64 = 4e9;
/// One operator's own moment, on a core of 50 × 10⁹ multiply-adds a second.
const MOMENT: f64 = 3e-6;
const MOMENT_RATE: f64 = 50e9;

/// Share of an accelerator's stated multiply-adds and of memory's bytes a second that is taken to be reached, and the moment that the processor needs to start one
/// operator there. Estimates: not calibrated.
const ACCELERATED: (f64, f64, f64) = (0.4, 0.5, 30e-6);

/// An accelerator beside the processor, as a passport states it.
#[derive(Debug, Clone, PartialEq)]
pub struct Accelerator {
    pub name: String,
    /// Multiply-adds in a second.
    adds: f64,
    /// Bytes from memory in a second.
    bytes: f64,
}

impl Accelerator {
    /// The fastest one of a device that a runtime could use: ONNX Runtime, where it was built for that. The built-in runtime has the processor only.
    pub fn of(passport: &Passport, runtime: &str, precision: Precision) -> Option<Self> {
        if runtime != ONNX_RUNTIME {
            return None;
        }
        let of = |precision| {
            let all = passport.accelerators.iter().filter(move |one| one.precision == precision);
            all.max_by(|a, b| a.multiply_adds_per_second.total_cmp(&b.multiply_adds_per_second))
        };
        let rate = of(precision).or_else(|| of(Precision::F32))?;
        let adds = rate.multiply_adds_per_second;
        // Boards share their memory with it; of a card's own memory a passport says nothing.
        let bytes = passport.memory_bytes_per_second(u32::MAX).unwrap_or(BYTES_GUESSED);
        (adds > 0.0 && bytes > 0.0).then(|| Self { name: rate.name.clone(), adds, bytes })
    }

    /// Seconds of so much work in so many operators; others on the processor slow down only the starting of them.
    pub fn seconds(&self, multiply_adds: f64, bytes: f64, operators: f64, slowdown: f64) -> f64 {
        let (adds, of_bytes, moment) = ACCELERATED;
        (multiply_adds / (self.adds * adds)).max(bytes / (self.bytes * of_bytes))
            + moment * operators * slowdown
    }
}

/// Share of the stated multiply-adds and bytes a second that a family reaches, and multiply-adds' worth of work for an element.
fn reached(family: Family, runtime: &str) -> (f64, f64, f64) {
    let (adds, bytes, each): (f64, f64, f64) = match family {
        Family::Conv => (0.55, 0.5, 0.0),
        Family::ConvPoint => (0.60, 0.5, 0.0),
        Family::ConvDepth => (0.08, 0.4, 0.0),
        Family::ConvTranspose => (0.35, 0.4, 0.0),
        Family::MatMul => (0.55, 0.5, 0.0),
        Family::MatVec => (0.30, 0.8, 0.0),
        Family::Recurrent => (0.20, 0.7, 0.0),
        Family::Pool => (1.0, 0.25, 10.0),
        Family::Reduce => (1.0, 0.3, 4.0),
        Family::Unary | Family::Binary => (1.0, 0.6, 2.0),
        Family::Curve => (1.0, 0.4, 12.0),
        Family::Norm => (1.0, 0.2, 12.0),
        Family::Neighbours => (1.0, 0.2, 300.0),
        Family::Softmax => (1.0, 0.3, 16.0),
        Family::Resize => (1.0, 0.2, 20.0),
        Family::Move | Family::Search | Family::Other => (1.0, 0.3, 4.0),
        Family::View | Family::Scalar => (1.0, 1.0, 0.0),
    };
    // ONNX Runtime's kernels come nearer to what the processor can do.
    let better = if runtime == ONNX_RUNTIME { 1.6 } else { 1.0 };
    ((adds * better).min(1.0), (bytes * better).min(1.0), each)
}

impl Speeds {
    /// Of a device, for so many threads.
    pub fn of(passport: &Passport, threads: u32, precision: Precision) -> Result<Self, Error> {
        let cpu = &passport.device.cpu;
        let cores = f64::from(cpu.threads.max(1));
        let used = f64::from(threads).min(cores);
        let stated = passport.multiply_adds_per_second(precision, threads).or_else(|| {
            // Of another precision, by how many fit into the same vector.
            let scale = match precision {
                Precision::F16 => 1.0,
                Precision::I8 => 2.0,
                Precision::F64 => 0.5,
                _ => return None,
            };
            Some(scale * passport.multiply_adds_per_second(Precision::F32, threads)?)
        });
        let guessed = || {
            let hertz = cpu.max_frequency_hertz?.get();
            let known = ADDS_A_CYCLE.iter().find(|(name, _)| cpu.architecture.starts_with(name));
            Some(used * hertz * known.map_or(4.0, |(_, adds)| *adds))
        };
        let is_positive = |rate: &f64| rate.is_finite() && *rate > 0.0;
        let bytes = passport.memory_bytes_per_second(threads).filter(is_positive);
        let usual = generic::rates(&cpu.architecture, used as u32);
        let (adds, known) = match (stated.filter(is_positive), guessed().filter(is_positive), usual) {
            (Some(adds), ..) if bytes.is_some() => (adds, Known::Stated),
            (Some(adds), ..) | (None, Some(adds), _) => (adds, Known::Guessed),
            (None, None, Some((adds, _))) => (adds, Known::Generic),
            (None, None, None) => {
                let missing = "neither multiply-adds a second, nor a frequency, nor a known instruction set";
                return Err(Error::Passport { device: passport.name.clone(), missing });
            }
        };
        let bytes = match known {
            Known::Generic => bytes.or(usual.map(|(_, bytes)| bytes)),
            _ => bytes,
        };
        Ok(Self { adds, bytes: bytes.unwrap_or(BYTES_GUESSED), cores, known })
    }

    /// Factor to either side of an answer from this alone.
    pub fn reach(&self) -> f64 {
        match self.known {
            Known::Stated => REACH,
            Known::Guessed => REACH_GUESSED,
            Known::Generic => REACH * generic::REACH,
        }
    }
}

/// Seconds of one turn of a step on an idle device.
pub fn seconds(step: &Step, speeds: &Speeds, conditions: &Conditions) -> f64 {
    let (adds, bytes, each) = reached(step.family, &conditions.runtime);
    let work = step.multiply_adds / (speeds.adds * adds) + each * step.basis[1] / speeds.adds;
    let moved = match step.family {
        Family::View | Family::Scalar => 0.0,
        _ => step.bytes / (speeds.bytes * bytes),
    };
    let single = speeds.adds / f64::from(conditions.threads).min(speeds.cores);
    work.max(moved) + MOMENT * MOMENT_RATE / single.clamp(MOMENT_RATE / 20.0, MOMENT_RATE * 4.0)
}

/// By how much others' use of the processor and of memory slows a step down; never below 1, never less with more load.
pub fn slowdown(conditions: &Conditions, cores: f64, memory_share: f64) -> f64 {
    let load = conditions.cpu_load.map_or(0.0, |load| load.get()).clamp(0.0, MOST_LOAD);
    let threads = f64::from(conditions.threads).min(cores);
    let free = cores * (1.0 - load).max(0.0);
    // Whoever competes shares evenly: others' load stands for so many busy threads.
    let fair = (load * cores + threads) / cores;
    let cpu = (threads / free.max(1e-9)).min(fair).max(1.0);
    let memory = conditions.memory_load.map_or(0.0, |load| load.get()).clamp(0.0, 1.0);
    cpu * (1.0 + memory * memory_share)
}

/// The id under which answers from a passport alone go: of the table above.
pub fn id() -> Digest {
    let mut text = format!(
        "metier.latency.passport/1 {REACH} {REACH_GUESSED} {BYTES_GUESSED} {MOMENT} {ADDS_A_CYCLE:?} {ACCELERATED:?}"
    );
    for family in Family::ALL {
        text.push_str(&format!(" {} {:?}", family.name(), reached(family, "rten")));
    }
    metier_store::digest::of_bytes(text.as_bytes())
}
