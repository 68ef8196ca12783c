//! Removes the leftovers of a killed measuring process: unfinished runs, and control groups whose
//! launcher is gone, too.

use std::fs;
use std::path::{Path, PathBuf};

use metier_store::{OwnerProcess, RecordStore, RunSpool, SpoolDelivery};
use metier_types::{Device, RunId};

use crate::Error;
use metier_linux::KernelRoots;
use metier_linux::cgroup::{CgroupMembership, systemd_slice};
use metier_linux::group_owner::{
    boot_id, is_alive, kill_and_remove, kill_members, list_members, parse_owner,
};
use metier_linux::proc_stat;
use metier_linux::scratch_folder::sweep_scratch_folders;

/// Marks runs whose measuring process is gone as interrupted, and removes control groups without an
/// owner.
pub fn sweep_leftovers(
    roots: &KernelRoots,
    store: &RecordStore,
    device: &Device,
) -> Result<Vec<RunId>, Error> {
    let found_groups = sweep_groups(roots);
    let boot = boot_id(roots);
    let host = device.id.as_str();
    let swept = store.mark_interrupted_runs(host, &|owner: &OwnerProcess| {
        owner.boot == boot && is_alive(roots, owner.pid, owner.started)
    })?;
    // Query an engine only if there are traces of a killed process: most hosts have none.
    if found_groups || !swept.is_empty() {
        crate::runner::container::leftover_containers::remove_leftover_containers();
    }
    Ok(swept)
}

/// Delivers what waits in the spool of a store. A run whose process is gone is delivered as
/// interrupted; one on another host that shares the folder stays.
pub fn deliver_spool(
    roots: &KernelRoots,
    spool: &RunSpool,
    store: &RecordStore,
    device: &Device,
) -> Result<SpoolDelivery, Error> {
    let boot = boot_id(roots);
    let is_alive = |owner: &OwnerProcess| {
        owner.host != device.id.as_str() || owner.boot == boot && is_alive(roots, owner.pid, owner.started)
    };
    Ok(spool.deliver(store, &is_alive)?)
}

/// Removes control groups and scratch folders without an owner: searches every place where metier may
/// have created one; returns whether a group was left.
pub fn sweep_groups(roots: &KernelRoots) -> bool {
    sweep_scratch_folders(roots);
    let place = CgroupMembership::read(&roots.proc, "self");
    let above = place.v2.iter().flat_map(|own| own.ancestors());
    let mount = place.v2_mount.clone();
    let v2 = above
        .take_while(|folder| mount.as_ref().is_some_and(|m| folder.starts_with(m)))
        .map(Path::to_path_buf);
    // Control groups around containers are below the roots, in all hierarchies.
    let tops = metier_linux::cgroup::mounts::full_hierarchies(&roots.proc).unwrap_or_default();
    let tops = tops.into_iter().map(|hierarchy| hierarchy.point);
    let mut folders: Vec<PathBuf> = place.v1.values().cloned().chain(v2).chain(tops).collect();
    folders.sort();
    folders.dedup();
    let mut found = false;
    for entry in folders.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten()) {
        let Some((pid, started)) = entry.file_name().to_str().and_then(parse_owner) else { continue };
        if !is_alive(roots, pid, started) && !has_launcher(roots, &entry.path()) {
            if let Some(unit) =
                entry.file_name().to_str().filter(|name| systemd_slice::group_name(name).is_some())
            {
                // Kill the members first: systemd would give a container 90 s to end.
                kill_members(&entry.path());
                systemd_slice::stop_slice(unit, &entry.path());
            }
            kill_and_remove(&entry.path());
            found = true;
        }
    }
    found
}

/// Whether a process in the group still has a launcher as its ancestor, which is then in its signal
/// ladder.
fn has_launcher(roots: &KernelRoots, group: &Path) -> bool {
    list_members(group, 0).into_iter().any(|pid| {
        let Ok(mut pid) = u32::try_from(pid) else { return false };
        for _ in 0..64 {
            let Some(stat) = proc_stat::read_process(&roots.proc, pid) else { return false };
            if stat.name == "metier-launch" {
                return true;
            }
            if stat.parent <= 1 {
                return false;
            }
            pid = stat.parent;
        }
        false
    })
}
