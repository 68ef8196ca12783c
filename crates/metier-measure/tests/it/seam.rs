//! Options of a specification beyond its command, observers of a run, and runs that another
//! program started.

use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::time::Duration;

use metier_device::identity;
use metier_linux::KernelRoots;
use metier_measure::TargetFacts;
use metier_measure::observer::StartedRun;
use metier_measure::runner::foreign_run::{ForeignEvent, ForeignRun};
use metier_measure::running_target::TargetOutcome;
use metier_measure::{
    ArtefactKeeper, CommandSpec, Error, MeasureOptions, MeasureSession, NoRecorder, ObserverProvision,
    RunObserver, RunRecorder, RunSpec, StoreRecorder,
};
use metier_store::RecordStore;
use metier_types::{
    AccountingMethod, Bytes, CoRunner, CoRunnerKind, ExitCause, ExtraFields, MissingReason, Run, RunId,
    RunState, ValueQuality,
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

fn store() -> (tempfile::TempDir, RecordStore) {
    let folder = tempfile::tempdir().unwrap();
    let store =
        RecordStore::open(&metier_store::StoreLocation::Sqlite(folder.path().join("store.db"))).unwrap();
    (folder, store)
}

/// Whether groups with limits can be had here.
fn is_root() -> bool {
    // SAFETY: takes nothing, cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        eprintln!("SKIP: limits need a group of our own, because this is not root");
    }
    root
}

#[test]
fn a_run_has_the_identity_environment_and_folder_that_it_was_given() {
    let folder = tempfile::tempdir().unwrap();
    let id = RunId::new();
    let mut spec = spec(&["sh", "-c", "printf '%s %s' \"$METIER_TEST_WORD\" \"$PWD\" > word"]);
    spec.id = Some(id);
    spec.environment = vec![("METIER_TEST_WORD".into(), "héllo $x".into())];
    spec.working_directory = Some(folder.path().into());
    let neighbour = CoRunner {
        run: RunId::new(),
        name: "load".into(),
        role: CoRunnerKind::Neighbour,
        overlap_seconds: None,
        extra: ExtraFields::new(),
    };
    spec.company = vec![neighbour.clone(), CoRunner { role: CoRunnerKind::Companion, ..neighbour.clone() }];
    let run = session().run(&spec, &mut NoRecorder).unwrap().run;
    assert_eq!(run.id, id);
    let path = folder.path().to_str().unwrap();
    assert_eq!(std::fs::read_to_string(folder.path().join("word")).unwrap(), format!("héllo $x {path}"));
    assert_eq!(run.context.working_directory.as_deref(), Some(path));
    assert_eq!(run.context.company.len(), 2);
    assert_eq!(run.context.neighbours, [neighbour.run]);
    spec.environment[0].1 = "other".into();
    let other = session().run(&RunSpec { id: None, ..spec.clone() }, &mut NoRecorder).unwrap().run;
    assert_ne!(other.context.environment_digest, run.context.environment_digest);
    spec.working_directory = Some(folder.path().join("absent"));
    let error = session().run(&spec, &mut NoRecorder).unwrap_err();
    assert!(error.to_string().contains("absent"), "{error}");
}

#[test]
fn a_memory_limit_holds_and_is_named_as_the_cause() {
    if !is_root() {
        return;
    }
    let mut spec =
        spec(&["sh", "-c", "head -c 200000000 /dev/zero | tail -c 199999999 > /dev/null; kill -9 $$"]);
    spec.limits.memory = Some(Bytes(32 << 20));
    let run = session().run(&spec, &mut NoRecorder).unwrap().run;
    assert!(run.summary.peak_memory_bytes.unwrap().0 <= 32 << 20);
    assert!(run.memory.oom_kills.unwrap() > 0);
    let exit = run.exit.unwrap();
    assert_eq!(exit.cause, ExitCause::Oom);
    assert!(exit.detail.unwrap().contains("32"));
    assert!(run.context.limits["memory"].contains("32"));
}

#[test]
fn a_cpu_limit_holds_the_run_back_and_the_record_says_for_how_long() {
    if !is_root() {
        return;
    }
    let mut spec = spec(&["sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"]);
    spec.limits.cpu = Some(0.2);
    let run = session().run(&spec, &mut NoRecorder).unwrap().run;
    let (cpu, wall) = (run.summary.cpu_seconds.unwrap().get(), run.summary.wall_seconds.unwrap().get());
    assert!(cpu / wall < 0.5, "{cpu} s in {wall} s");
    assert!(run.cpu.throttled_periods.unwrap() > 0);
    assert_eq!(run.context.limits["cpu"], "0.2 cores");
}

