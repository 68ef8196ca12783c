//! `metier split`: the best cut for devices, and what the parts compute together.

use crate::onnx;
use std::collections::BTreeMap;
use std::path::Path;

use crate::common::{self, Place};
use metier_onnx::DataType;
use metier_onnx::graph_builder::{AttributeValue, GraphBuilder};
use serde_json::Value;

/// A large picture that is made small at once, and much to compute after that.
fn funnel() -> Vec<u8> {
    let mut made = GraphBuilder::new(11);
    let x = made.add_input(DataType::Float, &[1, 3, 64, 64]);
    let list = |sizes: &[i64]| AttributeValue::Integers(sizes.to_vec());
    let pool = [("kernel_shape", list(&[8, 8])), ("strides", list(&[8, 8]))];
    let mut at = made.encode_node("AveragePool", &[&x], &pool);
    for (channels, before) in [(256, 3), (512, 256), (512, 512)] {
        let weights = made.add_weights(&[channels, before, 3, 3], before * 9);
        let conv = [("kernel_shape", list(&[3, 3])), ("pads", list(&[1; 4])), ("strides", list(&[1, 1]))];
        at = made.encode_node("Conv", &[&at, &weights], &conv);
        at = made.encode_node("Relu", &[&at], &[]);
    }
    let result = made.encode_node("GlobalAveragePool", &[&at], &[]);
    made.add_output(&result);
    made.finish()
}

