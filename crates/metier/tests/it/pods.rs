//! Pods whose program was killed, on the lab's cluster: no pod outlives its owner for long.

use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::common::Place;
use metier_types::RunId;

/// One at a time: every start of a pod here sweeps what the others have killed.
static TURN: Mutex<()> = Mutex::new(());

/// Only a test that fails waits for it.
const PATIENCE: Duration = Duration::from_secs(180);

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A measured pod without entrypoint, in which no launcher ends the command after a kill.
struct LeftPod {
    place: Place,
    kubeconfig: String,
    run: RunId,
    /// Must be the last field: the turn ends when all is removed.
    _turn: MutexGuard<'static, ()>,
}

impl LeftPod {
    /// Starts it and waits until it runs. `None` without a cluster.
    fn start() -> Option<(Self, Child)> {
        let Ok(kubeconfig) = std::env::var("METIER_LAB_KUBECONFIG") else {
            eprintln!("SKIP: pods, because METIER_LAB_KUBECONFIG is not set (lab/lab up kube)");
            return None;
        };
        let turn = TURN.lock().unwrap_or_else(|broken| broken.into_inner());
        let this = Self { place: Place::new(), kubeconfig, run: RunId::new(), _turn: turn };
        let child = this.pod_command(this.run, "sleep 900").spawn().unwrap();
        until("the pod", || (this.ask("pods", "{.items[*].status.phase}") == "Running").then_some(()));
        Some((this, child))
    }

    fn pod_command(&self, run: RunId, script: &str) -> Command {
        let run = run.to_string();
        let words = ["run", "-q", "--run-id", &run, "--pod", "busybox:local", "--pull", "never", "--node"];
        let mut command = self.place.command(&words);
        command.args(["localhost", "--kubeconfig", &self.kubeconfig, "--", "sh", "-c", script]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        let output = Command::new("kubectl")
            .args(["--kubeconfig", &self.kubeconfig])
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// A field of the run's objects.
    fn ask(&self, kind: &str, path: &str) -> String {
        let label = format!("metier.run={}", self.run);
        self.kubectl(&["get", kind, "-l", &label, "-o", &format!("jsonpath={path}")])
    }

    fn deadline(&self) -> u64 {
        self.ask("jobs", "{.items[0].spec.activeDeadlineSeconds}").parse().unwrap()
    }

    fn patch_job(&self, patch: &str) {
        let name = format!("metier-{}", self.run);
        self.kubectl(&["patch", "job", &name, "--type=merge", "-p", patch]);
    }

    fn kill(&self, mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(self.ask("pods", "{.items[*].status.phase}"), "Running", "it goes on by itself");
    }

    fn is_gone(&self) -> bool {
        self.ask("jobs", "{.items[*].metadata.name}").is_empty()
            && self.ask("pods", "{.items[*].metadata.name}").is_empty()
    }

    /// The notes of Jobs that were not removed.
    fn notes(&self) -> usize {
        let entries = std::fs::read_dir(self.place.path("runtime/metier")).unwrap().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("job-")).count()
    }
}

impl Drop for LeftPod {
    fn drop(&mut self) {
        let name = format!("metier-{}", self.run);
        self.kubectl(&["delete", "job", &name, "--ignore-not-found"]);
    }
}

#[test]
fn the_next_start_of_any_run_removes_the_pod_of_a_killed_program() {
    let Some((pod, child)) = LeftPod::start() else { return };
    assert!(pod.deadline() >= 900);
    until("the renewal of the lease", || (pod.deadline() > 900).then_some(()));
    pod.kill(child);
    assert_eq!(pod.notes(), 1);
    pod.place.ok(&["run", "-q", "--", "true"]);
    until("the sweep", || pod.is_gone().then_some(()));
    assert_eq!(pod.notes(), 0);
    assert_eq!(pod.place.json(&["runs", "--all", "-o", "json"])["runs"][1]["state"], "interrupted");
}

#[test]
fn the_page_removes_the_pod_of_a_program_that_is_killed_beside_it() {
    let Some((pod, child)) = LeftPod::start() else { return };
    let mut up = pod
        .place
        .command(&["up", "--no-power", "--no-work", "--no-learn", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    pod.kill(child);
    until("the sweep by up", || pod.is_gone().then_some(()));
    // SAFETY: a signal to a process that this test started and has not waited for.
    unsafe { libc::kill(up.id() as i32, libc::SIGTERM) };
    assert!(up.wait().unwrap().success());
}

#[test]
fn the_cluster_ends_a_pod_at_the_end_of_its_lease_without_any_metier() {
    let Some((pod, child)) = LeftPod::start() else { return };
    pod.kill(child);
    // The time of a lease passes.
    pod.patch_job(r#"{"spec": {"activeDeadlineSeconds": 1}}"#);
    until("the end of the pod", || (pod.ask("pods", "{.items[*].status.phase}") != "Running").then_some(()));
    assert!(pod.ask("jobs", "{.items[0].status.conditions[*].reason}").contains("DeadlineExceeded"));
}

#[test]
fn a_job_of_another_host_is_removed_when_its_lease_is_over_and_not_before() {
    let Some((pod, child)) = LeftPod::start() else { return };
    pod.kill(child);
    std::fs::remove_dir_all(pod.place.path("runtime/metier")).unwrap();
    let owner = r#"{\"host\": \"elsewhere\", \"boot\": \"b\", \"pid\": 1, \"started\": 1}"#;
    pod.patch_job(&format!(r#"{{"metadata": {{"annotations": {{"metier.owner": "{owner}"}}}}}}"#));
    let run_another = || assert!(pod.pod_command(RunId::new(), "true").status().unwrap().success());
    run_another();
    assert!(!pod.is_gone(), "its lease is not over");
    pod.patch_job(r#"{"metadata": {"annotations": {"metier.lease-until": "2026-01-01T00:00:00Z"}}}"#);
    run_another();
    until("the sweep", || pod.is_gone().then_some(()));
}
