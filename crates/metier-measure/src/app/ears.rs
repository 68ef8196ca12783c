//! Listening as one who looks on at a run: asked before the start, told who belongs to it, and heard before the record
//! is finished.
//!
//! Everything lives in a folder of the run's own below the session's private one. Its name tells whose it is, so that the next
//! start removes what a killed predecessor left.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use metier_types::{Missing, Run, RunId, Series};

use super::listening::{INSIDE, Listening};
use super::{Heard, Members};
use crate::observer::{Keep, Observer, Provision, Started};
use crate::spec::{ListenSources, Mount, Target};
use crate::{Options, Spec};
use metier_linux::cgroup::Group;
use metier_linux::{Roots, group_owner, wake};

/// The number of the descriptor that a command inherits; shells take only one digit.
const DESCRIPTOR: i32 = 3;
/// Where a container sees our folder when [`INSIDE`] is taken by a mount of the user.
const BESIDE: &str = "/run/metier";
/// Rows of the time line are not closer than this.
const ROW_EVERY: Duration = Duration::from_millis(100);
/// The variable by which pywaggle knows its log folder.
const LOG_VARIABLE: &str = "PYWAGGLE_LOG_DIR";

/// Listens to a run.
pub struct Ears {
    ways: ListenSources,
    above: PathBuf,
    roots: Roots,
    listening: Option<Listening>,
    heard: Heard,
    rows: Vec<Series>,
    started_ns: u64,
    next_row: Duration,
    is_asked: bool,
}

impl Ears {
    /// For one run; folders are made below the session's private one.
    pub fn new(ways: &ListenSources, options: &Options) -> Self {
        Self {
            ways: ways.clone(),
            above: options.runtime_dir.join("listen"),
            roots: options.roots.clone(),
            listening: None,
            heard: Heard::default(),
            rows: Vec::new(),
            started_ns: 0,
            next_row: Duration::ZERO,
            is_asked: false,
        }
    }

    fn start(&mut self, run: RunId, elsewhere: Option<&Path>) -> io::Result<Listening> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.above)?;
        sweep(&self.above, &self.roots);
        let folder = self.above.join(group_owner::group_name(&self.roots, run));
        Listening::start(&self.ways, &folder, run, elsewhere)
    }
}

impl Observer for Ears {
    fn prepare(&mut self, run: RunId, spec: &Spec, provision: &mut Provision) {
        self.is_asked = true;
        let is_command = matches!(spec.target, Target::Command(_));
        let given = spec.environment.iter().find(|(name, _)| name == LOG_VARIABLE);
        let given = given.map(|(_, folder)| PathBuf::from(folder));
        let own = || std::env::var_os(LOG_VARIABLE).filter(|_| is_command).map(PathBuf::from);
        let elsewhere = match given {
            Some(_) if !is_command && self.ways.pywaggle => {
                let reason = format!("{LOG_VARIABLE} names a folder inside of the container");
                let fix = format!("leave {LOG_VARIABLE} out of the environment");
                self.heard.problems.push(("pywaggle".into(), Missing::fixable(reason, fix)));
                None
            }
            Some(folder) => Some(folder),
            None => own(),
        };
        let elsewhere = elsewhere.filter(|folder| folder.is_absolute());
        let listening = match self.start(run, elsewhere.as_deref()) {
            Ok(listening) => listening,
            Err(error) => {
                let reason = format!("nothing can be listened to in {} ({error})", self.above.display());
                let fix = "set XDG_RUNTIME_DIR to a folder that can be written";
                self.heard.problems.push(("listening".into(), Missing::fixable(reason, fix)));
                return;
            }
        };
        if is_command {
            provision.environment.extend(listening.environment(listening.folder()));
            let writer: Option<io::Result<OwnedFd>> = listening.writer().map(|end| end.try_clone_to_owned());
            if let Some(Ok(writer)) = writer {
                provision.environment.push(("METIER_FD".into(), DESCRIPTOR.to_string()));
                provision.descriptors.push((DESCRIPTOR, writer));
            }
        } else {
            let is_taken = |path: &str| spec.mounts.iter().any(|mount| mount.target == Path::new(path));
            let seen = PathBuf::from(if is_taken(INSIDE) { BESIDE } else { INSIDE });
            provision.environment.extend(listening.environment(&seen));
            let source = listening.folder().to_path_buf();
            provision.mounts.push(Mount { source, target: seen, read_only: false });
        }
        self.listening = Some(listening);
    }

    fn started(&mut self, started: Started<'_>) {
        self.started_ns = started.started_ns;
        let Some(listening) = &mut self.listening else { return };
        let first = started.pids.first().copied();
        let members = match (started.group, first) {
            (Some(group), _) => Members::of_group(group),
            (None, Some(process)) => Members::Family(process),
            // Without a group the launcher, a child of ours, is above every process of the run.
            (None, None) => Members::Family(std::process::id()),
        };
        let process = first.or_else(|| started.group.and_then(|group| group.members().first().copied()));
        listening.open(members, process, &self.roots.proc);
    }

    fn tick(&mut self, since_start: Duration, _group: Option<&Group>) {
        if let Some(listening) = self.listening.as_mut().filter(|_| since_start >= self.next_row) {
            listening.tick(since_start);
            self.next_row = since_start + ROW_EVERY;
        }
    }

    fn series(&mut self) -> Vec<Series> {
        let fresh = self.listening.as_mut().and_then(Listening::rows);
        std::mem::take(&mut self.rows).into_iter().chain(fresh).collect()
    }

    fn ended(&mut self, _group: Option<&Group>) {
        let Some(listening) = self.listening.take() else { return };
        let at = Duration::from_nanos(wake::monotonic_ns().saturating_sub(self.started_ns));
        let (mut heard, rows) = listening.finish(at);
        heard.problems.append(&mut self.heard.problems);
        self.heard = heard;
        self.rows.extend(rows);
    }

    fn cancelled(&mut self) {
        self.listening = None;
    }

    fn finish(&mut self, run: &mut Run, _keep: &mut Keep<'_>) {
        if !self.is_asked {
            let reason = "the run was on another machine than metier";
            let fix = "run metier on the node, or choose the node that it is on";
            run.missing.insert("stages".into(), Missing::fixable(reason, fix));
            return;
        }
        std::mem::take(&mut self.heard).write(run);
    }
}

/// Removes folders whose owner is gone.
fn sweep(above: &Path, roots: &Roots) {
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        if group_owner::is_ownerless(roots, &entry.file_name().to_string_lossy()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
