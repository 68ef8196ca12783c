use super::*;
use crate::formula::FormulaKind;

/// A machine with known power: linear in instructions and misses, with a bend.
fn frame(rows: usize) -> FeatureFrame {
    let mut frame = FeatureFrame::new((0..rows).map(|row| row as f64 * 3.0).collect(), None).unwrap();
    let chance = |row: usize, salt: usize| ((row * 7919 + salt * 104_729) % 1009) as f64 / 1009.0;
    let misses: Vec<f64> = (0..rows).map(|row| 1e6 * chance(row, 1)).collect();
    let instructions: Vec<f64> = (0..rows).map(|row| 1e9 * chance(row, 2)).collect();
    let package = (0..rows)
        .map(|row| 40.0 + 60.0 * (instructions[row] / 1e9).sqrt() + 10.0 * misses[row] / 1e6 + chance(row, 3))
        .collect();
    let dram = (0..rows).map(|row| 5.0 + 8.0 * misses[row] / 1e6 + 0.2 * chance(row, 4)).collect();
    frame.set("cache_miss", misses).unwrap();
    frame.set("cpu_instructions", instructions).unwrap();
    frame.set("package_power", package).unwrap();
    frame.set("core_power", vec![0.0; rows]).unwrap();
    frame.set("dram_power", dram).unwrap();
    frame
}

fn settings(trainer: PowerTrainer) -> TrainerSettings {
    let components = [PowerComponent::Package, PowerComponent::Core, PowerComponent::Dram];
    TrainerSettings::new(trainer, &["cache_miss", "cpu_instructions"], &components)
}

#[test]
fn every_trainer_learns_and_its_file_says_the_same() {
    let frame = frame(100);
    for (trainer, _) in TRAINERS.iter().filter(|(trainer, _)| *trainer != PowerTrainer::Auto) {
        let trained = train(&frame, &settings(*trainer), None).unwrap();
        assert_eq!(trained.held_out.len(), 3, "{trainer:?}");
        assert!(trained.held_out.windows(2).all(|pair| pair[0].badness() >= pair[1].badness()));
        let read = PowerPredictorFile::read(&trained.bytes()).unwrap();
        let row = [4e5, 6e8];
        let predicted = read.predict(&row).unwrap();
        assert_eq!(predicted, trained.predictor.predict(&row).unwrap());
        for (component, watts) in predicted {
            assert!(
                watts.low <= watts.value && watts.value <= watts.high && watts.low >= 0.0,
                "{component:?}"
            );
            assert!(watts.in_range);
        }
        assert!(!read.predict(&[9e6, 6e8]).unwrap()[0].1.in_range);
    }
}

#[test]
fn weights_for_kepler_give_the_same_watts() {
    let frame = frame(100);
    for trainer in [
        PowerTrainer::Sgd,
        PowerTrainer::Linear,
        PowerTrainer::Logarithmic,
        PowerTrainer::Exponential,
        PowerTrainer::Logistic,
        PowerTrainer::Xgboost,
    ] {
        let trained = train(&frame, &settings(trainer), None).unwrap();
        let formulas = trained.predictor.weights().unwrap().formulas(trainer.name()).unwrap();
        let row = [4e5, 6e8];
        for (component, watts) in trained.predictor.predict(&row).unwrap() {
            let (_, formula) = formulas.iter().find(|(own, _)| *own == component).unwrap();
            assert_eq!(matches!(formula.kind, FormulaKind::XGBoost(_)), trainer == PowerTrainer::Xgboost);
            let value = formula.watts(&row).unwrap();
            assert!(
                (value - watts.value).abs() < 1e-9 * watts.value.max(1.0),
                "{trainer:?} {component:?}: {value} {watts:?}"
            );
        }
    }
    assert!(train(&frame, &settings(PowerTrainer::KNeighbors), None).unwrap().predictor.weights().is_none());
}

