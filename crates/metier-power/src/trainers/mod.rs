//! What learns predictors of power from a [`Frame`]: one file for each trainer of [`Trainer`], and one list of them ([`LIST`]).
//!
//! A trainer gets features scaled by their largest value and the watts of one component, and gives back a [`Learned`] formula. Around all of
//! them, the same for each: rows are held out ([`held_out`]), so that every component has an honest error and an interval, and a [`Predictor`] is made
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

pub use auto::{Blend, Kind as MemberKind};
pub use held_out::{HeldOut, Validation};
pub use learned::{Curve, Learned};
pub use predictor::{MARGIN, Part, Predictor, SCHEMA, Watts};

use metier_learn::algebra::Matrix;

use crate::Error;
use crate::frame::Frame;
use crate::vocabulary::{Component, Trainer, main_feature};

/// Fewest rows that intervals are learned from: five parts must each hold two. A report of SPECpower has eleven.
pub const FEWEST_ROWS: usize = 10;
/// Fewest rows that are learned from at all, without intervals: each row is held out by itself, and three say what it is.
pub const LEAST_ROWS: usize = 4;
/// Most rows that are learned from.
pub const MOST_ROWS: usize = metier_learn::regress::ROWS;

/// What a trainer learns from: one component.
pub struct Task<'a> {
    /// Features over their largest values, a row each.
    pub x: &'a Matrix,
    pub y: &'a [f64],
    /// The place of the main feature.
    pub main: usize,
    /// How rows are held out, for those that choose.
    pub validation: Validation,
    /// Watts below which relative errors mean nothing.
    pub floor: f64,
    /// Seed of all chance.
    pub seed: u64,
    /// Whether nothing takes nothing, and rows together what they take one by one.
    pub is_additive: bool,
    /// What was learned before.
    pub from: Option<&'a Learned>,
}

