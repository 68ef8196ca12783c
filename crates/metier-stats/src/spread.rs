//! Statistics of the repetitions of one batch: level, scatter, outliers, and warnings with advice.
//!
//! Warnings, from wall time: `slow-first-run`, `outliers`, `too-few-repeats`. A single run gives
//! none, because repeatability was not requested. Warm-up, failed and unfinished runs are excluded.

use metier_types::{ColumnUnit, Ratio, Run, RunId, RunWarning};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bootstrap::{median, median_distribution, quantile_interval};
use crate::run_selection::exclusion_reason;
use crate::{Error, SummaryField};

/// Modified z-score of an outlier (Iglewicz and Hoaglin, 1993).
const OUTLIER_SCORE: f64 = 3.5;
/// A value this close to the median is never an outlier: exact counters scatter so little that a
/// harmless microsecond could have any score.
const OUTLIER_SHARE: f64 = 0.02;
/// Minimum number of values for outlier detection.
const MIN_VALUES_FOR_OUTLIERS: usize = 5;
/// Recommended minimum number of repetitions for a comparison.
const MIN_REPEATS: usize = 5;
/// Relative half width of the median's interval above which more repetitions are advised.
const MAX_HALF_WIDTH: f64 = 0.05;
/// The first run is slow if it exceeds the median of the others by this share and is an outlier.
const SLOW_FIRST_EXCESS: f64 = 0.10;

/// A reading of the host of a run.
type CauseReading = fn(&Run) -> Option<f64>;

/// Spread of values of one unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ValueSpread {
    /// Number of values.
    pub n: usize,
    /// Smallest value.
    pub min: f64,
    /// Median.
    pub median: f64,
    /// Mean.
    pub mean: f64,
    /// Largest value.
    pub max: f64,
    /// Sample standard deviation (n − 1); `null` for a single value.
    pub standard_deviation: Option<f64>,
    /// Median absolute deviation from the median, unscaled.
    pub mad: f64,
    /// Indices of the outliers in the given values.
    pub outliers: Vec<usize>,
}

/// Spread of a field over a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FieldSpread {
    /// The field of the runs' summary.
    pub field: SummaryField,
    /// Unit of the field.
    pub unit: ColumnUnit,
    /// The spread; its outliers are indices into the batch's `runs` only if no run lacks the field.
    #[serde(flatten)]
    pub spread: ValueSpread,
    /// Runs that are outliers in this field.
    pub outlier_runs: Vec<RunId>,
}

/// Statistics of the repetitions of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BatchSpread {
    /// The included runs, in order of their start.
    pub runs: Vec<RunId>,
    /// Number of excluded runs: warm-up, failed, unfinished.
    pub left_out: usize,
    /// All fields that at least one run has.
    pub fields: Vec<FieldSpread>,
    /// Warnings about its reliability.
    pub warnings: Vec<RunWarning>,
}

/// Spread of values; `None` if there are none or one is not finite.
pub fn value_spread(values: &[f64]) -> Option<ValueSpread> {
    if values.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = median(&sorted)?;
    let n = values.len();
    let mean = sorted.iter().sum::<f64>() / n as f64;
    let squares: f64 = sorted.iter().map(|x| (x - mean).powi(2)).sum();
    let mut away: Vec<f64> = values.iter().map(|x| (x - middle).abs()).collect();
    away.sort_unstable_by(f64::total_cmp);
    Some(ValueSpread {
        n,
        min: *sorted.first()?,
        median: middle,
        mean,
        max: *sorted.last()?,
        standard_deviation: (n > 1).then(|| (squares / (n - 1) as f64).sqrt()),
        mad: median(&away)?,
        outliers: find_outliers(values, middle, &away),
    })
}