#[test]
fn ours_is_close_to_the_noise_and_its_intervals_hold() {
    let mut trainer_settings = settings(PowerTrainer::Auto);
    trainer_settings.validation = HoldOutMethod::Rows;
    let all = frame(240);
    let (train_rows, test_rows): (Vec<usize>, Vec<usize>) =
        (0..240usize).partition(|row| !row.is_multiple_of(4));
    let trained = train(&all.select(&train_rows), &trainer_settings, None).unwrap();
    let (mut missed, mut covered, mut asked) = (0.0, 0.0, 0.0);
    for row in test_rows {
        let features = [all.need("cache_miss").unwrap()[row], all.need("cpu_instructions").unwrap()[row]];
        let predicted = trained.predictor.predict(&features).unwrap();
        let (component, watts) = predicted[0];
        assert_eq!(component, PowerComponent::Package);
        let truth = all.need("package_power").unwrap()[row];
        missed += (watts.value - truth).abs() / truth;
        covered += f64::from(u8::from(watts.low <= truth && truth <= watts.high));
        asked += 1.0;
        assert_eq!(predicted[1].1.value, 0.0, "a component without power has none");
    }
    assert!(missed / asked < 0.03, "{}", missed / asked);
    assert!(covered / asked > 0.8, "{}", covered / asked);
    assert_eq!(PowerPredictorFile::read(&trained.bytes()).unwrap(), trained.predictor);
}

#[test]
fn xgboost_goes_on_from_what_is_there() {
    let frame = frame(100);
    let first = train(&frame, &settings(PowerTrainer::Xgboost), None).unwrap();
    let second = train(&frame, &settings(PowerTrainer::Xgboost), Some(&first.predictor)).unwrap();
    let trees =
        |trained: &TrainedPredictor| match &trained.predictor.components[&PowerComponent::Package].learned {
            LearnedFormula::Trees(trees) => trees.trees(),
            _ => 0,
        };
    assert_eq!((trees(&first), trees(&second)), (100, 200));
    let other =
        TrainerSettings { features: vec!["cache_miss".to_string()], ..settings(PowerTrainer::Xgboost) };
    assert_eq!(trees(&train(&frame, &other, Some(&first.predictor)).unwrap()), 100);
}

#[test]
fn other_rows_are_gone_on_with_whatever_their_largest_values_are() {
    let frame = frame(200);
    let (early, late): (Vec<usize>, Vec<usize>) = (0..200).partition(|row| row % 2 == 0);
    let (early, late) = (frame.select(&early), frame.select(&late));
    for trainer in [PowerTrainer::Xgboost, PowerTrainer::Auto] {
        let first = train(&early, &settings(trainer), None).unwrap();
        let second = train(&late, &settings(trainer), Some(&first.predictor)).unwrap();
        assert!(!first.is_continued && second.is_continued, "{}", trainer.name());
        let is_same = first.predictor.scale == second.predictor.scale;
        assert_eq!(is_same, trainer == PowerTrainer::Xgboost, "a blend goes on by its shares alone");
        // It still has what only the first rows contain.
        let row = [early.need("cache_miss").unwrap()[7], early.need("cpu_instructions").unwrap()[7]];
        let truth = early.need("package_power").unwrap()[7];
        let watts = second.predictor.predict(&row).unwrap()[0].1.value;
        assert!((watts - truth).abs() < 0.1 * truth, "{}: {watts} {truth}", trainer.name());
    }
    let first = train(&early, &settings(PowerTrainer::Linear), None).unwrap();
    let second = train(&late, &settings(PowerTrainer::Linear), Some(&first.predictor)).unwrap();
    assert!(
        !second.is_continued && first.predictor.scale != second.predictor.scale,
        "a line is learned anew"
    );
}

#[test]
fn a_few_rows_are_learned_from_without_intervals() {
    let small = frame(5);
    for (trainer, _) in TRAINERS {
        let trained = match train(&small, &settings(trainer), None) {
            Ok(trained) => trained,
            // Six neighbours need at least six rows.
            Err(error) => {
                let why = error.to_string();
                assert!(
                    matches!(trainer, PowerTrainer::KNeighbors | PowerTrainer::Auto),
                    "{}: {why}",
                    trainer.name()
                );
                continue;
            }
        };
        for part in trained.predictor.components.values() {
            let held_out = &part.held_out;
            assert_eq!((part.reach, held_out.coverage, held_out.rows), (None, None, 5), "{}", trainer.name());
        }
    }
}

