//! A control group for an ordinary user: a transient scope that systemd creates and delegates.
//!
//! One D-Bus call to the user's service manager creates the scope around the launcher. Inside the
//! scope the launcher moves to its own leaf, so that controllers can be delegated to a second leaf,
//! `work`, which runs the command. systemd removes the scope after its last process has ended.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use metier_types::{AccountingMethod, MissingReason};

use super::{CgroupMembership, RunCgroup};
use crate::dbus::{BusConnection, UnitProperty};

/// Timeout for systemd.
const SYSTEMD_TIMEOUT: Duration = Duration::from_secs(5);

/// Path of the session bus of the user's service manager, or the reason why there is none.
pub fn find_session_bus() -> Result<PathBuf, MissingReason> {
    let fix = "log in through a real session, or: loginctl enable-linger $USER; export XDG_RUNTIME_DIR=/run/user/$(id -u)";
    if let Some(path) = std::env::var("DBUS_SESSION_BUS_ADDRESS").ok().as_deref().and_then(parse_bus_path) {
        return Ok(path);
    }
    // SAFETY: takes no argument and cannot fail.
    let default = PathBuf::from(format!("/run/user/{}", unsafe { libc::getuid() }));
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map_or(default, PathBuf::from);
    let bus = runtime.join("bus");
    if bus.exists() {
        Ok(bus)
    } else {
        Err(MissingReason::with_fix(
            format!("no session bus at {} to ask systemd for a scope", bus.display()),
            fix,
        ))
    }
}

/// The socket in a bus address such as `unix:path=/run/user/1000/bus,guid=…`.
pub(super) fn parse_bus_path(address: &str) -> Option<PathBuf> {
    address.split(';').find_map(|text| {
        let pairs = text.strip_prefix("unix:")?;
        pairs.split(',').find_map(|pair| pair.strip_prefix("path=")).map(PathBuf::from)
    })
}

/// Creates a scope named after the run around the launcher, and the command's group inside it.
pub fn create_scope(proc: &Path, name: &str, launcher: u32) -> Result<RunCgroup, MissingReason> {
    let bus = find_session_bus()?;
    let to_missing = |error: io::Error| {
        MissingReason::with_fix(
            format!("systemd created no scope ({error})"),
            "check that `systemd-run --user --scope true` works in this session",
        )
    };
    let mut connection = BusConnection::open(&bus, SYSTEMD_TIMEOUT).map_err(to_missing)?;
    connection
        .start_unit(
            &format!("{name}.scope"),
            &[
                ("Description", UnitProperty::Text("a run measured by metier")),
                ("Delegate", UnitProperty::Flag(true)),
                ("MemoryAccounting", UnitProperty::Flag(true)),
                ("IOAccounting", UnitProperty::Flag(true)),
                ("CollectMode", UnitProperty::Text("inactive-or-failed")),
                ("PIDs", UnitProperty::Process(launcher)),
            ],
        )
        .map_err(to_missing)?;
    let scope = wait_for_move(proc, name, launcher).map_err(to_missing)?;
    split_scope(&scope, launcher).map_err(to_missing)
}

/// The reply only confirms a queued job; the launcher's `/proc` entry shows when it was moved.
fn wait_for_move(proc: &Path, name: &str, launcher: u32) -> io::Result<PathBuf> {
    let deadline = Instant::now() + SYSTEMD_TIMEOUT;
    loop {
        let place = CgroupMembership::read(proc, &launcher.to_string());
        if let Some(folder) =
            place.v2.filter(|f| f.file_name().is_some_and(|n| n.to_string_lossy().starts_with(name)))
        {
            return Ok(folder);
        }
        if Instant::now() > deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the launcher was not moved into it in 5 s"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn split_scope(scope: &Path, launcher: u32) -> io::Result<RunCgroup> {
    let (aside, work) = (scope.join("launcher"), scope.join("work"));
    fs::create_dir(&aside)?;
    fs::write(aside.join("cgroup.procs"), launcher.to_string())?;
    let offered = fs::read_to_string(scope.join("cgroup.controllers"))?;
    // One by one: a refused controller must not prevent the others.
    for controller in offered.split_whitespace().filter(|c| matches!(*c, "memory" | "io" | "pids")) {
        let _ = fs::write(scope.join("cgroup.subtree_control"), format!("+{controller}"));
    }
    fs::create_dir(&work)?;
    Ok(RunCgroup {
        method: AccountingMethod::SystemdScope,
        v2: Some(work.clone()),
        v1: Default::default(),
        remove: vec![work],
        around: CgroupMembership { v2: Some(scope.into()), ..CgroupMembership::default() },
        peak: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_addresses_give_their_socket() {
        assert_eq!(parse_bus_path("unix:path=/run/user/7/bus"), Some("/run/user/7/bus".into()));
        assert_eq!(parse_bus_path("tcp:host=x;unix:guid=1,path=/b"), Some("/b".into()));
        assert_eq!(parse_bus_path("unix:abstract=/x"), None);
    }
}
