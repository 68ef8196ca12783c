//! Remembers the changes of histories: the shuffles of a search take a third of a second for a
//! history that changed, and the result depends on the values and the options alone.

use std::collections::VecDeque;
use std::sync::Mutex;

use metier_types::LockUnpoisoned;

use super::{ChangeOptions, DetectedChanges, find_changes};
use crate::Error;

/// Histories that are remembered; with [`super::MAX_VALUES`] values each, half a megabyte.
const MAX_HISTORIES: usize = 64;

struct KnownHistory {
    values: Vec<f64>,
    options: ChangeOptions,
    found: DetectedChanges,
}

/// The changes of the histories that were searched last.
#[derive(Default)]
pub struct ChangeMemo(Mutex<VecDeque<KnownHistory>>);

impl ChangeMemo {
    /// The changes in values in time order, as [`find_changes`] finds them.
    pub fn find_changes(&self, values: &[f64], options: &ChangeOptions) -> Result<DetectedChanges, Error> {
        let is_same = |known: &&KnownHistory| known.values == values && known.options == *options;
        if let Some(known) = self.0.lock_unpoisoned().iter().find(is_same) {
            return Ok(known.found.clone());
        }
        let found = find_changes(values, options)?;
        let mut known = self.0.lock_unpoisoned();
        if known.len() >= MAX_HISTORIES {
            known.pop_front();
        }
        let (values, options) = (values.to_vec(), options.clone());
        known.push_back(KnownHistory { values, options, found: found.clone() });
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use metier_types::Ratio;

    use super::*;

    #[test]
    fn what_is_remembered_is_what_is_found() {
        let memo = ChangeMemo::default();
        let history = |step: f64| -> Vec<f64> {
            (0..40).map(|at| if at < 20 { 1.0 } else { step } + 0.001 * f64::from(at % 3)).collect()
        };
        let strict = ChangeOptions { at_least: Ratio(2.0), ..ChangeOptions::default() };
        for options in [ChangeOptions::default(), strict] {
            for step in [1.0, 1.5, 2.5] {
                let found = find_changes(&history(step), &options).unwrap();
                for _ in 0..2 {
                    assert_eq!(memo.find_changes(&history(step), &options).unwrap(), found, "{step}");
                }
            }
        }
        assert!(memo.find_changes(&[f64::NAN], &ChangeOptions::default()).is_err());
        for number in 0..2 * MAX_HISTORIES {
            memo.find_changes(&[number as f64], &ChangeOptions::default()).unwrap();
        }
        assert_eq!(memo.0.lock_unpoisoned().len(), MAX_HISTORIES);
    }
}
