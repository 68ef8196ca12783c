//! Compares two groups of runs field by field.
//!
//! The verdict "increase" or "decrease" requires two tests. The permutation test must reject
//! chance, and the bootstrap interval of the change of medians must exclude 0. The first bounds
//! false alarms for every distribution. The second prevents a mere difference of scatter or
//! outliers from counting as a change of level.
//!
//! Drift of the device is treated in one of three ways, and the record says which. It cancels in
//! batches that were measured by turns (`pairing`). It is contained in the interval if earlier
//! batches show its size (`batch_drift`); then the verdict requires the change to exceed it. Else
//! it is not contained, and a warning says so.
//!
//! Limits: runs are assumed to be exchangeable within their group. `circumstances` lists known
//! differences between the groups.

use std::collections::{BTreeMap, BTreeSet};

use metier_types::schema::RecordSchema;
use metier_types::{ExtraFields, Ratio, Run, ValueQuality};

use crate::batch_drift::{BatchDrift, BatchHistory};
use crate::bootstrap::{self, change_distribution, median, median_distribution, relative_change};
use crate::comparison::{
    ComparedGroup, ComparisonVerdict, DriftTreatment, LevelSummary, MetricComparison, RunComparison,
};
use crate::pairing::{MIN_PAIRS, corrected_sign_p_values, pair_by_turn, symmetric_change};
use crate::permutation::{corrected_p_values, count_dealings};
use crate::run_selection::select_runs;
use crate::{Error, SummaryField, circumstances};

#[derive(Debug, Clone, PartialEq)]
pub struct CompareOptions {
    /// Label of the first side.
    pub label_a: String,
    /// Label of the second side.
    pub label_b: String,
    /// Nominal coverage of the intervals.
    pub coverage: Ratio,
    /// Probability of any false alarm, over all fields together.
    pub significance: Ratio,
    /// Random permutations of the test, if there are too many to try all.
    pub resamples: u32,
    pub seed: u64,
    /// Whether failed runs are included, for commands that are expected to fail.
    pub keep_failed: bool,
    /// The fields to compare. Fewer fields give more power for each.
    pub fields: Vec<SummaryField>,
    /// Runs of earlier batches of the compared workloads on their device, for the drift between
    /// batches. Compared runs among them are ignored.
    pub history: Vec<Run>,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            label_a: "a".into(),
            label_b: "b".into(),
            coverage: Ratio(0.95),
            significance: Ratio(0.05),
            resamples: 10_000,
            seed: 0x6d65_7469_6572,
            keep_failed: false,
            fields: SummaryField::ALL.to_vec(),
            history: Vec::new(),
        }
    }
}

impl CompareOptions {
    fn validate(&self) -> Result<(), Error> {
        let wrong = |option, got: String, want| Err(Error::WrongOption { option, got, want });
        if !(0.5..1.0).contains(&self.coverage.get()) {
            return wrong("coverage", self.coverage.get().to_string(), "a share from 0.5 to below 1");
        }
        if !(self.significance.get() > 0.0 && self.significance.get() <= 0.5) {
            return wrong("significance", self.significance.get().to_string(), "a share above 0, up to 0.5");
        }
        if !(100..=1_000_000).contains(&self.resamples) {
            return wrong("resamples", self.resamples.to_string(), "100 to 1,000,000");
        }
        // With fewer random permutations no p-value could be small enough.
        if f64::from(self.resamples) < 2.0 / self.significance.get() {
            return wrong("resamples", self.resamples.to_string(), "at least 2 / significance");
        }
        if self.fields.is_empty() {
            return wrong("fields", "empty".into(), "at least one field");
        }
        Ok(())
    }
}

