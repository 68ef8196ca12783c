//! Compares predictors on rows that none of them has seen.

use std::collections::BTreeMap;

use crate::formula::Formula;
use crate::frame::Frame;
use crate::pipeline::{Model, Pipeline};
use crate::training::Table;
use crate::vocabulary::Component;

/// A formula for each component.
pub type Formulas = Vec<(Component, Formula)>;

/// Absolute errors of each component by time.
type Errors = BTreeMap<u64, Vec<f64>>;

pub struct Best<'a> {
    pub model: &'a Model,
    pub error: f64,
    /// The running predictor's, on the same rows.
    pub running: Option<f64>,
    pub rows: usize,
}

/// The time before which rows are learned from.
pub fn cut(tables: &[&Table], fresh: f64) -> f64 {
    let times = || tables.iter().flat_map(|table| table.frame.timestamps.iter().copied());
    let (first, last) = (times().fold(f64::INFINITY, f64::min), times().fold(f64::NEG_INFINITY, f64::max));
    last - (last - first).max(0.0) * fresh.clamp(0.05, 0.95)
}

/// Rows up to a time.
pub fn older(table: &Table, cut: f64) -> Table {
    part(table, |time| time <= cut)
}

/// Rows after a time.
pub fn newer(table: &Table, cut: f64) -> Table {
    part(table, |time| time > cut)
}

fn part(table: &Table, is_in: impl Fn(f64) -> bool) -> Table {
    let times = table.frame.timestamps.iter().enumerate();
    let rows: Vec<usize> = times.filter(|(_, time)| is_in(**time)).map(|(row, _)| row).collect();
    Table { frame: table.frame.select(&rows), ..table.clone() }
}

/// The candidate with the smallest error, beside the running predictor on the same rows.
pub fn best<'a>(
    candidates: &'a Pipeline,
    fresh: &[Table],
    running: Option<&[(Component, Formula)]>,
) -> Option<Best<'a>> {
    // Any table that has all its features will do: rows of one time are the same in all.
    let running = running.and_then(|formulas| fresh.iter().find_map(|table| errors(formulas, &table.frame)));
    let mut best: Option<Best<'a>> = None;
    for model in &candidates.models {
        let Some(table) = fresh.iter().find(|table| table.group == model.group) else { continue };
        let Some(own) = model.formulas().ok().and_then(|formulas| errors(&formulas, &table.frame)) else {
            continue;
        };
        let common: Vec<u64> = match &running {
            Some(running) => own.keys().copied().filter(|time| running.contains_key(time)).collect(),
            None => own.keys().copied().collect(),
        };
        if common.is_empty() {
            continue;
        }
        let (error, of_running) =
            (worst(&own, &common), running.as_ref().map(|running| worst(running, &common)));
        if best.as_ref().is_none_or(|best| error < best.error) {
            best = Some(Best { model, error, running: of_running, rows: common.len() });
        }
    }
    best
}

/// The largest mean error of a component.
fn worst(errors: &Errors, times: &[u64]) -> f64 {
    let width = errors.values().next().map_or(0, Vec::len);
    let mean = |component: usize| {
        let sum: f64 = times.iter().filter_map(|time| errors.get(time)?.get(component)).sum();
        sum / times.len().max(1) as f64
    };
    (0..width).map(mean).fold(0.0, f64::max)
}

/// Errors row by row; `None` where a feature or a component's watts are missing, or a formula has no value.
fn errors(formulas: &[(Component, Formula)], frame: &Frame) -> Option<Errors> {
    let mut all: Errors = frame.timestamps.iter().map(|time| (time.to_bits(), Vec::new())).collect();
    for (component, formula) in formulas {
        let measured = frame.watts(*component)?;
        let columns: Vec<&[f64]> =
            formula.features.iter().map(|name| frame.column(name)).collect::<Option<_>>()?;
        for (row, time) in frame.timestamps.iter().enumerate() {
            let features: Vec<f64> = columns.iter().map(|column| column[row]).collect();
            let said = formula.watts(&features)?;
            all.get_mut(&time.to_bits())?.push((said - measured[row]).abs());
        }
    }
    (!formulas.is_empty()).then_some(all)
}