/// A NumPy file of numbers that differ.
fn numbers(path: &Path, shape: &[u64]) {
    let sizes: Vec<String> = shape.iter().map(ToString::to_string).collect();
    let head = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", sizes.join(", "));
    let head = format!("{head:<117}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((head.len() as u16).to_le_bytes());
    bytes.extend(head.as_bytes());
    let count: u64 = shape.iter().product();
    bytes.extend((0..count).flat_map(|at| (((at * 7919 % 1000) as f32) / 1000.0).to_le_bytes()));
    std::fs::write(path, bytes).unwrap();
}

/// The numbers of a file that the program wrote.
fn read(path: &str) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap();
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    bytes[start..].chunks(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
}

/// Runs a graph on files, and gives the files of what it gives, by name.
fn run(
    place: &Place,
    graph: &str,
    given: &BTreeMap<String, String>,
    folder: &str,
) -> BTreeMap<String, String> {
    let bytes = std::fs::read(graph).unwrap();
    let model = metier_onnx::read_onnx(&bytes, &metier_onnx::OnnxLimits::default()).unwrap();
    let mut words: Vec<String> =
        ["bench", graph, "--repeat", "1", "--least", "0s", "--no-store", "--outputs", folder]
            .map(String::from)
            .to_vec();
    for input in &model.graph.inputs {
        words.extend(["--input".to_string(), format!("{}={}", input.name, given[&input.name])]);
    }
    place.ok(&words);
    let outputs = model.graph.outputs.iter().enumerate();
    outputs.map(|(number, one)| (one.name.clone(), format!("{folder}/output-{number}.npy"))).collect()
}

/// Parts one after the other give what the whole gives.
fn chained(place: &Place, whole: &str, told: &Value, input: &str, shape: &[u64]) {
    let file = place.path("x.npy");
    numbers(&file, shape);
    let mut there = BTreeMap::from([(input.to_string(), file.display().to_string())]);
    let want = run(place, whole, &there, &place.text("whole"));
    for (number, part) in told["parts"].as_array().unwrap().iter().enumerate() {
        let outputs =
            run(place, part["file"].as_str().unwrap(), &there, &place.text(&format!("part-{number}")));
        there.extend(outputs);
    }
    for (name, file) in want {
        let (want, got) = (read(&file), read(&there[&name]));
        assert_eq!(want.len(), got.len());
        assert!(want.iter().any(|value| *value != 0.0));
        let most = want.iter().fold(1e-3, |most: f32, value| most.max(value.abs()));
        assert!(want.iter().zip(&got).all(|(want, got)| (want - got).abs() <= 1e-4 * most), "{name}");
    }
}

fn seconds(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn the_best_cut_is_where_little_flows_and_its_parts_compute_the_whole() {
    let place = Place::new();
    let net = place.text("funnel.onnx");
    std::fs::write(&net, funnel()).unwrap();
    let (slow, fast) = ("raspberry-pi-3b", "server-avx512");
    let devices = format!("{slow},{fast}");
    let out = place.text("parts");
    let words = [
        "split",
        &net,
        "--devices",
        &devices,
        "--bandwidth",
        "10",
        "--input-at",
        slow,
        "--out",
        &out,
        "-o",
        "json",
    ];
    let told = place.json(&words);
    assert_eq!(told["schema"], "metier.split/1");
    common::fits("metier.split-1", &told);
    let parts = told["parts"].as_array().unwrap();
    let plan = &told["plan"];
    // The picture is made small where it is, and only then sent to where computing is fast.
    let on: Vec<&str> = parts.iter().map(|part| part["device"].as_str().unwrap()).collect();
    assert_eq!(on, [slow, fast], "{told}");
    assert_eq!(parts[0]["sent_bytes"], 3 * 8 * 8 * 4);
    assert!((seconds(&parts[0]["send_seconds"]) - 768.0 * 8.0 / 10e6).abs() < 1e-12);
    let own = |part: usize, device: usize| seconds(&parts[part]["predictions"][device]["value"]);
    let sum = own(0, 0) + seconds(&parts[0]["send_seconds"]) + own(1, 1);
    assert!((seconds(&plan["total"]["seconds"]) - sum).abs() < 1e-9 * sum);
    assert!(plan["total"]["low"].as_f64() < plan["total"]["seconds"].as_f64());
    for device in plan["devices"].as_array().unwrap() {
        assert!(seconds(&device["alone"]["seconds"]) > sum, "{plan}");
    }
    // The whole picture over the wire is in the time of the fast one alone.
    assert!(seconds(&plan["devices"][1]["alone"]["seconds"]) > f64::from(3 * 64 * 64 * 4) * 8.0 / 10e6);
    chained(&place, &net, &told, "v1", &[1, 3, 64, 64]);

    // With a wire that costs nothing, one device does it alone.
    let told = place.json(&["split", &net, "--devices", &devices, "--bandwidth", "1e9", "-o", "json"]);
    assert_eq!((told["parts"].as_array().unwrap().len(), &told["parts"][0]["device"]), (1, &fast.into()));
    let table = place.ok(&["split", &net, "--devices", &devices, "--bandwidth", "1e9"]);
    assert!(table.contains("no cut is predicted to be faster than server-avx512 alone"), "{table}");
}

#[test]
fn two_equal_devices_share_a_pipeline_about_evenly() {
    let place = Place::new();
    let net = place.text("funnel.onnx");
    std::fs::write(&net, funnel()).unwrap();
    let out = place.text("parts");
    let told = place.json(&[
        "split",
        &net,
        "--devices",
        "raspberry-pi-4b,raspberry-pi-4b",
        "--bandwidth",
        "1000",
        "--goal",
        "throughput",
        "--out",
        &out,
        "-o",
        "json",
    ]);
    let on: Vec<&str> =
        told["parts"].as_array().unwrap().iter().map(|part| part["device"].as_str().unwrap()).collect();
    assert!(on.len() == 2 && on.contains(&"raspberry-pi-4b#2"), "{on:?}");
    let slowest =
        (0..2).map(|part| seconds(&told["parts"][part]["predictions"][0]["value"])).fold(0.0, f64::max);
    let total = seconds(&told["plan"]["total"]["seconds"]);
    assert!((total - slowest).abs() < 1e-9);
    assert!(total < 0.8 * seconds(&told["plan"]["devices"][0]["alone"]["seconds"]));
    chained(&place, &net, &told, "v1", &[1, 3, 64, 64]);
}

#[test]
fn chosen_cuts_get_their_times_too() {
    let place = Place::new();
    let net = place.text("funnel.onnx");
    std::fs::write(&net, funnel()).unwrap();
    let devices = ["--devices", "raspberry-pi-5,jetson-nano", "--bandwidth", "100"];
    let told = place.json(&[&["split", &net, "--parts", "3", "-o", "json"], &devices[..]].concat());
    common::fits("metier.split-1", &told);
    common::fits("metier.split-1", &place.json(&["split", &net, "--parts", "3", "-o", "json"]));
    let parts = told["parts"].as_array().unwrap();
    assert_eq!(parts.len(), 3);
    for part in parts {
        assert_eq!(part["predictions"].as_array().unwrap().len(), 2);
        let one = &part["predictions"][0];
        assert!(seconds(&one["low"]) < seconds(&one["value"]) && one["coverage"] == 0.9, "{one}");
    }
    // What passports say of parts adds up to what they say of the whole.
    let sum: f64 = parts.iter().map(|part| seconds(&part["predictions"][0]["value"])).sum();
    let whole = seconds(&told["plan"]["devices"][0]["alone"]["seconds"]);
    assert!((sum / whole - 1.0).abs() < 0.05, "{sum} against {whole}");
    let csv = place.ok(&[&["split", &net, "--parts", "3", "-o", "csv"], &devices[..]].concat());
    assert!(csv.starts_with("part,operators,") && csv.lines().count() == 4, "{csv}");
}

/// Two products whose weights are in a file beside the graph.
fn beside(file: &str) -> Vec<u8> {
    let weights = |name: &str, dims: &[u64], offset: &str, length: &str| {
        let entry = |key: &str, value: &str| onnx::Message::default().text(1, key).text(2, value);
        let entries = [entry("location", file), entry("offset", offset), entry("length", length)];
        let tensor = onnx::weights(name, dims).number(14, 1);
        entries.iter().fold(tensor, |tensor, entry| tensor.message(13, entry))
    };
    let constants = [weights("a", &[3, 5], "64", "60"), weights("b", &[5, 2], "0", "40")];
    let nodes = [
        onnx::node("MatMul", &["x", "a"], &["m"], &[]),
        onnx::node("Relu", &["m"], &["r"], &[]),
        onnx::node("MatMul", &["r", "b"], &["y"], &[]),
    ];
    let (x, y) = (onnx::value("x", &[1, 3]), onnx::value("y", &[1, 2]));
    onnx::file(&onnx::graph(&nodes, &constants, &[x], &[y]), 17)
}

#[test]
fn weights_beside_the_graph_are_beside_its_parts_each_with_its_own() {
    let place = Place::new();
    let net = place.text("net.onnx");
    std::fs::write(&net, beside("layers.weight")).unwrap();
    let numbers: Vec<u8> = (0..31).flat_map(|at| (at as f32 / 10.0 - 0.5).to_le_bytes()).collect();
    std::fs::write(place.path("layers.weight"), numbers).unwrap();
    let out = place.text("parts");
    let told = place.json(&["split", &net, "--at", "m", "--out", &out, "-o", "json"]);
    chained(&place, &net, &told, "x", &[1, 3]);
    let size = |name: &str| std::fs::metadata(place.path("parts").join(name)).unwrap().len();
    assert_eq!((size("net.1.onnx.data"), size("net.2.onnx.data")), (60, 40));

    // What a graph names is only read where it may be.
    std::fs::write(place.path("secret"), [0; 200]).unwrap();
    std::fs::create_dir(place.path("inner")).unwrap();
    for (file, said) in [("../secret", "want a file in the folder"), ("absent", "cannot read its weights")] {
        std::fs::write(place.path("inner/net.onnx"), beside(file)).unwrap();
        let (code, error) = place.fails(&["split", "inner/net.onnx", "--at", "m", "--out", &out]);
        assert!(code == 1 && error.contains(file) && error.contains(said), "{code} {error}");
    }
    std::fs::write(place.path("layers.weight"), [0; 100]).unwrap();
    let (code, error) = place.fails(&["split", "net.onnx", "--at", "m", "--out", &out]);
    assert!(code == 1 && error.contains("ends before them"), "{code} {error}");
    // What was there before is still whole, and nothing lies beside it.
    let mut names: Vec<String> = std::fs::read_dir(place.path("parts"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["net.1.onnx", "net.1.onnx.data", "net.2.onnx", "net.2.onnx.data"]);
    assert_eq!((size("net.1.onnx.data"), size("net.2.onnx.data")), (60, 40));
}

#[test]
fn what_is_wrong_is_said_by_its_flag() {
    let place = Place::new();
    std::fs::write(place.path("net.onnx"), funnel()).unwrap();
    let cases: [(&[&str], &[&str]); 13] = [
        (
            &["--devices", "raspberry-pi-5,toaster", "--bandwidth", "1"],
            &["--devices", "toaster", "jetson-nano"],
        ),
        (&["--devices", "raspberry-pi-5,jetson-nano"], &["--bandwidth", "raspberry-pi-5 and jetson-nano"]),
        (&["--devices", "raspberry-pi-5,jetson-nano", "--bandwidth", "0"], &["--bandwidth", "above 0"]),
        (&["--devices", "raspberry-pi-5", "--input-at", "jetson-nano"], &["--input-at", "raspberry-pi-5"]),
        (&["--input-at", "jetson-nano", "--parts", "2"], &["--input-at", "--devices"]),
        (&["--devices", "here", "--delay", "soon"], &["--delay", "soon"]),
        (&["--devices", "here", "--threads", "0"], &["threads"]),
        (&["--devices", "here", "--runtime", "tvm"], &["runtime", "tvm"]),
        (&["--devices", "a,b,c,d,e,f,g,h,i", "--bandwidth", "1"], &["--devices", "1 to 8"]),
        (&["--devices", "raspberry-pi-5,", "--bandwidth", "1"], &["--devices", "empty"]),
        (&[], &["--parts", "--devices"]),
        (&["--list", "--parts", "2"], &["--list", "--parts"]),
        (&["--list", "--devices", "here"], &["--list", "--devices"]),
    ];
    for (words, parts) in cases {
        let (code, error) = place.fails(&[&["split", "net.onnx"], words].concat());
        assert!(code == 2 && parts.iter().all(|part| error.contains(part)), "{words:?}: {code} {error}");
    }
}

#[test]
fn real_graphs_in_parts_compute_what_they_compute_whole() {
    let Some(folder) = std::env::var_os("METIER_LAB_GRAPHS") else {
        println!("SKIP: real graphs, because METIER_LAB_GRAPHS is not set; `lab/lab up graphs` gets them");
        return;
    };
    for (name, input, shape) in
        [("ppocr-angle", "x", [1, 3, 48, 192]), ("light-shufflenet", "gpu_0/data_0", [1, 3, 224, 224])]
    {
        let place = Place::new();
        let net = Path::new(&folder).join(format!("{name}.onnx")).display().to_string();
        let out = place.text("parts");
        let sizes: Vec<String> = shape.iter().map(ToString::to_string).collect();
        let told = place.json(&[
            "split",
            &net,
            "--devices",
            "raspberry-pi-4b,raspberry-pi-4b,raspberry-pi-5",
            "--bandwidth",
            "1000",
            "--goal",
            "throughput",
            "--shape",
            &format!("{input}={}", sizes.join("x")),
            "--out",
            &out,
            "-o",
            "json",
        ]);
        assert!(told["parts"].as_array().unwrap().len() > 1, "{name}: {told}");
        chained(&place, &net, &told, input, &shape);
    }
}
