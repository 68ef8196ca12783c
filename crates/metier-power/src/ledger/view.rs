//! A view of a ledger: the latest entries, the largest consumers, and the estimate's error against
//! the meter.

use std::collections::HashMap;
use std::hash::Hash;

use super::{LedgerEntry, PowerLedger};

/// Entries below this many watts are left out of relative errors.
const RELATIVE_ERROR_FLOOR_WATTS: f64 = 1.0;

/// The latest entries and their largest consumers.
#[derive(Debug)]
pub struct LedgerView<'a, K> {
    pub entries: Vec<&'a LedgerEntry<K>>,
    /// Consumers with the most energy over these entries, in descending order.
    pub consumers: Vec<LedgerConsumer<K>>,
    /// Power of all other consumers in each entry; `None` if unknown.
    pub others: Vec<Option<f64>>,
    /// Error of the estimate; `None` without a meter or a predictor.
    pub compared: Option<EstimateComparison>,
}

/// A power consumer.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerConsumer<K> {
    pub identity: K,
    /// Mean watts over all entries with known parts.
    pub mean: f64,
    /// Watts in each entry; `None` if the consumer was not named there, or the parts are unknown.
    pub watts: Vec<Option<f64>>,
}

/// Error of the estimate against the meter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EstimateComparison {
    /// Entries with both a measurement and an estimate.
    pub entries: usize,
    /// Mean of the absolute differences, in watts.
    pub mae: f64,
    /// Mean relative difference to the meter, over entries above one watt.
    pub mape: Option<f64>,
    /// Mean of estimated minus measured, in watts.
    pub bias: f64,
    /// Entries whose estimate has an interval, and how many of them contain the measured power.
    pub inside: Option<(usize, usize)>,
}

impl<K: Clone + Eq + Hash> PowerLedger<K> {
    /// The latest entries and at most `most` named consumers.
    pub fn view(&self, latest: usize, most: usize) -> LedgerView<'_, K> {
        let entries: Vec<&LedgerEntry<K>> =
            self.entries.iter().skip(self.entries.len().saturating_sub(latest)).collect();
        let mut energy: HashMap<&K, f64> = HashMap::new();
        let mut seconds = 0.0;
        for entry in &entries {
            let Some(parts) = &entry.parts else { continue };
            seconds += entry.seconds;
            for (consumer, watts) in &parts.named {
                *energy.entry(consumer).or_default() += watts * entry.seconds;
            }
        }
        let mut ranked: Vec<(&K, f64)> = energy.into_iter().collect();
        // Ties keep the order of first appearance, so that rows do not swap.
        let place = |consumer: &K| {
            let all = entries.iter().filter_map(|entry| entry.parts.as_ref()).flat_map(|parts| &parts.named);
            all.into_iter().position(|(known, _)| known == consumer)
        };
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| place(a.0).cmp(&place(b.0))));
        ranked.truncate(most);
        let consumers: Vec<LedgerConsumer<K>> = ranked
            .into_iter()
            .map(|(consumer, joules)| LedgerConsumer {
                identity: consumer.clone(),
                mean: if seconds > 0.0 { joules / seconds } else { 0.0 },
                watts: entries.iter().map(|entry| watts_of(entry, consumer)).collect(),
            })
            .collect();
        let others = entries
            .iter()
            .map(|entry| {
                let parts = entry.parts.as_ref()?;
                let is_shown = |identity: &K| consumers.iter().any(|consumer| consumer.identity == *identity);
                let rest =
                    parts.named.iter().filter(|(consumer, _)| !is_shown(consumer)).map(|(_, watts)| watts);
                // An empty float sum is -0; adding 0 makes it 0.
                Some(parts.others + rest.sum::<f64>() + 0.0)
            })
            .collect();
        let compared = compared(&entries);
        LedgerView { entries, consumers, others, compared }
    }
}

fn watts_of<K: Eq>(entry: &LedgerEntry<K>, consumer: &K) -> Option<f64> {
    let named = &entry.parts.as_ref()?.named;
    named.iter().find(|(known, _)| known == consumer).map(|(_, watts)| *watts)
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
