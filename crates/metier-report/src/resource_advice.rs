//! Recommended CPU and memory requests and limits for a scheduler, each with its reason.
//!
//! - CPU request: the 95th percentile over windows. A request is reserved; the workload can borrow
//!   CPU for the rest.
//! - CPU limit: the busiest window plus a tenth. A lower limit throttles the workload, which shows
//!   as slowness, not as failure.
//! - Memory request: the largest sum of anonymous and kernel memory, which cannot be reclaimed;
//!   else the peak.
//! - Memory limit: the highest peak plus a margin: a tenth, or three standard deviations between
//!   repetitions if that is more. Beyond the limit the workload is killed.
//!
//! One run gives no spread, and a short run gives no windows. Then there is no advice, or it is
//! marked as provisional. A run that was throttled by a limit used less than it needed, so it gives
//! no advice on that resource.

use metier_types::{Bytes, ExtraFields, Run, RunExit, Seconds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ReportedRun;
use crate::chart_lines::window_means;
use crate::value_format::format_count;

/// Length of a window.
const WINDOW_LENGTH: Seconds = Seconds(1.0);
/// Minimum number of windows, over all runs, for a percentile.
const MIN_WINDOWS: usize = 20;
/// Minimum numbers of repetitions and windows for firm advice.
const MIN_FIRM_RUNS: usize = 5;
const MIN_FIRM_WINDOWS: usize = 60;
/// Margins of the memory limit: the minimum, and the value for a single run, without a known
/// spread.
const MEMORY_MARGIN: f64 = 0.10;
const SINGLE_RUN_MEMORY_MARGIN: f64 = 0.25;
const CPU_MARGIN: f64 = 0.10;
/// Rounding errors of binary fractions must not round up to the next integer.
const ROUNDING: f64 = 1e-6;

/// Reliability of the advice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum AdviceFirmness {
    /// Based on several repetitions that were long enough.
    Firm,
    /// Based on few or short repetitions.
    Provisional,
    /// No advice is given.
    Refused,
}

/// One recommended figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceQuota {
    /// Key as in Waggle plugins: `request.cpu`, `limit.memory`, …
    pub key: String,
    /// Value as in Kubernetes: `250m`, `300Mi`.
    pub value: String,
    /// Reason for the value.
    pub reason: String,
}

/// Recommended requests and limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceAdvice {
    /// Reliability of the advice.
    pub firmness: AdviceFirmness,
    /// Data behind the advice, and what would improve it.
    pub basis: String,
    /// The recommended figures.
    pub quotas: Vec<ResourceQuota>,
    /// Warnings about its reliability.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Derives recommendations from the repetitions.
pub fn advise_resources(runs: &[ReportedRun]) -> ResourceAdvice {
    let counted: Vec<&ReportedRun> = runs.iter().filter(|measured| is_usable(&measured.run)).collect();
    let all_windows: Vec<f64> = counted.iter().flat_map(|measured| cpu_windows(measured)).collect();
    let peaks: Vec<f64> = counted
        .iter()
        .filter_map(|measured| measured.run.summary.peak_memory_bytes)
        .map(|bytes| bytes.get() as f64)
        .collect();
    let (n, w) = (counted.len(), all_windows.len());
    let refused = |basis: String| ResourceAdvice {
        firmness: AdviceFirmness::Refused,
        basis,
        quotas: Vec::new(),
        notes: Vec::new(),
        extra: ExtraFields::new(),
    };
    if n == 0 {
        return refused("No run succeeded, so the required resources are unknown.".to_string());
    }
    if n < 3 && w < MIN_WINDOWS {
        return refused(format!(
            "{} of {} in all: too little to advise on. Measure it for longer, or with --repeat {MIN_FIRM_RUNS}.",
            format_count(n, "run"),
            total_wall_time(&counted)
        ));
    }
    let mut quotas = Vec::new();
    let mut notes = Vec::new();
    advise_cpu(&counted, &all_windows, &mut quotas, &mut notes);
    advise_memory(&counted, &peaks, &mut quotas, &mut notes);
    let firm = n >= MIN_FIRM_RUNS && w >= MIN_FIRM_WINDOWS;
    let basis = format!("From {} and {} of 1 s", format_count(n, "run"), format_count(w, "window"));
    let basis = match firm {
        true => format!("{basis}."),
        false => {
            format!(
                "{basis}: provisional. {MIN_FIRM_RUNS} runs and {MIN_FIRM_WINDOWS} windows would make it firm."
            )
        }
    };
    ResourceAdvice {
        firmness: if firm { AdviceFirmness::Firm } else { AdviceFirmness::Provisional },
        basis,
        quotas,
        notes,
        extra: ExtraFields::new(),
    }
}

fn is_usable(run: &Run) -> bool {
    !run.context.warmup && run.exit.as_ref().is_some_and(RunExit::is_complete)
}

fn total_wall_time(runs: &[&ReportedRun]) -> Seconds {
    runs.iter().filter_map(|measured| measured.run.summary.wall_seconds).sum()
}

