//! Trainers of power predictors from a [`FeatureFrame`]: one file for each [`PowerTrainer`], and
//! one list ([`TRAINERS`]).
//!
//! A trainer receives scaled features and the watts of one component, and returns a
//! [`LearnedFormula`]. Common code computes held-out errors and intervals ([`held_out`]) and writes
//! a [`PowerPredictorFile`], which is plain JSON. Retraining continues an earlier predictor for two
//! trainers: XGBoost adds trees, metier's own starts from the earlier weights. The others train
//! from scratch, like the original.

mod auto;
mod exponential;
mod gradient_boosting;
mod held_out;
mod k_neighbors;
mod learned;
mod linear;
mod logarithmic;
mod logistic;
mod polynomial;
mod predictor;
mod sgd;
mod svr;
#[cfg(test)]
mod tests;
mod xgboost;

pub use auto::{EnsembleBlend, EnsembleMemberKind};
pub use held_out::{ComponentHeldOut, HoldOutMethod};
pub use learned::{CurveForm, LearnedFormula};
pub use predictor::{ComponentPredictor, PowerPredictorFile, PredictedWatts, RANGE_MARGIN, SCHEMA};

use metier_learn::linear_algebra::DenseMatrix;

use crate::Error;
use crate::frame::FeatureFrame;
use crate::kepler_terms::{PowerComponent, PowerTrainer, main_feature};

/// Fewest rows for intervals: each of five folds needs two. A SPECpower report has eleven rows.
pub const MIN_INTERVAL_ROWS: usize = 10;
/// Fewest rows for training without intervals: each row is held out alone, and three predict it.
pub const MIN_ROWS: usize = 4;
/// Largest number of training rows.
pub const MAX_ROWS: usize = metier_learn::regress::MAX_TRAINING_ROWS;

/// Training data of one component.
pub struct TrainerTask<'a> {
    /// Scaled features, one row each.
    pub x: &'a DenseMatrix,
    pub y: &'a [f64],
    /// Index of the main feature.
    pub main: usize,
    /// Assignment of rows to folds, for trainers that use held-out rows themselves.
    pub validation: HoldOutMethod,
    /// Rows below this many watts are left out of relative errors.
    pub floor: f64,
    /// Random seed.
    pub seed: u64,
    /// Whether predictions must add up: 0 for no work, and the sum of rows for their sum.
    pub is_additive: bool,
    /// The earlier predictor to continue.
    pub from: Option<&'a LearnedFormula>,
}

