//! Formulas that map features to watts. Features are divided by their largest training value
//! (`scale`). Results below zero become zero, since no component returns power.
//!
//! | kind | watts |
//! |---|---|
//! | linear | `bias + Σ weight·s` |
//! | exponential `[a, b, c]` | `a·exp(b·s) + c` of the component's main feature |
//! | logarithmic `[a, b, c]` | `a·ln(b·s + 1) + c` |
//! | logistic `[a, s0, k, c]` | `a/(1 + exp(-k·(s - s0))) + c` |
//! | polynomial | `bias + Σ weight·p`, p = 1, s_i, s_i·s_j (i ≤ j) |
//! | xgboost | sum of the leaves in single precision, tree after tree |
//! | boosted | sum of the leaves over unscaled features and ratios of two (`a/b`, 0 where b is 0) |
//! | learned | the value of [`LearnedFormula`] for scaled features |

use metier_learn::boost::{BatchTrees, BoostedTrees};
use metier_learn::xgboost::XgboostPredictor;

use crate::frame::FeatureFrame;
use crate::kepler_terms::{PowerComponent, main_feature};
pub use crate::trainers::CurveForm;
use crate::trainers::{ComponentPredictor, LearnedFormula, PowerPredictorFile, RANGE_MARGIN};

/// The function of the scaled features.
#[derive(Debug, Clone, PartialEq)]
pub enum FormulaKind {
    /// A weight for each feature.
    Linear {
        bias: f64,
        /// Watts of each feature at scaled value 1.
        weights: Vec<f64>,
    },
    /// A curve over the main feature.
    Curve { curve: CurveForm, weights: Vec<f64> },
    /// A weight for 1, each feature, and each product of two.
    Polynomial {
        bias: f64,
        /// In the order 1, s_i, s_i·s_j with i ≤ j.
        weights: Vec<f64>,
    },
    /// Trees in XGBoost's format.
    XGBoost(Box<XgboostPredictor>),
    /// Boosted trees of metier; they use unscaled features.
    Boosted(Box<FeatureTrees>),
    /// Any formula of metier's own trainers.
    Learned(Box<LearnedFormula>),
}

/// The 90 % prediction interval around a formula.
#[derive(Debug, Clone, PartialEq)]
pub enum FormulaSpread {
    /// Interval factor: half width in units of the predicted error size. The unit is watts, except
    /// for blends, which predict an error size per row.
    Reach(f64),
    /// Interval between the values of two formulas.
    Between(Box<[FormulaKind; 2]>),
}

/// Trees with their inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureTrees {
    batch: BatchTrees,
    asked: Vec<TreeInput>,
}

/// Input of a tree: a feature by its index, or the ratio of two.
#[derive(Debug, Clone, Copy, PartialEq)]
enum TreeInput {
    Feature(usize),
    Ratio(usize, usize),
}

impl FeatureTrees {
    /// Builds trees whose inputs are features or `a/b` of two features. The error is the unknown
    /// input name, or `None` if the trees themselves are invalid.
    pub fn new(trees: &BoostedTrees, features: &[String]) -> Result<Self, Option<String>> {
        let place = |name: &str| features.iter().position(|feature| feature == name);
        let asked = |name: &String| {
            let ratio = || {
                let (text, other) = name.split_once('/')?;
                Some(TreeInput::Ratio(place(text)?, place(other)?))
            };
            place(name).map(TreeInput::Feature).or_else(ratio).ok_or_else(|| Some(name.clone()))
        };
        let asked = trees.names.iter().map(asked).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { batch: BatchTrees::new(trees).ok_or(None)?, asked })
    }

    /// Watts of consecutive rows of this width.
    fn watts(&self, rows: &[f64], width: usize) -> Vec<f64> {
        let mut all = Vec::with_capacity(rows.len().checked_div(width).unwrap_or(0) * self.asked.len());
        for row in rows.chunks_exact(width.max(1)) {
            let at = |place: &usize| row.get(*place).copied().unwrap_or(0.0);
            all.extend(self.asked.iter().map(|asked| match asked {
                TreeInput::Feature(place) => at(place) as f32,
                TreeInput::Ratio(_, below) if at(below) == 0.0 => 0.0,
                TreeInput::Ratio(above, below) => (at(above) / at(below)) as f32,
            }));
        }
        self.batch.predict(&all)
    }
}

