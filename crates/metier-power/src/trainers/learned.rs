//! What a trainer gives back: a formula over scaled features, as data.

use metier_learn::regress::exact::Exact;
use metier_learn::regress::knn::Neighbours;
use metier_learn::regress::linear::{Linear, polynomial};
use metier_learn::regress::svr::Svr;
use serde::{Deserialize, Serialize};

use super::auto::Blend;
use crate::formula::Curve;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "of")]
pub enum Learned {
    /// A weight for each feature.
    Linear(Linear),
    /// A weight for 1, each feature and each product of two.
    Polynomial(Linear),
    /// A curve over the main feature.
    Curve {
        form: Form,
        /// The place of the main feature.
        main: usize,
        weights: Vec<f64>,
    },
    Neighbours(Neighbours),
    Svr(Svr),
    /// Boosted trees of exact splits.
    Trees(Exact),
    Blend(Box<Blend>),
}

/// The form of a curve, in words of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// `a·exp(b·s) + c`.
    Exponential,
    /// `a·ln(b·s + 1) + c`.
    Logarithmic,
    /// `a/(1 + exp(-k·(s - s0))) + c`.
    Logistic,
}

impl Form {
    pub const fn curve(self) -> Curve {
        match self {
            Self::Exponential => Curve::Exponential,
            Self::Logarithmic => Curve::Logarithmic,
            Self::Logistic => Curve::Logistic,
        }
    }
}

impl Learned {
    /// Watts for a row of scaled features; may be below 0, or no number where the formula has none.
    pub fn watts(&self, row: &[f64]) -> f64 {
        self.say(row).0
    }

    /// Watts, and the size that an error has there.
    pub fn say(&self, row: &[f64]) -> (f64, f64) {
        match self {
            Self::Linear(line) => (line.predict(row), 1.0),
            Self::Polynomial(line) => (line.predict(&polynomial(row)), 1.0),
            Self::Curve { form, main, weights } => {
                (form.curve().at(weights, row.get(*main).copied().unwrap_or(0.0)), 1.0)
            }
            Self::Neighbours(near) => (near.predict(row), 1.0),
            Self::Svr(vectors) => (vectors.predict(row), 1.0),
            Self::Trees(trees) => (trees.predict(row), 1.0),
            Self::Blend(blend) => blend.say(row),
        }
    }

    pub fn constant(watts: f64, width: usize) -> Self {
        Self::Linear(Linear { bias: watts, weights: vec![0.0; width] })
    }
}
