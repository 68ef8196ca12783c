//! Held-out validation: a predictor's error on rows outside its training data, and the interval
//! factor from their residuals.

use metier_learn::conformal::{CalibrationRow, ConformalCalibration};
use metier_learn::score::PredictionScore;
use serde::{Deserialize, Serialize};

use super::{ComponentPredictor, LearnMethod, LearnedFormula, MIN_INTERVAL_ROWS, TrainerTask};
use crate::Error;
use crate::kepler_terms::PowerComponent;

/// Number of folds.
pub const HOLD_OUT_PARTS: usize = 5;
/// Coverage of the prediction intervals.
pub const INTERVAL_COVERAGE: f64 = 0.9;
/// Blocks in each fold.
const BLOCKS_PER_PART: usize = 2;
/// Smallest fold whose own residuals determine the interval factor.
const MIN_CALIBRATION_ROWS: usize = 100;

/// Assignment of rows to folds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldOutMethod {
    /// Every fifth row: known loads at other times.
    Rows,
    /// Contiguous blocks of time: loads that may be absent from the training data.
    Blocks,
}

impl HoldOutMethod {
    /// The fold of each row.
    pub fn parts(self, rows: usize) -> Vec<usize> {
        let part = |row: usize| match self {
            Self::Rows => row % HOLD_OUT_PARTS,
            Self::Blocks => (row * HOLD_OUT_PARTS * BLOCKS_PER_PART / rows.max(1)) % HOLD_OUT_PARTS,
        };
        (0..rows).map(part).collect()
    }
}

/// Held-out errors of one component.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComponentHeldOut {
    pub component: PowerComponent,
    /// How rows were assigned to folds.
    pub validation: HoldOutMethod,
    pub rows: usize,
    /// Mean of the absolute errors, in watts.
    pub mae: f64,
    /// Mean relative error of rows above the floor; `None` if there are none.
    pub mape: Option<f64>,
    /// Number of rows above the floor.
    pub rows_above_floor: usize,
    /// Share of rows inside an interval calibrated on the other folds; `None` without intervals.
    pub coverage: Option<f64>,
    /// Mean width of the intervals, in watts.
    pub width: Option<f64>,
}

impl ComponentHeldOut {
    /// Sort key: the worst component comes first.
    pub(super) fn badness(&self) -> f64 {
        self.mape.unwrap_or(0.0)
    }
}

/// Held-out predictions of each row: watts and error size.
fn predict_held_out(
    task: &TrainerTask<'_>,
    learn: fn(&TrainerTask<'_>) -> Result<LearnedFormula, Error>,
) -> Result<Vec<(f64, f64)>, Error> {
    let parts = task.validation.parts(task.y.len());
    let mut predictions = vec![(0.0, 1.0); task.y.len()];
    for part in 0..HOLD_OUT_PARTS {
        let keep: Vec<usize> = (0..parts.len()).filter(|row| parts[*row] != part).collect();
        let (x, y) = (task.x.select_rows(&keep), keep.iter().map(|row| task.y[*row]).collect::<Vec<f64>>());
        // An earlier predictor may have been trained on the held-out rows, so it is not continued.
        let learned = learn(&TrainerTask { x: &x, y: &y, from: None, ..*task })?;
        for row in (0..parts.len()).filter(|row| parts[*row] == part) {
            predictions[row] = learned.watts_with_error(task.x.row(row));
        }
    }
    Ok(predictions)
}

/// Trains one component on all rows and computes its held-out error.
pub(super) fn train_component(
    task: &TrainerTask<'_>,
    component: PowerComponent,
    learn: LearnMethod,
) -> Result<ComponentPredictor, Error> {
    let (learned, predictions) = match learn {
        LearnMethod::Plain(learn) => (learn(task)?, predict_held_out(task, learn)?),
        LearnMethod::Judged(learn) => learn(task)?,
    };
    let rows: Vec<CalibrationRow> = predictions
        .iter()
        .zip(task.y)
        .enumerate()
        .map(|(row, ((watts, scale), y))| CalibrationRow {
            measured: *y,
            predicted: if watts.is_finite() { watts.max(0.0) } else { 0.0 },
            scale: scale.max(1e-9),
            group: row as u64,
        })
        .collect();
    let parts = task.validation.parts(rows.len());
    // A few rows do not determine the 90 % quantile.
    let reach = |without| {
        if rows.len() < MIN_INTERVAL_ROWS { Ok(None) } else { reach(&rows, &parts, task.validation, without) }
    };
    let (mut covered, mut width, mut asked) = (0usize, 0.0, 0usize);
    for part in 0..HOLD_OUT_PARTS {
        let Some(reach) = reach(Some(part))? else { continue };
        for (row, _) in rows.iter().zip(&parts).filter(|(_, own)| **own == part) {
            covered += usize::from((row.measured - row.predicted).abs() <= reach * row.scale);
            width += 2.0 * reach * row.scale;
            asked += 1;
        }
    }
    let predicted: Vec<f64> = rows.iter().map(|row| row.predicted).collect();
    let Some(score) = PredictionScore::compute(task.y, &predicted, task.floor) else {
        return Err(Error::table("no rows to learn from"));
    };
    let share = |sum: f64| (asked > 0).then(|| sum / asked as f64);
    let held_out = ComponentHeldOut {
        component,
        validation: task.validation,
        rows: score.rows,
        mae: score.mae,
        mape: score.mape,
        rows_above_floor: score.rows_above_floor,
        coverage: share(covered as f64),
        width: share(width),
    };
    let reach = reach(None)?;
    Ok(ComponentPredictor { learned, reach, held_out })
}

/// Interval factor that covers its share of rows, from all folds except one.
///
/// With every fifth row held out, training rows lie three seconds away, so held-out errors are
/// smaller than future ones. There the largest factor of any fold is used, if the folds are large
/// enough. Blocks of time have no close neighbours; there all folds are pooled.
fn reach(
    rows: &[CalibrationRow],
    parts: &[usize],
    validation: HoldOutMethod,
    without: Option<usize>,
) -> Result<Option<f64>, Error> {
    let of = |is_wanted: &dyn Fn(usize) -> bool| -> Result<Option<f64>, Error> {
        let calibration_rows: Vec<CalibrationRow> =
            rows.iter().zip(parts).filter(|(_, own)| is_wanted(**own)).map(|(row, _)| *row).collect();
        Ok(if calibration_rows.is_empty() {
            None
        } else {
            ConformalCalibration::new(&calibration_rows)?.interval_factor(INTERVAL_COVERAGE)
        })
    };
    let mut most = of(&|own| Some(own) != without)?;
    if validation == HoldOutMethod::Rows && rows.len() >= HOLD_OUT_PARTS * MIN_CALIBRATION_ROWS {
        for part in (0..HOLD_OUT_PARTS).filter(|part| Some(*part) != without) {
            if let (Some(all), Some(own)) = (most, of(&|other| other == part)?) {
                most = Some(all.max(own));
            }
        }
    }
    Ok(most)
}
