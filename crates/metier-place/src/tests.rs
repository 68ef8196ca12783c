//! Tests of the ranking rules and of the answer's text.

use std::sync::{Arc, LazyLock};

use metier_types::{Bytes, ContentDigest, Passport, Prediction, PredictionInterval, Ratio, Seconds};
use serde_json::json;

use super::*;

static PASSPORT: LazyLock<Arc<Passport>> = LazyLock::new(|| {
    let seen = "1970-01-01T00:00:00Z";
    let written = json!({
        "schema": "metier.passport/1", "id": "board", "name": "a board", "origin": "specified", "made": seen,
        "device": {
            "schema": "metier.device/1", "id": "board", "name": "board", "class": "unknown", "seen": seen,
            "cpu": {"architecture": "aarch64", "threads": 4},
        },
    });
    Arc::new(serde_json::from_value(written).unwrap())
});

/// A Kubernetes node with 1 GiB and 2 of 4 cores free, modified by `change`.
fn node_with(name: &str, change: impl FnOnce(&mut KubernetesNode)) -> NodeFacts {
    let mut kubernetes = KubernetesNode {
        name: name.into(),
        architecture: "amd64".into(),
        system: "linux".into(),
        cores: Some(4.0),
        memory: Some(Bytes(4 << 30)),
        free_cores: Some(2.0),
        free_memory: Some(Bytes(1 << 30)),
        ..KubernetesNode::default()
    };
    change(&mut kubernetes);
    NodeFacts { name: name.into(), kubernetes: Some(kubernetes), prometheus: None }
}

fn node(name: &str) -> NodeFacts {
    node_with(name, |_| {})
}

/// Prometheus facts of a node with half its cores busy.
fn shown(name: &str, available: Option<u64>) -> PrometheusNode {
    let age = Seconds(1.0);
    PrometheusNode {
        name: name.into(),
        cpu_busy: Some(AgedValue { value: Ratio(0.5), age }),
        memory_available: available.map(|bytes| AgedValue { value: Bytes(bytes), age }),
        ..PrometheusNode::default()
    }
}

fn cluster(nodes: Vec<NodeFacts>) -> NodeInventory {
    NodeInventory { nodes, has_kubernetes: true, ..NodeInventory::default() }
}

fn demand() -> PlacementDemand {
    PlacementDemand::single("net")
}

fn prediction(value: f64, unit: &str) -> Prediction {
    let interval = PredictionInterval::new(value / 2.0, value * 2.0, Ratio(0.9)).unwrap();
    Prediction::new(value, unit, interval, ContentDigest::from_bytes([1; 32]), true, "x").unwrap()
}

