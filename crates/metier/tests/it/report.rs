//! `metier report` and files of runs, on fixed records and on a run that was really measured.

use crate::common::{Place, stderr};

#[test]
fn a_measured_run_becomes_one_page_with_its_charts_and_tree() {
    let place = Place::new();
    let output = place.run(&[
        "run",
        "-q",
        "--name",
        "two<b>",
        "--interval",
        "10ms",
        "--",
        "sh",
        "-c",
        "sleep 0.2; ls >/dev/null",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let page = place.text("page.html");
    place.ok(&["report", "last", "--file", &page]);
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.starts_with("<!DOCTYPE html>") && html.trim_end().ends_with("</html>"));
    assert!(html.contains("<svg class=\"chart\"") && html.contains("Processes") && !html.contains("two<b>"));
    let text = place.ok(&["report", "last"]);
    assert!(text.starts_with("# two&lt;b&gt;") && text.contains("too little to advise on"), "{text}");
}

#[test]
fn two_batches_are_compared_and_programs_get_the_record() {
    let place = Place::with_fixture();
    let record = place.json(&["report", "before", "after", "-o", "json"]);
    assert_eq!(record["schema"], "metier.report/1");
    assert_eq!(record["subjects"][0]["label"], "before");
    assert_eq!(record["comparisons"][0]["schema"], "metier.comparison/1");
    let text = place.ok(&["report", "before", "after", "-o", "md"]);
    assert!(
        text.contains("## Comparison") && text.contains("after (6 runs) against before (6 runs)"),
        "{text}"
    );
    assert!(place.ok(&["report", "before", "-o", "html"]).contains("<h2>Repetitions</h2>"));
    assert!(place.ok(&["report", "before", "-o", "yaml"]).contains("schema: metier.report/1"));
}

#[test]
fn wrong_forms_names_and_places_are_refused_in_one_line_and_leave_nothing() {
    let place = Place::with_fixture();
    let inside = place.text("no/such/folder.html");
    for (arguments, code, part) in [
        (vec!["report", "before", "-o", "csv"], 2, "html, md, json and yaml"),
        (vec!["report", "before", "-o", "svg"], 2, "html, md, json or yaml"),
        (vec!["runs", "-o", "html"], 2, "only `metier report` and `metier flame`"),
        (vec!["report", "nobody"], 1, "nobody"),
        (vec!["report", "before", "--file", &inside], 1, "cannot be written"),
        (vec!["report"], 2, "RUN"),
        (vec!["show", "before", "--artefact", "x"], 1, "it has none"),
        (vec!["show", "a000000e", "--artefact", "x"], 1, "want one of processes.json"),
        (vec!["show", "a000000e", "--save", "y"], 2, "--artefact"),
    ] {
        let (got, error) = place.fails(&arguments);
        assert!(got == code && error.contains(part), "{arguments:?}: {got} {error}");
    }
}

#[test]
fn a_file_of_a_run_comes_out_byte_by_byte() {
    let place = Place::with_fixture();
    let saved = place.text("tree.json");
    place.ok(&["show", "a000000e", "--artefact", "processes.json", "--save", &saved]);
    let bytes = std::fs::read(&saved).unwrap();
    assert_eq!(bytes.len(), 795);
    let printed = place.run(&["show", "a000000e", "--artefact", "processes.json"]);
    assert_eq!(printed.stdout, bytes);
}

#[test]
fn stacks_of_any_tool_are_drawn_and_compared() {
    let place = Place::with_fixture();
    let (old, new) = (place.text("old.folded"), place.text("new.folded"));
    std::fs::write(&old, "app;main;parse 50\napp;main;read 50\n").unwrap();
    std::fs::write(&new, "app;main;parse 90\napp;main;read 10\n").unwrap();
    let picture = place.ok(&["flame", "--folded", &new, "--against", &old]);
    assert!(picture.starts_with("<?xml") && picture.contains("+40.00 points"), "{picture}");
    assert_eq!(
        place.ok(&["flame", "--folded", &old, "-o", "folded"]),
        std::fs::read_to_string(&old).unwrap()
    );
    let saved = place.text("x.svg");
    place.ok(&["flame", "--folded", &old, "--file", &saved]);
    assert!(std::fs::read_to_string(&saved).unwrap().trim_end().ends_with("</svg>"));
    std::fs::write(&old, "app;main\n").unwrap();
    for (arguments, code, part) in [
        (vec!["flame", "before"], 1, "has no stacks"),
        (vec!["flame", "--folded", &old], 1, "line 1"),
        (vec!["flame", "--folded", &new, "-o", "json"], 2, "svg or folded"),
        (vec!["flame", "--folded", &new, "--against", &new, "-o", "folded"], 2, "no form for a difference"),
        (vec!["flame"], 2, "RUN"),
        (vec!["report", "before", "--flame", &saved], 1, "before has no stacks"),
    ] {
        let (got, error) = place.fails(&arguments);
        assert!(got == code && error.contains(part), "{arguments:?}: {got} {error}");
    }
}
