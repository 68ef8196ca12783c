//! Finds where the level of a history changed.
//!
//! The history (one value a run, in time order) is cut into stretches of constant level by penalised least squares on
//! the logarithm ([`segment`]): all cuts at once, so a dip that recovers is seen as well as a step. Stray runs are drawn in
//! first, so that they neither make a change nor hide one.
//!
//! Three gates stand before a change is told:
//! 1. The penalty is the one that a history *without* any change exceeds in at most `significance` of all orders
//!    of its values ([`chance`]). So the chance of any false alarm is at most that, whatever the distribution.
//! 2. Each cut is tested again between its neighbours, against the best cut of shuffled neighbours: its p-value.
//! 3. A change smaller than `at_least` is not told: exact counters make any difference significant.
//!
//! A stretch that was found is searched again by itself, at its share of the level: next to a large change a small one
//! pays little. A history that a straight line fits better than the steps drifts, and is told so.
//!
//! Limits: values are taken as exchangeable where nothing changed. Runs that share a passing state of the device (a
//! hot hour, a noisy neighbour) break that, and their state is then told as a change, which it is. A change needs
//! [`segment::SHORTEST`] runs after it; with 8 runs only one in the middle can be told from chance.

pub mod chance;
pub mod drift;
pub mod segment;

use metier_types::Ratio;

use crate::Error;
use crate::bootstrap::{change, median};
use chance::{Verdict, of_any_change, of_this_cut};
pub use drift::Drift;
use segment::{best, drawn_in, scaled};

/// Fewest values in which a change can be told from chance.
pub const FEWEST: usize = 8;
/// Most values that are looked at; the time grows with their square.
pub const MOST: usize = 1000;

#[derive(Debug, Clone, PartialEq)]
pub struct ChangeOptions {
    /// The chance of telling any change in a history that has none.
    pub significance: Ratio,
    /// Smallest change that is told, as a share of the level before it.
    pub at_least: Ratio,
    /// Shuffled histories to compare with; fewer where the history is long.
    pub resamples: u32,
    /// Start of the random numbers: the same seed gives the same answer.
    pub seed: u64,
}

impl Default for ChangeOptions {
    fn default() -> Self {
        Self { significance: Ratio(0.05), at_least: Ratio(0.01), resamples: 999, seed: 1 }
    }
}

impl ChangeOptions {
    fn check(&self) -> Result<(), Error> {
        let wrong = |option, got: String, want| Err(Error::WrongOption { option, got, want });
        let level = self.significance.get();
        if !(0.001..=0.5).contains(&level) {
            return wrong("significance", level.to_string(), "a share from 0.001 to 0.5");
        }
        if !(0.0..=10.0).contains(&self.at_least.get()) {
            return wrong("at_least", self.at_least.get().to_string(), "a share from 0 to 10");
        }
        if !(99..=100_000).contains(&self.resamples) {
            return wrong("resamples", self.resamples.to_string(), "99 to 100,000");
        }
        Ok(())
    }
}

/// A change of level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Position of the first value after it.
    pub at: usize,
    /// The chance of a cut this clear somewhere between its neighbours if nothing had changed there.
    pub p_value: Ratio,
}

/// What a history shows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Changes {
    /// Changes of level, in time order; none where it drifts.
    pub steps: Vec<Step>,
    /// A steady drift, where a straight line fits better than steps do.
    pub drift: Option<Drift>,
}

/// Looks for changes in values in time order. With fewer than [`FEWEST`] there are none to be found.
pub fn find_changes(values: &[f64], options: &ChangeOptions) -> Result<Changes, Error> {
    options.check()?;
    if let Some(got) = values.iter().find(|x| !x.is_finite()) {
        let want = "finite numbers";
        return Err(Error::WrongOption { option: "values", got: got.to_string(), want });
    }
    if values.len() > MOST {
        let got = format!("{} values", values.len());
        return Err(Error::WrongOption { option: "values", got, want: "at most 1000" });
    }
    let mut cuts = Vec::new();
    let scale = scaled(values);
    search(&scale, 0, values.len(), options, &mut cuts);
    cuts.sort_unstable();
    let steps = settle(values, &scale, cuts, options);
    let drift = drift::instead_of(values, &steps, options);
    Ok(match drift {
        Some(drift) => Changes { steps: Vec::new(), drift: Some(drift) },
        None => Changes { steps, drift: None },
    })
}

/// Cuts the stretch from `from` to `to`, then each of its parts by itself.
fn search(values: &[f64], from: usize, to: usize, options: &ChangeOptions, cuts: &mut Vec<usize>) {
    if to - from < FEWEST {
        return;
    }
    // A part is searched at its share of the level, so that all searches of one depth keep to the level together.
    let level = options.significance.get() * (to - from) as f64 / values.len() as f64;
    let stretch = drawn_in(&values[from..to]);
    let Verdict::Unlikely { penalty } = of_any_change(&stretch, level, options) else { return };
    let mut edges = vec![from];
    edges.extend(best(&stretch, penalty).into_iter().map(|cut| from + cut));
    edges.push(to);
    cuts.extend(&edges[1..edges.len() - 1]);
    if edges.len() > 2 {
        edges.windows(2).for_each(|part| search(values, part[0], part[1], options, cuts));
    }
}

/// Drops the weakest cut until each stands on its own.
fn settle(values: &[f64], scale: &[f64], mut cuts: Vec<usize>, options: &ChangeOptions) -> Vec<Step> {
    loop {
        let edges: Vec<usize> =
            std::iter::once(0).chain(cuts.iter().copied()).chain([values.len()]).collect();
        let steps: Vec<Step> = edges
            .windows(3)
            .map(|around| {
                let (from, at, to) = (around[0], around[1], around[2]);
                let chance = of_this_cut(&drawn_in(&scale[from..to]), at - from, options);
                Step { at, p_value: Ratio(chance) }
            })
            .collect();
        let size = |at: usize| {
            let (from, to) = (edges[at], edges[at + 2]);
            size(&values[from..edges[at + 1]], &values[edges[at + 1]..to])
        };
        // First what is too small to matter, smallest first, then what chance explains, likeliest first.
        let small = (0..steps.len())
            .filter(|at| size(*at) < options.at_least.get())
            .min_by(|l, r| size(*l).total_cmp(&size(*r)));
        let weak = (0..steps.len())
            .filter(|at| steps[*at].p_value.get() > options.significance.get())
            .max_by(|l, r| steps[*l].p_value.get().total_cmp(&steps[*r].p_value.get()));
        match small.or(weak) {
            Some(at) => {
                cuts.remove(at);
            }
            None => return steps,
        }
    }
}

/// How far apart the medians are, as a share of the smaller: +10 % and its way back count the same.
fn size(before: &[f64], after: &[f64]) -> f64 {
    let middle = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        median(&sorted).unwrap_or_default()
    };
    let (x, y) = (middle(before), middle(after));
    change(x.abs().min(y.abs()), x.abs().max(y.abs())).abs().max(if x * y < 0.0 {
        f64::INFINITY
    } else {
        0.0
    })
}
