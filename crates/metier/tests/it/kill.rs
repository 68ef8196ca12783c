//! `kill -9` of the real program at random instants: what was stored stays, the run under way is
//! listed as interrupted with all but the last second of its samples, and nothing of the measured
//! command lingers.
//!
//! Four workers share one store. Each starts `metier run`, waits a random time and kills it; a
//! reader with its own SQL (`kill/reader.rs`) looks at the file just before and just after.
//! `METIER_KILLS` sets how many kills (200), `METIER_KILL_SEED` repeats the choices of an earlier
//! run, as far as time allows.

mod reader;
pub mod traces;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use metier_types::random::SplitMix64;
use reader::Content;
use traces::{
    MARK, burn, groups_of, is_there, launcher_of, marked, metier, name_and_parent, signal, wait_until,
};

/// How long what a killed program leaves may take to go away.
const GONE: Duration = Duration::from_secs(20);
const WORKERS: usize = 4;
/// The tests of this file measure what lingers on the whole machine, so they take turns.
static TURN: Mutex<()> = Mutex::new(());

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is {text:?}; want a whole number")))
}

struct KillTimes(SplitMix64);

impl KillTimes {
    fn new(offset: u64) -> KillTimes {
        static SEED: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
        let seed = *SEED.get_or_init(|| {
            let seed = number("METIER_KILL_SEED")
                .unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64);
            eprintln!("METIER_KILL_SEED={seed} repeats this choice of kills");
            seed
        });
        KillTimes(SplitMix64::new(seed ^ offset.wrapping_mul(0xd134_2543_de82_ef95)))
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }

    fn between(&mut self, low_us: u64, high_us: u64) -> Duration {
        Duration::from_micros(low_us + self.below(high_us - low_us))
    }
}

#[derive(Clone, Copy)]
enum When {
    /// So long after its start.
    After(Duration),
    /// So long after the command has made its file.
    Said(Duration),
}

/// A run to be killed, and when.
struct Plan {
    kind: &'static str,
    command: Vec<OsString>,
    when: When,
}

impl Plan {
    /// Runs of each phase; `said` is the file that the command makes where the kill waits for it.
    fn choose(random: &mut KillTimes, attempt: usize, said: &Path) -> Plan {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let shell = |script: String| words(&["sh", "-c", &script]);
        let said = said.display();
        let burner = burn().map(|path| path.display().to_string());
        let ms = 50 + random.below(350);
        let short = random.between(0, (ms + 150) * 1000);
        if attempt % 18 == 7 {
            let when = When::After(random.between(4_000_000, 6_000_000));
            return Plan { kind: "long", command: words(&["sleep", "600"]), when };
        }
        let (kind, command, when) = match (random.below(10), burner) {
            (0, _) => ("start", words(&["sleep", "600"]), When::After(random.between(0, 60_000))),
            (1, _) => (
                "begin",
                shell(format!(": > '{said}'; exec sleep 600")),
                When::Said(random.between(0, 5_000)),
            ),
            (2, _) => {
                ("end", shell(format!("sleep 0.05; : > '{said}'")), When::Said(random.between(0, 10_000)))
            }
            (3, _) => {
                ("end", shell(format!("sleep 1.2; : > '{said}'")), When::Said(random.between(0, 15_000)))
            }
            (4, Some(burn)) => {
                ("short", words(&[&burn, "cpu", &format!("{}", ms as f64 / 1000.0)]), When::After(short))
            }
            (5, Some(burn)) => {
                ("short", words(&[&burn, "forkburn", &(ms / 5).to_string(), "2"]), When::After(short))
            }
            (6, Some(burn)) => (
                "stubborn",
                words(&[&burn, "stubborn", "600", "--children", "2"]),
                When::After(random.between(60_000, 600_000)),
            ),
            (7, _) => (
                "forks",
                shell("for i in 1 2 3; do sleep 600 & done; setsid sleep 600 & wait".to_string()),
                When::After(random.between(60_000, 900_000)),
            ),
            (8, _) => (
                "daemon",
                shell("setsid sh -c 'sleep 600; :' & exit 0".to_string()),
                When::After(random.between(60_000, 900_000)),
            ),
            (9, _) => ("under way", words(&["sleep", "600"]), When::After(random.between(60_000, 1_500_000))),
            _ => ("short", words(&["sleep", &format!("{}", ms as f64 / 1000.0)]), When::After(short)),
        };
        Plan { kind, command, when }
    }
}

