//! The process that owns a run in the store, identified by device, boot, process id and start time.

use metier_linux::KernelRoots;
use metier_linux::group_owner::{boot_id, is_alive, start_time};
use metier_store::OwnerProcess;
use metier_types::Device;

/// This process as the owner of a run.
pub fn current_owner(roots: &KernelRoots, device: &Device) -> OwnerProcess {
    owner_of_process(roots, device, std::process::id())
}

/// The given process of this device as the owner of a run.
pub fn owner_of_process(roots: &KernelRoots, device: &Device, pid: u32) -> OwnerProcess {
    OwnerProcess {
        host: device.id.as_str().to_string(),
        boot: boot_id(roots),
        pid,
        started: start_time(roots, pid).unwrap_or(0),
    }
}

/// Whether the owning process is alive on this host and in this boot.
pub fn is_owner_alive(roots: &KernelRoots, owner: &OwnerProcess) -> bool {
    owner.boot == boot_id(roots) && is_alive(roots, owner.pid, owner.started)
}