/// Interface of a trainer.
#[derive(Clone, Copy)]
pub enum LearnMethod {
    /// A plain fit; the caller computes held-out errors.
    Plain(fn(&TrainerTask<'_>) -> Result<LearnedFormula, Error>),
    /// A fit that holds out rows itself for model selection and returns the held-out predictions:
    /// watts and error size.
    Judged(fn(&TrainerTask<'_>) -> Result<JudgedFormula, Error>),
}

/// The formula and the held-out predictions of each row.
pub type JudgedFormula = (LearnedFormula, Vec<(f64, f64)>);

/// All trainers. A new trainer needs a file and a line here.
pub const TRAINERS: [(PowerTrainer, LearnMethod); 11] = [
    (PowerTrainer::Polynomial, LearnMethod::Plain(polynomial::learn)),
    (PowerTrainer::GradientBoosting, LearnMethod::Plain(gradient_boosting::learn)),
    (PowerTrainer::KNeighbors, LearnMethod::Plain(k_neighbors::learn)),
    (PowerTrainer::Linear, LearnMethod::Plain(linear::learn)),
    (PowerTrainer::Svr, LearnMethod::Plain(svr::learn)),
    (PowerTrainer::Xgboost, LearnMethod::Plain(xgboost::learn)),
    (PowerTrainer::Sgd, LearnMethod::Plain(sgd::learn)),
    (PowerTrainer::Logarithmic, LearnMethod::Plain(logarithmic::learn)),
    (PowerTrainer::Logistic, LearnMethod::Plain(logistic::learn)),
    (PowerTrainer::Exponential, LearnMethod::Plain(exponential::learn)),
    (PowerTrainer::Auto, LearnMethod::Judged(auto::learn)),
];

#[derive(Debug, Clone, PartialEq)]
pub struct TrainerSettings {
    pub trainer: PowerTrainer,
    /// Feature names in the order of a row.
    pub features: Vec<String>,
    /// Components to train; each has a watts column.
    pub components: Vec<PowerComponent>,
    /// Assignment of rows to folds.
    pub validation: HoldOutMethod,
    /// Rows below this many watts are left out of relative errors.
    pub floor: f64,
    /// Random seed.
    pub seed: u64,
    /// Whether predictions must add up: 0 for no work, and the sum of rows for their sum. Only
    /// [`PowerTrainer::Linear`] guarantees it.
    pub is_additive: bool,
}

impl TrainerSettings {
    /// Defaults: blocks of time held out, a floor of one watt.
    pub fn new(trainer: PowerTrainer, features: &[&str], components: &[PowerComponent]) -> Self {
        Self {
            trainer,
            features: features.iter().map(ToString::to_string).collect(),
            components: components.to_vec(),
            validation: HoldOutMethod::Blocks,
            floor: 1.0,
            seed: 1,
            is_additive: false,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct TrainedPredictor {
    pub predictor: PowerPredictorFile,
    /// Held-out errors, the worst component first.
    pub held_out: Vec<ComponentHeldOut>,
    /// Whether an earlier predictor was continued.
    pub is_continued: bool,
}

impl TrainedPredictor {
    pub fn bytes(&self) -> Vec<u8> {
        self.predictor.bytes()
    }
}

/// Trains a predictor of all requested components, or continues an earlier one of the same trainer
/// and features.
pub fn train(
    frame: &FeatureFrame,
    settings: &TrainerSettings,
    from: Option<&PowerPredictorFile>,
) -> Result<TrainedPredictor, Error> {
    let learn = TRAINERS.iter().find(|(trainer, _)| *trainer == settings.trainer).map(|(_, learn)| *learn);
    let Some(learn) = learn else { return Err(Error::table("a trainer that is in no list")) };
    if settings.features.is_empty() || settings.components.is_empty() {
        return Err(Error::table("no features or no components to learn; want at least one of each"));
    }
    if !(MIN_ROWS..=MAX_ROWS).contains(&frame.len()) {
        let got = frame.len();
        return Err(Error::table(format!("{got} rows; want {MIN_ROWS} to {MAX_ROWS} to learn from")));
    }
    if settings.is_additive && settings.trainer != PowerTrainer::Linear {
        let (name, line) = (settings.trainer.name(), PowerTrainer::Linear.name());
        return Err(Error::table(format!("{name} does not add up over rows; want {line}")));
    }
    if !(settings.floor > 0.0 && settings.floor.is_finite()) {
        return Err(Error::table(format!("a floor of {} watts; want above 0", settings.floor)));
    }
    let columns = settings.features.iter().map(|name| frame.need(name)).collect::<Result<Vec<_>, _>>()?;
    let largest = |column: &&[f64]| column.iter().fold(0f64, |most, value| most.max(value.abs()));
    // A feature that is always 0 has scale 1.
    let own = || columns.iter().map(largest).map(|most| if most > 0.0 { most } else { 1.0 }).collect();
    let goes_on = matches!(settings.trainer, PowerTrainer::Xgboost | PowerTrainer::Auto);
    let from = from.filter(|from| {
        goes_on && from.trainer == settings.trainer.name() && from.features == settings.features
    });
    // Existing trees split at scaled values, so added trees need the same scale. A blend continues
    // by its weights, which are independent of the scale.
    let earlier = from.filter(|_| settings.trainer == PowerTrainer::Xgboost).map(|from| from.scale.clone());
    let scale: Vec<f64> = earlier.unwrap_or_else(own);
    let mut x = DenseMatrix::new(columns.len());
    for row in 0..frame.len() {
        let values: Vec<f64> =
            columns.iter().zip(&scale).map(|(column, scale)| column[row] / scale).collect();
        x.push_row(&values)?;
    }
    let mut predictor = PowerPredictorFile::new(settings, scale.clone());
    let mut is_continued = false;
    for component in &settings.components {
        let Some(y) = frame.watts(*component) else {
            return Err(Error::table(format!("no column {}", component.column())));
        };
        let before = from.and_then(|from| from.components.get(component));
        is_continued |= before.is_some();
        let task = TrainerTask {
            x: &x,
            y: &y,
            main: main_feature(*component, &settings.features).unwrap_or(0),
            validation: settings.validation,
            floor: settings.floor,
            seed: settings.seed,
            is_additive: settings.is_additive,
            from: before.map(|part| &part.learned),
        };
        predictor.components.insert(*component, held_out::train_component(&task, *component, learn)?);
    }
    let mut held_out: Vec<ComponentHeldOut> =
        predictor.components.values().map(|part| part.held_out.clone()).collect();
    held_out.sort_by(|a, b| b.badness().total_cmp(&a.badness()));
    Ok(TrainedPredictor { predictor, held_out, is_continued })
}
