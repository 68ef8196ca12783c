//! The metric of a history: a field of the summary, or a statistic of an application's stage.

use std::fmt;
use std::str::FromStr;

use metier_types::{ColumnUnit, Run, StageKind, words};

use crate::{Error, SummaryField};

words! { (word, from_word)
    /// A statistic of a stage.
    #[non_exhaustive]
    pub enum StageStatistic {
        P50 = "p50",
        /// 95 of 100 are at most this.
        P95 = "p95",
        /// 99 of 100 are at most this.
        P99 = "p99",
        Mean = "mean",
        Min = "min",
        Max = "max",
        Rate = "rate",
        Count = "count",
    }
}

/// A metric of a run, written `wall`, `cpu`, … or `stage:NAME:p95`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrendMetric {
    /// A field of the summary.
    Field(SummaryField),
    /// A statistic of a stage.
    Stage {
        /// Name of the stage, given by the application.
        name: String,
        statistic: StageStatistic,
    },
}

impl TrendMetric {
    /// Unit of the metric; stage values are treated as seconds, which is right for stages of kind
    /// `duration`.
    pub fn unit(&self) -> ColumnUnit {
        match self {
            Self::Field(field) => field.unit(),
            Self::Stage { statistic: StageStatistic::Count, .. } => ColumnUnit::Count,
            Self::Stage { statistic: StageStatistic::Rate, .. } => ColumnUnit::Hertz,
            Self::Stage { .. } => ColumnUnit::Seconds,
        }
    }

    /// Whether smaller values are better.
    pub fn is_cost(&self) -> bool {
        !matches!(self, Self::Stage { statistic: StageStatistic::Rate | StageStatistic::Count, .. })
    }

    /// Dotted path in a run, if it has one.
    pub(crate) fn record_path(&self) -> Option<String> {
        match self {
            Self::Field(field) => Some(field.record_path()),
            Self::Stage { .. } => None,
        }
    }

    /// Value in a run; `None` if it was not measured.
    pub fn value_of(&self, run: &Run) -> Result<Option<f64>, Error> {
        match self {
            Self::Field(field) => field.value_of(run),
            Self::Stage { name, statistic } => {
                let durations = |stage: &&metier_types::AppStage| stage.kind == StageKind::Duration;
                let named = || run.stages.iter().filter(|stage| stage.name == *name);
                // A stage may exist as durations and as a rate; the percentiles refer to the
                // durations.
                let stage = named().find(durations).or_else(|| named().next());
                let value = stage.and_then(|stage| match statistic {
                    StageStatistic::Count => Some(stage.count as f64),
                    StageStatistic::Rate => stage.rate_per_second,
                    StageStatistic::Mean => stage.mean,
                    StageStatistic::Min => stage.min,
                    StageStatistic::P50 => stage.p50,
                    StageStatistic::P95 => stage.p95,
                    StageStatistic::P99 => stage.p99,
                    StageStatistic::Max => stage.max,
                });
                // Applications may send any number; values that cannot be compared count as absent.
                Ok(value.filter(|x| x.abs() < 1e100))
            }
        }
    }
}

impl fmt::Display for TrendMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(field) => f.pad(field.short_name()),
            Self::Stage { name, statistic } => write!(f, "stage:{name}:{statistic}"),
        }
    }
}

impl FromStr for TrendMetric {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let Some(rest) = text.strip_prefix("stage:") else {
            return text.parse().map(Self::Field).map_err(|error| match error {
                Error::WrongField { got, want } => {
                    Error::WrongField { got, want: format!("{want}, stage:NAME:p95") }
                }
                other => other,
            });
        };
        let wrong = || Error::WrongField {
            got: text.chars().take(80).collect(),
            want: format!("stage:NAME:STATISTIC with a statistic of {}", StageStatistic::WORDS.join(", ")),
        };
        let (name, word) = rest.rsplit_once(':').ok_or_else(wrong)?;
        let statistic = StageStatistic::from_word(word).ok_or_else(wrong)?;
        if name.is_empty() {
            return Err(wrong());
        }
        Ok(Self::Stage { name: name.to_string(), statistic })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_back_as_they_are_written_and_wrong_ones_say_what_is_right() {
        for text in ["wall", "cpu", "memory", "energy", "stage:infer:p95", "stage:a:b:rate"] {
            assert_eq!(text.parse::<TrendMetric>().map(|figure| figure.to_string()), Ok(text.to_string()));
        }
        for text in ["", "time", "stage:", "stage:infer", "stage:infer:p80", "stage::p95"] {
            let error = text.parse::<TrendMetric>().unwrap_err().to_string();
            assert!(error.contains("p95"), "{error}");
        }
    }
}
