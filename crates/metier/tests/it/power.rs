//! `metier power`: from Prometheus to predictors, pictures and an estimator that uses them. What
//! was recorded of Kepler's model server is compared where it is here.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{self, Place};
use serde_json::{Value, json};

/// The recorded data of Kepler, or why there is none.
fn kepler() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/kepler");
    if !folder.join("prom/idle.json").is_file() {
        eprintln!("SKIP: golden data of Kepler, because ../shared/data/kepler is not there");
        return None;
    }
    Some(folder)
}

/// Cells by name, a row each.
fn table(path: &Path) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    let header = reader.headers().unwrap().clone();
    let row = |record: csv::StringRecord| {
        header.iter().map(str::to_string).zip(record.iter().map(str::to_string)).collect()
    };
    reader.records().map(|record| row(record.unwrap())).collect()
}

fn number(row: &BTreeMap<String, String>, name: &str) -> f64 {
    row[name].parse().unwrap_or_else(|_| panic!("{name}: {row:?}"))
}

/// Kepler's counters of a machine that works in phases: 50 W idle, 0.04 W for each millisecond of
/// CPU time a second. Text of OpenMetrics with times.
fn series(samples: usize, start: i64) -> String {
    let features = ["bpf_cpu_time_ms", "bpf_page_cache_hit", "cpu_cycles", "cpu_instructions", "cache_miss"];
    let mut text = String::new();
    let load = |at: usize| {
        if (at / 10).is_multiple_of(4) {
            20.0
        } else {
            300.0 * ((at / 10) % 4) as f64 + 40.0 * (at % 5) as f64
        }
    };
    for (feature, per_ms) in features.iter().zip([1.0, 0.5, 2.0e6, 3.0e6, 4.0e3]) {
        let _ = writeln!(text, "# TYPE kepler_container_{feature} counter");
        for (container, share) in [("stress", 0.9), ("system", 0.1)] {
            let mut sum = 0.0;
            for at in 0..samples {
                sum += load(at) * share * per_ms * 3.0;
                let time = start + 3 * at as i64;
                let _ = writeln!(
                    text,
                    "kepler_container_{feature}_total{{container_id=\"{container}-1\",pod_name=\"{container}\",container_name=\"{container}\",container_namespace=\"n\"}} {sum} {time}"
                );
            }
        }
    }
    for (component, source, idle, per_ms) in [
        ("platform", "acpi", 50.0, 0.04),
        ("package", "rapl-sysfs", 20.0, 0.03),
        ("core", "rapl-sysfs", 10.0, 0.02),
        ("uncore", "rapl-sysfs", 2.0, 0.0),
        ("dram", "rapl-sysfs", 5.0, 0.004),
    ] {
        let _ = writeln!(text, "# TYPE kepler_node_{component}_joules counter");
        for mode in ["idle", "dynamic"] {
            let mut sum = 0.0;
            for at in 0..samples {
                sum += 3.0 * if mode == "idle" { idle } else { load(at) * per_ms };
                let time = start + 3 * at as i64;
                let _ = writeln!(
                    text,
                    "kepler_node_{component}_joules_total{{source=\"{source}\",mode=\"{mode}\",package=\"0\"}} {sum} {time}"
                );
            }
        }
    }
    text.push_str("# EOF\n");
    text
}

