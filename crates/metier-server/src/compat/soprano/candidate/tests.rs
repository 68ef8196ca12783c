//! Tests of the node ranking and of its reasons.

#[path = "../../../../../metier-predict/tests/common/lab_graph.rs"]
mod lab_graph;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use metier_place::{AgedValue, PrometheusNode};
use metier_types::{Ratio, Seconds};

use super::*;
use crate::compat::soprano::PredictorColumns;
use crate::placement_cache::SopranoConfig;

fn node(name: &str, model: &str, busy: f64) -> PrometheusNode {
    let aged = |value| Some(AgedValue { value: Ratio(value), age: Seconds(3.0) });
    PrometheusNode {
        name: name.to_string(),
        class: Some("Computer".to_string()),
        uuid: Some("4e849968-21fc-11ed-a346-204ef6b52cc7".to_string()),
        model: Some(model.to_string()),
        cpu_busy: aged(busy),
        disk_used: aged(0.5),
        ..PrometheusNode::default()
    }
}

/// The nodes of a Prometheus, by name.
fn inventory(mut nodes: Vec<PrometheusNode>) -> NodeInventory {
    nodes.sort_by(|node, other| node.name.cmp(&other.name));
    let facts = |node: PrometheusNode| NodeFacts {
        name: node.name.clone(),
        kubernetes: None,
        prometheus: Some(node),
    };
    let nodes = nodes.into_iter().map(facts).collect();
    NodeInventory { nodes, has_prometheus: true, ..NodeInventory::default() }
}

fn ours() -> PlacementPredictors {
    PlacementPredictors::without_store(&SopranoConfig::default())
}

fn by_file(file: PredictorColumns) -> PlacementPredictors {
    let predictor: Option<Arc<dyn FilePredictor>> = Some(Arc::new(file));
    PlacementPredictors::without_store(&SopranoConfig { predictor, ..SopranoConfig::default() })
}

fn ranked(nodes: Vec<PrometheusNode>, question: &GraphQuestion) -> Vec<ProfilingCandidate> {
    question.rank_candidates(&ours(), &inventory(nodes))
}

fn question() -> GraphQuestion {
    let counts = SopranoCounts {
        conv_layers: 53.0,
        pool_layers: 2.0,
        fc_layers: 1.0,
        filter_details: 26_560.0,
        total_parameters: 25_610_153.0,
        model_input_size: 602_112.0,
        model_output_size: 4000.0,
    };
    GraphQuestion { counts, graph: None, threads: None }
}

fn names(candidates: &[ProfilingCandidate]) -> Vec<&str> {
    candidates.iter().filter_map(|candidate| candidate.node.as_deref()).collect()
}

#[test]
fn faster_and_idler_devices_come_first_and_each_has_an_interval() {
    let nodes = vec![
        node("busy-4b", "Raspberry Pi 4 Model B", 0.9),
        node("idle-4b", "Raspberry Pi 4B", 0.02),
        node("idle-5", "Raspberry Pi 5", 0.02),
        node("idle-3b", "Raspberry Pi 3B", 0.02),
    ];
    let ranked = ranked(nodes, &question());
    assert_eq!(names(&ranked)[..2], ["idle-5", "idle-4b"], "{ranked:#?}");
    for candidate in &ranked {
        let time = candidate.predicted_execution_time.unwrap();
        assert!(candidate.low.unwrap() <= time && time <= candidate.high.unwrap(), "{candidate:?}");
        assert_eq!(candidate.coverage, Some(0.9));
        assert_eq!(candidate.known_from.as_ref().unwrap().origin, "specified");
        assert!(!candidate.reason.is_empty());
    }
}

#[test]
fn the_same_question_has_the_same_answer_and_equals_go_by_name() {
    let nodes: Vec<PrometheusNode> =
        ["c", "a", "b"].iter().map(|name| node(name, "Jetson Nano", 0.3)).collect();
    let once = ranked(nodes.clone(), &question());
    assert_eq!(names(&once), ["a", "b", "c"]);
    assert_eq!(ranked(nodes, &question()), once);
}

#[test]
fn nodes_without_a_load_or_a_device_are_listed_last_with_the_reason() {
    let mut silent = node("silent", "Jetson Nano", 0.0);
    silent.cpu_busy = None;
    silent
        .missing
        .push(MissingFact { what: "cpu", why: "it was last told 90 s ago, more than 60 s".to_string() });
    let strange = node("strange", "Acme Anvil 9000", 0.1);
    let mut plain = node("plain", "Acme Anvil 9000", 0.1);
    (plain.architecture, plain.cores) = (Some("aarch64".to_string()), Some(4));
    let ranked = ranked(vec![silent, strange, plain, node("ok", "Jetson Nano", 0.1)], &question());
    let by = |name: &str| ranked.iter().find(|candidate| candidate.node.as_deref() == Some(name)).unwrap();
    assert_eq!(names(&ranked)[2..], ["silent", "strange"]);
    assert!(by("silent").predicted_execution_time.is_none());
    assert!(by("silent").reason.contains("90 s ago"), "{}", by("silent").reason);
    assert_eq!(by("silent").missing[0].what, "cpu");
    assert!(by("strange").reason.contains("no passport of \"Acme Anvil 9000\""), "{}", by("strange").reason);
    assert_eq!(by("strange").missing[0].what, "device", "{:?}", by("strange").missing);
    // Cores and instruction set allow a generic prediction, marked as such.
    let guess = by("plain");
    assert_eq!((guess.known_from.as_ref().unwrap().origin, guess.in_range), ("generic", Some(false)));
    let width = |candidate: &ProfilingCandidate| candidate.high.unwrap() / candidate.low.unwrap();
    assert!(width(guess) > width(by("ok")), "{guess:?}");
}

