//! Creation of the run's control group.
//!
//! Version 1 and hybrid: a folder below the caller's group in each accounting hierarchy. A folder
//! in version 2, if mounted, provides pressure and the kill file. The `cpu` hierarchy is left
//! alone, because a separate group there would change how the run is scheduled against its
//! neighbours. `blkio` is left alone because it misses buffered writes.
//!
//! Version 2: a folder in the nearest ancestor group that delegates the memory controller. A group
//! with processes, such as the caller's, cannot delegate it. An ordinary user usually may not write
//! there; then [`super::systemd_scope`] requests a group from systemd.
//!
//! Names are `metier-PID-START-RUN` with the process id and start time of the measuring process. A
//! later process can thus check whether the owner of a leftover folder is alive.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use metier_types::{AccountingMethod, MissingReason};

use super::CgroupMembership;
use super::mounts::CgroupMount;

/// Version 1 hierarchies in which the run gets a group.
const V1_ACCOUNTS: [&str; 2] = ["cpuacct", "memory"];

/// Folders of a control group: one of version 2, or one for each version 1 controller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupFolders {
    /// Folder in version 2.
    pub v2: Option<PathBuf>,
    /// Folders in version 1 by controller: `cpuacct`, `memory`, `cpu`.
    pub v1: BTreeMap<String, PathBuf>,
}

/// The run's own control group, with one folder for each hierarchy in use.
#[derive(Debug)]
pub struct RunCgroup {
    /// How the group was created.
    pub method: AccountingMethod,
    /// Folder in version 2.
    pub v2: Option<PathBuf>,
    /// Folders in version 1 by controller.
    pub v1: BTreeMap<&'static str, PathBuf>,
    /// Folders to remove at the end, in order.
    pub remove: Vec<PathBuf>,
    /// The enclosing group, whose CPU limit may throttle the run.
    pub around: CgroupMembership,
    /// `memory.peak` of version 2 (Linux 6.12), held open because its reset applies to this file
    /// only.
    pub peak: Option<fs::File>,
}

impl RunCgroup {
    /// Creates a group below the caller's; the error is a reason for the record.
    pub fn create(place: &CgroupMembership, name: &str) -> Result<Self, MissingReason> {
        if place.uses_v1_accounting() { Self::create_v1(place, name) } else { Self::create_v2(place, name) }
    }

    fn create_v1(place: &CgroupMembership, name: &str) -> Result<Self, MissingReason> {
        let mut group = Self {
            method: if place.v2.is_some() {
                AccountingMethod::CgroupHybrid
            } else {
                AccountingMethod::CgroupV1
            },
            v2: None,
            v1: BTreeMap::new(),
            remove: Vec::new(),
            around: place.clone(),
            peak: None,
        };
        for controller in V1_ACCOUNTS {
            let Some(parent) = place.v1.get(controller) else { continue };
            match group.add_folder(parent, name) {
                Ok(folder) => {
                    group.v1.insert(controller, folder);
                }
                Err(error) => {
                    group.remove_folders();
                    return Err(explain_refusal(parent, &error));
                }
            }
        }
        if let Some(parent) = &place.v2 {
            group.v2 = group.add_folder(parent, name).ok();
        }
        Ok(group)
    }

    fn create_v2(place: &CgroupMembership, name: &str) -> Result<Self, MissingReason> {
        let (Some(own), Some(mount)) = (&place.v2, &place.v2_mount) else {
            return Err(MissingReason::with_fix(
                "no control group file system is mounted",
                "mount -t cgroup2 none /sys/fs/cgroup",
            ));
        };
        let mut group = Self {
            method: AccountingMethod::CgroupV2,
            v2: None,
            v1: BTreeMap::new(),
            remove: Vec::new(),
            around: place.clone(),
            peak: None,
        };
        let above = own.ancestors().take_while(|folder| folder.starts_with(mount));
        let mut reason = None;
        for parent in above.filter(|folder| delegates_controller(folder, "memory")) {
            match group.add_folder(parent, name) {
                Ok(folder) => {
                    // This harms no other group; without it no device traffic is charged to the
                    // run.
                    if !delegates_controller(parent, "io") {
                        let _ = fs::write(parent.join("cgroup.subtree_control"), "+io");
                    }
                    group.v2 = Some(folder);
                    return Ok(group);
                }
                Err(error) => reason = reason.or(Some(explain_refusal(parent, &error))),
            }
        }
        // A group without the memory controller still gives exact CPU time, pressure and a reliable
        // kill.
        match group.add_folder(own, name) {
            Ok(folder) => {
                group.v2 = Some(folder);
                Ok(group)
            }
            Err(error) => Err(reason.unwrap_or_else(|| explain_refusal(own, &error))),
        }
    }

    /// A group that an engine will create below the root of every hierarchy. It is read in the
    /// accounting hierarchies and removed in all, because a container runtime creates folders in
    /// all.
    pub fn below_roots(hierarchies: &[CgroupMount], name: &str) -> Self {
        let mut group = Self {
            method: AccountingMethod::Container,
            v2: None,
            v1: BTreeMap::new(),
            remove: hierarchies.iter().map(|hierarchy| hierarchy.point.join(name)).collect(),
            around: CgroupMembership::default(),
            peak: None,
        };
        group.remove.dedup();
        for hierarchy in hierarchies {
            let folder = hierarchy.point.join(name);
            for account in V1_ACCOUNTS.into_iter().filter(|account| hierarchy.has_controller(account)) {
                group.v1.insert(account, folder.clone());
            }
            if hierarchy.version == 2 {
                group.v2 = Some(folder);
            }
        }
        group
    }

