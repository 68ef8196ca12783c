//! Predictors tried on a table whose power is known: what they say, and how wrong that is.

use metier_learn::score::Score;

use crate::Error;
use crate::frame::Frame;
use crate::pipeline::{Model, Pipeline};
use crate::vocabulary::{Component, FeatureGroup, OutputType, Source};

/// Watts below which relative errors mean nothing.
const FLOOR: f64 = 1.0;

/// One component.
#[derive(Debug, Clone, PartialEq)]
pub struct Of {
    /// Which.
    pub component: Component,
    /// What the predictor says, row by row.
    pub predicted: Vec<f64>,
    /// Mean of the absolute errors, in watts.
    pub mae: f64,
    /// Mean of their squares.
    pub mse: f64,
    /// Mean of the relative errors on rows above one watt, in per cent; `None` where there is none.
    pub mape: Option<f64>,
}

/// A predictor that was tried.
#[derive(Debug, Clone)]
pub struct Assessed<'a> {
    /// The pipeline that it is of.
    pub pipeline: &'a str,
    /// It.
    pub model: &'a Model,
    /// Its components, in the order of the source.
    pub components: Vec<Of>,
}

impl Assessed<'_> {
    /// The largest mean error of a component, in watts.
    pub fn mae(&self) -> f64 {
        self.components.iter().map(|one| one.mae).fold(0.0, f64::max)
    }

    /// The table with a column `predicted_<component>_power` for each.
    pub fn beside(&self, frame: &Frame) -> Result<Frame, Error> {
        let mut out = frame.clone();
        for one in &self.components {
            out.set(&format!("predicted_{}", one.component.column()), one.predicted.clone())?;
        }
        Ok(out)
    }
}

/// Tries one predictor.
pub fn assess<'a>(pipeline: &'a str, model: &'a Model, frame: &Frame) -> Result<Assessed<'a>, Error> {
    let mut components = Vec::new();
    for (component, formula) in model.formulas()? {
        let Some(measured) = frame.watts(component) else { continue };
        let columns = formula.features.iter().map(|name| frame.need(name)).collect::<Result<Vec<_>, _>>()?;
        let mut row = Vec::with_capacity(columns.len());
        let mut predicted = Vec::with_capacity(frame.len());
        for number in 0..frame.len() {
            row.clear();
            row.extend(columns.iter().map(|column| column[number]));
            let Some(watts) = formula.watts(&row) else {
                return Err(Error::table(format!("{} has no value for row {}", model.full_name, number + 1)));
            };
            predicted.push(watts);
        }
        let Some(score) = Score::of(&measured, &predicted, FLOOR) else {
            return Err(Error::table("no rows to compare"));
        };
        let squares = measured.iter().zip(&predicted).map(|(y, said)| (y - said).powi(2));
        let mse = squares.sum::<f64>() / measured.len() as f64;
        components.push(Of {
            component,
            predicted,
            mae: score.mae,
            mse,
            mape: score.mape.map(|ratio| ratio * 100.0),
        });
    }
    let order = model.source.components();
    components.sort_by_key(|one| order.iter().position(|component| *component == one.component));
    match components.is_empty() {
        true => Err(Error::table(format!("{} predicts nothing that the table has", model.full_name))),
        false => Ok(Assessed { pipeline, model, components }),
    }
}

/// Which predictors are tried.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// For which source.
    pub source: Source,
    /// Whether idle power is part of it.
    pub output_type: OutputType,
    /// Only of this group.
    pub group: Option<FeatureGroup>,
    /// Only of this name.
    pub name: Option<&'a str>,
}

/// Tries all predictors of a pipeline that can be asked and fit the table, the best first. What cannot be tried is told.
pub fn assess_all<'a>(
    pipeline: &'a Pipeline,
    frame: &Frame,
    wanted: Wanted<'_>,
) -> (Vec<Assessed<'a>>, Vec<String>) {
    let names: Vec<&str> = frame.names().collect();
    let (mut tried, mut warnings) = (Vec::new(), Vec::new());
    for model in &pipeline.models {
        let is_wanted = model.source == wanted.source
            && model.output_type == wanted.output_type
            && wanted.group.is_none_or(|group| group == model.group)
            && wanted.name.is_none_or(|name| name == model.full_name)
            && model.group.is_within(&names);
        if !is_wanted {
            continue;
        }
        if !model.is_usable() {
            warnings.push(format!(
                "{} {} is a pickle, which is not loaded",
                model.group.name(),
                model.full_name
            ));
            continue;
        }
        match assess(&pipeline.name, model, frame) {
            Ok(one) => tried.push(one),
            Err(error) => warnings.push(format!("{} {}: {error}", model.group.name(), model.full_name)),
        }
    }
    tried.sort_by(|one, two| one.mae().total_cmp(&two.mae()));
    (tried, warnings)
}
