//! `metier run FILE` through the real program: all faults are reported at once, flags and fields
//! are equivalent, and the record states the requested settings.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{Place, fits, golden, stderr, stdout};
use serde_json::{Value, json};

fn write(place: &Place, name: &str, text: &str) {
    std::fs::write(place.path(name), text).unwrap();
}

#[test]
fn a_run_file_is_run_and_recorded() {
    let place = Place::new();
    write(
        &place,
        "job.yaml",
        "name: job\ncommand: [sh, -c, 'echo out; exit 3']\nrepeats: 2\ntags: [a]\ninterval: 20ms\n",
    );
    let output = place.run(&["run", "job.yaml", "-q", "--tag", "b"]);
    assert_eq!(
        (output.status.code(), stdout(&output).as_str()),
        (Some(3), "out\nout\n"),
        "{}",
        stderr(&output)
    );
    let run = place.json(&["show", "last", "-o", "json"]);
    assert_eq!((run["workload"]["name"].as_str(), run["tags"].clone()), (Some("job"), json!(["a", "b"])));
    assert_eq!((run["workload"]["id"].as_str(), &run["context"]["repetitions"]), (Some("job"), &json!(2)));
    assert_eq!(run["context"]["sampling"]["interval_seconds"], 0.02);
    assert_eq!(place.json(&["runs", "-o", "json"])["total"], 2);
}

#[test]
fn a_run_file_comes_from_stdin_and_as_json_too() {
    let place = Place::new();
    for arguments in [["run", "-q", "-"].as_slice(), &["run", "-q", "--file", "-"]] {
        let mut child =
            place.command(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"{\"command\": [\"echo\", \"0.50\"]}").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(stdout(&output), "0.50\n");
    }
    write(&place, "job.json", "{\"command\": [\"echo\"], \"arguments\": [\"one\"]}");
    assert_eq!(stdout(&place.run(&["run", "-q", "job.json"])), "one\n");
    assert_eq!(
        stdout(&place.run(&["run", "job.json", "-q", "--", "other", "words"])),
        "other words\n",
        "arguments are replaced"
    );
}

