//! Sums of part times and transfer times.

use metier_onnx::split::solver::SplitObjective;
use metier_types::{Prediction, Seconds};
use schemars::JsonSchema;
use serde::Serialize;

/// Total of several predictions. Its ends are the sums of theirs, which is the widest case: all
/// errors have the same sign.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
pub struct SplitTotal {
    /// Expected time.
    pub seconds: Seconds,
    /// Total of the lower ends.
    pub low: Seconds,
    /// Total of the upper ends.
    pub high: Seconds,
}

fn join(goal: SplitObjective, to: &mut Seconds, more: f64) {
    *to = Seconds(match goal {
        SplitObjective::Latency => to.get() + more,
        SplitObjective::Throughput => to.get().max(more),
    });
}

impl SplitTotal {
    /// Adds a prediction; `None` takes no time.
    pub(super) fn add_prediction(&mut self, goal: SplitObjective, prediction: Option<&Prediction>) {
        let Some(prediction) = prediction else { return };
        let interval = prediction.interval();
        join(goal, &mut self.seconds, prediction.value());
        join(goal, &mut self.low, interval.low());
        join(goal, &mut self.high, interval.high());
    }

    /// Adds an exact time.
    pub(super) fn add_exact(&mut self, goal: SplitObjective, seconds: Seconds) {
        [&mut self.seconds, &mut self.low, &mut self.high]
            .into_iter()
            .for_each(|total| join(goal, total, seconds.get()));
    }

    /// Adds the stage of one device.
    pub(super) fn stage(&mut self, goal: SplitObjective, stage: &Self) {
        join(goal, &mut self.seconds, stage.seconds.get());
        join(goal, &mut self.low, stage.low.get());
        join(goal, &mut self.high, stage.high.get());
    }
}
