//! The parent control group of a container: metier's own, in every hierarchy, so that its counters
//! outlive the container's own group, which vanishes with it.
//!
//! An engine that creates groups itself (driver `cgroupfs`) places a container's group below the
//! given path, in all hierarchies, and leaves that parent behind in each. So metier removes all of
//! them, including those in hierarchies without accounting. The path is relative to the root of
//! each hierarchy, since it must be the same in all.
//!
//! An engine that uses systemd is given a transient slice of metier's instead ([`SystemdSlice`]),
//! which requires root.
//!
//! Podman places its monitor, and later its cleanup, into the given parent beside the container.
//! Their use would count as the run's, and they would be ended with it. So Podman gets no parent.
//!
//! Without a parent group, or inside a container, where the roots of the hierarchies are not
//! visible, the container's own group is read instead. It vanishes some time after the container's
//! end. Usually it is read once more when empty, and its counters are then final; otherwise they
//! are marked as sampled.

use std::fs;
use std::path::{Path, PathBuf};

use metier_types::MissingReason;

use metier_linux::cgroup::mounts::full_hierarchies;
use metier_linux::cgroup::systemd_slice::{self, SystemdSlice};
use metier_linux::cgroup::{CgroupMembership, GroupFolders, RunCgroup};

use super::engine::CgroupStrategy;

/// The parent control group of a container, before the container exists.
pub(super) struct ParentGroup {
    pub group: RunCgroup,
    /// The parent's name for the engine.
    pub name: String,
    /// The slice that systemd must remove.
    pub slice: Option<SystemdSlice>,
}

/// Creates the parent in the engine's way, or returns the reason for the record.
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
            "Podman would place its monitor beside the container in metier's control group, so the container's own group was read; it vanished before a reading without processes",
        )),
    }
}

fn make_folders(proc: &Path, name: &str) -> Result<RunCgroup, MissingReason> {
    let hierarchies = full_hierarchies(proc).ok_or_else(|| {
        MissingReason::without_fix("the roots of the control group hierarchies are not visible here")
    })?;
    let mut group = RunCgroup::below_roots(&hierarchies, name);
    for folder in group.folders() {
        if let Err(error) = fs::create_dir(&folder) {
            group.remove_folders();
            let reason = format!("no control group can be created at {} ({error})", folder.display());
            return Err(MissingReason::with_fix(reason, "run as root"));
        }
    }
    Ok(group)
}

/// Whether a process is in metier's group; adds the group with its own CPU quota accounting. A
/// cgroup v2 group beside v1 ones that does not contain the process is left out.
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

/// The container's own control group.
pub(super) fn container_group(proc: &Path, pid: u32) -> RunCgroup {
    let place = CgroupMembership::read(proc, &pid.to_string());
    RunCgroup::from_existing(GroupFolders { v2: place.v2, v1: place.v1 })
}

/// Number of out-of-memory kills in the container, from its own group: a cgroup v1 parent does not
/// count those of its children.
pub(super) fn read_oom_kills(own: &CgroupMembership) -> Option<u64> {
    let v1 = own.v1.get("memory").map(|folder| folder.join("memory.oom_control"));
    let v2 = own.v2.as_ref().map(|folder| folder.join("memory.events"));
    let read =
        |file: PathBuf| metier_linux::kernel_file::keyed_value(&fs::read_to_string(file).ok()?, "oom_kill");
    v1.and_then(read).or_else(|| v2.and_then(read))
}