#[test]
fn a_command_after_dashes_is_a_command_whatever_its_name() {
    let place = Place::new();
    write(&place, "script.yaml", "#!/bin/sh\necho I am a command\n");
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(place.path("script.yaml"), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(stdout(&place.run(&["run", "-q", "--", "./script.yaml"])), "I am a command\n");
    assert_eq!(
        place.run(&["run", "-q", "./script.yaml"]).status.code(),
        Some(2),
        "and without them it is a run file"
    );
}

#[test]
fn every_fault_of_a_bad_file_is_told_at_once() {
    let place = Place::new();
    write(
        &place,
        "bad.yaml",
        r#"name: "/slash"
command: make -j2
imgae: alpine
limits:
  cpu: lots
  memory: 1.5Gib
timeout: 5
grace: 2h
interval: 1us
mounts: ["/tmp", {source: /tmp, traget: /x}]
dataset:
  source: gopher://user:hunter2@host/x
  page_cache: tepid
ready: {port: 0, http: "http://x/"}
needs: [other.yaml, {image: ""}]
repeats: 0
tags: [""]
"#,
    );
    write(&place, "other.yaml", "command: [ls]\ntimeuot: 3s\n");
    let shape = place.run(&["run", "bad.yaml"]);
    assert_eq!(shape.status.code(), Some(2));
    assert!(!stderr(&shape).contains("hunter2"));
    write(
        &place,
        "bad2.yaml",
        r#"name: "/slash"
command: [""]
image: alpine
limits:
  cpu: lots
  memory: 1.5Gib
timeout: 5
grace: 2h
interval: 1us
mounts: ["/no/such:/x"]
dataset:
  source: gopher://user:hunter2@host/x
  page_cache: tepid
  digest: sha256:12
ready: {port: 0, http: "http://x/"}
needs: [other.yaml, {image: ""}]
repeats: 0
tags: [""]
"#,
    );
    let values = place.run(&["run", "--check", "bad2.yaml"]);
    assert_eq!(values.status.code(), Some(2));
    let told = format!("{}\n{}", stderr(&shape), stderr(&values));
    golden("runfile-faults.txt", &told.replace(place.path("").to_str().unwrap(), "PLACE/"));
}

#[test]
fn wrong_flags_name_the_flag() {
    let place = Place::new();
    for (arguments, parts) in [
        (vec!["--limit-memory", "1.5Gib"], vec!["--limit-memory", "1.5Gib", "300Mi"]),
        (vec!["--limit-cpu", "many"], vec!["--limit-cpu", "500m"]),
        (vec!["--mount", "/tmp:/x"], vec!["--mount", "command"]),
        (vec!["--env", "no-such-variable-here"], vec!["--env", "NAME=VALUE"]),
        (vec!["--ready", "soon"], vec!["--ready", "port:8080"]),
        (vec!["--needs", "'open"], vec!["--needs", "quotes"]),
        (vec!["--listen", "ears"], vec!["--listen", "socket"]),
        (vec!["--node", "x"], vec!["--node", "--pod"]),
        (vec!["--page-cache", "cold"], vec!["--page-cache", "--dataset"]),
        (vec!["--dataset", "x", "--page-cache", "tepid"], vec!["--page-cache", "tepid", "cold or warm"]),
        (vec!["--workdir", "/no/such"], vec!["--workdir", "/no/such"]),
        (vec!["--probe", "no-such"], vec!["no-such", "YAML"]),
    ] {
        let mut all = vec!["run"];
        all.extend(&arguments);
        all.extend(["--", "touch", "ran"]);
        let (code, error) = place.fails(&all);
        assert!(code == 2 && parts.iter().all(|part| error.contains(part)), "{arguments:?}: {code}: {error}");
    }
    let (code, error) = place.fails(&["run", "no-such.yaml"]);
    assert!(code == 2 && error.contains("no-such.yaml"), "{error}");
    assert!(!place.path("ran").exists());
}

/// A field of a file, and the flags that say the same.
const SAME: &[(&str, &[&str])] = &[
    ("name: x", &["--name", "x"]),
    ("tags: [a, b]", &["--tag", "a", "--tag", "b"]),
    ("repeats: 3", &["--repeat", "3"]),
    ("warmup: 2", &["--warmup", "2"]),
    ("stop_on_failure: true", &["--stop-on-failure"]),
    ("timeout: 90s", &["--timeout", "1.5m"]),
    ("duration: 20s", &["--for", "20s"]),
    ("grace: 2s", &["--grace", "2s"]),
    ("linger: 3s", &["--linger", "3s"]),
    ("interval: 50ms", &["--interval", "50ms"]),
    ("environment: {A: '1', B: x=y}", &["--env", "A=1", "--env", "B=x=y"]),
    ("working_directory: /tmp", &["--workdir", "/tmp"]),
    ("limits: {cpu: 0.5, memory: 1.5Gi}", &["--limit-cpu", "0.5", "--limit-memory", "1.5Gi"]),
    ("artefacts: ['*.json', out/x]", &["--artefact", "*.json", "--artefact", "out/x"]),
    ("stacks: 99", &["--stacks"]),
    ("stacks: 49", &["--stacks=49"]),
    (
        "listen: {socket: true, lines: true, scrape: ['http://h/m']}",
        &["--listen", "socket,lines", "--scrape", "http://h/m"],
    ),
    ("listen: [pywaggle]", &["--listen", "pywaggle"]),
    ("listen: {socket: true, socket_path: /x/s}", &["--listen", "socket=/x/s"]),
    ("ready: {port: '8080', within: 5s}", &["--ready", "port:8080", "--ready-within", "5s"]),
    ("ready: {http: 'http://h/'}", &["--ready", "http://h/"]),
    ("ready: {file: /x}", &["--ready", "file:/x"]),
    ("image: i\nready: {output: 'now: up'}", &["--image", "i", "--ready", "output:now: up"]),
    ("needs: [{command: [a, 'b c']}]", &["--needs", "a 'b c'"]),
    ("with: [{command: [a]}, {command: [b]}]", &["--with", "a", "--with", "b"]),
    ("input: /tmp", &["--input", "/tmp"]),
    (
        "dataset: {source: 's3://b/k', digest: 'sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08', endpoint: 'http://h', region: r, page_cache: warm}",
        &[
            "--dataset",
            "s3://b/k",
            "--dataset-digest",
            "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "--dataset-endpoint",
            "http://h",
            "--dataset-region",
            "r",
            "--page-cache",
            "warm",
        ],
    ),
    (
        "image: i\nmounts: ['/tmp:/a:ro', '/tmp:/b']\ndataset: {source: /tmp, target: /d}\nlimits: {gpu: all}",
        &[
            "--image",
            "i",
            "--mount",
            "/tmp:/a:ro",
            "--mount",
            "/tmp:/b",
            "--dataset",
            "/tmp",
            "--dataset-target",
            "/d",
            "--limit-gpu",
            "all",
        ],
    ),
    (
        "image: i\ncontainer: {engine: /e, entrypoint: [a, -b], network: none, runtime: r, user: u, devices: [/dev/null], capabilities: [C], privileged: true, stdin: true, shared_memory: 1Mi, labels: {l: m}, pull: always}",
        &[
            "--image",
            "i",
            "--engine",
            "/e",
            "--entrypoint",
            "a",
            "--entrypoint",
            "-b",
            "--network",
            "none",
            "--runtime",
            "r",
            "--user",
            "u",
            "--device",
            "/dev/null",
            "--capability",
            "C",
            "--privileged",
            "--stdin",
            "--shared-memory",
            "1Mi",
            "--label",
            "l=m",
            "--pull",
            "always",
        ],
    ),
    (
        "pod: {image: i, node: n, selector: {k: v}, namespace: ns, context: c, kubeconfig: /k}",
        &[
            "--pod",
            "i",
            "--node",
            "n",
            "--selector",
            "k=v",
            "--namespace",
            "ns",
            "--context",
            "c",
            "--kubeconfig",
            "/k",
        ],
    ),
];

#[test]
fn flags_and_fields_are_the_same_thing() {
    let place = Place::new();
    let mut fields_seen = std::collections::BTreeSet::new();
    for (fields, flags) in SAME {
        let has_target = fields.contains("image:") || fields.contains("pod:");
        let target = if has_target { "arguments: [w]\n" } else { "command: [w]\n" };
        write(&place, "f.yaml", &format!("{target}{fields}\n"));
        let file = place.json(&["run", "--check", "-o", "json", "f.yaml"]);
        let mut typed = vec!["run", "--check", "-o", "json"];
        typed.extend(*flags);
        typed.extend(["--", "w"]);
        assert_eq!(place.json(&typed), file, "{fields} / {flags:?}");
        collect(&file, "", &mut fields_seen);
    }
    // Every field that the published schema has was said by a flag.
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/metier.run-file-1.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(schema).unwrap()).unwrap();
    let told: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    let unflagged: Vec<_> = told.iter().filter(|field| !fields_seen.contains(field.as_str())).collect();
    assert_eq!(unflagged, [&&"probes".to_string()], "a probe is a file of its own: --probe");
}

