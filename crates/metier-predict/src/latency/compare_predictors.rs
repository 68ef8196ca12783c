//! Compares the held-out errors of a runtime's predictor in use and of a new candidate.
//!
//! Graphs newer than the old predictor are predicted with it now. For graphs known to both, each
//! predictor's own held-out error counts. A hard graph that is new to both does not favour the old
//! predictor, since each graph counts alike.

use std::collections::BTreeMap;

use metier_store::RecordStore;
use metier_types::{ContentDigest, Predictor, Ratio};

use super::fit::{self, HeldOutPrediction};
use super::learned_predictor::LatencyPredictorFile;
use super::trial::record::TrialRecord;
use super::{COVERAGE, LatencyError};
use crate::lifecycle::{GroupErrors, PredictorComparison, PromotionDecision, PromotionMargin};

/// Record field: held-out error of each graph, as a logarithm.
pub const ERROR_BY_GRAPH_FIELD: &str = "mean_log_error_by_graph";
/// The candidate has seen more data, so it may be slightly worse: measurements scatter.
const PROMOTION_MARGIN: PromotionMargin = PromotionMargin::Tolerate(0.05);

/// The predictor in use, compared with a new candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyComparison {
    /// The predictor in use.
    pub id: ContentDigest,
    /// Mean errors of both by graph, as logarithms.
    pub errors: PredictorComparison,
    /// Graphs measured after the old predictor was trained.
    pub unseen: usize,
}

/// Mean error of each graph on an idle device, as a logarithm.
pub fn by_graph<'a>(rows: impl Iterator<Item = &'a HeldOutPrediction>) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for row in rows.filter(|row| !row.is_loaded) {
        let (sum, count) = sums.entry(row.name.clone()).or_default();
        *sum += (row.predicted / row.measured).ln().abs();
        *count += 1.0;
    }
    sums.into_iter().map(|(name, (sum, count))| (name, sum / count)).collect()
}

impl LatencyComparison {
    /// Compares the predictor in use with the held-out predictions of a candidate.
    pub fn new(
        store: &RecordStore,
        old: &Predictor,
        records: &[TrialRecord],
        rows: &[HeldOutPrediction],
    ) -> Result<Self, LatencyError> {
        let candidate: GroupErrors<String> =
            by_graph(rows.iter()).into_iter().map(|(name, error)| (name, vec![error])).collect();
        let file =
            store.predictor_file(&old.id)?.and_then(|bytes| LatencyPredictorFile::read(&old.id, &bytes).ok());
        // A predictor with an unusable file loses.
        let Some(LatencyPredictorFile { law, .. }) = file else {
            let errors = PredictorComparison { incumbent: Some(f64::INFINITY), candidate: 0.0, groups: 0 };
            return Ok(Self { id: old.id, errors, unseen: 0 });
        };
        let held_out = old.held_out.iter().find(|error| error.target == "latency");
        let recorded = held_out.and_then(|error| error.extra.get(ERROR_BY_GRAPH_FIELD)?.as_object());
        let mut incumbent: GroupErrors<String> = GroupErrors::new();
        let mut unseen = 0;
        for name in candidate.keys() {
            if let Some(error) = recorded.and_then(|all| all.get(name)?.as_f64()) {
                incumbent.insert(name.clone(), vec![error]);
            } else if !fit::graphs_of(old).any(|seen| seen == name) {
                let own = records.iter().filter(|record| {
                    record.name == *name
                        && !record.is_trial
                        && record.pressure.is_idle()
                        && record.seconds > 0.0
                });
                let errors: Vec<f64> = own
                    .map(|record| {
                        let point = record.point();
                        let estimate = law.predict(&point.parts, point.threads, point.pressure, COVERAGE);
                        (estimate.seconds / record.seconds).ln().abs()
                    })
                    .collect();
                let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
                incumbent.insert(name.clone(), vec![mean]);
                unseen += 1;
            }
        }
        let errors = PredictorComparison::new(Some(&incumbent), &candidate);
        Ok(Self { id: old.id, errors, unseen })
    }

    /// Decides which predictor answers.
    pub fn decide(&self) -> PromotionDecision {
        self.errors.decide(PROMOTION_MARGIN)
    }
}

/// The reason for a new predictor's standing, as a sentence.
pub fn promotion_reason(before: Option<&LatencyComparison>) -> String {
    let Some(before) = before else { return "there was no earlier predictor to compare with".to_string() };
    let id = before.id.short();
    let Some(old) = before.errors.incumbent else {
        return format!("it has no held-out graph in common with the predictor before ({id})");
    };
    if !old.is_finite() {
        return format!("the file of the predictor before ({id}) is unusable");
    }
    let new = if before.unseen > 0 { format!(", {} of them new", before.unseen) } else { String::new() };
    format!(
        "its mean error on {} held-out graphs{new} is {}, that of the predictor before ({id}) is {}: {}",
        before.errors.groups,
        Ratio(before.errors.candidate),
        Ratio(old),
        match before.decide() {
            PromotionDecision::Promoted => "it is used from now on",
            _ => "it is stored, but not used",
        }
    )
}
