//! Weighted mean of methods by their past errors.
//!
//! Weights fall with the eighth power of the recent mean absolute error at the same step (Bates and
//! Granger 1969; Timmermann 2006, *Forecast combinations*, section 4). A weight depends only on
//! errors that were known at its time.

/// Recent absolute errors of each method for each target.
#[derive(Debug, Clone)]
pub struct ErrorLedger {
    methods: usize,
    errors: Vec<f64>,
    decay: f64,
    /// Targets with an error: the first ones, since near steps come true first.
    known_targets: usize,
}

impl ErrorLedger {
    pub fn new(methods: usize, targets: usize, half_life: f64) -> Self {
        let decay = (-std::f64::consts::LN_2 / half_life).exp();
        Self { methods, errors: vec![0.0; methods * targets], decay, known_targets: 0 }
    }

    /// Takes the error of each method for one target.
    pub fn record(&mut self, target: usize, value: f64, forecasts: &[f64]) {
        self.known_targets = self.known_targets.max(target + 1);
        let errors = &mut self.errors[target * self.methods..(target + 1) * self.methods];
        for (entry, forecast) in errors.iter_mut().zip(forecasts) {
            *entry = self.decay * *entry + (value - forecast).abs();
        }
    }

    /// Combines the forecasts of all methods for one target. Beyond the known targets the errors of
    /// the last known one count: a horizon longer than the history has no errors of its own.
    pub fn combine(&self, target: usize, forecasts: &[f64]) -> f64 {
        let target = target.min(self.known_targets.saturating_sub(1));
        let errors = &self.errors[target * self.methods..(target + 1) * self.methods];
        let best = errors.iter().copied().fold(f64::INFINITY, f64::min);
        let base = forecasts[0];
        let (mut sum, mut total) = (0.0, 0.0);
        for (&error, forecast) in errors.iter().zip(forecasts) {
            let ratio = if error > best { best / error } else { 1.0 };
            let square = ratio * ratio;
            let fourth = square * square;
            let weight = fourth * fourth;
            total += weight;
            sum += weight * (forecast - base);
        }
        base + sum / total
    }
}
