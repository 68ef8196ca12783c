//! The comparison record, `metier.comparison/1`, and the regression check for CI.

use metier_types::schema::{RecordSchema, VersionedRecord};
use metier_types::{ColumnUnit, ExtraFields, Ratio, RunId, RunWarning, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SummaryField;

words! { serde (word, from_word)
    /// Why a run was left out.
    #[derive(JsonSchema)]
    #[non_exhaustive]
    pub enum ExclusionReason {
        /// It only warmed up.
        WarmUp = "warm-up",
        /// It is still under way.
        Running = "running",
        /// It was not measured to its end.
        Interrupted = "interrupted",
        /// Its time was up.
        Timeout = "timeout",
        /// It ended with an error, by a signal or for want of memory.
        Failed = "failed",
    }
}

words! { serde (word, from_word)
    /// How drift of the device between the two sides is treated.
    #[derive(JsonSchema)]
    #[non_exhaustive]
    pub enum DriftTreatment {
        /// The two sides were measured by turns, so it cancels in each pair.
        Cancelled = "cancelled",
        /// Estimated from earlier batches; the interval contains it.
        FromHistory = "from-history",
        /// Unknown; the interval does not contain it.
        NotContained = "not-contained",
    }
}

/// A run that was given but not compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExcludedRun {
    /// The run.
    pub run: RunId,
    /// The reason.
    pub because: ExclusionReason,
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedGroup {
    /// Display name.
    pub label: String,
    /// Ids of the compared runs.
    pub runs: Vec<RunId>,
    /// Number of compared runs.
    pub n: usize,
    /// Runs that were given but not compared.
    #[serde(default)]
    pub left_out: Vec<ExcludedRun>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// Values of one field on one side, in the metric's unit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct LevelSummary {
    /// Number of runs that have the value.
    pub n: usize,
    /// Median.
    pub median: Option<f64>,
    /// Lower end of the median's interval; `null` with too few runs. With 4 or 5 runs it is the
    /// whole range, which contains the true median in 88 % and 94 % of cases; with 6 or more runs
    /// it has the nominal coverage.
    pub low: Option<f64>,
    /// Upper end of the median's interval.
    pub high: Option<f64>,
    /// Smallest value.
    pub min: Option<f64>,
    /// Largest value.
    pub max: Option<f64>,
}

/// Conclusion about the change of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ComparisonVerdict {
    /// b is larger, and the difference is significant.
    Increase,
    /// b is smaller, and the difference is significant.
    Decrease,
    /// These runs show no significant difference; this does not prove that there is none.
    NoDifferenceShown,
    /// With so few runs no difference could be significant.
    TooFewRuns,
    /// A side has no value, or the two sides were measured differently.
    NotComparable,
}

/// One field in both groups.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricComparison {
    /// The field of the runs' summary.
    pub field: SummaryField,
    /// The unit of both levels.
    pub unit: ColumnUnit,
    /// The first side.
    pub a: LevelSummary,
    /// The second side.
    pub b: LevelSummary,
    /// Median of b divided by median of a, minus 1; for sides measured by turns the median of the
    /// pairs' changes. `null` if a side has no value, or if a's median is 0 and b's is not.
    pub change_ratio: Option<Ratio>,
    /// Lower end of the change's bootstrap interval; `null` with too few runs or if it is not
    /// finite.
    pub low: Option<Ratio>,
    /// Upper end of that interval.
    pub high: Option<Ratio>,
    /// Nominal coverage of that interval.
    pub coverage: Option<Ratio>,
    /// The conclusion.
    pub verdict: ComparisonVerdict,
    /// Probability of such differences without a cause, corrected for the number of fields. It
    /// does not contain drift between batches.
    pub p_value: Option<Ratio>,
    /// How drift between the two sides is treated; `null` without an interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftTreatment>,
    /// Standard deviation of the change from one batch to the next, from earlier batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift_ratio: Option<Ratio>,
    /// Why there is no conclusion, if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// A comparison of two groups of runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunComparison {
    /// `metier.comparison/1`.
    pub schema: RecordSchema<RunComparison>,
    /// The first side, the baseline.
    pub a: ComparedGroup,
    /// The second side, the changed one.
    pub b: ComparedGroup,
    /// All compared fields, also if both sides lack the value.
    pub metrics: Vec<MetricComparison>,
    /// Number of pairs, if the two sides were measured by turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<usize>,
    /// Number of earlier batches from which drift is known; `null` if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_batches: Option<usize>,
    /// What the intervals contain, as a sentence; `null` without intervals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_statement: Option<String>,
    /// Warnings about its reliability.
    #[serde(default)]
    pub warnings: Vec<RunWarning>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

impl VersionedRecord for RunComparison {
    const SCHEMA: &'static str = "metier.comparison/1";
}

impl RunComparison {
    /// The metric of a field.
    pub fn metric(&self, field: SummaryField) -> Option<&MetricComparison> {
        self.metrics.iter().find(|metric| metric.field == field)
    }

    /// Writes the sentence that says what the intervals contain.
    pub(crate) fn with_interval_statement(mut self) -> Self {
        let coverage = self.metrics.iter().find_map(|metric| metric.coverage);
        let has = |drift| self.metrics.iter().any(|metric| metric.drift == Some(drift));
        let about = if has(DriftTreatment::Cancelled) {
            let pairs = self.pairs.unwrap_or_default();
            format!("{pairs} pairs by turns, so drift of the device cancels")
        } else if has(DriftTreatment::FromHistory) {
            let batches = self.history_batches.unwrap_or_default();
            let rest = match has(DriftTreatment::NotContained) {
                true => "; some figures have no history",
                false => "",
            };
            format!("with the drift between batches, from {batches} earlier batches{rest}")
        } else {
            "without drift between batches, which is unknown".to_string()
        };
        self.interval_statement = coverage
            .map(|coverage| format!("intervals hold the true change {coverage} of the time, {about}"));
        self
    }

    /// The given fields that regressed by more than `above`.
    ///
    /// A regression is a field whose verdict is `increase` *and* whose median rose by more than
    /// `above`. The verdict alone bounds false alarms: without a change and without unknown drift,
    /// at most one comparison in twenty fails, whatever the limit. The size is judged by the median
    /// instead of the interval's lower end. That end is lower on noisy hosts, so a real 8 % could
    /// pass a 5 % limit only because the runs were few or noisy. The price: a change exactly at the
    /// limit is flagged about every other time, as with any sharp limit.
    ///
    /// An increase from a median of 0 has no ratio; it exceeds every limit.
    pub fn find_regressions(&self, above: Ratio, fields: &[SummaryField]) -> Vec<&MetricComparison> {
        self.metrics
            .iter()
            .filter(|metric| fields.contains(&metric.field))
            .filter(|metric| metric.verdict == ComparisonVerdict::Increase)
            .filter(|metric| metric.change_ratio.is_none_or(|change| change > above))
            .collect()
    }

    /// Why none of the given fields could be judged; `None` where one was.
    pub fn why_not_judged(&self, fields: &[SummaryField]) -> Option<&str> {
        let is_judged = |metric: &MetricComparison| {
            fields.contains(&metric.field)
                && !matches!(metric.verdict, ComparisonVerdict::NotComparable | ComparisonVerdict::TooFewRuns)
        };
        let because = || self.metrics.iter().find_map(|metric| metric.because.as_deref());
        (!self.metrics.iter().any(is_judged)).then(|| because().unwrap_or_default())
    }
}
