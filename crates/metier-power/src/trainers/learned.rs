//! What a trainer gives back: a formula over scaled features, as data.

use metier_learn::regress::exact_boosting::ExactBoostedTrees;
use metier_learn::regress::linear::{LinearRegression, polynomial_features};
use metier_learn::regress::nearest_neighbours::NearestNeighbours;
use metier_learn::regress::svr::SupportVectorRegression;
use serde::{Deserialize, Serialize};

use super::auto::EnsembleBlend;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "of")]
pub enum LearnedFormula {
    /// A weight for each feature.
    Linear(LinearRegression),
    /// A weight for 1, each feature and each product of two.
    Polynomial(LinearRegression),
    /// A curve over the main feature.
    Curve {
        form: CurveForm,
        /// The place of the main feature.
        main: usize,
        weights: Vec<f64>,
    },
    Neighbours(NearestNeighbours),
    Svr(SupportVectorRegression),
    /// Boosted trees of exact splits.
    Trees(ExactBoostedTrees),
    Blend(Box<EnsembleBlend>),
}

/// The form of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CurveForm {
    /// `a·exp(b·s) + c`.
    Exponential,
    /// `a·ln(b·s + 1) + c`.
    Logarithmic,
    /// `a/(1 + exp(-k·(s - s0))) + c`.
    Logistic,
}

impl CurveForm {
    /// How many numbers it has.
    pub const fn weights(self) -> usize {
        match self {
            Self::Exponential | Self::Logarithmic => 3,
            Self::Logistic => 4,
        }
    }

    /// Its value; `weights` has as many numbers as it wants.
    pub fn at(self, weights: &[f64], s: f64) -> f64 {
        match (self, weights) {
            (Self::Exponential, [a, b, c]) => a * (b * s).exp() + c,
            (Self::Logarithmic, [a, b, c]) => a * (b * s + 1.0).ln() + c,
            (Self::Logistic, [a, s0, k, c]) => a / (1.0 + (-k * (s - s0)).exp()) + c,
            _ => f64::NAN,
        }
    }
}

impl LearnedFormula {
    /// Watts for a row of scaled features; may be below 0, or no number where the formula has none.
    pub fn watts(&self, row: &[f64]) -> f64 {
        self.watts_with_error(row).0
    }

    /// Watts, and the size that an error has there.
    pub fn watts_with_error(&self, row: &[f64]) -> (f64, f64) {
        match self {
            Self::Linear(line) => (line.predict(row), 1.0),
            Self::Polynomial(line) => (line.predict(&polynomial_features(row)), 1.0),
            Self::Curve { form, main, weights } => {
                (form.at(weights, row.get(*main).copied().unwrap_or(0.0)), 1.0)
            }
            Self::Neighbours(near) => (near.predict(row), 1.0),
            Self::Svr(vectors) => (vectors.predict(row), 1.0),
            Self::Trees(trees) => (trees.predict(row), 1.0),
            Self::Blend(blend) => blend.predict_with_error(row),
        }
    }

    pub fn constant(watts: f64, width: usize) -> Self {
        Self::Linear(LinearRegression { bias: watts, weights: vec![0.0; width] })
    }
}