/// Indices of outliers. `away` holds the sorted distances from the median.
fn find_outliers(values: &[f64], middle: f64, away: &[f64]) -> Vec<usize> {
    if values.len() < MIN_VALUES_FOR_OUTLIERS {
        return Vec::new();
    }
    // Iglewicz and Hoaglin: 0.6745 (x − median) / MAD; if the MAD is 0, the mean distance replaces
    // it.
    let unit = match median(away) {
        Some(mad) if mad > 0.0 => mad / 0.6745,
        _ => 1.253_314 * away.iter().sum::<f64>() / away.len() as f64,
    };
    let stands_out = |x: f64| {
        let distance = (x - middle).abs();
        unit > 0.0 && distance / unit > OUTLIER_SCORE && distance > OUTLIER_SHARE * middle.abs()
    };
    values.iter().enumerate().filter(|(_, x)| stands_out(**x)).map(|(at, _)| at).collect()
}

/// Statistics of the repetitions of one batch. Runs of several batches are treated as one.
pub fn batch_spread(runs: &[Run]) -> Result<BatchSpread, Error> {
    let mut counted: Vec<&Run> = runs.iter().filter(|run| exclusion_reason(run, false).is_none()).collect();
    counted.sort_by_key(|run| (run.started, run.id));
    let mut fields = Vec::new();
    for field in SummaryField::ALL {
        let mut owners = Vec::new();
        let mut values = Vec::new();
        for run in &counted {
            if let Some(value) = field.value_of(run)? {
                owners.push(run.id);
                values.push(value);
            }
        }
        if let Some(spread) = value_spread(&values) {
            let outlier_runs = spread.outliers.iter().filter_map(|at| owners.get(*at).copied()).collect();
            fields.push(FieldSpread { field, unit: field.unit(), spread, outlier_runs });
        }
    }
    let warm_ups = runs.iter().filter(|run| run.context.warmup).count();
    let warnings = batch_warnings(&counted, &fields, warm_ups)?;
    Ok(BatchSpread {
        runs: counted.iter().map(|run| run.id).collect(),
        left_out: runs.len() - counted.len(),
        fields,
        warnings,
    })
}

fn batch_warnings(runs: &[&Run], fields: &[FieldSpread], warm_ups: usize) -> Result<Vec<RunWarning>, Error> {
    let Some(wall) = fields.iter().find(|spread| spread.field == SummaryField::WallSeconds) else {
        return Ok(Vec::new());
    };
    let (mut timed, mut values) = (Vec::new(), Vec::new());
    for run in runs {
        if let Some(value) = SummaryField::WallSeconds.value_of(run)? {
            timed.push(*run);
            values.push(value);
        }
    }
    let runs = timed.as_slice();
    let mut found = Vec::new();
    let slow_first = slow_first_warning(runs, &values, warm_ups);
    let mut strays = wall.spread.outliers.clone();
    if let Some(warning) = slow_first {
        strays.retain(|at| *at != 0);
        found.push(warning);
    }
    if !strays.is_empty() {
        found.push(outlier_warning(runs, &values, &strays, wall.spread.median));
    }
    found.extend(too_few_warning(&values));
    Ok(found)
}

/// Compares the first repetition with the others.
fn slow_first_warning(runs: &[&Run], values: &[f64], warm_ups: usize) -> Option<RunWarning> {
    let (first, others) = values.split_first()?;
    if others.len() < 2 || runs.first()?.context.repetition > 1 {
        return None;
    }
    let rest = value_spread(others)?;
    let scatter = rest.standard_deviation?.max(rest.mad / 0.6745);
    let excess = first - rest.median;
    if excess <= SLOW_FIRST_EXCESS * rest.median || excess <= OUTLIER_SCORE * scatter {
        return None;
    }
    let read = |run: &&Run| run.summary.read_bytes.map(|bytes| bytes.get());
    let others_read = runs.iter().skip(1).filter_map(read).max();
    let cold = runs
        .first()
        .and_then(read)
        .zip(others_read)
        .is_some_and(|(first, other)| first > 2 * other + (1 << 20));
    let advice = match (warm_ups, cold) {
        (0, true) => "it read from storage what later runs found in the cache; use --warmup 1".to_string(),
        (0, false) => "caches were cold, perhaps; use --warmup 1".to_string(),
        (n, true) => format!("{n} warm-up runs did not fill the caches; use --warmup {}", n + 2),
        (n, false) => format!(
            "in spite of {n} warm-up runs; look for what only the first run does, or use --warmup {}",
            n + 2
        ),
    };
    let ratio = Ratio(excess / rest.median);
    let text = format!("the first run took {ratio} longer than the median of the others: {advice}");
    Some(RunWarning::new("slow-first-run", text))
}

