//! Splits data for unbiased scores: whole groups are held out, and the choice precedes any fitting.

use std::collections::BTreeMap;

use crate::random::{self, mix_bits};
use crate::{Error, TrainingTable};

/// Training rows and test rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrainTestSplit {
    /// Rows for training.
    pub train: Vec<usize>,
    /// Rows for scoring.
    pub test: Vec<usize>,
}

/// Folds of whole groups with about equally many rows. The fold of a group depends only on the
/// groups, their sizes and the seed.
pub fn group_folds(table: &TrainingTable, count: usize, seed: u64) -> Result<Vec<TrainTestSplit>, Error> {
    let mut sizes: BTreeMap<u64, usize> = BTreeMap::new();
    for group in table.groups() {
        *sizes.entry(*group).or_default() += 1;
    }
    if count < 2 || sizes.len() < count {
        let want = count.max(2);
        return Err(Error::TooFewItems {
            what: "groups",
            got: sizes.len(),
            want,
            purpose: "hold some of them out",
        });
    }
    let mut groups: Vec<(u64, usize)> = sizes.into_iter().collect();
    // Large groups first, so that the folds are balanced; equal ones in an order by hash.
    groups.sort_by_key(|(group, size)| (std::cmp::Reverse(*size), mix_bits(group ^ mix_bits(seed))));
    let mut rows = vec![0usize; count];
    let mut fold_of = BTreeMap::new();
    for (group, size) in groups {
        let fold = (0..count).min_by_key(|fold| rows[*fold]).unwrap_or(0);
        rows[fold] += size;
        fold_of.insert(group, fold);
    }
    Ok((0..count)
        .map(|fold| {
            let is_test = |row: &usize| fold_of.get(&table.groups()[*row]) == Some(&fold);
            let (test, train) = (0..table.len()).partition(is_test);
            TrainTestSplit { train, test }
        })
        .collect())
}

/// Whether a group belongs to the held-out share, by its hash alone.
pub fn is_held_out(group: u64, share: f64, seed: u64) -> bool {
    (mix_bits(group ^ mix_bits(seed)) as f64) < share * 2f64.powi(64)
}

/// Hash of a name (FNV-1a), the same on every machine.
pub fn hash_group(name: &str) -> u64 {
    random::hash_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_group_is_on_both_sides_and_every_row_is_tested_once(groups in prop::collection::vec(0u64..20, 30..200), seed: u64) {
            let mut table = TrainingTable::new(vec!["x".to_string()]);
            groups.iter().for_each(|group| table.push_row(&[0.0], 1.0, *group).unwrap());
            let Ok(folds) = group_folds(&table, 4, seed) else { return Ok(()) };
            let mut tested = vec![0; table.len()];
            for fold in &folds {
                for row in &fold.test {
                    tested[*row] += 1;
                    prop_assert!(fold.train.iter().all(|other| groups[*other] != groups[*row]));
                }
                prop_assert_eq!(fold.train.len() + fold.test.len(), table.len());
            }
            prop_assert!(tested.iter().all(|count| *count == 1));
        }
    }

    #[test]
    fn about_the_share_that_was_asked_for_is_held_out() {
        let held = (0..10_000u64).filter(|group| is_held_out(*group, 0.3, 7)).count();
        assert!((2_800..3_200).contains(&held), "{held}");
    }
}