/// A program that was started, with all that tells its traces.
struct Started {
    name: String,
    mark: String,
    child: Child,
    complaint: PathBuf,
}

impl Started {
    fn new(home: &Path, store: &Path, name: &str, command: &[OsString]) -> Started {
        let mark = format!("{}-{name}", std::process::id());
        let complaint = home.join(format!("{name}.stderr"));
        let child = metier(home)
            .env(MARK, &mark)
            .args(["run", "--interval", "5ms", "--grace", "200ms", "--quiet", "--name", name, "--store"])
            .arg(store)
            .arg("--")
            .args(command)
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&complaint).unwrap())
            .spawn()
            .unwrap();
        Started { name: name.to_string(), mark, child, complaint }
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.complaint).unwrap_or_default()
    }

    fn kill(&mut self) -> ExitStatus {
        signal(self.pid(), libc::SIGKILL);
        self.child.wait().unwrap()
    }

    /// The program's end, if it ends within that time.
    fn end(&mut self, longest: Duration) -> Option<ExitStatus> {
        let mut status = None;
        wait_until(longest, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status
    }

    /// Processes of the command: neither the program nor its launcher.
    fn command(&self) -> Vec<i32> {
        let ours = |name: &str| name == "metier" || name == "metier-launch" || name == "metier-writer";
        let is_command = |pid: &i32| name_and_parent(*pid).is_some_and(|(name, _)| !ours(&name));
        marked(&self.mark).into_iter().filter(is_command).collect()
    }
}

impl Drop for Started {
    /// A test that fails leaves nothing behind either.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        marked(&self.mark).into_iter().for_each(|pid| signal(pid, libc::SIGKILL));
    }
}

/// What became of one attempt.
struct Outcome {
    name: String,
    kind: &'static str,
    /// When it was killed; `None` if it had ended before.
    killed: Option<SystemTime>,
    /// Whether the command had run before.
    had_said: bool,
}

/// What the workers share.
struct Hunt<'a> {
    home: &'a Path,
    store: PathBuf,
    target: usize,
    kills: AtomicUsize,
    attempts: AtomicUsize,
    known: Mutex<Content>,
    outcomes: Mutex<Vec<Outcome>>,
    problems: Mutex<Vec<String>>,
}

impl Hunt<'_> {
    fn problem(&self, text: String) {
        self.problems.lock().unwrap().push(text);
    }

    /// Looks at the store and compares with the look before.
    fn look(&self, after: &str) {
        let mut known = self.known.lock().unwrap();
        match reader::look(&self.store) {
            Ok(now) => {
                reader::losses(&known, &now)
                    .into_iter()
                    .for_each(|loss| self.problem(format!("{after}: {loss}")));
                *known = now;
            }
            Err(damage) => self.problem(format!("{after}: {damage}")),
        }
    }

    fn work(&self, worker: usize) {
        let mut random = KillTimes::new(worker as u64 + 1);
        while self.kills.load(Ordering::SeqCst) < self.target && self.problems.lock().unwrap().len() < 10 {
            let attempt = self.attempts.fetch_add(1, Ordering::SeqCst);
            assert!(attempt < self.target * 5 + 50, "runs end before they can be killed");
            let name = format!("k{attempt}");
            let said = self.home.join(format!("{name}.said"));
            let plan = Plan::choose(&mut random, attempt, &said);
            let outcome = self.attempt(&name, plan, &said);
            self.outcomes.lock().unwrap().push(outcome);
        }
    }

    fn attempt(&self, name: &str, plan: Plan, said: &Path) -> Outcome {
        const LOOK: Duration = Duration::from_millis(60);
        let is_soon =
            matches!(plan.when, When::After(wait) if wait < LOOK * 2) || matches!(plan.when, When::Said(_));
        if is_soon {
            self.look("before a kill");
        }
        let start = Instant::now();
        let mut started = Started::new(self.home, &self.store, name, &plan.command);
        let pid = started.pid();
        let rest = |wait: Duration| std::thread::sleep(wait.saturating_sub(start.elapsed()));
        match plan.when {
            When::After(wait) => {
                if !is_soon {
                    rest(wait - LOOK);
                    self.look("before a kill");
                }
                rest(wait);
            }
            When::Said(wait) => {
                // Finer than `wait_until`: what follows is over in a few milliseconds.
                while !said.exists() && start.elapsed() < GONE && started.child.try_wait().unwrap().is_none()
                {
                    std::thread::sleep(Duration::from_micros(300));
                }
                std::thread::sleep(wait);
            }
        }
        let had_said = said.exists();
        let killed = SystemTime::now();
        let status = started.kill();
        let was_killed = status.signal() == Some(libc::SIGKILL);
        if was_killed {
            self.kills.fetch_add(1, Ordering::SeqCst);
        } else if !status.success() {
            self.problem(format!("{name} ({}) ended by itself with {status}: {}", plan.kind, started.said()));
        }
        self.look(&format!("after the kill of {name} ({})", plan.kind));
        if !wait_until(GONE, || marked(&started.mark).is_empty()) {
            let who: Vec<_> = marked(&started.mark).into_iter().filter_map(name_and_parent).collect();
            self.problem(format!("{name} ({}): {who:?} still run", plan.kind));
        }
        // A kill between the making of a group and the order to the launcher leaves an empty one:
        // the next start's.
        if !wait_until(Duration::from_secs(3), || groups_of(pid).is_empty()) {
            run(self.home, &self.store, &format!("sweep-{name}"), "true");
            if !wait_until(GONE, || groups_of(pid).is_empty()) {
                self.problem(format!("{name} ({}): {:?} is left", plan.kind, groups_of(pid)));
            }
        }
        Outcome { name: name.to_string(), kind: plan.kind, killed: was_killed.then_some(killed), had_said }
    }
}

