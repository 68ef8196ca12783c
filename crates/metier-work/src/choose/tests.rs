//! Nodes ranked, and why some are not.

#[path = "../../../metier-predict/tests/common/lab_graph.rs"]
mod lab_graph;

use std::path::{Path, PathBuf};

use metier_types::{Ratio, Seconds, Timestamp};

use super::*;
use crate::nodes::{Aged, Missing};

fn node(name: &str, model: &str, busy: f64) -> Node {
    let aged = |value| Some(Aged { value: Ratio(value), age: Seconds(3.0) });
    Node {
        name: name.to_string(),
        class: Some("Computer".to_string()),
        uuid: Some("4e849968-21fc-11ed-a346-204ef6b52cc7".to_string()),
        model: Some(model.to_string()),
        brand: None,
        architecture: None,
        cores: None,
        memory: None,
        cpu_busy: aged(busy),
        disk_used: aged(0.5),
        memory_available: None,
        missing: Vec::new(),
    }
}

fn snapshot(nodes: Vec<Node>) -> Snapshot {
    Snapshot { at: Timestamp::UNIX_EPOCH, nodes, warnings: Vec::new() }
}

fn question() -> Question<'static> {
    let counts = Counts {
        conv_layers: 53.0,
        pool_layers: 2.0,
        fc_layers: 1.0,
        filter_details: 26_560.0,
        total_parameters: 25_610_153.0,
        model_input_size: 602_112.0,
        model_output_size: 4000.0,
    };
    Question { counts, graph: None, threads: None }
}

fn names(candidates: &[Candidate]) -> Vec<&str> {
    candidates.iter().filter_map(|candidate| candidate.node.as_deref()).collect()
}

#[test]
fn faster_and_idler_devices_come_first_and_each_has_an_interval() {
    let chooser = Chooser::without_store(None);
    let nodes = vec![
        node("busy-4b", "Raspberry Pi 4 Model B", 0.9),
        node("idle-4b", "Raspberry Pi 4B", 0.02),
        node("idle-5", "Raspberry Pi 5", 0.02),
        node("idle-3b", "Raspberry Pi 3B", 0.02),
    ];
    let ranked = chooser.rank(&snapshot(nodes), &question());
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
    let chooser = Chooser::without_store(None);
    let nodes: Vec<Node> = ["c", "a", "b"].iter().map(|name| node(name, "Jetson Nano", 0.3)).collect();
    let once = chooser.rank(&snapshot(nodes.clone()), &question());
    assert_eq!(names(&once), ["a", "b", "c"]);
    assert_eq!(chooser.rank(&snapshot(nodes), &question()), once);
}

#[test]
fn nodes_without_a_load_or_a_device_are_listed_last_with_the_reason() {
    let chooser = Chooser::without_store(None);
    let mut silent = node("silent", "Jetson Nano", 0.0);
    silent.cpu_busy = None;
    silent
        .missing
        .push(Missing { what: "cpu", why: "it was last told 90 s ago, more than 60 s".to_string() });
    let strange = node("strange", "Acme Anvil 9000", 0.1);
    let mut plain = node("plain", "Acme Anvil 9000", 0.1);
    (plain.architecture, plain.cores) = (Some("aarch64".to_string()), Some(4));
    let ranked =
        chooser.rank(&snapshot(vec![silent, strange, plain, node("ok", "Jetson Nano", 0.1)]), &question());
    let by = |name: &str| ranked.iter().find(|candidate| candidate.node.as_deref() == Some(name)).unwrap();
    assert_eq!(names(&ranked)[2..], ["silent", "strange"]);
    assert!(by("silent").predicted_execution_time.is_none());
    assert!(by("silent").reason.contains("90 s ago"), "{}", by("silent").reason);
    assert_eq!(by("silent").missing[0].what, "cpu");
    assert!(by("strange").reason.contains("no passport of \"Acme Anvil 9000\""), "{}", by("strange").reason);
    assert_eq!(by("strange").missing[0].what, "device", "{:?}", by("strange").missing);
    // Cores and instruction set allow a guess that says what it is.
    let guess = by("plain");
    assert_eq!((guess.known_from.as_ref().unwrap().origin, guess.in_range), ("generic", Some(false)));
    let width = |candidate: &Candidate| candidate.high.unwrap() / candidate.low.unwrap();
    assert!(width(guess) > width(by("ok")), "{guess:?}");
}

