//! Solver for the fastest cuts and devices.
//!
//! Operators keep their order, and each device runs at most one contiguous stage. The latency is
//! the sum of all stages and of the transfers between them (`SplitObjective::Latency`). The
//! interval between two results of a full pipeline is the time of its slowest stage, transfers
//! included (`SplitObjective::Throughput`). Dynamic programming over (place, used devices, last
//! device) finds both exactly in at most `2^devices × devices² × places²` steps. This limits it to
//! [`MAX_DEVICES`] devices.

use crate::Error;

/// Largest number of devices.
pub const MAX_DEVICES: usize = 8;

/// Quantity to minimise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitObjective {
    /// The time from input to result.
    Latency,
    /// The time between two results when inputs arrive continuously.
    Throughput,
}

/// Input of the search; all times in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct SplitProblem {
    /// Time of each operator on each device: `times[device][operator]`.
    pub times: Vec<Vec<f64>>,
    /// Bytes of weights of each operator.
    pub weights: Vec<u64>,
    /// Memory for weights on each device; `None` for unlimited.
    pub memory: Vec<Option<u64>>,
    /// Bytes transferred at a cut before each operator, from the graph's inputs to its outputs (one
    /// more than operators).
    pub crossing: Vec<u64>,
    /// Bytes per second between two devices: `bandwidth[from][to]`.
    pub bandwidth: Vec<Vec<f64>>,
    /// Fixed seconds per transfer.
    pub delay: f64,
    /// Device that holds the input, if it has to be sent.
    pub input_at: Option<usize>,
    /// Device that needs the result, if it has to be sent.
    pub output_at: Option<usize>,
    /// Quantity to minimise.
    pub goal: SplitObjective,
}

/// A contiguous stage of operators on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitStage {
    /// Index of the device.
    pub device: usize,
    pub from: usize,
    /// Index after the last operator.
    pub to: usize,
}

/// Result of the search.
#[derive(Debug, Clone, PartialEq)]
pub struct SplitSolution {
    /// The stages in order.
    pub stretches: Vec<SplitStage>,
    /// Their objective value in seconds.
    pub seconds: f64,
}

impl SplitProblem {
    fn validate(&self) -> Result<(), Error> {
        let wrong = |why: String| Err(Error::OperatorMismatch { node: "split".to_string(), why });
        let (devices, operators) = (self.times.len(), self.weights.len());
        if devices == 0 || devices > MAX_DEVICES {
            return wrong(format!("{devices} devices; want 1 to {MAX_DEVICES}"));
        }
        let fits = self.times.iter().all(|times| times.len() == operators)
            && self.crossing.len() == operators + 1
            && self.memory.len() == devices
            && self.bandwidth.len() == devices
            && self.bandwidth.iter().all(|row| row.len() == devices)
            && [self.input_at, self.output_at].iter().flatten().all(|device| *device < devices);
        if !fits || operators == 0 {
            return wrong("lists of different lengths".to_string());
        }
        let is_time = |value: &f64| value.is_finite() && *value >= 0.0;
        if !self.times.iter().flatten().all(is_time) || !is_time(&self.delay) {
            return wrong("a time that is negative or not finite".to_string());
        }
        if self.bandwidth.iter().flatten().any(|speed| speed.is_nan() || *speed <= 0.0) {
            return wrong("a bandwidth that is not above 0".to_string());
        }
        Ok(())
    }

    /// Seconds to transfer the values at a cut between two devices.
    pub fn send_seconds(&self, from: usize, to: usize, place: usize) -> f64 {
        let bytes = self.crossing[place] as f64;
        if bytes == 0.0 { self.delay } else { self.delay + bytes / self.bandwidth[from][to] }
    }

    /// Seconds to transfer the input to the first device.
    fn input_seconds(&self, device: usize) -> f64 {
        self.input_at.filter(|from| *from != device).map_or(0.0, |from| self.send_seconds(from, device, 0))
    }

    /// Seconds to transfer the result from the last device.
    fn output_seconds(&self, device: usize) -> f64 {
        let place = self.weights.len();
        self.output_at.filter(|to| *to != device).map_or(0.0, |to| self.send_seconds(device, to, place))
    }