/// The watts of one component.
#[derive(Debug, Clone, PartialEq)]
pub struct PowerFormula {
    /// Feature names in the order of a row.
    pub features: Vec<String>,
    /// Largest training value of each feature; 1 if it was always 0.
    pub scale: Vec<f64>,
    /// The function of the scaled features.
    pub kind: FormulaKind,
    /// The prediction interval, if known.
    pub spread: Option<FormulaSpread>,
    /// Index of the main feature.
    main: usize,
}

impl PowerFormula {
    /// Creates a component's formula. `scale` is as long as `features`.
    pub fn new(component: PowerComponent, features: Vec<String>, scale: Vec<f64>, kind: FormulaKind) -> Self {
        let main = main_feature(component, &features).unwrap_or(0);
        Self { features, scale, kind, spread: None, main }
    }

    /// Watts for a row of features, never negative. `None` if the formula has no finite value.
    pub fn watts(&self, row: &[f64]) -> Option<f64> {
        let watts = self.raw(row);
        // NaN and infinities are rejected.
        watts.is_finite().then_some(watts.max(0.0))
    }

    /// Watts of all rows of a table; `None` if a feature is missing or a row has no value.
    pub fn watts_of_rows(&self, frame: &FeatureFrame) -> Option<Vec<f64>> {
        let columns: Vec<&[f64]> =
            self.features.iter().map(|name| frame.column(name)).collect::<Option<_>>()?;
        let mut row = Vec::with_capacity(columns.len());
        let watts = |number: usize| {
            row.clear();
            row.extend(columns.iter().map(|column| column[number]));
            self.watts(&row)
        };
        (0..frame.len()).map(watts).collect()
    }

    /// The ends of the interval around [`PowerFormula::watts`]; `None` if no spread is known.
    pub fn interval(&self, row: &[f64]) -> Option<(f64, f64)> {
        let value = self.watts(row)?;
        let (low, high) = match self.spread.as_ref()? {
            FormulaSpread::Reach(reach) => {
                let size = match &self.kind {
                    FormulaKind::Learned(learned) => learned.watts_with_error(&self.scaled(row)).1.max(1e-9),
                    _ => 1.0,
                };
                (value - reach * size, value + reach * size)
            }
            FormulaSpread::Between(ends) => (self.evaluate(&ends[0], row), self.evaluate(&ends[1], row)),
        };
        let is_whole = low.is_finite() && high.is_finite();
        is_whole.then_some((low.max(0.0).min(value), high.max(value)))
    }

    /// Whether all features are within the range of the training data.
    pub fn is_within(&self, row: &[f64]) -> bool {
        let pairs = row.iter().zip(&self.scale);
        pairs.into_iter().all(|(value, scale)| (0.0..=RANGE_MARGIN * scale).contains(value))
    }

    fn scaled(&self, row: &[f64]) -> Vec<f64> {
        let scaled_value = |(value, scale): (&f64, &f64)| if *scale == 0.0 { 0.0 } else { value / scale };
        row.iter().zip(&self.scale).map(scaled_value).collect()
    }

    /// Same result as [`Self::watts`] for consecutive rows, but faster. The error is the index of
    /// the first row without a value.
    pub fn watts_of(&self, rows: &[f64]) -> Result<Vec<f64>, usize> {
        let width = self.features.len();
        let raw: Vec<f64> = match &self.kind {
            FormulaKind::Boosted(trees) => trees.watts(rows, width),
            _ => rows.chunks_exact(width.max(1)).map(|row| self.raw(row)).collect(),
        };
        match raw.iter().position(|watts| !watts.is_finite()) {
            Some(row) => Err(row),
            None => Ok(raw.into_iter().map(|watts| watts.max(0.0)).collect()),
        }
    }

    /// The formula's value before negative results become zero.
    pub fn raw(&self, row: &[f64]) -> f64 {
        self.evaluate(&self.kind, row)
    }

