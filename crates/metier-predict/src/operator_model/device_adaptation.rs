//! A predictor on another device: what each family costs there, from its passport and a few graphs that were measured.
//!
//! With `t_f` the seconds that the predictor says for family `f` of a graph, the other device takes `Σ_f exp(θ_f) · t_f`. The prior for `θ` is what the two
//! passports say; each measured graph moves it, mostly for the families that the graph spends its time in (Gauss–Newton steps on the
//! logarithm, with a ridge around the prior).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::linear::ridge;

/// Factors by family, as logarithms.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DeviceAdaptation {
    /// What every family is slower by.
    pub common: f64,
    /// What each is slower by beyond that.
    pub families: BTreeMap<String, f64>,
    /// How far off it is on the graphs that it learned from, as a logarithm: root of the mean square.
    pub spread: f64,
    /// Graphs that it learned from.
    pub graphs: u64,
}

/// A graph that was measured on the other device.
#[derive(Debug, Clone, PartialEq)]
pub struct TransferGraph {
    /// What the predictor says for each family.
    pub seconds_by_family: BTreeMap<String, f64>,
    /// What it took there.
    pub seconds: f64,
}

/// How strongly a family's own factor is drawn towards the common one, in graphs.
const FAMILY_RIDGE: f64 = 0.5;
/// How strongly the common one is drawn towards the passports'.
const COMMON_RIDGE: f64 = 0.1;

impl DeviceAdaptation {
    /// From the passports alone.
    pub fn prior(ratio: f64) -> Self {
        Self { common: ratio.max(1e-6).ln(), ..Self::default() }
    }

    /// Moves the prior by graphs that were measured.
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
                    // Around the present point; the ridge is around the prior.
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

    /// What a family is slower by.
    pub fn factor(&self, family: &str) -> f64 {
        (self.common + self.families.get(family).copied().unwrap_or(0.0)).exp()
    }

    /// What a graph takes there.
    pub fn apply(&self, seconds_by_family: &BTreeMap<String, f64>) -> f64 {
        seconds_by_family
            .iter()
            .map(|(family, seconds)| seconds * self.factor(family))
            .sum::<f64>()
            .max(1e-12)
    }
}
