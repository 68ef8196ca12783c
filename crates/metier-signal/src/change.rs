//! Detects changes of level in a history of values.
//!
//! Penalised least squares on the logarithm cut the history (one value per run, in time order) into
//! segments of constant level ([`segmentation`]). All cuts are found together, so a dip that
//! recovers is detected as well as a step. Outliers are clamped first, so that they neither cause
//! nor hide a change.
//!
//! A change must pass three tests:
//! 1. The penalty is exceeded by a history *without* change in at most `significance` of all orders
//!    of its values ([`significance`]). This bounds the probability of any false alarm, for every
//!    distribution.
//! 2. Each cut is tested again between its neighbours, against the best cut of shuffled values.
//!    This gives its p-value.
//! 3. A change smaller than `at_least` is not reported: for exact counters any difference is
//!    significant.
//!
//! Each detected segment is searched again, at its share of the significance level, because a large
//! change hides small ones. If a straight line fits better than the steps, a drift is reported
//! instead.
//!
//! Limits: values are assumed to be exchangeable where nothing changed. Runs that share a temporary
//! state of the device (a hot hour, a co-runner) violate this, and that state is reported as a
//! change. A change needs [`segmentation::MIN_SEGMENT_LEN`] runs after it. Among 8 runs only a
//! change in the middle can be significant.

pub mod drift;
mod memo;
pub mod segmentation;
pub mod significance;

use metier_types::Ratio;

use crate::Error;
use crate::median::{median, relative_change};
pub use drift::LinearDrift;
pub use memo::ChangeMemo;
use segmentation::{best_cuts, clamp_strays, log_scale};
use significance::{ChanceVerdict, cut_p_value, test_any_change};

/// Minimum number of values for a significant change.
pub const MIN_VALUES: usize = 8;
/// Maximum number of values; the time grows with their square.
pub const MAX_VALUES: usize = 1000;

#[derive(Debug, Clone, PartialEq)]
pub struct ChangeOptions {
    /// Probability of any false alarm in a history without change.
    pub significance: Ratio,
    /// Minimum size of a reported change, relative to the level before it.
    pub at_least: Ratio,
    /// Number of shuffles for the tests; fewer for long histories.
    pub resamples: u32,
    /// Seed of the random numbers: the same seed gives the same result.
    pub seed: u64,
}

impl Default for ChangeOptions {
    fn default() -> Self {
        Self { significance: Ratio(0.05), at_least: Ratio(0.01), resamples: 999, seed: 1 }
    }
}

impl ChangeOptions {
    fn validate(&self) -> Result<(), Error> {
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
pub struct ChangePoint {
    /// Index of the first value after the change.
    pub at: usize,
    /// Probability of a cut this clear between its neighbours without a change.
    pub p_value: Ratio,
}

/// Detected changes of a history.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DetectedChanges {
    /// Changes of level, in time order; empty if there is a drift.
    pub steps: Vec<ChangePoint>,
    /// A steady drift, if a straight line fits better than steps.
    pub drift: Option<LinearDrift>,
}

/// Detects changes in values in time order. Fewer than [`FEWEST`] values give none.
pub fn find_changes(values: &[f64], options: &ChangeOptions) -> Result<DetectedChanges, Error> {
    options.validate()?;
    if let Some(got) = values.iter().find(|x| !x.is_finite()) {
        let want = "finite numbers";
        return Err(Error::WrongOption { option: "values", got: got.to_string(), want });
    }
    if values.len() > MAX_VALUES {
        let got = format!("{} values", values.len());
        return Err(Error::WrongOption { option: "values", got, want: "at most 1000" });
    }
    let mut cuts = Vec::new();
    let scale = log_scale(values);
    search_cuts(&scale, 0, values.len(), options, &mut cuts);
    cuts.sort_unstable();
    let steps = confirm_cuts(values, &scale, cuts, options);
    let drift = drift::fit_drift(values, &steps, options);
    Ok(match drift {
        Some(drift) => DetectedChanges { steps: Vec::new(), drift: Some(drift) },
        None => DetectedChanges { steps, drift: None },
    })
}

/// Cuts the values from `from` to `to`, then each part recursively.
fn search_cuts(values: &[f64], from: usize, to: usize, options: &ChangeOptions, cuts: &mut Vec<usize>) {
    if to - from < MIN_VALUES {
        return;
    }
    // Each part gets its share of the level, so that all searches of one depth together keep it.
    let level = options.significance.get() * (to - from) as f64 / values.len() as f64;
    let stretch = clamp_strays(&values[from..to]);
    let ChanceVerdict::Unlikely { penalty } = test_any_change(&stretch, level, options) else { return };
    let mut edges = vec![from];
    edges.extend(best_cuts(&stretch, penalty).into_iter().map(|cut| from + cut));
    edges.push(to);
    cuts.extend(&edges[1..edges.len() - 1]);
    if edges.len() > 2 {
        edges.windows(2).for_each(|part| search_cuts(values, part[0], part[1], options, cuts));
    }
}

/// Removes the weakest cut until every cut passes its own test.
fn confirm_cuts(
    values: &[f64],
    scale: &[f64],
    mut cuts: Vec<usize>,
    options: &ChangeOptions,
) -> Vec<ChangePoint> {
    loop {
        let edges: Vec<usize> =
            std::iter::once(0).chain(cuts.iter().copied()).chain([values.len()]).collect();
        let steps: Vec<ChangePoint> = edges
            .windows(3)
            .map(|around| {
                let (from, at, to) = (around[0], around[1], around[2]);
                let chance = cut_p_value(&clamp_strays(&scale[from..to]), at - from, options);
                ChangePoint { at, p_value: Ratio(chance) }
            })
            .collect();
        let size = |at: usize| {
            let (from, to) = (edges[at], edges[at + 2]);
            level_distance(&values[from..edges[at + 1]], &values[edges[at + 1]..to])
        };
        // First remove changes that are too small, smallest first; then insignificant ones, largest
        // p-value first.
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

/// Distance of the medians relative to the smaller: +10 % and its reversal are equal.
fn level_distance(before: &[f64], after: &[f64]) -> f64 {
    let middle = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        median(&sorted).unwrap_or_default()
    };
    let (x, y) = (middle(before), middle(after));
    relative_change(x.abs().min(y.abs()), x.abs().max(y.abs())).abs().max(if x * y < 0.0 {
        f64::INFINITY
    } else {
        0.0
    })
}
