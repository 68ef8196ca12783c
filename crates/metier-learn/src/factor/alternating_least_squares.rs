//! Alternating least squares: with all platforms' factors fixed each workload's are a small ridge
//! regression, and vice versa.

use super::{FactorTrainingSet, RunObservation, Settings, combine_factors};
use crate::Error;
use crate::linear_algebra::{CholeskyFactor, DenseMatrix};
use crate::random::SplitMix64;

/// Ridge of the effects, which is small because they hardly overfit.
const EFFECT_RIDGE: f64 = 0.01;

pub struct AlsSolution {
    pub level: f64,
    pub noise: f64,
    pub workloads: DenseMatrix,
    pub platforms: DenseMatrix,
}

pub fn solve_als(runs: &FactorTrainingSet, settings: &Settings) -> Result<AlsSolution, Error> {
    let level = runs.runs.iter().map(|run| run.log_seconds).sum::<f64>() / runs.runs.len() as f64;
    let width = settings.rank + 1;
    let mut random = SplitMix64::new(settings.seed);
    let mut workloads = DenseMatrix::zeros(runs.workloads.rows(), width);
    let mut platforms = DenseMatrix::zeros(runs.platforms.rows(), width);
    for matrix in [&mut workloads, &mut platforms] {
        for row in 0..matrix.rows() {
            for column in 1..width {
                // Small and different, because equal columns would stay equal.
                *matrix.at_mut(row, column) = 0.2 * (random.next_fraction() - 0.5);
            }
        }
    }
    let by_workload = group_by_index(runs.workloads.rows(), &runs.runs, |run| (run.workload, run.platform));
    let by_platform = group_by_index(runs.platforms.rows(), &runs.runs, |run| (run.platform, run.workload));
    for _ in 0..settings.rounds {
        solve_rows(&mut workloads, &platforms, &by_workload, level, settings.ridge)?;
        solve_rows(&mut platforms, &workloads, &by_platform, level, settings.ridge)?;
    }
    let squares = |run: &RunObservation| {
        (run.log_seconds - combine_factors(level, workloads.row(run.workload), platforms.row(run.platform)))
            .powi(2)
    };
    // Subtract the degrees of freedom absorbed by effects and factors.
    let free = (runs.runs.len() as f64 - (width * (runs.workloads.rows() + runs.platforms.rows())) as f64)
        .max(runs.runs.len() as f64 * 0.2);
    let noise = (runs.runs.iter().map(squares).sum::<f64>() / free).max(1e-8);
    Ok(AlsSolution { level, noise, workloads, platforms })
}

/// For each workload or platform, its partners and times.
fn group_by_index(
    count: usize,
    runs: &[RunObservation],
    of: impl Fn(&RunObservation) -> (usize, usize),
) -> Vec<Vec<(usize, f64)>> {
    let mut out = vec![Vec::new(); count];
    for run in runs {
        let (own, other) = of(run);
        out[own].push((other, run.log_seconds));
    }
    out
}

fn solve_rows(
    own: &mut DenseMatrix,
    others: &DenseMatrix,
    lists: &[Vec<(usize, f64)>],
    level: f64,
    ridge: f64,
) -> Result<(), Error> {
    let width = own.width();
    let mut design = vec![1.0; width];
    for (row, list) in lists.iter().enumerate() {
        let mut normal = DenseMatrix::zeros(width, width);
        let mut right = vec![0.0; width];
        for (other, log) in list {
            let other = others.row(*other);
            design[1..].copy_from_slice(&other[1..]);
            normal.add_outer_product(&design, 1.0);
            let left = log - level - other[0];
            right.iter_mut().zip(&design).for_each(|(right, design)| *right += design * left);
        }
        for at in 0..width {
            *normal.at_mut(at, at) += if at == 0 { EFFECT_RIDGE } else { ridge };
        }
        let Some(cholesky) = CholeskyFactor::new(&normal) else {
            return Err(Error::Table {
                why: "times so far apart that they cannot be solved for".to_string(),
            });
        };
        for (at, value) in cholesky.solve(&right).into_iter().enumerate() {
            *own.at_mut(row, at) = value;
        }
    }
    Ok(())
}