#[test]
fn a_limit_that_cannot_be_enforced_is_refused_before_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("ran");
    let mut spec = spec(&["touch", mark.to_str().unwrap()]);
    spec.accounting = metier_measure::spec::AccountingMode::Wait4;
    spec.limits.memory = Some(Bytes(32 << 20));
    let error = session().run(&spec, &mut NoRecorder).unwrap_err();
    assert!(matches!(error, Error::Limit { .. }), "{error}");
    assert!(!mark.exists());
}

/// Gives the command a pipe and a variable, and keeps what came through it.
#[derive(Default)]
struct Listener {
    reader: Option<std::fs::File>,
    ticks: u32,
    members: usize,
    was_cancelled: bool,
}

impl RunObserver for Listener {
    fn prepare(&mut self, _: RunId, _: &RunSpec, provision: &mut ObserverProvision) {
        let mut ends = [0; 2];
        // SAFETY: the array has room for two descriptors, which nobody else owns.
        let (reader, writer) = unsafe {
            assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK), 0);
            (std::fs::File::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
        };
        provision.environment.push(("METIER_TEST_FD".into(), "3".into()));
        provision.descriptors.push((3, writer));
        self.reader = Some(reader);
    }

    fn on_started(&mut self, started: StartedRun<'_>) {
        self.members = started.group.map_or(0, |group| group.list_members().len());
    }

    fn on_sample(&mut self, _: Duration, _: Option<&metier_linux::cgroup::RunCgroup>) {
        self.ticks += 1;
    }

    fn on_cancelled(&mut self) {
        self.was_cancelled = true;
    }

    fn on_finish(&mut self, run: &mut Run, keep: &mut ArtefactKeeper<'_>) {
        let mut text = Vec::new();
        // Ends with "try again": the writing end is still open on our side.
        let _ = self.reader.take().unwrap().read_to_end(&mut text);
        keep.keep_artefact(run, "said", "text/plain", &mut text.as_slice());
        run.missing.insert("stages".into(), MissingReason::without_fix("a test"));
    }
}

#[test]
fn an_observer_gives_a_descriptor_and_adds_to_the_record_before_it_is_finished() {
    let (_folder, store) = store();
    let device = identity::identify_device(&KernelRoots::default(), None).unwrap();
    let mut recorder = StoreRecorder::new(store.clone(), &device);
    let mut listener = Listener::default();
    let spec = spec(&["sh", "-c", "eval \"echo said >&$METIER_TEST_FD\""]);
    let finished = session().run_with_observers(&spec, &mut recorder, &mut [&mut listener]).unwrap();
    assert!(listener.ticks > 0);
    let kept = store.run(finished.run.id).unwrap().unwrap();
    assert_eq!(kept, finished.run);
    assert!(kept.missing.contains_key("stages"));
    let said = kept.artefacts.iter().find(|artefact| artefact.name == "said").unwrap();
    assert_eq!(said.size_bytes, Bytes(5));
    let mut listener = Listener::default();
    let missing = self::spec(&["no-such-program-here"]);
    session().run_with_observers(&missing, &mut recorder, &mut [&mut listener]).unwrap_err();
    assert!(listener.was_cancelled);
}

#[test]
fn files_that_match_are_kept_and_those_beyond_the_limit_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (_store_folder, store) = store();
    let device = identity::identify_device(&KernelRoots::default(), None).unwrap();
    let mut recorder = StoreRecorder::new(store.clone(), &device);
    let script =
        "mkdir out; i=0; while [ $i -lt 300 ]; do echo $i > out/$i.txt; i=$((i+1)); done; echo x > y.csv";
    let mut spec = spec(&["sh", "-c", script]);
    spec.working_directory = Some(folder.path().into());
    spec.artefacts = vec!["y.csv".into(), "absent/*".into(), "out/*.txt".into()];
    let run = session().run(&spec, &mut recorder).unwrap().run;
    let names: Vec<&str> = run.artefacts.iter().map(|artefact| artefact.name.as_str()).collect();
    assert!(names.contains(&"y.csv") && names.contains(&"out/0.txt"), "{names:?}");
    assert_eq!(names.iter().filter(|name| name.ends_with(".txt")).count(), 255);
    let warnings: Vec<&str> = run.warnings.iter().map(|warning| warning.code.as_str()).collect();
    assert!(warnings.contains(&"artefacts-left-out") && warnings.contains(&"no-artefact"), "{warnings:?}");
}

#[test]
fn a_stopper_ends_the_run_from_another_thread() {
    let mut session = session();
    let stopper = session.stopper();
    let thread = std::thread::spawn(move || stopper.stop(libc::SIGTERM));
    let finished = session.run(&spec(&["sleep", "600"]), &mut NoRecorder).unwrap();
    thread.join().unwrap();
    assert_eq!(finished.run.exit.unwrap().cause, ExitCause::Interrupted);
    assert_eq!(finished.stop.unwrap().signal, libc::SIGTERM);
}

