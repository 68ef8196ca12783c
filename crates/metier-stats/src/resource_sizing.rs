//! Recommended CPU and memory requests and limits for a scheduler, each with its reason: one rule
//! for reports, terminal and page.
//!
//! - CPU request: the 95th percentile of means over 1 s. A request is reserved; the workload can
//!   borrow CPU for the rest.
//! - CPU limit: none. The kernel gives a limit out per 100 ms and throttles the rest of each period
//!   that wants more, also on an idle host: a burst of 0.1 s in each second is throttled by every
//!   limit below a whole core. The request already keeps its share for others.
//! - Memory request: the largest sum of anonymous and kernel memory, which cannot be reclaimed;
//!   else the peak.
//! - Memory limit: the highest peak plus a margin: a tenth, or three standard deviations between
//!   repetitions if that is more. Beyond the limit the workload is killed.
//!
//! One run gives no spread, and a short run gives no windows. Then there is no advice, or it is
//! marked as provisional. A run that a limit throttled, or that lost a process to the memory limit,
//! used less than it needed, so it gives no advice on that resource.

use metier_types::{Bytes, Cores, ExtraFields, Run, Seconds, Series};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::busy_cores::{peak_cores, window_means};
use crate::value_spread;

/// Shortest window of the percentile. A request is a reservation and not a quota, so single periods
/// of the kernel's quota do not matter to it.
const REQUEST_WINDOW: Seconds = Seconds(1.0);
/// Minimum number of windows, over all runs, for a percentile.
const MIN_WINDOWS: usize = 20;
/// Minimum numbers of repetitions and windows for firm advice.
const MIN_FIRM_RUNS: usize = 5;
const MIN_FIRM_WINDOWS: usize = 60;
/// Margins of the memory limit: the minimum, and the value for a single run, without a known
/// spread.
const MEMORY_MARGIN: f64 = 0.10;
const SINGLE_RUN_MEMORY_MARGIN: f64 = 0.25;
/// Rounding errors of binary fractions must not round up to the next integer.
const ROUNDING: f64 = 1e-6;

/// What one run used, and the limits under which it ran: the input of the rule.
#[derive(Debug, Clone, PartialEq)]
pub struct UseHistory {
    /// Length of a window.
    pub window: Seconds,
    /// Mean number of busy cores in each window, in the order of time.
    pub windows: Vec<Cores>,
    /// Largest use over 100 ms, the period of the kernel's quota.
    pub peak_cores: Option<Cores>,
    pub wall: Seconds,
    pub peak_memory: Option<Bytes>,
    /// Largest part of the memory that cannot be reclaimed.
    pub unreclaimable_memory: Option<Bytes>,
    /// Periods in which a CPU limit throttled it; `None` if unknown, or without such a limit.
    pub throttled_periods: Option<u64>,
    /// Processes that the kernel killed for lack of memory.
    pub oom_kills: u64,
    /// Whether it succeeded; the use of others is not what the workload needs.
    pub has_succeeded: bool,
    /// Its memory limit: name and value.
    pub memory_limit: Option<(String, String)>,
}

impl UseHistory {
    /// The use of a run by its record and its series; `None` for a warm-up, and for a run that did
    /// not succeed, unless the kernel killed a process of it for lack of memory.
    pub fn of_run(run: &Run, series: &[Series]) -> Option<Self> {
        let oom_kills = run.memory.oom_kills.unwrap_or(0);
        if run.context.warmup || !(run.is_counted() || oom_kills > 0) {
            return None;
        }
        let line = series.iter().find(|series| series.name == "use");
        let mut windows = line.map(|line| window_means(line, "cpu", REQUEST_WINDOW)).unwrap_or_default();
        if windows.is_empty() {
            // A run shorter than a window counts as one.
            windows.extend(run.mean_busy_cores());
        }
        let memory = &run.memory;
        // Samples may miss the peak of anonymous memory; then the part of the exact peak that
        // cannot be page cache is larger.
        let peak = run.summary.peak_memory_bytes;
        let unreclaimable = memory.peak_anonymous_bytes.map(|anonymous| {
            let sampled = anonymous.get() + memory.peak_kernel_bytes.map_or(0, Bytes::get);
            let rest = peak.zip(memory.peak_file_bytes);
            Bytes(sampled.max(rest.map_or(0, |(peak, file)| peak.get().saturating_sub(file.get()))))
        });
        let is_throttled = run.cpu.throttled_seconds.is_some_and(|held| held.get() > 0.0);
        let limit = run.context.limits.iter().find(|(name, _)| name.contains("memory"));
        Some(Self {
            window: REQUEST_WINDOW,
            windows: windows.into_iter().map(Cores).collect(),
            peak_cores: line.and_then(|line| peak_cores(run, line)).map(Cores),
            wall: run.summary.wall_seconds.unwrap_or_default(),
            peak_memory: peak,
            unreclaimable_memory: unreclaimable,
            throttled_periods: is_throttled.then(|| run.cpu.throttled_periods.unwrap_or(1)),
            oom_kills,
            has_succeeded: run.is_counted(),
            memory_limit: limit.map(|(name, value)| (name.clone(), value.clone())),
        })
    }

    /// Means over windows of at least [`REQUEST_WINDOW`].
    fn request_windows(&self) -> impl Iterator<Item = f64> {
        let joined = (REQUEST_WINDOW.get() / self.window.get().max(1e-9) - ROUNDING).ceil().max(1.0) as usize;
        self.windows
            .chunks(joined)
            .map(|part| part.iter().map(|cores| cores.get()).sum::<f64>() / part.len() as f64)
    }
}

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

