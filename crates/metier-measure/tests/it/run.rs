//! Runs of real commands on this host, measured by the real thing and checked against workloads
//! that know what they use (`metier-burn`). The same program runs as root and as an ordinary user
//! in the lab's guest.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use metier_device::identity;
use metier_linux::KernelRoots;
use metier_measure::spec::AccountingMode;
use metier_measure::{
    CommandSpec, Error, FinishedRun, MeasureOptions, MeasureSession, NoRecorder, RunRecorder, RunSpec,
};
use metier_types::{
    AccountingMethod, ExitCause, ProcessSource, ProcessTree, Run, RunId, RunState, Series, ValueQuality,
};

fn session() -> MeasureSession {
    let roots = KernelRoots::default();
    let device = identity::identify_device(&roots, None).unwrap();
    MeasureSession::open(MeasureOptions { roots, runtime_dir: std::env::temp_dir(), device }).unwrap()
}

fn spec(words: &[&str]) -> RunSpec {
    let arguments = words[1..].iter().map(Into::into).collect();
    let mut spec = RunSpec::new(CommandSpec { program: words[0].into(), arguments });
    spec.grace = Duration::from_millis(200);
    spec
}

fn run(spec: &RunSpec) -> FinishedRun {
    session().run(spec, &mut NoRecorder).unwrap()
}

/// The program with known truth: beside this test in the target folder, or named by METIER_BURN.
fn burn() -> Option<String> {
    let named = std::env::var_os("METIER_BURN").map(PathBuf::from);
    let beside = || Some(std::env::current_exe().ok()?.parent()?.parent()?.join("metier-burn"));
    let path = named.or_else(beside).filter(|path| path.exists());
    if path.is_none() {
        eprintln!("SKIP: metier-burn is not built; `cargo build -p metier-burn` first");
    }
    path.map(|path| path.to_string_lossy().into_owned())
}

/// Whether this host gives a group with memory; tests of exactness need one and say so.
fn has_exact_memory(run: &Run) -> bool {
    let exact = run.quality.get("summary.peak_memory_bytes") == Some(&ValueQuality::Exact);
    if !exact {
        eprintln!("SKIP: no exact memory here: {:?}", run.missing.get("memory.kernel_peak"));
    }
    exact
}

fn no_group_is_left(id: RunId) {
    let left = std::process::Command::new("find")
        .args([
            "/sys/fs/cgroup",
            "-maxdepth",
            "8",
            "-type",
            "d",
            "-name",
            &format!("metier-*-{}*", id.short()),
        ])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "", "a control group is left");
}

fn nobody_runs(marker: &str) {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    for entry in all.filter(|e| e.file_name().to_str().is_some_and(|n| n.parse::<u32>().is_ok())) {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&line).contains(marker), "{:?} is left", entry.file_name());
    }
}

#[test]
fn a_command_that_succeeds_leaves_a_complete_record_and_nothing_else() {
    let finished = run(&spec(&["true"]));
    let run = &finished.run;
    assert_eq!(run.state, RunState::Finished);
    let exit = run.exit.as_ref().unwrap();
    assert_eq!((exit.code, exit.signal, exit.cause), (Some(0), None, ExitCause::Exited));
    assert!(run.summary.wall_seconds.unwrap().get() > 0.0);
    assert!(run.summary.cpu_seconds.unwrap().get() > 0.0);
    assert!(run.context.executable.as_ref().unwrap().contains('/'));
    assert!(run.context.executable_digest.is_some() && run.context.environment_digest.is_some());
    assert!(run.context.sampling.as_ref().unwrap().samples >= 1);
    assert!(finished.stop.is_none());
    no_group_is_left(run.id);
}

