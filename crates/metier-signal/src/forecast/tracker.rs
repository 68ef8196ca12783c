//! The state of a forecast, which takes one sample at a time.
//!
//! Every method and their combination forecast the whole horizon from regular origins (rolling
//! origins: Tashman 2000). Each later sample is compared with the open forecasts. So each error
//! that enters a weight or a band belongs to a forecast that was made before its value was known.
//!
//! A sample costs methods operations for each of the open origins, fewer than twice
//! [`OPEN_ORIGINS`], and a new origin methods × horizon; the length of the series does not count.

use std::collections::VecDeque;

use super::bands::ErrorDistribution;
use super::combination::ErrorLedger;
use super::methods::{PointMethod, history_needed, list_methods};
use super::options::check_options;
use super::{ForecastDistribution, ForecastOptions, MAX_VALUE, MIN_HISTORY, SeriesForecast};
use crate::Error;

/// Origins in a horizon; the distance between origins follows from it.
const OPEN_ORIGINS: usize = 8;
/// Errors kept of each target.
const MAX_ERRORS: usize = 512;
/// Errors of a target below which those of nearer steps are used.
const MIN_ERRORS: usize = 4;
// Chosen on real utilisation series (`bench/signal/forecast --choice`), by the error of the
// quantiles.
/// Horizons after which a method's error counts half.
const METHOD_HALF_LIFE: f64 = 8.0;
/// Horizons after which an error counts half in the bands.
const BAND_HALF_LIFE: f64 = 5.0;
/// Share of the overlap of windows by which their errors count as dependent.
const OVERLAP_SHARE: f64 = 0.1;
/// Horizons over which the recent change is averaged.
const CHANGE_HORIZONS: f64 = 2.0;
/// Lower bound of the recent change relative to that of the whole series.
const MIN_CHANGE_SHARE: f64 = 0.1;
/// Most by which an error is scaled to the noise of now.
const MAX_NOISE_FACTOR: f64 = 3.0;

/// A forecast whose window is open.
#[derive(Debug, Clone)]
struct OriginForecast {
    /// Samples seen since.
    age: usize,
    /// Level of noise at the origin.
    noise: f64,
    /// Forecasts of each step by each method, step by step.
    by_method: Vec<f64>,
    steps: Vec<f64>,
    peak: f64,
    error_sum: f64,
    seen_peak: f64,
}

/// An error and the level of noise at its origin.
type ScaledError = (f64, f64);

/// Forecasts a series that grows; see [`super::forecast`].
#[derive(Debug, Clone)]
pub struct SeriesTracker {
    options: ForecastOptions,
    methods: Vec<PointMethod>,
    history: Vec<f64>,
    history_needed: usize,
    samples: usize,
    is_nonnegative: bool,
    /// Lowest and highest value so far.
    range: (f64, f64),
    /// Samples between origins.
    stride: usize,
    step_ledger: ErrorLedger,
    /// Mean absolute change of late, and since the start.
    recent_change: f64,
    mean_change: f64,
    /// Oldest first.
    open: VecDeque<OriginForecast>,
    /// Errors of each step, newest first.
    step_errors: Vec<VecDeque<ScaledError>>,
    mean_errors: VecDeque<ScaledError>,
    peak_errors: VecDeque<ScaledError>,
}

impl SeriesTracker {
    /// Starts with no sample; `period` in samples.
    pub fn new(period: Option<f64>, options: &ForecastOptions) -> Result<Self, Error> {
        check_options(period, options)?;
        let horizon = options.horizon;
        let methods = list_methods(period);
        let stride = (horizon / OPEN_ORIGINS).max(1);
        let half_life = METHOD_HALF_LIFE * horizon as f64 / stride as f64;
        Ok(Self {
            options: options.clone(),
            step_ledger: ErrorLedger::new(methods.len(), horizon, half_life),
            methods,
            history: Vec::new(),
            history_needed: history_needed(period),
            samples: 0,
            is_nonnegative: true,
            range: (f64::INFINITY, f64::NEG_INFINITY),
            stride,
            recent_change: 0.0,
            mean_change: 0.0,
            open: VecDeque::new(),
            step_errors: vec![VecDeque::new(); horizon],
            mean_errors: VecDeque::new(),
            peak_errors: VecDeque::new(),
        })
    }

