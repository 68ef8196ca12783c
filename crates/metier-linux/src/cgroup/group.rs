//! Makes the run's control group.
//!
//! Version 1 (and hybrid): one folder below our own group in each hierarchy that keeps an account, plus one in
//! version 2 where that is mounted, for pressure and for killing. The `cpu` hierarchy is left alone (a group of
//! its own there would change how the run is scheduled against its neighbours), and so is `blkio`, which misses
//! buffered writes.
//!
//! Version 2: a folder in the nearest group above us that hands the memory controller down, because a group
//! that holds processes (ours does) cannot. As an ordinary user that is usually nobody's to write; then
//! [`super::scope`] asks systemd.
//!
//! Names are `metier-PID-START-RUN`, with process id and start time of the measuring program, so that whoever
//! finds a folder later can tell whether its owner is still there.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use metier_types::{Method, Missing};

use super::Place;
use super::mounts::Mount;

/// Version 1 hierarchies in which the run gets a group.
const V1_ACCOUNTS: [&str; 2] = ["cpuacct", "memory"];

/// The folders of a control group: one of version 2, or one for each version 1 controller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupFolders {
    /// In version 2.
    pub v2: Option<PathBuf>,
    /// In version 1 by controller: `cpuacct`, `memory`, `cpu`.
    pub v1: BTreeMap<String, PathBuf>,
}

/// The run's control group: folders that it has to itself, one for each hierarchy in use.
#[derive(Debug)]
pub struct Group {
    /// How it was had.
    pub method: Method,
    /// Its folder in version 2.
    pub v2: Option<PathBuf>,
    /// Its folders in version 1 by controller.
    pub v1: BTreeMap<&'static str, PathBuf>,
    /// Folders to remove at the end, in that order.
    pub remove: Vec<PathBuf>,
    /// The group around it, whose CPU limit may hold it back.
    pub around: Place,
    /// The high-water mark of memory since it was set back, for this very file (version 2, Linux 6.12).
    pub peak: Option<fs::File>,
}

impl Group {
    /// Makes a group for the process that asks. The error is a reason for the record.
    pub fn make(place: &Place, name: &str) -> Result<Self, Missing> {
        if place.accounts_on_v1() { Self::make_v1(place, name) } else { Self::make_v2(place, name) }
    }

    fn make_v1(place: &Place, name: &str) -> Result<Self, Missing> {
        let mut group = Self {
            method: if place.v2.is_some() { Method::CgroupHybrid } else { Method::CgroupV1 },
            v2: None,
            v1: BTreeMap::new(),
            remove: Vec::new(),
            around: place.clone(),
            peak: None,
        };
        for controller in V1_ACCOUNTS {
            let Some(parent) = place.v1.get(controller) else { continue };
            match group.add(parent, name) {
                Ok(folder) => {
                    group.v1.insert(controller, folder);
                }
                Err(error) => {
                    group.discard();
                    return Err(refused(parent, &error));
                }
            }
        }
        if let Some(parent) = &place.v2 {
            group.v2 = group.add(parent, name).ok();
        }
        Ok(group)
    }

    fn make_v2(place: &Place, name: &str) -> Result<Self, Missing> {
        let (Some(own), Some(mount)) = (&place.v2, &place.v2_mount) else {
            return Err(Missing::fixable(
                "no control group file system is mounted",
                "mount -t cgroup2 none /sys/fs/cgroup",
            ));
        };
        let mut group = Self {
            method: Method::CgroupV2,
            v2: None,
            v1: BTreeMap::new(),
            remove: Vec::new(),
            around: place.clone(),
            peak: None,
        };
        let above = own.ancestors().take_while(|folder| folder.starts_with(mount));
        let mut reason = None;
        for parent in above.filter(|folder| hands_down(folder, "memory")) {
            match group.add(parent, name) {
                Ok(folder) => {
                    // Harmless to others, and without it no device traffic is charged to the run.
                    if !hands_down(parent, "io") {
                        let _ = fs::write(parent.join("cgroup.subtree_control"), "+io");
                    }
                    group.v2 = Some(folder);
                    return Ok(group);
                }
                Err(error) => reason = reason.or(Some(refused(parent, &error))),
            }
        }
        // A group without the memory controller still gives exact CPU time, pressure and a sure kill.
        match group.add(own, name) {
            Ok(folder) => {
                group.v2 = Some(folder);
                Ok(group)
            }
            Err(error) => Err(reason.unwrap_or_else(|| refused(own, &error))),
        }
    }

    /// One of that name below the root of every hierarchy, which nobody has made yet: it is read where an account is kept,
    /// and removed everywhere, since an engine's runtime makes folders in all.
    pub fn below_roots(hierarchies: &[Mount], name: &str) -> Self {
        let mut group = Self {
            method: Method::Container,
            v2: None,
            v1: BTreeMap::new(),
            remove: hierarchies.iter().map(|hierarchy| hierarchy.point.join(name)).collect(),
            around: Place::default(),
            peak: None,
        };
        group.remove.dedup();
        for hierarchy in hierarchies {
            let folder = hierarchy.point.join(name);
            for account in V1_ACCOUNTS.into_iter().filter(|account| hierarchy.has(account)) {
                group.v1.insert(account, folder.clone());
            }
            if hierarchy.version == 2 {
                group.v2 = Some(folder);
            }
        }
        group
    }

    /// The folders in which it is read, each once.
    pub fn folders(&self) -> Vec<PathBuf> {
        let mut folders: Vec<PathBuf> = self.v1.values().chain(&self.v2).cloned().collect();
        folders.sort();
        folders.dedup();
        folders
    }