#[test]
fn every_absent_figure_has_its_reason() {
    let run = run(&spec(&["true"])).run;
    let summary = serde_json::to_value(&run.summary).unwrap();
    for (field, value) in summary.as_object().unwrap() {
        let path = format!("summary.{field}");
        assert_eq!(
            value.is_null(),
            !run.quality.contains_key(&path),
            "{path} has a value and a quality, or neither"
        );
        assert!(!value.is_null() || run.missing.contains_key(&path), "{path} is absent without a reason");
    }
}

#[test]
fn exit_codes_and_signals_are_told_apart() {
    let code = run(&spec(&["sh", "-c", "exit 7"])).run.exit.unwrap();
    assert_eq!((code.code, code.cause), (Some(7), ExitCause::Exited));
    let signal = run(&spec(&["sh", "-c", "kill -SEGV $$"])).run.exit.unwrap();
    assert_eq!((signal.code, signal.signal, signal.cause), (None, Some(11), ExitCause::Signalled));
}

#[test]
fn what_cannot_be_started_is_said_with_the_usual_codes() {
    let mut session = session();
    let error = session.run(&spec(&["no-such-program-here"]), &mut NoRecorder).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }) && error.exit_code() == 127, "{error}");
    let error = session.run(&spec(&["/etc/passwd"]), &mut NoRecorder).unwrap_err();
    assert!(matches!(error, Error::NotExecutable { .. }) && error.exit_code() == 126, "{error}");
    let mut bad = spec(&["true"]);
    bad.interval = Duration::from_micros(1);
    assert!(session.run(&bad, &mut NoRecorder).unwrap_err().to_string().contains("1ms to 10s"));
    bad = spec(&["true"]);
    bad.input = Some("/no/such/input".into());
    assert!(session.run(&bad, &mut NoRecorder).unwrap_err().to_string().contains("/no/such/input"));
}

#[test]
fn cpu_time_is_what_the_burner_knows_of_itself() {
    let Some(burn) = burn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let run = run(&spec(&[&burn, "cpu", "0.5", "--report", report.to_str().unwrap()])).run;
    let own: serde_json::Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    let known = own["cpu_nanoseconds"].as_f64().unwrap_or_else(|| panic!("{own}")) / 1e9;
    let measured = run.summary.cpu_seconds.unwrap().get();
    // Loading the program and tearing it down are ours to see and not the burner's: a few
    // milliseconds, and many more on an emulated processor.
    assert!(measured >= known - 1e-4 && measured < known + 0.1, "measured {measured}, known {known}");
}

#[test]
fn children_of_a_millisecond_are_all_counted() {
    let Some(burn) = burn() else { return };
    let run = run(&spec(&[&burn, "forkburn", "100", "2"])).run;
    let cpu = run.summary.cpu_seconds.unwrap().get();
    assert!(cpu >= 0.2, "100 children of 2 ms, but only {cpu} s");
    if run.quality["summary.processes"] == ValueQuality::Exact {
        assert_eq!(run.summary.processes, Some(101));
    } else {
        assert!(run.missing.contains_key("processes.short_lived"));
        eprintln!("SKIP: the number of processes, because the kernel does not report their events here");
    }
}

#[test]
fn an_orphan_is_waited_for_and_counted() {
    let Some(burn) = burn() else { return };
    let mut spec = spec(&[&burn, "orphan", "0.3"]);
    spec.linger = Duration::from_secs(60);
    let run = run(&spec).run;
    assert!(run.summary.cpu_seconds.unwrap().get() >= 0.3, "{:?}", run.summary);
    let exit = run.exit.clone().unwrap();
    assert_eq!((exit.code, exit.cause), (Some(0), ExitCause::Exited));
    // What it uses after the main process, it uses in the time after that: no more cores than there
    // are.
    let cores = run.mean_busy_cores().unwrap();
    assert!(cores < 1.5, "{cores} cores of one thread; {:?}", run.verdict);
    // The orphan, and on a slow host also the process between it and the main one, which ends by
    // itself.
    assert!((1..=2).contains(&exit.left_behind), "{exit:?}");
}

