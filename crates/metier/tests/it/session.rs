//! The queue of sessions with the real program: asking, working, waiting, cancelling, and what
//! survives `kill -9`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Place, stderr};
use serde_json::Value;

/// Long enough for the slowest machine; only a test that fails waits for it.
const PATIENCE: Duration = Duration::from_secs(120);

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// A program that is killed with the test.
struct Process(Child);

impl Process {
    fn start(mut command: Command) -> Self {
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn signal(&self, signal: i32) {
        // SAFETY: a signal to a process that this test started and has not waited for.
        unsafe { libc::kill(self.0.id() as i32, signal) };
    }

    fn end(mut self, signal: i32) {
        self.signal(signal);
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.0.try_wait().unwrap().is_none() {
            self.signal(libc::SIGKILL);
            self.0.wait().unwrap();
        }
    }
}

fn add(place: &Place, arguments: &[&str]) -> u64 {
    let all: Vec<&str> = ["session", "add", "-q"].iter().chain(arguments).copied().collect();
    place.ok(&all).trim().parse().unwrap()
}

fn show(place: &Place, number: u64) -> Value {
    place.json(&["session", "show", &number.to_string(), "-o", "json"])
}

fn state(place: &Place, number: u64) -> String {
    show(place, number)["state"].as_str().unwrap().to_string()
}

fn wait(place: &Place, number: u64) -> Option<i32> {
    place.run(&["session", "wait", "-q", "--timeout", "120s", &number.to_string()]).status.code()
}

fn work(place: &Place) {
    let output = place.run(&["session", "work", "--until-empty"]);
    assert!(output.status.success(), "{}", stderr(&output));
}

/// Processes that have this text in their command line.
fn with(text: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if pid != std::process::id() && String::from_utf8_lossy(&line).contains(text) {
            found.push(pid);
        }
    }
    found
}

#[test]
fn a_session_is_measured_when_its_turn_comes_and_waits_until_then() {
    let place = Place::new();
    let number =
        add(&place, &["--name", "hello", "--repeat", "2", "--", "sh", "-c", "echo out; echo err >&2"]);
    let waiting = show(&place, number);
    assert_eq!((waiting["state"].as_str(), waiting["position"].as_u64()), (Some("queued"), Some(1)));
    assert_eq!(waiting["asker"]["door"], "cli");
    assert_eq!(place.run(&["session", "wait", "-q", "--timeout", "100ms", "last"]).status.code(), Some(124));
    work(&place);
    let over = show(&place, number);
    assert_eq!((over["state"].as_str(), over["exit_code"].as_i64()), (Some("finished"), Some(0)), "{over}");
    let runs = over["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    let run = place.json(&["show", runs[0].as_str().unwrap(), "-o", "json"]);
    assert_eq!(
        (run["batch"].clone(), run["workload"]["name"].as_str()),
        (over["batch"].clone(), Some("hello"))
    );
    let log = place.ok(&["session", "log", &number.to_string()]);
    assert_eq!((log.matches("out\n").count(), log.matches("err\n").count()), (2, 2), "{log}");
    assert_eq!(wait(&place, number), Some(0));
    assert!(place.ok(&["session", "list"]).contains("finished"));
    assert!(place.ok(&["session", "list", "-o", "csv"]).contains("hello"));
    let left: Vec<_> = std::fs::read_dir(place.path("runtime/metier")).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "only the lock stays: {left:?}");
}

#[test]
fn the_end_of_a_session_says_why_and_wait_has_its_exit_code() {
    let place = Place::new();
    for (arguments, code, words) in [
        (vec!["--", "sh", "-c", "exit 7"], 7, "exit code 7"),
        (vec!["--repeat", "2", "--", "sh", "-c", "test -e x || { touch x; exit 2; }"], 2, "exit code 2"),
        (vec!["--timeout", "100ms", "--", "sleep", "60"], 124, "time limit"),
        (vec!["--", "/nowhere/at-all"], 127, "not found"),
        (vec!["--", "sh", "-c", "kill -9 $$"], 137, "signal 9"),
        (vec!["--dataset", "no-such.bin", "--", "true"], 125, "not started: reading the dataset"),
        (
            vec!["--image", "x:1", "--engine", "/no-such.sock"],
            125,
            "not started: the container engine at /no-such.sock",
        ),
    ] {
        let number = add(&place, &arguments);
        work(&place);
        let over = show(&place, number);
        assert_eq!(over["state"], "failed", "{over}");
        assert!(over["reason"].as_str().unwrap().contains(words), "{over}");
        assert_eq!(wait(&place, number), Some(code), "{arguments:?}");
    }
}