#[test]
fn a_node_without_room_for_the_graph_is_not_chosen_however_fast_it_is() {
    let with = |name: &str, model: &str, bytes: u64| {
        let mut node = node(name, model, 0.02);
        node.memory_available = Some(AgedValue { value: Bytes(bytes), age: Seconds(3.0) });
        node
    };
    // The upper end of the prediction, in whole mebibytes.
    let high = ours().latency.memory_of_counts(&question().counts).unwrap().interval().high();
    let needed = requested_memory(high).get();
    let nodes = vec![
        with("fast-and-full", "Raspberry Pi 5", needed - 1),
        with("fast", "Raspberry Pi 5", needed),
        with("slow", "Raspberry Pi 3B", 8 << 30),
        // An unknown value does not disqualify a node.
        node("silent", "Raspberry Pi 4B", 0.02),
    ];
    let all = ranked(nodes, &question());
    assert_eq!(names(&all), ["fast", "silent", "slow", "fast-and-full"]);
    assert!(all[1].reason.ends_with("how much memory it has available is not known"), "{}", all[1].reason);
    let full = &all[3];
    assert_eq!((full.predicted_execution_time, full.low, full.high), (None, None, None));
    assert!(full.reason.starts_with("left out: it may need "), "{}", full.reason);
    assert!(full.reason.ends_with(" are available now"), "{}", full.reason);
    // If no node has enough memory, all keep their times. The original's own example has 1e19
    // parameters and gets an answer.
    let nodes = vec![with("slow", "Raspberry Pi 3B", 1 << 30), with("fast", "Raspberry Pi 5", 1 << 30)];
    let counts = SopranoCounts { total_parameters: 1e19, ..question().counts };
    let all = ranked(nodes, &GraphQuestion { counts, ..question() });
    assert_eq!(names(&all), ["fast", "slow"]);
    for candidate in &all {
        assert!(
            candidate.predicted_execution_time.is_some() && candidate.threads == Some(4),
            "{candidate:?}"
        );
        assert!(candidate.reason.contains("it may not run there: it may need"), "{}", candidate.reason);
    }
    // A described device has no alternative: it keeps its time, with a note that the graph may not
    // fit.
    let described = DescribedDevice { model: "Raspberry Pi 3B".into(), cpu_percent: 5.0, disk_percent: 75.0 };
    let counts = SopranoCounts { total_parameters: 1e12, ..question().counts };
    let large = GraphQuestion { counts, ..question() }.predict_described(&ours(), &described);
    assert!(large.predicted_execution_time.is_some());
    assert!(large.reason.contains("it may not run there: it may need"), "{}", large.reason);
    let small = question().predict_described(&ours(), &described);
    assert!(!small.reason.contains("may not run"), "{}", small.reason);
}

#[test]
fn fewer_threads_take_longer_and_more_than_there_are_do_not_help() {
    let nodes = vec![node("ok", "Raspberry Pi 4B", 0.1)];
    let time =
        |threads| ranked(nodes.clone(), &GraphQuestion { threads, ..question() })[0].predicted_execution_time;
    assert!(time(Some(1)) > time(None));
    assert_eq!(time(Some(4000)), time(None), "no more than it has");
}

#[test]
fn absurd_counts_have_a_finite_answer() {
    let counts = SopranoCounts {
        conv_layers: 66_666_666.0,
        pool_layers: 77_777_777.0,
        fc_layers: 34_535_353_535.0,
        filter_details: 66.0,
        total_parameters: 1e19,
        model_input_size: 345_343_543.0,
        model_output_size: 123_421_435.0,
    };
    let described =
        DescribedDevice { model: "Raspberry Pi 4B".into(), cpu_percent: 95.0, disk_percent: 75.0 };
    let absurd = GraphQuestion { counts, ..question() };
    let candidate = absurd.predict_described(&ours(), &described);
    assert!(candidate.predicted_execution_time.unwrap().is_finite(), "{candidate:?}");
    let unknown = DescribedDevice { model: "toaster".into(), ..described };
    let candidate = absurd.predict_described(&ours(), &unknown);
    assert!(candidate.reason.contains("no passport of \"toaster\""), "{}", candidate.reason);
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/predictor").join(name)
}