    /// Takes the next sample.
    pub fn push(&mut self, value: f64) -> Result<(), Error> {
        if !value.is_finite() || value.abs() > MAX_VALUE {
            return Err(Error::WrongOption {
                option: "value",
                got: format!("{value} at sample {}", self.samples),
                want: "a number of at most 1e150; fill or drop gaps first",
            });
        }
        self.is_nonnegative &= value >= 0.0;
        self.range = (self.range.0.min(value), self.range.1.max(value));
        self.measure_change(value);
        self.score_open(value);
        self.history.push(value);
        if self.history.len() > 2 * self.history_needed {
            self.history.drain(..self.history.len() - self.history_needed);
        }
        for method in &mut self.methods {
            method.update(self.samples, value);
        }
        if self.samples.is_multiple_of(self.stride) {
            self.open.push_back(self.forecast_origin(self.samples));
        }
        self.samples += 1;
        Ok(())
    }

    fn measure_change(&mut self, value: f64) {
        let Some(last) = self.history.last() else { return };
        let change = (value - last).abs();
        let share = 1.0 / self.samples as f64;
        let gain = 1.0 / (CHANGE_HORIZONS * self.options.horizon as f64);
        self.recent_change += gain.max(share) * (change - self.recent_change);
        self.mean_change += share * (change - self.mean_change);
    }

    /// Level of noise now; never far below that of the whole series.
    fn noise(&self) -> f64 {
        self.recent_change.max(MIN_CHANGE_SHARE * self.mean_change)
    }

    /// Compares the open forecasts with a sample.
    fn score_open(&mut self, value: f64) {
        let methods = self.methods.len();
        for origin in &mut self.open {
            let step = origin.age;
            origin.age += 1;
            self.step_ledger.record(step, value, &origin.by_method[step * methods..(step + 1) * methods]);
            let error = value - origin.steps[step];
            record(&mut self.step_errors[step], (error, origin.noise));
            origin.error_sum += error;
            origin.seen_peak = origin.seen_peak.max(value);
        }
        let is_complete = self.open.front().is_some_and(|origin| origin.age == self.options.horizon);
        if let Some(origin) = is_complete.then(|| self.open.pop_front()).flatten() {
            record(&mut self.mean_errors, (origin.error_sum / self.options.horizon as f64, origin.noise));
            record(&mut self.peak_errors, (origin.seen_peak - origin.peak, origin.noise));
        }
    }

    /// The forecast after the sample `time`.
    fn forecast_origin(&self, time: usize) -> OriginForecast {
        let (horizon, methods) = (self.options.horizon, self.methods.len());
        let mut by_method = vec![0.0; methods * horizon];
        for (at, method) in self.methods.iter().enumerate() {
            method.predict(time, &self.history, by_method[at..].iter_mut().step_by(methods));
        }
        let steps: Vec<f64> = by_method
            .chunks_exact(methods)
            .enumerate()
            .map(|(step, forecasts)| self.step_ledger.combine(step, forecasts))
            .collect();
        OriginForecast {
            age: 0,
            noise: self.noise(),
            by_method,
            peak: highest(&steps),
            steps,
            error_sum: 0.0,
            seen_peak: f64::NEG_INFINITY,
        }
    }

    /// The forecast from the samples so far.
    pub fn forecast(&self) -> Result<SeriesForecast, Error> {
        if self.samples < MIN_HISTORY {
            return Err(Error::TooFewSamples { got: self.samples, want: MIN_HISTORY });
        }
        let origin = self.forecast_origin(self.samples - 1);
        let steps: Vec<ErrorDistribution> = self.step_distributions();
        let horizon = self.options.horizon;
        // Around the first step, so that equal steps have exactly their value as mean.
        let first = origin.steps[0];
        let centre = first + origin.steps.iter().map(|step| step - first).sum::<f64>() / horizon as f64;
        let of_mean = self.distribution(&self.mean_errors, horizon);
        let of_mean = of_mean.as_ref().unwrap_or(&steps[horizon - 1]);
        let peak = match self.distribution(&self.peak_errors, horizon) {
            Some(errors) => {
                self.place(origin.peak + errors.mean(), |level| origin.peak + errors.quantile(level))
            }
            None => self.place(highest(&origin.steps), |level| bound_peak(&origin.steps, &steps, level)),
        };
        Ok(SeriesForecast {
            mean: self.place(centre + of_mean.quantile(0.5), |level| centre + of_mean.quantile(level)),
            peak,
            steps: origin
                .steps
                .iter()
                .zip(&steps)
                .map(|(centre, errors)| {
                    self.place(centre + errors.quantile(0.5), |level| centre + errors.quantile(level))
                })
                .collect(),
        })
    }

