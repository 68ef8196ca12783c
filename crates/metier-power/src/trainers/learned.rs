//! The result of a trainer: a formula over scaled features, as data.

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
    /// Weights for 1, each feature and each product of two.
    Polynomial(LinearRegression),
    /// A curve over the main feature.
    Curve {
        form: CurveForm,
        /// Index of the main feature.
        main: usize,
        weights: Vec<f64>,
    },
    Neighbours(NearestNeighbours),
    Svr(SupportVectorRegression),
    /// Boosted trees of exact splits.
    Trees(ExactBoostedTrees),
    Blend(Box<EnsembleBlend>),
}

/// Function of a curve.
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
    /// Number of weights.
    pub const fn weights(self) -> usize {
        match self {
            Self::Exponential | Self::Logarithmic => 3,
            Self::Logistic => 4,
        }
    }

    /// Value of the curve; `weights` has [`Self::weights`] numbers.
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
    /// Watts for a row of scaled features; may be negative, or NaN where the formula is undefined.
    pub fn watts(&self, row: &[f64]) -> f64 {
        self.watts_with_error(row).0
    }

    /// Watts, and the predicted error size.
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
