//! Spectra on a fine grid of frequencies, and powers at single frequencies.

use std::f64::consts::{PI, TAU};

use realfft::RealFftPlanner;

/// Grid points between two independent frequencies.
const OVERSAMPLING: usize = 4;

/// The power of a series on an even grid of frequencies from 0 to half a cycle a sample.
pub struct FineSpectrum {
    pub powers: Vec<f64>,
    /// Grid points per cycle a sample.
    pub size: usize,
    /// Samples of the series.
    pub samples: usize,
}

impl FineSpectrum {
    /// Transforms a series without trend. The sine taper keeps strong slow components from leaking
    /// into the rest (Riedel and Sidorenko 1995).
    pub fn new(planner: &mut RealFftPlanner<f64>, flat: &[f64]) -> Self {
        let samples = flat.len();
        let size = (samples * OVERSAMPLING).next_power_of_two();
        let transform = planner.plan_fft_forward(size);
        let (mut input, mut output) = (transform.make_input_vec(), transform.make_output_vec());
        for (at, value) in flat.iter().enumerate() {
            input[at] = value * (PI * (at as f64 + 0.5) / samples as f64).sin();
        }
        // The lengths are the transform's own, so it cannot fail; a spectrum of zeros has no
        // period.
        let _ = transform.process(&mut input, &mut output);
        Self { powers: output.iter().map(|value| value.norm_sqr()).collect(), size, samples }
    }

    /// Grid points per independent frequency.
    pub fn density(&self) -> f64 {
        self.size as f64 / self.samples as f64
    }

    /// The interpolated power at a frequency in cycles a sample.
    pub fn power_at(&self, frequency: f64) -> f64 {
        let place = frequency * self.size as f64;
        let (at, part) = (place as usize, place.fract());
        match (self.powers.get(at), self.powers.get(at + 1)) {
            (Some(left), Some(right)) => left * (1.0 - part) + right * part,
            _ => 0.0,
        }
    }
}

/// Powers at any frequencies by Goertzel's recurrence (1958), eight at a time.
pub fn powers_at(values: &[f64], frequencies: &[f64]) -> Vec<f64> {
    const LANES: usize = 8;
    let mut powers = vec![0.0; frequencies.len()];
    for (some, results) in frequencies.chunks(LANES).zip(powers.chunks_mut(LANES)) {
        let mut factors = [0.0; LANES];
        for (factor, frequency) in factors.iter_mut().zip(some) {
            *factor = 2.0 * (TAU * frequency).cos();
        }
        let (mut last, mut before) = ([0.0; LANES], [0.0; LANES]);
        for value in values {
            for lane in 0..LANES {
                let next = value + factors[lane] * last[lane] - before[lane];
                before[lane] = last[lane];
                last[lane] = next;
            }
        }
        for (lane, result) in results.iter_mut().enumerate() {
            *result = last[lane].powi(2) + before[lane].powi(2) - factors[lane] * last[lane] * before[lane];
        }
    }
    powers
}
