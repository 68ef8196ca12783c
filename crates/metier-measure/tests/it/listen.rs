//! Listening to runs without a control group, to containers, and to runs that never start.

use std::path::Path;

use metier_device::identity;
use metier_linux::KernelRoots;
use metier_measure::spec::ListenSources;
use metier_measure::spec::{AccountingMode, BindMount, ContainerSpec, PullPolicy};
use metier_measure::{CommandSpec, MeasureOptions, MeasureSession, NoRecorder, RunSpec, RunTarget};

fn session(runtime: &Path) -> MeasureSession {
    let roots = KernelRoots::default();
    let device = identity::identify_device(&roots, None).unwrap();
    MeasureSession::open(MeasureOptions { roots, runtime_dir: runtime.into(), device }).unwrap()
}

fn spec(words: &[&str], listen: ListenSources) -> RunSpec {
    let arguments = words[1..].iter().map(Into::into).collect();
    RunSpec { listen, ..RunSpec::new(CommandSpec { program: words[0].into(), arguments }) }
}

fn left(runtime: &Path) -> usize {
    std::fs::read_dir(runtime.join("listen")).map_or(0, |entries| entries.count())
}

#[test]
fn without_a_control_group_the_line_of_parents_tells_who_belongs_to_the_run() {
    if !std::process::Command::new("python3").arg("--version").output().is_ok_and(|o| o.status.success()) {
        eprintln!("SKIP: this needs python3, because a shell cannot speak to a socket");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // An orphan speaks, and waits until it is listened to: it writes more than the socket holds.
    let text = "import os, socket\n\
                if os.fork() == 0:\n    if os.fork() == 0:\n        s = socket.socket(socket.AF_UNIX)\n        \
                s.connect(os.environ['METIER_SOCKET'])\n        [s.sendall(b'{\"orphan\": 1}\\n\\n') for _ in range(5000)]\n    \
                os._exit(0)\nos.wait()\n";
    let ways = ListenSources { socket: true, lines: true, ..ListenSources::default() };
    let mut spec = spec(&["python3", "-c", text], ways);
    spec.accounting = AccountingMode::Wait4;
    let run = session(folder.path()).run(&spec, &mut NoRecorder).unwrap().run;
    assert_eq!(run.stages.len(), 1, "{:?}", run.intake);
    assert_eq!((run.stages[0].name.as_str(), run.stages[0].count), ("orphan", 5000));
    assert_eq!(run.intake.unwrap().extra.get("strangers"), None);
    assert_eq!(left(folder.path()), 0);
}

#[test]
fn a_run_that_never_starts_leaves_nothing_to_listen_to() {
    let folder = tempfile::tempdir().unwrap();
    let ways = ListenSources { socket: true, lines: true, pywaggle: true, ..ListenSources::default() };
    session(folder.path()).run(&spec(&["/no/such/program"], ways), &mut NoRecorder).unwrap_err();
    assert_eq!(left(folder.path()), 0);
}

#[test]
fn what_a_killed_predecessor_left_is_removed_by_the_next_who_listens() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, foreign) =
        (folder.path().join("listen/metier-4194304-7-0abcdef0"), folder.path().join("listen/other"));
    std::fs::create_dir_all(ours.join("pywaggle")).unwrap();
    std::fs::create_dir_all(&foreign).unwrap();
    let ways = ListenSources { lines: true, ..ListenSources::default() };
    session(folder.path()).run(&spec(&["true"], ways), &mut NoRecorder).unwrap();
    assert!(!ours.exists() && foreign.exists());
}

/// Speaks on the socket that the Waggle class has built in; linked statically, for an image without
/// any library.
const SPEAKER: &str = r#"
use std::io::Write;
fn main() {
    let mut socket = std::os::unix::net::UnixStream::connect("/metrics/live_metrics.sock").unwrap();
    for _ in 0..5000 {
        socket.write_all(b"{\"fps\": {\"value\": 30, \"timestamp\": 1}}\n\n").unwrap();
    }
}
"#;

#[test]
fn a_container_is_listened_to_by_every_way_from_its_first_instruction() {
    let Ok(engine) = std::env::var("METIER_LAB_DOCKER") else {
        eprintln!("SKIP: no container engine, because METIER_LAB_DOCKER is not set; `lab/lab up docker`");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("speaker.rs"), folder.path().join("speaker"));
    std::fs::write(&source, SPEAKER).unwrap();
    let mut build = std::process::Command::new("rustc");
    build.args(["-C", "target-feature=+crt-static", "-o"]).arg(&program).arg(&source);
    if !build.output().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIP: rustc makes no static program here, because a library for it is missing");
        return;
    }
    // The page is served twice and no more, so that nothing depends on how fast it is read.
    let text = "/speaker
        echo frames 2 count >> $METIER_LINES
        mkdir -p $PYWAGGLE_LOG_DIR
        echo '{\"meta\":{},\"name\":\"timeit.x\",\"timestamp\":\"2026-01-31T12:00:00.5\",\"value\":5}' >> $PYWAGGLE_LOG_DIR/data.ndjson
        for n in 1 2; do printf \"HTTP/1.0 200 OK\\r\\n\\r\\n# TYPE done counter\\ndone $n\\n\" | nc -l -p 8000 > /dev/null; done";
    let ways = ListenSources {
        socket: true,
        pywaggle: true,
        lines: true,
        scrape: vec!["http://localhost:8000/metrics".into()],
        ..ListenSources::default()
    };
    let mut spec = RunSpec::for_target(RunTarget::Container(ContainerSpec {
        image: "busybox:local".into(),
        arguments: ["sh", "-c", text].map(str::to_string).to_vec(),
        engine: Some(engine),
        pull: PullPolicy::Never,
        network: Some("none".into()),
        ..ContainerSpec::default()
    }));
    spec.mounts = vec![BindMount { source: program, target: "/speaker".into(), read_only: true }];
    spec.listen = ways;
    spec.timeout = Some(std::time::Duration::from_secs(120));
    let run = session(folder.path()).run(&spec, &mut NoRecorder).unwrap().run;
    assert_eq!(run.exit.as_ref().unwrap().code, Some(0), "{:?}", run.exit);
    let mut found: Vec<(&str, u64)> =
        run.stages.iter().map(|stage| (stage.name.as_str(), stage.count)).collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [("done", 1), ("fps", 5000), ("frames", 2), ("timeit.x", 1)],
        "{:?} {:?}",
        run.intake,
        run.missing
    );
    assert_eq!(run.intake.as_ref().unwrap().dropped, 0);
    assert_eq!(left(folder.path()), 0);
}
