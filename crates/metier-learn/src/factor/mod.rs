//! How long workloads take on platforms, where neither needs to be a graph: learned from runs of some on some.
//!
//! `log time = level + workload + platform + Σ workload factor · platform factor`, fitted to the runs there are ([`als`]). What is known of a
//! workload (its opcode counts, say) and of a platform (its passport) predicts their factors ([`side`]), so that one that has never run has an
//! answer; each measured run then corrects it, as far as the spread of such guesses says ([`guess`]). Intervals come from
//! workloads that were held out whole ([`calibrated`]), for each number of measured runs on its own.

mod als;
mod calibrated;
mod guess;
mod side;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use calibrated::{Calibrated, Interval};
pub use guess::Guess;
pub use side::Side;

use crate::algebra::{Matrix, dot};
use crate::{Error, random};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    pub workload: usize,
    pub platform: usize,
    /// The natural logarithm of its seconds.
    pub log_seconds: f64,
}

/// Runs, and what is known of who ran where.
#[derive(Debug, Clone, PartialEq)]
pub struct Runs {
    /// Features of the workloads, a row each.
    pub workloads: Matrix,
    /// Features of the platforms, a row each.
    pub platforms: Matrix,
    /// The program that each workload belongs to: alike ones are held out together.
    pub groups: Vec<u64>,
    pub runs: Vec<Run>,
}

impl Runs {
    fn check(&self) -> Result<(), Error> {
        let wrong = |why: String| Err(Error::Table { why });
        let (workloads, platforms) = (self.workloads.rows(), self.platforms.rows());
        if self.groups.len() != workloads {
            return wrong(format!("{} groups for {workloads} workloads", self.groups.len()));
        }
        for run in &self.runs {
            if run.workload >= workloads || run.platform >= platforms || !run.log_seconds.is_finite() {
                return wrong(format!("{run:?} among {workloads} workloads and {platforms} platforms"));
            }
        }
        for (what, got) in [("workloads", workloads), ("platforms", platforms), ("runs", self.runs.len())] {
            if got < 3 {
                return Err(Error::TooLittle {
                    what,
                    got,
                    want: 3,
                    purpose: "tell workloads from platforms",
                });
            }
        }
        Ok(())
    }

    /// Only the runs of these workloads, which are numbered anew.
    pub fn only_workloads(&self, keep: &[usize]) -> Self {
        let mut place = vec![None; self.workloads.rows()];
        keep.iter().enumerate().for_each(|(new, old)| place[*old] = Some(new));
        let moved = |run: &Run| place[run.workload].map(|workload| Run { workload, ..*run });
        Self {
            workloads: self.workloads.select(keep),
            platforms: self.platforms.clone(),
            groups: keep.iter().map(|old| self.groups[*old]).collect(),
            runs: self.runs.iter().filter_map(moved).collect(),
        }
    }