    /// The folders that are read, each once.
    pub fn folders(&self) -> Vec<PathBuf> {
        let mut folders: Vec<PathBuf> = self.v1.values().chain(&self.v2).cloned().collect();
        folders.sort();
        folders.dedup();
        folders
    }

    /// A group created by another program; it is neither changed nor removed.
    pub fn from_existing(folders: GroupFolders) -> Self {
        let known = ["cpuacct", "memory", "cpu"];
        let v1: BTreeMap<&'static str, PathBuf> =
            known.into_iter().filter_map(|c| Some((c, folders.v1.get(c)?.clone()))).collect();
        let around = CgroupMembership { v2: folders.v2.clone(), v2_mount: None, v1: folders.v1 };
        // With version 1 accounts, version 2 often has only the root group, which is shared by all.
        let v2 = folders.v2.filter(|folder| v1.is_empty() || folder.join("cgroup.type").exists());
        Self { method: AccountingMethod::Container, v2, v1, remove: Vec::new(), around, peak: None }
    }

    /// Resets the memory high-water mark, possible on version 1 only.
    pub fn reset_peak(&self) {
        if let Some(folder) = self.v1.get("memory") {
            let _ = fs::write(folder.join("memory.max_usage_in_bytes"), "0");
        }
    }

    /// Creates a folder in one more version 1 hierarchy.
    pub(super) fn add_v1_folder(
        &mut self,
        controller: &'static str,
        name: &str,
    ) -> Result<PathBuf, MissingReason> {
        let Some(parent) = self.around.v1.get(controller).cloned() else {
            return Err(MissingReason::without_fix(format!("no {controller} controller is mounted")));
        };
        // Controllers that are mounted together share a folder.
        let folder = match self.v1.values().find(|folder| folder.parent() == Some(&parent)) {
            Some(shared) => shared.clone(),
            None => self.add_folder(&parent, name).map_err(|error| explain_refusal(&parent, &error))?,
        };
        self.v1.insert(controller, folder.clone());
        Ok(folder)
    }

    /// Creates a folder and checks that the process may move tasks into it.
    fn add_folder(&mut self, parent: &Path, name: &str) -> io::Result<PathBuf> {
        let folder = parent.join(name);
        fs::create_dir(&folder)?;
        self.remove.push(folder.clone());
        // Owning the folder is not sufficient: moving a task also needs write access to the common
        // ancestor.
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

    /// Launcher orders that move a command into the group, kill it and remove the folders.
    pub fn launcher_orders(&self) -> Vec<(u8, PathBuf)> {
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

    /// Processes currently in the group.
    pub fn list_members(&self) -> Vec<u32> {
        let Some(folder) = self.v2.as_ref().or(self.v1.values().next()) else { return Vec::new() };
        let mut pids = Vec::new();
        list_members_below(folder, &mut pids, 0);
        pids
    }

    /// Removes the folders of a run that never started.
    pub fn remove_folders(&mut self) {
        for folder in self.remove.drain(..) {
            let _ = fs::remove_dir(folder);
        }
    }
}

fn list_members_below(folder: &Path, pids: &mut Vec<u32>, depth: u32) {
    let Ok(text) = fs::read_to_string(folder.join("cgroup.procs")) else { return };
    pids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
    // A folder's link count reveals subfolders; most groups have none, and listing costs more.
    if depth < 8 && fs::metadata(folder).is_ok_and(|meta| meta.nlink() > 2) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                list_members_below(&entry.path(), pids, depth + 1);
            }
        }
    }
}

/// Whether this folder delegates the controller to its children.
pub(super) fn delegates_controller(folder: &Path, controller: &str) -> bool {
    fs::read_to_string(folder.join("cgroup.subtree_control"))
        .is_ok_and(|text| text.split_whitespace().any(|word| word == controller))
}

fn explain_refusal(folder: &Path, error: &io::Error) -> MissingReason {
    MissingReason::with_fix(
        format!("no control group can be made in {} ({error})", folder.display()),
        "run as root, or as a user with a systemd session (XDG_RUNTIME_DIR set)",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plain folders have no `cgroup.procs`: a group in them is refused, and no folder remains.
    #[test]
    fn a_folder_that_is_no_control_group_is_refused_and_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let place = CgroupMembership {
            v2: Some(folder.path().join("a")),
            v2_mount: Some(folder.path().into()),
            ..CgroupMembership::default()
        };
        fs::create_dir(folder.path().join("a")).unwrap();
        fs::write(folder.path().join("cgroup.subtree_control"), "cpu memory\n").unwrap();
        let missing = RunCgroup::create(&place, "metier-1-2-x").unwrap_err();
        assert!(missing.fix.is_some(), "{missing}");
        assert_eq!(fs::read_dir(folder.path().join("a")).unwrap().count(), 0);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
