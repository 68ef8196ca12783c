//! Properties of the rule that sizes requests and limits.

use metier_stats::{AdviceFirmness, ResourceAdvice, UseHistory, size_resources};
use metier_types::{Bytes, Cores, Seconds};
use proptest::prelude::*;

fn history(cores: Vec<f64>, window: f64, peak_mebibytes: u64) -> UseHistory {
    let most = cores.iter().copied().fold(0.0, f64::max);
    UseHistory {
        window: Seconds(window),
        wall: Seconds(window * cores.len() as f64),
        peak_cores: Some(Cores(most)),
        windows: cores.into_iter().map(Cores).collect(),
        peak_memory: Some(Bytes(peak_mebibytes << 20)),
        unreclaimable_memory: Some(Bytes((peak_mebibytes << 20) / 2)),
        throttled_periods: None,
        oom_kills: 0,
        has_succeeded: true,
        memory_limit: None,
    }
}

fn histories() -> impl Strategy<Value = Vec<UseHistory>> {
    let one = (prop::collection::vec(0.0f64..8.0, 20..60), 1u64..4000);
    prop::collection::vec(one.prop_map(|(cores, peak)| history(cores, 1.0, peak)), 1..8)
}

fn amount(advice: &ResourceAdvice, key: &str) -> Option<u64> {
    let value = &advice.quotas.iter().find(|quota| quota.key == key)?.value;
    value.trim_end_matches(|unit: char| unit.is_ascii_alphabetic()).parse().ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_request_lies_within_what_was_used_and_memory_covers_every_peak(runs in histories()) {
        let advice = size_resources(&runs);
        let most = runs.iter().flat_map(|run| &run.windows).map(|cores| cores.get()).fold(0.0, f64::max);
        let millicores = amount(&advice, "request.cpu").unwrap();
        prop_assert!(millicores >= 10 && millicores as f64 <= most * 1000.0 + 10.0);
        prop_assert_eq!(amount(&advice, "limit.cpu"), None);
        let peak = runs.iter().filter_map(|run| run.peak_memory).max().unwrap();
        let (request, limit) = (amount(&advice, "request.memory").unwrap(), amount(&advice, "limit.memory").unwrap());
        prop_assert!(limit << 20 > peak.get() && request <= limit);
        prop_assert!(advice.quotas.iter().all(|quota| !quota.reason.is_empty()));
    }

    #[test]
    fn the_order_of_the_runs_does_not_matter(runs in histories()) {
        let turned: Vec<UseHistory> = runs.iter().rev().cloned().collect();
        prop_assert_eq!(size_resources(&runs), size_resources(&turned));
    }

    #[test]
    fn more_use_never_asks_for_less(runs in histories(), factor in 1.0f64..3.0) {
        let larger: Vec<UseHistory> = runs
            .iter()
            .map(|run| UseHistory {
                windows: run.windows.iter().map(|cores| Cores(cores.get() * factor)).collect(),
                peak_memory: run.peak_memory.map(|peak| Bytes((peak.get() as f64 * factor) as u64)),
                ..run.clone()
            })
            .collect();
        let (small, large) = (size_resources(&runs), size_resources(&larger));
        for key in ["request.cpu", "limit.memory"] {
            prop_assert!(amount(&large, key) >= amount(&small, key), "{}: {:?} {:?}", key, small, large);
        }
    }

    #[test]
    fn shorter_windows_give_the_same_request(seconds in prop::collection::vec(0.0f64..4.0, 20..60)) {
        // Each second as a burst in its first tenth: the mean over the second is the same.
        let bursts = seconds.iter().flat_map(|cores| {
            let mut parts = [0.0; 10];
            parts[0] = cores * 10.0;
            parts
        });
        let fine = size_resources(&[history(bursts.collect(), 0.1, 100)]);
        let coarse = size_resources(&[history(seconds, 1.0, 100)]);
        let (fine, coarse) = (amount(&fine, "request.cpu").unwrap(), amount(&coarse, "request.cpu").unwrap());
        prop_assert!(fine.abs_diff(coarse) <= 10, "{} {}", fine, coarse);
    }

    #[test]
    fn what_held_a_run_back_gives_no_advice_on_it(mut runs in histories(), is_cpu in any::<bool>()) {
        match is_cpu {
            true => runs[0].throttled_periods = Some(25),
            false => runs[0].oom_kills = 1,
        }
        let advice = size_resources(&runs);
        let held = if is_cpu { "cpu" } else { "memory" };
        prop_assert!(advice.quotas.iter().all(|quota| !quota.key.ends_with(held)));
        prop_assert!(!advice.quotas.is_empty() && !advice.notes.is_empty());
    }
}

#[test]
fn a_kill_for_memory_is_told_also_where_there_is_no_advice() {
    let killed = UseHistory { oom_kills: 2, ..history(vec![1.0], 1.0, 50) };
    for has_succeeded in [true, false] {
        let advice = size_resources(&[UseHistory { has_succeeded, ..killed.clone() }]);
        assert_eq!(advice.firmness, AdviceFirmness::Refused);
        assert!(advice.notes.iter().any(|note| note.contains("killed 2 processes")), "{advice:?}");
    }
}

#[test]
fn no_run_gives_no_advice() {
    assert_eq!(size_resources(&[]).firmness, AdviceFirmness::Refused);
}
