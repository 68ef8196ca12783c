//! Learning and predicting how long graphs take, by the real binary.

use crate::common::Place;
use serde_json::Value;

fn graph(name: &str) -> Option<String> {
    let Some(folder) = std::env::var_os("METIER_LAB_GRAPHS") else {
        eprintln!("SKIP: {name}, because METIER_LAB_GRAPHS is not set; `lab/lab up graphs` gets the graphs");
        return None;
    };
    Some(std::path::Path::new(&folder).join(format!("{name}.onnx")).display().to_string())
}

#[test]
fn boards_that_are_not_here_are_ranked_from_their_passports() {
    let Some(graph) = graph("light-squeezenet") else { return };
    let place = Place::new();
    let text = place.ok(&[
        "predict",
        "latency",
        &graph,
        "--device",
        "raspberry-pi-3b",
        "--device",
        "raspberry-pi-5",
        "--threads",
        "4",
        "-o",
        "json",
    ]);
    let told: Value = serde_json::from_str(&text).unwrap();
    let list = told["predictions"].as_array().unwrap();
    assert_eq!(list.len(), 2);
    let value = |at: usize, field: &str| list[at][field].as_f64().unwrap();
    assert!(value(0, "value") < value(1, "value"), "the fastest first");
    assert!(list[0]["device"]["name"].as_str().unwrap().contains('5'), "{text}");
    for one in [0, 1] {
        assert!(value(one, "low") < value(one, "value") && value(one, "value") < value(one, "high"));
        assert_eq!(list[one]["in_range"], false);
        assert_eq!(list[one]["unit"], "seconds");
        assert_eq!((&list[one]["threads"], &list[one]["runtime"]), (&Value::from(4), &Value::from("rten")));
        assert!(list[one]["because"].as_str().unwrap().contains("no graph was timed"));
    }
    let table = place.ok(&["predict", "latency", &graph, "--device", "raspberry-pi-5", "--operators"]);
    assert!(table.contains("Conv") && table.contains("BECAUSE"), "{table}");
    let ask = ["predict", "latency", &graph, "--device", "raspberry-pi-5", "-o", "csv"];
    // As many as the device has processors, where none are asked for.
    assert!(place.ok(&ask).contains("\nraspberry-pi-5,4,"), "{}", place.ok(&ask));
    let csv = place.ok(&[&ask[..], &["--operators"]].concat());
    assert!(csv.starts_with("name,kind,seconds,share,within\n") && csv.contains(",Conv,"), "{csv}");
}

#[test]
fn more_load_takes_longer() {
    let Some(graph) = graph("light-squeezenet") else { return };
    let place = Place::new();
    let at = |load: &str| -> f64 {
        let text = place.ok(&[
            "predict",
            "latency",
            &graph,
            "--device",
            "raspberry-pi-4b",
            "--threads",
            "4",
            "--load",
            load,
            "-o",
            "json",
        ]);
        serde_json::from_str::<Value>(&text).unwrap()["value"].as_f64().unwrap()
    };
    assert!(at("0%") < at("50%") && at("50%") < at("90%") && at("90%") < at("300%"));
}