fn collect(value: &Value, path: &str, seen: &mut std::collections::BTreeSet<String>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        collect(value, &path, seen);
        seen.insert(path);
    }
}

#[test]
fn flags_go_before_the_file_and_the_file_before_settings() {
    let place = Place::new();
    write(&place, "f.yaml", "command: [w]\ntimeout: 20s\nname: file\ntags: [file]\n");
    let check = |extra: &[&str]| {
        let mut command = place.command(&[&["run", "--check", "-o", "json", "f.yaml"], extra].concat());
        let output = command.env("METIER_RUN_TIMEOUT", "30s").env("METIER_RUN_GRACE", "7s").output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_str::<Value>(&stdout(&output)).unwrap()
    };
    let plain = check(&[]);
    assert_eq!(
        (&plain["timeout"], &plain["grace"], &plain["name"]),
        (&json!("20s"), &json!("7s"), &json!("file"))
    );
    let typed = check(&["--timeout", "10s", "--name", "flag", "--tag", "flag"]);
    assert_eq!(
        (&typed["timeout"], &typed["name"], &typed["tags"]),
        (&json!("10s"), &json!("flag"), &json!(["file", "flag"]))
    );
}

#[test]
fn paths_in_a_file_are_meant_from_where_it_is() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("sub/app")).unwrap();
    write(&place, "sub/f.yaml", "command: [pwd]\nworking_directory: app\ninput: app\n");
    let file = place.json(&["run", "--check", "-o", "json", "sub/f.yaml"]);
    assert!(file["working_directory"].as_str().unwrap().ends_with("/sub/app"), "{file}");
    assert!(file["input"].as_str().unwrap().starts_with('/'), "{file}");
}

