//! Who may speak: processes of the run, told by what the kernel says of them, never by who came first.

use std::path::{Path, PathBuf};

use metier_linux::cgroup::{Group, Place};
use metier_linux::proc_stat;

/// How deep a family of processes may be.
const GENERATIONS: usize = 256;

/// The processes that belong to a run.
#[derive(Debug, Clone)]
pub enum Members {
    /// Those in these control groups, or below them.
    Groups(Vec<PathBuf>),
    /// This process and its descendants.
    Family(u32),
}

/// What the kernel says of a process that speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It belongs to the run.
    Member,
    Stranger,
    /// It is gone, or not visible from here: nobody can tell.
    Unknown,
}

impl Members {
    /// Those of a run's group.
    pub fn of_group(group: &Group) -> Self {
        Self::Groups(group.v1.values().chain(&group.v2).cloned().collect())
    }

    /// Where a process stands; `proc` is usually `/proc`.
    pub fn standing(&self, proc: &Path, pid: u32) -> Standing {
        if pid == 0 || !proc.join(pid.to_string()).exists() {
            return Standing::Unknown;
        }
        match self {
            Self::Groups(groups) => {
                let place = Place::of(proc, &pid.to_string());
                let mut folders = place.v1.values().chain(&place.v2);
                if folders.any(|folder| groups.iter().any(|group| folder.starts_with(group))) {
                    return Standing::Member;
                }
                // A process that is ending has left its version 1 groups already.
                if is_ending(proc, pid) { Standing::Unknown } else { Standing::Stranger }
            }
            Self::Family(root) => {
                let line = std::iter::successors(Some(pid), |pid| parent(proc, *pid));
                match line.take(GENERATIONS).any(|pid| pid == *root) {
                    true => Standing::Member,
                    false => Standing::Stranger,
                }
            }
        }
    }
}

fn parent(proc: &Path, pid: u32) -> Option<u32> {
    proc_stat::read(proc, pid).map(|stat| stat.parent).filter(|parent| *parent > 0)
}

fn is_ending(proc: &Path, pid: u32) -> bool {
    proc_stat::read(proc, pid).is_none_or(|stat| stat.has_ended())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_told_by_its_line_and_a_group_by_its_folder() {
        let proc = Path::new("/proc");
        let own = std::process::id();
        assert_eq!(Members::Family(own).standing(proc, own), Standing::Member);
        assert_eq!(Members::Family(own).standing(proc, 1), Standing::Stranger);
        let place = Place::of(proc, "self");
        let folders: Vec<PathBuf> = place.v1.values().chain(&place.v2).cloned().collect();
        if folders.is_empty() {
            println!("SKIP: no control group is visible because none is mounted");
            return;
        }
        assert_eq!(Members::Groups(folders.clone()).standing(proc, own), Standing::Member);
        let other = vec![folders[0].join("metier-nobody")];
        assert_eq!(Members::Groups(other).standing(proc, own), Standing::Stranger);
        assert_eq!(Members::Groups(folders).standing(proc, u32::MAX - 1), Standing::Unknown);
    }
}
