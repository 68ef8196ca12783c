//! Logs of boards through the command, and this board.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::common::{Place, golden, stdout};
use serde_json::Value;

/// A log of our own making.
fn log(name: &str) -> String {
    let path: PathBuf =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../metier-device/tests/fixtures/boards").join(name);
    path.to_str().unwrap().to_string()
}

/// What a real board printed, read where it lies.
fn recorded(name: &str) -> Option<String> {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/waggle").join(name);
    if !path.exists() {
        eprintln!("SKIP: recorded boards, because ../shared/data/waggle/{name} is not there");
        return None;
    }
    Some(path.to_str().unwrap().to_string())
}

#[test]
fn the_forms_of_a_log_are_what_they_were() {
    let place = Place::new();
    let (orin, nx) = (log("orin.log"), log("nx.log"));
    let nano = log("nano.log");
    for (name, arguments) in [
        ("board.txt", vec!["board", &orin]),
        ("board.json", vec!["board", &orin, "-o", "json"]),
        ("board.csv", vec!["board", &orin, "-o", "csv"]),
        ("board-summary.txt", vec!["board", &nx, "--summary"]),
        ("board-summary.yaml", vec!["board", &nano, "--summary", "--interval", "500ms", "-o", "yaml"]),
        ("board-summary.csv", vec!["board", &nx, "-s", "-o", "csv"]),
    ] {
        golden(name, &place.ok(&arguments));
    }
}

#[test]
fn the_summary_has_the_figures_of_the_log() {
    let place = Place::new();
    let Some(path) = recorded("xavier_nx_jp5_burn.log") else { return };
    let summary = &place.json(&["board", &path, "-s", "-o", "json"])["summary"];
    let close = |field: &str, want: f64, within: f64| {
        let got = summary[field].as_f64().unwrap();
        assert!((got - want).abs() <= within, "{field}: {got}, want {want}");
    };
    close("mean_watts", 12.3290, 5e-5);
    close("peak_watts", 13.83, 1e-9);
    close("energy_joules", 868.35, 5e-3);
    close("covered_seconds", 70.0, 1e-9);
    assert_eq!(summary["lines"], 69);
}

#[test]
fn lines_on_stdin_give_what_the_file_gives() {
    let place = Place::new();
    let path = log("nx.log");
    let mut child = place
        .command(&["board", "-", "-s", "-o", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&std::fs::read(&path).unwrap()).unwrap();
    let output = child.wait_with_output().unwrap();
    let piped: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(piped, place.json(&["board", &path, "-s", "-o", "json"]));
}

#[test]
fn what_is_no_log_is_refused_with_what_would_be_right() {
    let place = Place::new();
    let (code, error) = place.fails(&["board", "no-such.log"]);
    assert!(code == 1 && error.contains("no-such.log"), "{error}");
    std::fs::write(place.path("notes.txt"), "hello\nworld\n").unwrap();
    let (code, error) = place.fails(&["board", "notes.txt"]);
    assert!(code == 1 && error.contains("notes.txt") && error.contains("RAM 1923/3964MB"), "{error}");
    std::fs::write(place.path("binary"), [0xff, 0, 0x80, b'[', b'('].repeat(40_000)).unwrap();
    assert_eq!(place.fails(&["board", "binary"]).0, 1);
    let (code, error) = place.fails(&["board", &log("orin.log"), "--interval", "soon"]);
    assert!(code == 2 && error.contains("--interval") && error.contains("soon"), "{error}");
    let (code, _) = place.fails(&["board", "--summary"]);
    assert_eq!(code, 2);
}

#[test]
fn this_board_shows_its_cores_and_memory() {
    let place = Place::new();
    let board = place.json(&["board", "-o", "json"]);
    assert_eq!(board["schema"], "metier.board/1");
    assert!(!board["cores"].as_array().unwrap().is_empty());
    assert!(board["ram"]["total_bytes"].as_u64().unwrap() > 0);
    assert!(place.ok(&["board"]).contains("core 0"));
    assert!(place.ok(&["board", "-o", "csv"]).contains("ram.total_bytes"));
}