    fn evaluate(&self, kind: &FormulaKind, row: &[f64]) -> f64 {
        let scaled = |place: usize| match (row.get(place), self.scale.get(place)) {
            (Some(value), Some(scale)) if *scale != 0.0 => value / scale,
            _ => 0.0,
        };
        match kind {
            FormulaKind::Linear { bias, weights } => {
                // Adds the bias last, as the original does, to get the same bits.
                let sum: f64 = weights.iter().enumerate().map(|(place, weight)| weight * scaled(place)).sum();
                sum + bias
            }
            FormulaKind::Curve { curve, weights } => curve.at(weights, scaled(self.main)),
            FormulaKind::Polynomial { bias, weights } => {
                let count = self.features.len();
                let mut sum = weights.first().copied().unwrap_or(0.0);
                let mut rest = weights.iter().skip(1);
                for place in 0..count {
                    sum += rest.next().copied().unwrap_or(0.0) * scaled(place);
                }
                for number in 0..count {
                    for other in number..count {
                        sum += rest.next().copied().unwrap_or(0.0) * scaled(number) * scaled(other);
                    }
                }
                sum + bias
            }
            FormulaKind::XGBoost(trees) => {
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
            FormulaKind::Boosted(trees) => {
                trees.watts(row, self.features.len()).first().copied().unwrap_or(f64::NAN)
            }
            FormulaKind::Learned(learned) => {
                let row: Vec<f64> = (0..self.features.len()).map(scaled).collect();
                learned.watts(&row)
            }
        }
    }
}

impl PowerPredictorFile {
    /// The formula of each component.
    pub fn formulas(&self) -> Vec<(PowerComponent, PowerFormula)> {
        let scaled_value = |(component, part): (&PowerComponent, &ComponentPredictor)| {
            let kind = FormulaKind::Learned(Box::new(part.learned.clone()));
            let mut formula = PowerFormula::new(*component, self.features.clone(), self.scale.clone(), kind);
            formula.spread = part.reach.map(FormulaSpread::Reach);
            (*component, formula)
        };
        self.components.iter().map(scaled_value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(curve: CurveForm, weights: &[f64]) -> PowerFormula {
        let kind = FormulaKind::Curve { curve, weights: weights.to_vec() };
        PowerFormula::new(
            PowerComponent::Dram,
            vec!["bpf_cpu_time_ms".into(), "bpf_page_cache_hit".into()],
            vec![1.0, 2.0],
            kind,
        )
    }

    #[test]
    fn a_curve_of_memory_follows_the_traffic_and_not_the_first_feature() {
        let formula = curve(CurveForm::Exponential, &[1.0, 1.0, 0.0]);
        assert_eq!(formula.watts(&[100.0, 0.0]), Some(1.0));
        assert_eq!(formula.watts(&[0.0, 2.0]), Some(1f64.exp()));
    }

    #[test]
    fn nothing_gives_power_back() {
        let formula = curve(CurveForm::Logarithmic, &[1.0, 1.0, -683.0]);
        assert_eq!(formula.watts(&[0.0, 0.0]), Some(0.0));
        assert!(formula.raw(&[0.0, 0.0]) < 0.0);
    }

    #[test]
    fn where_a_formula_has_no_value_there_is_none() {
        assert_eq!(curve(CurveForm::Logarithmic, &[1.0, -1.0, 0.0]).watts(&[0.0, 4.0]), None);
        assert_eq!(curve(CurveForm::Exponential, &[1.0, 1e9, 0.0]).watts(&[0.0, 4.0]), None);
        assert_eq!(
            curve(CurveForm::Logistic, &[1.0, 1.0, 1.0]).watts(&[0.0, 4.0]),
            None,
            "three of four numbers"
        );
    }

    #[test]
    fn an_interval_is_around_the_value_and_is_not_made_up() {
        let line = |bias: f64, weight: f64| FormulaKind::Linear { bias, weights: vec![weight] };
        let mut formula =
            PowerFormula::new(PowerComponent::Package, vec!["a".into()], vec![10.0], line(2.0, 8.0));
        assert_eq!(formula.interval(&[5.0]), None, "without a spread there is no interval");
        formula.spread = Some(FormulaSpread::Reach(3.0));
        assert_eq!(formula.interval(&[5.0]), Some((3.0, 9.0)));
        assert_eq!(formula.interval(&[0.0]), Some((0.0, 5.0)), "nothing gives power back");
        formula.spread = Some(FormulaSpread::Between(Box::new([line(1.0, 4.0), line(4.0, 16.0)])));
        assert_eq!(formula.interval(&[10.0]), Some((5.0, 20.0)));
        assert!(formula.is_within(&[10.4]) && !formula.is_within(&[10.6]) && !formula.is_within(&[-1.0]));
    }

    #[test]
    fn a_scale_of_zero_takes_the_feature_out() {
        let kind = FormulaKind::Linear { bias: 1.0, weights: vec![5.0] };
        let formula = PowerFormula::new(PowerComponent::Package, vec!["a".into()], vec![0.0], kind);
        assert_eq!(formula.watts(&[3.0]), Some(1.0));
    }
}
