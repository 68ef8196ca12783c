//! A transient slice of systemd around a container, for an engine that leaves control groups to systemd: the engine puts
//! the container's scope into it, and its counters stay when the scope has vanished.
//!
//! Only the system's own service manager is asked, which lets root do it, and others where its policy says so. The name has
//! underscores where a folder's has dashes: a dash in a slice's name means that it is inside another slice.
//!
//! It ends by `StopUnit`, for which the launcher gets the bytes ([`Slice::farewell`]): so also after our own death.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use metier_types::Missing;

use super::mounts::roots_of_hierarchies;
use super::{Group, scope};
use crate::dbus::{self, Connection, Property};

/// How long systemd may take.
const LIMIT: Duration = Duration::from_secs(5);

/// A slice that exists.
#[derive(Debug)]
pub struct Slice {
    /// Its unit, which is what an engine is told.
    pub unit: String,
    bus: PathBuf,
    /// The folder that systemd takes away when it stops the unit.
    folder: PathBuf,
}

impl Slice {
    /// What stops it, for one who can only send bytes: the folder that will be gone, the socket and the bytes.
    pub fn farewell(&self) -> (&Path, &Path, Vec<u8>) {
        (&self.folder, &self.bus, dbus::stopping(&self.unit))
    }
}

/// The unit that belongs to a group's name.
pub fn unit_name(group: &str) -> String {
    format!("{}.slice", group.replace('-', "_"))
}

/// The group's name that belongs to a unit, or to anything that is called like one.
pub fn group_name(unit: &str) -> Option<String> {
    let name = unit.strip_suffix(".slice").filter(|name| !name.contains('-'))?;
    Some(name.replace('_', "-"))
}

fn bus() -> PathBuf {
    let asked = std::env::var("DBUS_SYSTEM_BUS_ADDRESS").ok();
    asked.as_deref().and_then(scope::bus_path).unwrap_or_else(|| "/run/dbus/system_bus_socket".into())
}

/// Makes one, and the group that is read: its folders in all hierarchies that keep an account.
pub fn make(proc: &Path, name: &str) -> Result<(Group, Slice), Missing> {
    let fix = "run as root; check that `systemd-run --slice=test.slice true` works";
    let said = |error: io::Error| {
        Missing::fixable(format!("systemd gave no slice for the container ({error})"), fix)
    };
    let hierarchies = roots_of_hierarchies(proc)
        .ok_or_else(|| Missing::because("the control groups are not seen from their roots here"))?;
    let unit = unit_name(name);
    let bus = bus();
    let mut connection = Connection::open(&bus, LIMIT)
        .map_err(|error| said(io::Error::new(error.kind(), format!("{}: {error}", bus.display()))))?;
    connection
        .start_unit(
            &unit,
            &[
                ("Description", Property::Text("a container measured by metier")),
                ("CPUAccounting", Property::Flag(true)),
                ("MemoryAccounting", Property::Flag(true)),
                ("IOAccounting", Property::Flag(true)),
                ("TasksAccounting", Property::Flag(true)),
                ("CollectMode", Property::Text("inactive-or-failed")),
            ],
        )
        .map_err(said)?;
    let group = Group::below_roots(&hierarchies, &unit);
    let folders = group.folders();
    let there = wait(|| folders.iter().all(|folder| folder.exists()));
    let Some(folder) = folders.into_iter().next().filter(|_| there) else {
        let _ = connection.stop_unit(&unit);
        return Err(said(io::Error::new(io::ErrorKind::TimedOut, "its control group was not there in 5 s")));
    };
    Ok((group, Slice { unit, bus, folder }))
}

/// Stops one that nobody looks after, and waits until its folder is gone. What is left then is not systemd's.
pub fn stop(unit: &str, folder: &Path) {
    if Connection::open(&bus(), LIMIT).and_then(|mut bus| bus.stop_unit(unit)).is_ok() {
        wait(|| !folder.exists());
    }
}

/// Whether it became so. Calls only queue a job; the folders tell when it was done.
fn wait(is_so: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + LIMIT;
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
