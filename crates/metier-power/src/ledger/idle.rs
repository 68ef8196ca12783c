//! Estimates the idle power of a metered node from its history; no meter measures it, and a node is
//! never fully idle.
//!
//! A least-squares line `watts = idle + slope · busy` is fitted over busy processors. Its
//! intercept is the idle power, limited to the smallest measured power. If utilisation hardly
//! varied, no line can be fitted. Then the smallest measured power is used, which overestimates
//! idle power.

/// Fewest entries for a fit.
const MIN_FIT_POINTS: usize = 24;
/// Smallest range of busy processors for a fit.
const MIN_FIT_CORES: f64 = 0.25;

/// Method by which idle power was estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleMethod {
    /// Intercept of a line through the measurements.
    Fitted,
    /// Smallest measured power.
    Least,
    /// Value of the predictor.
    Predicted,
}

/// Idle power from (busy processors, watts).
pub fn estimate_idle(points: &[(f64, f64)]) -> Option<(f64, IdleMethod)> {
    let least = points.iter().map(|(_, watts)| *watts).reduce(f64::min)?;
    let count = points.len() as f64;
    let ends =
        points.iter().fold((f64::MAX, 0.0f64), |(low, high), (busy, _)| (low.min(*busy), high.max(*busy)));
    if points.len() < MIN_FIT_POINTS || ends.1 - ends.0 < MIN_FIT_CORES {
        return Some((least, IdleMethod::Least));
    }
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (busy, watts) = (mean(|point| point.0), mean(|point| point.1));
    let (mut with, mut square) = (0.0, 0.0);
    for point in points {
        with += (point.0 - busy) * (point.1 - watts);
        square += (point.0 - busy).powi(2);
    }
    // Power that falls with load comes from another device, such as a graphics card.
    let slope = (with / square).max(0.0);
    Some(((watts - slope * busy).clamp(0.0, least), IdleMethod::Fitted))
}