    /// Only the runs on these platforms, which are numbered anew.
    pub fn only_platforms(&self, keep: &[usize]) -> Self {
        let mut place = vec![None; self.platforms.rows()];
        keep.iter().enumerate().for_each(|(new, old)| place[*old] = Some(new));
        let moved = |run: &Run| place[run.platform].map(|platform| Run { platform, ..*run });
        Self {
            workloads: self.workloads.clone(),
            platforms: self.platforms.select(keep),
            groups: self.groups.clone(),
            runs: self.runs.iter().filter_map(moved).collect(),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// How many factors interact, beside the effects.
    pub rank: usize,
    /// How much factors are drawn towards 0.
    pub ridge: f64,
    /// How often all factors are solved anew.
    pub rounds: usize,
    /// Seed of the first factors.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { rank: 16, ridge: 0.5, rounds: 40, seed: 1 }
    }
}

impl Settings {
    /// The rank and ridge that say best what a tenth of the runs took, held out by hash.
    pub fn tuned(runs: &Runs, seed: u64) -> Result<Self, Error> {
        let is_held = |run: &Run| {
            let pair = random::mix(((run.workload as u64) << 32) | run.platform as u64);
            crate::validate::is_held_out(pair, 0.1, seed)
        };
        let (held, train): (Vec<Run>, Vec<Run>) = runs.runs.iter().copied().partition(is_held);
        let rest = Runs { runs: train, ..runs.clone() };
        rest.check()?;
        let mut best: Option<(f64, Self)> = None;
        for rank in [4, 8, 16] {
            for ridge in [0.1, 0.3, 1.0, 3.0] {
                let settings = Self { rank, ridge, seed, ..Self::default() };
                let solved = als::solve(&rest, &settings)?;
                let missed = |run: &Run| {
                    let said = join(
                        solved.level,
                        solved.workloads.row(run.workload),
                        solved.platforms.row(run.platform),
                    );
                    (said - run.log_seconds).abs()
                };
                let loss: f64 = held.iter().map(missed).sum();
                if best.as_ref().is_none_or(|best| loss < best.0) {
                    best = Some((loss, settings));
                }
            }
        }
        Ok(best.map_or_else(Self::default, |best| best.1))
    }
}

/// The fitted sum. A workload's or platform's numbers are its effect, then its factors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Factored {
    /// Mean of all logarithms.
    pub level: f64,
    /// Variance of what the sum leaves over.
    pub noise: f64,
    /// Effect and factors of each workload.
    pub workloads: Matrix,
    /// Effect and factors of each platform.
    pub platforms: Matrix,
    /// From what is known of a workload to its numbers.
    pub of_workload: Side,
    /// From what is known of a platform to its numbers.
    pub of_platform: Side,
}

impl Factored {
    pub fn fit(runs: &Runs, settings: &Settings) -> Result<Self, Error> {
        runs.check()?;
        if !(settings.ridge > 0.0 && settings.ridge.is_finite()) {
            let got = settings.ridge.to_string();
            return Err(Error::Setting { field: "ridge", got, want: "above 0" });
        }
        if settings.rank > 64 {
            let got = settings.rank.to_string();
            return Err(Error::Setting { field: "rank", got, want: "at most 64" });
        }
        let als::Solved { level, noise, workloads, platforms } = als::solve(runs, settings)?;
        let of_workload = Side::fit(&runs.workloads, &workloads)?;
        let of_platform = Side::fit(&runs.platforms, &platforms)?;
        Ok(Self { level, noise, workloads, platforms, of_workload, of_platform })
    }

    /// The logarithm of the seconds of a workload on a platform that both were learned from.
    pub fn predict(&self, workload: usize, platform: usize) -> f64 {
        join(self.level, self.workloads.row(workload), self.platforms.row(platform))
    }

    /// A workload that was not there: from its features, corrected by its runs on known platforms.
    pub fn new_workload(&self, features: &[f64], measured: &[(usize, f64)]) -> Result<Guess, Error> {
        let seen = measured.iter().map(|(platform, log)| (self.platforms.row(*platform), *log));
        Guess::new(self.of_workload.guess(features)?, &self.of_workload.spread, self.level, self.noise, seen)
    }

    /// A platform that was not there: from its passport, corrected by known workloads' runs on it.
    pub fn new_platform(&self, features: &[f64], measured: &[(usize, f64)]) -> Result<Guess, Error> {
        let seen = measured.iter().map(|(workload, log)| (self.workloads.row(*workload), *log));
        Guess::new(self.of_platform.guess(features)?, &self.of_platform.spread, self.level, self.noise, seen)
    }
}

/// The sum for a workload's and a platform's numbers.
fn join(level: f64, workload: &[f64], platform: &[f64]) -> f64 {
    level + workload[0] + platform[0] + dot(&workload[1..], &platform[1..])
}

/// An order by chance that depends on nothing but the seed.
fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    random::SplitMix64::new(seed).shuffle(&mut order);
    order
}
