//! What applications say of themselves, through the real program: every way, the examples of the
//! documentation, strangers, nonsense.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Place, stderr};
use serde_json::Value;

/// Runs a command under `metier run` with these flags; gives its record.
fn record(place: &Place, flags: &[&str], command: &[&str]) -> Value {
    let file = place.text("run.json");
    let mut arguments = vec!["run", "--save-json", &file];
    arguments.extend(flags);
    arguments.push("--");
    arguments.extend(command);
    let output = place.run(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

fn stage<'a>(run: &'a Value, name: &str) -> &'a Value {
    let stages = run["stages"].as_array().unwrap_or_else(|| panic!("no stages: {run:#}"));
    stages.iter().find(|stage| stage["name"] == name).unwrap_or_else(|| panic!("no {name}: {stages:#?}"))
}

/// An example of the documentation, written to a file of the place.
fn example(place: &Place, name: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/application-messages.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once(&format!("<!-- example: {name} -->\n")).expect("the example is there");
    let (_, rest) = rest.split_once('\n').unwrap();
    let (code, _) = rest.split_once("\n```").unwrap();
    let file = place.path(name);
    std::fs::write(&file, format!("{code}\n")).unwrap();
    file.to_str().unwrap().to_string()
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("SKIP: this needs {program}, because an example is written for it");
    }
    found
}

/// A script of a place.
fn script(place: &Place, text: &str) -> String {
    let file = place.path("app.py");
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_string()
}

#[test]
fn the_examples_of_lines_work_as_they_stand_in_the_documentation() {
    let place = Place::new();
    let run = record(&place, &["--listen", "lines"], &["sh", &example(&place, "lines.sh")]);
    assert_eq!(
        (&stage(&run, "resize")["count"], &stage(&run, "resize")["kind"]),
        (&3.into(), &"duration".into())
    );
    assert_eq!(
        (&stage(&run, "files")["count"], &stage(&run, "files")["kind"]),
        (&3.into(), &"counter".into())
    );
    if has("python3") {
        let run = record(&place, &["--listen", "lines"], &["python3", &example(&place, "lines.py")]);
        let inference = stage(&run, "inference");
        assert_eq!((&inference["count"], &inference["source"]), (&30.into(), &"lines".into()));
        assert!(inference["p50"].as_f64().unwrap() > 0.0);
        assert!(inference["cpu_seconds_per_item"].is_null(), "two stages share the run's CPU time");
        let why = run["missing"]["stages.cpu_seconds_per_item"].to_string();
        assert!(why.contains("2 stages"), "{why}");
        assert!(inference["p50"].as_f64() <= inference["p99"].as_f64());
        assert_eq!(stage(&run, "frames")["labels"], "camera=\"top\"");
        assert_eq!(stage(&run, "frames")["count"], 30);
        assert_eq!(run["quality"]["stages"], "exact");
        assert_eq!((&run["intake"]["messages"], &run["intake"]["dropped"]), (&60.into(), &0.into()));
    }
    if has("rustc") {
        let (source, program) = (example(&place, "lines.rs"), place.text("example"));
        let built = Command::new("rustc").args(["-o", &program, &source]).output().unwrap();
        assert!(built.status.success(), "{}", stderr(&built));
        let run = record(&place, &["--listen", "lines"], &[&program]);
        assert_eq!(stage(&run, "inference")["count"], 30);
    }
}

#[test]
fn the_examples_do_no_harm_where_nobody_listens() {
    let place = Place::new();
    let run = record(&place, &[], &["sh", &example(&place, "lines.sh")]);
    assert!(run.get("intake").is_none() && run.get("stages").is_none(), "{run:#}");
}

#[test]
fn cpu_per_item_leaves_out_what_the_run_does_before_its_first_item() {
    let place = Place::new();
    // 0.9 s of CPU time before the items, and sleep between them.
    let text = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; sleep 0.3
        for n in 1 2 3 4 5; do echo item 1 ms >&$METIER_FD; sleep 0.15; done";
    let run = record(&place, &["--listen", "lines"], &["sh", "-c", text]);
    let whole = run["summary"]["cpu_seconds"].as_f64().unwrap();
    let Some(each) = stage(&run, "item")["cpu_seconds_per_item"].as_f64() else {
        let why = &run["missing"]["stages.cpu_seconds_per_item"];
        assert!(why.is_string(), "neither a cost nor a reason: {run:#}");
        eprintln!("SKIP: no CPU counter of the run here: {why}");
        return;
    };
    assert!(each * 5.0 < whole / 2.0, "{each} s of {whole} s in all");
}

