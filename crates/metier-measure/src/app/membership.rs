//! Decides which processes may send messages for a run, by the kernel's records of a process and
//! never by order of arrival.

use std::path::{Path, PathBuf};

use metier_linux::cgroup::{CgroupMembership, RunCgroup};
use metier_linux::proc_stat;

/// Maximum depth of a process's ancestry.
const MAX_GENERATIONS: usize = 256;

/// The processes that belong to a run.
#[derive(Debug, Clone)]
pub enum MemberProcesses {
    /// Processes in these control groups or below them.
    Groups(Vec<PathBuf>),
    /// This process and its descendants.
    Family(u32),
}

/// Whether a sending process belongs to the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunMembership {
    /// It belongs to the run.
    Member,
    Stranger,
    /// The process has ended or is not visible from here.
    Unknown,
}

impl MemberProcesses {
    /// The processes of a run's control group.
    pub fn of_group(group: &RunCgroup) -> Self {
        Self::Groups(group.v1.values().chain(&group.v2).cloned().collect())
    }

    /// Classifies a process; `proc` is usually `/proc`.
    pub fn membership_of(&self, proc: &Path, pid: u32) -> RunMembership {
        if pid == 0 || !proc.join(pid.to_string()).exists() {
            return RunMembership::Unknown;
        }
        match self {
            Self::Groups(groups) => {
                let place = CgroupMembership::read(proc, &pid.to_string());
                let mut folders = place.v1.values().chain(&place.v2);
                if folders.any(|folder| groups.iter().any(|group| folder.starts_with(group))) {
                    return RunMembership::Member;
                }
                // A process that is exiting has already left its cgroup v1 groups.
                if is_ending(proc, pid) { RunMembership::Unknown } else { RunMembership::Stranger }
            }
            Self::Family(root) => {
                let line = std::iter::successors(Some(pid), |pid| parent_pid(proc, *pid));
                match line.take(MAX_GENERATIONS).any(|pid| pid == *root) {
                    true => RunMembership::Member,
                    false => RunMembership::Stranger,
                }
            }
        }
    }
}

fn parent_pid(proc: &Path, pid: u32) -> Option<u32> {
    proc_stat::read_process(proc, pid).map(|stat| stat.parent).filter(|parent| *parent > 0)
}

fn is_ending(proc: &Path, pid: u32) -> bool {
    proc_stat::read_process(proc, pid).is_none_or(|stat| stat.has_ended())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_told_by_its_line_and_a_group_by_its_folder() {
        let proc = Path::new("/proc");
        let own = std::process::id();
        assert_eq!(MemberProcesses::Family(own).membership_of(proc, own), RunMembership::Member);
        assert_eq!(MemberProcesses::Family(own).membership_of(proc, 1), RunMembership::Stranger);
        let place = CgroupMembership::read(proc, "self");
        let folders: Vec<PathBuf> = place.v1.values().chain(&place.v2).cloned().collect();
        if folders.is_empty() {
            println!("SKIP: no control group is visible because none is mounted");
            return;
        }
        assert_eq!(MemberProcesses::Groups(folders.clone()).membership_of(proc, own), RunMembership::Member);
        let other = vec![folders[0].join("metier-absent")];
        assert_eq!(MemberProcesses::Groups(other).membership_of(proc, own), RunMembership::Stranger);
        assert_eq!(
            MemberProcesses::Groups(folders).membership_of(proc, u32::MAX - 1),
            RunMembership::Unknown
        );
    }
}
