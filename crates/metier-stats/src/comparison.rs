//! The record of a comparison, `metier.comparison/1`, and the question that CI asks of it.

use metier_types::schema::{Schema, Versioned};
use metier_types::{Extra, Ratio, RunId, Unit, Warning, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Field;

words! { serde (word, from_word)
    /// Why a run was left out.
    #[derive(JsonSchema)]
    #[non_exhaustive]
    pub enum LeftOutBecause {
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

/// A run that was named but not compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// The run.
    pub run: RunId,
    /// Why.
    pub because: LeftOutBecause,
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// What people call it.
    pub label: String,
    /// The runs that were compared, by id.
    pub runs: Vec<RunId>,
    /// How many those are.
    pub n: usize,
    /// Those that were named but not compared.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What one side shows of one field, in the metric's unit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Level {
    /// Runs that have the value.
    pub n: usize,
    /// The middle one.
    pub median: Option<f64>,
    /// Lower end of the median's interval; `None` with too few runs. With 4 or 5 runs it is the whole range, which
    /// holds the true median 88 % and 94 % of the time; from 6 on as often as the change's interval.
    pub low: Option<f64>,
    /// Upper end of the median's interval.
    pub high: Option<f64>,
    /// The smallest.
    pub min: Option<f64>,
    /// The largest.
    pub max: Option<f64>,
}

/// What can be said about the change of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Verdict {
    /// b is larger, and chance does not explain it.
    Increase,
    /// b is smaller, and chance does not explain it.
    Decrease,
    /// These runs do not show a difference; that is not proof that there is none.
    NoDifferenceShown,
    /// So few runs that no difference, however large, could be told from chance.
    TooFewRuns,
    /// A side has no value, or the two mean different things.
    NotComparable,
}

/// One field in both groups.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metric {
    /// The field of the runs' summary.
    pub field: Field,
    /// The unit of both levels.
    pub unit: Unit,
    /// The first side.
    pub a: Level,
    /// The second side.
    pub b: Level,
    /// Median of b over median of a, less 1; `None` where a side has no value or a's median is 0 and b's is not.
    pub change_ratio: Option<Ratio>,
    /// Lower end of the change's bootstrap interval; `None` with too few runs or where it is not finite.
    pub low: Option<Ratio>,
    /// Upper end of it.
    pub high: Option<Ratio>,
    /// How often such intervals hold the true change, as planned.
    pub coverage: Option<Ratio>,
    /// What can be said.
    pub verdict: Verdict,
    /// The chance of differences this large without a cause, corrected for the number of fields.
    pub p_value: Option<Ratio>,
    /// Why nothing can be said, where nothing can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Two groups of runs side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// `metier.comparison/1`.
    pub schema: Schema<Comparison>,
    /// The first side: what it is compared with.
    pub a: Group,
    /// The second side: what changed.
    pub b: Group,
    /// Each field that at least one side has, or both lack.
    pub metrics: Vec<Metric>,
    /// What a reader should know before trusting it.
    #[serde(default)]
    pub warnings: Vec<Warning>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Versioned for Comparison {
    const SCHEMA: &'static str = "metier.comparison/1";
}

impl Comparison {
    /// The metric of a field.
    pub fn metric(&self, field: Field) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.field == field)
    }

    /// What got worse by more than `above`, of the given fields.
    ///
    /// A regression is a field whose verdict is `increase` *and* whose median rose by more than `above`. The
    /// verdict alone guards against false alarms: where nothing changed, at most one comparison in twenty fails,
    /// whatever the limit. For the size the median is the better judge than the interval's lower end: that end
    /// lies the lower the noisier the host, so a limit on it would let a real 8 % pass a 5 % gate just because the
    /// runs were few or noisy, and the gate would loosen exactly where it is needed. The price: a change
    /// that truly lies at the limit is flagged about every other time, as with any sharp limit.
    ///
    /// An increase from a median of 0 has no ratio; it is above every limit.
    pub fn regressions_in(&self, above: Ratio, fields: &[Field]) -> Vec<&Metric> {
        self.metrics
            .iter()
            .filter(|metric| fields.contains(&metric.field))
            .filter(|metric| metric.verdict == Verdict::Increase)
            .filter(|metric| metric.change_ratio.is_none_or(|change| change > above))
            .collect()
    }

    /// Why none of the given fields could be judged; `None` where one was.
    pub fn why_not_judged(&self, fields: &[Field]) -> Option<&str> {
        let is_judged = |metric: &Metric| {
            fields.contains(&metric.field)
                && !matches!(metric.verdict, Verdict::NotComparable | Verdict::TooFewRuns)
        };
        let because = || self.metrics.iter().find_map(|metric| metric.because.as_deref());
        (!self.metrics.iter().any(is_judged)).then(|| because().unwrap_or_default())
    }
}