#[test]
fn a_daemon_is_ended_after_its_time_to_linger_and_the_exit_code_stays() {
    let marker = format!("86400.{}", std::process::id());
    let mut spec = spec(&["sh", "-c", &format!("setsid sleep {marker} & setsid sleep {marker} & exit 3")]);
    spec.linger = Duration::from_millis(200);
    let run = run(&spec).run;
    let exit = run.exit.unwrap();
    assert_eq!((exit.code, exit.cause), (Some(3), ExitCause::Exited));
    assert!(run.warnings.iter().any(|warning| warning.code == "left-behind"));
    nobody_runs(&marker);
    no_group_is_left(run.id);
}

#[test]
fn at_the_time_limit_even_the_stubborn_go() {
    let Some(burn) = burn() else { return };
    let mut spec = spec(&[&burn, "stubborn", "600"]);
    spec.timeout = Some(Duration::from_millis(300));
    let run = run(&spec).run;
    let exit = run.exit.clone().unwrap();
    assert_eq!((exit.cause, exit.signal), (ExitCause::Timeout, Some(9)));
    let by = exit.ended_by.unwrap();
    assert!(by.contains("SIGINT, then SIGTERM, then SIGKILL"), "{by}");
    no_group_is_left(run.id);
}

#[test]
fn a_polite_command_ends_at_the_first_rung() {
    let mut spec = spec(&["sleep", "600"]);
    spec.timeout = Some(Duration::from_millis(100));
    let exit = run(&spec).run.exit.unwrap();
    assert_eq!((exit.cause, exit.signal), (ExitCause::Timeout, Some(2)));
}

#[test]
fn the_peak_of_children_at_once_is_their_sum() {
    let Some(burn) = burn() else { return };
    let run = run(&spec(&[&burn, "multi", "4", "30", "--hold-ms", "300"])).run;
    if !has_exact_memory(&run) {
        return;
    }
    let peak = run.summary.peak_memory_bytes.unwrap().get() >> 20;
    assert!((120..200).contains(&peak), "4 x 30 MiB, but a peak of {peak} MiB");
    let largest = run.memory.peak_process_bytes.unwrap().get() >> 20;
    assert!((30..45).contains(&largest), "largest process {largest} MiB");
}

#[test]
fn a_spike_between_two_samples_is_in_the_peak() {
    let Some(burn) = burn() else { return };
    let mut spec = spec(&[&burn, "ramp", "20", "--spike", "120", "--spike-ms", "5"]);
    spec.interval = Duration::from_secs(10);
    let run = run(&spec).run;
    if has_exact_memory(&run) {
        assert!(run.summary.peak_memory_bytes.unwrap().get() >= 120 << 20, "{:?}", run.summary);
    }
}

#[test]
fn a_small_command_does_not_wear_our_size() {
    // This test program is large; what it starts must not be.
    let ballast = vec![1u8; 200 << 20];
    let run = run(&spec(&["true"])).run;
    assert!(ballast.iter().step_by(4096).all(|byte| *byte == 1));
    assert!(run.memory.peak_process_bytes.unwrap().get() < 8 << 20, "{:?}", run.memory);
}

#[test]
fn buffered_writes_are_counted() {
    let Some(burn) = burn() else { return };
    let folder = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
    let file = folder.path().join("written");
    let run = run(&spec(&[&burn, "write", file.to_str().unwrap(), "16", "--fsync"])).run;
    let written = run.summary.written_bytes.unwrap().get();
    let is_memory = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default().lines().any(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        fields.get(2) == Some(&"tmpfs")
            && fields.get(1).is_some_and(|at| *at != "/" && folder.path().starts_with(at))
    });
    if is_memory {
        eprintln!("SKIP: {} is in memory, nothing is written to storage", folder.path().display());
        return;
    }
    assert!((16 << 20..18 << 20).contains(&written), "16 MiB, but {written}");
}

