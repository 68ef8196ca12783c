//! Times of parts and of sendings put together.

use metier_onnx::split::best::Goal;
use metier_types::{Prediction, Seconds};
use schemars::JsonSchema;
use serde::Serialize;

/// A time of several predictions, with the ends that come of theirs: at least as wide as they would be if all erred the same way.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
pub struct Total {
    /// What is expected.
    pub seconds: Seconds,
    /// With all at their lower end.
    pub low: Seconds,
    /// With all at their upper end.
    pub high: Seconds,
}

fn join(goal: Goal, to: &mut Seconds, more: f64) {
    *to = Seconds(match goal {
        Goal::Latency => to.get() + more,
        Goal::Throughput => to.get().max(more),
    });
}

impl Total {
    /// With a prediction; nothing takes no time.
    pub(super) fn predicted(&mut self, goal: Goal, prediction: Option<&Prediction>) {
        let Some(one) = prediction else { return };
        let interval = one.interval();
        join(goal, &mut self.seconds, one.value());
        join(goal, &mut self.low, interval.low());
        join(goal, &mut self.high, interval.high());
    }

    /// With a time that is computed.
    pub(super) fn exactly(&mut self, goal: Goal, seconds: Seconds) {
        [&mut self.seconds, &mut self.low, &mut self.high]
            .into_iter()
            .for_each(|one| join(goal, one, seconds.get()));
    }

    /// With what one device does.
    pub(super) fn stage(&mut self, goal: Goal, stage: &Self) {
        join(goal, &mut self.seconds, stage.seconds.get());
        join(goal, &mut self.low, stage.low.get());
        join(goal, &mut self.high, stage.high.get());
    }
}