#[test]
fn predictor_files_give_the_numbers_of_xgboost_itself() {
    #[derive(serde::Deserialize)]
    struct Recorded {
        row: [f64; 10],
        original: f64,
        scaled: f64,
    }
    let recorded: Vec<Recorded> =
        serde_json::from_str(&std::fs::read_to_string(fixture("answers.json")).unwrap()).unwrap();
    assert!(recorded.len() >= 40);
    let original = PredictorColumns::open(&fixture("original.json")).unwrap();
    let scaled = PredictorColumns::open(&fixture("scaled.json")).unwrap();
    for Recorded { row, original: by_order, scaled: by_columns } in recorded {
        let counts = SopranoCounts {
            conv_layers: row[0],
            model_input_size: row[2],
            model_output_size: row[3],
            filter_details: row[5],
            fc_layers: row[6],
            pool_layers: row[8],
            total_parameters: row[9],
        };
        let device = if row[7] == 1.0 { "NVIDIA Jetson Nano" } else { "Raspberry Pi 4B" };
        let inputs = FileInputs {
            counts,
            cpu_percent: Some(row[1]),
            disk_percent: Some(row[4]),
            device: Some(device),
        };
        assert_eq!(f64::from(original.predict(&inputs).unwrap()), by_order);
        assert_eq!(f64::from(scaled.predict(&inputs).unwrap()), by_columns);
        let lacking = FileInputs { disk_percent: None, ..inputs };
        assert_eq!(original.predict(&lacking), Err("the use of the disk"));
    }
    let ranked =
        question().rank_candidates(&by_file(original), &inventory(vec![node("a", "Acme Anvil 9000", 0.1)]));
    assert!(ranked[0].predicted_execution_time.is_some(), "a file needs no passport: {ranked:?}");
    assert_eq!((ranked[0].low, ranked[0].in_range), (None, None), "and has no interval");
    assert!(ranked[0].reason.contains("no interval"), "{}", ranked[0].reason);
}

#[test]
fn a_predictor_file_is_asked_by_the_counts_of_the_original() {
    let Some(graph) = lab_graph::graph("light-resnet50", "gpu_0/data_0", &[1, 3, 224, 224]) else {
        return;
    };
    let predictors = by_file(PredictorColumns::open(&fixture("original.json")).unwrap());
    let nodes = inventory(vec![node("a", "Jetson Nano", 0.1)]);
    let time =
        |question: &GraphQuestion| question.rank_candidates(&predictors, &nodes)[0].predicted_execution_time;
    let counted = question();
    let rules = graph.characteristics_by_rules.unwrap();
    let original = GraphQuestion { counts: SopranoCounts::of(&rules, 602_112.0, 4000.0), ..question() };
    let uploaded = GraphQuestion { graph: Some(Box::new(graph)), ..question() };
    assert_eq!(time(&uploaded), time(&original));
    assert_ne!(time(&uploaded), time(&counted), "it does matter");
}

#[test]
fn a_negative_time_of_a_predictor_file_does_not_win() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(fixture("original.json")).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["learner"]["learner_model_param"]["base_score"] = "-1E6".into();
    let path = folder.path().join("x.json");
    std::fs::write(&path, value.to_string()).unwrap();
    let predictors = by_file(PredictorColumns::open(&path).unwrap());
    let ranked = question().rank_candidates(&predictors, &inventory(vec![node("a", "Jetson Nano", 0.1)]));
    assert_eq!(ranked[0].predicted_execution_time, None);
    assert!(ranked[0].reason.contains("outside the plausible range"), "{}", ranked[0].reason);
}

#[test]
fn columns_that_mean_nothing_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.json");
    std::fs::copy(fixture("original.json"), &path).unwrap();
    let beside = folder.path().join("x.columns.json");
    for (text, name_text) in [
        (r#"{"columns":[{"is":"colour"}]}"#, "column 1 is \"colour\""),
        (r#"{"columns":[{"is":"conv_layers"}]}"#, "1 columns; the predictor has 10"),
        (r#"{"columns":[{"is":"conv_layers","scale":0}]}"#, "the second not 0"),
        (r#"{"columns":[{"is":"pool_layers","equals":"x"}]}"#, "pool_layers equals x"),
        (r#"{"columns":[{"as":"x"}]}"#, "unknown field"),
        ("", "EOF"),
    ] {
        std::fs::write(&beside, text).unwrap();
        let error = PredictorColumns::open(&path).unwrap_err().to_string();
        assert!(error.contains(name_text) && error.contains("x.columns.json"), "{text}: {error}");
    }
    let error = PredictorColumns::open(&folder.path().join("nowhere.json")).unwrap_err().to_string();
    assert!(error.contains("nowhere.json") && error.contains("No such file"), "{error}");
    std::fs::write(&path, "{}").unwrap();
    let error = PredictorColumns::open(&path).unwrap_err().to_string();
    assert!(error.contains("want a predictor that XGBoost saved as JSON"), "{error}");
}
