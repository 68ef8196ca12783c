//! `metier bench`: a graph runs in a child that is a run of the store.

use crate::common::{self, Place, stderr, stdout};
use crate::onnx::{self, file, graph, node, value};

/// A convolution of an open number of pictures, and what bends its result.
pub fn network(place: &Place) -> String {
    let raw: Vec<u8> = (0..24).flat_map(|number| (number as f32 / 10.0).to_le_bytes()).collect();
    let weights = onnx::weights("w", &[8, 3, 1, 1]).bytes(9, &raw);
    let nodes = [
        node(
            "Conv",
            &["x", "w"],
            &["c"],
            &[("kernel_shape", &[1, 1]), ("strides", &[1, 1]), ("dilations", &[1, 1]), ("pads", &[0; 4])],
        )
        .text(3, "first"),
        node("Relu", &["c"], &["r"], &[]).text(3, "bend"),
        node("GlobalAveragePool", &["r"], &["y"], &[]).text(3, "pool"),
    ];
    let whole = graph(&nodes, &[weights], &[value("x", &[-1, 3, 16, 16])], &[value("y", &[-1, 8, 1, 1])]);
    let path = place.text("net.onnx");
    std::fs::write(&path, file(&whole, 17)).unwrap();
    path
}

#[test]
fn a_graph_is_timed_in_a_run_of_its_own() {
    let place = Place::new();
    let net = network(&place);
    let told = place.json(&[
        "bench",
        &net,
        "--batch",
        "4",
        "--threads",
        "1",
        "--repeat",
        "7",
        "--least",
        "0",
        "--operators",
        "-o",
        "json",
        "--tag",
        "here",
    ]);
    assert_eq!(told["schema"], "metier.bench/1");
    common::fits("metier.bench-1", &told);
    assert_eq!(told["inputs"][0]["shape"], serde_json::json!([4, 3, 16, 16]));
    assert_eq!(told["graph"]["multiply_adds"], 4 * 8 * 3 * 256);
    let one = &told["results"][0];
    assert_eq!((one["runtime"].as_str(), one["inferences"].as_u64()), (Some("rten"), Some(7)));
    let seconds = |field: &str| one[field].as_f64().unwrap();
    assert!(seconds("load_seconds") > 0.0 && seconds("first_seconds") > 0.0);
    assert!(
        seconds("min_seconds") <= seconds("median_seconds")
            && seconds("median_seconds") <= seconds("p99_seconds")
    );
    assert!(
        (seconds("cold_start_seconds") - seconds("load_seconds") - seconds("first_seconds")).abs() < 1e-9
    );
    let operators = one["operators"].as_array().unwrap();
    let work: u64 = operators.iter().filter_map(|operator| operator["multiply_adds"].as_u64()).sum();
    assert_eq!(work, 4 * 8 * 3 * 256, "{operators:?}");

    let run = place.json(&["show", one["runs"][0].as_str().unwrap(), "-o", "json"]);
    assert_eq!(run["workload"]["name"], "net");
    assert_eq!(
        (&run["context"]["graph"]["runtime"], &run["context"]["graph"]["threads"]),
        (&"rten".into(), &1.into())
    );
    assert_eq!(run["context"]["graph"]["digest"], told["graph"]["digest"]);
    assert_eq!(run["tags"][0], "here");
    let stage =
        |name: &str| run["stages"].as_array().unwrap().iter().find(|stage| stage["name"] == name).cloned();
    assert_eq!(stage("inference").unwrap()["count"], 7);
    assert_eq!(
        (stage("load").unwrap()["count"].clone(), stage("warmup").unwrap()["count"].clone()),
        (1.into(), 2.into())
    );
    assert!(run["artefacts"].as_array().unwrap().iter().any(|artefact| artefact["name"] == "inference.json"));
    // The same graph in the same way is the same workload, wherever its file is; another batch is
    // another.
    let copy = place.text("copy.onnx");
    std::fs::copy(&net, &copy).unwrap();
    let workload = |arguments: &[&str]| {
        let told = place.json(
            &[&["bench", "--threads", "1", "--repeat", "1", "--least", "0s", "-o", "json"], arguments]
                .concat(),
        );
        place.json(&["show", told["results"][0]["runs"][0].as_str().unwrap(), "-o", "json"])["workload"]["id"]
            .clone()
    };
    assert_eq!(workload(&[&copy, "--batch", "4"]), run["workload"]["id"]);
    assert_ne!(workload(&[&copy, "--batch", "2"]), run["workload"]["id"]);
}

