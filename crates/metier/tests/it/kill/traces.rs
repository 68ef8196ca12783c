//! Starts the real program in a home of its own, and finds what it leaves on the machine:
//! processes, by a variable that they inherit, and control groups, by the name that the program
//! gives them.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use metier_linux::proc_stat::{self, ProcessStat};

/// Every process of a run has this variable, with a value of its own.
pub const MARK: &str = "METIER_TEST_MARK";

/// The program, with nothing of the user's own settings. Its streams are closed or empty unless the
/// caller says otherwise.
pub fn metier(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_metier"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("METIER_") {
            command.env_remove(name);
        }
    }
    command
        .env("HOME", home)
        .env("XDG_DATA_HOME", home.join("data"))
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env("XDG_RUNTIME_DIR", home.join("runtime"))
        .stdin(Stdio::null());
    command
}

/// `metier-burn`, which lies beside the program when the workspace has been built.
pub fn burn() -> Option<PathBuf> {
    Some(Path::new(env!("CARGO_BIN_EXE_metier")).with_file_name("metier-burn")).filter(|path| path.exists())
}

/// Processes that have the mark and are not merely waiting to be collected.
pub fn marked(mark: &str) -> Vec<i32> {
    let wanted = format!("{MARK}={mark}");
    let has_it = |pid: &i32| {
        let variables = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        variables.split(|byte| *byte == 0).any(|one| one == wanted.as_bytes())
    };
    processes().into_iter().filter(has_it).collect()
}

fn processes() -> Vec<i32> {
    let names = std::fs::read_dir("/proc").unwrap().flatten();
    names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Name and parent of a process.
pub fn name_and_parent(pid: i32) -> Option<(String, i32)> {
    let stat = stat_of(pid)?;
    Some((stat.name.into_owned(), stat.parent as i32))
}

/// Whether a process lives; one that only waits to be collected does not.
pub fn is_there(pid: i32) -> bool {
    stat_of(pid).is_some_and(|stat| !stat.has_ended())
}

fn stat_of(pid: i32) -> Option<ProcessStat<'static>> {
    proc_stat::read_process(Path::new("/proc"), pid as u32)
}

/// The launcher that a measuring program has started.
pub fn launcher_of(metier: i32) -> Option<i32> {
    processes().into_iter().find(|pid| {
        name_and_parent(*pid).is_some_and(|(name, parent)| name == "metier-launch" && parent == metier)
    })
}

/// Control groups of the measuring program with that process id, wherever they are.
pub fn groups_of(metier: i32) -> Vec<PathBuf> {
    let mut found = Vec::new();
    find(Path::new("/sys/fs/cgroup"), &format!("metier-{metier}-"), 0, &mut found);
    found
}

fn find(folder: &Path, start: &str, depth: u32, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if entry.file_name().to_string_lossy().starts_with(start) {
            found.push(entry.path());
        } else if depth < 10 {
            find(&entry.path(), start, depth + 1, found);
        }
    }
}

/// Waits until it is so; `false` when it is not after that long.
pub fn wait_until(longest: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + longest;
    loop {
        if is_so() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends a signal to one process.
pub fn signal(pid: i32, number: i32) {
    // SAFETY: no memory is passed; the process was started by this test.
    unsafe { libc::kill(pid, number) };
}
