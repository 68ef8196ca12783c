//! Runs as pods of a real cluster whose only node is this machine.

use std::time::Duration;

use crate::common::{
    self, Memory, burn, burnt, cluster, kubectl, pod_of, run, run_and_stop, shell, until, until_up,
};
use metier_types::{AccountingMethod, Bytes, ExitCause, RunState, ValueQuality};
use serde_json::json;

#[test]
fn a_pod_is_measured_exactly_and_its_log_and_exit_come_back() {
    let Some(kubeconfig) = cluster() else { return };
    let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo out; echo \"$GREETING\"; echo err >&2; \
         cat /proc/self/cgroup | head -1 >/dev/null; cat /proc/1/stat | cut -d' ' -f14-17; exit 3";
    let mut spec = shell(&kubeconfig, script);
    spec.environment.push(("GREETING".into(), "a $(NAME) 'as it is'".into()));
    let (finished, memory) = run(&spec);
    let run = &finished.run;
    let exit = run.exit.as_ref().unwrap();
    assert_eq!((exit.cause, exit.code, exit.signal), (ExitCause::Exited, Some(3), None));
    assert_eq!(run.state, RunState::Finished);
    let log = memory.text(metier_cluster::LOG_ARTEFACT);
    assert!(
        log.contains("out\n") && log.contains("err\n") && log.contains("a $(NAME) 'as it is'\n"),
        "{log:?}"
    );
    assert_eq!(run.context.method, Some(AccountingMethod::Container));
    assert_eq!(run.quality.get("summary.cpu_seconds"), Some(&ValueQuality::Exact), "{:?}", run.missing);
    // What the launcher's children used, as the kernel told the launcher: the command and nothing
    // else.
    let cpu = run.summary.cpu_seconds.unwrap().get();
    assert!(cpu > 0.05, "{cpu}");
    let pod = run.context.pod.as_ref().unwrap();
    assert_eq!(pod.node.as_deref(), Some("localhost"));
    assert!(pod.uid.is_some() && pod.name.starts_with("metier-"));
    let image = run.context.image.as_ref().unwrap();
    assert_eq!(image.reference, "busybox:local");
    assert!(image.digest.is_some() && image.container.is_some(), "{image:?}");
    assert!(run.summary.peak_memory_bytes.is_some() && memory.samples > 0);
}

#[test]
fn the_cpu_time_of_a_short_pod_is_that_of_the_program_itself() {
    let Some(kubeconfig) = cluster() else { return };
    let mut spec = shell(&kubeconfig, "");
    if !burn(&mut spec) {
        return;
    }
    let (finished, memory) = run(&spec);
    let truth = burnt(&memory);
    let ours = finished.run.summary.cpu_seconds.unwrap().get();
    // Beside the program's own account there is its start and end, which it cannot see: a few
    // milliseconds.
    assert!(ours > truth * 0.995 && ours < truth * 1.01 + 0.02, "ours {ours}, its own {truth}");
}

#[test]
fn a_pod_that_runs_out_of_memory_says_so_with_its_limit() {
    let Some(kubeconfig) = cluster() else { return };
    let mut spec = shell(&kubeconfig, "x=aaaaaaaaaaaaaaaa; while true; do x=$x$x; done");
    spec.limits.memory = Some(Bytes(64 << 20));
    let (finished, _) = run(&spec);
    let exit = finished.run.exit.unwrap();
    assert_eq!(exit.cause, ExitCause::Oom, "{exit:?}");
    assert!(exit.detail.unwrap().contains("64"), "the limit is named");
}

