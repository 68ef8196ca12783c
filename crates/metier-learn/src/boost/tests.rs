use proptest::prelude::*;

use super::*;
use crate::score::Score;

fn uniform(random: &mut Random) -> f64 {
    (random.next() >> 11) as f64 / (1u64 << 53) as f64
}

/// Friedman's first problem: five features matter, five do not; noise of standard deviation 1.
fn friedman(rows: usize, seed: u64) -> Table {
    let mut random = Random::new(seed);
    let mut table = Table::new((0..10).map(|n| format!("x{n}")).collect());
    for row in 0..rows {
        let x: Vec<f64> = (0..10).map(|_| uniform(&mut random)).collect();
        let noise = (-2.0 * uniform(&mut random).max(1e-300).ln()).sqrt()
            * (std::f64::consts::TAU * uniform(&mut random)).cos();
        let y = 10.0 * (std::f64::consts::PI * x[0] * x[1]).sin()
            + 20.0 * (x[2] - 0.5).powi(2)
            + 10.0 * x[3]
            + 5.0 * x[4];
        table.push(&x, y + noise, row as u64).unwrap();
    }
    table
}

fn said(fitted: &Boosted, table: &Table) -> Vec<f64> {
    (0..table.len()).map(|row| fitted.predict(table.row(row))).collect()
}

#[test]
fn it_comes_close_to_the_noise_on_friedmans_problem() {
    let (train, test) = (friedman(2000, 1), friedman(1000, 2));
    let settings = Settings { leaves: 8, trees: 200, ..Settings::default() };
    let fitted = Boosted::fit(&train, None, &settings).unwrap();
    let score = Score::of(test.target(), &said(&fitted, &test), 0.0).unwrap();
    // The noise alone is 1.0, the mean alone about 5.
    assert!(score.rmse < 1.3, "{score:?}");
    let importance = fitted.importance();
    assert!(importance[5..].iter().all(|share| *share < 0.02), "{importance:?}");
}

#[test]
fn quantiles_cover_their_share_of_new_rows() {
    let (train, test) = (friedman(2000, 3), friedman(2000, 4));
    for share in [0.1, 0.5, 0.9] {
        let settings = Settings {
            loss: Loss::Quantile(share),
            leaves: 8,
            trees: 70,
            leaf_rows: 60,
            ..Settings::default()
        };
        let fitted = Boosted::fit(&train, None, &settings).unwrap();
        let below = said(&fitted, &test).iter().zip(test.target()).filter(|(said, is)| is <= said).count();
        let covered = below as f64 / test.len() as f64;
        assert!((covered - share).abs() < 0.06, "{share}: {covered}");
    }
}

#[test]
fn a_held_out_set_decides_how_many_trees() {
    let (train, held, test) = (friedman(300, 5), friedman(300, 6), friedman(2000, 7));
    let settings = Settings { trees: 400, leaves: 31, leaf_rows: 2, rate: 0.3, ..Settings::default() };
    let all = Boosted::fit(&train, None, &settings).unwrap();
    let some = Boosted::fit(&train, Some(&held), &settings).unwrap();
    assert!(some.trees.len() < all.trees.len());
    let rmse = |fitted: &Boosted| Score::of(test.target(), &said(fitted, &test), 0.0).unwrap().rmse;
    assert!(rmse(&some) <= rmse(&all) + 0.01);
}

#[test]
fn what_is_not_known_has_a_side_of_its_own() {
    let mut table = Table::new(vec!["x".to_string()]);
    for row in 0..300u64 {
        let x = if row % 3 == 0 { f64::NAN } else { row as f64 };
        table.push(&[x], if x.is_nan() { 7.0 } else { 1.0 }, row).unwrap();
    }
    let fitted = Boosted::fit(&table, None, &Settings { ridge: 0.0, ..Settings::default() }).unwrap();
    assert!((fitted.predict(&[f64::NAN]) - 7.0).abs() < 1e-6);
    assert!((fitted.predict(&[50.0]) - 1.0).abs() < 1e-6);
}

#[test]
fn the_same_rows_give_the_same_predictor_and_its_file_gives_the_same_numbers() {
    let table = friedman(500, 8);
    let settings = Settings { rows: 0.7, features: 0.5, trees: 30, ..Settings::default() };
    let fitted = Boosted::fit(&table, None, &settings).unwrap();
    assert_eq!(fitted, Boosted::fit(&table, None, &settings).unwrap());
    let read: Boosted = serde_json::from_str(&serde_json::to_string(&fitted).unwrap()).unwrap();
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
        (Settings { loss: Loss::Quantile(1.0), ..Settings::default() }, "loss"),
    ] {
        let error = Boosted::fit(&table, None, &settings).unwrap_err().to_string();
        assert!(error.starts_with(field), "{error}");
    }
    assert!(Table::new(vec!["x".into()]).push(&[1.0], f64::NAN, 0).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn a_monotone_feature_never_goes_the_other_way(seed in 0u64..1000, is_up: bool, loss in 0usize..3) {
        let train = friedman(200, seed);
        let direction = if is_up { Monotone::Up } else { Monotone::Down };
        let loss = [Loss::Squared, Loss::Absolute, Loss::Quantile(0.8)][loss];
        let settings = Settings { monotone: vec![direction, Monotone::Free, direction], trees: 40, leaf_rows: 3, loss, ..Settings::default() };
        let fitted = Boosted::fit(&train, None, &settings).unwrap();
        for row in 0..20 {
            let mut x = train.row(row).to_vec();
            for feature in [0, 2] {
                let mut last = if is_up { f64::NEG_INFINITY } else { f64::INFINITY };
                for step in 0..=50 {
                    x[feature] = step as f64 / 50.0;
                    let said = fitted.predict(&x);
                    let is_kept = if is_up { said >= last - 1e-9 } else { said <= last + 1e-9 };
                    prop_assert!(is_kept);
                    last = said;
                }
            }
        }
    }
}
