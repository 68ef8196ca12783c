//! Tests of the ledger: conservation as a property, bounds, idle power, comparison.

use proptest::prelude::*;

use super::*;

fn looked(
    at: i64,
    measured: Option<f64>,
    estimated: Option<f64>,
    used: &[(&'static str, f64)],
) -> NodeObservation<&'static str> {
    let busy: f64 = used.iter().map(|(_, seconds)| seconds).sum();
    let estimated = estimated.map(|watts| EstimatedPower {
        watts,
        interval: Some((watts - 5.0, watts + 5.0)),
        idle: 10.0,
    });
    NodeObservation {
        at,
        seconds: 1.0,
        busy_cores: Some(busy),
        measured,
        estimated,
        used: used.to_vec(),
        unseen: 0.0,
    }
}

fn sum<K>(parts: &PowerBreakdown<K>) -> f64 {
    parts.idle + parts.named.iter().map(|(_, watts)| watts).sum::<f64>() + parts.others + parts.unseen
}

proptest! {
    // Each case has many rows, so fewer cases.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_entry_and_every_view_of_it_adds_up_to_the_node(
        rows in proptest::collection::vec(
            (
                proptest::option::of(prop_oneof![0.0..2000.0f64, Just(f64::NAN), Just(-3.0)]),
                proptest::option::of(0.0..2000.0f64),
                0.0..500.0f64,
                proptest::collection::vec((0usize..60, prop_oneof![0.0..40.0f64, Just(f64::NAN), Just(0.0)]), 0..60),
                0.0..5.0f64,
            ),
            1..35
        ),
        top in 0usize..20
    ) {
        let mut ledger: PowerLedger<usize> = PowerLedger::new(30);
        for (at, (measured, estimated, idle, used, unseen)) in rows.into_iter().enumerate() {
            let estimated = estimated.map(|watts| EstimatedPower { watts, interval: None, idle });
            // Each consumer is in the list once.
            let mut used = used;
            used.sort_by_key(|(consumer, _)| *consumer);
            used.dedup_by_key(|(consumer, _)| *consumer);
            let busy_cores = Some(unseen);
            ledger.enter(NodeObservation { at: at as i64, seconds: 5.0, busy_cores, measured, estimated, used, unseen });
        }
        prop_assert!(ledger.entries().len() <= 30);
        for entry in ledger.entries() {
            match (entry.node(), &entry.parts) {
                (Some(node), Some(parts)) => {
                    prop_assert!((sum(parts) - node).abs() <= 1e-9 * node.max(1.0), "{} {node}", sum(parts));
                    prop_assert!(parts.named.len() <= MAX_NAMED_PARTS && parts.named.iter().all(|(_, watts)| *watts > 0.0));
                    prop_assert!(parts.idle >= 0.0 && parts.others >= 0.0 && parts.unseen >= 0.0);
                }
                (None, None) => {}
                other => prop_assert!(false, "{other:?}"),
            }
        }
        let view = ledger.view(usize::MAX, top);
        prop_assert!(view.consumers.len() <= top);
        for (row, entry) in view.entries.iter().enumerate() {
            let (Some(node), Some(parts)) = (entry.node(), &entry.parts) else { continue };
            let named: f64 = view.consumers.iter().filter_map(|consumer| consumer.watts[row]).sum();
            let all = parts.idle + parts.unseen + named + view.others[row].unwrap();
            prop_assert!((all - node).abs() <= 1e-9 * node.max(1.0), "{all} {node}");
        }
    }
}

#[test]
fn only_the_latest_entries_are_kept() {
    let mut ledger = PowerLedger::new(3);
    for at in 0..10 {
        ledger.enter(looked(at, None, Some(20.0), &[("a", 1.0)]));
    }
    assert_eq!(ledger.entries().map(|entry| entry.at).collect::<Vec<_>>(), [7, 8, 9]);
    assert_eq!(ledger.view(2, 9).entries.len(), 2);
}