/// How a trainer learns.
#[derive(Clone, Copy)]
pub enum Learn {
    /// It learns; rows are held out around it.
    Plain(fn(&Task<'_>) -> Result<Learned, Error>),
    /// It holds rows out itself in order to choose, and tells what it said of each before it had seen it: watts and the size of an error.
    Judged(fn(&Task<'_>) -> Result<Judged, Error>),
}

/// What was learned, and what was said of each row by what had not seen it.
pub type Judged = (Learned, Vec<(f64, f64)>);

/// All trainers. A new one is a file and a line here.
pub const LIST: [(Trainer, Learn); 11] = [
    (Trainer::Polynomial, Learn::Plain(polynomial::learn)),
    (Trainer::GradientBoosting, Learn::Plain(gradient_boosting::learn)),
    (Trainer::KNeighbors, Learn::Plain(k_neighbors::learn)),
    (Trainer::Linear, Learn::Plain(linear::learn)),
    (Trainer::Svr, Learn::Plain(svr::learn)),
    (Trainer::Xgboost, Learn::Plain(xgboost::learn)),
    (Trainer::Sgd, Learn::Plain(sgd::learn)),
    (Trainer::Logarithmic, Learn::Plain(logarithmic::learn)),
    (Trainer::Logistic, Learn::Plain(logistic::learn)),
    (Trainer::Exponential, Learn::Plain(exponential::learn)),
    (Trainer::Auto, Learn::Judged(auto::learn)),
];

#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub trainer: Trainer,
    /// Features, in the order of a row.
    pub features: Vec<String>,
    /// Components to learn; each has a column of watts.
    pub components: Vec<Component>,
    /// How rows are held out.
    pub validation: Validation,
    /// Watts below which relative errors mean nothing.
    pub floor: f64,
    /// Seed of all chance.
    pub seed: u64,
    /// Whether nothing takes nothing, and rows together what they take one by one. Only [`Trainer::Linear`] can promise that.
    pub is_additive: bool,
}

impl Settings {
    /// Whole phases held out, a floor of one watt.
    pub fn new(trainer: Trainer, features: &[&str], components: &[Component]) -> Self {
        Self {
            trainer,
            features: features.iter().map(ToString::to_string).collect(),
            components: components.to_vec(),
            validation: Validation::Blocks,
            floor: 1.0,
            seed: 1,
            is_additive: false,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Trained {
    pub predictor: Predictor,
    /// Errors on rows that were held out, the worst component first.
    pub held_out: Vec<HeldOut>,
    /// Whether it goes on from an earlier one.
    pub is_continued: bool,
}

impl Trained {
    pub fn bytes(&self) -> Vec<u8> {
        self.predictor.bytes()
    }
}

/// Learns a predictor of every asked component; goes on from an earlier one of the same trainer and features.
pub fn train(frame: &Frame, settings: &Settings, from: Option<&Predictor>) -> Result<Trained, Error> {
    let learn = LIST.iter().find(|(trainer, _)| *trainer == settings.trainer).map(|(_, learn)| *learn);
    let Some(learn) = learn else { return Err(Error::table("a trainer that is in no list")) };
    if settings.features.is_empty() || settings.components.is_empty() {
        return Err(Error::table("no features or no components to learn; want at least one of each"));
    }
    if !(LEAST_ROWS..=MOST_ROWS).contains(&frame.len()) {
        let got = frame.len();
        return Err(Error::table(format!("{got} rows; want {LEAST_ROWS} to {MOST_ROWS} to learn from")));
    }
    if settings.is_additive && settings.trainer != Trainer::Linear {
        let (name, line) = (settings.trainer.name(), Trainer::Linear.name());
        return Err(Error::table(format!("{name} does not add up over rows; want {line}")));
    }
    if !(settings.floor > 0.0 && settings.floor.is_finite()) {
        return Err(Error::table(format!("a floor of {} watts; want above 0", settings.floor)));
    }
    let columns = settings.features.iter().map(|name| frame.need(name)).collect::<Result<Vec<_>, _>>()?;
    let largest = |column: &&[f64]| column.iter().fold(0f64, |most, value| most.max(value.abs()));
    // A feature that is always 0 keeps its values: its scale is 1.
    let own = || columns.iter().map(largest).map(|most| if most > 0.0 { most } else { 1.0 }).collect();
    let goes_on = matches!(settings.trainer, Trainer::Xgboost | Trainer::Auto);
    let from = from.filter(|from| {
        goes_on && from.trainer == settings.trainer.name() && from.features == settings.features
    });
    // Trees that are there split at places in their own scale, so those that are added have the same. A blend goes on by its shares, which have none.
    let earlier = from.filter(|_| settings.trainer == Trainer::Xgboost).map(|from| from.scale.clone());
    let scale: Vec<f64> = earlier.unwrap_or_else(own);
    let mut x = Matrix::new(columns.len());
    for row in 0..frame.len() {
        let values: Vec<f64> =
            columns.iter().zip(&scale).map(|(column, scale)| column[row] / scale).collect();
        x.push(&values)?;
    }
    let mut predictor = Predictor::new(settings, scale.clone());
    let mut is_continued = false;
    for component in &settings.components {
        let Some(y) = frame.watts(*component) else {
            return Err(Error::table(format!("no column {}", component.column())));
        };
        let before = from.and_then(|from| from.components.get(component));
        is_continued |= before.is_some();
        let task = Task {
            x: &x,
            y: &y,
            main: main_feature(*component, &settings.features).unwrap_or(0),
            validation: settings.validation,
            floor: settings.floor,
            seed: settings.seed,
            is_additive: settings.is_additive,
            from: before.map(|part| &part.learned),
        };
        predictor.components.insert(*component, held_out::part(&task, *component, learn)?);
    }
    let mut held_out: Vec<HeldOut> =
        predictor.components.values().map(|part| part.held_out.clone()).collect();
    held_out.sort_by(|a, b| b.badness().total_cmp(&a.badness()));
    Ok(Trained { predictor, held_out, is_continued })
}
