//! Times of parts and of sendings put together.

use metier_onnx::split::solver::SplitObjective;
use metier_types::{Prediction, Seconds};
use schemars::JsonSchema;
use serde::Serialize;

/// A time of several predictions, with the ends that come of theirs: at least as wide as they would be if all erred the same way.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
pub struct SplitTotal {
    /// What is expected.
    pub seconds: Seconds,
    /// With all at their lower end.
    pub low: Seconds,
    /// With all at their upper end.
    pub high: Seconds,
}

fn join(goal: SplitObjective, to: &mut Seconds, more: f64) {
    *to = Seconds(match goal {
        SplitObjective::Latency => to.get() + more,
        SplitObjective::Throughput => to.get().max(more),
    });
}

impl SplitTotal {
    /// With a prediction; nothing takes no time.
    pub(super) fn add_prediction(&mut self, goal: SplitObjective, prediction: Option<&Prediction>) {
        let Some(one) = prediction else { return };
        let interval = one.interval();
        join(goal, &mut self.seconds, one.value());
        join(goal, &mut self.low, interval.low());
        join(goal, &mut self.high, interval.high());
    }

    /// With a time that is computed.
    pub(super) fn add_exact(&mut self, goal: SplitObjective, seconds: Seconds) {
        [&mut self.seconds, &mut self.low, &mut self.high]
            .into_iter()
            .for_each(|one| join(goal, one, seconds.get()));
    }

    /// With what one device does.
    pub(super) fn stage(&mut self, goal: SplitObjective, stage: &Self) {
        join(goal, &mut self.seconds, stage.seconds.get());
        join(goal, &mut self.low, stage.low.get());
        join(goal, &mut self.high, stage.high.get());
    }
}
