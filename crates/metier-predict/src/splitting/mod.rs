//! Which part of a graph goes to which device: the time of every part on every device, what sending takes, and the cuts and devices with
//! the least time.
//!
//! The search (`metier_onnx::split::best`) is exact for the times of single operators. A cut never parts operators that the runtime does in one go
//! where the choice is ours. What is told of a part is asked of the predictor for that part alone, so its interval is one of the predictor's; and where one device with the
//! whole graph is told to be faster than the search's answer, it is the answer.

mod cuts;
mod report;
mod total;

use metier_onnx::GraphAnalysis;
use metier_onnx::split::solver::{SplitObjective, SplitProblem, SplitStage};
use metier_onnx::split::{GraphPart, OperatorChain};
use metier_types::{Bytes, Passport, Prediction, Seconds};

use crate::latency::{self, InferenceConditions, LatencyPredictor};
pub use cuts::{even_cuts, least_work, multiply_adds};
pub use report::{SplitAnswer, SplitPart, SplitPlan, SplitReport};
pub use total::SplitTotal;

/// Steps that a search may take: a few seconds.
const MAX_SEARCH_STEPS: f64 = 2e9;

#[derive(Debug)]
pub struct SplitQuestion<'a> {
    pub chain: &'a OperatorChain<'a>,
    /// What is known of it.
    pub graph: &'a GraphAnalysis,
    /// Devices; the same passport twice stands for two such devices.
    pub devices: &'a [Passport],
    /// How it runs, on each of them.
    pub conditions: &'a InferenceConditions,
    /// Bytes a second from one device to another.
    pub bandwidth: &'a [Vec<f64>],
    /// What each sending takes beside.
    pub delay: Seconds,
    /// The device that has the input.
    pub input_at: Option<usize>,
    /// The device that wants the result.
    pub output_at: Option<usize>,
    /// What is to be small.
    pub goal: SplitObjective,
    /// Where to cut; anywhere, if that is left to us.
    pub cuts: Option<&'a [usize]>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StagePlan {
    /// The parts, in their order.
    pub stages: Vec<PlannedStage>,
    /// The input's way to the first device, where it has one.
    pub arrives: Option<StageTransfer>,
    /// The time of all, as the goal counts it.
    pub total: SplitTotal,
    /// The whole graph on each device; `None` where its weights have no room.
    pub alone: Vec<Option<SplitTotal>>,
    /// What had to be assumed or left out.
    pub notes: Vec<String>,
}

/// One part and its device.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedStage {
    pub part: GraphPart,
    /// Number of its device.
    pub device: usize,
    /// Seconds on each device; `None` where there is nothing to do that takes time.
    pub predictions: Vec<Option<Prediction>>,
    /// What it sends on, where that goes to another device.
    pub sends: Option<StageTransfer>,
}

