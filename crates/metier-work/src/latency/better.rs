//! Which of two predictors of a runtime on a device is the better one, by graphs that neither has seen.
//!
//! A graph that came later the old one is asked for now. A graph that both know each of them has held out once: what it said then counts. Only
//! graphs on which both can be judged do, each alike; a hard graph that is new is no reason to keep what is older.

use std::collections::{BTreeMap, BTreeSet};

use metier_store::Store;
use metier_types::{Digest, Predictor, Ratio};

use super::fit::Row;
use super::learned::File;
use super::trial::record::Kept;
use super::{COVERAGE, Error};

/// In the record of a predictor: its error on each graph, as a logarithm, while that was held out.
pub const BY_GRAPH: &str = "mean_log_error_by_graph";
/// The new one has seen more, so it may be worse by this factor: two measurements are not the same.
const ALIKE: f64 = 1.05;

/// The one that was in use beside the one that was just learned.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// The one that was in use.
    pub id: Digest,
    /// Its mean error, as a logarithm.
    pub old: f64,
    /// That of the new one.
    pub new: f64,
    /// Graphs that both are judged by.
    pub graphs: usize,
    /// Of these, graphs that came after the old one.
    pub unseen: usize,
}

/// Mean error of each graph on an idle device, as a logarithm.
pub fn by_graph<'a>(rows: impl Iterator<Item = &'a Row>) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for row in rows.filter(|row| !row.is_loaded) {
        let (sum, count) = sums.entry(row.name.clone()).or_default();
        *sum += (row.predicted / row.measured).ln().abs();
        *count += 1.0;
    }
    sums.into_iter().map(|(name, (sum, count))| (name, sum / count)).collect()
}

impl Compared {
    /// Compares the one in use with what was said of held-out graphs by a new one.
    pub fn new(store: &Store, old: &Predictor, kept: &[Kept], rows: &[Row]) -> Result<Self, Error> {
        let file = store.predictor_file(&old.id)?.and_then(|bytes| File::read(&old.id, &bytes).ok());
        // One whose file is of no use any more is the worse one.
        let Some(File { law, .. }) = file else {
            return Ok(Self { id: old.id, old: f64::INFINITY, new: 0.0, graphs: 0, unseen: 0 });
        };
        let seen: BTreeSet<&str> = old
            .extra
            .get("graphs")
            .and_then(|list| list.as_array())
            .into_iter()
            .flatten()
            .filter_map(|name| name.as_str())
            .collect();
        let held_out = old.held_out.iter().find(|one| one.target == "latency");
        let recorded = held_out.and_then(|one| one.extra.get(BY_GRAPH)?.as_object());
        let mut errors: Vec<(f64, f64)> = Vec::new();
        let mut unseen = 0;
        for (name, new) in by_graph(rows.iter()) {
            if let Some(error) = recorded.and_then(|all| all.get(&name)?.as_f64()) {
                errors.push((error, new));
            } else if !seen.contains(name.as_str()) {
                let own = kept.iter().filter(|one| {
                    one.name == name && !one.is_trial && one.pressure.is_idle() && one.seconds > 0.0
                });
                let said: Vec<f64> = own
                    .map(|one| {
                        let point = one.point();
                        let told = law.tell(&point.parts, point.threads, point.pressure, COVERAGE);
                        (told.seconds / one.seconds).ln().abs()
                    })
                    .collect();
                errors.push((said.iter().sum::<f64>() / said.len().max(1) as f64, new));
                unseen += 1;
            }
        }
        let count = errors.len().max(1) as f64;
        let (by_old, by_new): (Vec<f64>, Vec<f64>) = errors.iter().copied().unzip();
        Ok(Self {
            id: old.id,
            old: by_old.iter().sum::<f64>() / count,
            new: by_new.iter().sum::<f64>() / count,
            graphs: errors.len(),
            unseen,
        })
    }

    /// Whether the new one is to be used.
    pub fn is_better(&self) -> bool {
        self.new <= self.old * ALIKE
    }
}

/// Why a predictor that was just learned has the standing that it has, in a sentence.
pub fn because(is_trivial: bool, before: Option<&Compared>) -> String {
    if is_trivial {
        return "it is no better than multiply-adds × a constant, so it does not answer; more graphs would help"
            .to_string();
    }
    let Some(before) = before else { return "no other was there to compare with".to_string() };
    let id: String = before.id.to_string().trim_start_matches("sha256:").chars().take(12).collect();
    if !before.old.is_finite() {
        return format!("the file of the one before ({id}) is of no use any more");
    }
    if before.graphs == 0 {
        return format!("there was no graph that both it and the one before ({id}) could be judged by");
    }
    let new = if before.unseen > 0 { format!(", {} of them new", before.unseen) } else { String::new() };
    format!(
        "its mean error on {} held-out graphs{new} is {}, that of the one before ({id}) {}: {}",
        before.graphs,
        Ratio(before.new),
        Ratio(before.old),
        if before.is_better() { "it is used from now on" } else { "it is kept aside" }
    )
}