#[test]
fn a_descriptor_is_inherited_by_every_child() {
    let place = Place::new();
    let text = "echo a 1 s >&$METIER_FD; sh -c 'echo a 2 s >&3'; (echo b 5 count >&3)";
    let run = record(&place, &["--listen", "lines"], &["sh", "-c", text]);
    assert_eq!((&stage(&run, "a")["count"], &stage(&run, "a")["sum"]), (&2.into(), &3.0.into()));
    assert_eq!(stage(&run, "b")["count"], 5);
}

#[test]
fn the_waggle_wire_is_taken_unchanged_and_datagrams_beside_it() {
    let place = Place::new();
    if !has("python3") {
        return;
    }
    // As the class writes it: one message, two newlines; then coalesced, cut, and one that is cut
    // off for ever.
    let text = r#"
import json, os, socket, time
stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
stream.connect(os.environ["METIER_SOCKET"])
def message(name, value):
    return json.dumps({name: {"value": value, "timestamp": time.time()}}).encode() + b"\n\n"
for n in range(50):
    stream.sendall(message("inference_time", 0.01))
joined = b"".join(message("FPS", 30.0) + message("RAM_usage", 1 << 30) for n in range(50))
for at in range(0, len(joined), 11):
    stream.send(joined[at:at + 11])
stream.sendall(b'{"FPS": {"value": nonsense}}\n\n{"FPS":\n\n' + message("FPS", 30.0))
"#;
    let run = record(&place, &["--listen", "socket"], &["python3", &script(&place, text)]);
    assert_eq!(
        (&stage(&run, "inference_time")["count"], &stage(&run, "inference_time")["kind"]),
        (&50.into(), &"duration".into())
    );
    assert_eq!((&stage(&run, "FPS")["count"], &stage(&run, "FPS")["kind"]), (&51.into(), &"rate".into()));
    assert_eq!(
        (&stage(&run, "RAM_usage")["count"], &stage(&run, "RAM_usage")["kind"]),
        (&50.into(), &"value".into())
    );
    assert!(stage(&run, "RAM_usage")["cpu_seconds_per_item"].is_null(), "a reading is not an item");
    assert_eq!((&run["intake"]["malformed"], &run["intake"]["messages"]), (&2.into(), &151.into()));
    assert_eq!(run["intake"]["examples"].as_array().unwrap().len(), 2);
    let codes: Vec<&str> =
        run["warnings"].as_array().unwrap().iter().filter_map(|w| w["code"].as_str()).collect();
    assert!(codes.contains(&"malformed-messages"), "{codes:?}");

    let run = record(&place, &["--listen", "socket"], &["python3", &example(&place, "datagrams.py")]);
    assert_eq!(
        (&stage(&run, "inference_time")["count"], &stage(&run, "inference_time")["source"]),
        (&20.into(), &"socket".into())
    );
}

#[test]
fn a_socket_at_a_path_of_the_users_is_there_during_the_run_and_gone_after_it() {
    let place = Place::new();
    if !has("python3") {
        return;
    }
    let path = place.text("live_metrics.sock");
    let text = format!(
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect({path:?})\ns.sendall(b'{{\"x\": 1}}\\n\\n')"
    );
    let run = record(&place, &["--listen", &format!("socket={path}")], &["python3", &script(&place, &text)]);
    assert_eq!(stage(&run, "x")["count"], 1);
    assert!(!Path::new(&path).exists());
}

