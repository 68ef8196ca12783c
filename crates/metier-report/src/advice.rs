//! What to ask a scheduler for: requests and limits of CPU and memory, each with its reason.
//!
//! - CPU request: 95 of 100 windows used at most this; a request is what is set aside, and the rest of the time the
//!   workload can borrow.
//! - CPU limit: the busiest window, and a tenth. A limit below makes it wait, which shows as slowness, not as failure.
//! - Memory request: the largest part that cannot be dropped (anonymous and kernel memory), else the peak.
//! - Memory limit: the highest peak and a margin of a tenth, or of three deviations between repetitions where that is
//!   more: beyond the limit the workload is killed.
//!
//! One run says nothing of the spread, and a short one nothing of the windows: then there is no advice, or it is called
//! provisional. A run that was held back by a limit used less than it wanted, and is no ground for advice on that.

use metier_types::{Bytes, Exit, Extra, Run, Seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Measured;
use crate::lines::windows;
use crate::words::count;

/// Length of a window.
const WINDOW: Seconds = Seconds(1.0);
/// Fewest windows, over all runs, of which a percentile is taken.
const FEWEST_WINDOWS: usize = 20;
/// So many repetitions and windows make it firm.
const FIRM_RUNS: usize = 5;
const FIRM_WINDOWS: usize = 60;
/// Margins of the memory limit: at least, and where nothing is known of the spread.
const MARGIN: f64 = 0.10;
const MARGIN_ALONE: f64 = 0.25;
const CPU_MARGIN: f64 = 0.10;
/// What binary fractions add to a whole number must not add another one.
const ROUNDING: f64 = 1e-6;

/// How far the advice can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Firmness {
    /// From several repetitions that were long enough.
    Firm,
    /// From few or short ones.
    Provisional,
    /// None is given.
    Refused,
}

/// One figure to ask for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quota {
    /// As Waggle's plugins name it: `request.cpu`, `limit.memory`, …
    pub key: String,
    /// As Kubernetes writes it: `250m`, `300Mi`.
    pub value: String,
    /// Why so much.
    pub reason: String,
}

/// What to ask for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// How far it can be trusted.
    pub firmness: Firmness,
    /// What it stands on, and what would make it firmer.
    pub basis: String,
    /// The figures.
    pub quotas: Vec<Quota>,
    /// What a reader should know before using it.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What these repetitions say about needs.
pub fn advise(runs: &[Measured]) -> Advice {
    let counted: Vec<&Measured> = runs.iter().filter(|measured| counts(&measured.run)).collect();
    let all_windows: Vec<f64> = counted.iter().flat_map(|measured| cpu_windows(measured)).collect();
    let peaks: Vec<f64> = counted
        .iter()
        .filter_map(|measured| measured.run.summary.peak_memory_bytes)
        .map(|bytes| bytes.get() as f64)
        .collect();
    let (n, w) = (counted.len(), all_windows.len());
    let refused = |basis: String| Advice {
        firmness: Firmness::Refused,
        basis,
        quotas: Vec::new(),
        notes: Vec::new(),
        extra: Extra::new(),
    };
    if n == 0 {
        return refused("No run ended well, so nothing is known of what it needs.".to_string());
    }
    if n < 3 && w < FEWEST_WINDOWS {
        return refused(format!(
            "{} of {} in all: too little to advise on. Measure it for longer, or with --repeat {FIRM_RUNS}.",
            count(n, "run"),
            total(&counted)
        ));
    }
    let mut quotas = Vec::new();
    let mut notes = Vec::new();
    cpu(&counted, &all_windows, &mut quotas, &mut notes);
    memory(&counted, &peaks, &mut quotas, &mut notes);
    let firm = n >= FIRM_RUNS && w >= FIRM_WINDOWS;
    let basis = format!("From {} and {} of 1 s", count(n, "run"), count(w, "window"));
    let basis = match firm {
        true => format!("{basis}."),
        false => {
            format!("{basis}: provisional. {FIRM_RUNS} runs and {FIRM_WINDOWS} windows would make it firm.")
        }
    };
    Advice {
        firmness: if firm { Firmness::Firm } else { Firmness::Provisional },
        basis,
        quotas,
        notes,
        extra: Extra::new(),
    }
}

fn counts(run: &Run) -> bool {
    !run.context.warmup && run.exit.as_ref().is_some_and(Exit::is_complete)
}

fn total(runs: &[&Measured]) -> Seconds {
    runs.iter().filter_map(|measured| measured.run.summary.wall_seconds).sum()
}