#[test]
fn a_run_that_somebody_else_looks_after_is_followed_to_its_end() {
    let mut child = std::process::Command::new("sh");
    // A group of its own, so that nothing of the test's is taken for the run's.
    let mut child = child.args(["-c", "read x; sleep 0.3; exit 3"]).stdin(std::process::Stdio::piped());
    child = child.process_group(0);
    let mut child = child.spawn().unwrap();
    let (mut foreign, voice) = ForeignRun::new().unwrap();
    assert!(foreign.attach_process(child.id()));
    let mut input = child.stdin.take().unwrap();
    let thread = std::thread::spawn(move || {
        input.write_all(b"\n").unwrap();
        let status = child.wait().unwrap();
        voice.send_event(ForeignEvent::MainEnded { status: status.code().unwrap() << 8, time_ns: None });
        voice.send_event(ForeignEvent::Gone(TargetOutcome {
            detail: Some("as told".into()),
            ..TargetOutcome::default()
        }));
    });
    let finished = session()
        .measure_foreign(&spec(&["pod"]), foreign.into_prepared_run(), &mut NoRecorder, &mut [])
        .unwrap();
    thread.join().unwrap();
    let run = finished.run;
    let exit = run.exit.unwrap();
    assert_eq!(
        (exit.code, exit.cause, exit.detail.as_deref()),
        (Some(3), ExitCause::Exited, Some("as told"))
    );
    assert_eq!(run.context.method, Some(AccountingMethod::Container));
    assert!(run.summary.wall_seconds.unwrap().get() >= 0.29);
    assert_eq!(run.quality.get("summary.wall_seconds"), Some(&ValueQuality::Exact));
}

#[test]
fn a_run_whose_keeper_falls_silent_is_lost_and_not_successful() {
    let (foreign, voice) = ForeignRun::new().unwrap();
    drop(voice);
    let run = session()
        .measure_foreign(&spec(&["pod"]), foreign.into_prepared_run(), &mut NoRecorder, &mut [])
        .unwrap()
        .run;
    let exit = run.exit.unwrap();
    assert_eq!((exit.cause, exit.code), (ExitCause::Lost, None));
    assert!(run.summary.cpu_seconds.is_none() && run.missing.contains_key("summary.cpu_seconds"));

    // One who knows what happened is quoted.
    let (foreign, voice) = ForeignRun::new().unwrap();
    let detail = Some("its node nx-07 went away".to_string());
    voice.send_event(ForeignEvent::Gone(TargetOutcome { lost: true, detail, ..TargetOutcome::default() }));
    let run = session()
        .measure_foreign(&spec(&["pod"]), foreign.into_prepared_run(), &mut NoRecorder, &mut [])
        .unwrap()
        .run;
    let verdict = run.verdict.unwrap();
    assert!(verdict.contains("was lost sight of: its node nx-07 went away"), "{verdict}");
}

#[test]
fn a_run_that_never_started_leaves_a_record_that_says_why() {
    let (_folder, store) = store();
    let device = identity::identify_device(&KernelRoots::default(), None).unwrap();
    let mut recorder = StoreRecorder::new(store.clone(), &device);
    let id = RunId::new();
    let spec = spec(&["pod"]);
    session().record_unstarted(&spec, id, &TargetFacts::default(), "no such image", &mut recorder).unwrap();
    let run = store.run(id).unwrap().unwrap();
    assert_eq!(run.state, RunState::Finished);
    let exit = run.exit.unwrap();
    assert_eq!((exit.cause, exit.detail.as_deref()), (ExitCause::Unstarted, Some("no such image")));
    assert!(run.verdict.unwrap().contains("never started"));
    let _ = &mut recorder as &mut dyn RunRecorder;
}

/// A pod run passes the observers of [`MeasureSession::requested_observers`] itself. A second stack
/// sampler would open every perf event twice and replace the first one's artefact.
#[test]
fn measuring_a_foreign_run_adds_no_observer_of_its_own() {
    let (foreign, voice) = ForeignRun::new().unwrap();
    voice.send_event(ForeignEvent::Gone(TargetOutcome::default()));
    let asked = RunSpec { stacks: Some(99), ..spec(&["pod"]) };
    let mut session = session();
    assert_eq!(session.requested_observers(&asked).len(), 1);
    let run =
        session.measure_foreign(&asked, foreign.into_prepared_run(), &mut NoRecorder, &mut []).unwrap().run;
    assert!(!run.extra.contains_key("stacks") && !run.missing.contains_key("stacks"), "{run:?}");
}