/// A run that must succeed.
fn run(home: &Path, store: &Path, name: &str, command: &str) {
    let out = metier(home)
        .args(["run", "--quiet", "--name", name, "--store"])
        .arg(store)
        .args(["--", command])
        .output()
        .unwrap();
    assert!(out.status.success(), "{name}: {} {}", out.status, String::from_utf8_lossy(&out.stderr));
}

fn output(command: &mut Command) -> String {
    let out = command.output().unwrap();
    assert!(out.status.success(), "{command:?}: {} {}", out.status, String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// Id without dashes and state of every run that the program lists.
fn listed(home: &Path, store: &Path) -> BTreeMap<String, String> {
    let text = output(metier(home).args(["runs", "--all", "-o", "json", "--store"]).arg(store));
    let list: serde_json::Value = serde_json::from_str(&text).unwrap();
    let runs = list["runs"].as_array().unwrap();
    assert_eq!(list["total"].as_u64(), Some(runs.len() as u64));
    let word = |value: &serde_json::Value| value.as_str().unwrap().to_string();
    runs.iter().map(|run| (word(&run["id"]).replace('-', ""), word(&run["state"]))).collect()
}

#[test]
fn two_hundred_kills_lose_at_most_the_last_second() {
    let _turn = TURN.lock().unwrap_or_else(|broken| broken.into_inner());
    if burn().is_none() {
        eprintln!(
            "SKIP: runs of metier-burn (stubborn, forking), because it is not built; `cargo build -p metier-burn`"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let hunt = Hunt {
        home: folder.path(),
        store: folder.path().join("metier.db"),
        target: number("METIER_KILLS").unwrap_or(200) as usize,
        kills: AtomicUsize::new(0),
        attempts: AtomicUsize::new(0),
        known: Mutex::default(),
        outcomes: Mutex::default(),
        problems: Mutex::default(),
    };
    run(hunt.home, &hunt.store, "first", "true");
    std::thread::scope(|scope| {
        (0..WORKERS).for_each(|worker| {
            drop(scope.spawn({
                let hunt = &hunt;
                move || hunt.work(worker)
            }))
        });
    });
    run(hunt.home, &hunt.store, "last", "true");
    hunt.look("after all");
    hunt.the_program_lists_what_the_reader_sees();
    let tally = hunt.every_attempt_ended_as_it_must();
    match reader::artefacts(&hunt.store) {
        Ok(left) => eprintln!("{left} uploads of files were begun and never ended"),
        Err(damage) => hunt.problem(damage),
    }
    let kills = hunt.kills.load(Ordering::SeqCst);
    eprintln!("{kills} kills, {} attempts", hunt.attempts.load(Ordering::SeqCst));
    tally.iter().for_each(|((kind, state), count)| eprintln!("  {kind:10} {state:12} {count}"));
    let problems = hunt.problems.into_inner().unwrap();
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
    assert!(kills >= hunt.target);
    if hunt.target >= 200 {
        for state in ["unknown", "interrupted"] {
            let hit = tally.keys().any(|(_, is)| *is == state);
            assert!(hit, "no kill came where it leaves a run {state}; the waits no longer fit");
        }
    }
}

impl Hunt<'_> {
    fn the_program_lists_what_the_reader_sees(&self) {
        let known = self.known.lock().unwrap();
        let states = listed(self.home, &self.store);
        let seen: BTreeMap<String, String> =
            known.iter().map(|(id, run)| (id.clone(), run.state.clone())).collect();
        if states != seen {
            self.problem(format!("`metier runs` lists {states:?}, the file holds {seen:?}"));
        }
        for (id, run) in known.iter().filter(|(_, run)| run.rows("use") > 0) {
            let mut show = metier(self.home);
            let text =
                output(show.args(["show", id, "--series=use", "-o", "csv", "--store"]).arg(&self.store));
            let rows = text.lines().count() as u64 - 1;
            if rows != run.rows("use") {
                self.problem(format!("{}: shown are {rows} rows, stored {}", run.name, run.rows("use")));
            }
        }
    }

    /// Gives how often each kind of kill left each state.
    fn every_attempt_ended_as_it_must(&self) -> BTreeMap<(&'static str, &'static str), usize> {
        let known = self.known.lock().unwrap();
        let outcomes = self.outcomes.lock().unwrap();
        let mut tally = BTreeMap::new();
        let names: BTreeSet<&str> = known.values().map(|run| run.name.as_str()).collect();
        assert_eq!(names.len(), known.len(), "a run is there twice");
        for outcome in outcomes.iter() {
            let found = known.values().find(|run| run.name == outcome.name);
            let state = match found.map(|run| run.state.as_str()) {
                None => "unknown",
                Some("finished") => "finished",
                Some("interrupted") => "interrupted",
                Some(other) => {
                    self.problem(format!("{} ({}) is {other}", outcome.name, outcome.kind));
                    continue;
                }
            };
            let Some(killed) = outcome.killed else {
                if state != "finished" {
                    self.problem(format!("{} ended by itself and is {state}", outcome.name));
                }
                continue;
            };
            *tally.entry((outcome.kind, state)).or_insert(0) += 1;
            match (outcome.kind, found) {
                (_, None) if outcome.had_said || outcome.kind == "long" => {
                    self.problem(format!(
                        "{} ({}) was under way and is not listed",
                        outcome.name, outcome.kind
                    ));
                }
                ("long", Some(run)) => {
                    let last = run.last_time().map(|last| run.started * 1000 + last);
                    let killed = killed.duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
                    let lost = last.map(|last| (killed - last) as f64 / 1e9);
                    eprintln!("{}: the last stored sample is {lost:.3?} s before the kill", outcome.name);
                    // 1 s is the promise; 2 s more for a machine that stalls.
                    if lost.is_none_or(|seconds| seconds > 3.0) {
                        self.problem(format!("{}: {lost:?} s of samples are lost", outcome.name));
                    }
                }
                _ => {}
            }
        }
        tally
    }
}

#[test]
fn a_kill_while_the_store_is_being_made_leaves_one_that_works() {
    let _turn = TURN.lock().unwrap_or_else(|broken| broken.into_inner());
    let mut random = KillTimes::new(77);
    for round in 0..24 {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("new/metier.db");
        let mut started =
            Started::new(folder.path(), &store, &format!("new{round}"), &["sleep".into(), "600".into()]);
        if round % 2 == 0 {
            std::thread::sleep(random.between(0, 40_000));
        } else {
            // Closer to it: from the moment at which the file is there.
            while !store.exists() && started.child.try_wait().unwrap().is_none() {
                std::hint::spin_loop();
            }
            std::thread::sleep(random.between(0, 12_000));
        }
        started.kill();
        // Either the program or the reader is the first to find what was left half made.
        let before = if round % 4 < 2 { reader::look(&store).unwrap() } else { Content::new() };
        run(folder.path(), &store, "next", "true");
        let after = reader::look(&store).unwrap();
        assert_eq!(reader::losses(&before, &after), Vec::<String>::new(), "round {round}");
        let states: Vec<&str> = after.values().map(|run| run.state.as_str()).collect();
        assert!(
            matches!(states[..], ["finished"] | ["interrupted", "finished"]),
            "round {round}: {states:?}"
        );
        assert!(wait_until(GONE, || marked(&started.mark).is_empty()), "round {round}: something lingers");
        assert!(wait_until(GONE, || groups_of(started.pid()).is_empty()), "round {round}: a group is left");
    }
}

/// Where the command has made groups inside its own, those go too.
#[test]
fn the_next_start_removes_groups_inside_the_group() {
    let _turn = TURN.lock().unwrap_or_else(|broken| broken.into_inner());
    let Some(burn) = burn() else {
        eprintln!(
            "SKIP: groups inside a group, because metier-burn is not built; `cargo build -p metier-burn`"
        );
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("metier.db");
    let words = [burn.into_os_string(), "nested".into(), "--".into(), "sleep".into(), "600".into()];
    let mut started = Started::new(folder.path(), &store, "nested", &words);
    let is_nested = || {
        let groups = groups_of(started.pid());
        groups.iter().any(|group| std::fs::read_dir(group).unwrap().flatten().any(|e| e.path().is_dir()))
    };
    if !wait_until(GONE, || is_nested() && started.command().len() == 2) {
        eprintln!("SKIP: groups inside a group, because none can be made here: {}", started.said());
        return;
    }
    let launcher = launcher_of(started.pid()).expect("a launcher below the program");
    signal(launcher, libc::SIGKILL);
    started.kill();
    assert!(wait_until(GONE, || !is_there(launcher)));
    run(folder.path(), &store, "next", "true");
    assert_eq!(marked(&started.mark), Vec::<i32>::new(), "processes are left");
    assert_eq!(groups_of(started.pid()), Vec::<PathBuf>::new(), "groups are left");
}

#[test]
fn the_reader_notices_what_is_gone_or_changed() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("metier.db");
    run(folder.path(), &store, "whole", "true");
    let before = reader::look(&store).unwrap();
    assert_eq!(before.values().map(|run| run.rows("use") > 0).collect::<Vec<_>>(), [true]);
    assert_eq!(reader::losses(&before, &reader::look(&store).unwrap()), Vec::<String>::new());
    for damage in [
        "UPDATE run SET record = record || ' '",
        "DELETE FROM block WHERE series = 'use'",
        "UPDATE run SET state = 'interrupted'",
        "DELETE FROM run",
    ] {
        let connection = rusqlite::Connection::open(&store).unwrap();
        connection.execute_batch(&format!("PRAGMA foreign_keys = ON; {damage}")).unwrap();
        assert_eq!(reader::losses(&before, &reader::look(&store).unwrap()).len(), 1, "{damage}");
    }
}

#[test]
fn a_killed_launcher_is_told_and_the_next_start_cleans_up() {
    let _turn = TURN.lock().unwrap_or_else(|broken| broken.into_inner());
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("metier.db");
    let mut random = KillTimes::new(99);
    let script = "sleep 600 & setsid sleep 600 & exec sleep 600";
    for round in 0..9 {
        let name = format!("launcher{round}");
        let mut started =
            Started::new(folder.path(), &store, &name, &["sh".into(), "-c".into(), script.into()]);
        assert!(
            wait_until(GONE, || started.command().len() == 3),
            "the command does not start: {}",
            started.said()
        );
        std::thread::sleep(random.between(0, 300_000));
        if groups_of(started.pid()).is_empty() {
            eprintln!(
                "SKIP: a killed launcher, because this user gets no control group here: nothing else could tell what it left"
            );
            return;
        }
        let launcher = launcher_of(started.pid()).expect("a launcher below the program");
        match round % 3 {
            // The program is there to say it.
            0 => {
                signal(launcher, libc::SIGKILL);
                let status = started.end(GONE).expect("the program waits for a launcher that is gone");
                assert_eq!(status.code(), Some(125), "{}", started.said());
                assert!(started.said().contains("launcher"), "{}", started.said());
            }
            1 => {
                signal(launcher, libc::SIGKILL);
                started.kill();
            }
            _ => {
                signal(started.pid(), libc::SIGKILL);
                signal(launcher, libc::SIGKILL);
                started.child.wait().unwrap();
            }
        }
        // A start that comes while the launcher is still dying leaves its group to it, and so to
        // the start after.
        assert!(wait_until(GONE, || !is_there(launcher)), "round {round}: the launcher does not die");
        run(folder.path(), &store, &format!("next{round}"), "true");
        assert!(
            wait_until(GONE, || marked(&started.mark).is_empty()),
            "round {round}: {:?} still run after the next start",
            marked(&started.mark).into_iter().filter_map(name_and_parent).collect::<Vec<_>>()
        );
        assert!(wait_until(GONE, || groups_of(started.pid()).is_empty()), "round {round}: a group is left");
        let seen = reader::look(&store).unwrap();
        let run = seen.values().find(|run| run.name == started.name).expect("the run was begun");
        assert_eq!(run.state, "interrupted", "round {round}");
    }
    assert_eq!(listed(folder.path(), &store).len(), 18);
}
