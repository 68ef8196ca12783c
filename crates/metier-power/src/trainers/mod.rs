//! What learns predictors of power from a [`FeatureFrame`]: one file for each trainer of [`PowerTrainer`], and one list of them ([`TRAINERS`]).
//!
//! A trainer gets features scaled by their largest value and the watts of one component, and gives back a [`LearnedFormula`] formula. Around all of
//! them, the same for each: rows are held out ([`held_out`]), so that every component has an honest error and an interval, and a [`PowerPredictorFile`] is made
//! that is JSON and nothing else. Retraining goes on from a predictor that is there: XGBoost's adds trees to it, ours starts from its blend; the others
//! learn anew, as the original's do.

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

pub use auto::{EnsembleBlend, MemberKind};
pub use held_out::{ComponentHeldOut, HoldOutMethod};
pub use learned::{CurveForm, LearnedFormula};
pub use predictor::{ComponentPredictor, PowerPredictorFile, PredictedWatts, RANGE_MARGIN, SCHEMA};

use metier_learn::linear_algebra::DenseMatrix;

use crate::Error;
use crate::frame::FeatureFrame;
use crate::kepler_terms::{PowerComponent, PowerTrainer, main_feature};

/// Fewest rows that intervals are learned from: five parts must each hold two. A report of SPECpower has eleven.
pub const MIN_INTERVAL_ROWS: usize = 10;
/// Fewest rows that are learned from at all, without intervals: each row is held out by itself, and three say what it is.
pub const MIN_ROWS: usize = 4;
/// Most rows that are learned from.
pub const MAX_ROWS: usize = metier_learn::regress::MAX_TRAINING_ROWS;

/// What a trainer learns from: one component.
pub struct TrainerTask<'a> {
    /// Features over their largest values, a row each.
    pub x: &'a DenseMatrix,
    pub y: &'a [f64],
    /// The place of the main feature.
    pub main: usize,
    /// How rows are held out, for those that choose.
    pub validation: HoldOutMethod,
    /// Watts below which relative errors mean nothing.
    pub floor: f64,
    /// Seed of all chance.
    pub seed: u64,
    /// Whether nothing takes nothing, and rows together what they take one by one.
    pub is_additive: bool,
    /// What was learned before.
    pub from: Option<&'a LearnedFormula>,
}

/// How a trainer learns.
#[derive(Clone, Copy)]
pub enum LearnMethod {
    /// It learns; rows are held out around it.
    Plain(fn(&TrainerTask<'_>) -> Result<LearnedFormula, Error>),
    /// It holds rows out itself in order to choose, and tells what it said of each before it had seen it: watts and the size of an error.
    Judged(fn(&TrainerTask<'_>) -> Result<JudgedFormula, Error>),
}

/// What was learned, and what was said of each row by what had not seen it.
pub type JudgedFormula = (LearnedFormula, Vec<(f64, f64)>);

/// All trainers. A new one is a file and a line here.
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
    /// Features, in the order of a row.
    pub features: Vec<String>,
    /// Components to learn; each has a column of watts.
    pub components: Vec<PowerComponent>,
    /// How rows are held out.
    pub validation: HoldOutMethod,
    /// Watts below which relative errors mean nothing.
    pub floor: f64,
    /// Seed of all chance.
    pub seed: u64,
    /// Whether nothing takes nothing, and rows together what they take one by one. Only [`PowerTrainer::Linear`] can promise that.
    pub is_additive: bool,
}

impl TrainerSettings {
    /// Whole phases held out, a floor of one watt.
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
    /// Errors on rows that were held out, the worst component first.
    pub held_out: Vec<ComponentHeldOut>,
    /// Whether it goes on from an earlier one.
    pub is_continued: bool,
}

impl TrainedPredictor {
    pub fn bytes(&self) -> Vec<u8> {
        self.predictor.bytes()
    }
}

/// Learns a predictor of every asked component; goes on from an earlier one of the same trainer and features.
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
    // A feature that is always 0 keeps its values: its scale is 1.
    let own = || columns.iter().map(largest).map(|most| if most > 0.0 { most } else { 1.0 }).collect();
    let goes_on = matches!(settings.trainer, PowerTrainer::Xgboost | PowerTrainer::Auto);
    let from = from.filter(|from| {
        goes_on && from.trainer == settings.trainer.name() && from.features == settings.features
    });
    // Trees that are there split at places in their own scale, so those that are added have the same. A blend goes on by its shares, which have none.
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