#[test]
fn a_session_runs_where_it_was_asked_for_and_sees_no_token() {
    let place = Place::new();
    std::fs::create_dir(place.path("elsewhere")).unwrap();
    let output = place
        .command(&["session", "add", "-q", "--", "sh", "-c", "pwd; env | grep -c METIER_TOKEN"])
        .current_dir(place.path("elsewhere"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let mut command = place.command(&["session", "work", "--until-empty"]);
    command.env("METIER_TOKEN", "a-token-that-nobody-may-see");
    assert!(command.output().unwrap().status.success());
    let log = place.ok(&["session", "log", "last"]);
    assert!(log.contains("/elsewhere\n0\n"), "{log}");
}

#[test]
fn two_workers_on_one_device_never_measure_at_the_same_time() {
    let place = Place::new();
    let numbers: Vec<u64> = (0..8).map(|_| add(&place, &["--", "sleep", "0.2"])).collect();
    let workers: Vec<Process> =
        (0..3).map(|_| Process::start(place.command(&["session", "work", "--until-empty"]))).collect();
    numbers.iter().for_each(|number| assert_eq!(wait(&place, *number), Some(0)));
    drop(workers);
    let runs = place.json(&["runs", "--all", "-o", "json"]);
    let mut intervals: Vec<(String, String)> = runs["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| (run["started"].as_str().unwrap().to_string(), run["ended"].as_str().unwrap().to_string()))
        .collect();
    assert_eq!(intervals.len(), numbers.len());
    intervals.sort();
    for pair in intervals.windows(2) {
        let ended: jiff::Timestamp = pair[0].1.parse().unwrap();
        let began: jiff::Timestamp = pair[1].0.parse().unwrap();
        assert!(ended <= began, "{pair:?} overlap");
    }
}

#[test]
fn cancelling_ends_who_runs_and_forgets_who_waits() {
    let place = Place::new();
    let mark = format!("3{}", std::process::id());
    let runs = add(&place, &["--", "sleep", &mark]);
    let waits = add(&place, &["--", "true"]);
    let worker = Process::start(place.command(&["session", "work"]));
    until("the command", || (!with(&format!("sleep\0{mark}")).is_empty()).then_some(()));
    place.ok(&["session", "cancel", &waits.to_string()]);
    assert_eq!(state(&place, waits), "cancelled");
    place.ok(&["session", "cancel", &runs.to_string()]);
    assert_eq!(wait(&place, runs), Some(130));
    assert_eq!(state(&place, runs), "cancelled");
    assert!(with(&mark).is_empty(), "nothing is left behind");
    let run = place.json(&["runs", "-o", "json"]);
    assert_eq!(run["runs"][0]["exit"]["cause"], "interrupted", "its run says so too: {run}");
    let (code, error) = place.fails(&["session", "cancel", &runs.to_string()]);
    assert!(code == 1 && error.contains("cancelled already"), "{error}");
    let again = add(&place, &["--", "true"]);
    assert_eq!(wait(&place, again), Some(0), "the worker goes on");
    worker.end(libc::SIGTERM);
}

#[test]
fn a_worker_that_is_told_to_stop_ends_its_session_first() {
    let place = Place::new();
    let mark = format!("4{}", std::process::id());
    let number = add(&place, &["--", "sleep", &mark]);
    let worker = Process::start(place.command(&["session", "work"]));
    until("the command", || (!with(&format!("sleep\0{mark}")).is_empty()).then_some(()));
    worker.end(libc::SIGTERM);
    assert!(with(&mark).is_empty(), "nothing is left behind");
    let over = show(&place, number);
    assert_eq!(over["state"], "interrupted", "{over}");
    assert!(over["reason"].as_str().unwrap().contains("was stopped while it ran"), "{over}");
    assert_eq!(wait(&place, number), Some(125));
}

/// Starts `metier up` on a free port and gives it back when it is ready.
fn up(place: &Place, more: &[&str]) -> Process {
    let mut arguments = vec!["up", "--listen", "127.0.0.1:0"];
    arguments.extend(more);
    let mut command = place.command(&arguments);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    lines.by_ref().map(Result::unwrap).find(|line| line.contains("ready at http://")).unwrap();
    std::thread::spawn(move || lines.for_each(drop));
    Process(child)
}

fn survives_a_kill(place: &Place, digit: u8) {
    let mark = format!("{digit}{}", std::process::id());
    let running = add(place, &["--", "sleep", &mark]);
    let waiting: Vec<u64> = (0..2).map(|_| add(place, &["--", "true"])).collect();
    let server = up(place, &[]);
    until("the command", || (!with(&format!("sleep\0{mark}")).is_empty()).then_some(()));
    assert_eq!(state(place, running), "running");
    server.end(libc::SIGKILL);
    assert_eq!(state(place, waiting[1]), "queued", "nothing of the queue is lost");
    let server = up(place, &[]);
    for number in &waiting {
        assert_eq!(wait(place, *number), Some(0));
        assert_eq!(state(place, *number), "finished");
    }
    let over = show(place, running);
    assert_eq!(over["state"], "interrupted", "{over}");
    assert!(over["reason"].as_str().unwrap().contains("went away"), "{over}");
    assert_eq!(over["runs"].as_array().unwrap().len(), 1, "{over}");
    assert!(with(&mark).is_empty(), "nothing is left behind");
    // The run that was cut has its end before the next began: the device measured one at a time all
    // along.
    let cut = place.json(&["show", over["runs"][0].as_str().unwrap(), "-o", "json"]);
    assert_ne!(cut["state"], "running", "{cut}");
    server.end(libc::SIGTERM);
    let left: Vec<_> = std::fs::read_dir(place.path("runtime/metier")).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "only the lock stays: {left:?}");
}

#[test]
fn a_server_that_is_killed_loses_neither_who_waits_nor_the_truth_about_who_ran() {
    survives_a_kill(&Place::new(), 5);
}

#[test]
fn a_server_that_is_killed_loses_nothing_on_postgresql_either() {
    let Ok(server) = std::env::var("METIER_LAB_POSTGRES") else {
        eprintln!(
            "SKIP: the queue on PostgreSQL, because METIER_LAB_POSTGRES is not set \
             (lab/lab up postgres && eval \"$(lab/lab env postgres)\")"
        );
        return;
    };
    let name = format!("t{}", metier_types::RunId::new().to_string().replace('-', ""));
    let run = |sql: &str| {
        let mut client = postgres::Client::connect(&server, postgres::NoTls).unwrap();
        client.batch_execute(sql).unwrap();
    };
    run(&format!("CREATE SCHEMA {name}"));
    let place = Place::new();
    let joint = if server.contains('?') { '&' } else { '?' };
    let settings = format!("store = \"{server}{joint}options=-csearch_path%3D{name}\"\n");
    std::fs::write(place.path("config/metier/config.toml"), settings).unwrap();
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| survives_a_kill(&place, 6)));
    run(&format!("DROP SCHEMA {name} CASCADE"));
    done.unwrap();
}

#[test]
fn bad_wishes_are_refused_by_name() {
    let place = Place::new();
    std::fs::write(place.path("empty.yaml"), "{}").unwrap();
    std::fs::write(place.path("broken.yaml"), "{\n\"command\": [\"x\"\n").unwrap();
    for (arguments, code, part) in [
        (vec!["session", "add"], 2, "COMMAND"),
        (vec!["session", "add", "gone.yaml"], 2, "gone.yaml"),
        (vec!["session", "add", "empty.yaml"], 2, "command"),
        (vec!["session", "add", "broken.yaml"], 2, "broken.yaml:"),
        (vec!["session", "add", "--no-store", "--", "true"], 2, "--no-store"),
        (vec!["session", "show", "77"], 1, "\"77\""),
        (vec!["session", "wait", "77"], 1, "metier session list"),
    ] {
        place.ok(&["session", "add", "-q", "--", "true"]);
        let (got, error) = place.fails(&arguments);
        assert!(got == code && error.contains(part), "{arguments:?}: {got} {error}");
    }
}