#[test]
fn a_node_without_room_for_the_graph_is_not_chosen_however_fast_it_is() {
    let chooser = Chooser::without_store(None);
    let with = |name: &str, model: &str, bytes: u64| {
        let mut node = node(name, model, 0.02);
        node.memory_available = Some(Aged { value: Bytes(bytes), age: Seconds(3.0) });
        node
    };
    let least = chooser.memory(&question()).unwrap().interval().low() as u64;
    let nodes = vec![
        with("fast-and-full", "Raspberry Pi 5", least - 1),
        with("fast", "Raspberry Pi 5", least),
        with("slow", "Raspberry Pi 3B", 8 << 30),
        // What is not known is not held against it.
        node("silent", "Raspberry Pi 4B", 0.02),
    ];
    let ranked = chooser.rank(&snapshot(nodes), &question());
    assert_eq!(names(&ranked), ["fast", "silent", "slow", "fast-and-full"]);
    let full = &ranked[3];
    assert_eq!((full.predicted_execution_time, full.low, full.high), (None, None, None));
    assert!(full.reason.starts_with("left out: it needs at least "), "{}", full.reason);
    assert!(full.reason.ends_with(" are available"), "{}", full.reason);
    assert!(full.prediction().is_err());
    // Where none has room there is nobody better: the seed's own example has 1e19 parameters, and is answered.
    let nodes = vec![with("slow", "Raspberry Pi 3B", 1 << 30), with("fast", "Raspberry Pi 5", 1 << 30)];
    let counts = Counts { total_parameters: 1e19, ..question().counts };
    let ranked = chooser.rank(&snapshot(nodes), &Question { counts, ..question() });
    assert_eq!(names(&ranked), ["fast", "slow"]);
    for one in &ranked {
        assert!(one.predicted_execution_time.is_some() && one.threads == Some(4), "{one:?}");
        assert!(one.reason.contains("it cannot run there: it needs at least"), "{}", one.reason);
    }
    // A device that is described is the only one: its time stays, and that it does not fit is said.
    let described = Described { model: "Raspberry Pi 3B", cpu_percent: 5.0, disk_percent: 75.0 };
    let counts = Counts { total_parameters: 1e12, ..question().counts };
    let large = chooser.device(&described, &Question { counts, ..question() });
    assert!(large.predicted_execution_time.is_some());
    assert!(large.reason.contains("it cannot run there: it needs at least"), "{}", large.reason);
    let small = chooser.device(&described, &question());
    assert!(!small.reason.contains("cannot run"), "{}", small.reason);
}

#[test]
fn a_node_that_tells_only_its_name_has_the_passport_that_was_measured_there() {
    let measured = |id: &str, host: &str| {
        let mut passport = passport::among(&passport::all(None), "raspberry-pi-5").unwrap().clone();
        passport.origin = Origin::Measured;
        passport.device.name = host.to_string();
        passport.device.id = id.parse().unwrap();
        passport.id = id.to_string();
        passport
    };
    let (one, other) = (format!("device-{:032x}", 1), format!("device-{:032x}", 2));
    let bare = |name: &str, cores| {
        let mut node = node(name, "", 0.1);
        (node.model, node.uuid, node.class) = (None, None, None);
        (node.architecture, node.cores) = (Some("aarch64".to_string()), Some(cores));
        node
    };
    let known = |passports: Vec<Passport>, node: Node| {
        let ours = Predictor::Ours(Box::new(Latency::from_passports()));
        let ranked = Chooser::with(ours, passports).rank(&snapshot(vec![node]), &question());
        ranked[0].known_from.clone().unwrap()
    };
    let cores = measured(&one, "edge-7").device.cpu.threads;
    let by_name = known(vec![measured(&one, "edge-7")], bare("edge-7", cores));
    assert_eq!((by_name.passport, by_name.origin), (one.clone(), "measured"));
    // Another host, another machine under the same name, or two of that name: nothing is known of it but its cores.
    assert_eq!(known(vec![measured(&one, "edge-7")], bare("edge-70", cores)).origin, "generic");
    assert_eq!(known(vec![measured(&one, "edge-7")], bare("edge-7", cores + 2)).origin, "generic");
    let twins = vec![measured(&one, "edge-7"), measured(&other, "edge-7")];
    assert_eq!(known(twins, bare("edge-7", cores)).origin, "generic");
}

#[test]
fn a_candidate_is_a_prediction_again_and_fewer_threads_take_longer() {
    let chooser = Chooser::without_store(None);
    let mut strange = node("strange", "Acme Anvil 9000", 0.1);
    let nodes = snapshot(vec![node("ok", "Raspberry Pi 4B", 0.1), strange.clone()]);
    let ranked = chooser.rank(&nodes, &question());
    let told = ranked[0].prediction().unwrap();
    assert_eq!(Some(told.value()), ranked[0].predicted_execution_time);
    assert_eq!((Some(told.interval().high()), told.unit()), (ranked[0].high, "seconds"));
    assert!(ranked[1].prediction().unwrap_err().contains("no passport of \"Acme Anvil 9000\""));
    // A guess from cores alone keeps its wider interval.
    (strange.architecture, strange.cores) = (Some("aarch64".to_string()), Some(4));
    let guess = &chooser.rank(&snapshot(vec![strange]), &question())[0];
    assert_eq!(Some(guess.prediction().unwrap().interval().low()), guess.low);
    let alone = chooser.rank(&nodes, &Question { threads: Some(1), ..question() });
    let many = chooser.rank(&nodes, &Question { threads: Some(4000), ..question() });
    assert!(alone[0].predicted_execution_time > ranked[0].predicted_execution_time, "{alone:?}");
    assert_eq!(many[0].predicted_execution_time, ranked[0].predicted_execution_time, "no more than it has");
}

