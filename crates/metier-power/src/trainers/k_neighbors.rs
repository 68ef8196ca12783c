//! The mean of the six nearest rows.

use metier_learn::regress::nearest_neighbours::NearestNeighbours;

use super::{LearnedFormula, TrainerTask};
use crate::Error;

pub fn learn(task: &TrainerTask<'_>) -> Result<LearnedFormula, Error> {
    Ok(LearnedFormula::Neighbours(NearestNeighbours::fit(task.x, task.y, 6)?))
}
