//! Harsh circumstances, with the real program: disks that are full or read-only, files that are no
//! store, signals, closed streams, many at once, and commands that do what commands should not.
//!
//! In each the program either does what it was asked or says in one line what is wrong and what to
//! do; it damages nothing, and nothing of the command is left running.

use crate::kill::traces::{MARK, burn, groups_of, marked, metier, signal, wait_until};

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

const LONG: Duration = Duration::from_secs(20);

/// A home with a store in it.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn store(&self) -> PathBuf {
        self.path("metier.db")
    }

    fn metier(&self, store: &Path, words: &[&str]) -> Command {
        let mut command = metier(self.folder.path());
        command.arg("--store").arg(store).args(words).current_dir(self.folder.path());
        command
    }

    /// `metier run` with these flags and words, on the store of the place.
    fn run<S: AsRef<OsStr>>(&self, flags: &[&str], words: &[S]) -> Command {
        let mut command = self.metier(&self.store(), &["run", "--quiet"]);
        command.args(flags).arg("--").args(words);
        command
    }

    fn last(&self) -> Value {
        let text = text(self.metier(&self.store(), &["show", "last", "-o", "json"]));
        serde_json::from_str(&text).unwrap()
    }

    fn names(&self, store: &Path) -> Vec<String> {
        let text = text(self.metier(store, &["runs", "--all", "-o", "json"]));
        let list: Value = serde_json::from_str(&text).unwrap();
        list["runs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|run| run["workload"]["name"].as_str().unwrap().into())
            .collect()
    }
}

/// A mark that no other run of these tests has.
fn own(mark: &str) -> String {
    format!("{}-{mark}", std::process::id())
}

/// Stdout of a command that must succeed.
fn text(mut command: Command) -> String {
    let out = command.output().unwrap();
    assert!(out.status.success(), "{command:?}: {} {}", out.status, complaint(&out));
    String::from_utf8(out.stdout).unwrap()
}