/// Warns about outliers, with the likely cause if the host's state shows it.
fn outlier_warning(runs: &[&Run], values: &[f64], strays: &[usize], middle: f64) -> RunWarning {
    let worst = |of: CauseReading, among: &dyn Fn(usize) -> bool| {
        runs.iter()
            .enumerate()
            .filter(|(at, _)| among(*at))
            .filter_map(|(_, run)| of(run))
            .fold(None, |most: Option<f64>, x| Some(most.map_or(x, |m| m.max(x))))
    };
    let is_stray = |at: usize| strays.contains(&at);
    let causes: [(CauseReading, &str, &str); 4] = [
        (
            |run| run.host.steal_ratio.map(|x| x.get()),
            "the hypervisor gave time to others",
            "use a host of its own",
        ),
        (
            |run| run.host.memory_pressure_ratio.map(|x| x.get()),
            "tasks waited for memory",
            "free memory on the host",
        ),
        (
            |run| run.host.io_pressure_ratio.map(|x| x.get()),
            "tasks waited for storage",
            "stop other IO on the host",
        ),
        (
            |run| run.host.others_ratio.map(|x| x.get()),
            "others used the cores",
            "stop what else runs on the host",
        ),
    ];
    let cause = causes.iter().find_map(|(of, what, advice)| {
        let (with, without) = (worst(*of, &is_stray)?, worst(*of, &|at| !is_stray(at)).unwrap_or(0.0));
        (with > 0.02 && with > 1.5 * without).then(|| format!("{what} in them ({}); {advice}", Ratio(with)))
    });
    let farthest = strays
        .iter()
        .filter_map(|at| values.get(*at))
        .fold(middle, |far, x| if (x - middle).abs() > (far - middle).abs() { *x } else { far });
    let off = Ratio((farthest - middle) / middle.max(f64::MIN_POSITIVE));
    let advice = cause.unwrap_or_else(|| "look at the median, and repeat on a quieter host".into());
    let (n, of) = (strays.len(), values.len());
    let text = format!("{n} of {of} runs stand out in wall time, the farthest by {off}: {advice}");
    RunWarning::new("outliers", text)
}

/// Warns if there are too few repetitions for a comparison or a precise median.
fn too_few_warning(values: &[f64]) -> Option<RunWarning> {
    let n = values.len();
    let code = "too-few-repeats".to_string();
    if (2..MIN_REPEATS).contains(&n) {
        let text = format!("{n} repetitions are too few to tell a change from chance; use --repeat 10");
        return Some(RunWarning::new(code, text));
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = median(&sorted).filter(|x| *x > 0.0 && n >= MIN_REPEATS)?;
    let mut atoms = median_distribution(&sorted);
    atoms.sort_unstable_by(|l, r| l.0.total_cmp(&r.0));
    let (low, high) = quantile_interval(&atoms, 0.025)?;
    let half = (high - low) / 2.0 / middle;
    (half > MAX_HALF_WIDTH).then(|| {
        // The interval shrinks with the square root of the number of runs.
        let want = (n as f64 * (half / MAX_HALF_WIDTH).powi(2)).ceil();
        let advice = match want <= 200.0 {
            true => format!("--repeat {want:.0} would bring it near {}", Ratio(MAX_HALF_WIDTH)),
            false => "make the host quieter first: repeating alone will not narrow it".to_string(),
        };
        let text =
            format!("wall time scatters so that its median is known to ±{} only; {advice}", Ratio(half));
        RunWarning::new(code, text)
    })
}