/// Something that goes from one device to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StageTransfer {
    /// Number of the device that it goes to.
    pub to: usize,
    /// How much it is.
    pub bytes: Bytes,
    /// How long that takes.
    pub seconds: Seconds,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SplittingError {
    /// What flows at one end has no known size, and it has to be sent.
    #[error(
        "the size of the graph's {what} is not known, so sending it cannot be timed; give the shapes of all inputs"
    )]
    End { what: &'static str },
    /// What flows over a cut that was asked for has no known size.
    #[error(
        "the size of what flows after operator {place} is not known; give the shapes of all inputs, or cut elsewhere"
    )]
    Cut {
        /// Operators before the cut.
        place: usize,
    },
    /// No way to have all weights in memory.
    #[error("the weights ({weights}) have no room in the memory of these devices, however they are cut")]
    Memory { weights: Bytes },
    #[error(transparent)]
    Latency(#[from] latency::LatencyError),
    #[error(transparent)]
    Graph(#[from] metier_onnx::Error),
}

impl SplitQuestion<'_> {
    pub fn answer(&self, latency: &LatencyPredictor) -> Result<StagePlan, SplittingError> {
        let costs = self.chain.cost_ranges(self.graph);
        let mut notes = Vec::new();
        let (problem, places) = self.problem(latency, &costs, &mut notes)?;
        let weights = self.graph.weight_bytes;
        let found = problem.solve(&places)?.ok_or(SplittingError::Memory { weights })?;
        let alone = self.whole_graph_times(latency, &problem)?;
        let searched = self.plan(latency, &costs, &problem, &found.stretches)?;
        let single = alone.iter().enumerate().filter_map(|(device, total)| Some((device, (*total)?)));
        let single = single.min_by(|a, b| a.1.seconds.get().total_cmp(&b.1.seconds.get()));
        let (stages, arrives, total) = match single {
            Some((device, total)) if total.seconds.get() <= searched.2.seconds.get() => {
                let whole = SplitStage { device, from: 0, to: self.chain.len() };
                let (stages, arrives, _) = self.plan(latency, &costs, &problem, &[whole])?;
                (stages, arrives, total)
            }
            _ => searched,
        };
        Ok(StagePlan { stages, arrives, total, alone, notes })
    }

    /// What is searched, and the places at which a cut is allowed.
    fn problem(
        &self,
        latency: &LatencyPredictor,
        costs: &[std::ops::Range<usize>],
        notes: &mut Vec<String>,
    ) -> Result<(SplitProblem, Vec<usize>), SplittingError> {
        let count = self.chain.len();
        let step_of = |operator: usize| costs.partition_point(|range| range.end <= operator);
        let mut times = Vec::with_capacity(self.devices.len());
        let mut is_whole = vec![true; count + 1];
        for passport in self.devices {
            let each = latency.operators(self.graph, passport, self.conditions)?;
            let sum = |range: &std::ops::Range<usize>| {
                each.get(range.clone()).unwrap_or_default().iter().map(|time| time.seconds.get()).sum()
            };
            times.push(costs.iter().map(sum).collect());
            for time in &each {
                if let Some(host) = time.within {
                    let (a, b) = (step_of(time.operator), step_of(host));
                    (a.min(b) + 1..=a.max(b)).for_each(|place| is_whole[place.min(count)] = false);
                }
            }
        }
        let crossings = self.chain.crossings();
        let mut crossing = vec![0; count + 1];
        let mut places: Vec<usize> = Vec::new();
        for cut_crossing in &crossings {
            if let Some(bytes) = cut_crossing.bytes {
                crossing[cut_crossing.place] = bytes;
                places.push(cut_crossing.place);
            }
        }
        if let Some(cuts) = self.cuts {
            if let Some(place) = cuts.iter().find(|cut| !places.contains(cut)) {
                return Err(SplittingError::Cut { place: *place });
            }
            places = cuts.to_vec();
        } else {
            let open = crossings.len() - places.len();
            if open > 0 {
                notes.push(format!("{open} places are left out: the size of what flows there is not known"));
            }
            places.retain(|place| is_whole[*place]);
            self.thin_cuts(&mut places, &crossing, notes);
        }
        for (at, (bytes, what)) in self.chain.edge_bytes().into_iter().zip(["input", "result"]).enumerate() {
            let is_sent = [self.input_at, self.output_at][at].is_some() && self.devices.len() > 1;
            match bytes {
                Some(bytes) => crossing[at * count] = bytes,
                None if is_sent => return Err(SplittingError::End { what }),
                None => {}
            }
        }
        let weight = |range: &std::ops::Range<usize>| {
            let own = self.graph.operators.get(range.clone()).unwrap_or_default();
            own.iter().filter_map(|cost| Some(cost.weight_bytes?.get())).fold(0, u64::saturating_add)
        };
        let problem = SplitProblem {
            times,
            weights: costs.iter().map(weight).collect(),
            memory: self
                .devices
                .iter()
                .map(|passport| passport.device.memory_bytes.map(Bytes::get))
                .collect(),
            crossing,
            bandwidth: self.bandwidth.to_vec(),
            delay: self.delay.get(),
            input_at: self.input_at,
            output_at: self.output_at,
            goal: self.goal,
        };
        Ok((problem, places))
    }

    /// Leaves the places over which least flows, as many as can be searched in a few seconds.
    fn thin_cuts(&self, places: &mut Vec<usize>, crossing: &[u64], notes: &mut Vec<String>) {
        let devices = self.devices.len() as f64;
        let most = (MAX_SEARCH_STEPS * 8.0 / (devices.exp2() * devices * devices)).sqrt() as usize;
        if places.len() > most {
            notes.push(format!("of {} places the {most} over which least flows were searched", places.len()));
            places.sort_by_key(|place| (crossing[*place], *place));
            places.truncate(most);
            places.sort_unstable();
        }
    }

    fn sending(&self, problem: &SplitProblem, from: usize, to: usize, place: usize) -> Option<StageTransfer> {
        let seconds = Seconds(problem.send_seconds(from, to, place));
        (from != to).then_some(StageTransfer { to, bytes: Bytes(problem.crossing[place]), seconds })
    }

    /// The whole graph on each device.
    fn whole_graph_times(
        &self,
        latency: &LatencyPredictor,
        problem: &SplitProblem,
    ) -> Result<Vec<Option<SplitTotal>>, SplittingError> {
        let end = self.chain.len();
        let one = |(device, passport): (usize, &Passport)| {
            let weights = problem.weights.iter().fold(0u64, |sum, number| sum.saturating_add(*number));
            if problem.memory[device].is_some_and(|memory| weights > memory) {
                return Ok(None);
            }
            let prediction = latency.graph(self.graph, passport, self.conditions)?;
            let arrives = self.input_at.and_then(|from| self.sending(problem, from, device, 0));
            let leaves = self.output_at.and_then(|to| self.sending(problem, device, to, end));
            let mut total = SplitTotal::default();
            total.add_prediction(self.goal, Some(&prediction));
            [arrives, leaves].iter().flatten().for_each(|sent| total.add_exact(self.goal, sent.seconds));
            Ok(Some(total))
        };
        self.devices.iter().enumerate().map(one).collect()
    }

    /// The parts of stretches, cut where that was asked for too, and their time.
    #[allow(clippy::type_complexity, reason = "it is taken apart at once")]
    fn plan(
        &self,
        latency: &LatencyPredictor,
        costs: &[std::ops::Range<usize>],
        problem: &SplitProblem,
        stretches: &[SplitStage],
    ) -> Result<(Vec<PlannedStage>, Option<StageTransfer>, SplitTotal), SplittingError> {
        let between: Vec<usize> = stretches.iter().skip(1).map(|stretch| stretch.from).collect();
        let parts = self.chain.write_parts(self.cuts.unwrap_or(&between))?;
        let device_of = |part: &GraphPart| {
            let own = stretches.iter().find(|stretch| (stretch.from..stretch.to).contains(&part.range.start));
            own.map_or(0, |stretch| stretch.device)
        };
        let devices: Vec<usize> = parts.iter().map(device_of).collect();
        let mut total = SplitTotal::default();
        let arrives = self.input_at.and_then(|from| self.sending(problem, from, devices[0], 0));
        arrives.iter().for_each(|sent| total.add_exact(self.goal, sent.seconds));
        let mut stages = Vec::with_capacity(parts.len());
        // Parts that stay on one device are one stage of a pipeline.
        let mut stage = SplitTotal::default();
        for (number, part) in parts.into_iter().enumerate() {
            let device = devices[number];
            let graph = self.chain.part_analysis(self.graph, costs, &part);
            let predictions =
                self.devices.iter().map(|passport| match latency.graph(&graph, passport, self.conditions) {
                    Err(latency::LatencyError::Empty) => Ok(None),
                    other => other.map(Some),
                });
            let predictions = predictions.collect::<Result<Vec<_>, _>>()?;
            let next = devices.get(number + 1).copied().or(self.output_at);
            let sends = next.and_then(|to| self.sending(problem, device, to, part.range.end));
            stage.add_prediction(SplitObjective::Latency, predictions[device].as_ref());
            if devices.get(number + 1) != Some(&device) {
                total.stage(self.goal, &std::mem::take(&mut stage));
            }
            sends.iter().for_each(|sent| total.add_exact(self.goal, sent.seconds));
            stages.push(PlannedStage { part, device, predictions, sends });
        }
        Ok((stages, arrives, total))
    }
}
