//! A program of this host, in a control group of its own, below the launcher.

use std::io;
use std::os::fd::RawFd;

use metier_types::{MissingReason, RunId};

use crate::launcher::{LauncherProcess, LauncherProgram};
use crate::observer::ObserverProvision;
use crate::running_target::{PreparedRun, RunningTarget, SignalRung, StartStage, TargetReport};
use crate::spec::{AccountingMode, CommandSpec};
use crate::target_facts::TargetFacts;
use crate::{Error, RunSpec};
use metier_linux::cgroup::limit::CgroupLimits;
use metier_linux::cgroup::{CgroupMembership, RunCgroup, limit, systemd_scope};
use metier_linux::process_events::ProcessRoot;
use metier_linux::{KernelRoots, group_owner};

/// Starts a launcher and creates the control group; the command waits for its start.
pub(crate) fn prepare_command(
    roots: &KernelRoots,
    program: &LauncherProgram,
    mask: u64,
    spec: &RunSpec,
    command: &CommandSpec,
    id: RunId,
    provision: &ObserverProvision,
) -> Result<PreparedRun, Error> {
    let launcher = LauncherProcess::spawn(program, command, spec, mask, provision)?;
    let mut group = find_group(roots, spec, id, launcher.pid());
    let mut about = TargetFacts::default();
    if !spec.limits.is_empty() {
        let limits = CgroupLimits { cpu: spec.limits.cpu, memory: spec.limits.memory };
        match limit::apply_limits(&mut group, limits, &group_owner::group_name(roots, id)) {
            Ok(limits) => about.limits = limits,
            Err(error) => {
                group.iter_mut().for_each(RunCgroup::remove_folders);
                launcher.release();
                return Err(error.into());
            }
        }
    }
    if let Ok(group) = &group {
        launcher.send_path_orders(&group.launcher_orders())?;
    }
    let folder = spec.working_directory.clone().or_else(|| std::env::current_dir().ok());
    about.working_directory = folder.map(|folder| folder.to_string_lossy().into_owned());
    let root = ProcessRoot::DescendantsOf(launcher.pid());
    let name = command.program.to_string_lossy().into_owned();
    let body = Box::new(CommandTarget { launcher, name });
    Ok(PreparedRun { body, group, root, about, baseline: None, is_fleeting: false, has_own_limit: false })
}

/// A command below its launcher.
struct CommandTarget {
    launcher: LauncherProcess,
    name: String,
}

impl RunningTarget for CommandTarget {
    fn start(&mut self) -> Result<u64, Error> {
        self.launcher.start()?;
        match self.launcher.next_report() {
            TargetReport::Started { time_ns, .. } => Ok(time_ns),
            TargetReport::Failed { stage, errno } => Err(start_error(&self.name, stage, errno)),
            _ => Err(launcher_lost_error("starting the command")),
        }
    }

    fn descriptor(&self) -> RawFd {
        self.launcher.descriptor()
    }

    fn next_report(&mut self) -> TargetReport {
        self.launcher.next_report()
    }

    fn escalate(&mut self, from: SignalRung) {
        self.launcher.escalate(from);
    }

    fn release(self: Box<Self>) {
        self.launcher.release();
    }
}

/// Finds the best available control group for the run.
fn find_group(
    roots: &KernelRoots,
    spec: &RunSpec,
    id: RunId,
    launcher: u32,
) -> Result<RunCgroup, MissingReason> {
    if spec.accounting == AccountingMode::Wait4 {
        return Err(MissingReason::without_fix("it was asked for"));
    }
    let name = group_owner::group_name(roots, id);
    let mut group = RunCgroup::create(&CgroupMembership::read(&roots.proc, "self"), &name);
    if needs_scope(&group) {
        match (systemd_scope::create_scope(&roots.proc, &name, launcher), &mut group) {
            (Ok(scope), lesser) => {
                lesser.iter_mut().for_each(RunCgroup::remove_folders);
                return Ok(scope);
            }
            // The reason why systemd gave none is the one that the user can fix.
            (Err(missing), Err(_)) => return Err(missing),
            (Err(_), Ok(_)) => {}
        }
    }
    group
}

/// Whether systemd may offer a better group: there is none, or one that does not account memory.
fn needs_scope(group: &Result<RunCgroup, MissingReason>) -> bool {
    // SAFETY: takes no arguments and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    let lacks = group.as_ref().map_or(true, |group| group.v1.is_empty() && !group.has_v2_memory());
    lacks && !is_root
}

pub(crate) fn start_error(command: &str, stage: StartStage, errno: i32) -> Error {
    let reason = io::Error::from_raw_os_error(errno);
    let command = command.to_string();
    match stage {
        StartStage::Exec if errno == libc::ENOENT => Error::NotFound { command },
        StartStage::Exec => Error::NotExecutable { command, reason },
        StartStage::Join => Error::Join { reason },
        StartStage::Fork => Error::Launcher { doing: "starting the command", reason },
    }
}

pub(crate) fn launcher_lost_error(doing: &'static str) -> Error {
    Error::Launcher { doing, reason: io::Error::new(io::ErrorKind::BrokenPipe, "it went away") }
}
