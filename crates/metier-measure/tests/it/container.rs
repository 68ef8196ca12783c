//! Containers of a real engine (the lab's), measured by the real thing.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use metier_device::identity;
use metier_linux::{KernelRoots, proc_stat};
use metier_measure::spec::{AwaitedOutput, BindMount, ContainerSpec, PullPolicy};
use metier_measure::{
    MeasureOptions, MeasureSession, NoRecorder, RunSpec, RunTarget, StoreRecorder, leftovers,
};
use metier_store::{RecordStore, StoreLocation};
use metier_types::{AccountingMethod, Bytes, ExitCause, Run, RunId, RunState, ValueQuality};

/// The lab's engine, or none, with the reason said.
fn engine() -> Option<String> {
    let engine = std::env::var("METIER_LAB_DOCKER").ok();
    if engine.is_none() {
        eprintln!("SKIP: no container engine, because METIER_LAB_DOCKER is not set; `lab/lab up docker`");
    }
    engine
}

fn docker(engine: &str, words: &[&str]) -> String {
    let output = Command::new("docker").args(["-H", engine]).args(words).output().unwrap();
    assert!(output.status.success(), "docker {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

fn session() -> MeasureSession {
    let roots = KernelRoots::default();
    let device = identity::identify_device(&roots, None).unwrap();
    MeasureSession::open(MeasureOptions { roots, runtime_dir: std::env::temp_dir(), device }).unwrap()
}

fn container(engine: &str, image: &str, words: &[&str]) -> RunSpec {
    let mut spec = RunSpec::for_target(RunTarget::Container(ContainerSpec {
        image: image.into(),
        arguments: words.iter().map(|word| (*word).to_string()).collect(),
        engine: Some(engine.into()),
        pull: PullPolicy::Never,
        network: Some("none".into()),
        ..ContainerSpec::default()
    }));
    spec.grace = Duration::from_millis(300);
    spec
}

fn change(spec: &mut RunSpec, with: impl FnOnce(&mut ContainerSpec)) {
    let RunTarget::Container(container) = &mut spec.target else { panic!("not a container") };
    with(container);
}

fn run(spec: &RunSpec) -> Run {
    session().run(spec, &mut NoRecorder).unwrap().run
}

/// No group in any hierarchy, no container, no folder of the gate, no unit of systemd's.
fn nothing_is_left(engine: &str, id: RunId) {
    // The group of a stopped unit is gone at once; its file, when systemd gets to it.
    wait_until("systemd has forgotten the slice", || files_of_units(id).is_empty());
    assert_eq!(left(engine, id), Vec::<String>::new());
}

fn files_of_units(id: RunId) -> Vec<String> {
    let entries = std::fs::read_dir("/run/systemd/transient").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains(&id.short())).collect()
}

fn left(engine: &str, id: RunId) -> Vec<String> {
    let pattern = format!("metier?*?{}*", id.short());
    let found = |place: &str, depth: &str| {
        let output =
            Command::new("find").args([place, "-maxdepth", depth, "-name", &pattern]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_string).collect::<Vec<_>>()
    };
    let mut left = found("/sys/fs/cgroup", "6");
    left.extend(found(&std::env::temp_dir().to_string_lossy(), "1"));
    left.extend(files_of_units(id));
    let label = format!("label=metier.run={id}");
    left.extend(docker(engine, &["ps", "-aq", "--filter", &label]).lines().map(str::to_string));
    left
}

#[test]
fn a_container_leaves_a_complete_record_and_nothing_else() {
    let Some(engine) = engine() else { return };
    let run = run(&container(&engine, "busybox:local", &["sh", "-c", "exit 7"]));
    let exit = run.exit.clone().unwrap();
    assert_eq!((exit.code, exit.cause), (Some(7), ExitCause::Exited), "{exit:?}");
    assert_eq!(run.context.method, Some(AccountingMethod::Container));
    assert_eq!(run.context.command, ["sh", "-c", "exit 7"]);
    let image = run.context.image.as_ref().unwrap();
    assert_eq!(image.reference, "busybox:local");
    assert!(image.engine.starts_with(name_of_engine()), "{}", image.engine);
    // Podman gives also images that came from no registry a digest there.
    let known = docker(&engine, &["image", "inspect", "-f", "{{.Id}} {{.RepoDigests}}", "busybox:local"]);
    let digest = image.digest.unwrap().to_string();
    assert!(known.contains(digest.trim_start_matches("sha256:")), "{digest} of {known}");
    assert_eq!(run.quality.get("summary.wall_seconds"), Some(&ValueQuality::Exact));
    says_how_good_its_counters_are(&run);
    assert!(run.summary.cpu_seconds.unwrap().get() > 0.0);
    assert!(run.summary.processes.unwrap() >= 1);
    nothing_is_left(&engine, run.id);
}

/// What the engine under test calls itself.
fn name_of_engine() -> &'static str {
    let podman = std::env::var("METIER_LAB_PODMAN").ok();
    if podman.is_some() && podman == std::env::var("METIER_LAB_DOCKER").ok() {
        "Podman"
    } else {
        "Docker Engine"
    }
}

