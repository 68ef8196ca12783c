//! Evaluates predictors on a table with measured power: predictions, errors and interval coverage.

use metier_learn::score::PredictionScore;

use crate::Error;
use crate::formula::PowerFormula;
use crate::frame::FeatureFrame;
use crate::kepler_terms::PowerComponent;
use crate::pipeline::{PipelineModel, PredictorPipeline};
use crate::selection::PredictorFilter;

/// Rows below this many watts are left out of relative errors.
const RELATIVE_ERROR_FLOOR_WATTS: f64 = 1.0;

#[derive(Debug, Clone, PartialEq)]
pub struct ComponentAssessment {
    pub component: PowerComponent,
    /// Predicted watts, row by row.
    pub predicted: Vec<f64>,
    /// Mean of the absolute errors, in watts.
    pub mae: f64,
    /// Mean squared error.
    pub mse: f64,
    /// Mean of the relative errors on rows above one watt, in per cent; `None` where there is none.
    pub mape: Option<f64>,
    /// Share of rows inside the prediction interval; `None` if the predictor has no interval.
    pub coverage: Option<f64>,
}

/// A predictor with its errors on a table.
#[derive(Debug, Clone)]
pub struct PredictorAssessment<'a> {
    /// Name of the predictor's pipeline.
    pub pipeline: &'a str,
    pub model: &'a PipelineModel,
    /// Its components, in the order of the source.
    pub components: Vec<ComponentAssessment>,
}

impl PredictorAssessment<'_> {
    /// The largest mean error of a component, in watts.
    pub fn mae(&self) -> f64 {
        self.components.iter().map(|assessment| assessment.mae).fold(0.0, f64::max)
    }

    /// Components in descending order of error: relative error first, then watts.
    pub fn worst_first(&self) -> Vec<&ComponentAssessment> {
        let mut all: Vec<&ComponentAssessment> = self.components.iter().collect();
        let badness = |assessment: &ComponentAssessment| (assessment.mape.unwrap_or(0.0), assessment.mae);
        all.sort_by(|component_assessment, two| {
            badness(two).partial_cmp(&badness(component_assessment)).unwrap_or(std::cmp::Ordering::Equal)
        });
        all
    }

    /// The table with a column `predicted_<component>_power` for each component.
    pub fn with_predictions(&self, frame: &FeatureFrame) -> Result<FeatureFrame, Error> {
        let mut out = frame.clone();
        for assessment in &self.components {
            out.set(&format!("predicted_{}", assessment.component.column()), assessment.predicted.clone())?;
        }
        Ok(out)
    }
}

pub fn assess<'a>(
    pipeline: &'a str,
    model: &'a PipelineModel,
    frame: &FeatureFrame,
) -> Result<PredictorAssessment<'a>, Error> {
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
        let Some(score) = PredictionScore::compute(&measured, &predicted, RELATIVE_ERROR_FLOOR_WATTS) else {
            return Err(Error::table("no rows to compare"));
        };
        let squares = measured.iter().zip(&predicted).map(|(y, value)| (y - value).powi(2));
        let mse = squares.sum::<f64>() / measured.len() as f64;
        components.push(ComponentAssessment {
            component,
            predicted,
            mae: score.mae,
            mse,
            mape: score.mape.map(|ratio| ratio * 100.0),
            coverage: coverage(&formula, &columns, &measured),
        });
    }
    let order = model.source.components();
    components
        .sort_by_key(|assessment| order.iter().position(|component| *component == assessment.component));
    match components.is_empty() {
        true => Err(Error::table(format!("{} predicts no component of the table", model.full_name))),
        false => Ok(PredictorAssessment { pipeline, model, components }),
    }
}

/// Share of rows inside a formula's interval; `None` if the formula has no interval.
fn coverage<C: AsRef<[f64]>>(formula: &PowerFormula, columns: &[C], measured: &[f64]) -> Option<f64> {
    let mut inside = 0usize;
    for (number, watts) in measured.iter().enumerate() {
        let row: Vec<f64> = columns.iter().map(|column| column.as_ref()[number]).collect();
        let (low, high) = formula.interval(&row)?;
        inside += usize::from((low..=high).contains(watts));
    }
    (!measured.is_empty()).then(|| inside as f64 / measured.len() as f64)
}

/// Evaluates all usable predictors of a pipeline whose features the table has, in ascending order
/// of error. Predictors that fail are reported.
pub fn assess_all<'a>(
    pipeline: &'a PredictorPipeline,
    frame: &FeatureFrame,
    filter: &PredictorFilter,
) -> (Vec<PredictorAssessment<'a>>, Vec<String>) {
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
            Ok(assessment) => tried.push(assessment),
            Err(error) => warnings.push(format!("{} {}: {error}", model.group.name(), model.full_name)),
        }
    }
    tried.sort_by(|assessment, two| assessment.mae().total_cmp(&two.mae()));
    (tried, warnings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formula::{FormulaKind, FormulaSpread};
    use crate::kepler_terms::{EnergySource, FeatureGroup, ModelName, OutputType};

    fn of(component: PowerComponent, mae: f64, mape: Option<f64>) -> ComponentAssessment {
        ComponentAssessment { component, predicted: Vec::new(), mae, mse: 0.0, mape, coverage: None }
    }

    #[test]
    fn the_worst_component_comes_first() {
        let model = PipelineModel {
            name: ModelName::read("SGDRegressorTrainer_0").unwrap(),
            full_name: "SGDRegressorTrainer_0".to_string(),
            source: EnergySource::RaplSysfs,
            output_type: OutputType::AbsPower,
            group: FeatureGroup::BpfOnly,
            errors: Vec::new(),
            weights: None,
            archive: None,
            scale: None,
            predictor: None,
        };
        let components = vec![
            of(PowerComponent::Package, 85.0, Some(61.0)),
            of(PowerComponent::Core, 28.0, None),
            of(PowerComponent::Uncore, 2.0, None),
            of(PowerComponent::Dram, 48.0, Some(83.0)),
        ];
        let assessed = PredictorAssessment { pipeline: "one", model: &model, components };
        let names: Vec<&str> = assessed.worst_first().iter().map(|of| of.component.name()).collect();
        assert_eq!(names, ["dram", "package", "core", "uncore"]);
    }

    #[test]
    fn coverage_is_of_the_interval_that_the_predictor_tells_and_else_of_none() {
        let kind = FormulaKind::Linear { bias: 10.0, weights: vec![0.0] };
        let mut formula = PowerFormula::new(PowerComponent::Platform, vec!["a".to_string()], vec![1.0], kind);
        let measured = [9.0, 10.0, 12.0, 14.0];
        assert_eq!(coverage(&formula, &[vec![0.0; 4]], &measured), None);
        formula.spread = Some(FormulaSpread::Reach(2.0));
        assert_eq!(coverage(&formula, &[vec![0.0; 4]], &measured), Some(0.75));
    }
}