#[test]
fn what_cannot_start_says_why_in_the_record() {
    let Some(kubeconfig) = cluster() else { return };
    let detail = |change: &dyn Fn(&mut metier_measure::RunSpec)| {
        let mut spec = shell(&kubeconfig, "true");
        change(&mut spec);
        let (finished, _) = run(&spec);
        let exit = finished.run.exit.unwrap();
        assert_eq!((exit.cause, exit.code), (ExitCause::Unstarted, None), "{exit:?}");
        exit.detail.unwrap()
    };
    let image = detail(&|spec| pod_of(spec).image = "no/such-image:here".into());
    assert!(image.contains("no/such-image:here") && image.contains("ErrImageNeverPull"), "{image}");
    let name = detail(&|spec| pod_of(spec).image = "UPPER:case:twice".into());
    assert!(name.contains("InvalidImageName") || name.contains("couldn't parse"), "{name}");
    let node = detail(&|spec| pod_of(spec).node = Some("nowhere".into()));
    assert!(node.contains("there is no node `nowhere`") && node.contains("localhost"), "{node}");
    let labels = detail(&|spec| {
        pod_of(spec).node_labels.insert("metier.test/device".into(), "orin".into());
    });
    assert!(labels.contains("metier.test/device=orin"), "{labels}");
    let program = detail(&|spec| pod_of(spec).entrypoint = Some(vec!["no-such-program".into()]));
    assert!(program.contains("not found") && program.contains("no-such-program"), "{program}");
    let room = detail(&|spec| {
        spec.limits.cpu = Some(5000.0);
        pod_of(spec).start_within = Some(Duration::from_secs(5));
    });
    assert!(room.contains("Insufficient cpu"), "{room}");
}

#[test]
fn a_time_limit_ends_the_pod_by_the_ladder() {
    let Some(kubeconfig) = cluster() else { return };
    let mut spec = shell(&kubeconfig, "trap '' INT TERM; echo up; while true; do sleep 1; done");
    spec.timeout = Some(Duration::from_secs(1));
    spec.grace = Duration::from_millis(300);
    let (finished, memory) = run(&spec);
    let exit = finished.run.exit.unwrap();
    assert_eq!((exit.cause, exit.signal), (ExitCause::Timeout, Some(9)), "{exit:?}");
    assert!(exit.ended_by.unwrap().contains("SIGINT, then SIGTERM, then SIGKILL"));
    assert_eq!(memory.text(metier_cluster::LOG_ARTEFACT), "up\n");
}

#[test]
fn files_that_the_pod_made_are_kept_with_the_run() {
    let Some(kubeconfig) = cluster() else { return };
    let script = "mkdir -p /srv/out && cd /srv/out && echo one >a.csv && echo two >b.txt && ln -s /etc/shadow out.csv; echo three >/tmp/c.csv";
    let mut spec = shell(&kubeconfig, script);
    spec.artefacts = vec!["/srv/**/*.csv".into(), "tmp/c.csv".into(), "/none/*".into()];
    let (finished, memory) = run(&spec);
    assert_eq!(memory.text("/srv/out/a.csv"), "one\n", "{:?}", memory.files.keys());
    assert_eq!(memory.text("tmp/c.csv"), "three\n");
    assert!(!memory.files.contains_key("/srv/out/b.txt"));
    assert!(finished.run.artefacts.iter().any(|artefact| artefact.name == "/srv/out/a.csv"));
    assert!(finished.run.warnings.iter().any(|w| w.text.contains("/none/*")), "{:?}", finished.run.warnings);
}

#[test]
fn a_pod_that_somebody_deletes_is_told_so_and_nothing_is_left() {
    let Some(kubeconfig) = cluster() else { return };
    let spec = shell(&kubeconfig, "echo up; sleep 600");
    let other = spec.clone();
    let deleting = std::thread::spawn(move || {
        let (name, _) = until_up(&other);
        kubectl(&other, &["delete", "pod", &name, "--wait=false"]);
    });
    let (finished, _) = run(&spec);
    deleting.join().unwrap();
    let exit = finished.run.exit.unwrap();
    assert!(matches!(exit.cause, ExitCause::Lost | ExitCause::Signalled), "{exit:?}");
    assert!(
        exit.detail.as_deref().is_some_and(|detail| detail.contains("deleted")),
        "{exit:?} {:?}",
        finished.run.warnings
    );
}

