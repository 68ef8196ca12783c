//! `metier run --alternate` on real commands: the order of turns, the record, and the comparison.

use crate::common::{Place, fits, stderr};
use serde_json::Value;

/// A command that appends a letter to a file.
fn writes(letter: &str) -> String {
    format!("printf {letter} >> order")
}

#[test]
fn two_commands_run_by_turns_in_the_recorded_order_and_are_compared_in_pairs() {
    let place = Place::new();
    let (a, b) = (writes("A"), writes("B"));
    let arguments = ["run", "--alternate", "--name", "left,right", "--repeat", "8", "--warmup", "1", "--"];
    let output = place.run(&[&arguments[..], &["sh", "-c", &a, "---", "sh", "-c", &b]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("8 pairs by turns"), "{}", stderr(&output));
    let order = std::fs::read_to_string(place.path("order")).unwrap();
    assert_eq!((order.len(), &order[..2]), (18, "AB"), "a warm-up of each comes first: {order}");
    let turns: Vec<&str> = (2..18).step_by(2).map(|at| &order[at..at + 2]).collect();
    assert!(turns.iter().all(|turn| ["AB", "BA"].contains(turn)), "{order}");

    for (name, letter) in [("left", 'A'), ("right", 'B')] {
        let runs = place.json(&["runs", "--workload", name, "-o", "json"]);
        assert_eq!(runs["total"], 8, "{name}");
        for row in runs["runs"].as_array().unwrap() {
            let run = place.json(&["show", row["id"].as_str().unwrap(), "-o", "json"]);
            let alternation = &run["context"]["alternation"];
            let turn = alternation["turn"].as_u64().unwrap() as usize;
            let at = alternation["place"].as_u64().unwrap() as usize;
            assert_eq!(turns[turn - 1].chars().nth(at - 1), Some(letter), "turn {turn} of {order}");
            assert!(alternation["seed"].is_u64(), "{alternation}");
        }
    }
    let comparison = place.json(&["compare", "left", "right", "-o", "json"]);
    fits("metier.comparison-1", &comparison);
    assert_eq!(comparison["pairs"], 8);
    assert_eq!(comparison["metrics"][0]["drift"], "cancelled");
}

#[test]
fn without_a_number_there_are_ten_pairs_and_both_files_hold_their_side() {
    let place = Place::new();
    let out = "old.json,new.json";
    place.ok(&["run", "--alternate", "--no-store", "--save-json", out, "--", "true", "---", "true", "x"]);
    let comparison = place.json(&["compare", "old.json", "new.json", "-o", "json"]);
    assert_eq!((&comparison["pairs"], &comparison["a"]["n"]), (&Value::from(10), &Value::from(10)));
}

#[test]
fn two_run_files_run_by_turns() {
    let place = Place::new();
    std::fs::write(place.path("a.yaml"), "name: first\ncommand: [sh, -c, 'printf A >> order']\nrepeats: 6\n")
        .unwrap();
    std::fs::write(place.path("b.yaml"), "name: second\ncommand: [sh, -c, 'printf B >> order']\n").unwrap();
    place.ok(&["run", "--alternate", "a.yaml", "b.yaml"]);
    assert_eq!(std::fs::read_to_string(place.path("order")).unwrap().len(), 12);
    assert_eq!(place.json(&["compare", "first", "second", "-o", "json"])["pairs"], 6);
}

#[test]
fn the_first_failure_of_either_side_is_the_exit_code() {
    let place = Place::new();
    let arguments = ["run", "-q", "--alternate", "--repeat", "2", "--", "true", "---", "sh", "-c", "exit 7"];
    assert_eq!(place.run(&arguments).status.code(), Some(7));
}

#[test]
fn what_cannot_be_alternated_is_refused_with_the_way_out() {
    let place = Place::new();
    std::fs::write(place.path("a.yaml"), "command: [\"true\"]\nrepeats: 6\n").unwrap();
    std::fs::write(place.path("b.yaml"), "command: [\"true\"]\nrepeats: 7\n").unwrap();
    for (arguments, want) in [
        (&["run", "--alternate", "--", "true"][..], "---"),
        (&["run", "--alternate", "--", "true", "---"][..], "---"),
        (&["run", "--alternate", "--", "true", "---", "true", "---", "true"][..], "got 2"),
        (&["run", "--alternate", "--with", "sleep 1", "--", "true", "---", "true"][..], "co-runners"),
        (&["run", "--alternate", "--name", "a,b,c", "--", "true", "---", "true"][..], "a,b,c"),
        (&["run", "--alternate", "--save-json", "x.json", "--", "true", "---", "true"][..], "--save-json"),
        (&["run", "--alternate", "a.yaml", "b.yaml"][..], "--repeat"),
        (&["session", "add", "--alternate", "--", "true", "---", "true"][..], "--alternate"),
    ] {
        let (code, error) = place.fails(arguments);
        assert_eq!(code, 2, "{arguments:?}: {error}");
        assert!(error.contains(want), "{arguments:?}: {error}");
    }
    assert_eq!(place.json(&["runs", "-o", "json"])["total"], 0);
}

#[test]
fn batches_one_after_the_other_use_the_history_of_earlier_ones() {
    let place = Place::new();
    let batch = || drop(place.ok(&["run", "-q", "--name", "same", "--repeat", "5", "--", "true"]));
    (0..3).for_each(|_| batch());
    let comparison = || place.json(&["compare", "same~1", "same", "--metric", "wall", "-o", "json"]);
    let early = comparison();
    assert_eq!(early["metrics"][0]["drift"], "not-contained", "one earlier batch shows no drift");
    assert!(early["warnings"].as_array().unwrap().iter().any(|warning| warning["code"] == "drift-unknown"));
    (0..3).for_each(|_| batch());
    let late = comparison();
    assert_eq!((&late["metrics"][0]["drift"], &late["history_batches"]), (&"from-history".into(), &4.into()));
    assert!(late["metrics"][0]["drift_ratio"].is_f64(), "{late}");
}
