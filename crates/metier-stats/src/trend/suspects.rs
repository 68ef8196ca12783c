//! Circumstances that changed together with the level.

use metier_types::Run;

use super::ChangeSuspect;
use crate::circumstances::CIRCUMSTANCES;

/// Circumstances that differ in the first run after a change. Lasting changes come first.
pub fn find_suspects(before: &[&Run], after: &[&Run]) -> Vec<ChangeSuspect> {
    let (Some(last), Some(first)) = (before.last(), after.first()) else { return Vec::new() };
    let mut found: Vec<ChangeSuspect> = CIRCUMSTANCES
        .iter()
        .filter_map(|it| {
            let of = |run: &Run| (it.of)(run).unwrap_or_else(|| "unknown".into());
            let (was, is) = (of(last), of(first));
            (was != is).then(|| ChangeSuspect {
                code: it.code.to_string(),
                what: it.what.to_string(),
                is_clean: before.iter().all(|run| of(run) == was) && after.iter().all(|run| of(run) == is),
                before: was,
                after: is,
            })
        })
        .collect();
    found.sort_by_key(|suspect| !suspect.is_clean);
    found
}
