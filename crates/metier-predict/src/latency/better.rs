//! Which of two predictors of a runtime on a device is the better one, by graphs that neither has seen.
//!
//! A graph that came later the old one is asked for now. A graph that both know each of them has held out once: what it said then counts. Only
//! graphs on which both can be judged do, each alike; a hard graph that is new is no reason to keep what is older. When the one in use is
//! removed, [`heir`] says which of the others answers.

use std::collections::{BTreeMap, BTreeSet};

use metier_store::Store;
use metier_types::{Digest, Predictor, Ratio, Standing};

use super::fit::{self, Row};
use super::learned::File;
use super::trial::record::Kept;
use super::{COVERAGE, Error, memory};

/// In the record of a predictor: its error on each graph, as a logarithm, while that was held out.
pub const BY_GRAPH: &str = "mean_log_error_by_graph";
/// The new one has seen more, so it may be worse by this factor: two measurements are not the same.
const ALIKE: f64 = 1.05;

/// How the reason begins where a predictor was judged unfit.
const UNFIT: &str = "it is no better than";
/// What a predictor must be better than, among the baselines of what it held out.
const TRIVIAL: [&str; 2] = ["multiply-adds \u{d7} constant", memory::ESTIMATE];

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
        return format!("{UNFIT} multiply-adds × a constant, so it does not answer; more graphs would help");
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

/// Which answers when the one in use is gone: of those of the same kind, device and runtime that were kept aside, the one with the
/// smallest held-out error; of those without, the newest. Those that were judged unfit never do: `None` is better. `all` are newest first.
pub fn heir<'a>(all: &'a [Predictor], gone: &Predictor) -> Option<&'a Predictor> {
    let is_alike = |one: &&Predictor| {
        one.id != gone.id
            && one.kind == gone.kind
            && one.standing == Standing::Passed
            && one.device.as_ref().map(|of| &of.id) == gone.device.as_ref().map(|of| &of.id)
            && one.extra.get("runtime") == gone.extra.get("runtime")
    };
    let error = |one: &Predictor| {
        let told = one.held_out.first().and_then(|held| held.extra.get("mean_log_error")?.as_f64());
        told.unwrap_or(f64::INFINITY)
    };
    let fit = all.iter().filter(is_alike).filter(|one| !is_unfit(one));
    // Of equals the first, which is the newest.
    fit.min_by(|one, other| error(one).total_cmp(&error(other)))
}

/// Whether it was found to be no better than a trivial answer: as its record says, or by the errors in it.
fn is_unfit(one: &Predictor) -> bool {
    let is_said = fit::because_of(one).is_some_and(|why| why.starts_with(UNFIT));
    let is_seen = one.held_out.first().is_some_and(|held| {
        let trivial = TRIVIAL.iter().find_map(|name| held.baselines.get(*name));
        trivial.zip(held.mean_absolute_error_ratio).is_some_and(|(trivial, own)| own.get() >= *trivial)
    });
    is_said || is_seen
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// One that was kept aside, with its held-out errors: on the logarithm, its own, and the trivial answer's.
    fn aside(number: u8, log: Option<f64>, own: f64, trivial: f64, because: &str) -> Predictor {
        let mut record: Predictor = serde_json::from_value(json!({
            "schema": "metier.predictor/1", "id": Digest::from_bytes([number; 32]), "kind": "latency",
            "name": "rten on bench", "device": { "id": "device-1", "name": "bench" }, "standing": "passed",
            "made": "2026-01-01T00:00:00Z", "provenance": "a test", "rows": 8, "runs": [],
            "held_out": [{
                "target": "latency", "unit": "seconds", "held_out": "graphs", "rows": 8, "groups": 8,
                "mean_absolute_error": 0.001, "mean_absolute_error_ratio": own,
                "baselines": { "multiply-adds \u{d7} constant": trivial }, "mean_log_error": log
            }],
            "runtime": "rten", "because": because
        }))
        .unwrap();
        if log.is_none() {
            record.held_out[0].extra.remove("mean_log_error");
        }
        record
    }

    #[test]
    fn the_heir_has_the_smallest_error_and_is_never_one_that_was_judged_unfit() {
        let gone = Predictor { standing: Standing::InUse, ..aside(9, Some(0.2), 0.2, 0.9, "") };
        let (unfit, worse) = (because(true, None), "it is kept aside");
        let newest = aside(1, Some(0.01), 0.1, 0.9, &unfit);
        let by_figures = aside(2, Some(0.02), 0.9, 0.9, worse);
        let (poor, good) = (aside(3, Some(0.5), 0.5, 0.9, worse), aside(4, Some(0.3), 0.3, 0.9, worse));
        let untold = [aside(5, None, 0.1, 0.9, worse), aside(6, None, 0.1, 0.9, worse)];
        let mut elsewhere = aside(7, Some(0.0), 0.0, 0.9, worse);
        elsewhere.extra.insert("runtime".into(), json!("onnxruntime"));
        let in_use = Predictor { standing: Standing::InUse, ..aside(8, Some(0.0), 0.0, 0.9, "") };
        let all = [newest, by_figures, elsewhere, in_use, poor, untold[0].clone(), untold[1].clone(), good];
        let id = |all: &[Predictor]| heir(all, &gone).map(|one| one.id);
        assert_eq!(id(&all), Some(Digest::from_bytes([4; 32])), "the smallest error");
        assert_eq!(id(&all[..7]), Some(Digest::from_bytes([3; 32])));
        assert_eq!(id(&untold), Some(Digest::from_bytes([5; 32])), "the newest where none tells its error");
        assert_eq!(id(&all[..4]), None, "nothing is better than what was judged unfit");
    }
}