#[test]
fn a_check_shows_the_run_and_runs_nothing() {
    let place = Place::new();
    write(
        &place,
        "f.yaml",
        "command: [touch, ran, 'a b']\nenvironment: {SECRET: hunter2}\nlimits: {memory: 1Gi}\nrepeats: 2\nwith: [{command: [x]}]\n",
    );
    let text = place.ok(&["run", "f.yaml", "--check"]);
    golden("runfile-check.txt", &text);
    assert!(!place.path("ran").exists() && !text.contains("hunter2"));
    let yaml = place.ok(&["run", "f.yaml", "--check", "-o", "yaml"]);
    write(&place, "again.yaml", &yaml);
    assert_eq!(place.ok(&["run", "again.yaml", "--check", "-o", "yaml"]), yaml, "what is printed can be run");
}

#[test]
fn the_examples_can_be_run() {
    let place = Place::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "yaml") {
            place.ok(&["run", "--check", path.to_str().unwrap()]);
            count += 1;
        }
    }
    assert!(count >= 4, "{count}");
}

#[test]
fn an_example_with_a_dataset_stages_and_stacks_does_what_it_says() {
    let place = Place::new();
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("SKIP: this needs python3, because the example's application is written for it");
        return;
    }
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/detect.yaml");
    let saved = place.text("run.json");
    place.ok(&["run", "--save-json", &saved, "--repeat", "1", example.to_str().unwrap()]);
    let run: Value = serde_json::from_str(&std::fs::read_to_string(&saved).unwrap()).unwrap();
    let count = |name: &str| {
        let stages = run["stages"].as_array().unwrap();
        stages.iter().find(|stage| stage["name"] == name).unwrap()["count"].as_u64().unwrap()
    };
    assert!(count("pieces") > 1, "{run:#}");
    assert_eq!((count("detect"), count("load")), (count("pieces"), count("pieces") + 1));
    assert_eq!(run["context"]["dataset"]["page_cache"], "warm", "{run:#}");
}

/// A tool that measures from inside: leaves a file that says what it was given, and becomes the
/// command.
const TOOL: &str = "#!/bin/sh\necho \"$LEVEL $*\" > \"$1\"\nshift\nexec \"$@\"\n";

fn kept(place: &Place, name: &str) -> String {
    place.ok(&["show", "last", "--artefact", name])
}

#[test]
fn a_probe_goes_before_the_command_and_what_it_leaves_is_kept() {
    let place = Place::new();
    write(&place, "tool", TOOL);
    write(
        &place,
        "inner.yaml",
        "name: inner\nwrap: [sh, tool, inner.out]\nenvironment: {LEVEL: deep}\nartefacts: ['in*.out']\n",
    );
    write(&place, "outer.yaml", "name: outer\nwrap: [sh, tool, outer.out]\nartefacts: [outer.out]\n");
    let typed =
        ["run", "-q", "--probe", "inner.yaml", "--probe", "outer.yaml", "--", "sh", "-c", "echo $0; exit 3"];
    let output = place.run(&typed);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(3), "sh\n"), "{}", stderr(&output));
    assert_eq!(kept(&place, "inner.out"), "deep inner.out sh -c echo $0; exit 3\n");
    assert_eq!(kept(&place, "outer.out"), "deep outer.out sh tool inner.out sh -c echo $0; exit 3\n");
}

