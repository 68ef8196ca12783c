//! Ownership of control groups. A group's name holds the process id and start time of the measuring
//! process and the run's id, so that a later process can check whether the owner is alive.

use std::fs;
use std::path::{Path, PathBuf};

use metier_types::RunId;

use crate::cgroup::{RunCgroup, systemd_slice};
use crate::{KernelRoots, kernel_file, proc_stat};

/// Largest nesting depth of searched groups.
const MAX_DEPTH: u32 = 32;

/// Owner mark for a label: process id and start time, and the boot id.
pub fn owner_mark(roots: &KernelRoots) -> String {
    let pid = std::process::id();
    format!("{pid}-{}-{}", start_time(roots, pid).unwrap_or(0), boot_id(roots))
}

/// Whether the owner in such a mark is gone; `false` for other marks.
pub fn is_owner_gone(roots: &KernelRoots, mark: &str) -> bool {
    let mut parts = mark.splitn(3, '-');
    let mut number = || parts.next()?.parse::<u64>().ok();
    let (Some(pid), Some(started)) = (number(), number()) else { return false };
    let Ok(pid) = u32::try_from(pid) else { return false };
    parts.next() != Some(&boot_id(roots)) || !is_alive(roots, pid, started)
}

/// Name of a run's group, made of its owner and the run.
pub fn group_name(roots: &KernelRoots, run: RunId) -> String {
    let pid = std::process::id();
    format!("metier-{pid}-{}-{}", start_time(roots, pid).unwrap_or(0), run.short())
}

pub fn boot_id(roots: &KernelRoots) -> String {
    kernel_file::read_text(roots.proc.join("sys/kernel/random/boot_id")).unwrap_or_default()
}

/// Start time in clock ticks since boot: field 22 of `/proc/PID/stat`. `None` for a zombie, since
/// some parents never collect their children.
pub fn start_time(roots: &KernelRoots, pid: u32) -> Option<u64> {
    proc_stat::read_process(&roots.proc, pid).filter(|stat| !stat.has_ended()).map(|stat| stat.start_ticks)
}

pub fn is_alive(roots: &KernelRoots, pid: u32, started: u64) -> bool {
    start_time(roots, pid) == Some(started)
}

/// Whether a name has the form of [`group_name`] and its owner is gone.
pub fn has_dead_owner(roots: &KernelRoots, name: &str) -> bool {
    parse_owner(name).is_some_and(|(pid, started)| !is_alive(roots, pid, started))
}

/// Kills all processes of a run's group and removes it.
pub fn remove_group(group: &RunCgroup) {
    group.remove.iter().for_each(|folder| kill_and_remove(folder));
}

/// Process id and start time in `metier-PID-START-RUN`, or in a slice name of that form.
pub fn parse_owner(name: &str) -> Option<(u32, u64)> {
    let group = systemd_slice::group_name(name);
    let name = group.as_deref().unwrap_or(name);
    let mut parts = name.strip_prefix("metier-")?.splitn(3, '-');
    let owner = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next().filter(|run| run.len() == 8)?;
    Some(owner)
}

/// Processes in a group and in its subgroups.
pub fn list_members(group: &Path, depth: u32) -> Vec<i32> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let mut pids: Vec<i32> =
        text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 1).collect();
    if depth < MAX_DEPTH {
        pids.extend(list_subgroups(group).iter().flat_map(|inner| list_members(inner, depth + 1)));
    }
    pids
}

fn list_subgroups(group: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|e| e.path()).collect()
}

/// Kills the processes of a group and removes its folder.
pub fn kill_and_remove(group: &Path) {
    for _ in 0..100 {
        if remove_folders(group, 0) || !group.exists() {
            return;
        }
        kill_members(group);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

pub fn kill_members(group: &Path) {
    if fs::write(group.join("cgroup.kill"), "1").is_err() {
        for pid in list_members(group, 0) {
            // SAFETY: passes no memory; only processes of metier's runs are in this group.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }
}

/// Removes subgroups before their parent. It uses `rmdir` only, so no file can be lost.
fn remove_folders(group: &Path, depth: u32) -> bool {
    if depth < MAX_DEPTH {
        for inner in list_subgroups(group) {
            remove_folders(&inner, depth + 1);
        }
    }
    fs::remove_dir(group).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ours_are_taken_for_ours() {
        assert_eq!(parse_owner("metier-12-345-3a5c7e9d"), Some((12, 345)));
        assert_eq!(parse_owner("metier_12_345_3a5c7e9d.slice"), Some((12, 345)));
        for other in [
            "metier",
            "metier_12_345_3a5c7e9d",
            "metier_12.slice",
            "metier-12",
            "metier-12-345",
            "metier-12-345-",
            "metier-x-1-3a5c7e9d",
            "docker",
        ] {
            assert_eq!(parse_owner(other), None, "{other}");
        }
    }

    #[test]
    fn we_are_alive_and_a_recycled_number_is_not_us() {
        let roots = KernelRoots::default();
        let pid = std::process::id();
        let started = start_time(&roots, pid).unwrap();
        assert!(is_alive(&roots, pid, started));
        assert!(!is_alive(&roots, pid, started + 1));
    }

    #[test]
    fn an_owner_that_only_waits_to_be_collected_is_not_alive() {
        let roots = KernelRoots::default();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let started = start_time(&roots, child.id()).unwrap();
        assert!(is_alive(&roots, child.id(), started));
        child.kill().unwrap();
        let stat = format!("/proc/{}/stat", child.id());
        while !fs::read_to_string(&stat).unwrap().contains(") Z ") {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(!is_alive(&roots, child.id(), started));
        child.wait().unwrap();
    }
}
