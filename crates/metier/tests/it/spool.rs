//! Runs and sessions whose PostgreSQL server is away: spooled, delivered once, never lost.
//!
//! Each test has a server of its own, which it stops and starts.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Place, refusal, stderr};
use crate::private_postgres::PrivatePostgres;
use serde_json::Value;

/// Only a test that fails waits for it.
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

struct Fixture {
    place: Place,
    server: PrivatePostgres,
    url: String,
}

impl Fixture {
    /// A running server with an empty store.
    fn new() -> Option<Self> {
        let mut server = PrivatePostgres::create()?;
        server.start();
        let (place, url) = (Place::new(), server.url());
        let this = Self { place, server, url };
        this.place.ok(&["run", "-q", "--store", &this.url, "--name", "early", "--", "true"]);
        Some(this)
    }

    /// The command with the store of the server.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.place.command(arguments);
        command.env("METIER_STORE", &self.url).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn ok(&self, arguments: &[&str]) -> (String, String) {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        (String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output))
    }

    /// Starts a measured script that first says it runs, and goes on when it is told to.
    fn start_waiting(&self, flags: &[&str], rest: &str) -> Child {
        let script =
            format!("touch started; while [ ! -e go ]; do sleep 0.02; done; echo words > file; {rest}");
        let mut arguments = vec!["run", "--interval", "10ms"];
        arguments.extend(flags);
        arguments.extend(["--", "sh", "-c", &script]);
        let child = self.command(&arguments).spawn().unwrap();
        until("the command", || self.place.path("started").exists().then_some(()));
        child
    }

    fn go(&self) {
        std::fs::write(self.place.path("go"), "").unwrap();
    }

    /// The only run of this name.
    fn run_named(&self, name: &str) -> Value {
        let (list, _) = self.ok(&["runs", "--all", "-o", "json"]);
        let list: Value = serde_json::from_str(&list).unwrap();
        let all: Vec<Value> = list["runs"].as_array().unwrap().clone();
        let mut named: Vec<Value> = all.into_iter().filter(|run| run["workload"]["name"] == name).collect();
        assert_eq!(named.len(), 1, "{list}");
        named.remove(0)
    }

    /// A number from the server, without metier.
    fn count(&self, sql: &str) -> i64 {
        let mut client = postgres::Client::connect(&self.url, postgres::NoTls).unwrap();
        client.query_one(sql, &[]).unwrap().get(0)
    }

    /// The files of the spool.
    fn spool(&self) -> PathBuf {
        let folder = self.place.path("data/metier/spool");
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|ending| ending == "db"));
        assert_eq!(files.len(), 1, "{files:?}");
        files.remove(0)
    }

    fn spooled(&self, sql: &str) -> i64 {
        let connection = rusqlite::Connection::open(self.spool()).unwrap();
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    /// The archive of the store, and the times of all samples of a run's series `use`.
    fn export(&self, run: &Value) -> (String, Vec<i64>) {
        let (archive, _) = self.ok(&["export", "--all"]);
        let lines = archive.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let times = lines
            .filter(|line| line["schema"] == "metier.series/1" && line["run"] == run["id"])
            .max_by_key(|line| line["times"].as_array().map(Vec::len))
            .map(|line| serde_json::from_value(line["times"].clone()).unwrap())
            .unwrap_or_default();
        (archive, times)
    }
}

fn ended(child: Child) -> Output {
    child.wait_with_output().unwrap()
}

fn assert_spooled(output: &Output, code: i32) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("spooled in ")).collect();
    assert_eq!(lines.len(), 1, "{said}");
    assert!(lines[0].contains("/spool/") && lines[0].contains("metier up"), "{said}");
}