/// Mean number of busy cores per window; a run shorter than a window counts as one.
fn cpu_windows(measured: &ReportedRun) -> Vec<f64> {
    let line = measured.series.iter().find(|series| series.name == "use");
    let found = line.map(|series| window_means(series, "cpu", WINDOW_LENGTH)).unwrap_or_default();
    match (found.is_empty(), measured.run.mean_busy_cores()) {
        (true, Some(cores)) => vec![cores],
        _ => found,
    }
}

fn advise_cpu(
    runs: &[&ReportedRun],
    windows: &[f64],
    quotas: &mut Vec<ResourceQuota>,
    notes: &mut Vec<String>,
) {
    if runs.iter().any(|measured| measured.run.cpu.throttled_seconds.is_some_and(|held| held.get() > 0.0)) {
        notes.push(
            "A CPU limit held it back, so it would have used more: measure it without one for advice on CPU."
                .to_string(),
        );
        return;
    }
    let mut sorted = windows.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let (Some(most), false) = (sorted.last(), sorted.len() < MIN_WINDOWS) else {
        notes.push(format!(
            "Only {} of 1 s: too few for advice on CPU; want {MIN_WINDOWS}.",
            format_count(sorted.len(), "window")
        ));
        return;
    };
    // The smallest value that at least 95 % of the windows do not exceed.
    let p95 = sorted[(sorted.len() * 95).div_ceil(100) - 1];
    quotas.push(ResourceQuota {
        key: "request.cpu".to_string(),
        value: format_millicores(p95),
        reason: format!("95 of 100 windows of 1 s used at most {p95:.2} cores"),
    });
    quotas.push(ResourceQuota {
        key: "limit.cpu".to_string(),
        value: format_millicores(most * (1.0 + CPU_MARGIN)),
        reason: format!("the busiest window used {most:.2} cores; a tenth more, so that it need not wait"),
    });
}

fn advise_memory(
    runs: &[&ReportedRun],
    peaks: &[f64],
    quotas: &mut Vec<ResourceQuota>,
    notes: &mut Vec<String>,
) {
    let Some(spread) = metier_stats::value_spread(peaks) else {
        notes.push("The peak of memory is not known, so there is no advice on memory.".to_string());
        return;
    };
    let held = runs
        .iter()
        .flat_map(|measured| measured.run.context.limits.iter())
        .find(|(name, _)| name.contains("memory"));
    if let Some((name, value)) = held {
        notes.push(format!(
            "It ran under {name} = {value}; near that limit it may have used less than it would without."
        ));
    }
    // Samples may miss the peak of anonymous memory; then the part of the exact peak that cannot be
    // page cache is larger.
    let unreclaimable = |measured: &&ReportedRun| {
        let memory = &measured.run.memory;
        let anonymous = memory.peak_anonymous_bytes?.get();
        let sampled = anonymous + memory.peak_kernel_bytes.map_or(0, |kernel| kernel.get());
        let peak = measured.run.summary.peak_memory_bytes;
        let rest = peak.zip(memory.peak_file_bytes).map(|(peak, file)| peak.get().saturating_sub(file.get()));
        Some(sampled.max(rest.unwrap_or(0)))
    };
    let most_unreclaimable =
        runs.iter().filter_map(unreclaimable).max().filter(|number| (*number as f64) < spread.max);
    let (request, why) = match most_unreclaimable {
        Some(number) => (
            number as f64,
            format!("at least {} of the peak was no page cache, which could be dropped", Bytes(number)),
        ),
        None => (spread.max, format!("the highest peak was {}", Bytes(spread.max as u64))),
    };
    quotas.push(ResourceQuota {
        key: "request.memory".to_string(),
        value: format_mebibytes(request),
        reason: why,
    });
    let scatter = spread.standard_deviation.map(|deviation| 3.0 * deviation / spread.median.max(1.0));
    let (margin, why) = match scatter {
        None => (
            SINGLE_RUN_MEMORY_MARGIN,
            "a quarter, because one run does not show the spread of peaks".to_string(),
        ),
        Some(scatter) if scatter > MEMORY_MARGIN => (
            scatter,
            format!(
                "three deviations of the peaks of {} ({:.0} %)",
                format_count(spread.n, "run"),
                scatter * 100.0
            ),
        ),
        Some(_) => (
            MEMORY_MARGIN,
            format!("a tenth; the peaks of {} scatter less than that", format_count(spread.n, "run")),
        ),
    };
    quotas.push(ResourceQuota {
        key: "limit.memory".to_string(),
        value: format_mebibytes(spread.max * (1.0 + margin)),
        reason: format!(
            "the highest peak was {}; beyond the limit it is killed, so there is a margin of {why}",
            Bytes(spread.max as u64)
        ),
    });
}

/// Rounds up to tens of millicores; at least 10.
fn format_millicores(cores: f64) -> String {
    format!("{}m", ((cores * 100.0 - ROUNDING).ceil().max(1.0) * 10.0) as u64)
}

/// Rounds up to mebibytes; at least 1.
fn format_mebibytes(bytes: f64) -> String {
    format!("{}Mi", (bytes / 1_048_576.0 - ROUNDING).ceil().max(1.0) as u64)
}
