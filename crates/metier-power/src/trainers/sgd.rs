//! A straight line by stochastic descent.

use metier_learn::regress::sgd;

use super::{Learned, Task};
use crate::Error;

pub fn learn(task: &Task<'_>) -> Result<Learned, Error> {
    Ok(Learned::Linear(sgd::fit(task.x, task.y, task.seed)?))
}