#[test]
fn a_run_whose_server_stops_before_its_end_is_spooled_and_delivered_once() {
    let Some(mut fixture) = Fixture::new() else { return };
    let child = fixture.start_waiting(&["--name", "mid", "--artefact", "file"], "exit 7");
    until("a sample on the server", || (fixture.count("SELECT count(*) FROM chunk") > 0).then_some(()));
    fixture.server.stop();
    std::thread::sleep(Duration::from_millis(1500));
    fixture.go();
    assert_spooled(&ended(child), 7);
    assert_eq!(fixture.spooled("SELECT count(*) FROM run"), 1);
    assert!(fixture.spooled("SELECT count(*) FROM chunk") > 0, "samples of the second half");
    let copy = fixture.place.path("copy");
    std::fs::create_dir(&copy).unwrap();
    let folder = fixture.spool().parent().unwrap().to_path_buf();
    let files = || std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    for path in files() {
        std::fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
    }

    fixture.server.start();
    let (_, said) = fixture.ok(&["runs"]);
    assert!(said.contains("1 run(s) delivered"), "{said}");
    assert_eq!(fixture.spooled("SELECT count(*) FROM run"), 0);
    let run = fixture.run_named("mid");
    assert_eq!((&run["state"], &run["exit"]["code"]), (&Value::from("finished"), &Value::from(7)));
    let (archive, times) = fixture.export(&run);
    assert!(times.len() > 100, "{} samples before and after the stop", times.len());
    let mut distinct = times.clone();
    distinct.dedup();
    assert_eq!(distinct, times, "no sample twice");
    let steps: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(steps.iter().all(|step| *step > 0), "in order");
    let (record, _) = fixture.ok(&["show", "mid", "-o", "json"]);
    let record: Value = serde_json::from_str(&record).unwrap();
    let files: Vec<&str> =
        record["artefacts"].as_array().unwrap().iter().map(|file| file["name"].as_str().unwrap()).collect();
    assert!(files.contains(&"file") && files.contains(&"processes.json"), "{files:?}");
    assert!(record["warnings"].to_string().find("dropped-samples").is_none(), "{record}");
    assert_eq!(fixture.ok(&["show", "mid", "--artefact", "file"]).0, "words\n");

    // A kill -9 between delivery and removal leaves the run in both.
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::rename(&copy, &folder).unwrap();
    assert_eq!(fixture.spooled("SELECT count(*) FROM run"), 1);
    let (_, said) = fixture.ok(&["runs"]);
    assert!(!said.contains("delivered"), "{said}");
    assert_eq!(fixture.spooled("SELECT count(*) FROM run"), 0);
    assert!(fixture.export(&run).0 == archive, "delivered twice");
    assert_eq!(fixture.count("SELECT count(*) FROM chunk"), 0);
}

#[test]
fn a_run_measured_without_its_server_is_delivered_by_up() {
    let Some(mut fixture) = Fixture::new() else { return };
    let mut up = fixture
        .command(&["up", "--no-power", "--no-work", "--no-learn", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the page's connection", || {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'metier'";
        (fixture.count(sql) > 0).then_some(())
    });
    fixture.server.stop();
    let output = fixture
        .command(&[
            "run",
            "--repeat",
            "2",
            "--name",
            "away",
            "--interval",
            "10ms",
            "--",
            "sh",
            "-c",
            "sleep 0.2; exit 3",
        ])
        .output()
        .unwrap();
    assert_spooled(&output, 3);
    assert!(stderr(&output).contains("2 run(s) spooled"), "{}", stderr(&output));
    fixture.server.start();
    let sql = "SELECT count(*) FROM run WHERE workload_name = 'away' AND state = 'finished'";
    until("the delivery by up", || (fixture.count(sql) == 2).then_some(()));
    // SAFETY: a signal to a process that this test started and has not waited for.
    unsafe { libc::kill(up.id() as i32, libc::SIGTERM) };
    assert!(up.wait().unwrap().success());
    assert_eq!(fixture.count("SELECT count(*) FROM run WHERE state = 'running'"), 0);
    assert_eq!(fixture.spooled("SELECT count(*) FROM run"), 0);
}