#[test]
fn an_image_with_an_entrypoint_of_its_own_is_measured_from_outside() {
    let Some(kubeconfig) = cluster() else { return };
    let mut spec = shell(&kubeconfig, "");
    pod_of(&mut spec).entrypoint = None;
    pod_of(&mut spec).arguments =
        ["sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo done"].map(String::from).into();
    let (finished, memory) = run(&spec);
    let run = &finished.run;
    assert_eq!(run.exit.as_ref().unwrap().code, Some(0), "{:?}", run.exit);
    assert_eq!(memory.text(metier_cluster::LOG_ARTEFACT), "done\n");
    assert_ne!(run.quality.get("summary.cpu_seconds"), Some(&ValueQuality::Exact));
    assert!(
        run.summary.cpu_seconds.is_some_and(|cpu| cpu.get() > 0.05),
        "{:?} {:?}",
        run.summary,
        run.missing
    );
}

#[test]
fn a_wish_to_stop_ends_the_pod_and_the_record_says_so() {
    let Some(kubeconfig) = cluster() else { return };
    let spec = shell(&kubeconfig, "echo up; sleep 600");
    let folder = tempfile::Builder::new().prefix("metier-cluster-").tempdir().unwrap();
    let finished = run_and_stop(&spec, folder.path());
    common::nothing_is_left(&spec, folder.path());
    assert_eq!(finished.run.exit.unwrap().cause, ExitCause::Interrupted);
    assert!(finished.stop.is_some());
}

#[test]
fn a_pod_that_no_node_takes_says_so_when_somebody_stops_it() {
    let Some(kubeconfig) = cluster() else { return };
    let mut spec = shell(&kubeconfig, "true");
    spec.limits.cpu = Some(5000.0);
    let folder = tempfile::Builder::new().prefix("metier-cluster-").tempdir().unwrap();
    let mut session = common::session(folder.path());
    let stopper = session.stopper();
    let label = format!("metier.run={}", spec.id.unwrap());
    let other = spec.clone();
    let stopping = std::thread::spawn(move || {
        until("the scheduler looked at it", || {
            let path = "jsonpath={.items[*].status.conditions[*].message}";
            let said = kubectl(&other, &["get", "pods", "-l", &label, "-o", path]);
            said.contains("Insufficient").then_some(())
        });
        stopper.stop(15);
    });
    let finished = metier_cluster::run_pod(&mut session, &spec, &mut Memory::default()).unwrap();
    stopping.join().unwrap();
    let exit = finished.run.exit.unwrap();
    assert_eq!(exit.cause, ExitCause::Unstarted);
    let detail = exit.detail.unwrap();
    assert!(
        detail.contains("stopped before it had started") && detail.contains("Insufficient cpu"),
        "{detail}"
    );
}

#[test]
fn a_pod_is_who_and_where_a_container_would_be() {
    let Some(kubeconfig) = cluster() else { return };
    let mut spec = shell(
        &kubeconfig,
        "id -u; id -g; df -k /dev/shm | tail -1; ls -l /dev/null; grep CapEff /proc/self/status",
    );
    pod_of(&mut spec).confines = metier_measure::spec::PodPrivileges {
        host_network: true,
        user: Some((1000, Some(44))),
        devices: vec!["/dev/null".into()],
        capabilities: vec!["SYS_NICE".into()],
        shared_memory: Some(Bytes(8 << 20)),
        labels: [("team".to_string(), "vision".to_string())].into(),
        ..Default::default()
    };
    let (finished, memory) = run(&spec);
    let exit = finished.run.exit.as_ref().unwrap();
    assert_eq!(
        (exit.cause, exit.code),
        (ExitCause::Exited, Some(0)),
        "{exit:?} {}",
        memory.text(metier_cluster::LOG_ARTEFACT)
    );
    let log = memory.text(metier_cluster::LOG_ARTEFACT);
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines[..2], ["1000", "44"], "{log}");
    // Old kubelets do not size it, but end a pod that goes beyond; the runtime's own would have 64
    // MiB.
    assert!(lines[2].starts_with("tmpfs") && !lines[2].contains(" 65536 "), "{log}");
    assert_eq!(
        finished.run.quality.get("summary.cpu_seconds"),
        Some(&ValueQuality::Exact),
        "{:?}",
        finished.run.missing
    );
}

