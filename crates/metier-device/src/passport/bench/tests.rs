use std::cell::RefCell;

use super::*;
use crate::identity;

fn quick(folder: Option<PathBuf>) -> (Passport, Vec<(String, f64)>) {
    let roots = KernelRoots::default();
    let told = RefCell::new(Vec::new());
    let progress = |part: &str, done: f64| told.borrow_mut().push((part.to_string(), done));
    let plan = PassportBenchPlan { roots: &roots, seconds: 1.0, folder, progress: &progress };
    let passport = measure_passport(identity::identify_device(&roots, None).unwrap(), &plan).unwrap();
    (passport, told.into_inner())
}

#[test]
fn a_passport_of_this_machine_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (passport, told) = quick(Some(folder.path().into()));
    assert_eq!(passport.origin, PassportOrigin::Measured);
    assert_eq!(passport.id, passport.device.id.as_str());
    assert!(passport.sources[0].contains("build"));
    let all = std::thread::available_parallelism().unwrap().get() as u32;

    for precision in [metier_types::NumberPrecision::F64, metier_types::NumberPrecision::F32] {
        let threads: Vec<u32> = passport
            .compute
            .iter()
            .filter(|rate| rate.precision == precision)
            .map(|rate| rate.threads)
            .collect();
        assert_eq!(threads, thread_team::thread_counts(all));
    }
    for rate in &passport.compute {
        assert!((1e6..1e16).contains(&rate.multiply_adds_per_second), "{rate:?}");
        assert!(rate.spread_ratio.unwrap().get() >= 0.0 && rate.instructions.is_some(), "{rate:?}");
    }
    for threads in thread_team::thread_counts(all) {
        let sets: Vec<_> = passport.bandwidth.iter().filter(|rate| rate.threads == threads).collect();
        let sizes: Vec<_> = sets.iter().filter_map(|rate| rate.working_set_bytes).collect();
        assert!(sizes.is_sorted() && !sizes.is_empty(), "{sizes:?}");
        let beyond = sets.iter().filter(|rate| rate.working_set_bytes.is_none()).count();
        assert_eq!(beyond == 0, passport.missing.contains_key("bandwidth.memory"));
        assert!(sets.iter().all(|rate| (1e6..1e14).contains(&rate.bytes_per_second)), "{sets:?}");
    }
    assert!(passport.latency.windows(2).all(|two| two[0].working_set_bytes < two[1].working_set_bytes));
    assert!(
        passport.latency.iter().all(|latency| (1e-11..1e-3).contains(&latency.seconds.get())),
        "{:?}",
        passport.latency
    );
    assert!(passport.latency.len() >= 2);
    assert!(passport.storage.is_some() || passport.missing.contains_key("storage"));
    assert!((1e-6..100.0).contains(&passport.spawn_seconds.unwrap().get()));
    let throttling = passport.throttling.as_ref().unwrap();
    assert!(throttling.kept_ratio.get() > 0.0 && throttling.seconds.get() > 0.0);

    let parts: Vec<&str> = told.iter().map(|(part, _)| part.as_str()).collect();
    assert_eq!(parts[0], "compute");
    assert_eq!(told.last().map(|(part, done)| (part.as_str(), *done)), Some(("done", 1.0)));
    assert!(told.is_sorted_by(|a, b| a.1 <= b.1), "{told:?}");
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "nothing is left behind");

    let json = serde_json::to_string(&passport).unwrap();
    assert_eq!(serde_json::from_str::<Passport>(&json).unwrap(), passport, "it reads back as it was");
}

#[test]
fn shares_of_the_parts_are_the_whole() {
    assert!((BENCH_PARTS.iter().map(|(_, share, _)| share).sum::<f64>() - 1.0).abs() < 1e-9);
}

#[test]
fn a_time_that_makes_no_sense_is_refused_by_name() {
    let roots = KernelRoots::default();
    for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY, 4000.0] {
        let plan = PassportBenchPlan { roots: &roots, seconds, folder: None, progress: &|_, _| () };
        let error = measure_passport(identity::identify_device(&roots, None).unwrap(), &plan)
            .unwrap_err()
            .to_string();
        assert!(error.contains("--seconds") && error.contains("1s to 1h"), "{error}");
    }
}

#[test]
fn the_best_and_how_far_the_worst_was_from_it() {
    let rates = RepetitionSpread::from_rates([2.0, 4.0, f64::NAN, 3.0, 0.0]).unwrap();
    assert_eq!((rates.best, rates.worst, rates.ratio().get()), (4.0, 2.0, 0.5));
    let times = RepetitionSpread::from_times([0.5, 0.25, f64::INFINITY]).unwrap();
    assert_eq!((times.best, times.worst, times.ratio().get()), (0.25, 0.5, 1.0));
    assert_eq!(RepetitionSpread::from_rates([]), None);
    assert_eq!(RepetitionSpread::from_times([0.0]), None);
}
