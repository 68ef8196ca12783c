//! Rows that a predictor has not seen: its error on them, and how far its intervals must reach.

use metier_learn::conformal::{CalibrationRow, ConformalCalibration};
use metier_learn::score::PredictionScore;
use serde::{Deserialize, Serialize};

use super::{ComponentPredictor, LearnMethod, LearnedFormula, MIN_INTERVAL_ROWS, TrainerTask};
use crate::Error;
use crate::kepler_terms::PowerComponent;

/// In how many parts rows are held out.
pub const HOLD_OUT_PARTS: usize = 5;
/// The coverage that intervals promise.
pub const INTERVAL_COVERAGE: f64 = 0.9;
/// Blocks for each part.
const BLOCKS_PER_PART: usize = 2;
/// Rows of a part whose own errors tell how far intervals must reach.
const MIN_CALIBRATION_ROWS: usize = 100;

/// How rows are held out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldOutMethod {
    /// Every fifth row: loads that were seen, at other moments.
    Rows,
    /// Whole stretches of time: loads that may not have been seen.
    Blocks,
}

impl HoldOutMethod {
    /// The part of each of so many rows.
    pub fn parts(self, rows: usize) -> Vec<usize> {
        let part = |row: usize| match self {
            Self::Rows => row % HOLD_OUT_PARTS,
            Self::Blocks => (row * HOLD_OUT_PARTS * BLOCKS_PER_PART / rows.max(1)) % HOLD_OUT_PARTS,
        };
        (0..rows).map(part).collect()
    }
}

/// Errors of one component on rows that were held out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComponentHeldOut {
    pub component: PowerComponent,
    /// How the rows were held out.
    pub validation: HoldOutMethod,
    pub rows: usize,
    /// Mean of the absolute errors, in watts.
    pub mae: f64,
    /// Mean of the relative errors on rows above the floor; `None` where there is none.
    pub mape: Option<f64>,
    /// Rows above the floor.
    pub rows_above_floor: usize,
    /// Share of the rows inside an interval that the other parts' errors made; `None` where there is none.
    pub coverage: Option<f64>,
    /// Mean width of the intervals, in watts.
    pub width: Option<f64>,
}

impl ComponentHeldOut {
    /// By which the worst comes first.
    pub(super) fn badness(&self) -> f64 {
        self.mape.unwrap_or(0.0)
    }
}

/// What each row was said to be by a formula that had not seen it: watts and the size of an error.
fn predict_held_out(
    task: &TrainerTask<'_>,
    learn: fn(&TrainerTask<'_>) -> Result<LearnedFormula, Error>,
) -> Result<Vec<(f64, f64)>, Error> {
    let parts = task.validation.parts(task.y.len());
    let mut said = vec![(0.0, 1.0); task.y.len()];
    for part in 0..HOLD_OUT_PARTS {
        let keep: Vec<usize> = (0..parts.len()).filter(|row| parts[*row] != part).collect();
        let (x, y) = (task.x.select_rows(&keep), keep.iter().map(|row| task.y[*row]).collect::<Vec<f64>>());
        // What was learned before may have seen the rows that are held out now.
        let learned = learn(&TrainerTask { x: &x, y: &y, from: None, ..*task })?;
        for row in (0..parts.len()).filter(|row| parts[*row] == part) {
            said[row] = learned.watts_with_error(task.x.row(row));
        }
    }
    Ok(said)
}

/// Learns one component from all rows, with the error that held-out rows show.
pub(super) fn train_component(
    task: &TrainerTask<'_>,
    component: PowerComponent,
    learn: LearnMethod,
) -> Result<ComponentPredictor, Error> {
    let (learned, said) = match learn {
        LearnMethod::Plain(learn) => (learn(task)?, predict_held_out(task, learn)?),
        LearnMethod::Judged(learn) => learn(task)?,
    };
    let rows: Vec<CalibrationRow> = said
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
    // Of a few rows nobody can say where nine of ten lie.
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

/// How far intervals must reach to hold their share of rows, by the rows of all parts but one.
///
/// Every fifth row has neighbours three seconds away that were learned from, so errors of such rows are smaller than those of rows to come: there the part that needs most says
/// how far, where it is large enough to say it. Stretches of time have none; there all parts say it together.
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