#[test]
fn what_is_wrong_is_named() {
    let Some(graph) = graph("light-squeezenet") else { return };
    let place = Place::new();
    for (arguments, part) in [
        (vec!["predict", "latency", graph.as_str(), "--device", "abacus"], "abacus"),
        (vec!["predict", "latency", graph.as_str(), "--load", "1700%"], "--load"),
        (vec!["predict", "latency", graph.as_str(), "--memory-load", "150%"], "--memory-load"),
        (vec!["predict", "latency", graph.as_str(), "--runtime", "tflite"], "tflite"),
        (vec!["train", "latency", "--budget", "soon"], "--budget"),
        (vec!["train", "latency", "--threads", "0"], "--threads"),
    ] {
        let output = place.command(&arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).to_string();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
    let output = place.command(&["predictors", "show", "ffff"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn graphs_that_cannot_be_timed_are_named_and_the_others_are_timed() {
    let (Some(open), Some(good)) = (graph("ppocr-angle"), graph("light-squeezenet")) else { return };
    let place = Place::new();
    let arguments =
        ["train", "latency", "--budget", "20s", "--only-graphs", "--no-learn", "--graphs", &open, &good];
    let output = place.run(&arguments);
    let said = String::from_utf8_lossy(&output.stderr).to_string();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(
        said.contains("ppocr-angle was not timed: ") && !said.contains("light-squeezenet was not"),
        "{said}"
    );
    assert!(said.contains(" points in "), "{said}");
}

/// Gives every predictor this standing. What training decides depends on how calm the host was; so
/// few graphs may teach so little that the passport does better.
fn set_standing(place: &Place, standing: &str) {
    let store = rusqlite::Connection::open(place.path("data/metier/metier.db")).unwrap();
    let sql = "UPDATE predictor SET record = json_set(record, '$.standing', ?1)";
    assert!(store.execute(sql, [standing]).unwrap() > 0);
}

#[test]
fn what_is_learned_is_listed_asked_where_it_is_of_use_and_removed() {
    let (Some(first), Some(second), Some(third), Some(fourth)) =
        (graph("light-squeezenet"), graph("light-shufflenet"), graph("ppocr-angle"), graph("magika"))
    else {
        return;
    };
    let place = Place::new();
    let text = place.ok(&[
        "train",
        "latency",
        "--budget",
        "20s",
        "--graphs",
        &first,
        &second,
        &third,
        &fourth,
        "--shape",
        "x=1x3x48x192",
        "--shape",
        "bytes=1x2048",
        "-o",
        "json",
    ]);
    let record: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(record["kind"], "latency");
    assert!(record["held_out"][0]["groups"].as_u64().unwrap() >= 2, "{text}");
    let id = record["id"].as_str().unwrap();
    for (standing, answers) in [("passed", false), ("in-use", true)] {
        set_standing(&place, standing);
        let predicted = place.run(&["predict", "latency", &first, "-o", "json"]);
        // Without a predictor the passport answers, and without its figures there is no answer.
        let answer: Value = serde_json::from_slice(&predicted.stdout).unwrap_or_default();
        assert_eq!(answer["predictor"] == id, answers, "{standing}: {predicted:?}");
    }
    let short = &id.trim_start_matches("sha256:")[..12];
    assert!(place.ok(&["predictors"]).contains(short));
    assert!(place.ok(&["predictors", "show", short]).contains("multiply-adds × constant"));
    let file: Value = serde_json::from_str(&place.ok(&["predictors", "file", id])).unwrap();
    assert_eq!(file["schema"], "metier.latency/1");
    place.ok(&["predictors", "remove", id]);
    assert!(!place.ok(&["predictors", "-o", "json"]).contains(id));
}

#[test]
fn onnx_runtime_has_a_predictor_of_its_own() {
    let (Some(first), Some(second), Some(third), Some(fourth)) =
        (graph("light-squeezenet"), graph("light-shufflenet"), graph("ppocr-angle"), graph("magika"))
    else {
        return;
    };
    let Some(library) = std::env::var_os("METIER_LAB_ONNXRUNTIME") else {
        eprintln!(
            "SKIP: ONNX Runtime, because METIER_LAB_ONNXRUNTIME is not set; `lab/lab up graphs` gets it"
        );
        return;
    };
    let place = Place::new();
    let record = place.json(&[
        "train",
        "latency",
        "--runtime",
        "onnxruntime",
        "--onnxruntime",
        library.to_str().unwrap(),
        "--budget",
        "20s",
        "--graphs",
        &first,
        &second,
        &third,
        &fourth,
        "--shape",
        "x=1x3x48x192",
        "--shape",
        "bytes=1x2048",
        "-o",
        "json",
    ]);
    assert_eq!(record["runtime"], "onnxruntime");
    assert_eq!(record["graphs"].as_array().unwrap().len(), 4, "{record}");
    let asked =
        |runtime: &str| place.json(&["predict", "latency", &first, "--runtime", runtime, "-o", "json"]);
    set_standing(&place, "in-use");
    assert_eq!(asked("onnxruntime")["predictor"], record["id"]);
    let other = asked("rten");
    assert_eq!(other["in_range"], false);
    assert!(other["because"].as_str().unwrap().contains("learned with onnxruntime"), "{other}");
    let output = place.run(&["train", "latency", "--runtime", "onnxruntime", "--onnxruntime", "/no/such.so"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such.so"), "{output:?}");
}

#[test]
fn runs_of_bench_are_learned_from_or_left_out_for_a_reason() {
    let (Some(first), Some(second)) = (graph("light-squeezenet"), graph("light-shufflenet")) else { return };
    let place = Place::new();
    let trained = ["train", "latency", "--budget", "8s", "--no-load", "--graphs", &first, "-o", "json"];
    let before = place.json(&trained);
    assert_eq!(before["runs"], serde_json::json!([]));
    let bench = ["bench", &second, "--threads", "1", "--repeat", "2", "--least", "0s", "-o", "json"];
    let run = place.json(&bench)["results"][0]["runs"][0].as_str().unwrap().to_string();
    place.ok(&["bench", &second, "--threads", "1", "--repeat", "2", "--least", "0s", "--limit-cpu", "0.5"]);
    let output = place.run(&["train", "latency", "--from-runs", "-o", "json"]);
    let said = String::from_utf8_lossy(&output.stderr).to_string();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("left out: it was held back by limits"), "{said}");
    let after: Value = serde_json::from_slice(&output.stdout).unwrap();
    if said.contains("left out: the hypervisor") {
        eprintln!("SKIP: that a run is learned from, because the hypervisor took processor time from it");
    } else {
        assert!(after["runs"].as_array().unwrap().iter().any(|one| *one == run.as_str()), "{after} {said}");
    }
    assert!(after["because"].as_str().is_some_and(|why| !why.is_empty()), "{after}");
    let shown = place.ok(&["predictors", "show", after["id"].as_str().unwrap()]);
    assert!(shown.contains(after["because"].as_str().unwrap()), "{shown}");
    let output = place.run(&["train", "latency", "--from-runs", "--budget", "1m"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn what_was_measured_here_answers_first_and_this_device_has_a_passport_by_itself() {
    let place = Place::new();
    let net = crate::bench::network(&place);
    let fixed = ["predict", "latency", &net, "--shape", "x=4x3x16x16", "-o", "json"];
    let ask = |threads: &str| place.json(&[&fixed[..], &["--threads", threads]].concat());
    let before = ask("1");
    assert!(!before["because"].as_str().unwrap().contains("measured on"), "{before}");
    let here = before["device"]["id"].as_str().unwrap();
    let passport = place.json(&["device", "export", here]);
    assert_eq!((&passport["origin"], &passport["is_quick"]), (&"measured".into(), &true.into()));
    assert!(passport["notes"].to_string().contains("A quick passport"), "{}", passport["notes"]);
    assert!(passport["missing"]["storage"].as_str().unwrap().contains("metier device bench"), "{passport}");

    let bench = [
        "bench",
        &net,
        "--shape",
        "x=4x3x16x16",
        "--threads",
        "1",
        "--repeat",
        "30",
        "--least",
        "0",
        "--quiet",
    ];
    place.ok(&bench);
    let after = ask("1");
    let because = after["because"].as_str().unwrap();
    assert!(because.starts_with("measured on") && because.contains("1 run of this graph"), "{because}");
    let number = |field: &str| after[field].as_f64().unwrap();
    assert!(number("low") <= number("value") && number("value") <= number("high"), "{after}");
    assert_eq!(after["in_range"], true);
    // Another number of threads, other shapes and a loaded device were not measured.
    for other in [&["--threads", "2"][..], &["--threads", "1", "--load", "50%"]] {
        let told = place.json(&[&fixed[..], other].concat());
        assert!(!told["because"].as_str().unwrap().contains("measured on"), "{told}");
    }
    let told =
        place.json(&["predict", "latency", &net, "--shape", "x=2x3x16x16", "--threads", "1", "-o", "json"]);
    assert!(!told["because"].as_str().unwrap().contains("measured on"), "{told}");
    let all = place.json(&[&fixed[..], &["--threads", "1", "--device", "all"]].concat());
    let own = all["predictions"].as_array().unwrap().iter().find(|one| one["device"]["id"] == here);
    assert!(own.unwrap()["because"].as_str().unwrap().starts_with("measured on"), "{all}");
}