#[test]
fn the_process_tree_has_every_child_with_its_parent() {
    let finished = run(&spec(&["sh", "-c", "(exec sleep 0.01); /bin/true; exit 5"]));
    let tree = &finished.tree;
    if tree.source != ProcessSource::Events {
        eprintln!("SKIP: no process events here: {:?}", finished.run.missing.get("processes.short_lived"));
        return;
    }
    assert_eq!((tree.total, tree.processes.len()), (3, 3), "{tree:?}");
    let root = &tree.processes[0];
    assert_eq!((root.parent, root.name.as_str(), root.exit_code), (None, "sh", Some(5)));
    let mut names: Vec<&str> = tree.processes[1..].iter().map(|p| p.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["sleep", "true"]);
    assert!(tree.processes[1..].iter().all(|p| p.parent == Some(root.pid) && p.ended_seconds.is_some()));
}

#[test]
fn without_a_group_wait4_stands_in_and_says_so() {
    let Some(burn) = burn() else { return };
    let mut spec = spec(&[&burn, "forkburn", "20", "5"]);
    spec.accounting = AccountingMode::Wait4;
    let run = run(&spec).run;
    assert_eq!(run.context.method, Some(AccountingMethod::Wait4));
    assert!(run.summary.cpu_seconds.unwrap().get() >= 0.1);
    assert_eq!(run.quality["summary.cpu_seconds"], ValueQuality::Estimated);
    assert_eq!(run.quality["summary.peak_memory_bytes"], ValueQuality::Estimated);
    assert!(run.missing.contains_key("context.control_group"));
}

#[test]
fn without_a_group_the_stubborn_and_the_orphans_go_all_the_same() {
    let Some(burn) = burn() else { return };
    let mut spec = spec(&[&burn, "stubborn", "600"]);
    spec.accounting = AccountingMode::Wait4;
    spec.timeout = Some(Duration::from_millis(300));
    assert_eq!(run(&spec).run.exit.unwrap().cause, ExitCause::Timeout);
    let marker = format!("86401.{}", std::process::id());
    let mut spec = self::spec(&["sh", "-c", &format!("setsid sleep {marker} & exit 0")]);
    spec.accounting = AccountingMode::Wait4;
    spec.linger = Duration::ZERO;
    assert_eq!(run(&spec).run.exit.unwrap().left_behind, 1);
    nobody_runs(&marker);
}

/// Keeps what a store would get.
#[derive(Default)]
struct Kept {
    begun: Vec<Run>,
    chunks: Vec<Series>,
    finished: Vec<(Run, ProcessTree)>,
}

impl RunRecorder for Kept {
    fn begin_run(&mut self, run: &Run) -> Result<(), Error> {
        self.begun.push(run.clone());
        Ok(())
    }
    fn record_samples(&mut self, _: RunId, chunk: Vec<Series>) {
        self.chunks.extend(chunk);
    }
    fn finish_run(&mut self, run: &mut Run, tree: &ProcessTree) -> Result<(), Error> {
        self.finished.push((run.clone(), tree.clone()));
        Ok(())
    }
}

#[test]
fn the_time_line_comes_in_well_formed_chunks_and_ends_at_the_exact_total() {
    let Some(burn) = burn() else { return };
    let mut kept = Kept::default();
    let mut spec = spec(&[&burn, "cpu", "1.2"]);
    spec.interval = Duration::from_millis(10);
    let run = session().run(&spec, &mut kept).unwrap().run;
    assert_eq!((kept.begun.len(), kept.finished.len()), (1, 1));
    assert_eq!(kept.begun[0].state, RunState::Running);
    let usage: Vec<&Series> = kept.chunks.iter().filter(|series| series.name == "use").collect();
    assert!(usage.len() >= 2, "a second has passed, so there are at least two chunks");
    assert!(kept.chunks.iter().all(|series| series.find_defect().is_none()));
    let rows: usize = usage.iter().map(|series| series.times.len()).sum();
    assert_eq!(rows as u64, run.context.sampling.as_ref().unwrap().samples);
    if run.context.method != Some(AccountingMethod::Wait4) {
        let cpu = usage.last().unwrap().column("cpu").unwrap();
        let last = cpu.values.value_at(cpu.values.len() - 1).unwrap() / 1e9;
        let total = run.summary.cpu_seconds.unwrap().get();
        assert!((last - total).abs() < 1e-3, "the last sample says {last}, the total {total}");
    }
    assert!(kept.chunks.iter().any(|series| series.name == "host"));
}