    /// A group that somebody else made: nothing of it is ours to change or to remove.
    pub fn of(folders: GroupFolders) -> Self {
        let known = ["cpuacct", "memory", "cpu"];
        let v1: BTreeMap<&'static str, PathBuf> =
            known.into_iter().filter_map(|c| Some((c, folders.v1.get(c)?.clone()))).collect();
        let around = Place { v2: folders.v2.clone(), v2_mount: None, v1: folders.v1 };
        // Beside version 1 accounts, version 2 often has only the root group for it, which is everybody's.
        let v2 = folders.v2.filter(|folder| v1.is_empty() || folder.join("cgroup.type").exists());
        Self { method: Method::Container, v2, v1, remove: Vec::new(), around, peak: None }
    }

    /// Lets the mark of the largest memory begin anew, where the kernel lets us: on version 1.
    pub fn forget_peak(&self) {
        if let Some(folder) = self.v1.get("memory") {
            let _ = fs::write(folder.join("memory.max_usage_in_bytes"), "0");
        }
    }

    /// Makes a folder in one more version 1 hierarchy, beside the others.
    pub(super) fn add_v1(&mut self, controller: &'static str, name: &str) -> Result<PathBuf, Missing> {
        let Some(parent) = self.around.v1.get(controller).cloned() else {
            return Err(Missing::because(format!("no {controller} controller is mounted")));
        };
        // Controllers that are mounted together share a folder.
        let folder = match self.v1.values().find(|folder| folder.parent() == Some(&parent)) {
            Some(shared) => shared.clone(),
            None => self.add(&parent, name).map_err(|error| refused(&parent, &error))?,
        };
        self.v1.insert(controller, folder.clone());
        Ok(folder)
    }

    /// Makes a folder and checks that a process of ours may enter it.
    fn add(&mut self, parent: &Path, name: &str) -> io::Result<PathBuf> {
        let folder = parent.join(name);
        fs::create_dir(&folder)?;
        self.remove.push(folder.clone());
        // An ordinary user may own the folder but not the door: moving in needs the common ancestor, too.
        if let Err(error) = fs::OpenOptions::new().write(true).open(folder.join("cgroup.procs")) {
            let _ = fs::remove_dir(&folder);
            self.remove.pop();
            return Err(error);
        }
        Ok(folder)
    }

    /// Whether version 2 accounts memory for it.
    pub fn has_v2_memory(&self) -> bool {
        self.v2.as_ref().is_some_and(|folder| folder.join("memory.current").exists())
    }

    /// The launcher's orders that put a command into it, end it and clean it up.
    pub fn orders(&self) -> Vec<(u8, PathBuf)> {
        let folders = self.v1.values().chain(&self.v2);
        let mut orders: Vec<(u8, PathBuf)> =
            folders.map(|folder| (b'J', folder.join("cgroup.procs"))).collect();
        if let Some(folder) = self.v2.as_ref().or(self.v1.values().next()) {
            orders.push((b'P', folder.join("cgroup.procs")));
        }
        if let Some(kill) =
            self.v2.as_ref().map(|folder| folder.join("cgroup.kill")).filter(|file| file.exists())
        {
            orders.push((b'K', kill));
        }
        orders.extend(self.remove.iter().map(|folder| (b'R', folder.clone())));
        orders
    }

    /// Processes in it now.
    pub fn members(&self) -> Vec<u32> {
        let Some(folder) = self.v2.as_ref().or(self.v1.values().next()) else { return Vec::new() };
        let mut pids = Vec::new();
        members_below(folder, &mut pids, 0);
        pids
    }

    /// Takes it away again, for a run that never started.
    pub fn discard(&mut self) {
        for folder in self.remove.drain(..) {
            let _ = fs::remove_dir(folder);
        }
    }
}

fn members_below(folder: &Path, pids: &mut Vec<u32>, depth: u32) {
    let Ok(text) = fs::read_to_string(folder.join("cgroup.procs")) else { return };
    pids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
    // A folder's links count its sub-folders; most runs make none, and looking costs more than asking.
    if depth < 8 && fs::metadata(folder).is_ok_and(|meta| meta.nlink() > 2) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                members_below(&entry.path(), pids, depth + 1);
            }
        }
    }
}

/// Whether groups below this folder get the controller.
pub(super) fn hands_down(folder: &Path, controller: &str) -> bool {
    fs::read_to_string(folder.join("cgroup.subtree_control"))
        .is_ok_and(|text| text.split_whitespace().any(|word| word == controller))
}

fn refused(folder: &Path, error: &io::Error) -> Missing {
    Missing::fixable(
        format!("no control group can be made in {} ({error})", folder.display()),
        "run as root, or as a user with a systemd session (XDG_RUNTIME_DIR set)",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A made-up tree: plain folders have no `cgroup.procs`, so a group in them is refused and nothing stays.
    #[test]
    fn a_folder_that_is_no_control_group_is_refused_and_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place {
            v2: Some(folder.path().join("a")),
            v2_mount: Some(folder.path().into()),
            ..Place::default()
        };
        fs::create_dir(folder.path().join("a")).unwrap();
        fs::write(folder.path().join("cgroup.subtree_control"), "cpu memory\n").unwrap();
        let missing = Group::make(&place, "metier-1-2-x").unwrap_err();
        assert!(missing.fix.is_some(), "{missing}");
        assert_eq!(fs::read_dir(folder.path().join("a")).unwrap().count(), 0);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
