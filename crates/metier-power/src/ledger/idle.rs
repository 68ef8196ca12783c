//! What a metered node idles with, found from its own history: no meter tells it, and no node is ever quite idle.
//!
//! Power is taken for a straight line over busy processors, `watts = idle + slope · busy`, by least squares: its value at 0 is idling, at most the least that was
//! ever measured. Where the processors were about equally busy all the time no line can be told; then the least that was measured stands in, which is rather too much.

/// Entries that a line needs.
const MIN_FIT_POINTS: usize = 24;
/// Processors between the least and the most busy entry that a line needs.
const MIN_FIT_CORES: f64 = 0.25;

/// How idle power was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleMethod {
    /// A line through what was measured.
    Fitted,
    /// The least that was measured.
    Least,
    /// The predictor says so.
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
    // Power that falls with load is somebody else's: of a graphics card, say.
    let slope = (with / square).max(0.0);
    Some(((watts - slope * busy).clamp(0.0, least), IdleMethod::Fitted))
}
