//! `a·exp(b·s) + c` over the main feature.

use super::learned::Curve;
use super::logarithmic::curve;
use super::{Learned, Task};
use crate::Error;

pub fn learn(task: &Task<'_>) -> Result<Learned, Error> {
    curve(task, Curve::Exponential, |low, high, _| {
        let a = ((high - low) / std::f64::consts::E).floor();
        vec![a, 1.0, low - a]
    })
}
