//! Folding a series at a period: the mean shape of a cycle.

/// Most phases where noise counts: few phases average it.
const COARSE_PHASES: usize = 24;
/// Most phases where edges count: each sample of a cycle has its own up to here.
const FINE_PHASES: usize = 512;

/// The shape of one cycle.
#[derive(Debug, Clone, PartialEq)]
pub struct FoldedCycle {
    /// Cycle length in samples.
    pub period: f64,
    sums: Vec<f64>,
    counts: Vec<f64>,
}

impl FoldedCycle {
    /// Folds values at 0, 1, 2, … samples into few phases, for tests.
    pub fn coarse(values: &[f64], period: f64) -> Self {
        Self::new(values, period, COARSE_PHASES)
    }

    /// Folds values at 0, 1, 2, … samples with a phase for each sample of the cycle.
    pub fn fine(values: &[f64], period: f64) -> Self {
        Self::new(values, period, FINE_PHASES)
    }

    fn new(values: &[f64], period: f64, most: usize) -> Self {
        let phases = (period.round() as usize).clamp(2, most);
        let mut cycle = Self { period, sums: vec![0.0; phases], counts: vec![0.0; phases] };
        for (at, value) in values.iter().enumerate() {
            let phase = cycle.phase(at as f64);
            cycle.sums[phase] += value;
            cycle.counts[phase] += 1.0;
        }
        cycle
    }

    fn phase(&self, sample: f64) -> usize {
        let phases = self.sums.len();
        let turn = (sample + 0.5) / self.period;
        (((turn - turn.floor()) * phases as f64) as usize).min(phases - 1)
    }

    /// The mean of a sample's phase.
    pub fn mean_at(&self, sample: f64) -> f64 {
        let phase = self.phase(sample);
        if self.counts[phase] > 0.0 { self.sums[phase] / self.counts[phase] } else { 0.0 }
    }

    /// Share of the values' variance that the other cycles explain: each value is predicted from
    /// its phase without itself. Below 0 where that is worse than the mean.
    pub fn explained_share(&self, flat: &[f64]) -> f64 {
        let (mut rest, mut total) = (0.0, 0.0);
        for (at, value) in flat.iter().enumerate() {
            let phase = self.phase(at as f64);
            let others = self.counts[phase] - 1.0;
            let expected = if others > 0.0 { (self.sums[phase] - value) / others } else { 0.0 };
            rest += (value - expected).powi(2);
            total += value * value;
        }
        if total > 0.0 { 1.0 - rest / total } else { 0.0 }
    }
}