/// Whether the engine puts containers into groups of ours, whose counters are there as long as we
/// want: only root may make them, and Podman would put other things into them.
fn gives_groups() -> bool {
    // SAFETY: takes nothing, cannot fail.
    unsafe { libc::geteuid() == 0 && name_of_engine() != "Podman" }
}

/// Counters are exact, or sampled with the reason. A peak below the engine's own cannot be told
/// where version 2 does not let it begin anew, which it does from Linux 6.12 on.
fn says_how_good_its_counters_are(run: &Run) {
    let counters = run.quality["summary.cpu_seconds"];
    match gives_groups() {
        true => assert_eq!(counters, ValueQuality::Exact, "{:?}", run.missing),
        false => assert!(matches!(counters, ValueQuality::Exact | ValueQuality::Sampled), "{counters:?}"),
    }
    assert_eq!(run.missing.contains_key("context.end_counters"), counters != ValueQuality::Exact);
    let is_pure = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    let release = (numbers.next().unwrap(), numbers.next().unwrap());
    let peak = if is_pure && release < (6, 12) { ValueQuality::Estimated } else { counters };
    assert_eq!(run.quality["summary.peak_memory_bytes"], peak, "{:?}", run.missing);
}

#[test]
fn all_cpu_time_of_a_container_of_a_third_of_a_second_is_counted() {
    let Some(engine) = engine() else { return };
    let named = std::env::var_os("METIER_BURN").map(std::path::PathBuf::from);
    let beside = || Some(std::env::current_exe().ok()?.parent()?.parent()?.join("metier-burn"));
    let Some(burn) = named.or_else(beside).filter(|path| path.exists()) else {
        eprintln!("SKIP: metier-burn is not built; `cargo build -p metier-burn` first");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let words = ["/burn", "cpu", "0.3", "--from-now", "--report", "/out/report.json"];
    let mut spec = container(&engine, "busybox:local", &words);
    let read = |source: &Path, target: &Path| BindMount {
        source: source.canonicalize().unwrap(),
        target: target.into(),
        read_only: true,
    };
    spec.mounts = vec![
        read(&burn, Path::new("/burn")),
        BindMount { source: folder.path().into(), target: "/out".into(), read_only: false },
    ];
    // The libraries that it is linked with, where it looks for them.
    let output = Command::new("ldd").arg(&burn).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let libraries = text.split_whitespace().filter(|word| word.starts_with('/')).map(Path::new);
    spec.mounts.extend(libraries.map(|library| read(library, library)));
    let run = run(&spec);
    assert_eq!(run.exit.as_ref().unwrap().code, Some(0), "{:?}", run.exit);
    let own = std::fs::read_to_string(folder.path().join("report.json")).unwrap();
    let own: serde_json::Value = serde_json::from_str(&own).unwrap();
    // The process was the engine's before it was the burner.
    let known =
        (own["cpu_nanoseconds"].as_f64().unwrap() - own["before_nanoseconds"].as_f64().unwrap()) / 1e9;
    let measured = run.summary.cpu_seconds.unwrap().get();
    eprintln!("the burner knows of {known:.4} s, measured were {measured:.4} s");
    says_how_good_its_counters_are(&run);
    let is_exact = run.quality["summary.cpu_seconds"] == ValueQuality::Exact;
    assert!(known >= 0.3, "{own}");
    // Above it are the loading of the program before its first line, and its end: dear where a
    // processor is emulated.
    assert!(measured > known * 0.999 || !is_exact, "{measured} s of {known} s");
    assert!(measured < known + 0.5, "{measured} s of {known} s");
    nothing_is_left(&engine, run.id);
}

#[test]
fn where_no_group_can_be_made_for_an_engine_its_own_is_seen_to_its_end_or_the_reason_is_told() {
    let Some(engine) = engine() else { return };
    if gives_groups() {
        eprintln!("SKIP: counters of a container's own group, because the engine takes groups of ours here");
        return;
    }
    let script = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; sleep 0.5";
    let run = run(&container(&engine, "busybox:local", &["sh", "-c", script]));
    assert_eq!(run.exit.as_ref().unwrap().code, Some(0), "{:?}", run.exit);
    says_how_good_its_counters_are(&run);
    let missing = run.missing.get("context.end_counters");
    eprintln!("counters of its own group: {:?}", run.quality["summary.cpu_seconds"]);
    let is_root = name_of_engine() == "Podman";
    let tells_fix =
        |missing: &metier_types::MissingReason| missing.fix.as_ref().is_some_and(|fix| fix.contains("root"));
    assert!(missing.is_none_or(|missing| is_root || tells_fix(missing)), "{missing:?}");
    nothing_is_left(&engine, run.id);
}

#[test]
fn every_absent_figure_of_a_container_has_its_reason() {
    let Some(engine) = engine() else { return };
    let run = run(&container(&engine, "busybox:local", &["true"]));
    for (field, value) in serde_json::to_value(&run.summary).unwrap().as_object().unwrap() {
        let path = format!("summary.{field}");
        assert_eq!(value.is_null(), !run.quality.contains_key(&path), "{path}");
        assert!(!value.is_null() || run.missing.contains_key(&path), "{path} is absent without a reason");
    }
}

#[test]
fn the_engines_own_start_up_is_not_in_the_figures_and_where_it_is_they_say_so() {
    let Some(engine) = engine() else { return };
    let gated = run(&container(&engine, "busybox:local", &["true"]));
    let mut spec = container(&engine, "busybox:local", &["sleep", "0.5"]);
    change(&mut spec, |container| container.without_gate = true);
    let open = run(&spec);
    let cpu = |run: &Run| run.summary.cpu_seconds.unwrap().get();
    assert!(cpu(&gated) < cpu(&open), "{} s behind the gate, {} s without", cpu(&gated), cpu(&open));
    assert_eq!(open.quality.get("summary.cpu_seconds"), Some(&ValueQuality::Estimated));
    assert!(open.missing["context.start_up"].reason.contains("gate"));
    assert!(!gated.missing.contains_key("context.start_up"));
    nothing_is_left(&engine, open.id);
}

#[test]
fn the_workload_is_the_first_process_with_the_users_folder_environment_and_mounts() {
    let Some(engine) = engine() else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let data = tempfile::tempdir().unwrap();
    std::fs::write(data.path().join("input"), "42").unwrap();
    let script = "echo \"$$ $(id -u) $PWD $WORD $(cat /data/input) $(touch /data/x 2>&1)\" > /out/said; \
                  cat /proc/1/comm >> /out/said; env >> /out/said";
    let mut spec = container(&engine, "busybox:local", &["sh", "-c", script]);
    spec.environment = vec![("WORD".into(), "a $b; c".into())];
    spec.working_directory = Some("/tmp".into());
    let mount = |source: &Path, target: &str, read_only| BindMount {
        source: source.into(),
        target: target.into(),
        read_only,
    };
    spec.mounts = vec![mount(folder.path(), "/out", false), mount(data.path(), "/data", true)];
    change(&mut spec, |container| container.user = Some("1234".into()));
    let run = run(&spec);
    assert_eq!(run.exit.as_ref().unwrap().code, Some(0), "{:?}", run.exit);
    let said = std::fs::read_to_string(folder.path().join("said")).unwrap();
    let first = said.lines().next().unwrap();
    assert!(first.starts_with("1 1234 /tmp a $b; c 42 ") && first.contains("Read-only"), "{first}");
    assert_eq!(said.lines().nth(1), Some("sh"));
    assert!(!said.to_lowercase().contains("metier"), "the environment is the image's: {said}");
}

#[test]
fn a_container_that_is_killed_for_want_of_memory_says_so_and_names_its_limit() {
    let Some(engine) = engine() else { return };
    let mut spec = container(&engine, "busybox:local", &["sh", "-c", "exec tail /dev/zero"]);
    spec.limits.memory = Some(Bytes(24 << 20));
    let run = run(&spec);
    let exit = run.exit.clone().unwrap();
    assert_eq!(exit.cause, ExitCause::Oom, "{exit:?}");
    assert!(exit.detail.unwrap().contains("24"));
    assert!(run.memory.oom_kills.unwrap() >= 1);
    let peak = run.summary.peak_memory_bytes.unwrap();
    // Our group around it holds a few pages for the kernel's own records of the inner one.
    assert!(peak.0 <= (24 << 20) + 65_536, "{}", peak.0);
    assert!(run.context.limits["memory"].contains("24"));
    nothing_is_left(&engine, run.id);
}

#[test]
fn a_time_limit_ends_every_process_of_a_container() {
    let Some(engine) = engine() else { return };
    let script = "trap '' INT TERM; sleep 600 & sleep 601 & wait; wait; wait; sleep 602";
    let mut spec = container(&engine, "busybox:local", &["sh", "-c", script]);
    spec.timeout = Some(Duration::from_millis(500));
    let run = run(&spec);
    let exit = run.exit.clone().unwrap();
    assert_eq!(exit.cause, ExitCause::Timeout, "{exit:?}");
    assert!(exit.ended_by.unwrap().contains("SIGKILL"));
    nothing_is_left(&engine, run.id);
}

#[test]
fn a_cpu_limit_of_a_container_holds_and_is_seen() {
    let Some(engine) = engine() else { return };
    let script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; sleep 0.5";
    let mut spec = container(&engine, "busybox:local", &["sh", "-c", script]);
    spec.limits.cpu = Some(0.2);
    let run = run(&spec);
    assert!(run.cpu.throttled_periods.unwrap() > 0, "{:?}", run.cpu);
    assert_eq!(run.context.limits["cpu"], "0.2 cores");
}

/// What a run that never starts leaves.
fn never_starts(spec: &RunSpec, engine: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let store = RecordStore::open(&StoreLocation::Sqlite(folder.path().join("store.db"))).unwrap();
    let device = identity::identify_device(&KernelRoots::default(), None).unwrap();
    let mut recorder = StoreRecorder::new(store.clone(), &device);
    let finished = session().run(spec, &mut recorder).unwrap();
    let kept = store.run(finished.run.id).unwrap().unwrap();
    assert_eq!(kept, finished.run);
    assert_eq!(kept.state, RunState::Finished);
    let exit = kept.exit.unwrap();
    assert_eq!(exit.cause, ExitCause::Unstarted, "{exit:?}");
    nothing_is_left(engine, kept.id);
    exit.detail.unwrap()
}

#[test]
fn what_cannot_start_leaves_a_record_with_its_cause_and_nothing_else() {
    let Some(engine) = engine() else { return };
    let absent = never_starts(&container(&engine, "no-such-image:1", &[]), &engine);
    assert!(absent.contains("no-such-image:1"), "{absent}");

    let program = never_starts(&container(&engine, "busybox:local", &["/no/such/program"]), &engine);
    assert!(program.contains("/no/such/program") && program.contains("No such file"), "{program}");

    // Podman has no least size.
    if name_of_engine() != "Podman" {
        let mut small = container(&engine, "busybox:local", &["true"]);
        small.limits.memory = Some(Bytes(2 << 20));
        let small = never_starts(&small, &engine);
        assert!(small.to_lowercase().contains("memory"), "{small}");
    }

    let mut mount = container(&engine, "busybox:local", &["true"]);
    mount.mounts = vec![BindMount { source: "/no/such/folder".into(), target: "/x".into(), read_only: true }];
    let mount = never_starts(&mount, &engine);
    assert!(mount.contains("/no/such/folder"), "{mount}");
    assert!(!Path::new("/no/such/folder").exists(), "nobody made it");

    let mut elsewhere = container(&engine, "busybox:local", &["true"]);
    change(&mut elsewhere, |container| container.engine = Some("unix:///no/such.sock".into()));
    let elsewhere = never_starts(&elsewhere, &engine);
    assert!(elsewhere.contains("/no/such.sock"), "{elsewhere}");

    let runtime = {
        let mut spec = container(&engine, "busybox:local", &["true"]);
        change(&mut spec, |container| container.runtime = Some("no-such-runtime".into()));
        never_starts(&spec, &engine)
    };
    assert!(runtime.contains("no-such-runtime"), "{runtime}");
}

#[test]
fn an_image_with_nothing_to_run_says_so() {
    let Some(engine) = engine() else { return };
    let name = format!("metier-test-empty-{}:x", std::process::id());
    let mut import = Command::new("docker")
        .args(["-H", &engine, "import", "-", &name])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // Two empty blocks are an archive of nothing.
    std::io::Write::write_all(&mut import.stdin.take().unwrap(), &[0u8; 1024]).unwrap();
    assert!(import.wait().unwrap().success());
    let detail = never_starts(&container(&engine, &name, &[]), &engine);
    let shell = never_starts(&container(&engine, &name, &["/bin/sh"]), &engine);
    docker(&engine, &["image", "rm", &name]);
    assert!(detail.contains("neither an entrypoint nor a command"), "{detail}");
    assert!(shell.contains("/bin/sh"), "{shell}");
}

#[test]
fn files_of_a_container_are_kept_under_the_names_it_knows_them_by() {
    let Some(engine) = engine() else { return };
    let folder = tempfile::tempdir().unwrap();
    let store = RecordStore::open(&StoreLocation::Sqlite(folder.path().join("store.db"))).unwrap();
    let device = identity::identify_device(&KernelRoots::default(), None).unwrap();
    let mut recorder = StoreRecorder::new(store.clone(), &device);
    let script =
        "mkdir -p /out/deep; echo 1 > /out/a.csv; echo 22 > /out/deep/b.csv; echo no > /out/c.txt; cd /";
    let mut spec = container(&engine, "busybox:local", &["sh", "-c", script]);
    spec.artefacts = vec!["/out/**/*.csv".into(), "/nothing/here".into()];
    let run = session().run(&spec, &mut recorder).unwrap().run;
    let mut names: Vec<(&str, u64)> =
        run.artefacts.iter().map(|artefact| (artefact.name.as_str(), artefact.size_bytes.0)).collect();
    names.retain(|(name, _)| name.starts_with('/'));
    names.sort_unstable();
    assert_eq!(names, [("/out/a.csv", 2), ("/out/deep/b.csv", 3)]);
    assert!(run.warnings.iter().any(|warning| warning.text.contains("/nothing/here")), "{:?}", run.warnings);
}

#[test]
fn traffic_of_the_containers_own_network_is_counted_to_its_end() {
    let Some(engine) = engine() else { return };
    let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        "gw=$(ip route | sed -n 's/^default via \\([^ ]*\\).*/\\1/p'); head -c 300000 /dev/zero | nc $gw {port}"
    );
    let mut spec = container(&engine, "busybox:local", &["sh", "-c", &script]);
    change(&mut spec, |container| container.network = Some("bridge".into()));
    let taker = std::thread::spawn(move || {
        let mut all = Vec::new();
        if let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.read_to_end(&mut all);
        }
        all.len()
    });
    let run = run(&spec);
    if run.exit.as_ref().unwrap().code != Some(0) {
        eprintln!("SKIP: no bridge network, because the engine has none here: {:?}", run.exit);
        return;
    }
    assert_eq!(taker.join().unwrap(), 300_000);
    let network = run.network.unwrap();
    assert!(network.sent_bytes.0 >= 300_000, "{network:?}");
    assert!(network.sent_bytes.0 < 600_000, "{network:?}");
}