/// Predictions by node name: times in milliseconds, memory of 100 MB, at most 200 MB.
fn answers<'a>(times: &'a [(&'a str, f64)]) -> impl Fn(&NodeFacts) -> Result<PlacementEstimate, String> + 'a {
    move |node| {
        let (_, time) = times.iter().find(|(name, _)| *name == node.name).ok_or("no passport is known")?;
        let source = ResolvedPassport { passport: PASSPORT.clone(), is_generic: false };
        let (latency, memory) = (prediction(time / 1e3, "seconds"), prediction(100e6, "bytes"));
        Ok(PlacementEstimate { latency, memory, threads: 4, source })
    }
}

fn why(found: &Placement, name: &str) -> String {
    found
        .candidates
        .iter()
        .find(|candidate| candidate.device == name)
        .map(|candidate| candidate.because.clone())
        .unwrap()
}

#[test]
fn the_fastest_node_with_room_is_chosen_and_all_are_told_why() {
    let nodes = vec![
        node_with("busy", |node| node.free_cores = Some(0.5)),
        node_with("cold", |node| node.obstacle = Some("it is not ready".into())),
        node("fast"),
        node_with("full", |node| node.free_memory = Some(Bytes(100 << 20))),
        node("slow"),
        node("unknown"),
    ];
    let times = [("fast", 10.0), ("slow", 100.0), ("full", 1.0), ("busy", 1.0), ("cold", 1.0)];
    let found = place(&cluster(nodes), &demand(), &answers(&times));
    assert_eq!((found.status, found.objective, found.bound), ("optimal", Some(0.01), Some(0.01)));
    let order: Vec<(&str, PlacementStanding)> =
        found.candidates.iter().map(|candidate| (candidate.device.as_str(), candidate.status)).collect();
    use PlacementStanding::{Chosen, LeftOut, Possible};
    assert_eq!(
        order,
        [
            ("fast", Chosen),
            ("slow", Possible),
            ("busy", LeftOut),
            ("cold", LeftOut),
            ("full", LeftOut),
            ("unknown", LeftOut)
        ]
    );
    let why = |name: &str| why(&found, name);
    assert!(why("fast").contains("no other interval reaches it"), "{}", why("fast"));
    assert_eq!(why("slow"), "10.00 times as long as on fast");
    assert_eq!(why("busy"), "1 cores are wanted and 0.50 of 4.00 are free");
    assert!(why("full").starts_with("it may need 191 MiB"), "{}", why("full"));
    assert_eq!((why("cold").as_str(), why("unknown").as_str()), ("it is not ready", "no passport is known"));
    let full = found.candidates.iter().find(|candidate| candidate.device == "full").unwrap();
    assert!(full.prediction.is_some(), "what is predicted there is shown also where there is no room");
    let chosen = json!(found.chosen().unwrap());
    assert_eq!((&chosen["threads"], &chosen["passport"]["id"]), (&json!(4), &json!("board")));
    assert_eq!(json!(found)["schema"], "metier.placement/1");
}

#[test]
fn of_equals_the_first_by_name_is_chosen_whatever_the_order_of_the_nodes() {
    let times = [("a", 5.0), ("b", 5.0), ("c", 6.0)];
    for names in [["b", "a", "c"], ["c", "b", "a"]] {
        let found = place(&cluster(names.map(node).into()), &demand(), &answers(&times));
        let order: Vec<&str> = found.candidates.iter().map(|candidate| candidate.device.as_str()).collect();
        assert_eq!(order, ["a", "b", "c"]);
        assert!(why(&found, "a").contains("2 other nodes"), "{}", why(&found, "a"));
        assert!(why(&found, "b").contains("first by name"), "{}", why(&found, "b"));
    }
}

#[test]
fn where_nothing_fits_it_says_so_for_each_node() {
    let placement_demand = PlacementDemand { architecture: Some("arm64".into()), ..demand() };
    let found = place(&cluster(vec![node("a")]), &placement_demand, &answers(&[("a", 5.0)]));
    assert_eq!((found.status, found.objective, found.gap_ratio), ("infeasible", None, None));
    assert_eq!(found.unplaced[0].because, "none of 1 nodes can take it (a: it is amd64; want arm64)");
    assert!(found.assignments.is_empty());
    let zoned = PlacementDemand { labels: [("zone".to_string(), "x".to_string())].into(), ..demand() };
    let found = place(&cluster(vec![node("a")]), &zoned, &answers(&[("a", 5.0)]));
    assert!(found.unplaced[0].because.contains("zone=x"));
    let none = place(&cluster(vec![]), &demand(), &answers(&[]));
    assert_eq!(none.unplaced[0].because, "the cluster has no nodes");
}

/// The result for a node with these figures in MiB, if up to 191 MiB are needed.
fn memory_of(free: Option<u64>, available: Option<u64>, replicas: u32) -> (PlacementStanding, String) {
    let mut facts = node_with("a", |node| node.free_memory = free.map(|mebi| Bytes(mebi << 20)));
    facts.prometheus = Some(shown("a", available.map(|mebi| mebi << 20)));
    let inventory = NodeInventory { has_prometheus: true, ..cluster(vec![facts]) };
    let found = place(&inventory, &PlacementDemand { replicas, ..demand() }, &answers(&[("a", 5.0)]));
    (found.candidates[0].status, why(&found, "a"))
}

#[test]
fn memory_is_short_where_the_upper_end_exceeds_either_figure_that_is_known() {
    use PlacementStanding::{Chosen, LeftOut};
    let short = |free, available, replicas| {
        let (standing, why) = memory_of(free, available, replicas);
        assert_eq!(standing, LeftOut, "{free:?} {available:?} {why}");
        why
    };
    for (free, available) in [(Some(191), Some(191)), (Some(191), None), (None, Some(191))] {
        let (standing, why) = memory_of(free, available, 1);
        assert_eq!((standing, why.as_str()), (Chosen, "the only node that can take it"));
    }
    assert!(short(Some(190), Some(4000), 1).ends_with("of memory and 190 MiB are free"));
    assert!(short(Some(190), None, 1).contains("190 MiB are free"));
    assert!(short(Some(4000), Some(190), 1).ends_with("of memory and 190 MiB are available now"));
    assert!(short(None, Some(190), 1).contains("190 MiB are available now"));
    // The replicas' memory is summed.
    assert!(short(Some(300), Some(4000), 2).starts_with("it may need 382 MiB"));
    assert!(short(Some(4000), Some(300), 2).starts_with("it may need 382 MiB"));
    assert_eq!(memory_of(Some(382), Some(382), 2).0, Chosen);
}

#[test]
fn a_node_whose_memory_is_not_known_is_not_left_out_for_it_and_says_so() {
    let (standing, why) = memory_of(None, None, 1000);
    assert_eq!(standing, PlacementStanding::LeftOut, "its cores are known: {why}");
    let (standing, why) = memory_of(None, None, 2);
    assert_eq!(standing, PlacementStanding::Chosen);
    assert_eq!(why, "the only node that can take it; how much memory it has free is not known");
}

#[test]
fn a_node_without_a_load_is_left_out_where_prometheus_answered() {
    let with = |name: &str, prometheus| NodeFacts { prometheus, ..node(name) };
    let old = MissingFact { what: "cpu", why: "it was last told 90 s ago, more than 60 s".to_string() };
    let silent = PrometheusNode { name: "old".into(), missing: vec![old], ..PrometheusNode::default() };
    let nodes =
        vec![with("busy", Some(shown("busy", None))), with("old", Some(silent)), with("stranger", None)];
    let times = [("busy", 50.0), ("old", 1.0), ("stranger", 1.0)];
    let inventory = NodeInventory { has_prometheus: true, ..cluster(nodes.clone()) };
    let found = place(&inventory, &demand(), &answers(&times));
    assert_eq!(found.chosen().unwrap().device, "busy");
    assert_eq!(why(&found, "old"), "its load is not known: it was last told 90 s ago, more than 60 s");
    assert!(why(&found, "stranger").starts_with("Prometheus knows no node of this name"));
    // If Prometheus was not queried or did not answer, load excludes no node.
    let found = place(&cluster(nodes), &demand(), &answers(&times));
    assert_eq!(found.chosen().unwrap().device, "old");
}

#[test]
fn nodes_that_kubernetes_does_not_know_are_named_and_cannot_be_used() {
    let of_prometheus = |name: &str| NodeFacts {
        name: name.into(),
        prometheus: Some(shown(name, Some(1 << 30))),
        ..NodeFacts::default()
    };
    let names: Vec<String> = (0..10).map(|number| format!("x{number}")).collect();
    let times: Vec<(&str, f64)> = names.iter().map(|name| (name.as_str(), 1.0)).collect();
    let mut inventory = NodeInventory {
        nodes: names.iter().map(|name| of_prometheus(name)).collect(),
        has_kubernetes: true,
        has_prometheus: true,
        notes: vec![],
    };
    let found = place(&inventory, &demand(), &answers(&times));
    assert_eq!((found.status, found.candidates.len(), found.notes.len()), ("infeasible", 0, 9));
    assert_eq!(found.notes[0], "x0: left out, the cluster has no node of this name");
    assert_eq!(found.notes[8], "2 more are left out that the cluster does not have");
    // Without Kubernetes, Prometheus is the only source of nodes.
    inventory.has_kubernetes = false;
    assert_eq!(place(&inventory, &demand(), &answers(&times)).chosen().unwrap().device, "x0");
}

#[test]
fn facts_of_both_sides_are_read_as_one() {
    let mut both = node("a");
    both.prometheus = Some(PrometheusNode { cores: Some(8), ..shown("a", None) });
    assert_eq!((both.cores(), node("a").cores()), (Some(8), Some(4)), "the machine's before the pods'");
    let architecture = |name: &str| {
        let prometheus =
            Some(PrometheusNode { architecture: Some(name.into()), ..PrometheusNode::default() });
        NodeFacts { prometheus, ..NodeFacts::default() }.architecture().map(str::to_string)
    };
    for (shown, want) in [("aarch64", "arm64"), ("ARM_8", "arm64"), ("x86_64", "amd64"), ("armv7l", "arm")] {
        assert_eq!(architecture(shown).as_deref(), Some(want));
    }
    assert_eq!(architecture("riscv64").as_deref(), Some("riscv64"));
}

proptest::proptest! {
    #[test]
    fn a_ranking_does_not_depend_on_the_order_of_the_nodes(times in proptest::collection::vec(1_u32..5, 1..8)) {
        let named: Vec<(String, f64)> =
            times.iter().enumerate().map(|(at, time)| (format!("n{at}"), f64::from(*time))).collect();
        let times: Vec<(&str, f64)> = named.iter().map(|(name, time)| (name.as_str(), *time)).collect();
        let order = |nodes: Vec<NodeFacts>| -> Vec<String> {
            let found = place(&cluster(nodes), &demand(), &answers(&times));
            found.candidates.into_iter().map(|candidate| candidate.device).collect()
        };
        let nodes: Vec<NodeFacts> = named.iter().map(|(name, _)| node(name)).collect();
        let turned = nodes.iter().rev().cloned().collect();
        proptest::prop_assert_eq!(order(nodes), order(turned));
    }
}
