//! Pods whose node is treated as another machine: the launcher comes with the pod, counts by
//! itself, and tells at the end.

use std::time::Duration;

use crate::common::{burn, burnt, cluster, elsewhere, kubectl, pod_of, run, run_and_stop, until, until_up};
use metier_types::{AccountingMethod, Bytes, ExitCause, ValueQuality};

#[test]
fn the_cpu_time_of_a_pod_elsewhere_is_that_of_the_program_itself() {
    let Some(kubeconfig) = cluster() else { return };
    let mut spec = elsewhere(&kubeconfig, "");
    if !burn(&mut spec) {
        return;
    }
    let (finished, memory) = run(&spec);
    let run = &finished.run;
    let truth = burnt(&memory);
    let ours = run.summary.cpu_seconds.unwrap().get();
    assert!(ours > truth * 0.995 && ours < truth * 1.01 + 0.02, "ours {ours}, its own {truth}");
    assert_eq!(run.quality.get("summary.cpu_seconds"), Some(&ValueQuality::Exact), "{:?}", run.missing);
    assert_eq!(run.context.method, Some(AccountingMethod::Container));
    assert!(!run.missing.contains_key("summary.cpu_seconds"), "{:?}", run.missing);
    assert!(run.missing["samples"].reason.contains("on the pod's node"), "{:?}", run.missing);
    let (user, system) = (run.summary.cpu_user_seconds.unwrap(), run.summary.cpu_system_seconds.unwrap());
    assert!((user.get() + system.get() - ours).abs() < 0.02, "{user:?} {system:?} {ours}");
    assert!(run.summary.wall_seconds.unwrap().get() >= truth * 0.99, "{:?}", run.summary);
    assert_eq!(run.context.pod.as_ref().unwrap().node.as_deref(), Some("localhost"));
}

#[test]
fn codes_signals_and_children_of_a_pod_elsewhere_come_back_as_they_were() {
    let Some(kubeconfig) = cluster() else { return };
    let script = "dd if=/dev/zero of=/tmp/x bs=64k count=16 2>/dev/null; (sleep 0.2; echo late) & echo first; exit 137";
    let (finished, memory) = run(&elsewhere(&kubeconfig, script));
    let exit = finished.run.exit.as_ref().unwrap();
    assert_eq!((exit.cause, exit.code, exit.signal), (ExitCause::Exited, Some(137), None), "{exit:?}");
    assert_eq!(memory.text(metier_cluster::LOG_ARTEFACT), "first\nlate\n", "it is waited for");
    assert!(exit.left_behind > 0, "{exit:?}");
    assert!(finished.run.memory.minor_faults.unwrap() > 0);
    assert!(finished.run.summary.written_bytes.is_some() && finished.run.summary.read_bytes.is_some());

    let (finished, _) = run(&elsewhere(&kubeconfig, "kill -SEGV $$"));
    let exit = finished.run.exit.unwrap();
    assert_eq!((exit.cause, exit.code, exit.signal), (ExitCause::Signalled, None, Some(11)), "{exit:?}");

    let mut spec = elsewhere(&kubeconfig, "");
    pod_of(&mut spec).entrypoint = Some(vec!["no-such-program".into()]);
    let (finished, _) = run(&spec);
    let exit = finished.run.exit.unwrap();
    assert_eq!((exit.cause, exit.code), (ExitCause::Unstarted, None), "{exit:?}");
    assert!(exit.detail.unwrap().contains("`no-such-program` was not found"));
    assert!(finished.run.summary.cpu_seconds.is_none());
}

#[test]
fn the_memory_peak_of_a_pod_elsewhere_is_that_of_its_group() {
    let Some(kubeconfig) = cluster() else { return };
    let (finished, _) =
        run(&elsewhere(&kubeconfig, "dd if=/dev/zero of=/dev/null bs=48M count=1 2>/dev/null"));
    let run = &finished.run;
    let peak = run.summary.peak_memory_bytes.unwrap().get();
    assert!((48 << 20..80 << 20).contains(&peak), "{peak}");
    assert_eq!(run.quality.get("summary.peak_memory_bytes"), Some(&ValueQuality::Exact), "{:?}", run.missing);
}

#[test]
fn a_pod_elsewhere_that_runs_out_of_memory_says_so_with_its_limit() {
    let Some(kubeconfig) = cluster() else { return };
    let mut spec = elsewhere(&kubeconfig, "x=aaaaaaaaaaaaaaaa; while true; do x=$x$x; done");
    spec.limits.memory = Some(Bytes(64 << 20));
    let (finished, _) = run(&spec);
    let run = &finished.run;
    let exit = run.exit.as_ref().unwrap();
    assert_eq!(exit.cause, ExitCause::Oom, "{exit:?}");
    assert!(exit.detail.as_ref().unwrap().contains("64"), "the limit is named");
    // Some kernels end the whole container, and its figures with it.
    match run.missing.get("summary.cpu_seconds") {
        None => assert!(run.summary.cpu_seconds.is_some_and(|seconds| seconds.get() > 0.0)),
        Some(missing) => {
            assert!(run.summary.cpu_seconds.is_none() && missing.reason.contains("killed"), "{missing:?}");
        }
    }
}