#[test]
fn inputs_come_from_files_and_outputs_go_to_files() {
    let place = Place::new();
    let net = network(&place);
    let out = place.text("out");
    let base = ["bench", &net, "--repeat", "1", "--least", "0s", "--outputs", &out];
    place.ok(&[&base[..], &["--input", "x=1"]].concat());
    let ones = std::fs::read(place.path("out/output-0.npy")).unwrap();
    // Ones in: each output is the sum of three weights.
    let values: Vec<f32> =
        ones[ones.len() - 32..].chunks(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
    let want: Vec<f32> =
        (0..8).map(|row| (0..3).map(|column| (row * 3 + column) as f32 / 10.0).sum()).collect();
    assert!(values.iter().zip(&want).all(|(got, want)| (got - want).abs() < 1e-4), "{values:?} {want:?}");
    let (code, error) = place.fails(&[&base[..], &["--input", &format!("x={out}/output-0.npy")]].concat());
    assert!(code == 2 && error.contains("1x8x1x1") && error.contains("1x3x16x16"), "{error}");
}

#[test]
fn what_cannot_run_is_said_by_name_and_is_a_run_with_its_cause() {
    let place = Place::new();
    let path = place.text("odd.onnx");
    let odd =
        graph(&[node("Frobnicate", &["x"], &["y"], &[])], &[], &[value("x", &[2])], &[value("y", &[2])]);
    std::fs::write(&path, file(&odd, 17)).unwrap();
    let output = place.run(&["bench", &path]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("Frobnicate") && stdout(&output).is_empty(), "{}", stderr(&output));
    let run = place.json(&["show", "last", "-o", "json"]);
    assert_eq!((run["workload"]["name"].as_str(), run["exit"]["code"].as_i64()), (Some("odd"), Some(1)));

    for (arguments, parts) in [
        (vec!["bench", "no-such.onnx"], vec!["no-such.onnx"]),
        (vec!["bench", "odd.onnx", "--input", "z=1"], vec!["\"z\"", "one of x"]),
        (vec!["bench", "odd.onnx", "--batch", "3"], vec!["batch size of 3"]),
        (vec!["bench", "odd.onnx", "--least", "9999s"], vec!["--least"]),
    ] {
        let output = place.run(&arguments);
        assert!(
            !output.status.success() && parts.iter().all(|part| stderr(&output).contains(part)),
            "{}",
            stderr(&output)
        );
    }
    let mut wrong = place.command(&["bench", "odd.onnx", "--runtime", "onnxruntime"]);
    let output = wrong.env("METIER_ONNXRUNTIME", "/no/such/library.so").output().unwrap();
    assert!(stderr(&output).contains("/no/such/library.so"), "{}", stderr(&output));
}

#[test]
fn a_graph_that_needs_more_memory_than_it_may_have_is_a_record_of_that() {
    let place = Place::new();
    let path = place.text("large.onnx");
    // 4 GiB of zeros that the graph makes itself.
    let shape = onnx::integers("shape", &[1 << 10, 1 << 20]);
    let nodes = [node("ConstantOfShape", &["shape"], &["z"], &[]), node("Add", &["z", "x"], &["y"], &[])];
    let large = graph(&nodes, &[shape], &[value("x", &[1])], &[value("y", &[1 << 10, 1 << 20])]);
    std::fs::write(&path, file(&large, 17)).unwrap();
    let output = place.run(&["bench", &path, "--limit-memory", "200Mi", "--repeat", "1"]);
    if stderr(&output).contains("--limit-memory") {
        println!("SKIP: a memory limit, because this host allows none: {}", stderr(&output));
        return;
    }
    assert!(!output.status.success(), "{}", stderr(&output));
    let run = place.json(&["show", "last", "-o", "json"]);
    assert_ne!(run["exit"]["cause"], "exited", "{}", run["exit"]);
}

#[test]
fn two_runtimes_are_set_side_by_side() {
    let place = Place::new();
    let net = network(&place);
    let Some(library) = std::env::var_os("METIER_LAB_ONNXRUNTIME") else {
        println!(
            "SKIP: ONNX Runtime, because METIER_LAB_ONNXRUNTIME is not set; `lab/lab up graphs` gets it"
        );
        return;
    };
    let mut command =
        place.command(&["bench", &net, "--runtime", "both", "--repeat", "3", "--operators", "-o", "json"]);
    let output = command.env("METIER_ONNXRUNTIME", library).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let told: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    common::fits("metier.bench-1", &told);
    let names: Vec<&str> =
        told["results"].as_array().unwrap().iter().map(|one| one["runtime"].as_str().unwrap()).collect();
    assert_eq!(names, ["rten", "onnxruntime"]);
    assert_eq!(
        (&told["comparison"]["agrees"], &told["comparison"]["outputs"][0]["agrees"]),
        (&true.into(), &true.into())
    );
    assert!(told["comparison"]["time_ratio"].as_f64().unwrap() > 0.0);
    assert!(!told["results"][1]["operators"].as_array().unwrap().is_empty());
}

#[test]
fn cold_starts_of_several_processes_are_told_one_by_one() {
    let place = Place::new();
    let net = network(&place);
    let words = ["bench", &net, "--page-cache", "cold", "--runs", "3", "--repeat", "1", "--least", "0s"];
    let told = place.json(&[&words[..], &["-o", "json"]].concat());
    common::fits("metier.bench-1", &told);
    let one = &told["results"][0];
    assert_eq!((one["runs"].as_array().unwrap().len(), &one["page_cache"]), (3, &"cold".into()), "{one}");
    let mut all: Vec<f64> =
        one["cold_starts_seconds"].as_array().unwrap().iter().map(|one| one.as_f64().unwrap()).collect();
    all.sort_by(f64::total_cmp);
    assert_eq!((all.len(), one["cold_start_seconds"].as_f64().unwrap()), (3, all[1]), "{one}");
    let text = place.ok(&words);
    assert!(text.contains("median of 3"), "{text}");
    let (code, error) = place.fails(&["bench", &net, "--page-cache", "lukewarm"]);
    assert!(code == 2 && error.contains("--page-cache") && error.contains("lukewarm"), "{error}");
    let (code, error) = place.fails(&["bench", &net, "--limit-cpu", "0"]);
    assert!(code == 2 && error.contains("--limit-cpu"), "{error}");
}

#[test]
fn a_neighbour_is_a_run_of_its_own_that_overlaps() {
    let place = Place::new();
    let net = network(&place);
    let words = ["bench", &net, "--repeat", "1", "--least", "200ms", "--with", "sleep 60", "-o", "json"];
    let told = place.json(&words);
    let run = place.json(&["show", told["results"][0]["runs"][0].as_str().unwrap(), "-o", "json"]);
    let company = run["context"]["company"].as_array().unwrap_or_else(|| panic!("{}", run["context"]));
    assert_eq!(company.len(), 1, "{company:?}");
    let runs = place.json(&["runs", "-o", "json"]);
    let names: Vec<&str> = runs["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["workload"]["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"sleep"), "{names:?}");
}

