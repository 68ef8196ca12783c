//! Splits a graph over several devices: predicts every part on every device and the transfers, and
//! finds the cuts and devices with the least time.
//!
//! The search (`metier_onnx::split::best`) is exact for the times of single operators. Automatic
//! cuts never separate operators that the runtime fuses. The reported time of a part is a new
//! prediction for that part alone, so it has the predictor's interval. If the whole graph on one
//! device is predicted to be faster than the search's result, that is the answer.

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

/// Largest number of search steps: a few seconds.
const MAX_SEARCH_STEPS: f64 = 2e9;

#[derive(Debug)]
pub struct SplitQuestion<'a> {
    pub chain: &'a OperatorChain<'a>,
    /// Analysis of the graph.
    pub graph: &'a GraphAnalysis,
    /// Devices; a passport given twice stands for two devices.
    pub devices: &'a [Passport],
    /// Conditions on each device.
    pub conditions: &'a InferenceConditions,
    /// Bandwidth between devices in bytes per second.
    pub bandwidth: &'a [Vec<f64>],
    /// Latency of each transfer.
    pub delay: Seconds,
    /// Device that holds the input.
    pub input_at: Option<usize>,
    /// Device that needs the result.
    pub output_at: Option<usize>,
    /// Objective to minimise.
    pub goal: SplitObjective,
    /// Fixed cuts; `None` for a free choice.
    pub cuts: Option<&'a [usize]>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StagePlan {
    /// The parts in order.
    pub stages: Vec<PlannedStage>,
    /// Transfer of the input to the first device, if needed.
    pub arrives: Option<StageTransfer>,
    /// Total time according to the objective.
    pub total: SplitTotal,
    /// The whole graph on each device; `None` if its weights do not fit.
    pub alone: Vec<Option<SplitTotal>>,
    /// Notes on assumptions and omissions.
    pub notes: Vec<String>,
}

/// A part with its device.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedStage {
    pub part: GraphPart,
    /// Index of its device.
    pub device: usize,
    /// Predictions for each device; `None` if nothing in the part takes time.
    pub predictions: Vec<Option<Prediction>>,
    /// Transfer to the next device, if that is another one.
    pub sends: Option<StageTransfer>,
}

/// A transfer between devices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StageTransfer {
    /// Index of the receiving device.
    pub to: usize,
    /// Transferred bytes.
    pub bytes: Bytes,
    /// Seconds of the transfer.
    pub seconds: Seconds,
}

/// Reason why there is no split.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SplittingError {
    /// An input or output must be transferred, but its size is unknown.
    #[error(
        "the size of the graph's {what} is not known, so sending it cannot be timed; give the shapes of all inputs"
    )]
    End { what: &'static str },
    /// Data over a fixed cut has an unknown size.
    #[error(
        "the size of what flows after operator {place} is not known; give the shapes of all inputs, or cut elsewhere"
    )]
    Cut {
        /// Number of operators before the cut.
        place: usize,
    },
    /// The weights fit in no combination of devices.
    #[error("the weights ({weights}) do not fit into the memory of these devices with any split")]
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

    /// The search problem, and the allowed cuts.
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
                notes.push(format!("{open} cuts are left out: the size of the data there is not known"));
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

    /// Reduces the cuts to those with the least data flow, as many as can be searched in a few
    /// seconds.
    fn thin_cuts(&self, places: &mut Vec<usize>, crossing: &[u64], notes: &mut Vec<String>) {
        let devices = self.devices.len() as f64;
        let most = (MAX_SEARCH_STEPS * 8.0 / (devices.exp2() * devices * devices)).sqrt() as usize;
        if places.len() > most {
            notes.push(format!("of {} cuts the {most} with the least data were searched", places.len()));
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
        let whole_graph_time = |(device, passport): (usize, &Passport)| {
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
        self.devices.iter().enumerate().map(whole_graph_time).collect()
    }

    /// The parts between chosen and fixed cuts, and their total time.
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
        // Consecutive parts on one device form one pipeline stage.
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
