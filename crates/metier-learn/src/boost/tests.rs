use proptest::prelude::*;

use super::*;
use crate::score::PredictionScore;

fn uniform(random: &mut SplitMix64) -> f64 {
    random.next_fraction()
}

/// Friedman's first problem: five features matter, five do not; noise of standard deviation 1.
pub(super) fn friedman(rows: usize, seed: u64) -> TrainingTable {
    let mut random = SplitMix64::new(seed);
    let mut table = TrainingTable::new((0..10).map(|n| format!("x{n}")).collect());
    for row in 0..rows {
        let x: Vec<f64> = (0..10).map(|_| uniform(&mut random)).collect();
        let noise = (-2.0 * uniform(&mut random).max(1e-300).ln()).sqrt()
            * (std::f64::consts::TAU * uniform(&mut random)).cos();
        let y = 10.0 * (std::f64::consts::PI * x[0] * x[1]).sin()
            + 20.0 * (x[2] - 0.5).powi(2)
            + 10.0 * x[3]
            + 5.0 * x[4];
        table.push_row(&x, y + noise, row as u64).unwrap();
    }
    table
}

fn predictions(fitted: &BoostedTrees, table: &TrainingTable) -> Vec<f64> {
    (0..table.len()).map(|row| fitted.predict(table.row(row))).collect()
}

#[test]
fn it_comes_close_to_the_noise_on_friedmans_problem() {
    let (train, test) = (friedman(2000, 1), friedman(1000, 2));
    let settings = Settings { leaves: 8, trees: 200, ..Settings::default() };
    let fitted = BoostedTrees::fit(&train, None, &settings).unwrap();
    let score = PredictionScore::compute(test.target(), &predictions(&fitted, &test), 0.0).unwrap();
    // The noise alone has an error of 1.0, the mean alone about 5.
    assert!(score.rmse < 1.3, "{score:?}");
    let importance = fitted.importance();
    assert!(importance[5..].iter().all(|share| *share < 0.02), "{importance:?}");
}

#[test]
fn quantiles_cover_their_share_of_new_rows() {
    let (train, test) = (friedman(2000, 3), friedman(2000, 4));
    for share in [0.1, 0.5, 0.9] {
        let settings = Settings {
            loss: LossFunction::Quantile(share),
            leaves: 8,
            trees: 70,
            leaf_rows: 60,
            ..Settings::default()
        };
        let fitted = BoostedTrees::fit(&train, None, &settings).unwrap();
        let below =
            predictions(&fitted, &test).iter().zip(test.target()).filter(|(value, is)| is <= value).count();
        let covered = below as f64 / test.len() as f64;
        assert!((covered - share).abs() < 0.06, "{share}: {covered}");
    }
}

#[test]
fn a_held_out_set_decides_how_many_trees() {
    let (train, held, test) = (friedman(300, 5), friedman(300, 6), friedman(2000, 7));
    let settings = Settings { trees: 400, leaves: 31, leaf_rows: 2, rate: 0.3, ..Settings::default() };
    let all = BoostedTrees::fit(&train, None, &settings).unwrap();
    let some = BoostedTrees::fit(&train, Some(&held), &settings).unwrap();
    assert!(some.trees.len() < all.trees.len());
    let rmse = |fitted: &BoostedTrees| {
        PredictionScore::compute(test.target(), &predictions(fitted, &test), 0.0).unwrap().rmse
    };
    assert!(rmse(&some) <= rmse(&all) + 0.01);
}

#[test]
fn what_is_not_known_has_a_side_of_its_own() {
    let mut table = TrainingTable::new(vec!["x".to_string()]);
    for row in 0..300u64 {
        let x = if row % 3 == 0 { f64::NAN } else { row as f64 };
        table.push_row(&[x], if x.is_nan() { 7.0 } else { 1.0 }, row).unwrap();
    }
    let fitted = BoostedTrees::fit(&table, None, &Settings { ridge: 0.0, ..Settings::default() }).unwrap();
    assert!((fitted.predict(&[f64::NAN]) - 7.0).abs() < 1e-6);
    assert!((fitted.predict(&[50.0]) - 1.0).abs() < 1e-6);
}

#[test]
fn the_same_rows_give_the_same_predictor_and_its_file_gives_the_same_numbers() {
    let table = friedman(500, 8);
    let settings = Settings { rows: 0.7, features: 0.5, trees: 30, ..Settings::default() };
    let fitted = BoostedTrees::fit(&table, None, &settings).unwrap();
    assert_eq!(fitted, BoostedTrees::fit(&table, None, &settings).unwrap());
    let read: BoostedTrees = serde_json::from_str(&serde_json::to_string(&fitted).unwrap()).unwrap();
    for row in 0..table.len() {
        assert_eq!(fitted.predict(table.row(row)).to_bits(), read.predict(table.row(row)).to_bits());
    }
}

