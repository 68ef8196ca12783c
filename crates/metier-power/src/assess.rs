//! Predictors tried on a table whose power is known: what they say, and how wrong that is.

use metier_learn::score::Score;

use crate::Error;
use crate::formula::Formula;
use crate::frame::Frame;
use crate::pipeline::{Model, Pipeline};
use crate::selection::PredictorFilter;
use crate::vocabulary::Component;

/// Watts below which relative errors mean nothing.
const FLOOR: f64 = 1.0;

#[derive(Debug, Clone, PartialEq)]
pub struct Of {
    pub component: Component,
    /// What the predictor says, row by row.
    pub predicted: Vec<f64>,
    /// Mean of the absolute errors, in watts.
    pub mae: f64,
    /// Mean of their squares.
    pub mse: f64,
    /// Mean of the relative errors on rows above one watt, in per cent; `None` where there is none.
    pub mape: Option<f64>,
    /// The share of rows inside of the interval that the predictor tells; `None` where it tells none.
    pub coverage: Option<f64>,
}

/// A predictor that was tried.
#[derive(Debug, Clone)]
pub struct Assessed<'a> {
    /// The pipeline that it is of.
    pub pipeline: &'a str,
    pub model: &'a Model,
    /// Its components, in the order of the source.
    pub components: Vec<Of>,
}

impl Assessed<'_> {
    /// The largest mean error of a component, in watts.
    pub fn mae(&self) -> f64 {
        self.components.iter().map(|one| one.mae).fold(0.0, f64::max)
    }

    /// Its components, the worst first: by what is wrong in per cent, then in watts.
    pub fn worst_first(&self) -> Vec<&Of> {
        let mut all: Vec<&Of> = self.components.iter().collect();
        let badness = |one: &Of| (one.mape.unwrap_or(0.0), one.mae);
        all.sort_by(|one, two| badness(two).partial_cmp(&badness(one)).unwrap_or(std::cmp::Ordering::Equal));
        all
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
            coverage: coverage(&formula, &columns, &measured),
        });
    }
    let order = model.source.components();
    components.sort_by_key(|one| order.iter().position(|component| *component == one.component));
    match components.is_empty() {
        true => Err(Error::table(format!("{} predicts nothing that the table has", model.full_name))),
        false => Ok(Assessed { pipeline, model, components }),
    }
}

/// The share of rows inside of a formula's interval; `None` where it tells none.
fn coverage<C: AsRef<[f64]>>(formula: &Formula, columns: &[C], measured: &[f64]) -> Option<f64> {
    let mut inside = 0usize;
    for (number, watts) in measured.iter().enumerate() {
        let row: Vec<f64> = columns.iter().map(|column| column.as_ref()[number]).collect();
        let (low, high) = formula.interval(&row)?;
        inside += usize::from((low..=high).contains(watts));
    }
    (!measured.is_empty()).then(|| inside as f64 / measured.len() as f64)
}

/// Tries all predictors of a pipeline that can be asked and fit the table, the best first. What cannot be tried is told.
pub fn assess_all<'a>(
    pipeline: &'a Pipeline,
    frame: &Frame,
    filter: &PredictorFilter,
) -> (Vec<Assessed<'a>>, Vec<String>) {
    let names: Vec<&str> = frame.names().collect();
    let (mut tried, mut warnings) = (Vec::new(), Vec::new());
    for model in &pipeline.models {
        if !filter.fits(pipeline, model) || !model.group.is_within(&names) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formula::{Kind, Spread};
    use crate::vocabulary::{FeatureGroup, ModelName, OutputType, Source};

    fn of(component: Component, mae: f64, mape: Option<f64>) -> Of {
        Of { component, predicted: Vec::new(), mae, mse: 0.0, mape, coverage: None }
    }

    #[test]
    fn the_worst_component_comes_first() {
        let model = Model {
            name: ModelName::read("SGDRegressorTrainer_0").unwrap(),
            full_name: "SGDRegressorTrainer_0".to_string(),
            source: Source::RaplSysfs,
            output_type: OutputType::AbsPower,
            group: FeatureGroup::BpfOnly,
            errors: Vec::new(),
            weights: None,
            archive: None,
            scale: None,
            predictor: None,
        };
        let components = vec![
            of(Component::Package, 85.0, Some(61.0)),
            of(Component::Core, 28.0, None),
            of(Component::Uncore, 2.0, None),
            of(Component::Dram, 48.0, Some(83.0)),
        ];
        let assessed = Assessed { pipeline: "one", model: &model, components };
        let names: Vec<&str> = assessed.worst_first().iter().map(|of| of.component.name()).collect();
        assert_eq!(names, ["dram", "package", "core", "uncore"]);
    }

    #[test]
    fn coverage_is_of_the_interval_that_the_predictor_tells_and_else_of_none() {
        let kind = Kind::Linear { bias: 10.0, weights: vec![0.0] };
        let mut formula = Formula::new(Component::Platform, vec!["a".to_string()], vec![1.0], kind);
        let measured = [9.0, 10.0, 12.0, 14.0];
        assert_eq!(coverage(&formula, &[vec![0.0; 4]], &measured), None);
        formula.spread = Some(Spread::Reach(2.0));
        assert_eq!(coverage(&formula, &[vec![0.0; 4]], &measured), Some(0.75));
    }
}