#[test]
fn only_who_goes_on_is_said_to() {
    let frame = frame(100);
    for trainer in [PowerTrainer::Sgd, PowerTrainer::Xgboost] {
        let first = train(&frame, &settings(trainer), None).unwrap();
        let second = train(&frame, &settings(trainer), Some(&first.predictor)).unwrap();
        assert!(
            !first.is_continued && second.is_continued == (trainer == PowerTrainer::Xgboost),
            "{}",
            trainer.name()
        );
    }
}

#[test]
fn what_cannot_be_learned_from_is_named() {
    let small = frame(MIN_ROWS - 1);
    let error = train(&small, &settings(PowerTrainer::Linear), None).unwrap_err().to_string();
    assert!(error.contains("3 rows"), "{error}");
    let trainer_settings =
        TrainerSettings { features: vec!["cpu_cycles".to_string()], ..settings(PowerTrainer::Linear) };
    let error = train(&frame(50), &trainer_settings, None).unwrap_err().to_string();
    assert!(error.contains("cpu_cycles"), "{error}");
    let trained = train(&frame(50), &settings(PowerTrainer::Linear), None).unwrap();
    assert!(trained.predictor.predict(&[1.0]).is_err());
    assert!(trained.predictor.predict(&[1.0, f64::NAN]).is_err());
    assert!(PowerPredictorFile::read(b"{}").is_err());
}

/// A file with one component of this formula and interval factor.
fn file(learned: &str, reach: &str) -> String {
    format!(
        r#"{{"schema":"{SCHEMA}","trainer":"t","features":["a"],"scale":[1.0],"components":{{"package":{{"learned":{learned},"reach":{reach},
        "held_out":{{"component":"package","validation":"rows","rows":1,"mae":0.0,"mape":null,"rows_above_floor":0,"coverage":null,"width":null}}}}}}}}"#
    )
}

#[test]
fn a_file_that_contradicts_itself_stops_nothing() {
    let neighbours = format!(
        r#"{{"kind":"neighbours","of":{{"rows":{{"width":1,"values":[1.0]}},"targets":[7.0],"count":{}}}}}"#,
        usize::MAX
    );
    let vectors = r#"{"kind":"svr","of":{"vectors":{"width":1,"values":[1.0]},"weights":[2.0,3.0],"bias":5.0,"gamma":1.0}}"#;
    for (learned, want) in [(neighbours.as_str(), 7.0), (vectors, 7.0)] {
        let read = PowerPredictorFile::read(file(learned, "0.5").as_bytes()).unwrap();
        let predicted = read.predict(&[1.0]).unwrap();
        assert_eq!(
            (predicted[0].1.value, predicted[0].1.low, predicted[0].1.high),
            (want, 6.5, 7.5),
            "{learned}"
        );
    }
}

#[test]
fn intervals_of_a_file_hold_their_value_or_are_refused() {
    let line = r#"{"kind":"linear","of":{"bias":7.0,"weights":[0.0]}}"#;
    let error = PowerPredictorFile::read(file(line, "-0.5").as_bytes()).unwrap_err().to_string();
    assert!(error.contains("components.package.reach") && error.contains("-0.5"), "{error}");
    let steep = r#"{"kind":"linear","of":{"bias":1e308,"weights":[0.0]}}"#;
    let read = PowerPredictorFile::read(file(steep, "1e308").as_bytes()).unwrap();
    assert!(read.predict(&[1.0]).unwrap().is_empty(), "its upper end has no number");
    let names = vec!["a"; 1025];
    let wide = file(line, "1.0").replace(r#"["a"]"#, &serde_json::to_string(&names).unwrap());
    let error = PowerPredictorFile::read(wide.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("1025") && error.contains("1024"), "{error}");
}