/// A measuring program of its own, which runs a script in a container.
fn another_program(engine: &str, store: &Path, id: RunId, script: &str) -> Command {
    let mut command = crate::measure_process();
    command.args(["container", engine]).arg(store).arg(id.to_string()).arg(script);
    command
}

#[test]
fn the_streams_of_a_container_are_ours() {
    let Some(engine) = engine() else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = "read word; echo \"said $word\"; echo \"err\" >&2; head -c 3000000 /dev/zero | tr '\\0' 'x'; echo; echo last";
    let mut command = another_program(&engine, &folder.path().join("store.db"), RunId::new(), script);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"hello\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("said hello\n") && text.contains("\nlast\n"), "{} bytes", text.len());
    assert_eq!(text.matches('x').count() / 3_000_000, 1);
    assert!(String::from_utf8_lossy(&output.stderr).contains("err\n"));
}

#[test]
fn what_a_container_is_awaited_to_print_is_seen_when_it_is_printed() {
    let Some(engine) = engine() else { return };
    for (text, is_printed) in [("now ready", true), ("never said", false)] {
        let script = "echo now; echo is now ready >&2; sleep 0.2; echo done";
        let mut spec = container(&engine, "busybox:local", &["sh", "-c", script]);
        let awaited = AwaitedOutput::new(text);
        change(&mut spec, |container| container.awaits = Some(awaited.clone()));
        let run = run(&spec);
        assert_eq!((run.exit.unwrap().code, awaited.seen_ns().is_some()), (Some(0), is_printed), "{text}");
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(180), "waited 180 s in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a run as another program, and waits until its container is under way.
fn under_way(engine: &str, store: &Path, id: RunId) -> std::process::Child {
    let mut command = another_program(engine, store, id, "trap '' INT TERM; sleep 600; sleep 601");
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let label = format!("label=metier.run={id}");
    wait_until("the container runs", || {
        let found = docker(engine, &["ps", "-q", "--filter", &label]);
        // The script itself ends otherwise, also while it waits at the gate.
        !found.is_empty() && docker(engine, &["top", &found]).lines().any(|line| line.ends_with("sleep 600"))
    });
    child
}

#[test]
fn when_we_are_killed_the_container_and_its_groups_go_too() {
    let Some(engine) = engine() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (path, id) = (folder.path().join("store.db"), RunId::new());
    let mut child = under_way(&engine, &path, id);
    child.kill().unwrap();
    child.wait().unwrap();
    // The launcher alone, without any next start.
    wait_until("nothing is left", || left(&engine, id).is_empty());
    let store = RecordStore::open(&StoreLocation::Sqlite(path)).unwrap();
    let device = identity::identify_device(&KernelRoots::default(), None).unwrap();
    leftovers::sweep_leftovers(&KernelRoots::default(), &store, &device).unwrap();
    assert_eq!(store.run(id).unwrap().unwrap().state, RunState::Interrupted);
}

#[test]
fn when_the_launcher_is_killed_with_us_the_next_start_sweeps() {
    let Some(engine) = engine() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (path, id) = (folder.path().join("store.db"), RunId::new());
    let mut child = under_way(&engine, &path, id);
    let launcher = child_of(child.id(), "metier-launch").expect("the launcher");
    for pid in [launcher, child.id()] {
        // SAFETY: no memory is passed; both were started by this test.
        unsafe { libc::kill(pid as i32, libc::SIGKILL) };
    }
    child.wait().unwrap();
    assert!(!left(&engine, id).is_empty(), "without anybody the container goes on");
    // Any next run of a container with this engine.
    run(&container(&engine, "busybox:local", &["true"]));
    let store = RecordStore::open(&StoreLocation::Sqlite(path)).unwrap();
    let device = identity::identify_device(&KernelRoots::default(), None).unwrap();
    leftovers::sweep_leftovers(&KernelRoots::default(), &store, &device).unwrap();
    nothing_is_left(&engine, id);
}

fn child_of(parent: u32, name: &str) -> Option<u32> {
    let proc = std::path::Path::new("/proc");
    proc_stat::list_pids(proc).find(|pid| {
        proc_stat::read_process(proc, *pid).is_some_and(|stat| stat.parent == parent && stat.name == name)
    })
}