#[test]
fn what_a_killed_measuring_program_left_ends_by_itself_and_is_swept_by_the_next() {
    let Some(kubeconfig) = cluster() else { return };
    let folder = tempfile::Builder::new().prefix("metier-cluster-").tempdir().unwrap();
    let killed = shell(&kubeconfig, "");
    let id = killed.id.unwrap().to_string();
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_pod-process"))
        .arg(&kubeconfig)
        .arg(&id)
        .arg(folder.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let label = format!("metier.run={id}");
    let pods = || kubectl(&killed, &["get", "pods", "-l", &label, "-o", "jsonpath={.items[*].status.phase}"]);
    until("the pod", || (pods() == "Running").then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    // Only the launcher in the pod is left to end the command.
    until("the end of the command", || (pods() != "Running").then_some(()));
    let jobs = || kubectl(&killed, &["get", "jobs", "-l", &label, "-o", "name"]);
    assert_ne!(jobs().trim(), "", "the Job is still there for the next to sweep");
    let spec = shell(&kubeconfig, "true");
    let mut session = common::session(folder.path());
    metier_cluster::run_pod(&mut session, &spec, &mut Memory::default()).unwrap();
    until("the sweep", || (jobs().trim().is_empty() && pods().is_empty()).then_some(()));
    common::nothing_is_left(&spec, folder.path());
}

#[test]
fn a_node_that_goes_away_in_mid_run_is_named_and_nothing_is_left() {
    let Some(kubeconfig) = cluster() else { return };
    let mut spec = shell(&kubeconfig, "sleep 600");
    // A node that is only an object: the scheduler binds the pod to it, and we say what its kubelet
    // would.
    let node = format!("metier-test-{}", spec.id.unwrap().short());
    pod_of(&mut spec).node = Some(node.clone());
    let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
        "lastHeartbeatTime": now(), "lastTransitionTime": now()});
    let room = json!({"cpu": "4", "memory": "8Gi", "pods": "10"});
    let status = json!({"capacity": room, "allocatable": room, "conditions": [ready]});
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "status": status});
    raw(&spec, "create", "/api/v1/nodes", &object);
    until("the node without taints", || {
        raw(&spec, "replace", &format!("/api/v1/nodes/{node}/status"), &object);
        let taints = kubectl(&spec, &["get", "node", &node, "-o", "jsonpath={.spec.taints[*].key}"]);
        taints.is_empty().then_some(())
    });
    let (other, gone) = (spec.clone(), node.clone());
    let acting = std::thread::spawn(move || {
        let label = format!("metier.run={}", other.id.unwrap());
        let name = until("a pod on the node", || {
            let path = "jsonpath={range .items[*]}{.metadata.name} {.spec.nodeName}{end}";
            let text = kubectl(&other, &["get", "pods", "-l", &label, "-o", path]);
            text.strip_suffix(&format!(" {gone}")).map(str::to_string)
        });
        let text = kubectl(&other, &["get", "pod", &name, "-o", "json"]);
        let mut pod: serde_json::Value = serde_json::from_str(&text).unwrap();
        pod["status"] = json!({"phase": "Running", "containerStatuses": [{"name": "run", "image": "busybox:local",
            "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {"startedAt": now()}}}]});
        raw(&other, "replace", &format!("/api/v1/namespaces/default/pods/{name}/status"), &pod);
        // Long enough for the run to be under way: it begins when it sees the pod running.
        std::thread::sleep(Duration::from_secs(2));
        kubectl(&other, &["delete", "node", &gone]);
    });
    let (finished, _) = run(&spec);
    acting.join().unwrap();
    let exit = finished.run.exit.clone().unwrap();
    assert_eq!((exit.cause, exit.code), (ExitCause::Lost, None), "{exit:?}");
    assert!(exit.detail.as_deref().is_some_and(|detail| detail.contains(&node)), "{exit:?}");
    assert!(
        finished.run.summary.cpu_seconds.is_none()
            && finished.run.missing.contains_key("summary.cpu_seconds")
    );
}

fn now() -> String {
    metier_types::UtcTimestamp::now().to_string()
}

/// Sends an object to a path of the API.
fn raw(spec: &metier_measure::RunSpec, verb: &str, path: &str, object: &serde_json::Value) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), object.to_string()).unwrap();
    kubectl(spec, &[verb, "--raw", path, "-f", file.path().to_str().unwrap()]);
}