#[test]
fn settings_and_tables_that_make_no_sense_are_refused() {
    let table = friedman(50, 9);
    for (settings, field) in [
        (Settings { bins: 300, ..Settings::default() }, "bins"),
        (Settings { leaves: 1, ..Settings::default() }, "leaves"),
        (Settings { rate: 0.0, ..Settings::default() }, "rate"),
        (Settings { rows: f64::NAN, ..Settings::default() }, "rows"),
        (Settings { loss: LossFunction::Quantile(1.0), ..Settings::default() }, "loss"),
    ] {
        let error = BoostedTrees::fit(&table, None, &settings).unwrap_err().to_string();
        assert!(error.starts_with(field), "{error}");
    }
    assert!(TrainingTable::new(vec!["x".into()]).push_row(&[1.0], f64::NAN, 0).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn a_monotone_feature_never_goes_the_other_way(seed in 0u64..1000, is_up: bool, loss in 0usize..3) {
        let train = friedman(200, seed);
        let direction = if is_up { MonotoneConstraint::Up } else { MonotoneConstraint::Down };
        let loss = [LossFunction::Squared, LossFunction::Absolute, LossFunction::Quantile(0.8)][loss];
        let settings = Settings { monotone: vec![direction, MonotoneConstraint::Free, direction], trees: 40, leaf_rows: 3, loss, ..Settings::default() };
        let fitted = BoostedTrees::fit(&train, None, &settings).unwrap();
        for row in 0..20 {
            let mut x = train.row(row).to_vec();
            for feature in [0, 2] {
                let mut last = if is_up { f64::NEG_INFINITY } else { f64::INFINITY };
                for step in 0..=50 {
                    x[feature] = step as f64 / 50.0;
                    let value = fitted.predict(&x);
                    let is_kept = if is_up { value >= last - 1e-9 } else { value <= last + 1e-9 };
                    prop_assert!(is_kept);
                    last = value;
                }
            }
        }
    }
}

#[test]
fn rows_that_count_more_are_told_better() {
    // One feature value with two targets: the one with nine times the weight is the median.
    let mut table = TrainingTable::new(vec!["x".into()]);
    (0..40).for_each(|row| table.push_row(&[0.0], f64::from(row % 2), 0).unwrap());
    (0..40).for_each(|_| table.push_row(&[1.0], 5.0, 0).unwrap());
    let settings =
        Settings { loss: LossFunction::Absolute, trees: 40, rate: 0.5, leaf_rows: 2, ..Settings::default() };
    for (heavy, want) in [(0usize, 0.0), (1, 1.0)] {
        let weight = |row: usize| if row < 40 && row % 2 == heavy { 9.0 } else { 1.0 };
        let weighted = table.clone().with_weights((0..80).map(weight).collect()).unwrap();
        let fitted = BoostedTrees::fit(&weighted, None, &settings).unwrap();
        assert!((fitted.predict(&[0.0]) - want).abs() < 1e-3, "{}", fitted.predict(&[0.0]));
    }
    assert!(table.with_weights(vec![1.0; 3]).is_err());
}

#[test]
fn packed_trees_are_the_same_trees_in_a_tenth_of_the_bytes() {
    let table = friedman(500, 5);
    let settings = Settings { trees: 30, ..Settings::default() };
    let fitted = BoostedTrees::fit(&table, None, &settings).unwrap();
    let (plain, single) = (serde_json::to_string(&fitted).unwrap(), fitted.clone().to_single_precision());
    for row in 0..table.len() {
        let (value, two) = (fitted.predict(table.row(row)), single.predict(table.row(row)));
        assert!((value - two).abs() < 1e-4, "{value} {two}");
    }
    let text = serde_json::to_string(&PackedTrees(single)).unwrap();
    assert!(text.len() * 8 < plain.len(), "{} of {}", text.len(), plain.len());
    let read: PackedTrees = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    assert_eq!(read.0, fitted.to_single_precision());
    for broken in
        [text.replacen("\"count\":30", "\"count\":31", 1), text.replacen("\"trees\":\"", "\"trees\":\"!", 1)]
    {
        assert_ne!(broken, text);
        assert!(serde_json::from_str::<PackedTrees>(&broken).unwrap_err().to_string().contains("trees"));
    }
}

#[test]
fn no_way_is_longer_than_the_depth() {
    let table = friedman(500, 6);
    let settings = Settings { trees: 5, leaves: 31, depth: 3, leaf_rows: 1, ..Settings::default() };
    let fitted = BoostedTrees::fit(&table, None, &settings).unwrap();
    assert!(fitted.trees.iter().all(|tree| tree.places.len() <= 15 && tree.places.len() > 9));
}

#[test]
fn trees_that_are_laid_out_flat_say_the_same() {
    let table = friedman(300, 7);
    let fitted = BoostedTrees::fit(&table, None, &Settings { trees: 20, ..Settings::default() }).unwrap();
    let flat = BatchTrees::new(&fitted).unwrap();
    // Also a number of rows that is not a multiple of the rows predicted side by side.
    for count in [0, 1, 7, 8, 9, 300] {
        let rows: Vec<f32> = (0..count).flat_map(|row| table.row(row)).map(|value| *value as f32).collect();
        let values = flat.predict(&rows);
        assert_eq!(values.len(), count);
        for (row, current) in values.iter().enumerate() {
            let own: Vec<f64> = table.row(row).iter().map(|value| f64::from(*value as f32)).collect();
            assert!((current - fitted.predict(&own)).abs() < 1e-4, "{current}");
        }
    }
    let mut circle = fitted.clone();
    circle.trees[0].places[0].left = 0;
    assert_eq!(BatchTrees::new(&circle), None);
    let mut narrow = fitted;
    narrow.names.truncate(1);
    assert_eq!(BatchTrees::new(&narrow), None);
}