/// Compares b with a.
pub fn compare(a: &[Run], b: &[Run], options: &CompareOptions) -> Result<RunComparison, Error> {
    options.validate()?;
    let mut seen = BTreeSet::new();
    let (kept_a, out_a) = select_runs("a", a, options, &mut seen)?;
    let (kept_b, out_b) = select_runs("b", b, options, &mut seen)?;
    let pairs = pair_by_turn(&kept_a, &kept_b);
    let compared: Vec<&Run> = kept_a.iter().chain(&kept_b).copied().collect();
    let history = BatchHistory::new(if pairs.is_some() { &[] } else { &options.history }, &compared);
    let mut metrics = Vec::new();
    let mut columns = Vec::new();
    let fields: BTreeSet<SummaryField> = options.fields.iter().copied().collect();
    for field in fields {
        let column = FieldColumn::read(field, &kept_a, &kept_b, pairs.as_deref(), history.drift(field))?;
        metrics.push(describe_field(field, &column, &kept_a, &kept_b, options));
        columns.push(column);
    }
    test_fields(&mut metrics, &columns, options);
    let group = |label: &str, runs: &[&Run], left_out| ComparedGroup {
        label: label.to_string(),
        runs: runs.iter().map(|run| run.id).collect(),
        n: runs.len(),
        left_out,
        extra: ExtraFields::new(),
    };
    let a = group(&options.label_a, &kept_a, out_a);
    let b = group(&options.label_b, &kept_b, out_b);
    let mut warnings = circumstances::exclusion_warnings(&a, &b);
    warnings.extend(circumstances::too_few_warning(&a, &b, &metrics));
    warnings.extend(circumstances::drift_warning(&metrics));
    warnings.extend(circumstances::difference_warnings(&kept_a, &kept_b, &options.label_a, &options.label_b));
    let comparison = RunComparison {
        schema: RecordSchema::new(),
        a,
        b,
        metrics,
        pairs: pairs.map(|pairs| pairs.len()),
        history_batches: Some(history.len()).filter(|batches| *batches > 0),
        interval_statement: None,
        warnings,
        extra: ExtraFields::new(),
    };
    Ok(comparison.with_interval_statement())
}

/// Values of one field by run, a's first; `None` if a run lacks it.
struct FieldColumn {
    values: Vec<Option<f64>>,
    a_runs: usize,
    /// The values of complete pairs, if the sides were measured by turns.
    pairs: Option<Vec<(f64, f64)>>,
    drift: Option<BatchDrift>,
}

impl FieldColumn {
    fn read(
        field: SummaryField,
        a: &[&Run],
        b: &[&Run],
        pairs: Option<&[(usize, usize)]>,
        drift: Option<BatchDrift>,
    ) -> Result<Self, Error> {
        let values: Result<Vec<_>, Error> = a.iter().chain(b).map(|run| field.value_of(run)).collect();
        let (values, a_runs) = (values?, a.len());
        let complete = |(at_a, at_b): &(usize, usize)| Some((values[*at_a]?, values[a_runs + at_b]?));
        let pairs = pairs.map(|pairs| pairs.iter().filter_map(complete).collect());
        Ok(Self { values, a_runs, pairs, drift })
    }

    /// The change of each complete pair, by a measure of change.
    fn pair_changes(&self, change: fn(f64, f64) -> f64) -> Option<Vec<f64>> {
        self.pairs.as_ref().map(|pairs| pairs.iter().map(|(a, b)| change(*a, *b)).collect())
    }

    /// The present values of a and of b, each sorted.
    fn sorted(&self) -> (Vec<f64>, Vec<f64>) {
        let (a, b) = self.values.split_at(self.a_runs);
        let sort = |side: &[Option<f64>]| {
            let mut values: Vec<f64> = side.iter().flatten().copied().collect();
            values.sort_unstable_by(f64::total_cmp);
            values
        };
        (sort(a), sort(b))
    }

    fn presence(&self) -> Vec<bool> {
        self.values.iter().map(Option::is_some).collect()
    }
}

/// Minimum number of runs per side; a variance of two runs says little.
const MIN_RUNS: usize = 3;

/// Whether the clearest possible difference could be significant.
fn is_test_possible(a: usize, b: usize, significance: f64) -> bool {
    a >= MIN_RUNS && b >= MIN_RUNS && 2.0 / count_dealings(a + b, a) as f64 <= significance
}