#[test]
fn absurd_counts_have_a_finite_answer() {
    let chooser = Chooser::without_store(None);
    let counts = Counts {
        conv_layers: 66_666_666.0,
        pool_layers: 77_777_777.0,
        fc_layers: 34_535_353_535.0,
        filter_details: 66.0,
        total_parameters: 1e19,
        model_input_size: 345_343_543.0,
        model_output_size: 123_421_435.0,
    };
    let described = Described { model: "Raspberry Pi 4B", cpu_percent: 95.0, disk_percent: 75.0 };
    let candidate = chooser.device(&described, &Question { counts, graph: None, threads: None });
    assert!(candidate.predicted_execution_time.unwrap().is_finite(), "{candidate:?}");
    let unknown = Described { model: "toaster", ..described };
    let candidate = chooser.device(&unknown, &Question { counts, graph: None, threads: None });
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
    let original = Columns::open(&fixture("original.json")).unwrap();
    let scaled = Columns::open(&fixture("scaled.json")).unwrap();
    for Recorded { row, original: by_order, scaled: by_columns } in recorded {
        let counts = Counts {
            conv_layers: row[0],
            model_input_size: row[2],
            model_output_size: row[3],
            filter_details: row[5],
            fc_layers: row[6],
            pool_layers: row[8],
            total_parameters: row[9],
        };
        let device = if row[7] == 1.0 { "NVIDIA Jetson Nano" } else { "Raspberry Pi 4B" };
        let inputs =
            Inputs { counts, cpu_percent: Some(row[1]), disk_percent: Some(row[4]), device: Some(device) };
        assert_eq!(f64::from(original.predict(&inputs).unwrap()), by_order);
        assert_eq!(f64::from(scaled.predict(&inputs).unwrap()), by_columns);
        let lacking = Inputs { disk_percent: None, ..inputs };
        assert_eq!(original.predict(&lacking), Err("the use of the disk"));
    }
    let chooser = Chooser::without_store(Some(Arc::new(original)));
    let ranked = chooser.rank(&snapshot(vec![node("a", "Acme Anvil 9000", 0.1)]), &question());
    assert!(ranked[0].predicted_execution_time.is_some(), "a file needs no passport: {ranked:?}");
    assert_eq!((ranked[0].low, ranked[0].in_range), (None, None), "and has no interval");
    assert!(ranked[0].prediction().unwrap_err().contains("no interval"));
    assert!(chooser.memory(&question()).unwrap_err().contains("no interval"));
}

#[test]
fn a_predictor_file_is_asked_by_the_counts_of_the_original() {
    let Some(graph) = lab_graph::graph("light-resnet50", "gpu_0/data_0", &[1, 3, 224, 224]) else {
        return;
    };
    let chooser = Chooser::without_store(Some(Arc::new(Columns::open(&fixture("original.json")).unwrap())));
    let time = |question: &Question<'_>| {
        chooser.rank(&snapshot(vec![node("a", "Jetson Nano", 0.1)]), question)[0].predicted_execution_time
    };
    let counted = question();
    let rules = graph.characteristics_by_rules.unwrap();
    let original = Question { counts: Counts::of(&rules, 602_112.0, 4000.0), graph: None, threads: None };
    let uploaded = Question { graph: Some(&graph), ..counted };
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
    let chooser = Chooser::without_store(Some(Arc::new(Columns::open(&path).unwrap())));
    let ranked = chooser.rank(&snapshot(vec![node("a", "Jetson Nano", 0.1)]), &question());
    assert_eq!(ranked[0].predicted_execution_time, None);
    assert!(ranked[0].reason.contains("which nothing takes"), "{}", ranked[0].reason);
}

#[test]
fn columns_that_mean_nothing_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.json");
    std::fs::copy(fixture("original.json"), &path).unwrap();
    let beside = folder.path().join("x.columns.json");
    for (text, said) in [
        (r#"{"columns":[{"is":"colour"}]}"#, "column 1 is \"colour\""),
        (r#"{"columns":[{"is":"conv_layers"}]}"#, "1 columns; the predictor has 10"),
        (r#"{"columns":[{"is":"conv_layers","scale":0}]}"#, "the second not 0"),
        (r#"{"columns":[{"is":"pool_layers","equals":"x"}]}"#, "pool_layers equals x"),
        (r#"{"columns":[{"as":"x"}]}"#, "unknown field"),
        ("", "EOF"),
    ] {
        std::fs::write(&beside, text).unwrap();
        let error = Columns::open(&path).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("x.columns.json"), "{text}: {error}");
    }
    let error = Columns::open(&folder.path().join("nowhere.json")).unwrap_err().to_string();
    assert!(error.contains("nowhere.json") && error.contains("No such file"), "{error}");
    std::fs::write(&path, "{}").unwrap();
    let error = Columns::open(&path).unwrap_err().to_string();
    assert!(error.contains("want a predictor that XGBoost saved as JSON"), "{error}");
}
