//! A transient systemd slice around a container, for an engine with the systemd cgroup driver. The
//! engine puts the container's scope into it, and the slice's counters remain after the scope has
//! vanished.
//!
//! The call goes to the system's service manager, which allows it for root, and for others by
//! policy. The name has underscores instead of dashes: a dash in a slice name denotes nesting.
//!
//! `StopUnit` ends the slice. The launcher gets the message bytes ([`SystemdSlice::stop_message`]),
//! so the slice also ends after metier was killed.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use metier_types::MissingReason;

use super::mounts::full_hierarchies;
use super::{RunCgroup, systemd_scope};
use crate::dbus::{self, BusConnection, UnitProperty};

/// Timeout for systemd.
const SYSTEMD_TIMEOUT: Duration = Duration::from_secs(5);

/// An existing slice.
#[derive(Debug)]
pub struct SystemdSlice {
    /// Name of its unit, as passed to an engine.
    pub unit: String,
    bus: PathBuf,
    /// The folder that systemd removes when it stops the unit.
    folder: PathBuf,
}

impl SystemdSlice {
    /// Data for the launcher, which only sends bytes: the folder that will vanish, the socket, and
    /// the message that stops the slice.
    pub fn stop_message(&self) -> (&Path, &Path, Vec<u8>) {
        (&self.folder, &self.bus, dbus::stop_unit_messages(&self.unit))
    }
}

/// The unit name for a group name.
pub fn unit_name(group: &str) -> String {
    format!("{}.slice", group.replace('-', "_"))
}

/// The group name for a unit name; `None` if the unit has another form.
pub fn group_name(unit: &str) -> Option<String> {
    let name = unit.strip_suffix(".slice").filter(|name| !name.contains('-'))?;
    Some(name.replace('_', "-"))
}

fn system_bus_path() -> PathBuf {
    let asked = std::env::var("DBUS_SYSTEM_BUS_ADDRESS").ok();
    asked
        .as_deref()
        .and_then(systemd_scope::parse_bus_path)
        .unwrap_or_else(|| "/run/dbus/system_bus_socket".into())
}

/// Creates a slice and its group, with folders in all accounting hierarchies.
pub fn create_slice(proc: &Path, name: &str) -> Result<(RunCgroup, SystemdSlice), MissingReason> {
    let fix = "run as root; check that `systemd-run --slice=test.slice true` works";
    let to_missing = |error: io::Error| {
        MissingReason::with_fix(format!("systemd created no slice for the container ({error})"), fix)
    };
    let hierarchies = full_hierarchies(proc)
        .ok_or_else(|| MissingReason::without_fix("the control groups are not seen from their roots here"))?;
    let unit = unit_name(name);
    let bus = system_bus_path();
    let mut connection = BusConnection::open(&bus, SYSTEMD_TIMEOUT)
        .map_err(|error| to_missing(io::Error::new(error.kind(), format!("{}: {error}", bus.display()))))?;
    connection
        .start_unit(
            &unit,
            &[
                ("Description", UnitProperty::Text("a container measured by metier")),
                ("CPUAccounting", UnitProperty::Flag(true)),
                ("MemoryAccounting", UnitProperty::Flag(true)),
                ("IOAccounting", UnitProperty::Flag(true)),
                ("TasksAccounting", UnitProperty::Flag(true)),
                ("CollectMode", UnitProperty::Text("inactive-or-failed")),
            ],
        )
        .map_err(to_missing)?;
    let group = RunCgroup::below_roots(&hierarchies, &unit);
    let folders = group.folders();
    let there = wait_until(|| folders.iter().all(|folder| folder.exists()));
    let Some(folder) = folders.into_iter().next().filter(|_| there) else {
        let _ = connection.stop_unit(&unit);
        return Err(to_missing(io::Error::new(
            io::ErrorKind::TimedOut,
            "its control group was not there in 5 s",
        )));
    };
    Ok((group, SystemdSlice { unit, bus, folder }))
}

/// Stops an ownerless slice and waits until its folder is gone. Remaining folders are not
/// systemd's.
pub fn stop_slice(unit: &str, folder: &Path) {
    if BusConnection::open(&system_bus_path(), SYSTEMD_TIMEOUT)
        .and_then(|mut bus| bus.stop_unit(unit))
        .is_ok()
    {
        wait_until(|| !folder.exists());
    }
}

/// Waits for a condition with a timeout. A call only queues a job; the folders show its completion.
fn wait_until(is_so: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + SYSTEMD_TIMEOUT;
    while !is_so() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_named_like_a_group_and_is_inside_no_other() {
        let unit = unit_name("metier-12-345-3a5c7e9d");
        assert_eq!(unit, "metier_12_345_3a5c7e9d.slice");
        assert_eq!(group_name(&unit).as_deref(), Some("metier-12-345-3a5c7e9d"));
        for other in ["metier-12-345-3a5c7e9d", "metier-12-345-3a5c7e9d.slice", "metier_1.scope"] {
            assert_eq!(group_name(other), None, "{other}");
        }
    }
}