/// Levels, change and interval; the verdict `no-difference-shown` is preliminary.
fn describe_field(
    field: SummaryField,
    column: &FieldColumn,
    a: &[&Run],
    b: &[&Run],
    options: &CompareOptions,
) -> MetricComparison {
    let (values_a, values_b) = column.sorted();
    let enough = match &column.pairs {
        Some(pairs) => pairs.len() >= MIN_PAIRS,
        None => is_test_possible(values_a.len(), values_b.len(), options.significance.get()),
    };
    let (atoms_a, atoms_b) = match enough {
        true => (median_distribution(&values_a), median_distribution(&values_b)),
        false => (Vec::new(), Vec::new()),
    };
    // With fewer than 5 runs on a side the bootstrap's tails are too thin (simulated: 93 % instead
    // of 95 %). The correction is to use its whole range.
    let tail = match values_a.len().min(values_b.len()) < 5 {
        true => 0.0,
        false => tail_of(options),
    };
    let mut metric = MetricComparison {
        field,
        unit: field.unit(),
        a: level_summary(&values_a, &atoms_a, tail),
        b: level_summary(&values_b, &atoms_b, tail),
        change_ratio: None,
        low: None,
        high: None,
        coverage: None,
        verdict: ComparisonVerdict::NoDifferenceShown,
        p_value: None,
        drift: None,
        drift_ratio: None,
        because: None,
        extra: ExtraFields::new(),
    };
    let (Some(before), Some(after)) = (metric.a.median, metric.b.median) else {
        metric.verdict = ComparisonVerdict::NotComparable;
        metric.because = Some(absence_reason(field, a, b, &metric, options));
        return metric;
    };
    metric.change_ratio = finite_ratio(relative_change(before, after));
    if let Some(reason) = quality_mismatch(field, a, b) {
        metric.verdict = ComparisonVerdict::NotComparable;
        metric.because = Some(reason);
        return metric;
    }
    if !enough {
        metric.verdict = ComparisonVerdict::TooFewRuns;
        metric.because = Some(match &column.pairs {
            Some(pairs) => format!("{} pairs; want at least {MIN_PAIRS}, better 10", pairs.len()),
            None => format!(
                "{} and {} runs; want at least 4 on each side, better 10",
                values_a.len(),
                values_b.len()
            ),
        });
        return metric;
    }
    let changes = match column.pair_changes(relative_change) {
        Some(mut changes) => {
            changes.sort_unstable_by(f64::total_cmp);
            metric.change_ratio = median(&changes).and_then(finite_ratio);
            let mut atoms = median_distribution(&changes);
            atoms.sort_unstable_by(|l, r| l.0.total_cmp(&r.0));
            atoms
        }
        None => change_distribution(&atoms_a, &atoms_b),
    };
    if let Some((low, high)) = bootstrap::quantile_interval(&changes, tail) {
        let (low, high) = widen_by_drift(low, high, metric.change_ratio, column, tail_of(options));
        metric.low = finite_ratio(low);
        metric.high = finite_ratio(high);
        metric.coverage = Some(options.coverage);
        metric.drift = Some(match (&column.pairs, column.drift) {
            (Some(_), _) => DriftTreatment::Cancelled,
            (None, Some(_)) => DriftTreatment::FromHistory,
            (None, None) => DriftTreatment::NotContained,
        });
        metric.drift_ratio = column.drift.map(|drift| Ratio(drift.deviation.exp() - 1.0));
    }
    metric
}

/// Probability beyond each end of an interval.
fn tail_of(options: &CompareOptions) -> f64 {
    (1.0 - options.coverage.get()) / 2.0
}

/// The interval, at least as wide as the drift between batches around the change.
fn widen_by_drift(low: f64, high: f64, change: Option<Ratio>, column: &FieldColumn, tail: f64) -> (f64, f64) {
    let (Some(change), Some(drift)) = (change, column.drift) else { return (low, high) };
    let (factor, level) = (drift.reach(tail).exp(), 1.0 + change.get());
    (low.min(level / factor - 1.0), high.max(level * factor - 1.0))
}

fn finite_ratio(x: f64) -> Option<Ratio> {
    x.is_finite().then_some(Ratio(x))
}

fn level_summary(sorted: &[f64], atoms: &[bootstrap::ProbabilityAtom], tail: f64) -> LevelSummary {
    let mut by_value = atoms.to_vec();
    by_value.sort_unstable_by(|l, r| l.0.total_cmp(&r.0));
    let interval = bootstrap::quantile_interval(&by_value, tail);
    LevelSummary {
        n: sorted.len(),
        median: median(sorted),
        low: interval.map(|ends| ends.0),
        high: interval.map(|ends| ends.1),
        min: sorted.first().copied(),
        max: sorted.last().copied(),
    }
}

/// Why a side lacks the value, taken from the record of a run that lacks it.
fn absence_reason(
    field: SummaryField,
    a: &[&Run],
    b: &[&Run],
    metric: &MetricComparison,
    options: &CompareOptions,
) -> String {
    let (runs, label) = if metric.a.n == 0 { (a, &options.label_a) } else { (b, &options.label_b) };
    let reason = runs.iter().find_map(|run| run.missing.get(&field.record_path()));
    match reason {
        Some(missing) => format!("{label} has no value: {missing}"),
        None => format!("{label} has no value"),
    }
}

