//! The straight line through a series.

/// The line of least squares through values at 0, 1, 2, …
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FittedLine {
    /// The value in the middle of the series.
    pub middle: f64,
    /// Change from one sample to the next.
    pub slope: f64,
    samples: usize,
}

impl FittedLine {
    pub fn new(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let centre = (count - 1.0) / 2.0;
        let middle = values.iter().sum::<f64>() / count.max(1.0);
        let (mut product, mut square) = (0.0, 0.0);
        for (at, value) in values.iter().enumerate() {
            let distance = at as f64 - centre;
            product += distance * (value - middle);
            square += distance * distance;
        }
        Self { middle, slope: if square > 0.0 { product / square } else { 0.0 }, samples: values.len() }
    }

    /// The line's value at a sample.
    pub fn at(&self, sample: f64) -> f64 {
        self.middle + self.slope * (sample - (self.samples as f64 - 1.0) / 2.0)
    }
}

/// The values with their line removed.
pub fn without_trend(values: &[f64]) -> Vec<f64> {
    let line = FittedLine::new(values);
    values.iter().enumerate().map(|(at, value)| value - line.at(at as f64)).collect()
}
