//! `A/(1 + exp(-k·(s - s0))) + c` over the main feature.

use super::learned::Curve;
use super::logarithmic::curve;
use super::{Learned, Task};
use crate::Error;

pub fn learn(task: &Task<'_>) -> Result<Learned, Error> {
    curve(task, Curve::Logistic, |low, high, spread| {
        vec![high - low, 0.5, ((high - low) / spread).floor(), low]
    })
}