#[test]
fn an_unmodified_plugin_gives_latency_by_stage() {
    let place = Place::new();
    if !has("python3") {
        return;
    }
    // What pywaggle's log mode does, line by line, with a time that has lost its fraction.
    let text = r#"
import json, os, pathlib, time
root = pathlib.Path(os.environ["PYWAGGLE_LOG_DIR"])
root.mkdir(parents=True, exist_ok=True)
file = (root / "data.ndjson").open("a")
def publish(name, value, at, meta={}):
    out = {"name": name, "value": value, "meta": meta, "timestamp": at}
    print(json.dumps(out, sort_keys=True, separators=(",", ":")), file=file, flush=True)
for n in range(1, 21):
    publish("plugin.duration.inference", n * 1_000_000, f"2026-01-31T12:00:{n:02d}123")
publish("env.count.people", 3, "2026-01-31T12:00:21.000500123", {"camera": "top"})
publish("upload", "/x/uploads/1-a.jpg", "2026-01-31T12:00:21.000500123", {"filename": "a.jpg"})
"#;
    let run = record(&place, &["--listen", "pywaggle"], &["python3", &script(&place, text)]);
    let inference = stage(&run, "plugin.duration.inference");
    assert_eq!((&inference["count"], &inference["kind"]), (&20.into(), &"duration".into()));
    assert_eq!(inference["rate_per_second"], 1.0);
    let p50 = inference["p50"].as_f64().unwrap();
    assert!((p50 - 0.010).abs() <= 0.0001, "{p50}");
    assert_eq!(stage(&run, "upload")["count"], 1);
    assert_eq!(stage(&run, "env.count.people")["labels"], "camera=\"top\"");
}

#[test]
fn a_log_folder_that_the_user_has_is_followed_from_its_end_and_left_alone() {
    let place = Place::new();
    let folder = place.path("log");
    std::fs::create_dir(&folder).unwrap();
    let line = |value: u32| {
        format!(
            "{{\"meta\":{{}},\"name\":\"timeit.x\",\"timestamp\":\"2026-01-31T12:00:00.5\",\"value\":{value}}}\n"
        )
    };
    std::fs::write(folder.join("data.ndjson"), line(1).repeat(5)).unwrap();
    std::fs::write(place.path("more"), line(2).repeat(3)).unwrap();
    let file = place.text("run.json");
    let mut command = place.command(&[
        "run",
        "--save-json",
        &file,
        "--listen",
        "pywaggle",
        "--",
        "sh",
        "-c",
        "cat more >> $PYWAGGLE_LOG_DIR/data.ndjson",
    ]);
    assert!(command.env("PYWAGGLE_LOG_DIR", &folder).status().unwrap().success());
    let run: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(stage(&run, "timeit.x")["count"], 3);
    assert_eq!(std::fs::read_to_string(folder.join("data.ndjson")).unwrap().lines().count(), 8);
}

