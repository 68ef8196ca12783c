//! Medians, and the relative change between two of them.

/// The median of sorted values.
pub fn median(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    let upper = *sorted.get(n / 2)?;
    if n % 2 == 1 { Some(upper) } else { sorted.get(n / 2 - 1).map(|lower| (lower + upper) / 2.0) }
}

/// Relative change b/a − 1 of two values of at least 0; infinite from 0 to a positive value, 0 from
/// 0 to 0.
pub fn relative_change(a: f64, b: f64) -> f64 {
    if a == b {
        0.0
    } else if a == 0.0 {
        f64::INFINITY
    } else {
        b / a - 1.0
    }
}
