//! A run observer that receives application messages.
//!
//! Its files live in a folder of the run below the session's private folder. The folder's name
//! contains the owner, so that the next start removes the folders of a killed process.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use metier_types::{MissingReason, Run, RunId, Series};

use super::listener::{CONTAINER_FOLDER, RunMessageListener};
use super::{AppRecord, MemberProcesses};
use crate::observer::{ArtefactKeeper, ObserverProvision, RunObserver, StartedRun};
use crate::spec::{BindMount, ListenSources, RunTarget};
use crate::{MeasureOptions, RunSpec};
use metier_linux::cgroup::{CgroupMeter, CgroupTotals, RunCgroup};
use metier_linux::{KernelRoots, group_owner, wakeup};

/// Number of the descriptor that a command inherits; shells accept only one digit.
const COMMAND_DESCRIPTOR: i32 = 3;
/// The folder's path in a container if a mount of the user occupies [`CONTAINER_FOLDER`].
const FALLBACK_CONTAINER_FOLDER: &str = "/run/metier";
/// Minimum distance of time line rows.
const ROW_INTERVAL: Duration = Duration::from_millis(100);
/// The variable with pywaggle's log folder.
const LOG_VARIABLE: &str = "PYWAGGLE_LOG_DIR";

/// Receives the application messages of a run.
pub struct AppObserver {
    ways: ListenSources,
    above: PathBuf,
    roots: KernelRoots,
    listening: Option<RunMessageListener>,
    /// The CPU counter of the run's control group.
    cpu: Option<CgroupMeter>,
    record: AppRecord,
    rows: Vec<Series>,
    started_ns: u64,
    next_row: Duration,
    is_asked: bool,
}

impl AppObserver {
    /// An observer for one run; its folders are created below the session's private folder.
    pub fn new(ways: &ListenSources, options: &MeasureOptions) -> Self {
        Self {
            ways: ways.clone(),
            above: options.runtime_dir.join("listen"),
            roots: options.roots.clone(),
            listening: None,
            cpu: None,
            record: AppRecord::default(),
            rows: Vec::new(),
            started_ns: 0,
            next_row: Duration::ZERO,
            is_asked: false,
        }
    }

    fn start_listener(&mut self, run: RunId, elsewhere: Option<&Path>) -> io::Result<RunMessageListener> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.above)?;
        remove_ownerless_folders(&self.above, &self.roots);
        let folder = self.above.join(group_owner::group_name(&self.roots, run));
        RunMessageListener::start(&self.ways, &folder, run, elsewhere)
    }
}

impl RunObserver for AppObserver {
    fn prepare(&mut self, run: RunId, spec: &RunSpec, provision: &mut ObserverProvision) {
        self.is_asked = true;
        let is_command = matches!(spec.target, RunTarget::Command(_));
        let given = spec.environment.iter().find(|(name, _)| name == LOG_VARIABLE);
        let given = given.map(|(_, folder)| PathBuf::from(folder));
        let own = || std::env::var_os(LOG_VARIABLE).filter(|_| is_command).map(PathBuf::from);
        let elsewhere = match given {
            Some(_) if !is_command && self.ways.pywaggle => {
                let reason = format!("{LOG_VARIABLE} names a folder inside the container");
                let fix = format!("leave {LOG_VARIABLE} out of the environment");
                self.record.problems.push(("pywaggle".into(), MissingReason::with_fix(reason, fix)));
                None
            }
            Some(folder) => Some(folder),
            None => own(),
        };
        let elsewhere = elsewhere.filter(|folder| folder.is_absolute());
        let listening = match self.start_listener(run, elsewhere.as_deref()) {
            Ok(listening) => listening,
            Err(error) => {
                let reason =
                    format!("no message source can be created in {} ({error})", self.above.display());
                let fix = "set XDG_RUNTIME_DIR to a writable folder";
                self.record.problems.push(("listening".into(), MissingReason::with_fix(reason, fix)));
                return;
            }
        };
        if is_command {
            provision.environment.extend(listening.environment(listening.folder()));
            let writer: Option<io::Result<OwnedFd>> = listening.writer().map(|end| end.try_clone_to_owned());
            if let Some(Ok(writer)) = writer {
                provision.environment.push(("METIER_FD".into(), COMMAND_DESCRIPTOR.to_string()));
                provision.descriptors.push((COMMAND_DESCRIPTOR, writer));
            }
        } else {
            let is_taken = |path: &str| spec.mounts.iter().any(|mount| mount.target == Path::new(path));
            let seen = PathBuf::from(if is_taken(CONTAINER_FOLDER) {
                FALLBACK_CONTAINER_FOLDER
            } else {
                CONTAINER_FOLDER
            });
            provision.environment.extend(listening.environment(&seen));
            let source = listening.folder().to_path_buf();
            provision.mounts.push(BindMount { source, target: seen, read_only: false });
        }
        self.listening = Some(listening);
    }

    fn on_started(&mut self, started: StartedRun<'_>) {
        self.started_ns = started.started_ns;
        self.cpu = started.group.map(|group| CgroupMeter::open(group, &CgroupTotals::default()));
        let Some(listening) = &mut self.listening else { return };
        let first = started.pids.first().copied();
        let members = match (started.group, first) {
            (Some(group), _) => MemberProcesses::of_group(group),
            (None, Some(process)) => MemberProcesses::Family(process),
            // Without a control group, the launcher, a child of this process, is the ancestor of
            // every process of the run.
            (None, None) => MemberProcesses::Family(std::process::id()),
        };
        let process = first.or_else(|| started.group.and_then(|group| group.list_members().first().copied()));
        listening.admit_members(members, process, &self.roots.proc);
    }

    fn on_sample(&mut self, since_start: Duration, _group: Option<&RunCgroup>) {
        if let Some(listening) = self.listening.as_mut().filter(|_| since_start >= self.next_row) {
            let cpu_ns = self.cpu.as_mut().and_then(|cpu| cpu.sample(false).cpu_ns);
            listening.add_row(since_start, cpu_ns);
            self.next_row = since_start + ROW_INTERVAL;
        }
    }

    fn take_series(&mut self) -> Vec<Series> {
        let fresh = self.listening.as_mut().and_then(RunMessageListener::take_rows);
        std::mem::take(&mut self.rows).into_iter().chain(fresh).collect()
    }

    fn on_ended(&mut self, _group: Option<&RunCgroup>) {
        let Some(listening) = self.listening.take() else { return };
        let at = Duration::from_nanos(wakeup::monotonic_ns().saturating_sub(self.started_ns));
        let cpu_ns = self.cpu.as_mut().and_then(|cpu| cpu.sample(false).cpu_ns);
        let (mut record, rows) = listening.finish(at, cpu_ns);
        record.problems.append(&mut self.record.problems);
        self.record = record;
        self.rows.extend(rows);
    }

    fn on_cancelled(&mut self) {
        self.listening = None;
    }

    fn on_finish(&mut self, run: &mut Run, _keep: &mut ArtefactKeeper<'_>) {
        if !self.is_asked {
            let reason = "the run was on another machine than metier";
            let fix = "run metier on the node, or choose the node that it is on";
            run.missing.insert("stages".into(), MissingReason::with_fix(reason, fix));
            return;
        }
        std::mem::take(&mut self.record).write_into(run);
    }
}

/// Removes folders whose owner process has ended.
fn remove_ownerless_folders(above: &Path, roots: &KernelRoots) {
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        if group_owner::has_dead_owner(roots, &entry.file_name().to_string_lossy()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