    fn combine_seconds(&self, before: f64, stage: f64) -> f64 {
        match self.goal {
            SplitObjective::Latency => before + stage,
            SplitObjective::Throughput => before.max(stage),
        }
    }

    /// Prefix sums of times and weights, so that a stage's total is a difference.
    fn prefix_sums(&self) -> (Vec<Vec<f64>>, Vec<u64>) {
        let times = self.times.iter().map(|times| {
            let mut sum = 0.0;
            std::iter::once(0.0)
                .chain(times.iter().map(|time| {
                    sum += time;
                    sum
                }))
                .collect()
        });
        let mut sum = 0u64;
        let weights = self.weights.iter().map(|weight| {
            sum = sum.saturating_add(*weight);
            sum
        });
        let weights = std::iter::once(0).chain(weights).collect();
        (times.collect(), weights)
    }

    /// Objective value of stages that cover all operators.
    pub fn total_seconds(&self, stretches: &[SplitStage]) -> f64 {
        let mut sum = stretches.first().map_or(0.0, |first| self.input_seconds(first.device));
        for (number, stretch) in stretches.iter().enumerate() {
            if let Some(before) = number.checked_sub(1).map(|before| stretches[before].device) {
                sum = self.combine_seconds(sum, self.send_seconds(before, stretch.device, stretch.from));
            }
            sum =
                self.combine_seconds(sum, self.times[stretch.device][stretch.from..stretch.to].iter().sum());
        }
        self.combine_seconds(sum, stretches.last().map_or(0.0, |last| self.output_seconds(last.device)))
    }

    /// Finds the best stages over the allowed cuts; `None` if the devices have too little memory.
    pub fn solve(&self, places: &[usize]) -> Result<Option<SplitSolution>, Error> {
        self.validate()?;
        let operators = self.weights.len();
        let (times, weights) = self.prefix_sums();
        let mut ends: Vec<usize> =
            places.iter().copied().filter(|place| (1..operators).contains(place)).collect();
        ends.push(operators);
        ends.sort_unstable();
        ends.dedup();
        let devices = self.times.len();
        let states = 1usize << devices;
        let fits = |device: usize, from: usize, to: usize| {
            self.memory[device].is_none_or(|memory| weights[to] - weights[from] <= memory)
        };
        // best[end][used][last] = (seconds, previous end, previous device)
        type PartialSolution = Option<(f64, Option<(usize, usize)>)>;
        let mut best: Vec<Vec<PartialSolution>> = vec![vec![None; states * devices]; ends.len()];
        for (at, to) in ends.iter().enumerate() {
            for device in 0..devices {
                if fits(device, 0, *to) {
                    let seconds = self.combine_seconds(self.input_seconds(device), times[device][*to]);
                    keep_faster(&mut best[at][(1 << device) * devices + device], seconds, None);
                }
            }
            for before in 0..at {
                let from = ends[before];
                for used in 1..states {
                    for last in (0..devices).filter(|last| used >> last & 1 == 1) {
                        let Some((so_far, _)) = best[before][used * devices + last] else { continue };
                        for device in (0..devices).filter(|device| used >> device & 1 == 0) {
                            if !fits(device, from, *to) {
                                continue;
                            }
                            let sent = self.combine_seconds(so_far, self.send_seconds(last, device, from));
                            let seconds =
                                self.combine_seconds(sent, times[device][*to] - times[device][from]);
                            let next = (used | 1 << device) * devices + device;
                            keep_faster(&mut best[at][next], seconds, Some((before, last)));
                        }
                    }
                }
            }
        }
        let finish = ends.len() - 1;
        let winner = (0..states * devices)
            .filter_map(|state| {
                best[finish][state].map(|(seconds, _)| {
                    (self.combine_seconds(seconds, self.output_seconds(state % devices)), state)
                })
            })
            .min_by(|a, b| a.0.total_cmp(&b.0));
        let Some((seconds, mut state)) = winner else { return Ok(None) };
        let mut stretches = Vec::new();
        let mut at = finish;
        loop {
            let device = state % devices;
            let came = best[at][state].and_then(|(_, came)| came);
            let from = came.map_or(0, |(before, _)| ends[before]);
            stretches.push(SplitStage { device, from, to: ends[at] });
            let Some((before, last)) = came else { break };
            state = ((state / devices) & !(1 << device)) * devices + last;
            at = before;
        }
        stretches.reverse();
        Ok(Some(SplitSolution { stretches, seconds }))
    }
}

