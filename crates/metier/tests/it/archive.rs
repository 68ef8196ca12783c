//! Export and import: nothing is lost, nothing is written unless all of it is right.

use std::io::Write;
use std::process::Stdio;

use crate::common::{Place, fixture, refusal, stderr, stdout};
use base64::Engine as _;
use metier_types::random::SplitMix64;
use serde_json::{Value, json};

fn lines() -> Vec<Value> {
    let text = std::fs::read_to_string(fixture()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn total(place: &Place) -> u64 {
    let output = place.run(&["runs", "--warmup", "-o", "json"]);
    serde_json::from_slice::<Value>(&output.stdout).unwrap()["total"].as_u64().unwrap()
}

#[test]
fn the_format_is_what_it_was() {
    let place = Place::with_fixture();
    let want = std::fs::read_to_string(fixture()).unwrap();
    let got = place.ok(&["export", "--all"]);
    // The first line names the version that wrote it.
    let body = |text: &str| text.split_once('\n').unwrap().1.to_string();
    assert!(body(&got) == body(&want), "the archive changed");
}

#[test]
fn what_was_measured_survives_export_import_export_byte_by_byte() {
    let here = Place::new();
    here.ok(&[
        "run",
        "-q",
        "--name",
        "a",
        "--interval",
        "5ms",
        "--",
        "sh",
        "-c",
        "for i in 1 2 3; do /bin/true; done; sleep 0.1",
    ]);
    here.ok(&["run", "-q", "--repeat", "2", "--warmup", "1", "--tag", "x y", "--", "echo", "\u{fc}'\"\\"]);
    here.run(&["run", "-q", "--timeout", "50ms", "--grace", "20ms", "--", "sleep", "9"]);
    here.ok(&["export", "--all", "--to", "a.jsonl"]);
    let there = Place::new();
    let said = there.run(&["import", &here.text("a.jsonl")]);
    assert!(stderr(&said).contains("5 run(s) imported, 0 already there"), "{}", stderr(&said));
    let first = std::fs::read(here.path("a.jsonl")).unwrap();
    assert!(there.ok(&["export", "--all"]).into_bytes() == first, "the second export differs");
    let again = there.run(&["import", &here.text("a.jsonl")]);
    assert!(stderr(&again).contains("0 run(s) imported, 5 already there"), "{}", stderr(&again));
    assert!(there.ok(&["export", "--all"]).into_bytes() == first);
    assert_eq!(
        there.ok(&["show", "a", "--processes", "-o", "json"]),
        here.ok(&["show", "a", "--processes", "-o", "json"])
    );
}

#[test]
fn some_runs_can_be_exported_through_a_pipe() {
    let here = Place::with_fixture();
    let archive = here.ok(&["export", "slow", "a000000e", "before"]);
    let there = Place::new();
    let mut child = there
        .command(&["import", "-", "-o", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(archive.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (said["imported"].as_u64(), said["already_there"].as_u64()),
        (Some(3), Some(0)),
        "{}",
        stderr(&output)
    );
    assert_eq!(
        there.json(&["show", "a000000e", "-o", "json"]),
        here.json(&["show", "a000000e", "-o", "json"])
    );
}

#[test]
fn large_files_of_runs_travel_in_parts() {
    let content: Vec<u8> = (0..7_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
    let digest = digest(&content);
    let mut all = lines();
    let at = all.iter().position(|line| line["schema"] == "metier.run/1").unwrap();
    let artefact = json!({"name": "big", "media_type": "application/octet-stream", "digest": digest, "size_bytes": content.len()});
    all[at]["artefacts"] = json!([artefact]);
    let parts: Vec<Value> = content
        .chunks(3 << 20)
        .enumerate()
        .map(|(n, part)| {
            let base64 = base64::engine::general_purpose::STANDARD.encode(part);
            json!({"schema": "metier.artefact/1", "digest": digest, "size_bytes": content.len(), "offset": n * (3 << 20), "base64": base64})
        })
        .collect();
    all.splice(at..at, parts);
    let count = all.len();
    all.last_mut().unwrap()["lines"] = json!(count);
    let place = Place::new();
    let text: String = all.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(place.path("a.jsonl"), &text).unwrap();
    place.ok(&["import", "a.jsonl"]);
    let out = place.ok(&["export", "--all"]);
    assert!(
        out.lines().filter(|line| line.contains("\"metier.artefact/1\"")).count() == 4,
        "three parts and one"
    );
    let again = Place::new();
    std::fs::write(again.path("b.jsonl"), &out).unwrap();
    again.ok(&["import", "b.jsonl"]);
    assert!(again.ok(&["export", "--all"]) == out);
}

fn digest(content: &[u8]) -> String {
    use sha2::{Digest as _, Sha256};
    let bytes = Sha256::digest(content);
    format!("sha256:{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// Changes the archive and tries to import it into a store that has one run already.
fn refused(change: impl FnOnce(&mut Vec<Value>)) -> String {
    let place = Place::new();
    place.ok(&["run", "-q", "--", "true"]);
    let mut all = lines();
    change(&mut all);
    let text: String = all.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(place.path("a.jsonl"), text).unwrap();
    let (code, error) = place.fails(&["import", "a.jsonl"]);
    assert_eq!(code, 1, "{error}");
    assert!(error.contains("a.jsonl was not imported"), "{error}");
    assert_eq!(total(&place), 1, "something was written: {error}");
    error
}

fn at(all: &[Value], schema: &str) -> usize {
    all.iter().position(|line| line["schema"] == schema).unwrap()
}

#[test]
fn what_is_wrong_is_named_by_line_and_field_and_nothing_is_written() {
    type Change = fn(&mut Vec<Value>);
    let cases: [(Change, &[&str]); 15] = [
        (
            |all| all[8]["summary"]["wall_seconds"] = json!("long"),
            &["line 9: field summary.wall_seconds:", "\"long\""],
        ),
        (|all| drop(all[8].as_object_mut().unwrap().remove("started")), &["line 9:", "started"]),
        (|all| all[8]["exit"]["cause"] = json!("boredom"), &["line 9: field exit.cause:", "boredom"]),
        (|all| all[8]["id"] = json!("x"), &["line 9: field id:", "UUID"]),
        (|all| all[8]["state"] = json!("running"), &["line 9", "field state", "under way"]),
        (|all| all[1]["cpu"]["threads"] = json!(-1), &["line 2: field cpu.threads:"]),
        (|all| all[8] = all[7].clone(), &["line 9", "field id", "twice"]),
        (|all| drop(all.pop()), &["breaks off", "end line"]),
        (|all| drop(all.remove(7)), &["field runs or lines", "not whole"]),
        (|all| all[0]["schema"] = json!("metier.export/2"), &["line 1: field schema:", "metier.export/2"]),
        (|all| drop(all.remove(0)), &["line 1", "first line"]),
        (
            |all| {
                let at = at(all, "metier.series/1");
                all[at]["columns"][0]["values"] = json!({"float": [1.0]});
            },
            &["field columns", "1 values for 2 times"],
        ),
        (
            |all| {
                let at = at(all, "metier.series/1");
                let series = all.remove(at);
                all.insert(6, series);
            },
            &["line 7", "before any run"],
        ),
        (
            |all| {
                let at = at(all, "metier.artefact/1");
                all[at]["base64"] = json!("AAAA");
                all[at]["size_bytes"] = json!(3);
            },
            &["field digest", "damaged"],
        ),
        (
            |all| {
                let at = at(all, "metier.artefact/1");
                all.remove(at);
            },
            &["field artefacts", "processes.json"],
        ),
    ];
    for (number, (change, parts)) in cases.into_iter().enumerate() {
        let error = refused(change);
        assert!(parts.iter().all(|part| error.contains(part)), "case {number}: {error}");
    }
}

#[test]
fn a_run_with_another_content_is_a_conflict_and_nothing_is_written() {
    let place = Place::new();
    let archive = fixture();
    place.ok(&["import", archive.to_str().unwrap()]);
    place.ok(&["runs", "rm", "--yes", "before"]);
    let before = place.ok(&["export", "--all"]);
    for change in [
        |all: &mut Vec<Value>| all[8]["tags"] = json!(["changed"]),
        |all: &mut Vec<Value>| {
            let at = at(all, "metier.series/1");
            all[at]["columns"][0]["values"] = json!({"float": [0.5, 0.76]});
        },
        |all: &mut Vec<Value>| {
            let at = at(all, "metier.series/1");
            all.remove(at);
            let count = all.len();
            all.last_mut().unwrap()["lines"] = json!(count);
        },
    ] {
        let mut all = lines();
        change(&mut all);
        let text: String = all.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(place.path("b.jsonl"), text).unwrap();
        let (code, error) = place.fails(&["import", "b.jsonl"]);
        assert!(code == 1 && error.contains("already in"), "{error}");
        assert!(place.ok(&["export", "--all"]) == before, "something was written");
    }
}

#[test]
fn what_is_no_archive_is_refused() {
    let place = Place::new();
    for (text, part) in [
        ("", "empty"),
        ("hello\n", "not a JSON object"),
        ("{\"a\":1}\n", "schema"),
        ("\u{0}\u{1}\n", "line 1"),
    ] {
        std::fs::write(place.path("x"), text).unwrap();
        let (code, error) = place.fails(&["import", "x"]);
        assert!(code == 1 && error.contains(part), "{error}");
    }
    let (code, error) = place.fails(&["import", "gone.jsonl"]);
    assert!(code == 1 && error.contains("gone.jsonl"), "{error}");
    let (code, error) = place.fails(&["import", "data"]);
    assert!(code == 1 && error.contains("folder"), "{error}");
}

#[test]
fn check_alone_writes_nothing() {
    let place = Place::new();
    let output = place.run(&["import", "--check", fixture().to_str().unwrap()]);
    assert!(output.status.success());
    assert!(stderr(&output).contains("16 run(s) could be imported"), "{}", stderr(&output));
    assert_eq!(total(&place), 0);
}

#[test]
fn export_refuses_what_makes_no_sense() {
    let place = Place::with_fixture();
    for arguments in [vec!["export"], vec!["export", "--all", "before"], vec!["export", "--all", "-o", "csv"]]
    {
        let (code, error) = refusal(&place.run(&arguments));
        assert_eq!(code, 2, "{arguments:?}: {error}");
    }
    let (code, error) = place.fails(&["export", "--all", "--to", "/no/such/folder/x"]);
    assert!(code == 1 && error.contains("--to"), "{error}");
    assert_eq!(place.fails(&["export", "nothing"]).0, 1);
    let empty = Place::new();
    assert_eq!(empty.fails(&["export", "--all"]).0, 1);
    assert!(stdout(&place.run(&["export", "before", "-o", "json"])).lines().count() > 3);
}

#[test]
fn damage_is_refused_in_one_line_and_half_an_archive_always() {
    let place = Place::new();
    let good = std::fs::read(fixture()).unwrap();
    // The same damage in every run of the test.
    let mut generator = SplitMix64::new(0x6d65_7469_6572);
    let mut random = |below: usize| generator.next_below(below);
    for round in 0..150 {
        let mut bad = good.clone();
        match round % 4 {
            0 => bad.truncate(random(bad.len())),
            1 => bad[random(good.len())] = random(256) as u8,
            2 => drop(bad.drain(random(good.len() / 2)..good.len() / 2 + random(good.len() / 2))),
            _ => {
                let (from, to) = (random(good.len()), random(good.len()));
                bad[to] = good[from];
            }
        }
        std::fs::write(place.path("x"), &bad).unwrap();
        let output = place.run(&["import", "--check", "x"]);
        match output.status.code() {
            Some(0) => assert!(
                round % 4 == 1 || round % 4 == 3,
                "round {round}: half an archive was taken for a whole one"
            ),
            _ => assert_eq!(refusal(&output).0, 1, "round {round}"),
        }
    }
}