fn complaint(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// Refused with this code, in one line that names the path and these words.
fn refused(mut command: Command, code: i32, path: &Path, words: &[&str]) {
    let out = command.output().unwrap();
    let said = complaint(&out);
    assert_eq!(out.status.code(), Some(code), "{command:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("metier: ") && said.contains(path.to_str().unwrap()), "{said}");
    words.iter().for_each(|word| assert!(said.contains(word), "want {word:?} in {said}"));
    assert!(out.stdout.is_empty());
}

/// A small file system in memory, until dropped.
struct Disk(PathBuf);

impl Disk {
    fn new(at: PathBuf, size: &str) -> Option<Disk> {
        fs::create_dir_all(&at).unwrap();
        let out = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(&at)
            .output();
        match out {
            Ok(out) if out.status.success() => Some(Disk(at)),
            other => {
                let why = other.map_or_else(|error| error.to_string(), |out| complaint(&out));
                eprintln!("SKIP: a disk of its own, because none can be mounted here: {}", why.trim());
                None
            }
        }
    }

    fn fill(&self) {
        let mut file = fs::File::create(self.0.join("filler")).unwrap();
        while file.write_all(&[1; 512]).is_ok() {}
    }

    fn free(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn integrity(store: &Path) -> String {
    let connection = rusqlite::Connection::open(store).unwrap();
    connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap()
}

#[test]
fn a_full_disk_is_said_and_what_was_stored_stays() {
    let place = Place::new();
    // Room for a few runs and their log.
    let Some(disk) = Disk::new(place.path("disk"), "1m") else { return };
    let store = disk.0.join("metier.db");
    let run = |flags: &[&str], words: &[&str]| {
        let mut command = place.metier(&store, &["run", "--quiet"]);
        command.args(flags).arg("--").args(words);
        command
    };
    text(run(&["--name", "early"], &["true"]));
    disk.fill();
    refused(run(&[], &["touch", "ran"]), 125, &store, &["no room left", "free some space"]);
    assert!(!place.path("ran").exists(), "the command ran and its run was not kept");
    assert_eq!(place.names(&store), ["early"]);
    disk.free();
    text(run(&["--name", "later"], &["true"]));
    // The disk fills while the command runs: it ends as it wants to, and its run is spooled
    // elsewhere until there is room.
    let script = "while dd if=/dev/zero bs=512 count=64 >> disk/filler 2>/dev/null; do :; done; sleep 1.2; : > over; exit 7";
    let flags = ["--name", "mid", "--interval", "1ms", "--save-json", "mid.json"];
    let out = run(&flags, &["sh", "-c", script]).output().unwrap();
    assert_eq!(out.status.code(), Some(7), "{}", complaint(&out));
    for word in ["spooled in", "no room left", store.to_str().unwrap()] {
        assert!(complaint(&out).contains(word), "want {word:?} in {}", complaint(&out));
    }
    assert!(place.path("over").exists(), "the command was ended for our lack of room");
    let saved: Value = serde_json::from_slice(&fs::read(place.path("mid.json")).unwrap()).unwrap();
    assert_eq!(saved["exit"]["code"], 7, "{saved}");
    assert_eq!(place.names(&store), ["mid", "later", "early"]);
    disk.free();
    text(run(&["--name", "after"], &["true"]));
    assert_eq!(place.names(&store), ["after", "mid", "later", "early"]);
    let mid: Value =
        serde_json::from_str(&text(place.metier(&store, &["show", "mid", "-o", "json"]))).unwrap();
    assert_eq!((&mid["state"], &mid["exit"]["code"]), (&"finished".into(), &7.into()), "{mid}");
    assert_eq!(integrity(&store), "ok");
}

#[test]
fn a_full_disk_takes_no_new_store() {
    let place = Place::new();
    let Some(disk) = Disk::new(place.path("disk"), "512k") else { return };
    disk.fill();
    let store = disk.0.join("metier.db");
    refused(place.metier(&store, &["run", "--", "touch", "ran"]), 125, &store, &["no room left"]);
    assert!(!place.path("ran").exists());
    disk.free();
    text(place.metier(&store, &["run", "--quiet", "--", "true"]));
}

#[test]
fn a_read_only_folder_is_said_before_the_command_starts() {
    let place = Place::new();
    // SAFETY: takes nothing, cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    let folder = place.path("disk");
    let _disk = if is_root {
        // Permissions do not hold root back; a read-only mount does.
        let Some(disk) = Disk::new(folder.clone(), "4m") else { return };
        Some(disk)
    } else {
        fs::create_dir(&folder).unwrap();
        None
    };
    let (store, fresh) = (folder.join("metier.db"), folder.join("new.db"));
    text(place.metier(&store, &["run", "--quiet", "--name", "early", "--", "true"]));
    // With nothing in the log, so that reading needs no file beside it.
    drop(
        rusqlite::Connection::open(&store)
            .and_then(|one| one.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")),
    );
    let before = fs::read(&store).unwrap();
    if is_root {
        let status = Command::new("mount").args(["-o", "remount,ro"]).arg(&folder).status().unwrap();
        assert!(status.success());
    } else {
        fs::set_permissions(&store, fs::Permissions::from_mode(0o444)).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).unwrap();
    }
    for store in [&store, &fresh] {
        refused(
            place.metier(store, &["run", "--", "touch", "ran"]),
            125,
            store,
            &["cannot be written", "--store"],
        );
    }
    assert!(!place.path("ran").exists());
    assert_eq!(place.names(&store), ["early"], "reading is still possible");
    assert_eq!(fs::read(&store).unwrap(), before);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).ok();
}

#[test]
fn what_is_no_store_of_ours_is_refused_and_left_as_it_is() {
    let place = Place::new();
    let sql = |path: &Path, sql: &str| rusqlite::Connection::open(path).unwrap().execute_batch(sql).unwrap();
    let (noise, foreign, newer, folder) =
        (place.path("noise.db"), place.path("foreign.db"), place.path("newer.db"), place.path("folder"));
    let bytes: Vec<u8> = (0..20_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(&noise, bytes).unwrap();
    sql(&foreign, "CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)");
    text(place.metier(&newer, &["run", "--quiet", "--", "true"]));
    sql(&newer, "PRAGMA user_version = 99; PRAGMA wal_checkpoint(TRUNCATE)");
    fs::create_dir(&folder).unwrap();
    let cases: [(&Path, &[&str]); 4] = [
        (&noise, &["not a store of metier", "left as it was", "--store"]),
        (&foreign, &["another program", "left as it was", "--store"]),
        (&newer, &["schema version 99", "newer metier", "--store"]),
        (&folder, &["directory", "path of a file"]),
    ];
    for (path, words) in cases {
        let before = fs::read(path).ok();
        refused(place.metier(path, &["run", "--", "touch", "ran"]), 125, path, words);
        refused(place.metier(path, &["runs"]), 1, path, words);
        refused(place.metier(path, &["show", "last"]), 1, path, words);
        assert_eq!(fs::read(path).ok(), before, "{path:?} was changed");
    }
    assert!(!place.path("ran").exists(), "a command ran without a store");
    let left = fs::read_dir(&folder).unwrap().count();
    assert_eq!(left, 0, "the folder is as it was");
}

#[test]
fn damage_inside_a_store_is_said_and_not_made_worse() {
    let place = Place::new();
    let store = place.store();
    text(place.run(&["--name", "early"], &["true"]));
    rusqlite::Connection::open(&store).unwrap().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let mut bytes = fs::read(&store).unwrap();
    // All pages but the first, which says what the file is.
    bytes[4096..].fill(0x5a);
    fs::write(&store, &bytes).unwrap();
    refused(place.run(&[], &["touch", "ran"]), 125, &store, &["damaged", "copy the file away"]);
    refused(place.metier(&store, &["runs"]), 1, &store, &["damaged"]);
    assert!(!place.path("ran").exists());
    assert_eq!(fs::read(&store).unwrap(), bytes);
}

#[test]
fn a_term_reaches_the_command_and_all_ends() {
    let place = Place::new();
    let script = "trap 'echo TERM >> got; exit 5' TERM; sleep 600 & : > ready; wait";
    let mut child = place
        .run(&["--grace", "2s"], &["sh", "-c", script])
        .env(MARK, own("term"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert!(wait_until(LONG, || place.path("ready").exists()));
    signal(child.id() as i32, libc::SIGTERM);
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    assert_eq!(fs::read_to_string(place.path("got")).unwrap(), "TERM\n");
    assert_eq!(marked(&own("term")), Vec::<i32>::new());
    let run = place.last();
    assert_eq!((&run["state"], &run["exit"]["cause"]), (&"finished".into(), &"interrupted".into()), "{run}");
}

/// A pseudo-terminal: the side of the user and the side of the programs.
fn terminal() -> (fs::File, OwnedFd) {
    let (mut ours, mut theirs) = (0, 0);
    let none = std::ptr::null_mut();
    // SAFETY: both numbers are there to be filled; nothing else is passed; they are owned once.
    unsafe {
        assert_eq!(libc::openpty(&mut ours, &mut theirs, none, none.cast(), none.cast()), 0);
        libc::fcntl(ours, libc::F_SETFD, libc::FD_CLOEXEC);
        libc::fcntl(theirs, libc::F_SETFD, libc::FD_CLOEXEC);
        (fs::File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs))
    }
}

#[test]
fn an_interrupt_from_the_terminal_reaches_the_command_once() {
    let place = Place::new();
    let script =
        "trap 'echo INT >> got' INT; : > ready; while ! test -e got; do sleep 0.05; done; sleep 1; exit 3";
    let (mut user, programs) = terminal();
    let mut command = place.run(&[], &["sh", "-c", script]);
    let stream = || Stdio::from(programs.try_clone().unwrap());
    command.stdin(stream()).stdout(stream()).stderr(stream());
    // SAFETY: only calls that are allowed after a fork; descriptor 0 is the terminal.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            match libc::ioctl(0, libc::TIOCSCTTY, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    let mut child = command.spawn().unwrap();
    assert!(wait_until(LONG, || place.path("ready").exists()));
    user.write_all(b"\x03").unwrap();
    let status = child.wait().unwrap();
    assert_eq!(fs::read_to_string(place.path("got")).unwrap(), "INT\n");
    assert_eq!(status.code(), Some(3), "the command decides what an interrupt means to it");
}

#[test]
fn readers_and_streams_that_are_gone_are_no_failure() {
    let place = Place::new();
    text(place.run(&[], &["true"]));
    for words in
        [&["runs"][..], &["runs", "-o", "json"], &["show", "last"], &["completions", "bash"], &["--help"]]
    {
        let (read, write) = std::io::pipe().unwrap();
        drop(read);
        let out = place.metier(&place.store(), words).stdout(write).output().unwrap();
        assert_eq!((out.status.code(), complaint(&out)), (Some(0), String::new()), "{words:?}");
    }
    let shell = |redirect: &str, words: &[&str]| {
        let program = env!("CARGO_BIN_EXE_metier");
        let mut command = metier(place.folder.path());
        let store = place.store();
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("exec \"$0\" \"$@\" {redirect}"), program, "--store"])
            .arg(store)
            .args(words);
        shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(Stdio::null());
        shell.output().unwrap()
    };
    assert_eq!(shell("2>&-", &["run", "--", "sh", "-c", "exit 3"]).status.code(), Some(3));
    assert_eq!(shell(">&-", &["run", "--", "sh", "-c", "exit 4"]).status.code(), Some(4));
    assert_eq!(shell("<&- >&- 2>&-", &["run", "--", "true"]).status.code(), Some(0));
    assert_eq!(place.names(&place.store()).len(), 4);
}

#[test]
fn fifty_at_once_are_all_recorded() {
    let place = Place::new();
    let start = |i: usize| {
        let mut command = place.run(&["--name", &format!("n{i}")], &["true"]);
        command.stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<_> = (0..50).map(start).collect();
    for child in children {
        let out = child.wait_with_output().unwrap();
        assert!(out.status.success(), "{} {}", out.status, complaint(&out));
    }
    let mut names = place.names(&place.store());
    names.sort_by_key(|name| name[1..].parse::<usize>().unwrap());
    assert_eq!(names, (0..50).map(|i| format!("n{i}")).collect::<Vec<_>>());
    assert_eq!(integrity(&place.store()), "ok");
}

/// Runs a command with a mark; when it is over nothing of it may be left.
fn leaves_nothing<S: AsRef<OsStr>>(place: &Place, mark: &str, flags: &[&str], words: &[S]) -> Output {
    let mark = &own(mark);
    let mut command = place.run(flags, words);
    let child = command.env(MARK, mark).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id() as i32;
    let out = child.wait_with_output().unwrap();
    assert_eq!(marked(mark), Vec::<i32>::new(), "{mark}: processes are left; {}", complaint(&out));
    assert_eq!(groups_of(pid), Vec::<PathBuf>::new(), "{mark}: groups are left");
    out
}

#[test]
fn daemons_and_processes_with_a_session_of_their_own_do_not_outlive_the_run() {
    let place = Place::new();
    let script = "setsid sh -c 'trap \"\" HUP INT TERM; sleep 600; :' >/dev/null 2>&1 & exit 6";
    let out =
        leaves_nothing(&place, "daemon", &["--linger", "200ms", "--grace", "100ms"], &["sh", "-c", script]);
    assert_eq!(out.status.code(), Some(6), "{}", complaint(&out));
    let run = place.last();
    // SAFETY: takes nothing, cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        assert!(run["exit"]["left_behind"].as_u64().unwrap() >= 1, "{}", run["exit"]);
    } else {
        eprintln!("SKIP: how many were left behind, because only a control group can tell");
    }
    let words = ["setsid", "--wait", "sleep", "600"];
    let out = leaves_nothing(&place, "session", &["--timeout", "300ms", "--grace", "100ms"], &words);
    assert_eq!(out.status.code(), Some(124), "{}", complaint(&out));
}

#[test]
fn a_stopped_command_is_ended_by_its_time_limit() {
    let place = Place::new();
    let flags = ["--timeout", "300ms", "--grace", "200ms"];
    for (mark, script) in
        [("stopped", "kill -STOP $$"), ("deaf", "trap '' INT TERM; kill -STOP $$; sleep 600")]
    {
        let out = leaves_nothing(&place, mark, &flags, &["sh", "-c", script]);
        assert_eq!(out.status.code(), Some(124), "{mark}: {}", complaint(&out));
        assert_eq!(place.last()["exit"]["cause"], "timeout");
    }
}

#[test]
fn two_thousand_children_are_counted() {
    let place = Place::new();
    let Some(burn) = burn() else {
        eprintln!("SKIP: 2000 children, because metier-burn is not built; `cargo build -p metier-burn`");
        return;
    };
    let words = [burn.as_os_str(), OsStr::new("forktrue"), OsStr::new("2000"), OsStr::new("--self")];
    let out = leaves_nothing(&place, "forks", &[], &words);
    assert!(out.status.success(), "{}", complaint(&out));
    let run = place.last();
    match run["summary"]["processes"].as_u64() {
        Some(count) => assert_eq!(count, 2001),
        None => {
            assert!(run["missing"].as_object().unwrap().keys().any(|key| key.contains("processes")), "{run}")
        }
    }
}

#[test]
fn ten_megabytes_of_output_pass_through() {
    let place = Place::new();
    let out = leaves_nothing(&place, "output", &[], &["head", "-c", "10000000", "/dev/zero"]);
    assert!(out.status.success(), "{}", complaint(&out));
    assert_eq!(out.stdout.len(), 10_000_000);
    assert!(out.stdout.iter().all(|byte| *byte == 0));
    assert!(out.stderr.is_empty(), "{}", complaint(&out));
}

#[test]
fn a_megabyte_of_arguments_arrives_and_is_recorded() {
    let place = Place::new();
    let long = "x".repeat(100_000);
    let mut words = vec!["sh", "-c", "printf %s \"$*\" | wc -c", "sh"];
    words.extend(std::iter::repeat_n(long.as_str(), 10));
    let out = leaves_nothing(&place, "arguments", &[], &words);
    assert!(out.status.success(), "{}", complaint(&out));
    assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), "1000009");
    let run = place.last();
    assert_eq!(run["context"]["command"].as_array().unwrap().len(), 14);
    text(place.metier(&place.store(), &["runs"]));
    text(place.metier(&place.store(), &["show", "last"]));
}

#[test]
fn arguments_that_are_not_text_arrive_as_they_are() {
    let place = Place::new();
    let odd = OsString::from_vec(b"\xff\xfe caf\xe9 \x01\n\t$(true)".to_vec());
    let words = [OsStr::new("printf"), OsStr::new("%s"), &odd];
    let out = leaves_nothing(&place, "bytes", &[], &words);
    assert!(out.status.success(), "{}", complaint(&out));
    assert_eq!(out.stdout, odd.as_bytes());
    text(place.metier(&place.store(), &["runs"]));
    assert_eq!(place.last()["context"]["command"].as_array().unwrap().len(), 3);
}

#[test]
fn a_command_may_remove_the_folder_it_stands_in() {
    let place = Place::new();
    let folder = place.path("gone");
    fs::create_dir(&folder).unwrap();
    let mut command = place.run(&[], &["sh", "-c", "rmdir \"$PWD\" && exit 9"]);
    let out = command.current_dir(&folder).output().unwrap();
    assert_eq!(out.status.code(), Some(9), "{}", complaint(&out));
    assert!(!folder.exists());
    assert_eq!(place.last()["exit"]["code"], 9);
    // And one that starts where there is nothing any more.
    fs::create_dir(&folder).unwrap();
    let script = "rmdir \"$PWD\"; exec \"$0\" --store \"$1\" run --quiet -- sh -c 'exit 8'";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_metier")]).arg(place.store());
    shell.envs(metier(place.folder.path()).get_envs().filter_map(|(name, value)| Some((name, value?))));
    let out = shell.current_dir(&folder).output().unwrap();
    assert_eq!(out.status.code(), Some(8), "{}", complaint(&out));
}
