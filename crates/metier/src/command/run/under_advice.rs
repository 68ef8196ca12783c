//! `metier run --under-advice`: runs again under the limits that were advised for earlier runs, and
//! compares what it cost.

use metier_session::runfile::{GivenFlag, run_flags};
use metier_stats::{AdviceFirmness, ResourceAdvice, SummaryField, batch_spread, size_resources};
use metier_types::{Ratio, Run, Seconds};

use crate::command::CommandContext;
use crate::command::report::SubjectLoader;
use crate::exit::usage_error;

/// Flags that set what is advised, with the key of the advice.
const ADVISED_FLAGS: [(&str, &str); 2] = [("limit-memory", "limit.memory"), ("limit-cpu", "limit.cpu")];

/// Earlier runs, and the advice from them.
pub struct AdvisedRuns {
    label: String,
    advice: ResourceAdvice,
    earlier: Vec<Run>,
}

impl AdvisedRuns {
    /// The runs that `text` names, as `metier report` finds them.
    pub fn load(context: &CommandContext, text: &str) -> anyhow::Result<Self> {
        let subjects = SubjectLoader::new(context).load_subjects(&[text.to_string()])?;
        let Some(subject) = subjects.into_iter().next() else {
            return Err(usage_error(format!("--under-advice is {text:?}; want a run or a batch")));
        };
        let advice = size_resources(&subject.use_histories());
        if advice.firmness == AdviceFirmness::Refused || advice.quotas.is_empty() {
            let why = [std::slice::from_ref(&advice.basis), &advice.notes].concat().join(" ");
            return Err(usage_error(format!(
                "--under-advice is {text:?}, for which nothing can be advised: {why}"
            )));
        }
        let earlier = subject.runs.into_iter().map(|measured| measured.run).collect();
        Ok(Self { label: subject.label, advice, earlier })
    }

    /// The advised limits as flags. A request needs none: it reserves, and limits nothing.
    pub fn limit_flags(&self) -> Vec<GivenFlag> {
        let advised = ADVISED_FLAGS.iter().filter_map(|(name, key)| {
            let flag = run_flags().find(|flag| flag.name == *name)?;
            let quota = self.advice.quotas.iter().find(|quota| quota.key == *key)?;
            Some(GivenFlag { flag, values: vec![quota.value.clone()] })
        });
        advised.collect()
    }

    /// The first given flag that the advice sets.
    pub fn contradicted_flag(is_given: impl Fn(&str) -> bool) -> Option<&'static str> {
        ADVISED_FLAGS.iter().map(|(name, _)| *name).find(|name| is_given(name))
    }

    /// What the advice cost: wall time against the earlier runs, throttled periods and kills.
    pub fn cost_text(&self, runs: &[Run]) -> anyhow::Result<String> {
        let quotas = self.advice.quotas.iter().map(|quota| format!("{} {}", quota.key, quota.value));
        let mut quotas: Vec<String> = quotas.collect();
        if !self.advice.quotas.iter().any(|quota| quota.key == "limit.cpu") {
            quotas.push("no CPU limit".to_string());
        }
        let wall = |runs: &[Run]| -> anyhow::Result<Option<f64>> {
            let spread = batch_spread(runs)?;
            let wall = spread.fields.iter().find(|field| field.field == SummaryField::WallSeconds);
            Ok(wall.map(|wall| wall.spread.median))
        };
        let mut costs = Vec::new();
        costs.push(match (wall(runs)?, wall(&self.earlier)?) {
            (Some(now), Some(before)) if before > 0.0 => {
                let change = Ratio((now - before) / before);
                let sign = if now >= before { "+" } else { "" };
                format!("wall time {} against {} ({sign}{change})", Seconds(now), Seconds(before))
            }
            _ => "no wall time of a successful run to compare".to_string(),
        });
        let throttled: Option<u64> = runs.iter().map(|run| run.cpu.throttled_periods).sum();
        costs.push(match throttled {
            Some(periods) => format!("{periods} throttled periods"),
            None => "throttled periods unknown".to_string(),
        });
        let kills: Option<u64> = runs.iter().map(|run| run.memory.oom_kills).sum();
        costs.push(match kills {
            Some(0) => "no process killed for want of memory".to_string(),
            Some(kills) => format!("{kills} processes killed for want of memory: the limit is too low"),
            None => "kills for want of memory unknown".to_string(),
        });
        Ok(format!("under the advice of {} ({}): {}", self.label, quotas.join(", "), costs.join(", ")))
    }
}