fn keep_faster(
    entry: &mut Option<(f64, Option<(usize, usize)>)>,
    seconds: f64,
    came: Option<(usize, usize)>,
) {
    if entry.is_none_or(|(best, _)| seconds < best) {
        *entry = Some((seconds, came));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All cuts and assignments, exhaustively.
    fn brute(
        problem: &SplitProblem,
        from: usize,
        used: usize,
        last: Option<usize>,
        so_far: f64,
    ) -> Option<f64> {
        let operators = problem.weights.len();
        if from == operators {
            return Some(
                problem.combine_seconds(so_far, last.map_or(0.0, |last| problem.output_seconds(last))),
            );
        }
        let mut best: Option<f64> = None;
        for to in from + 1..=operators {
            for device in (0..problem.times.len()).filter(|device| used >> device & 1 == 0) {
                let weight: u64 = problem.weights[from..to].iter().sum();
                if problem.memory[device].is_some_and(|memory| weight > memory) {
                    continue;
                }
                let sent = match last {
                    Some(last) => problem.combine_seconds(so_far, problem.send_seconds(last, device, from)),
                    None => problem.input_seconds(device),
                };
                let stage: f64 = problem.times[device][from..to].iter().sum();
                let next = brute(
                    problem,
                    to,
                    used | 1 << device,
                    Some(device),
                    problem.combine_seconds(sent, stage),
                );
                best = match (best, next) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            }
        }
        best
    }

    fn problems() -> impl Strategy<Value = SplitProblem> {
        (1usize..4, 1usize..6).prop_flat_map(|(devices, operators)| {
            (
                prop::collection::vec(prop::collection::vec(0.0..10.0f64, operators), devices),
                prop::collection::vec(0u64..5, operators),
                prop::collection::vec(prop::option::of(0u64..12), devices),
                prop::collection::vec(0u64..20, operators + 1),
                prop::collection::vec(prop::collection::vec(0.5..10.0f64, devices), devices),
                (prop::option::of(0..devices), prop::option::of(0..devices), any::<bool>()),
            )
                .prop_map(|(times, weights, memory, crossing, bandwidth, ends)| SplitProblem {
                    times,
                    weights,
                    memory,
                    crossing,
                    bandwidth,
                    delay: 0.1,
                    input_at: ends.0,
                    output_at: ends.1,
                    goal: if ends.2 { SplitObjective::Latency } else { SplitObjective::Throughput },
                })
        })
    }

    proptest! {
        #[test]
        fn the_search_finds_what_trying_everything_finds(problem in problems()) {
            let places: Vec<usize> = (1..problem.weights.len()).collect();
            let found = problem.solve(&places).unwrap();
            let brute = brute(&problem, 0, 0, None, 0.0);
            prop_assert_eq!(found.is_some(), brute.is_some());
            if let (Some(found), Some(brute)) = (found, brute) {
                prop_assert!((found.seconds - brute).abs() < 1e-9, "{} against {}", found.seconds, brute);
                // The returned stages cover all operators once, on different devices.
                let mut at = 0;
                for stretch in &found.stretches {
                    prop_assert_eq!(stretch.from, at);
                    at = stretch.to;
                }
                prop_assert_eq!(at, problem.weights.len());
                let used: std::collections::BTreeSet<usize> =
                    found.stretches.iter().map(|stretch| stretch.device).collect();
                prop_assert_eq!(used.len(), found.stretches.len());
                // Their time is the returned one.
                prop_assert!((problem.total_seconds(&found.stretches) - brute).abs() < 1e-9);
            }
        }
    }
}