#[test]
fn a_time_limit_ends_a_pod_elsewhere_and_what_it_used_is_known() {
    let Some(kubeconfig) = cluster() else { return };
    let mut spec = elsewhere(&kubeconfig, "trap '' INT TERM; echo up; while true; do :; done");
    spec.timeout = Some(Duration::from_secs(2));
    spec.grace = Duration::from_secs(1);
    let (finished, _) = run(&spec);
    let run = &finished.run;
    let exit = run.exit.as_ref().unwrap();
    assert_eq!((exit.cause, exit.signal), (ExitCause::Timeout, Some(9)), "{exit:?} {:?}", run.missing);
    assert!(exit.ended_by.as_ref().unwrap().contains("SIGINT, then SIGTERM, then SIGKILL"), "{exit:?}");
    assert!(
        run.summary.cpu_seconds.is_some_and(|cpu| cpu.get() > 0.5),
        "{:?} {:?}",
        run.summary,
        run.missing
    );
}

#[test]
fn last_words_that_are_no_report_are_refused_with_a_reason() {
    let Some(kubeconfig) = cluster() else { return };
    let spec = elsewhere(&kubeconfig, "echo all is well >/dev/termination-log; echo up; sleep 600");
    let other = spec.clone();
    let killing = std::thread::spawn(move || {
        let (_, uid) = until_up(&other);
        // The node is this machine in truth: its launcher can be killed from here, and cannot tell
        // anything.
        let pid = until("the launcher", || {
            std::fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
                let name = std::fs::read_to_string(entry.path().join("comm")).ok()?;
                let groups = std::fs::read_to_string(entry.path().join("cgroup")).ok()?;
                let is_it = name.trim() == "metier-launch" && groups.contains(&uid);
                is_it.then(|| entry.file_name().to_string_lossy().into_owned())
            })
        });
        assert!(std::process::Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    });
    let (finished, _) = run(&spec);
    killing.join().unwrap();
    let run = &finished.run;
    assert!(run.summary.cpu_seconds.is_none(), "{:?}", run.summary);
    let why = &run.missing["summary.cpu_seconds"].reason;
    assert!(why.contains("not the launcher's report"), "{why}");
    assert_eq!(run.exit.as_ref().unwrap().code, Some(137), "{:?}", run.exit);
}

#[test]
fn without_an_entrypoint_the_record_of_a_pod_says_how_to_get_exact_figures() {
    let Some(kubeconfig) = cluster() else { return };
    let mut spec = elsewhere(&kubeconfig, "");
    pod_of(&mut spec).entrypoint = None;
    pod_of(&mut spec).arguments = ["sh", "-c", "echo done"].map(String::from).into();
    let (finished, memory) = run(&spec);
    assert_eq!(memory.text(metier_cluster::LOG_ARTEFACT), "done\n");
    assert_ne!(finished.run.quality.get("summary.cpu_seconds"), Some(&ValueQuality::Exact));
    let advice = finished.run.missing.values().filter_map(|missing| missing.fix.as_deref());
    assert!(advice.into_iter().any(|fix| fix.contains("entrypoint")), "{:?}", finished.run.missing);
}

#[test]
fn a_wish_to_stop_ends_a_pod_elsewhere_and_no_other_comes_in_its_place() {
    let Some(kubeconfig) = cluster() else { return };
    let spec = elsewhere(&kubeconfig, "echo up; sleep 600");
    let folder = tempfile::Builder::new().prefix("metier-cluster-").tempdir().unwrap();
    let finished = run_and_stop(&spec, folder.path());
    // A kubelet may take its time to let go of a pod that was deleted while it ran.
    let label = format!("metier.run={}", spec.id.unwrap());
    let objects = || kubectl(&spec, &["get", "jobs,pods,configmaps", "-o", "name", "-l", &label]);
    until("the removal", || objects().trim().is_empty().then_some(()));
    let exit = finished.run.exit.unwrap();
    assert_eq!(exit.cause, ExitCause::Interrupted);
    assert_ne!(exit.code, Some(0), "{exit:?}");
    assert!(finished.stop.is_some());
    // The cluster keeps what happened to an object for a while, also after its removal.
    let job = format!("involvedObject.name=metier-{}", spec.id.unwrap());
    let path = "jsonpath={range .items[?(@.reason==\"SuccessfulCreate\")]}{.message}{\"\\n\"}{end}";
    let made = kubectl(&spec, &["get", "events", "--field-selector", &job, "-o", path]);
    assert_eq!(made.lines().count(), 1, "{made}");
}
