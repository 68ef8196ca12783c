//! The control group around a container: ours, in every hierarchy, so that its counters outlive the container's own
//! group, which vanishes with it.
//!
//! An engine that makes groups itself (driver `cgroupfs`) puts a container's group below the path that it is given, in
//! all hierarchies, and leaves that parent behind in each: so all of them are ours to remove, also those in which we
//! account nothing. The path is from the root of each hierarchy, since it has to be the same in all.
//!
//! An engine that leaves that to systemd is given a transient slice of ours instead ([`slice`]), which only root gets.
//!
//! Podman puts its monitor, and later its cleaning up, into the parent that it is given, beside the container: what they use would be the
//! run's, and they would be ended with it. So it is given none.
//!
//! Where neither is to be had, or we do not see the hierarchies from their roots (we are in a container ourselves), the
//! container's own group is read instead. It vanishes some time after the container's end: mostly it is seen empty before, and its
//! counters are the last ones then; else they are marked as sampled.

use std::fs;
use std::path::{Path, PathBuf};

use metier_types::MissingReason;

use metier_linux::cgroup::mounts::full_hierarchies;
use metier_linux::cgroup::systemd_slice::{self, SystemdSlice};
use metier_linux::cgroup::{CgroupMembership, GroupFolders, RunCgroup};

use super::engine::CgroupStrategy;

/// The group around a container, before there is one.
pub(super) struct ParentGroup {
    pub group: RunCgroup,
    /// What an engine is told of it.
    pub name: String,
    /// What systemd has to be asked to take away.
    pub slice: Option<SystemdSlice>,
}

/// Makes the parent, in the engine's way; else the reason for the record.
pub(super) fn make_parent_group(
    proc: &Path,
    name: &str,
    grouping: CgroupStrategy,
) -> Result<ParentGroup, MissingReason> {
    match grouping {
        CgroupStrategy::Folders => {
            let group = make_folders(proc, name)?;
            Ok(ParentGroup { group, name: format!("/{name}"), slice: None })
        }
        CgroupStrategy::Slices => {
            let (group, slice) = systemd_slice::create_slice(proc, name)?;
            Ok(ParentGroup { group, name: slice.unit.clone(), slice: Some(slice) })
        }
        CgroupStrategy::Monitored => Err(MissingReason::without_fix(
            "Podman would put its monitor beside the container into a group of ours, so the container's own was read, which vanished before it could be seen empty",
        )),
    }
}

fn make_folders(proc: &Path, name: &str) -> Result<RunCgroup, MissingReason> {
    let hierarchies = full_hierarchies(proc)
        .ok_or_else(|| MissingReason::without_fix("the control groups are not seen from their roots here"))?;
    let mut group = RunCgroup::below_roots(&hierarchies, name);
    for folder in group.folders() {
        if let Err(error) = fs::create_dir(&folder) {
            group.remove_folders();
            let reason = format!("no control group can be made at {} ({error})", folder.display());
            return Err(MissingReason::with_fix(reason, "run as root"));
        }
    }
    Ok(group)
}

/// Whether a process is in our group; completes it with where its own CPU limit is accounted. A version 2 group beside
/// version 1 ones in which it is not is left out.
pub(super) fn adopt_process(group: &mut RunCgroup, proc: &Path, pid: u32) -> bool {
    let place = CgroupMembership::read(proc, &pid.to_string());
    let is_in =
        |ours: &PathBuf, theirs: Option<&PathBuf>| theirs.is_some_and(|folder| folder.starts_with(ours));
    let v1 = group.v1.iter().all(|(account, folder)| is_in(folder, place.v1.get(*account)));
    let v2 = group.v2.as_ref().is_some_and(|folder| is_in(folder, place.v2.as_ref()));
    if !v2 && !group.v1.is_empty() {
        group.v2 = None;
    }
    group.around = place;
    v1 && (v2 || !group.v1.is_empty())
}

/// The container's own group.
pub(super) fn container_group(proc: &Path, pid: u32) -> RunCgroup {
    let place = CgroupMembership::read(proc, &pid.to_string());
    RunCgroup::from_existing(GroupFolders { v2: place.v2, v1: place.v1 })
}

/// How often the kernel killed something in the container for want of memory, as its own group tells it: a version 1
/// parent does not count for its children.
pub(super) fn read_oom_kills(own: &CgroupMembership) -> Option<u64> {
    let v1 = own.v1.get("memory").map(|folder| folder.join("memory.oom_control"));
    let v2 = own.v2.as_ref().map(|folder| folder.join("memory.events"));
    let read =
        |file: PathBuf| metier_linux::kernel_file::keyed_value(&fs::read_to_string(file).ok()?, "oom_kill");
    v1.and_then(read).or_else(|| v2.and_then(read))
}