/// The same as a query response.
fn response(samples: usize) -> Value {
    let mut all: BTreeMap<String, BTreeMap<String, Vec<Value>>> = BTreeMap::new();
    for line in series(samples, 1_700_000_000).lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once('{').unwrap();
        let (labels, rest) = rest.split_once('}').unwrap();
        let (value, time) = rest.trim().split_once(' ').unwrap();
        let points = all.entry(name.to_string()).or_default().entry(labels.to_string()).or_default();
        points.push(json!([time.parse::<i64>().unwrap(), value]));
    }
    let one = |(labels, values): (String, Vec<Value>)| {
        let pairs = labels.split(',').map(|pair| pair.split_once('=').unwrap());
        let metric: serde_json::Map<String, Value> =
            pairs.map(|(name, value)| (name.to_string(), json!(value.trim_matches('"')))).collect();
        json!({ "metric": metric, "values": values })
    };
    all.into_iter()
        .map(|(name, list)| (name, list.into_iter().map(one).collect::<Vec<_>>().into()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn with_response(samples: usize) -> Place {
    let place = Place::new();
    fs::write(place.path("load.json"), response(samples).to_string()).unwrap();
    let spec = json!({ "processor": "test_cpu", "cores": 8, "chips": 1, "memory": 31, "frequency": 3000 });
    fs::create_dir_all(place.path("machine_spec")).unwrap();
    fs::write(place.path("machine_spec/node1.json"), spec.to_string()).unwrap();
    place
}

#[test]
fn extracted_and_isolated_files_are_the_recorded_ones() {
    let Some(kepler) = kepler() else { return };
    let place = Place::new();
    fs::copy(kepler.join("prom/idle.json"), place.path("idle.json")).unwrap();
    for (source, group) in [("acpi", "BPFOnly"), ("rapl-sysfs", "CounterOnly")] {
        // The original's own spellings.
        place.ok(&[
            "power", "extract", "-i", "idle", "-o", "node", "-e", source, "-fg", group, "-ot", "AbsPower",
        ]);
        place.ok(&["power", "isolate", "-i", "idle.json", "-o", "work.csv", "-e", source, "-fg", group]);
        place.ok(&[
            "power",
            "isolate_from_data",
            "-i",
            "work",
            "-o",
            "none",
            "-e",
            source,
            "-fg",
            group,
            "--isolator",
            "none",
        ]);
        for (ours, recorded) in [
            ("extracted_node", "extract_abs"),
            ("isolated_work", "isolate_min"),
            ("isolated_none", "isolate_none"),
        ] {
            let (got, want) = (
                table(&place.path(&format!("{ours}.csv"))),
                table(&kepler.join(format!("golden/extract/{recorded}_{source}_{group}.csv"))),
            );
            assert_eq!(got.len(), want.len(), "{recorded}");
            for (mine, theirs) in got.iter().zip(&want) {
                for name in theirs.keys().filter(|name| !name.is_empty() && *name != "id") {
                    let (mine, theirs) = (number(mine, name), number(theirs, name));
                    assert!(
                        (mine - theirs).abs() <= 1e-9 * theirs.abs().max(1.0),
                        "{recorded} {name}: {mine} and not {theirs}"
                    );
                }
            }
        }
    }
    let raw = table(&place.path("extracted_node_raw.csv"));
    assert_eq!((raw.len(), raw[0].contains_key("kepler_container_cache_miss_total")), (7, true));
    // All containers of the idle machine are background: nothing is left.
    let (code, error) = place.fails(&[
        "power",
        "isolate",
        "-i",
        "idle",
        "-o",
        "x",
        "-e",
        "acpi",
        "--isolator",
        "profile",
        "--profile",
        "idle",
    ]);
    assert!(code == 2 && error.contains("--isolator profile") && error.contains("no rows"), "{error}");
}

#[test]
fn a_profile_is_in_watts_and_the_isolator_takes_it() {
    let Some(kepler) = kepler() else { return };
    let place = with_response(200);
    fs::copy(kepler.join("prom/idle.json"), place.path("idle.json")).unwrap();
    let profile = place.json(&["-o", "json", "power", "profile", "-i", "idle", "-o", "node1"]);
    assert_eq!(profile["schema"], "metier.power-profile/1");
    // The recorded profile is divided by the 15 s of the first interval once more.
    let recorded: Value =
        serde_json::from_slice(&fs::read(kepler.join("golden/profile_idle.json")).unwrap()).unwrap();
    let recorded = &recorded["acpi"]["platform"]["0"];
    let level = |end: &str| profile["sources"]["acpi"]["platform"][end].as_f64().unwrap();
    assert!((level("max_watt") - recorded["max_watt"].as_f64().unwrap() * 15.0).abs() < 1e-9, "{profile}");
    // Its least is the row in which the meter was not read.
    assert!(recorded["min_watt"] == 0.0 && level("min_watt") > 118.0, "{profile}");
    assert!(profile["features"]["bpf_cpu_time_ms"]["deviation"].as_f64().unwrap() > 0.0);
    assert!(profile["background"].as_array().unwrap().len() > 5);
    let kept: Value = serde_json::from_slice(&fs::read(place.path("profile/acpi.json")).unwrap()).unwrap();
    assert_eq!(kept["platform"]["0"]["#unit"], 1);
    place.ok(&[
        "power",
        "isolate",
        "-i",
        "load",
        "-o",
        "w",
        "-e",
        "acpi",
        "-fg",
        "BPFOnly",
        "--isolator",
        "profile",
        "--profile",
        "profile_node1",
    ]);
    let level = f64::midpoint(level("min_watt"), level("max_watt"));
    let (isolated, extracted) = (table(&place.path("isolated_w.csv")), table(&place.path("extracted_w.csv")));
    let measured = extracted.iter().find(|row| row["timestamp"] == isolated[0]["timestamp"]).unwrap();
    assert!(
        (number(measured, "platform_power") - level - number(&isolated[0], "platform_power")).abs() < 1e-9
    );
}

#[test]
fn a_pipeline_is_learned_gone_on_with_served_tried_drawn_and_published() {
    let place = with_response(400);
    let train = [
        "-o",
        "json",
        "power",
        "train",
        "-i",
        "load",
        "-p",
        "mine",
        "--id",
        "node1",
        "-e",
        "rapl-sysfs,acpi",
        "-fg",
        "BPFOnly,CounterOnly",
        "--abs-trainers",
        "LinearRegressionTrainer,XgboostFitTrainer,KNeighborsRegressorTrainer",
        "--dyn-trainers",
        "LinearRegressionTrainer",
    ];
    let first = place.json(&train);
    assert_eq!(first["schema"], "metier.power-training/1");
    let predictors = first["predictors"].as_array().unwrap();
    assert_eq!((predictors.len(), first["warnings"].as_array().unwrap().len()), (2 * 2 * 4, 0), "{first}");
    assert!(predictors.iter().all(|one| one["state"] == "new"));
    let listed = place.json(&["predictors", "-o", "json"]);
    let listed = &listed["predictors"][0];
    assert_eq!(
        (&listed["kind"], &listed["name"], &listed["standing"]),
        (&json!("power"), &json!("mine"), &json!("passed")),
        "it answers where it is named"
    );
    // Power is a straight line of CPU time here, and is learned as one.
    let line = predictors
        .iter()
        .find(|one| {
            one["model_name"] == "LinearRegressionTrainer_0"
                && one["output_type"] == "AbsPower"
                && one["source"] == "acpi"
        })
        .unwrap();
    assert!(line["mae"].as_f64().unwrap() < 0.1, "{line}");
    // Neighbours of whole phases that were held out are off by some per cent, and that is what is
    // written.
    let near = predictors
        .iter()
        .find(|one| one["model_name"] == "KNeighborsRegressorTrainer_0" && one["source"] == "acpi")
        .unwrap();
    let told: Value = serde_json::from_slice(
        &fs::read(place.path("mine/acpi/AbsPower/BPFOnly/KNeighborsRegressorTrainer_0/metadata.json"))
            .unwrap(),
    )
    .unwrap();
    let (mae, mape) = (told["mae"].as_f64().unwrap(), told["mape"].as_f64().unwrap());
    assert!(
        near["mape"].as_f64().unwrap() > 0.0
            && mape >= 100.0 * mae / 110.0 * 0.9
            && mape <= 100.0 * mae / 50.0 + 0.02,
        "{told}"
    );

    // The same rows: nothing is learned again. One predictor is torn: only it is.
    let torn = place.path("mine/acpi/AbsPower/BPFOnly/XgboostFitTrainer_0");
    fs::remove_file(torn.join("metadata.json")).unwrap();
    fs::remove_file(torn.join("predictor.json")).unwrap();
    let again = place.json(&train);
    let states: Vec<&str> =
        again["predictors"].as_array().unwrap().iter().map(|one| one["state"].as_str().unwrap()).collect();
    assert_eq!(states.iter().filter(|state| **state == "kept").count(), 15, "{states:?}");
    assert_eq!(states.iter().filter(|state| **state == "new").count(), 1, "{states:?}");

    // The original's files are where they are looked for.
    for file in [
        "metadata.json",
        "node_type_index.json",
        "train_arguments.json",
        "acpi_AbsPower_model_metadata.csv",
        "preprocessed_data/preprocess_dyn_default_min_acpi_BPFOnly.csv",
        "acpi/AbsPower/BPFOnly/XgboostFitTrainer_0.zip",
        "acpi/AbsPower/BPFOnly/XgboostFitTrainer_0/weight.json",
    ] {
        assert!(place.path("mine").join(file).is_file(), "{file}");
    }
    let about: Value = serde_json::from_slice(&fs::read(place.path("mine/metadata.json")).unwrap()).unwrap();
    assert_eq!((&about["isolator"], &about["metric_type"]), (&json!("min"), &json!("bm_metrics")));
    let errors = table(&place.path("mine/acpi_AbsPower_model_metadata.csv"));
    assert!(errors.len() == 6 && errors[0].contains_key("platform_mape"), "{errors:?}");

    // Tried from the zip, neighbours among them, which no weights can say.
    fs::rename(place.path("mine"), place.path("elsewhere")).unwrap();
    let tried = place.json(&[
        "-o", "json", "power", "estimate", "-i", "load", "-p", "mine.zip", "-e", "acpi", "-o", "tried",
    ]);
    fs::rename(place.path("elsewhere"), place.path("mine")).unwrap();
    let names: Vec<&str> =
        tried["errors"].as_array().unwrap().iter().map(|one| one["model_name"].as_str().unwrap()).collect();
    assert!(names.contains(&"KNeighborsRegressorTrainer_0") && names.len() == 6, "{names:?}");
    let has_coverage =
        |one: &Value| one["coverage"].as_f64().is_some_and(|share| (0.0..=1.0).contains(&share));
    assert!(tried["errors"].as_array().unwrap().iter().all(has_coverage), "{tried}");
    let result = table(&place.path("tried/acpi_estimation_result.csv"));
    assert!(
        (number(&result[50], "platform_power") - number(&result[50], "predicted_platform_power")).abs() < 1.0
    );
    assert!(place.path("tried/acpi_model.zip").is_file());

    // Pictures of every kind.
    for target in ["preprocess", "estimate", "error", "metadata", "power_curve"] {
        let mut words =
            vec!["power", "plot", "--target-data", target, "-p", "mine", "-e", "acpi", "-o", "pictures"];
        if matches!(target, "estimate" | "error") {
            words.extend(["-i", "load"]);
        }
        let files = place.ok(&words);
        assert!(files.lines().count() >= 2, "{target}: {files}");
        for file in files.lines() {
            let bytes = fs::read(place.path(file)).unwrap();
            match file.ends_with(".png") {
                true => assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 3000, "{file}"),
                false => assert!(String::from_utf8(bytes).unwrap().trim_end().ends_with("</svg>"), "{file}"),
            }
        }
    }

    let exported = place.json(&[
        "-o",
        "json",
        "power",
        "export",
        "-p",
        "mine",
        "-o",
        "models",
        "--publisher",
        "me",
        "--collect-date",
        "2026-11-17T10:00:00Z",
        "--zip",
    ]);
    assert!(exported["kept"].as_u64().unwrap() >= 12, "{exported}");
    let about: Value =
        serde_json::from_slice(&fs::read(place.path("models/v0.7/mine/metadata.json")).unwrap()).unwrap();
    assert_eq!((&about["publisher"], &about["collect_time"]), (&json!("me"), &json!("2026-11-17 10:00:00")));
    let report = fs::read_to_string(place.path("models/v0.7/mine/README.md")).unwrap();
    assert!(report.contains("| BPFOnly | LinearRegressionTrainer_0 |"), "{report}");
    assert!(place.path("models/v0.7/mine/acpi/AbsPower/BPFOnly/LinearRegressionTrainer_0.json").is_file());

    // The pipeline knows the machine that it was learned on.
    let node = place.json(&[
        "-o",
        "json",
        "power",
        "node",
        "-p",
        "mine",
        "--machine-spec",
        &place.text("machine_spec/node1.json"),
    ]);
    assert_eq!((&node["found"]["node_type"], &node["found"]["looseness"]), (&json!(0), &json!(0.0)));
}

#[test]
fn other_rows_are_learned_from_going_on_and_a_table_is_enough() {
    let Some(kepler) = kepler() else { return };
    let place = Place::new();
    let rows =
        fs::read_to_string(kepler.join("nx12-train/preprocess_abs_default_acpi_CounterOnly.csv")).unwrap();
    let lines: Vec<&str> = rows.lines().collect();
    fs::write(place.path("half.csv"), lines[..300].join("\n")).unwrap();
    // Not one row of the first.
    let more: Vec<&str> = lines[..1].iter().chain(&lines[300..500]).copied().collect();
    fs::write(place.path("more.csv"), more.join("\n")).unwrap();
    let train = |input: &str| {
        place.json(&[
            "-o",
            "json",
            "power",
            "train_from_data",
            "-i",
            input,
            "-p",
            "nx12",
            "-e",
            "acpi",
            "-fg",
            "CounterOnly",
            "--trainers",
            "XgboostFitTrainer,LinearRegressionTrainer",
        ])
    };
    assert_eq!(train("half")["predictors"][0]["state"], "new");
    let more = train("more");
    assert!(more["predictors"].as_array().unwrap().iter().all(|one| one["rows"] == 200), "{more}");
    let state = |name: &str| {
        let all = more["predictors"].as_array().unwrap().iter();
        let mut of = all.filter(|one| one["model_name"].as_str().unwrap().starts_with(name));
        of.next().unwrap()["state"].clone()
    };
    assert_eq!(state("Linear"), "anew", "a line is learned anew");
    assert_eq!(state("Xgboost"), "continued", "trees are added to those that are there: {more}");
    // Node type 1, as the table says.
    assert!(place.path("nx12/acpi/AbsPower/CounterOnly/XgboostFitTrainer_1/predictor.json").is_file());
}

#[test]
fn this_machine_is_known_and_looked_up_with_its_uncertainty() {
    let Some(kepler) = kepler() else { return };
    let place = Place::new();
    let index = kepler.join("specpower-0.7.11/node_type_index.json");
    let node =
        place.json(&["-o", "json", "power", "node", "-p", index.to_str().unwrap(), "--save", "--id", "here"]);
    let saved: Value =
        serde_json::from_slice(&fs::read(place.path("machine_spec/here.json")).unwrap()).unwrap();
    assert_eq!((&node["machine_spec"], &node["node_types"]), (&saved, &json!(317)));
    assert!(saved["cores"].as_u64().unwrap() >= 1 && saved["memory"].as_u64().unwrap() >= 1, "{saved}");
    let first = &node["like"][0];
    assert_eq!(first["node_type"], node["found"]["node_type"], "{node}");
    let gap = 1.0 - first["similarity"].as_f64().unwrap() - node["found"]["looseness"].as_f64().unwrap();
    assert!(gap.abs() < 1e-12, "{node}");
    // The recorded similarities, by way of the command.
    let recorded: Value =
        serde_json::from_slice(&fs::read(kepler.join("golden/similarity_specpower.json")).unwrap()).unwrap();
    let types: Value = serde_json::from_slice(&fs::read(&index).unwrap()).unwrap();
    let pairs = recorded.as_array().expect("a list of pairs");
    for pair in pairs.iter().take(3) {
        let (one, two) = (&pair["a"], &pair["b"]);
        fs::write(place.path("one.json"), types[one.to_string()]["attrs"].to_string()).unwrap();
        let node = place.json(&[
            "-o",
            "json",
            "power",
            "node",
            "-p",
            index.to_str().unwrap(),
            "--machine-spec",
            &place.text("one.json"),
            "--limit",
            "400",
        ]);
        let found = node["like"].as_array().unwrap().iter().find(|like| like["node_type"] == *two).unwrap();
        assert!(
            (found["similarity"].as_f64().unwrap() - pair["similarity"].as_f64().unwrap()).abs() < 1e-9,
            "{pair}"
        );
    }
}

#[test]
fn specpower_and_ec2_are_learned_from_folders_of_their_layout() {
    let place = Place::new();
    fs::create_dir_all(place.path("spec")).unwrap();
    let head = "timestamp,platform_power,bpf_cpu_time_ms,bpf_page_cache_hit,processor,cores,chips,memory_gb,cpu_freq_mhz\n";
    for (machine, cores, idle) in [("a", 16.0, 60.0), ("b", 32.0, 90.0)] {
        let mut text = head.to_string();
        for level in 0..11 {
            let load = f64::from(level) / 10.0;
            let _ = writeln!(
                text,
                "{},{},{},0,intel_xeon_{machine},{cores},2,64,2600",
                level * 240,
                idle + 150.0 * load,
                1000.0 * cores * load
            );
        }
        fs::write(place.path(&format!("spec/{machine}.csv")), text).unwrap();
    }
    fs::write(place.path("spec/broken.csv"), format!("{head}0,,0,0,x,1,1,1,1\n")).unwrap();
    fs::write(place.path("spec/index.json"), r#"["a.csv","b.csv","broken.csv"]"#).unwrap();
    let trainers = [
        "--abs-trainers",
        "LinearRegressionTrainer,LogarithmicRegressionTrainer",
        "--dyn-trainers",
        "LinearRegressionTrainer",
    ];
    let learned = place
        .json(&[&["-o", "json", "power", "specpower", "--from", "spec", "-p", "sp"], &trainers[..]].concat());
    assert_eq!(learned["predictors"].as_array().unwrap().len(), 2 * 3, "{learned}");
    assert!(learned["warnings"][0].as_str().unwrap().contains("broken.csv"), "{learned}");
    let line = |node_type: &str| {
        let all = learned["predictors"].as_array().unwrap();
        all.iter()
            .find(|one| {
                one["model_name"] == format!("LinearRegressionTrainer_{node_type}")
                    && one["output_type"] == "AbsPower"
            })
            .unwrap()["mae"]
            .as_f64()
            .unwrap()
    };
    assert!(line("0") < 0.5 && line("1") < 0.5, "{learned}");
    // A table that cannot be had is named, and the others are learned from.
    fs::write(place.path("spec/index.json"), r#"["gone.csv","a.csv","b.csv"]"#).unwrap();
    let output = place.run(&[&["power", "specpower", "--from", "spec", "-p", "sp"], &trainers[..]].concat());
    let error = common::stderr(&output);
    assert!(output.status.code() == Some(4) && error.contains("gone.csv was left out"), "{error}");

    let id = "m5.metal-ami-0e4d0bb9670ea8db0";
    fs::create_dir_all(place.path(&format!("bucket/{id}/data/machine_spec"))).unwrap();
    fs::write(place.path(&format!("bucket/{id}/data/kepler_query.json")), response(120).to_string()).unwrap();
    let spec = json!({ "processor": "intel_xeon_platinum_8259cl", "cores": 96, "chips": 2, "memory": 377, "frequency": 3500 });
    fs::write(place.path(&format!("bucket/{id}/data/machine_spec/{id}.json")), spec.to_string()).unwrap();
    let learned = place.json(
        &[
            &["-o", "json", "power", "ec2", "--from", "bucket", "-p", "ec2", "--instance", "m5.metal"],
            &trainers[..],
        ]
        .concat(),
    );
    let groups: Vec<&str> = learned["predictors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["feature_group"].as_str().unwrap())
        .collect();
    assert!(
        groups.contains(&"BPFOnly") && groups.contains(&"Basic") && groups.contains(&"CounterOnly"),
        "{groups:?}"
    );
    let index: Value =
        serde_json::from_slice(&fs::read(place.path("ec2/node_type_index.json")).unwrap()).unwrap();
    assert_eq!(index["0"]["members"], json!([id]));
    // What cannot be had is named, and the others are learned from.
    let some = ["power", "ec2", "--from", "bucket", "-p", "ec2", "--instance", "i3.metal,m5.metal"];
    let output = place.run(&[&some[..], &trainers[..]].concat());
    let error = common::stderr(&output);
    assert!(output.status.code() == Some(4) && error.contains("i3.metal was left out"), "{error}");
    let (code, error) =
        place.fails(&["power", "ec2", "--from", "bucket", "-p", "ec2", "--instance", "i3.metal"]);
    assert!(code == 2 && error.contains("i3.metal"), "{error}");
}

#[test]
fn bad_input_is_told_by_flag_file_and_field() {
    let place = with_response(60);
    fs::write(place.path("empty.json"), "{}").unwrap();
    fs::write(place.path("torn.json"), "{\"a\":[").unwrap();
    fs::write(
        place.path("nan.csv"),
        "timestamp,bpf_cpu_time_ms,bpf_page_cache_hit,platform_power,node_type\n1,5,NaN,50,0\n2,6,1,60,0\n",
    )
    .unwrap();
    fs::write(place.path("text.csv"), "a,b\n1,2\n").unwrap();
    fs::write(
        place.path("short.csv"),
        "timestamp,bpf_cpu_time_ms,bpf_page_cache_hit,platform_power\n1,5,1,50\n",
    )
    .unwrap();
    fs::write(place.path("spec.json"), r#"{"cores":"many"}"#).unwrap();
    let of_processes = fs::read_to_string(place.path("load.json")).unwrap();
    let of_processes = of_processes.replace("kepler_container_", "kepler_process_");
    fs::write(place.path("vm.json"), of_processes).unwrap();
    for (words, parts) in [
        ("power train -i load -p mine --abs-trainers Oracle", ["--abs-trainers", "XgboostFitTrainer"]),
        ("power train -i load -p ../mine", ["pipeline name", "letters"]),
        ("power train -i empty -p mine", ["feature group", "kepler_container_bpf_cpu_time_ms_total"]),
        ("power train -i load -p mine -e redfish", ["redfish", "rapl-sysfs, acpi"]),
        ("power train -i load -p mine --id gone", ["--id", "gone.json"]),
        ("power train -i load -p mine --isolator profile", ["--isolator profile", "--profile"]),
        ("power train -i load -p mine --isolator trainer", ["--isolator trainer", "--abs-pipeline-name"]),
        ("power train -i load -p mine --isolator magic", ["--isolator", "joint"]),
        ("power train_from_data -i nan -p mine -e acpi -fg BPFOnly", ["bpf_page_cache_hit", "row 1"]),
        ("power train_from_data -i nan -p mine -e acpi -fg CounterOnly", ["cache_miss", "missing"]),
        ("power train_from_data -i text -p mine -e acpi -fg BPFOnly", ["text.csv", "timestamp"]),
        ("power train_from_data -i short -p mine -e acpi -fg BPFOnly", ["1 rows", "10"]),
        ("power extract -i gone -o x", ["--input gone", "gone.json"]),
        ("power extract -i torn -o x", ["torn.json", "query response"]),
        ("power extract -i nan.csv -o x", ["--input", "nan.csv"]),
        (
            "power extract -i load -o x -fg WorkloadOnly",
            ["--feature-group", "kepler_node_accelerator_intel_qat"],
        ),
        ("power extract -i load -o x -fg Everything", ["--feature-group", "BPFOnly"]),
        ("power extract -i vm -o x -fg BPFOnly", ["--input vm has no", "want --vm-train"]),
        ("power extract -i vm -o x", ["--input vm", "want --vm-train"]),
        ("power extract -i load -o x -ot Power", ["--output-type", "DynPower"]),
        ("power extract -i load -o x -e sun", ["--energy-source", "acpi"]),
        ("power estimate -i load -p gone", ["--pipeline-name gone", "folder or zip"]),
        ("power estimate -i load -p empty.json", ["--pipeline-name", "empty.json"]),
        ("power plot --target-data preprocess", ["preprocess", "--pipeline-name"]),
        ("power plot --target-data mood -p mine", ["--target-data", "power_curve"]),
        (
            "power export -p gone -o out --publisher me --collect-date 2026-01-01T00:00:00Z",
            ["--pipeline-name gone", "metier power train"],
        ),
        ("power export -p gone -o out --publisher me --collect-date noon", ["--collect-date", "noon"]),
        ("power validate -i empty -o x", ["--input empty", "no samples"]),
        ("power profile -i empty -o x", ["--input empty", "joules_total"]),
        ("power node --machine-spec spec.json", ["--machine-spec", "cores"]),
        ("power node -p empty.json --limit x", ["--limit", "invalid"]),
        ("power query -s http://127.0.0.1:1 --step 0 -o q", ["--step", "at least 1"]),
        ("power query -s nonsense:// -o q", ["--server", "HOST:PORT"]),
        (
            "power query -s http://127.0.0.1:1 --start-time 2026-01-01T00:00:00Z --end-time 2025-01-01T00:00:00Z -o q",
            ["--end-time", "after"],
        ),
        ("power query -s http://127.0.0.1:1 -i torn -o q", ["--input", "torn.json"]),
        ("power specpower --from gone", ["--from gone", "index.json"]),
        ("power specpower --from ftp://x", ["--from", "s3://"]),
    ] {
        let words: Vec<&str> = words.split_whitespace().collect();
        let (_, error) = place.fails(&words);
        assert!(parts.iter().all(|part| error.contains(part)), "{words:?}: {error}");
    }
}
