//! Errors of every trainer on tables of watts: the data of `bench/power-accuracy/run`.
//!
//! `accuracy FILE rows|phases [TRAINER…]` trains on part of the rows and prints each trainer's
//! held-out errors as JSON. Held out is every fifth row, or the third, sixth and ninth of ten
//! blocks of time.
#![allow(clippy::print_stdout, reason = "an example prints")]

use metier_learn::score::PredictionScore;
use metier_power::frame::FeatureFrame;
use metier_power::kepler_terms::{PowerComponent, PowerTrainer};
use metier_power::trainers::{HoldOutMethod, LearnedFormula, TRAINERS, TrainerSettings, train};
use serde_json::{Value, json};

type Failure = Box<dyn std::error::Error>;

const FLOOR: f64 = 1.0;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [file, split, names @ ..] = &words[..] else {
        return Err("usage: accuracy FILE rows|phases [TRAINER…]".into());
    };
    let frame = FeatureFrame::read_csv(std::fs::File::open(file)?)?;
    let components: Vec<PowerComponent> =
        PowerComponent::ALL.into_iter().filter(|component| frame.watts(*component).is_some()).collect();
    let is_feature = |name: &&str| {
        !["timestamp", "node_type", "id", ""].contains(name)
            && !name.ends_with("_power")
            && !name.starts_with("packge_ratio")
    };
    let mut features: Vec<String> = frame.names().filter(is_feature).map(str::to_string).collect();
    features.sort_unstable();
    let rows = frame.len();
    let is_test = |row: &usize| match split.as_str() {
        "rows" => row.is_multiple_of(5),
        _ => [2, 5, 8].contains(&(row * 10 / rows)),
    };
    let (test, train_rows): (Vec<usize>, Vec<usize>) = (0..rows).partition(is_test);
    let learned_from = frame.select(&train_rows);
    let validation = if split == "rows" { HoldOutMethod::Rows } else { HoldOutMethod::Blocks };
    let columns = features.iter().map(|name| frame.need(name)).collect::<Result<Vec<_>, _>>()?;
    let mut out = Vec::new();
    for (trainer, _) in TRAINERS {
        if !names.is_empty() && !names.iter().any(|name| PowerTrainer::named(name) == Some(trainer)) {
            continue;
        }
        let settings = TrainerSettings {
            trainer,
            features: features.clone(),
            components: components.clone(),
            validation,
            floor: FLOOR,
            seed: 1,
            is_additive: false,
        };
        let before = std::time::Instant::now();
        let trained = train(&learned_from, &settings, None)?;
        let seconds = before.elapsed().as_secs_f64();
        for component in &components {
            let truth = frame.watts(*component).unwrap_or_default();
            let truth: Vec<f64> = test.iter().map(|row| truth[*row]).collect();
            let mut predicted = Vec::new();
            let (mut covered, mut width) = (0usize, 0.0);
            for (row, truth) in test.iter().zip(&truth) {
                let features: Vec<f64> = columns.iter().map(|column| column[*row]).collect();
                let all = trained.predictor.predict(&features)?;
                let Some((_, watts)) = all.iter().find(|(own, _)| own == component) else {
                    return Err("no watts".into());
                };
                predicted.push(watts.value);
                covered += usize::from(watts.low <= *truth && *truth <= watts.high);
                width += watts.high - watts.low;
            }
            let Some(score) = PredictionScore::compute(&truth, &predicted, FLOOR) else {
                return Err("no rows held out".into());
            };
            let held_out = trained.held_out.iter().find(|one| one.component == *component);
            let shares = match trained.predictor.components.get(component).map(|part| &part.learned) {
                Some(LearnedFormula::Blend(blend)) => serde_json::to_value(blend.shares())?,
                _ => Value::Null,
            };
            out.push(json!({
                "trainer": trainer.name(), "component": component.name(), "rows": test.len(), "mae": score.mae, "mape": score.mape,
                "rows_above_floor": score.rows_above_floor, "coverage": covered as f64 / test.len() as f64, "width": width / test.len() as f64,
                "inner_mape": held_out.and_then(|one| one.mape), "inner_coverage": held_out.and_then(|one| one.coverage),
                "seconds": seconds, "bytes": trained.bytes().len(), "shares": shares,
            }));
        }
    }
    println!("{}", Value::from(out));
    Ok(())
}
