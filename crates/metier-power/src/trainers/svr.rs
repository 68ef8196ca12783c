//! Support vectors with a Gaussian kernel: cost 1, errors below 0.2 W do not count.

use metier_learn::regress::svr::{Settings, Svr};

use super::{Learned, Task};
use crate::Error;

pub fn learn(task: &Task<'_>) -> Result<Learned, Error> {
    Ok(Learned::Svr(Svr::fit(task.x, task.y, Settings { cost: 1.0, epsilon: 0.2 })?))
}