/// Cores in use, window by window; a run shorter than a window is one.
fn cpu_windows(measured: &Measured) -> Vec<f64> {
    let line = measured.series.iter().find(|series| series.name == "use");
    let found = line.map(|series| windows(series, "cpu", WINDOW)).unwrap_or_default();
    match (found.is_empty(), measured.run.mean_cores()) {
        (true, Some(cores)) => vec![cores],
        _ => found,
    }
}

fn cpu(runs: &[&Measured], windows: &[f64], quotas: &mut Vec<Quota>, notes: &mut Vec<String>) {
    if runs.iter().any(|measured| measured.run.cpu.throttled_seconds.is_some_and(|held| held.get() > 0.0)) {
        notes.push(
            "A CPU limit held it back, so it would have used more: measure it without one for advice on CPU."
                .to_string(),
        );
        return;
    }
    let mut sorted = windows.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let (Some(most), false) = (sorted.last(), sorted.len() < FEWEST_WINDOWS) else {
        notes.push(format!(
            "Only {} of 1 s: too few for advice on CPU; want {FEWEST_WINDOWS}.",
            count(sorted.len(), "window")
        ));
        return;
    };
    // The smallest that at least 95 of 100 do not exceed.
    let p95 = sorted[(sorted.len() * 95).div_ceil(100) - 1];
    quotas.push(Quota {
        key: "request.cpu".to_string(),
        value: millicores(p95),
        reason: format!("95 of 100 windows of 1 s used at most {p95:.2} cores"),
    });
    quotas.push(Quota {
        key: "limit.cpu".to_string(),
        value: millicores(most * (1.0 + CPU_MARGIN)),
        reason: format!("the busiest window used {most:.2} cores; a tenth more, so that it need not wait"),
    });
}

fn memory(runs: &[&Measured], peaks: &[f64], quotas: &mut Vec<Quota>, notes: &mut Vec<String>) {
    let Some(spread) = metier_stats::spread_of(peaks) else {
        notes.push("The peak of memory is not known, so there is no advice on memory.".to_string());
        return;
    };
    let held = runs
        .iter()
        .flat_map(|measured| measured.run.context.limits.iter())
        .find(|(name, _)| name.contains("memory"));
    if let Some((name, value)) = held {
        notes.push(format!(
            "It ran under {name} = {value}; near that limit it may have made do with less than it would take."
        ));
    }
    // Samples may miss the height of anonymous memory; what of the exact peak is surely no page cache is then more.
    let kept = |measured: &&Measured| {
        let memory = &measured.run.memory;
        let anonymous = memory.peak_anonymous_bytes?.get();
        let sampled = anonymous + memory.peak_kernel_bytes.map_or(0, |kernel| kernel.get());
        let peak = measured.run.summary.peak_memory_bytes;
        let rest = peak.zip(memory.peak_file_bytes).map(|(peak, file)| peak.get().saturating_sub(file.get()));
        Some(sampled.max(rest.unwrap_or(0)))
    };
    let most_kept = runs.iter().filter_map(kept).max().filter(|kept| (*kept as f64) < spread.max);
    let (request, why) = match most_kept {
        Some(kept) => (
            kept as f64,
            format!("at least {} of the peak was no page cache, which could be dropped", Bytes(kept)),
        ),
        None => (spread.max, format!("the highest peak was {}", Bytes(spread.max as u64))),
    };
    quotas.push(Quota { key: "request.memory".to_string(), value: mebibytes(request), reason: why });
    let scatter = spread.standard_deviation.map(|deviation| 3.0 * deviation / spread.median.max(1.0));
    let (margin, why) = match scatter {
        None => (MARGIN_ALONE, "a quarter, because one run does not tell how much peaks scatter".to_string()),
        Some(scatter) if scatter > MARGIN => (
            scatter,
            format!("three deviations of the peaks of {} ({:.0} %)", count(spread.n, "run"), scatter * 100.0),
        ),
        Some(_) => {
            (MARGIN, format!("a tenth; the peaks of {} scatter less than that", count(spread.n, "run")))
        }
    };
    quotas.push(Quota {
        key: "limit.memory".to_string(),
        value: mebibytes(spread.max * (1.0 + margin)),
        reason: format!(
            "the highest peak was {}; beyond the limit it is killed, so there is a margin of {why}",
            Bytes(spread.max as u64)
        ),
    });
}

/// Whole tens of millicores, upwards; at least 10.
fn millicores(cores: f64) -> String {
    format!("{}m", ((cores * 100.0 - ROUNDING).ceil().max(1.0) * 10.0) as u64)
}

/// Whole mebibytes, upwards; at least 1.
fn mebibytes(bytes: f64) -> String {
    format!("{}Mi", (bytes / 1_048_576.0 - ROUNDING).ceil().max(1.0) as u64)
}
