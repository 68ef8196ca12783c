//! Adapts a predictor to another device: a factor for each operator family, from the device's
//! passport and a few measured graphs.
//!
//! With `t_f` the predicted seconds for family `f` of a graph, the other device takes `Σ_f exp(θ_f)
//! · t_f`. The prior for `θ` is the ratio of the two passports. Each measured graph moves it,
//! mostly for the families with the largest time (Gauss–Newton steps on the logarithm, with a ridge
//! around the prior).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::linear::ridge;

/// Factors by family, as logarithms.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DeviceAdaptation {
    /// Slowdown common to all families.
    pub common: f64,
    /// Additional slowdown of each family.
    pub families: BTreeMap<String, f64>,
    /// Error on the training graphs, as a logarithm: root mean square.
    pub spread: f64,
    /// Number of training graphs.
    pub graphs: u64,
}

/// A graph measured on the other device.
#[derive(Debug, Clone, PartialEq)]
pub struct TransferGraph {
    /// Predicted seconds of each family.
    pub seconds_by_family: BTreeMap<String, f64>,
    /// Measured seconds.
    pub seconds: f64,
}

/// Ridge weight towards the common factor, in graphs.
const FAMILY_RIDGE: f64 = 0.5;
/// Ridge weight of the common factor towards the passports' ratio, in graphs.
const COMMON_RIDGE: f64 = 0.1;

impl DeviceAdaptation {
    /// The adaptation from the passports alone.
    pub fn prior(ratio: f64) -> Self {
        Self { common: ratio.max(1e-6).ln(), ..Self::default() }
    }

    /// Fits the factors on measured graphs, starting from the prior.
    pub fn fit(prior: &Self, graphs: &[TransferGraph]) -> Self {
        let usable: Vec<&TransferGraph> = graphs
            .iter()
            .filter(|graph| {
                graph.seconds > 0.0
                    && graph.seconds.is_finite()
                    && graph.seconds_by_family.values().sum::<f64>() > 0.0
            })
            .collect();
        let mut families: Vec<&String> =
            usable.iter().flat_map(|graph| graph.seconds_by_family.keys()).collect();
        families.sort();
        families.dedup();
        let mut this = prior.clone();
        let mut penalty = vec![FAMILY_RIDGE; families.len() + 1];
        penalty[0] = COMMON_RIDGE;
        for _ in 0..8 {
            let rows: Vec<(Vec<f64>, f64, f64)> = usable
                .iter()
                .map(|graph| {
                    let value = this.apply(&graph.seconds_by_family);
                    let mut row = vec![1.0];
                    row.extend(families.iter().map(|family| {
                        let seconds = graph.seconds_by_family.get(*family).copied().unwrap_or(0.0);
                        this.factor(family) * seconds / value
                    }));
                    // Linearised around the current point; the ridge is centred on the prior.
                    let own: f64 = (this.common - prior.common)
                        + families
                            .iter()
                            .zip(&row[1..])
                            .map(|(family, share)| share * this.beyond(family, prior))
                            .sum::<f64>();
                    (row, (graph.seconds / value).ln() + own, 1.0)
                })
                .collect();
            let found = ridge(&rows, &penalty);
            this.common = prior.common + found[0].clamp(-5.0, 5.0);
            for (family, moved) in families.iter().zip(&found[1..]) {
                let base = prior.families.get(*family).copied().unwrap_or(0.0);
                this.families.insert((*family).clone(), base + moved.clamp(-3.0, 3.0));
            }
        }
        let left: f64 = usable
            .iter()
            .map(|graph| (graph.seconds / this.apply(&graph.seconds_by_family)).ln().powi(2))
            .sum();
        this.spread = (left / usable.len().max(1) as f64).sqrt();
        this.graphs = usable.len() as u64;
        this
    }

    fn beyond(&self, family: &str, prior: &Self) -> f64 {
        let of = |adaptation: &Self| adaptation.families.get(family).copied().unwrap_or(0.0);
        of(self) - of(prior)
    }

    /// Factor of a family.
    pub fn factor(&self, family: &str) -> f64 {
        (self.common + self.families.get(family).copied().unwrap_or(0.0)).exp()
    }

    /// Predicted seconds of a graph on the other device.
    pub fn apply(&self, seconds_by_family: &BTreeMap<String, f64>) -> f64 {
        seconds_by_family
            .iter()
            .map(|(family, seconds)| seconds * self.factor(family))
            .sum::<f64>()
            .max(1e-12)
    }
}