#[test]
fn a_server_that_is_back_before_the_end_has_the_whole_run() {
    let Some(mut fixture) = Fixture::new() else { return };
    let child = fixture.start_waiting(&["--name", "gap"], "exit 4");
    until("a sample on the server", || (fixture.count("SELECT count(*) FROM chunk") > 0).then_some(()));
    fixture.server.stop();
    until("a spooled sample", || {
        let folder = fixture.place.path("data/metier/spool");
        (folder.exists() && fixture.spooled("SELECT count(*) FROM sqlite_schema WHERE name = 'chunk'") > 0)
            .then(|| fixture.spooled("SELECT count(*) FROM chunk"))
            .filter(|count| *count > 0)
    });
    fixture.server.start();
    fixture.go();
    let output = ended(child);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(!stderr(&output).contains("spooled"), "{}", stderr(&output));
    let run = fixture.run_named("gap");
    assert_eq!(run["exit"]["code"], 4);
    let (_, times) = fixture.export(&run);
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]) && times.len() > 100, "{}", times.len());
    assert_eq!(fixture.spooled("SELECT count(*) FROM run"), 0);
}

#[test]
fn a_killed_program_leaves_what_it_spooled_as_an_interrupted_run() {
    let Some(mut fixture) = Fixture::new() else { return };
    fixture.server.stop();
    let mut child = fixture.start_waiting(&["--name", "killed"], "exit 0");
    until("a spooled sample", || (fixture.spooled("SELECT count(*) FROM chunk") > 0).then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    fixture.server.start();
    let run = fixture.run_named("killed");
    assert_eq!((&run["state"], &run["exit"]["cause"]), (&Value::from("interrupted"), &Value::from("lost")));
    assert!(!fixture.export(&run).1.is_empty());
    assert_eq!(fixture.spooled("SELECT count(*) FROM run"), 0);
}

#[test]
fn a_session_ends_as_it_ended_though_its_server_is_away_and_its_worker_killed() {
    let Some(mut fixture) = Fixture::new() else { return };
    let script = "echo before; touch started; while [ ! -e go ]; do sleep 0.02; done; echo after";
    fixture.ok(&["session", "add", "-q", "--name", "queued", "--", "sh", "-c", script]);
    let mut worker =
        fixture.command(&["session", "work"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the session", || fixture.place.path("started").exists().then_some(()));
    fixture.server.stop();
    fixture.go();
    until("the end in the spool", || {
        let folder = fixture.place.path("data/metier/spool");
        folder.exists().then(|| fixture.spooled("SELECT count(*) FROM session")).filter(|count| *count == 1)
    });
    worker.kill().unwrap();
    worker.wait().unwrap();
    fixture.server.start();
    fixture.ok(&["session", "work", "--until-empty"]);
    let (session, _) = fixture.ok(&["session", "show", "last", "-o", "json"]);
    let session: Value = serde_json::from_str(&session).unwrap();
    assert_eq!((&session["state"], &session["exit_code"]), (&Value::from("finished"), &Value::from(0)));
    assert_eq!(session["runs"].as_array().unwrap().len(), 1, "{session}");
    assert_eq!(session["turns"], 1, "measured once");
    let log = fixture.ok(&["session", "log", "last"]).0;
    assert!(log.contains("before\n") && log.contains("after\n"), "{log}");
    assert_eq!(fixture.run_named("queued")["state"], "finished");
    assert_eq!(fixture.spooled("SELECT count(*) FROM session"), 0);
}

#[test]
fn a_server_that_refuses_is_an_error_before_the_command_starts() {
    let Some(fixture) = Fixture::new() else { return };
    let url = format!("{}/no_such_database", fixture.url.strip_suffix("/postgres").unwrap());
    let output = fixture.place.run(&["run", "--store", &url, "--", "touch", "ran"]);
    let (code, said) = refusal(&output);
    assert!(code == 125 && said.contains("no_such_database"), "{said}");
    assert!(!fixture.place.path("ran").exists() && !fixture.place.path("data/metier/spool").exists());
}
