//! How features become watts. Every formula works on features divided by their largest value of the training rows (`scale`), and
//! what comes out below zero is zero: no component gives power back.
//!
//! | kind | watts |
//! |---|---|
//! | linear | `bias + Σ weight·s` |
//! | exponential `[a, b, c]` | `a·exp(b·s) + c` of the component's main feature |
//! | logarithmic `[a, b, c]` | `a·ln(b·s + 1) + c` |
//! | logistic `[a, s0, k, c]` | `a/(1 + exp(-k·(s - s0))) + c` |
//! | polynomial | `bias + Σ weight·p`, p = 1, s_i, s_i·s_j (i ≤ j) |
//! | xgboost | the sum of its leaves in single precision, tree after tree |
//! | boosted | the sum of its leaves; the features as they are |
//! | learned | what [`Learned`] says of scaled features |

use metier_learn::boost::Boosted;
use metier_learn::xgboost::XGBoost;

use crate::trainers::Learned;
use crate::vocabulary::{Component, main_feature};

/// The form of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Curve {
    /// `a·exp(b·s) + c`.
    Exponential,
    /// `a·ln(b·s + 1) + c`.
    Logarithmic,
    /// `a/(1 + exp(-k·(s - s0))) + c`.
    Logistic,
}

impl Curve {
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

/// What is done with scaled features.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// A weight for each feature.
    Linear {
        /// Watts at rest.
        bias: f64,
        /// Watts of each feature at its scale.
        weights: Vec<f64>,
    },
    /// A curve over the main feature.
    Curve {
        /// Its form.
        curve: Curve,
        /// Its numbers.
        weights: Vec<f64>,
    },
    /// A weight for 1, each feature, and each product of two.
    Polynomial {
        /// Watts at rest.
        bias: f64,
        /// In the order 1, s_i, s_i·s_j with i ≤ j.
        weights: Vec<f64>,
    },
    /// Trees as XGBoost writes them.
    XGBoost(Box<XGBoost>),
    /// Trees of our own; they ask the features themselves, not the scaled ones.
    Boosted(Box<Boosted>),
    /// Whatever one of our trainers learned.
    Learned(Box<Learned>),
}

/// The watts of one component.
#[derive(Debug, Clone, PartialEq)]
pub struct Formula {
    /// Names of the features, in the order of a row.
    pub features: Vec<String>,
    /// The largest value of each in training; 1 where it was always 0.
    pub scale: Vec<f64>,
    /// What is done with them.
    pub kind: Kind,
    /// The place of the main feature.
    main: usize,
}

impl Formula {
    /// The formula of a component. `scale` is as long as `features`.
    pub fn new(component: Component, features: Vec<String>, scale: Vec<f64>, kind: Kind) -> Self {
        let main = main_feature(component, &features).unwrap_or(0);
        Self { features, scale, kind, main }
    }

    /// Watts for a row of features, never below zero. `None` where the formula has no value there.
    pub fn watts(&self, row: &[f64]) -> Option<f64> {
        let watts = self.raw(row);
        // A NaN is no answer; neither is a number without end.
        watts.is_finite().then_some(watts.max(0.0))
    }

    /// What the formula says, also where that is below zero.
    pub fn raw(&self, row: &[f64]) -> f64 {
        let scaled = |place: usize| match (row.get(place), self.scale.get(place)) {
            (Some(value), Some(scale)) if *scale != 0.0 => value / scale,
            _ => 0.0,
        };
        match &self.kind {
            Kind::Linear { bias, weights } => {
                // The sum first and the bias last, as the original adds: the same bits.
                let sum: f64 = weights.iter().enumerate().map(|(place, weight)| weight * scaled(place)).sum();
                sum + bias
            }
            Kind::Curve { curve, weights } => curve.at(weights, scaled(self.main)),
            Kind::Polynomial { bias, weights } => {
                let count = self.features.len();
                let mut sum = weights.first().copied().unwrap_or(0.0);
                let mut rest = weights.iter().skip(1);
                for place in 0..count {
                    sum += rest.next().copied().unwrap_or(0.0) * scaled(place);
                }
                for one in 0..count {
                    for other in one..count {
                        sum += rest.next().copied().unwrap_or(0.0) * scaled(one) * scaled(other);
                    }
                }
                sum + bias
            }
            Kind::XGBoost(trees) => {
                const ON_STACK: usize = 16;
                let count = self.features.len();
                if count <= ON_STACK {
                    let mut row = [0f32; ON_STACK];
                    for (place, value) in row.iter_mut().enumerate().take(count) {
                        *value = scaled(place) as f32;
                    }
                    f64::from(trees.predict(&row[..count]))
                } else {
                    let row: Vec<f32> = (0..count).map(|place| scaled(place) as f32).collect();
                    f64::from(trees.predict(&row))
                }
            }
            Kind::Boosted(trees) => trees.predict(row),
            Kind::Learned(learned) => {
                let row: Vec<f64> = (0..self.features.len()).map(scaled).collect();
                learned.watts(&row)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(curve: Curve, weights: &[f64]) -> Formula {
        let kind = Kind::Curve { curve, weights: weights.to_vec() };
        Formula::new(
            Component::Dram,
            vec!["bpf_cpu_time_ms".into(), "bpf_page_cache_hit".into()],
            vec![1.0, 2.0],
            kind,
        )
    }

    #[test]
    fn a_curve_of_memory_follows_the_traffic_and_not_the_first_feature() {
        let formula = curve(Curve::Exponential, &[1.0, 1.0, 0.0]);
        assert_eq!(formula.watts(&[100.0, 0.0]), Some(1.0));
        assert_eq!(formula.watts(&[0.0, 2.0]), Some(1f64.exp()));
    }

    #[test]
    fn nothing_gives_power_back() {
        let formula = curve(Curve::Logarithmic, &[1.0, 1.0, -683.0]);
        assert_eq!(formula.watts(&[0.0, 0.0]), Some(0.0));
        assert!(formula.raw(&[0.0, 0.0]) < 0.0);
    }

    #[test]
    fn where_a_formula_has_no_value_there_is_none() {
        assert_eq!(curve(Curve::Logarithmic, &[1.0, -1.0, 0.0]).watts(&[0.0, 4.0]), None);
        assert_eq!(curve(Curve::Exponential, &[1.0, 1e9, 0.0]).watts(&[0.0, 4.0]), None);
        assert_eq!(
            curve(Curve::Logistic, &[1.0, 1.0, 1.0]).watts(&[0.0, 4.0]),
            None,
            "three of four numbers"
        );
    }

    #[test]
    fn a_scale_of_zero_takes_the_feature_out() {
        let kind = Kind::Linear { bias: 1.0, weights: vec![5.0] };
        let formula = Formula::new(Component::Package, vec!["a".into()], vec![0.0], kind);
        assert_eq!(formula.watts(&[3.0]), Some(1.0));
    }
}