#[test]
fn standard_streams_and_environment_reach_the_command_untouched() {
    // The session passes its own on; those of another program can be seen.
    let output = crate::measure_process()
        .args(["command", "sh", "-c", "cat; echo marker=$METIER_INNER >&2"])
        .env("METIER_INNER", "1")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .and_then(|mut child| {
            use std::io::Write;
            child.stdin.take().unwrap().write_all(b"\x00\xffhello\n")?;
            child.wait_with_output()
        })
        .unwrap();
    let contains = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
    assert!(contains(&output.stdout, b"\x00\xffhello\n"), "{output:?}");
    assert!(contains(&output.stderr, b"marker=1\n"), "{output:?}");
}

#[test]
fn own_overhead_is_measured_in_every_run() {
    let begun = Instant::now();
    let run = run(&spec(&["sleep", "0.3"])).run;
    let own = run.overhead.cpu_seconds.unwrap().get();
    assert!(own > 0.0 && own < begun.elapsed().as_secs_f64());
    assert!(run.summary.own_overhead_ratio.unwrap().get() > 0.0);
    assert!(run.overhead.launcher_cpu_seconds.unwrap().get() > 0.0);
}

#[test]
fn traffic_of_a_network_namespace_is_told_where_one_can_be_made() {
    let unshare = std::process::Command::new("unshare").args(["-n", "true"]).status();
    if !unshare.is_ok_and(|status| status.success()) {
        eprintln!("SKIP: unshare -n is not allowed here");
        return;
    }
    let run = run(&spec(&["unshare", "-n", "sleep", "0.3"])).run;
    assert!(run.network.is_some(), "{:?}", run.missing.get("network"));
    let shared = self::run(&spec(&["true"])).run;
    assert!(shared.network.is_none() && shared.missing.contains_key("network"));
}

#[test]
fn a_workload_is_its_name_or_what_it_is() {
    let mut named = spec(&["true"]);
    named.name = Some("nothing".parse().unwrap());
    assert_eq!(run(&named).run.workload.id.as_str(), "nothing");
    let (a, b) = (run(&spec(&["echo", "-n", ""])).run, run(&spec(&["echo", "-n", ""])).run);
    assert_eq!(a.workload.id, b.workload.id);
    assert_eq!(a.workload.name, "echo");
    assert_ne!(run(&spec(&["echo", "-n"])).run.workload.id, a.workload.id);
    assert!(Path::new(a.context.executable.as_deref().unwrap()).is_absolute());
}

/// The guest's two suites name what a host like it has to give: `cgroup-v2` to root,
/// `systemd-scope` to a user.
#[test]
fn the_account_is_kept_by_the_best_method_of_this_host() {
    let Some(want) = std::env::var("METIER_EXPECT_METHOD").ok() else { return };
    let run = run(&spec(&["sh", "-c", "true; true"])).run;
    assert_eq!(serde_json::to_value(run.context.method).unwrap(), want, "{:?}", run.missing);
    assert_eq!(run.quality["summary.cpu_seconds"], ValueQuality::Exact);
    assert_eq!(run.quality["summary.peak_memory_bytes"], ValueQuality::Exact);
    assert!(run.pressure.cpu_seconds.is_some(), "{:?}", run.missing);
}