#[test]
fn the_meter_is_shared_where_there_is_one_else_the_estimate() {
    let mut ledger = PowerLedger::default();
    ledger.enter(looked(1, None, Some(30.0), &[("a", 3.0), ("b", 1.0)]));
    ledger.enter(looked(2, Some(50.0), Some(30.0), &[("a", 3.0), ("b", 1.0)]));
    ledger.enter(looked(3, None, None, &[("a", 3.0)]));
    let parts: Vec<_> = ledger.entries().map(|entry| entry.parts.clone()).collect();
    let first = parts[0].as_ref().unwrap();
    assert_eq!((first.idle, first.named.to_vec()), (10.0, vec![("a", 15.0), ("b", 5.0)]));
    let second = parts[1].as_ref().unwrap();
    assert_eq!(second.idle, 50.0, "all that is known of this meter so far is its least");
    assert_eq!(parts[2], None, "nothing is known, and nothing is made up");
}

#[test]
fn those_who_took_most_come_first_and_the_rest_is_together() {
    let mut ledger = PowerLedger::default();
    ledger.enter(looked(1, None, Some(40.0), &[("a", 1.0), ("b", 2.0), ("c", 0.0)]));
    ledger.enter(looked(2, None, Some(40.0), &[("c", 3.0)]));
    let view = ledger.view(10, 2);
    let names: Vec<_> = view.consumers.iter().map(|consumer| (consumer.identity, consumer.mean)).collect();
    assert_eq!(names, [("c", 15.0), ("b", 10.0)]);
    assert_eq!(view.consumers[0].watts, [None, Some(30.0)]);
    assert_eq!(view.others, [Some(10.0), Some(0.0)]);
}

#[test]
fn idling_is_found_from_a_meter_whose_load_varies() {
    let mut ledger = PowerLedger::default();
    for at in 0..60 {
        let busy = f64::from(at % 4) + 0.5;
        ledger.enter(looked(i64::from(at), Some(20.0 + 7.0 * busy), Some(99.0), &[("a", busy)]));
    }
    assert_eq!(ledger.how(), IdleMethod::Fitted);
    let last = ledger.entries().next_back().unwrap().parts.clone().unwrap();
    assert!((last.idle - 20.0).abs() < 1e-6, "never idle, and still found: {last:?}");
    let mut steady = PowerLedger::default();
    for at in 0..60 {
        steady.enter(looked(at, Some(41.0 + at as f64 / 100.0), None, &[("a", 1.0)]));
    }
    assert_eq!(steady.how(), IdleMethod::Least);
    assert_eq!(steady.entries().next_back().unwrap().parts.as_ref().unwrap().idle, 41.0);
    let falling: Vec<(f64, f64)> = (0..60).map(|at| (f64::from(at % 5), 50.0 - f64::from(at % 5))).collect();
    assert_eq!(
        idle::estimate_idle(&falling).map(|(watts, _)| watts),
        Some(46.0),
        "never more than was measured"
    );
    assert_eq!(idle::estimate_idle(&[]), None);
}

#[test]
fn the_estimate_is_held_against_the_meter() {
    let mut ledger = PowerLedger::default();
    ledger.enter(looked(1, Some(100.0), Some(104.0), &[]));
    ledger.enter(looked(2, Some(100.0), Some(88.0), &[]));
    ledger.enter(looked(3, None, Some(88.0), &[]));
    ledger.enter(looked(4, Some(100.0), None, &[]));
    let compared = ledger.view(10, 1).compared.unwrap();
    assert_eq!((compared.entries, compared.mae, compared.bias), (2, 8.0, -4.0));
    assert!((compared.mape.unwrap() - 0.08).abs() < 1e-12);
    assert_eq!(compared.inside, Some((2, 1)));
    assert_eq!(ledger.view(1, 1).compared, None, "the latest alone has no estimate");
}

#[test]
fn what_nobody_else_takes_is_nothing_and_not_less() {
    let mut ledger: PowerLedger<&'static str> = PowerLedger::new(3);
    ledger.enter(looked(1, Some(50.0), None, &[("a", 1.0)]));
    let others = ledger.view(3, 5).others[0].unwrap();
    assert!(others == 0.0 && others.is_sign_positive(), "{others:?}");
}
