//! The examples for CI in `examples/` are real: their lines are run here as they stand, with a
//! queue that is worked, and a change that is slower makes them fail.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::common::{Place, stderr, stdout};
use serde_json::Value;

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// A worker that is ended with the test.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        // SAFETY: a signal to a process that this test started and has not waited for.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGTERM) };
        self.0.wait().unwrap();
    }
}

/// A workspace with a run file whose loop has so many rounds on each side, and a worker on its
/// queue.
struct Workspace {
    place: Place,
    store: PathBuf,
    _worker: Worker,
}

impl Workspace {
    fn new(baseline: u32, change: u32) -> Self {
        let place = Place::new();
        let file = example("session.yaml");
        assert!(file.contains(" 20000 "), "the loop's rounds: {file}");
        for folder in ["work/examples", "bin", "temp"] {
            std::fs::create_dir_all(place.path(folder)).unwrap();
        }
        for (name, rounds) in [("origin", baseline), ("change", change)] {
            std::fs::write(place.path(name), file.replace(" 20000 ", &format!(" {rounds} "))).unwrap();
        }
        // Stands in for git: what is checked out is one of the two.
        let git = "#!/bin/sh\ncase \"$*\" in *origin/*) cp ../origin examples/session.yaml;; *) cp ../change examples/session.yaml;; esac\n";
        std::fs::write(place.path("bin/git"), git).unwrap();
        std::fs::set_permissions(place.path("bin/git"), PermissionsExt::from_mode(0o755)).unwrap();
        let store = place.path("metier-history.db");
        let mut command = place.command(&["session", "work"]);
        command.env("METIER_STORE", &store).stdout(Stdio::null()).stderr(Stdio::null());
        let worker = Worker(command.spawn().unwrap());
        Self { place, store, _worker: worker }
    }

    fn line(&self, line: &str, variables: &[(&str, &str)]) -> Output {
        let program = Path::new(env!("CARGO_BIN_EXE_metier")).parent().unwrap().display().to_string();
        let path = format!("{}:{program}:{}", self.place.text("bin"), std::env::var("PATH").unwrap());
        // The environment of `metier` in tests, for a shell.
        let mut command = Command::new("sh");
        for (name, value) in self.place.command::<&str>(&[]).get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command
            .args(["-ec", line])
            .env("PATH", path)
            .env("METIER_STORE", &self.store)
            .env("RUNNER_TEMP", self.place.path("temp"))
            .envs(variables.iter().copied())
            .current_dir(self.place.path("work"))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }
}

/// Runs lines as CI does, until one fails; gives that line and its exit code.
fn pipeline(workspace: &Workspace, lines: &[String], variables: &[(&str, &str)]) -> Option<(String, i32)> {
    for line in lines {
        let output = workspace.line(line, variables);
        let code = output.status.code().unwrap();
        assert_ne!(code, 2, "{line}: {}", stderr(&output));
        if code != 0 {
            assert!(line.contains("compare"), "{line}: {code}: {}{}", stdout(&output), stderr(&output));
            return Some((line.clone(), code));
        }
    }
    None
}

fn jenkins() -> (Vec<String>, Vec<String>) {
    let file = example("Jenkinsfile");
    let (stages, post) = file.split_once("post {").unwrap();
    let lines = |text: &str| -> Vec<String> {
        let inside = |line: &str| line.trim().strip_prefix("sh '")?.strip_suffix('\'').map(str::to_string);
        text.lines().filter_map(inside).collect()
    };
    let found = (lines(stages), lines(post));
    let all = file.lines().filter(|line| line.trim().starts_with("sh ")).count();
    assert_eq!(found.0.len() + found.1.len(), all, "every sh line is read");
    assert!(found.0.iter().any(|line| line.contains("metier compare")));
    found
}

const JENKINS: [(&str, &str); 2] = [("BUILD_TAG", "jenkins-app-7"), ("GIT_COMMIT", "0123abcd")];

#[test]
fn the_jenkinsfile_fails_on_a_slower_change_and_passes_a_faster_one() {
    let (stages, post) = jenkins();
    let slower = Workspace::new(5_000, 100_000);
    std::fs::copy(slower.place.path("origin"), slower.place.path("work/examples/session.yaml")).unwrap();
    let (line, code) = pipeline(&slower, &stages, &JENKINS).expect("a regression");
    assert_eq!(code, 5, "{line}");
    for line in post {
        let output = slower.line(&line, &JENKINS);
        assert_ne!(output.status.code(), Some(2), "{line}: {}", stderr(&output));
    }
    assert!(slower.place.path("work/change.jsonl").exists(), "the runs are kept");
    let faster = Workspace::new(100_000, 5_000);
    std::fs::copy(faster.place.path("origin"), faster.place.path("work/examples/session.yaml")).unwrap();
    assert_eq!(pipeline(&faster, &stages, &JENKINS), None);
}

#[test]
fn the_github_workflow_fails_on_a_slower_change() {
    let workflow: Value = serde_saphyr::from_str(&example("github-actions.yml")).unwrap();
    let workspace = Workspace::new(5_000, 100_000);
    let variables = [("BASELINE", "baseline-1-1"), ("CHANGE", "change-1-1")];
    let mut failed = None;
    for step in workflow["jobs"]["measure"]["steps"].as_array().unwrap() {
        if step["uses"].as_str().is_some_and(|uses| uses.starts_with("actions/checkout@")) {
            let side = if step["with"]["ref"].is_string() { "origin" } else { "change" };
            std::fs::copy(workspace.place.path(side), workspace.place.path("work/examples/session.yaml"))
                .unwrap();
            continue;
        }
        let lines = [step["run"].as_str().unwrap().to_string()];
        if step["if"].is_string() {
            let output = workspace.line(&lines[0], &variables);
            assert_ne!(output.status.code(), Some(2), "{lines:?}: {}", stderr(&output));
        } else if failed.is_none() {
            failed = pipeline(&workspace, &lines, &variables);
        }
    }
    assert_eq!(failed.expect("a regression").1, 5);
}
