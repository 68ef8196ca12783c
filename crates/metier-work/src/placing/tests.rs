#[path = "../../../metier-predict/tests/common/lab_graph.rs"]
mod lab_graph;

use metier_types::{Interval, Ratio, Seconds, Timestamp};

use super::*;
use crate::nodes::{Aged, Missing, Node};
use metier_predict::latency::conditions::ALL;

fn node(name: &str) -> NodeFacts {
    NodeFacts {
        name: name.into(),
        architecture: "amd64".into(),
        system: "linux".into(),
        labels: BTreeMap::new(),
        boot: String::new(),
        cores: Some(4.0),
        memory: Some(Bytes(4 << 30)),
        free_cores: Some(2.0),
        free_memory: Some(Bytes(1 << 30)),
        obstacle: None,
    }
}

fn demand() -> Demand {
    Demand { workload: "net".into(), threads: 1, replicas: 1, architecture: None, labels: BTreeMap::new() }
}

fn told(value: f64, unit: &str) -> Prediction {
    let interval = Interval::new(value / 2.0, value * 2.0, Ratio(0.9)).unwrap();
    Prediction::new(value, unit, interval, Digest::from_bytes([1; 32]), true, "x").unwrap()
}

/// Times by name of node, in milliseconds; memory of 100 MB.
fn answers<'a>(times: &'a [(&'a str, f64)]) -> impl Fn(&NodeFacts) -> Result<Predicted, String> + 'a {
    move |node| {
        let (_, time) = times.iter().find(|(name, _)| *name == node.name).ok_or("no passport is known")?;
        let (latency, memory) = (told(time / 1e3, "seconds"), told(100e6, "bytes"));
        Ok(Predicted { latency, memory, threads: 4, passport: None })
    }
}

fn survey(nodes: Vec<NodeFacts>) -> Survey {
    Survey { nodes, notes: vec![] }
}

#[test]
fn the_fastest_node_with_room_is_chosen_and_all_are_told_why() {
    let mut full = node("full");
    full.free_memory = Some(Bytes(100 << 20));
    let mut busy = node("busy");
    busy.free_cores = Some(0.5);
    let mut cold = node("cold");
    cold.obstacle = Some("it is not ready".into());
    let nodes = vec![busy, cold, node("fast"), full, node("slow"), node("unknown")];
    let times = [("fast", 10.0), ("slow", 100.0), ("full", 1.0), ("busy", 1.0), ("cold", 1.0)];
    let found = choose(&survey(nodes), &demand(), &answers(&times));
    assert_eq!((found.status, found.objective, found.bound), ("optimal", Some(0.01), Some(0.01)));
    let order: Vec<(&str, Standing)> =
        found.candidates.iter().map(|one| (one.device.as_str(), one.status)).collect();
    use Standing::{Chosen, LeftOut, Possible};
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
    let why = |name: &str| {
        found.candidates.iter().find(|one| one.device == name).map(|one| one.because.clone()).unwrap()
    };
    assert!(why("fast").contains("no other interval reaches it"), "{}", why("fast"));
    assert_eq!(why("slow"), "10.00 times as long as on fast");
    assert_eq!(why("busy"), "1 cores are wanted and 0.50 of 4.00 are free");
    assert!(why("full").starts_with("it may need 191 MiB"), "{}", why("full"));
    assert_eq!((why("cold").as_str(), why("unknown").as_str()), ("it is not ready", "no passport is known"));
    let full = found.candidates.iter().find(|one| one.device == "full").unwrap();
    assert!(full.prediction.is_some(), "what is predicted there is shown also where there is no room");
}

#[test]
fn of_equals_the_first_by_name_is_chosen_and_overlap_is_said() {
    let nodes = vec![node("b"), node("a"), node("c")];
    let found = choose(&survey(nodes), &demand(), &answers(&[("a", 5.0), ("b", 5.0), ("c", 6.0)]));
    assert_eq!(found.chosen().unwrap().device, "a");
    assert!(found.chosen().unwrap().because.contains("2 others"), "{:?}", found.chosen());
    assert!(found.candidates[1].because.contains("first by name"), "{:?}", found.candidates[1]);
}

#[test]
fn where_nothing_fits_it_says_so_for_each_node() {
    let wanted = Demand { architecture: Some("arm64".into()), ..demand() };
    let found = choose(&survey(vec![node("a")]), &wanted, &answers(&[("a", 5.0)]));
    assert_eq!((found.status, found.objective, found.gap_ratio), ("infeasible", None, None));
    assert_eq!(found.unplaced[0].because, "none of 1 nodes can take it (a: it is amd64; want arm64)");
    assert!(found.assignments.is_empty());
    let wanted = Demand { labels: [("zone".to_string(), "x".to_string())].into(), ..demand() };
    let found = choose(&survey(vec![node("a")]), &wanted, &answers(&[("a", 5.0)]));
    assert!(found.unplaced[0].because.contains("zone=x"));
    let none = choose(&survey(vec![]), &demand(), &answers(&[]));
    assert_eq!(none.unplaced[0].because, "the cluster has no nodes");
}

#[test]
fn replicas_need_room_together() {
    let wanted = Demand { replicas: 2, ..demand() };
    let mut small = node("a");
    small.free_memory = Some(Bytes(300 << 20));
    let found = choose(&survey(vec![small]), &wanted, &answers(&[("a", 5.0)]));
    assert!(found.unplaced[0].because.contains("382 MiB"), "{:?}", found.unplaced);
    let found = choose(&survey(vec![node("a")]), &wanted, &answers(&[("a", 5.0)]));
    assert_eq!(found.assignments[0].replicas, 2);
}

#[test]
fn a_service_asks_for_what_the_interval_allows() {
    let found = choose(&survey(vec![node("a")]), &demand(), &answers(&[("a", 5.0)]));
    let serving = Serving { name: "net".into(), image: "serve:1".into(), ..Serving::default() };
    let made = service(&found, &demand(), &serving, Some(&Digest::from_bytes([2; 32]))).unwrap();
    assert_eq!(made.memory, Bytes(191 << 20), "200 MB in whole mebibytes");
    assert_eq!((made.node.as_str(), made.cores), ("a", 1.0));
    assert!(made.annotations["metier.predictor"].starts_with("sha256:0101"));
    let object = manifest(&made, "there");
    assert_eq!(object["metadata"]["namespace"], "there");
    let kept: Value =
        serde_json::from_str(object["metadata"]["annotations"]["metier.prediction"].as_str().unwrap())
            .unwrap();
    assert_eq!(kept["latency"]["value"], 0.005);
    // One core is asked for, and the time is the one of four threads: each is told as what it is.
    assert_eq!((kept["threads"].clone(), demand().threads), (json!(4), 1));
    assert_eq!(json!(found)["candidates"][0]["threads"], 4);
    assert!(object["metadata"]["annotations"]["metier.graph"].as_str().unwrap().starts_with("sha256:0202"));
    let unseen = service(&found, &demand(), &serving, None).unwrap();
    assert!(!unseen.annotations.contains_key("metier.graph"), "no file, no digest");
}

#[test]
fn the_load_of_a_node_is_known_by_its_name_or_it_is_said_why_not() {
    let seen = |name: &str, busy: Option<f64>, missing: Vec<Missing>| Node {
        name: name.to_string(),
        class: None,
        uuid: None,
        model: None,
        brand: None,
        architecture: None,
        cores: None,
        memory: None,
        cpu_busy: busy.map(|busy| Aged { value: Ratio(busy), age: Seconds(1.0) }),
        disk_used: None,
        memory_available: None,
        missing,
    };
    let old = Missing { what: "cpu", why: "it was last told 90 s ago, more than 60 s".to_string() };
    let snapshot = Snapshot {
        at: Timestamp::UNIX_EPOCH,
        nodes: vec![
            seen("busy", Some(0.8), vec![]),
            seen("host-7", Some(0.1), vec![]),
            seen("old", None, vec![old]),
        ],
        warnings: vec![],
    };
    assert_eq!(load_of(&snapshot, &node("busy")), Ok(Ratio(0.8)));
    let mut by_host = node("seven");
    by_host.labels.insert("kubernetes.io/hostname".into(), "host-7".into());
    assert_eq!(load_of(&snapshot, &by_host), Ok(Ratio(0.1)));
    let why = load_of(&snapshot, &node("old")).unwrap_err();
    assert_eq!(why, "its load is not known: it was last told 90 s ago, more than 60 s");
    let why = load_of(&snapshot, &node("stranger")).unwrap_err();
    assert!(why.starts_with("Prometheus knows no node of this name"), "{why}");
    // What is not known is left out, whatever would be predicted.
    let times = [("busy", 5.0), ("stranger", 1.0)];
    let found = choose(&survey(vec![node("busy"), node("stranger")]), &demand(), &|node| {
        load_of(&snapshot, node).and_then(|_| answers(&times)(node))
    });
    assert_eq!(found.chosen().unwrap().device, "busy");
    assert_eq!((found.candidates[1].status, &found.candidates[1].because), (Standing::LeftOut, &why));
}

#[test]
fn a_prediction_says_the_threads_that_it_is_for() {
    let Some(graph) = lab_graph::graph("light-squeezenet", "data_0", &[1, 3, 224, 224]) else {
        return;
    };
    let latency = Latency::from_passports();
    let mut pi = node("pi");
    pi.labels.insert(DEVICE_LABEL.into(), "raspberry-pi-5".into());
    let asked = |threads| {
        let conditions = Conditions { threads, ..Conditions::default() };
        Oracle { graph: &graph, latency: &latency, conditions, store: None, own: None }.ask(&pi).unwrap()
    };
    assert_eq!((asked(ALL).threads, asked(2).threads), (4, 2), "a Raspberry Pi 5 has four cores");
    assert_eq!(asked(ALL).latency, asked(4).latency);
}

#[test]
fn a_busy_node_is_predicted_to_be_slower() {
    let Some(graph) = lab_graph::graph("light-squeezenet", "data_0", &[1, 3, 224, 224]) else {
        return;
    };
    let latency = Latency::from_passports();
    let oracle = Oracle {
        graph: &graph,
        latency: &latency,
        conditions: Conditions::default(),
        store: None,
        own: None,
    };
    let mut pi = node("pi");
    pi.labels.insert(DEVICE_LABEL.into(), "raspberry-pi-5".into());
    let time = |load| oracle.ask_beside(&pi, load).unwrap().latency.value();
    assert_eq!(time(None), oracle.ask(&pi).unwrap().latency.value());
    assert!(time(Some(Ratio(0.95))) > time(None), "{} {}", time(Some(Ratio(0.95))), time(None));
}

#[test]
fn whatever_a_graph_is_called_its_object_has_a_name() {
    for (graph, name) in [("Net_v2.1", "net-v2-1"), ("--", "graph"), ("", "graph"), ("Größe", "gr--e")] {
        assert_eq!(name_of(graph), name);
    }
    let long = Serving { name: name_of(&"Ab".repeat(200)), image: "x".into(), ..Serving::default() };
    assert_eq!(long.defect(), None);
}

#[test]
fn names_that_kubernetes_refuses_are_refused_here() {
    let serving = |name: &str| Serving { name: name.into(), image: "x".into(), ..Serving::default() };
    assert_eq!(serving("a-1").defect(), None);
    for name in ["", "-a", "a-", "A", "a_b", &"a".repeat(64)] {
        assert_eq!(serving(name).defect().unwrap().0, "name", "{name}");
    }
    assert_eq!(Serving { image: "a b".into(), ..serving("a") }.defect().unwrap().0, "image");
}
