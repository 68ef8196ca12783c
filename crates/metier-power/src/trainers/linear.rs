//! Least squares with coefficients that are not negative.

use metier_learn::regress::linear::not_negative;

use super::{Learned, Task};
use crate::Error;

pub fn learn(task: &Task<'_>) -> Result<Learned, Error> {
    Ok(Learned::Linear(not_negative(task.x, task.y)?))
}