fn wait_for(path: &Path) -> String {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        match std::fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_string(),
            _ => assert!(Instant::now() < until, "{} never came", path.display()),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_process_that_does_not_belong_to_the_run_is_refused_and_counted() {
    let place = Place::new();
    let (told, done, file) = (place.path("told"), place.path("done"), place.text("run.json"));
    let text = "echo $METIER_SOCKET > told; while [ ! -e done ]; do sleep 0.02; done";
    let mut metier = place
        .command(&["run", "--save-json", &file, "--listen", "socket", "--", "sh", "-c", text])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let socket = wait_for(&told);
    let mut stranger = UnixStream::connect(&socket).unwrap();
    stranger.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let _ = stranger.write_all(b"{\"fps\": 1}\n\n");
    // Refused is closed: the read ends, with or without an error.
    let _ = stranger.read(&mut [0]);
    std::fs::write(done, "").unwrap();
    assert!(metier.wait().unwrap().success());
    let run: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!((&run["intake"]["strangers"], &run["intake"]["messages"]), (&1.into(), &0.into()));
    assert!(run.get("stages").is_none(), "{run:#}");
    let left: Vec<PathBuf> =
        std::fs::read_dir(place.path("runtime/metier/listen")).unwrap().map(|e| e.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_metrics_page_is_read_while_the_application_serves_it() {
    let place = Place::new();
    if !has("python3") {
        return;
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    // Ends after three reads, so that nothing depends on how fast they come.
    let text = r##"
import http.server, sys
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global reads
        reads += 1
        body = (f"# TYPE frames_total counter\nframes_total{{camera=\"top\"}} {reads * 10}\n"
                f"# TYPE inference_seconds histogram\ninference_seconds_bucket{{le=\"0.1\"}} {reads * 5}\n"
                f"inference_seconds_bucket{{le=\"+Inf\"}} {reads * 5}\ninference_seconds_sum {reads * 0.25}\n"
                f"inference_seconds_count {reads * 5}\n# TYPE queue gauge\nqueue 7\nprocess_cpu_seconds_total 5\n").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
reads = 0
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Page)
while reads < 3:
    server.handle_request()
"##;
    let page = format!("http://localhost:{port}/metrics");
    let run = record(&place, &["--scrape", &page], &["python3", &script(&place, text), &port.to_string()]);
    let frames = stage(&run, "frames_total");
    assert_eq!(
        (&frames["count"], &frames["kind"], &frames["source"]),
        (&20.into(), &"counter".into(), &"scrape".into())
    );
    assert_eq!(
        (&stage(&run, "inference_seconds")["count"], &stage(&run, "inference_seconds")["mean"]),
        (&10.into(), &0.05.into())
    );
    assert_eq!(stage(&run, "queue")["p50"], 7.0);
    assert_eq!(
        run["stages"].as_array().unwrap().len(),
        3,
        "what the client library says of itself is left out"
    );
    assert_eq!(run["quality"]["stages"], "sampled");
    let place_of =
        run["stages"].as_array().unwrap().iter().position(|s| s["name"] == "inference_seconds").unwrap();
    assert_eq!(run["quality"][format!("stages.{place_of}.p50")], "estimated");
}

#[test]
fn a_page_that_never_answers_is_a_reason_in_the_record() {
    let place = Place::new();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let page = format!("http://127.0.0.1:{port}/metrics");
    let run = record(&place, &["--scrape", &page], &["true"]);
    let reason = run["missing"]["stages.scrape"].as_str().unwrap();
    assert!(reason.contains(&page) && reason.contains("fix:"), "{reason}");
}

#[test]
fn stages_are_shown_after_the_run_and_later_with_their_time_line() {
    let place = Place::new();
    let text = "for i in 1 2 3 4 5 6 7 8; do echo inference 12.5 ms >&3; echo nonsense >&3; done; sleep 0.3";
    let output = place.run(&["run", "--listen", "lines", "--", "sh", "-c", text]);
    let said = stderr(&output);
    for part in ["STAGE", "inference", "12.5 ms", "8 messages of the application were not understood"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let shown = place.ok(&["show", "last"]);
    for part in ["Stages", "inference", "8 messages, 8 not understood", "CPU/ITEM"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let series = place.json(&["show", "last", "--series=app", "-o", "json"]);
    let columns = series["series"][0]["columns"].as_array().unwrap();
    let count = columns.iter().find(|column| column["name"] == "inference count").unwrap();
    assert_eq!(count["values"]["integer"].as_array().unwrap().last().unwrap(), 8);
    assert!(columns.iter().any(|column| column["name"] == "inference time"), "{columns:?}");
}

#[test]
fn a_way_that_makes_no_sense_is_refused_before_anything_starts() {
    let place = Place::new();
    let mark = place.text("ran");
    for (flags, parts) in [
        (["--listen", "telepathy"], ["telepathy", "socket"]),
        (["--scrape", "ftp://x/metrics"], ["ftp://x/metrics", "http://"]),
        (["--listen", "socket=relative"], ["relative", "absolute"]),
    ] {
        let output = place.run(&["run", flags[0], flags[1], "--", "touch", &mark]);
        let error = stderr(&output);
        assert!(
            !output.status.success() && parts.iter().all(|part| error.contains(part)),
            "{flags:?}: {error}"
        );
        assert!(!Path::new(&mark).exists());
    }
}

#[test]
fn an_orphan_of_the_run_belongs_to_it() {
    let place = Place::new();
    if !has("python3") {
        return;
    }
    let text = r#"
import os, socket
if os.fork() == 0:
    if os.fork() == 0:
        s = socket.socket(socket.AF_UNIX)
        s.connect(os.environ["METIER_SOCKET"])
        s.sendall(b'{"orphan": 1}\n\n')
    os._exit(0)
os.wait()
"#;
    let run = record(&place, &["--listen", "socket"], &["python3", &script(&place, text)]);
    assert_eq!(stage(&run, "orphan")["count"], 1);
}
