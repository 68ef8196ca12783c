use super::*;
use crate::random::SplitMix64;

/// Synthetic times: a level, effects and two factors that depend on the features; a share of all
/// pairs is measured.
struct Truth {
    runs: FactorTrainingSet,
    all: Vec<Vec<f64>>,
}

fn uniform(random: &mut SplitMix64) -> f64 {
    random.next_fraction() * 2.0 - 1.0
}

fn truth(workloads: usize, platforms: usize, share: f64, noise: f64) -> Truth {
    let mut random = SplitMix64::new(5);
    let mut features = |count: usize, width: usize| {
        let rows: Vec<Vec<f64>> =
            (0..count).map(|_| (0..width).map(|_| uniform(&mut random)).collect()).collect();
        DenseMatrix::from_rows(&rows).unwrap()
    };
    let (of_workloads, of_platforms) = (features(workloads, 4), features(platforms, 3));
    let mut random = SplitMix64::new(6);
    let numbers = |x: &[f64], own: f64| [2.0 * x[0] + own, x[1] + 0.5 * x[2] * x[2], x[2] - x[0]];
    let of_w: Vec<[f64; 3]> =
        (0..workloads).map(|w| numbers(of_workloads.row(w), 0.3 * uniform(&mut random))).collect();
    let of_p: Vec<[f64; 3]> =
        (0..platforms).map(|p| numbers(of_platforms.row(p), 0.3 * uniform(&mut random))).collect();
    let mut all = Vec::new();
    let mut runs = Vec::new();
    for (workload, w) in of_w.iter().enumerate() {
        let mut line = Vec::new();
        for (platform, p) in of_p.iter().enumerate() {
            let exact = -3.0 + w[0] + p[0] + w[1] * p[1] + w[2] * p[2];
            line.push(exact);
            if uniform(&mut random) < share * 2.0 - 1.0 {
                runs.push(RunObservation {
                    workload,
                    platform,
                    log_seconds: exact + noise * uniform(&mut random),
                });
            }
        }
        all.push(line);
    }
    let groups = (0..workloads as u64).collect();
    Truth { runs: FactorTrainingSet { workloads: of_workloads, platforms: of_platforms, groups, runs }, all }
}

fn settings() -> Settings {
    Settings { rank: 2, ridge: 0.05, ..Settings::default() }
}

#[test]
fn pairs_that_have_not_run_are_filled_in() {
    let truth = truth(40, 30, 0.5, 0.0);
    // Without noise no regularisation is needed.
    let settings = Settings { ridge: 1e-3, rounds: 100, ..settings() };
    let fitted = FactorPredictor::fit(&truth.runs, &settings).unwrap();
    let mut worst = 0f64;
    for (workload, line) in truth.all.iter().enumerate() {
        for (platform, exact) in line.iter().enumerate() {
            worst = worst.max((fitted.predict_log_seconds(workload, platform) - exact).abs());
        }
    }
    assert!(worst < 0.1, "{worst}");
    assert_eq!(fitted, FactorPredictor::fit(&truth.runs, &settings).unwrap());
}

/// Root mean squared error on the last workloads, with `count` measured runs each.
fn missed(truth: &Truth, known: usize, count: usize) -> f64 {
    let fitted =
        FactorPredictor::fit(&truth.runs.select_workloads(&(0..known).collect::<Vec<_>>()), &settings())
            .unwrap();
    let (mut sum, mut asked) = (0.0, 0.0);
    for workload in known..truth.all.len() {
        let measured: Vec<(usize, f64)> =
            (0..count).map(|platform| (platform, truth.all[workload][platform])).collect();
        let guess = fitted.estimate_workload(truth.runs.workloads.row(workload), &measured).unwrap();
        for platform in count..truth.all[workload].len() {
            let (mean, variance) = guess.predict_log_seconds(fitted.platforms.row(platform));
            assert!(variance > 0.0);
            sum += (mean - truth.all[workload][platform]).powi(2);
            asked += 1.0;
        }
    }
    f64::sqrt(sum / asked)
}

