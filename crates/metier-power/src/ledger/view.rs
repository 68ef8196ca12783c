//! What is shown of a ledger: the latest entries, those who took most, and how the estimate did against the meter.

use std::collections::HashMap;
use std::hash::Hash;

use super::{LedgerEntry, PowerLedger};

/// Below this many watts an error in per cent says nothing.
const RELATIVE_ERROR_FLOOR_WATTS: f64 = 1.0;

/// The latest entries, and who took most.
#[derive(Debug)]
pub struct LedgerView<'a, K> {
    pub entries: Vec<&'a LedgerEntry<K>>,
    /// Those who took most energy over these entries, the first the most.
    pub consumers: Vec<LedgerConsumer<K>>,
    /// What all others took in each entry; `None` where nothing is known.
    pub others: Vec<Option<f64>>,
    /// How the estimate did; `None` where there is no meter or no predictor.
    pub compared: Option<EstimateComparison>,
}

/// One who takes power.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerConsumer<K> {
    pub who: K,
    /// Watts on average, over all entries whose parts are known.
    pub mean: f64,
    /// Watts in each entry; `None` where it was among the others, or nothing is known.
    pub watts: Vec<Option<f64>>,
}

/// How the estimate did against the meter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EstimateComparison {
    /// Entries that have both.
    pub entries: usize,
    /// Mean of the absolute differences, in watts.
    pub mae: f64,
    /// Mean of the differences relative to the meter, in entries above a watt.
    pub mape: Option<f64>,
    /// Mean of estimated less measured, in watts.
    pub bias: f64,
    /// Entries whose estimate has an interval, and those of them whose measured power is inside.
    pub inside: Option<(usize, usize)>,
}

impl<K: Clone + Eq + Hash> PowerLedger<K> {
    /// The latest entries, and at most so many consumers by name.
    pub fn view(&self, latest: usize, most: usize) -> LedgerView<'_, K> {
        let entries: Vec<&LedgerEntry<K>> =
            self.entries.iter().skip(self.entries.len().saturating_sub(latest)).collect();
        let mut energy: HashMap<&K, f64> = HashMap::new();
        let mut seconds = 0.0;
        for entry in &entries {
            let Some(parts) = &entry.parts else { continue };
            seconds += entry.seconds;
            for (who, watts) in &parts.named {
                *energy.entry(who).or_default() += watts * entry.seconds;
            }
        }
        let mut ranked: Vec<(&K, f64)> = energy.into_iter().collect();
        // Among equals who was met first stays first, so that rows do not change places.
        let place = |who: &K| {
            let all = entries.iter().filter_map(|entry| entry.parts.as_ref()).flat_map(|parts| &parts.named);
            all.into_iter().position(|(known, _)| known == who)
        };
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| place(a.0).cmp(&place(b.0))));
        ranked.truncate(most);
        let consumers: Vec<LedgerConsumer<K>> = ranked
            .into_iter()
            .map(|(who, joules)| LedgerConsumer {
                who: who.clone(),
                mean: if seconds > 0.0 { joules / seconds } else { 0.0 },
                watts: entries.iter().map(|entry| watts_of(entry, who)).collect(),
            })
            .collect();
        let others = entries
            .iter()
            .map(|entry| {
                let parts = entry.parts.as_ref()?;
                let is_shown = |who: &K| consumers.iter().any(|consumer| consumer.who == *who);
                let rest = parts.named.iter().filter(|(who, _)| !is_shown(who)).map(|(_, watts)| watts);
                // Sums of nobody are -0, which would be shown so.
                Some(parts.others + rest.sum::<f64>() + 0.0)
            })
            .collect();
        let compared = compared(&entries);
        LedgerView { entries, consumers, others, compared }
    }
}

fn watts_of<K: Eq>(entry: &LedgerEntry<K>, who: &K) -> Option<f64> {
    let named = &entry.parts.as_ref()?.named;
    named.iter().find(|(known, _)| known == who).map(|(_, watts)| *watts)
}

fn compared<K>(entries: &[&LedgerEntry<K>]) -> Option<EstimateComparison> {
    let pairs: Vec<(f64, super::EstimatedPower)> =
        entries.iter().filter_map(|entry| Some((entry.measured?, entry.estimated?))).collect();
    if pairs.is_empty() {
        return None;
    }
    let count = pairs.len() as f64;
    let mean = |of: &dyn Fn(&(f64, super::EstimatedPower)) -> f64| pairs.iter().map(of).sum::<f64>() / count;
    let relative: Vec<f64> = pairs
        .iter()
        .filter(|(measured, _)| *measured > RELATIVE_ERROR_FLOOR_WATTS)
        .map(|(measured, power)| (power.watts - measured).abs() / measured)
        .collect();
    let ends: Vec<bool> = pairs
        .iter()
        .filter_map(|(measured, power)| power.interval.map(|(low, high)| (low..=high).contains(measured)))
        .collect();
    Some(EstimateComparison {
        entries: pairs.len(),
        mae: mean(&|(measured, power)| (power.watts - measured).abs()),
        mape: (!relative.is_empty()).then(|| relative.iter().sum::<f64>() / relative.len() as f64),
        bias: mean(&|(measured, power)| power.watts - measured),
        inside: (!ends.is_empty()).then(|| (ends.len(), ends.iter().filter(|is| **is).count())),
    })
}