/// Whether the two sides measured the value so differently that they are not comparable.
fn quality_mismatch(field: SummaryField, a: &[&Run], b: &[&Run]) -> Option<String> {
    let grades = |runs: &[&Run]| -> BTreeSet<ValueQuality> {
        runs.iter().filter_map(|run| run.quality.get(&field.record_path()).copied()).collect()
    };
    let (a, b) = (grades(a), grades(b));
    let estimated =
        |grades: &BTreeSet<ValueQuality>| grades.iter().all(|grade| *grade == ValueQuality::Estimated);
    let exact = |grades: &BTreeSet<ValueQuality>| grades.iter().all(|grade| *grade == ValueQuality::Exact);
    let apart = !a.is_empty() && !b.is_empty() && (estimated(&a) && exact(&b) || exact(&a) && estimated(&b));
    apart.then(|| {
        let (text, other) = if exact(&a) { ("exact", "estimated") } else { ("estimated", "exact") };
        format!("the value is {text} on the first side and {other} on the second; measure both the same way")
    })
}

/// Tests all open fields, jointly if they have the same runs, and sets their verdicts.
fn test_fields(metrics: &mut [MetricComparison], columns: &[FieldColumn], options: &CompareOptions) {
    let mut families: BTreeMap<Vec<bool>, Vec<usize>> = BTreeMap::new();
    for (at, column) in columns.iter().enumerate() {
        if metrics[at].verdict == ComparisonVerdict::NoDifferenceShown {
            families.entry(column.presence()).or_default().push(at);
        }
    }
    // Fields that some runs lack are tested separately, with a Bonferroni correction over these few
    // families.
    let factor = families.len() as f64;
    // The drift of fields is tested with a Bonferroni correction: they drift together, but how much
    // so is unknown.
    let drifting = columns.iter().filter(|column| column.drift.is_some_and(|drift| drift.deviation > 0.0));
    let drift_tail = options.significance.get() / 2.0 / (drifting.count().max(1) as f64);
    for (presence, members) in families {
        let found = match columns[members[0]].pairs {
            Some(_) => {
                let changes = |at: &usize| columns[*at].pair_changes(symmetric_change).unwrap_or_default();
                let differences: Vec<Vec<f64>> = members.iter().map(changes).collect();
                corrected_sign_p_values(&differences, options.resamples, options.seed)
            }
            None => {
                let (pool, in_a) = pool_runs(&presence, &members, columns);
                corrected_p_values(&pool, &in_a, options.resamples, options.seed)
            }
        };
        for (at, chance) in members.into_iter().zip(found) {
            let metric = &mut metrics[at];
            let chance = (chance * factor).min(1.0);
            metric.p_value = Some(Ratio(chance));
            let rose = metric.low.is_some_and(|low| low.get() > 0.0)
                || metric.low.is_none() && metric.a.median < metric.b.median;
            let fell = metric.high.is_some_and(|high| high.get() < 0.0);
            if chance <= options.significance.get() && exceeds_drift(metric, columns[at].drift, drift_tail) {
                metric.verdict = match (rose, fell) {
                    (true, _) => ComparisonVerdict::Increase,
                    (_, true) => ComparisonVerdict::Decrease,
                    _ => ComparisonVerdict::NoDifferenceShown,
                };
            }
        }
    }
}

/// Whether a change is larger than the known drift; a change from 0 always is.
fn exceeds_drift(metric: &MetricComparison, drift: Option<BatchDrift>, tail: f64) -> bool {
    let (Some(drift), Some(change)) = (drift, metric.change_ratio) else { return true };
    (1.0 + change.get()).ln().abs() > drift.reach(tail)
}

/// The values of a family by field, over the runs that have them, and a flag for a's runs.
///
/// Sorted by value, so that random permutations depend neither on the order of runs nor on which
/// side is a.
fn pool_runs(presence: &[bool], members: &[usize], columns: &[FieldColumn]) -> (Vec<Vec<f64>>, Vec<bool>) {
    let a_runs = columns[members[0]].a_runs;
    let mut runs: Vec<(Vec<f64>, bool)> = (0..presence.len())
        .filter(|run| presence[*run])
        .map(|run| (members.iter().filter_map(|at| columns[*at].values[run]).collect(), run < a_runs))
        .collect();
    runs.sort_by(|l, r| {
        l.0.iter()
            .zip(&r.0)
            .map(|(x, y)| x.total_cmp(y))
            .find(|order| order.is_ne())
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    let in_a = runs.iter().map(|run| run.1).collect();
    let pool = (0..members.len()).map(|k| runs.iter().map(|run| run.0[k]).collect()).collect();
    (pool, in_a)
}