    /// The errors of each step; those of nearer steps, wider, where there are few.
    fn step_distributions(&self) -> Vec<ErrorDistribution> {
        let pooled: VecDeque<ScaledError> = self.step_errors.iter().flatten().copied().collect();
        let mut nearest = ErrorDistribution::new(pooled.iter().map(|error| error.0), f64::INFINITY, 1.0);
        let mut nearest_step = None;
        (0..self.options.horizon)
            .filter_map(|step| {
                if let Some(own) = self.distribution(&self.step_errors[step], step + 1) {
                    nearest = Some(own);
                    nearest_step = Some(step);
                }
                if nearest_step == Some(step) {
                    return nearest.clone();
                }
                let growth = nearest_step.map_or(1.0, |near: usize| (step + 1) as f64 / (near + 1) as f64);
                nearest.as_ref().map(|errors| errors.widened(growth.sqrt()))
            })
            .collect()
    }

    /// The distribution of errors whose windows span some samples; none where there are few.
    fn distribution(&self, errors: &VecDeque<ScaledError>, span: usize) -> Option<ErrorDistribution> {
        if errors.len() < MIN_ERRORS {
            return None;
        }
        let now = self.noise();
        // The square root lies between errors that grow with the noise and errors that do not.
        let adapt = |&(error, noise): &ScaledError| {
            let factor = if noise > 0.0 { (now / noise).sqrt() } else { 1.0 };
            error * factor.clamp(1.0 / MAX_NOISE_FACTOR, MAX_NOISE_FACTOR)
        };
        let stride = self.stride as f64;
        let half_life = BAND_HALF_LIFE * self.options.horizon as f64 / stride;
        let overlap = OVERLAP_SHARE * span as f64 / stride;
        ErrorDistribution::new(errors.iter().map(adapt), half_life, overlap)
    }

    /// Quantiles in order; not negative where the series never was. Few errors say little of far
    /// quantiles, so these stay within the range of the values, widened by itself on both sides for
    /// each length of the series.
    fn place(&self, mean: f64, quantile: impl Fn(f64) -> f64) -> ForecastDistribution {
        let lengths = (self.options.horizon as f64 / self.samples as f64).max(1.0);
        let reach = (self.range.1 - self.range.0) * lengths;
        let floor = if self.is_nonnegative { 0.0 } else { f64::NEG_INFINITY }.max(self.range.0 - reach);
        let ceiling = self.range.1 + reach;
        let mut highest = floor;
        let mut raise = |level: &f64| {
            highest = highest.max(quantile(*level).min(ceiling));
            highest
        };
        ForecastDistribution {
            mean: mean.clamp(floor, ceiling),
            quantiles: self.options.quantiles.iter().map(&mut raise).collect(),
        }
    }
}

/// Bound of the peak's quantile from those of the steps, without assuming how steps depend on each
/// other (Bonferroni).
fn bound_peak(centres: &[f64], errors: &[ErrorDistribution], level: f64) -> f64 {
    let shared = if level > 0.5 { 1.0 - (1.0 - level) / centres.len() as f64 } else { level };
    let quantiles = centres.iter().zip(errors).map(|(centre, errors)| centre + errors.quantile(shared));
    quantiles.fold(f64::NEG_INFINITY, f64::max)
}

fn highest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

fn record(errors: &mut VecDeque<ScaledError>, error: ScaledError) {
    errors.push_front(error);
    errors.truncate(MAX_ERRORS);
}