#[test]
fn features_alone_beat_the_mean_and_runs_beat_features() {
    let truth = truth(80, 30, 0.6, 0.02);
    let mean: f64 = truth.all.iter().flatten().sum::<f64>() / (80.0 * 30.0);
    let spread =
        (truth.all.iter().flatten().map(|log| (log - mean).powi(2)).sum::<f64>() / (80.0 * 30.0)).sqrt();
    let (none, value, five) = (missed(&truth, 60, 0), missed(&truth, 60, 1), missed(&truth, 60, 5));
    assert!(none < 0.4 * spread, "{none} of {spread}");
    assert!(value < none && five < 0.5 * value, "{none} {value} {five}");
}

#[test]
fn a_new_platform_is_told_by_its_passport_and_a_few_runs() {
    let truth = truth(60, 50, 0.6, 0.02);
    let fitted =
        FactorPredictor::fit(&truth.runs.select_platforms(&(0..45).collect::<Vec<_>>()), &settings())
            .unwrap();
    for count in [0, 8] {
        let mut worst = 0f64;
        for platform in 45..50 {
            let measured: Vec<(usize, f64)> = (0..count).map(|w| (w, truth.all[w][platform])).collect();
            let guess = fitted.estimate_platform(truth.runs.platforms.row(platform), &measured).unwrap();
            for workload in count..60 {
                worst = worst.max(
                    (guess.predict_log_seconds(fitted.workloads.row(workload)).0
                        - truth.all[workload][platform])
                        .abs(),
                );
            }
        }
        assert!(worst < if count == 0 { 1.5 } else { 0.2 }, "{count}: {worst}");
    }
}

#[test]
fn intervals_cover_workloads_that_were_not_there() {
    let truth = truth(100, 16, 0.7, 0.1);
    let known: Vec<usize> = (0..60).collect();
    let fitted =
        CalibratedFactorPredictor::fit(&truth.runs.select_workloads(&known), &settings(), 4).unwrap();
    for count in [0, 2] {
        let (mut covered, mut asked) = (0.0, 0.0);
        for workload in 60..100 {
            let own: Vec<&RunObservation> =
                truth.runs.runs.iter().filter(|run| run.workload == workload).collect();
            let measured: Vec<(usize, f64)> =
                own.iter().take(count).map(|run| (run.platform, run.log_seconds)).collect();
            let guess =
                fitted.factored.estimate_workload(truth.runs.workloads.row(workload), &measured).unwrap();
            for run in &own[count.min(own.len())..] {
                let interval =
                    fitted.predict_interval(&guess, fitted.factored.platforms.row(run.platform), 0.9);
                let seconds = run.log_seconds.exp();
                covered += f64::from(u8::from(
                    interval.low.unwrap() <= seconds && seconds <= interval.high.unwrap(),
                ));
                asked += 1.0;
            }
        }
        let share = covered / asked;
        assert!((0.8..0.98).contains(&share), "{count} runs: {share}");
    }
}

#[test]
fn a_file_gives_the_same_predictor_back() {
    let truth = truth(30, 10, 0.7, 0.1);
    let fitted = CalibratedFactorPredictor::fit(&truth.runs, &settings(), 3).unwrap();
    let text = serde_json::to_string(&fitted).unwrap();
    assert_eq!(serde_json::from_str::<CalibratedFactorPredictor>(&text).unwrap(), fitted);
}

#[test]
fn runs_that_do_not_fit_are_refused() {
    let mut truth = truth(10, 10, 0.7, 0.1);
    truth.runs.runs[0].platform = 10;
    assert!(FactorPredictor::fit(&truth.runs, &settings()).unwrap_err().to_string().contains("platform: 10"));
    truth.runs.runs.clear();
    assert!(FactorPredictor::fit(&truth.runs, &settings()).is_err());
}
