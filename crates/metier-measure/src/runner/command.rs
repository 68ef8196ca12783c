//! A program of this host, in a control group of its own, below the launcher.

use std::io;
use std::os::fd::RawFd;

use metier_types::{Missing, RunId};

use crate::launch::{Launcher, Program};
use crate::observer::Provision;
use crate::running_target::{PreparedRun, Report, Rung, RunningTarget, Stage};
use crate::spec::{Accounting, Command};
use crate::target_facts::TargetFacts;
use crate::{Error, Spec};
use metier_linux::cgroup::limit::GroupLimits;
use metier_linux::cgroup::{Group, Place, limit, scope};
use metier_linux::events::ProcessRoot;
use metier_linux::{Roots, group_owner};

/// Starts a launcher and makes the group; the command waits for its start.
pub(crate) fn prepare(
    roots: &Roots,
    program: &Program,
    mask: u64,
    spec: &Spec,
    command: &Command,
    id: RunId,
    provision: &Provision,
) -> Result<PreparedRun, Error> {
    let launcher = Launcher::spawn(program, command, spec, mask, provision)?;
    let mut group = find_group(roots, spec, id, launcher.pid());
    let mut about = TargetFacts::default();
    if !spec.limits.is_empty() {
        let limits = GroupLimits { cpu: spec.limits.cpu, memory: spec.limits.memory };
        match limit::apply(&mut group, limits, &group_owner::group_name(roots, id)) {
            Ok(limits) => about.limits = limits,
            Err(error) => {
                group.iter_mut().for_each(Group::discard);
                launcher.bye();
                return Err(error.into());
            }
        }
    }
    if let Ok(group) = &group {
        launcher.prepare_paths(&group.orders())?;
    }
    let folder = spec.working_directory.clone().or_else(|| std::env::current_dir().ok());
    about.working_directory = folder.map(|folder| folder.to_string_lossy().into_owned());
    let root = ProcessRoot::Below(launcher.pid());
    let name = command.program.to_string_lossy().into_owned();
    let body = Box::new(Launched { launcher, name });
    Ok(PreparedRun { body, group, root, about, baseline: None, is_fleeting: false, has_own_limit: false })
}

/// A command below its launcher.
struct Launched {
    launcher: Launcher,
    name: String,
}

impl RunningTarget for Launched {
    fn start(&mut self) -> Result<u64, Error> {
        self.launcher.go()?;
        match self.launcher.report() {
            Report::Started { time_ns, .. } => Ok(time_ns),
            Report::Failed { stage, errno } => Err(start_error(&self.name, stage, errno)),
            _ => Err(lost("starting the command")),
        }
    }

    fn descriptor(&self) -> RawFd {
        self.launcher.descriptor()
    }

    fn report(&mut self) -> Report {
        self.launcher.report()
    }

    fn climb(&mut self, from: Rung) {
        self.launcher.climb(from);
    }

    fn release(self: Box<Self>) {
        self.launcher.bye();
    }
}

/// The best group that can be had for the run.
fn find_group(roots: &Roots, spec: &Spec, id: RunId, launcher: u32) -> Result<Group, Missing> {
    if spec.accounting == Accounting::Wait4 {
        return Err(Missing::because("it was asked for"));
    }
    let name = group_owner::group_name(roots, id);
    let mut group = Group::make(&Place::of(&roots.proc, "self"), &name);
    if needs_scope(&group) {
        match (scope::make(&roots.proc, &name, launcher), &mut group) {
            (Ok(scope), lesser) => {
                lesser.iter_mut().for_each(Group::discard);
                return Ok(scope);
            }
            // Why systemd gave none is what the user can do something about.
            (Err(missing), Err(_)) => return Err(missing),
            (Err(_), Ok(_)) => {}
        }
    }
    group
}

/// Whether a better group may be had from systemd: there is none, or one that does not account memory.
fn needs_scope(group: &Result<Group, Missing>) -> bool {
    // SAFETY: takes nothing, cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    let lacks = group.as_ref().map_or(true, |group| group.v1.is_empty() && !group.has_v2_memory());
    lacks && !is_root
}

pub(crate) fn start_error(command: &str, stage: Stage, errno: i32) -> Error {
    let reason = io::Error::from_raw_os_error(errno);
    let command = command.to_string();
    match stage {
        Stage::Exec if errno == libc::ENOENT => Error::NotFound { command },
        Stage::Exec => Error::NotExecutable { command, reason },
        Stage::Join => Error::Join { reason },
        Stage::Fork => Error::Launcher { doing: "starting the command", reason },
    }
}

pub(crate) fn lost(doing: &'static str) -> Error {
    Error::Launcher { doing, reason: io::Error::new(io::ErrorKind::BrokenPipe, "it went away") }
}