/// Derives recommendations from runs of one workload. The order of the runs does not matter.
pub fn size_resources(runs: &[UseHistory]) -> ResourceAdvice {
    let mut notes: Vec<String> = oom_note(runs).into_iter().collect();
    let is_short_of_memory = !notes.is_empty();
    let succeeded: Vec<&UseHistory> = runs.iter().filter(|run| run.has_succeeded).collect();
    let runs = succeeded.as_slice();
    let windows: Vec<f64> = runs.iter().flat_map(|run| run.request_windows()).collect();
    let (n, w) = (runs.len(), windows.len());
    let refused = |basis: String, notes: Vec<String>| ResourceAdvice {
        firmness: AdviceFirmness::Refused,
        basis,
        quotas: Vec::new(),
        notes,
        extra: ExtraFields::new(),
    };
    if n == 0 {
        let basis = "No run succeeded, so the required resources are unknown.".to_string();
        return refused(basis, notes);
    }
    if n < 3 && w < MIN_WINDOWS {
        let wall: Seconds = runs.iter().map(|run| run.wall).sum();
        let basis = format!(
            "{} of {wall} in all: too little to advise on. Measure it for longer, or with --repeat {MIN_FIRM_RUNS}.",
            count_text(n, "run"),
        );
        return refused(basis, notes);
    }
    let mut quotas = Vec::new();
    size_cpu(runs, windows, &mut quotas, &mut notes);
    if !is_short_of_memory {
        size_memory(runs, &mut quotas, &mut notes);
    }
    let firm = n >= MIN_FIRM_RUNS && w >= MIN_FIRM_WINDOWS;
    let basis = format!("From {} and {} of 1 s", count_text(n, "run"), count_text(w, "window"));
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

/// Why there is no advice on memory, if the kernel killed a process for lack of it.
fn oom_note(runs: &[UseHistory]) -> Option<String> {
    let kills: u64 = runs.iter().map(|run| run.oom_kills).sum();
    let limit = runs.iter().filter(|run| run.oom_kills > 0).find_map(|run| run.memory_limit.as_ref());
    let under = limit.map(|(name, value)| format!(" under {name} = {value}")).unwrap_or_default();
    let processes = if kills == 1 { "1 process".to_string() } else { format!("{kills} processes") };
    (kills > 0).then(|| {
        format!(
            "The kernel killed {processes} for want of memory{under}: it needs more. Measure it with a larger limit for advice on memory."
        )
    })
}

fn size_cpu(
    runs: &[&UseHistory],
    mut windows: Vec<f64>,
    quotas: &mut Vec<ResourceQuota>,
    notes: &mut Vec<String>,
) {
    if let Some(periods) = runs.iter().filter_map(|run| run.throttled_periods).max() {
        notes.push(format!(
            "A CPU limit throttled it ({}), so it would have used more: measure it without one for advice on CPU.",
            count_text(periods as usize, "period")
        ));
        return;
    }
    if windows.len() < MIN_WINDOWS {
        notes.push(format!(
            "Only {} of 1 s: too few for advice on CPU; want {MIN_WINDOWS}.",
            count_text(windows.len(), "window")
        ));
        return;
    }
    windows.sort_unstable_by(f64::total_cmp);
    // The smallest value that at least 95 % of the windows do not exceed.
    let p95 = windows[(windows.len() * 95).div_ceil(100) - 1];
    let peak = runs.iter().filter_map(|run| run.peak_cores).map(Cores::get).reduce(f64::max);
    let used = peak.map(|peak| format!(" (it used up to {peak:.2})")).unwrap_or_default();
    quotas.push(ResourceQuota {
        key: "request.cpu".to_string(),
        value: format_millicores(p95),
        reason: format!(
            "95 of 100 windows of 1 s used at most {p95:.2} cores. No CPU limit: the kernel would throttle each 100 ms that needs more than the limit{used}"
        ),
    });
}

fn size_memory(runs: &[&UseHistory], quotas: &mut Vec<ResourceQuota>, notes: &mut Vec<String>) {
    let peaks: Vec<f64> = runs.iter().filter_map(|run| Some(run.peak_memory?.get() as f64)).collect();
    let Some(spread) = value_spread(&peaks) else {
        notes.push("The peak of memory is not known, so there is no advice on memory.".to_string());
        return;
    };
    if let Some((name, value)) = runs.iter().find_map(|run| run.memory_limit.as_ref()) {
        notes.push(format!(
            "It ran under {name} = {value}; near that limit it may have used less than it would without."
        ));
    }
    let most_unreclaimable = runs
        .iter()
        .filter_map(|run| Some(run.unreclaimable_memory?.get()))
        .max()
        .filter(|number| (*number as f64) < spread.max);
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
                count_text(spread.n, "run"),
                scatter * 100.0
            ),
        ),
        Some(_) => (
            MEMORY_MARGIN,
            format!("a tenth; the peaks of {} scatter less than that", count_text(spread.n, "run")),
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

/// A count in words: `1 run`, `3 runs`.
fn count_text(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// Rounds up to tens of millicores; at least 10.
fn format_millicores(cores: f64) -> String {
    format!("{}m", ((cores * 100.0 - ROUNDING).ceil().max(1.0) * 10.0) as u64)
}

/// Rounds up to mebibytes; at least 1.
fn format_mebibytes(bytes: f64) -> String {
    format!("{}Mi", (bytes / 1_048_576.0 - ROUNDING).ceil().max(1.0) as u64)
}
