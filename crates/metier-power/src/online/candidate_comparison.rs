//! Held-out errors of candidates and the running predictor. Each time is one group of the
//! lifecycle's comparison.

use metier_predict::lifecycle::{GroupErrors, PredictorComparison};

use crate::formula::PowerFormula;
use crate::frame::FeatureFrame;
use crate::kepler_terms::PowerComponent;
use crate::pipeline::{PipelineModel, PredictorPipeline};
use crate::training::PowerTable;

/// A formula for each component.
pub type ComponentFormulas = Vec<(PowerComponent, PowerFormula)>;

/// The best candidate, compared with the running predictor.
pub struct BestCandidate<'a> {
    pub model: &'a PipelineModel,
    pub compared: PredictorComparison,
}

/// The time that splits training rows from comparison rows.
pub fn split_time(tables: &[&PowerTable], fresh: f64) -> f64 {
    let times = || tables.iter().flat_map(|table| table.frame.timestamps.iter().copied());
    let (first, last) = (times().fold(f64::INFINITY, f64::min), times().fold(f64::NEG_INFINITY, f64::max));
    last - (last - first).max(0.0) * fresh.clamp(0.05, 0.95)
}

/// Rows up to a time.
pub fn rows_until(table: &PowerTable, cut: f64) -> PowerTable {
    part(table, |time| time <= cut)
}

/// Rows after a time.
pub fn rows_after(table: &PowerTable, cut: f64) -> PowerTable {
    part(table, |time| time > cut)
}

fn part(table: &PowerTable, is_in: impl Fn(f64) -> bool) -> PowerTable {
    let times = table.frame.timestamps.iter().enumerate();
    let rows: Vec<usize> = times.filter(|(_, time)| is_in(**time)).map(|(row, _)| row).collect();
    PowerTable { frame: table.frame.select(&rows), ..table.clone() }
}

/// The candidate with the smallest error, compared with the running predictor on the same rows.
pub fn best<'a>(
    candidates: &'a PredictorPipeline,
    fresh: &[PowerTable],
    running: Option<&[(PowerComponent, PowerFormula)]>,
) -> Option<BestCandidate<'a>> {
    // Any table with all its features works: rows of the same time are equal in all tables.
    let running = running.and_then(|formulas| fresh.iter().find_map(|table| errors(formulas, &table.frame)));
    let compared = candidates.models.iter().filter_map(|model| {
        let table = fresh.iter().find(|table| table.group == model.group)?;
        let own = errors(&model.formulas().ok()?, &table.frame)?;
        Some(BestCandidate { model, compared: PredictorComparison::new(running.as_ref(), &own) })
    });
    compared.filter(|candidate| candidate.compared.groups > 0).reduce(|best, candidate| {
        if candidate.compared.candidate < best.compared.candidate { candidate } else { best }
    })
}

/// Errors row by row. `None` if a feature or a component's watts are missing, or a formula has no
/// value.
fn errors(formulas: &[(PowerComponent, PowerFormula)], frame: &FeatureFrame) -> Option<GroupErrors<u64>> {
    let mut all: GroupErrors<u64> =
        frame.timestamps.iter().map(|time| (time.to_bits(), Vec::new())).collect();
    for (component, formula) in formulas {
        let measured = frame.watts(*component)?;
        let predicted = formula.watts_of_rows(frame)?;
        for ((time, predicted), measured) in frame.timestamps.iter().zip(predicted).zip(measured) {
            all.get_mut(&time.to_bits())?.push((predicted - measured).abs());
        }
    }
    (!formulas.is_empty()).then_some(all)
}