#[test]
fn a_child_that_a_signal_ends_is_a_run_with_that_cause_and_is_told_to_programs() {
    let place = Place::new();
    let net = network(&place);
    let mut command = place.command(&["bench", &net, "--least", "10m", "--threads", "1", "-o", "json"]);
    let mut parent =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    // The child is the one whose own program has the job; its parent, the launcher, has it as words
    // of a command.
    let folder = place.path("");
    let child = loop {
        let found = std::fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let words = std::fs::read(entry.path().join("cmdline")).ok()?;
            let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
            let is_bench = words.get(1) == Some(&&b"bench"[..]) && words.get(2) == Some(&&b"--job"[..]);
            // Those of other tests have another home.
            let environment = std::fs::read(entry.path().join("environ")).ok()?;
            let home = format!("HOME={}", folder.join("home").display());
            let is_ours = environment.split(|byte| *byte == 0).any(|one| one == home.as_bytes());
            (is_bench && is_ours).then_some(pid)
        });
        match found {
            Some(pid) => break pid,
            None if parent.try_wait().unwrap().is_some() => panic!("it ended by itself"),
            None => std::thread::sleep(std::time::Duration::from_millis(20)),
        }
    };
    // SAFETY: a signal to a process that this test has started.
    assert_eq!(unsafe { libc::kill(child, libc::SIGABRT) }, 0);
    let output = parent.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(128 + libc::SIGABRT), "{}", stderr(&output));
    assert!(stderr(&output).contains("rten") && stderr(&output).contains("signal 6"), "{}", stderr(&output));
    let told: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    common::fits("metier.bench-1", &told);
    assert_eq!(
        (told["results"].as_array().unwrap().len(), &told["failed"][0]["runtime"]),
        (0, &"rten".into())
    );
    let run = place.json(&["show", told["failed"][0]["run"].as_str().unwrap(), "-o", "json"]);
    assert_eq!(
        (&run["exit"]["cause"], &run["exit"]["signal"]),
        (&"signalled".into(), &6.into()),
        "{}",
        run["exit"]
    );
}