#[test]
fn a_probe_that_is_mounted_into_a_container_leaves_its_file_in_the_record() {
    let place = Place::new();
    let Some(engine) = std::env::var("METIER_LAB_DOCKER").ok() else {
        eprintln!("SKIP: no container engine, because METIER_LAB_DOCKER is not set; `lab/lab up docker`");
        return;
    };
    std::fs::create_dir(place.path("tools")).unwrap();
    write(&place, "tools/tool", TOOL);
    write(
        &place,
        "run.yaml",
        "image: busybox:local\ncontainer: {entrypoint: [sh, -c], pull: never}\narguments: ['exit 4']\n\
         probes: [{name: tool, wrap: [sh, /tools/tool, /tmp/trace.out], mounts: ['tools:/tools:ro'], environment: {LEVEL: 1}, artefacts: ['/tmp/*.out']}]\n",
    );
    let output = place.run(&["run", "-q", "--engine", &engine, "run.yaml"]);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert_eq!(kept(&place, "/tmp/trace.out"), "1 /tmp/trace.out sh -c exit 4\n");
}

#[test]
fn every_example_is_as_the_published_schema_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let file: Value = serde_saphyr::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            fits("metier.run-file-1", &file);
            seen += 1;
        }
    }
    assert!(seen >= 7, "{seen}");
}

#[test]
fn a_run_for_a_given_time_is_complete_and_a_time_limit_does_not_end_the_batch() {
    let place = Place::new();
    let output =
        place.run(&["run", "--for", "300ms", "--repeat", "2", "--name", "endless", "--", "sleep", "60"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let run = place.json(&["show", "last", "-o", "json"]);
    assert_eq!((&run["exit"]["cause"], &run["exit"]["planned"]), (&json!("timeout"), &json!(true)));
    assert_eq!(run["context"]["duration_seconds"], 0.3);
    assert_eq!(run["context"]["repetition"], 2);
    assert!(run["exit"]["ended_by"].as_str().unwrap().contains("as planned"));
    assert!(place.ok(&["show", "last"]).contains("ok, as planned"));
    let compared = place.json(&["compare", "last~1", "last", "-o", "json"]);
    assert_eq!(compared["before"]["left_out"].as_array().map_or(0, Vec::len), 0, "{compared}");
    let output = place.run(&["run", "--repeat", "3", "--timeout", "200ms", "--", "sleep", "60"]);
    assert_eq!(output.status.code(), Some(124));
    assert!(stderr(&output).contains("3 failed"), "{}", stderr(&output));
    assert!(place.json(&["show", "last", "-o", "json"])["exit"]["planned"].is_null());
}

#[test]
fn a_flag_replaces_what_the_file_listens_to_and_when_it_must_be_ready() {
    let place = Place::new();
    write(
        &place,
        "f.yaml",
        "command: [w]\nlisten: {socket: true, pywaggle: true, scrape: [\"http://127.0.0.1:1/m\"]}\nready: {port: 1, within: 5s}\n",
    );
    let file =
        place.json(&["run", "--check", "-o", "json", "f.yaml", "--listen", "lines", "--ready-within", "7s"]);
    assert_eq!(file["listen"], json!({"lines": true, "scrape": ["http://127.0.0.1:1/m"]}));
    assert_eq!(file["ready"], json!({"port": "1", "within": "7s"}));
    let (code, error) = place.fails(&["run", "--ready-within", "7s", "--", "true"]);
    assert!(code == 2 && error.contains("--ready-within"), "{error}");
}
