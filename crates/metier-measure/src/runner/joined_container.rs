//! A container whose first process is metier's launcher. Another component (a kubelet) creates the
//! container, the launcher in it connects to metier's [`LauncherEndpoint`], and is then used like
//! the launcher of a command.
//!
//! The endpoint is a folder that is mounted into the container, with the launcher's program, which
//! needs no libraries, and a socket. The launcher waits for its orders, so the container's control
//! group can be read before the first instruction of the command. It stays until released, so
//! group, files and exit status are available after the last instruction. The previous use of the
//! runtime in the group, and the launcher's own use, are not part of the run.
//!
//! A launcher is authorised by the socket's kernel credentials, and only one is accepted: a second
//! container with the same mount is rejected.
//!
//! Limits: the command is not process 1 of its container but a child of it, as with `docker run
//! --init`. The group's memory peak is reset on cgroup v1. Version 2 offers no reset here, so its
//! peak may be that of the runtime's start (about 10 MB) if the run itself used less.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use metier_types::AccountingMethod;

use super::command::start_error;
use crate::launcher::{self, LauncherProcess};
use crate::running_target::{FileSink, PreparedRun, RunningTarget, SignalRung, TargetOutcome, TargetReport};
use crate::target_facts::TargetFacts;
use crate::{Error, artefacts};
use metier_linux::cgroup::{CgroupMembership, CgroupTotals, GroupFolders, RunCgroup};
use metier_linux::process_events::ProcessRoot;
use metier_linux::{KernelRoots, packet_socket, wakeup};

/// The launcher's file in the folder of a [`LauncherEndpoint`].
pub const LAUNCHER_NAME: &str = "launch";
/// The socket's file in the folder of a [`LauncherEndpoint`].
pub const SOCKET_NAME: &str = "socket";

/// The endpoint that launchers in containers connect to.
#[derive(Debug)]
pub struct LauncherEndpoint {
    folder: PathBuf,
    socket: OwnedFd,
}

/// The launcher's program, for containers that no folder can be mounted into; it is then run with
/// `--pod`.
pub fn launcher_program() -> &'static [u8] {
    launcher::PROGRAM
}

impl LauncherEndpoint {
    /// Writes the launcher's program into a folder, which is created if needed.
    pub fn install_launcher(folder: &Path) -> Result<(), Error> {
        let fail = |reason| Error::Launcher { doing: "writing its program into the mounted folder", reason };
        fs::create_dir_all(folder).map_err(fail)?;
        // The container may run as any user.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).map_err(fail)?;
        let program = folder.join(LAUNCHER_NAME);
        fs::write(&program, launcher::PROGRAM).map_err(fail)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).map_err(fail)
    }

    /// Listens in a folder that [`LauncherEndpoint::install_launcher`] has prepared.
    pub fn listen(folder: &Path) -> Result<Self, Error> {
        let fail = |reason| Error::Launcher { doing: "opening a socket for it", reason };
        let path = folder.join(SOCKET_NAME);
        let socket = packet_socket::listen(&path).map_err(fail)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).map_err(fail)?;
        Ok(Self { folder: folder.into(), socket })
    }

    /// The folder to mount.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Readable when a launcher has connected.
    pub fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Accepts the connected launcher if the path of one of its control groups contains one of
    /// `words` (any launcher if `words` is empty). Others are rejected.
    pub fn accept_launcher(&self, roots: &KernelRoots, words: &[&str]) -> Option<JoinedContainer> {
        let (socket, peer) = packet_socket::accept(self.socket.as_fd()).ok()?;
        let pid = Some(peer.pid).filter(|pid| *pid > 0)?;
        let groups = fs::read_to_string(roots.proc.join(pid.to_string()).join("cgroup")).ok()?;
        if !words.is_empty() && !words.iter().any(|word| groups.contains(word)) {
            return None;
        }
        Some(JoinedContainer {
            launcher: LauncherProcess::from_socket(socket, pid),
            roots: roots.clone(),
            about: TargetFacts::default(),
            program: None,
            lost: false,
        })
    }
}

impl Drop for LauncherEndpoint {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.folder.join(SOCKET_NAME));
    }
}

/// A container whose launcher waits for the start.
pub struct JoinedContainer {
    launcher: LauncherProcess,
    roots: KernelRoots,
    /// Facts for the record: image, pod, limits.
    pub about: TargetFacts,
    /// Name of the program, for messages.
    pub program: Option<String>,
    lost: bool,
}

impl JoinedContainer {
    /// The launcher's PID on this host; the command is below it.
    pub fn pid(&self) -> u32 {
        self.launcher.pid()
    }

    /// Converts it for [`crate::MeasureSession::measure_foreign`].
    pub fn into_prepared_run(mut self) -> PreparedRun {
        let place = CgroupMembership::read(&self.roots.proc, &self.pid().to_string());
        let group = RunCgroup::from_existing(GroupFolders { v2: place.v2, v1: place.v1 });
        group.reset_peak();
        let mut about = std::mem::take(&mut self.about);
        about.method.get_or_insert(AccountingMethod::Container);
        if about.working_directory.is_none() {
            let link = self.proc_path("cwd");
            about.working_directory =
                fs::read_link(link).ok().map(|path| path.to_string_lossy().into_owned());
        }
        PreparedRun {
            baseline: Some(CgroupTotals::read(&group)),
            group: Ok(group),
            root: ProcessRoot::DescendantsOf(self.pid()),
            about,
            is_fleeting: true,
            has_own_limit: true,
            body: Box::new(self),
        }
    }

    fn proc_path(&self, name: &str) -> PathBuf {
        self.roots.proc.join(self.pid().to_string()).join(name)
    }
}

impl RunningTarget for JoinedContainer {
    fn start(&mut self) -> Result<u64, Error> {
        self.launcher.start()?;
        let detail = match self.launcher.next_report() {
            TargetReport::Started { time_ns, .. } => return Ok(time_ns),
            TargetReport::Failed { stage, errno } => {
                let program = self.program.as_deref().unwrap_or("its command");
                let error = start_error(program, stage, errno);
                format!("its image does not contain the program: {error}")
            }
            _ => "its container disappeared at its start".to_string(),
        };
        Err(Error::Unstarted { detail, about: Box::default(), stop: None })
    }

    fn descriptor(&self) -> RawFd {
        self.launcher.descriptor()
    }

    fn next_report(&mut self) -> TargetReport {
        match self.launcher.next_report() {
            TargetReport::Lost => {
                // The first process of the container has ended, and with it all others.
                self.lost = true;
                TargetReport::Gone { stuck: 0, time_ns: wakeup::monotonic_ns(), own_cpu_ns: 0, used: None }
            }
            report => report,
        }
    }

    fn escalate(&mut self, from: SignalRung) {
        self.launcher.escalate(from);
    }

    fn take_outcome(&mut self) -> TargetOutcome {
        TargetOutcome { lost: self.lost, ..TargetOutcome::default() }
    }

    fn receives_terminal_signals(&self) -> bool {
        false
    }

    fn is_supervisor_in_group(&self) -> bool {
        true
    }

    fn export_files(&mut self, patterns: &[String], sink: &mut FileSink<'_>) -> Option<Result<(), String>> {
        Some(export_container_files(&self.proc_path("root"), &self.proc_path("cwd"), patterns, sink))
    }

    fn release(self: Box<Self>) {
        self.launcher.release();
    }
}

/// Emits files as a process with this root and working directory sees them. A thread enters that
/// root, so that symbolic links in the container resolve inside the container and never on this
/// host.
fn export_container_files(
    root: &Path,
    cwd: &Path,
    patterns: &[String],
    sink: &mut FileSink<'_>,
) -> Result<(), String> {
    let fail =
        |what: &str, error: io::Error| format!("the container's files cannot be read: {what}: {error}");
    let folder = |path: &Path| File::open(path).map_err(|error| fail(&path.display().to_string(), error));
    let (root, cwd) = (folder(root)?, folder(cwd)?);
    std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::sync_channel::<Result<(String, File), String>>(4);
        scope.spawn(move || {
            if let Err(error) = enter_root(&root, &cwd) {
                let _ = sender.send(Err(fail("entering its root", error)));
                return;
            }
            let base = std::env::current_dir().unwrap_or_else(|_| "/".into());
            for pattern in patterns {
                let found = artefacts::find_files(&base, pattern);
                if found.is_empty()
                    && sender.send(Err(format!("no file matches {pattern}, so none was kept"))).is_err()
                {
                    return;
                }
                for (name, path) in found {
                    let file =
                        File::open(&path).map_err(|error| format!("{name} could not be read: {error}"));
                    if sender.send(file.map(|file| (name, file))).is_err() {
                        return;
                    }
                }
            }
        });
        let mut troubles = Vec::new();
        for found in receiver {
            match found {
                Ok((name, mut file)) => {
                    if !sink(&name, &mut file) {
                        break;
                    }
                }
                Err(trouble) => troubles.push(trouble),
            }
        }
        if troubles.is_empty() { Ok(()) } else { Err(troubles.join("; ")) }
    })
}

/// Changes root and working directory of the calling thread until its end.
fn enter_root(root: &File, cwd: &File) -> io::Result<()> {
    let done = |result: libc::c_int| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: the descriptors are open and the string is NUL-terminated; the first call gives the
    // thread its own file system attributes.
    unsafe {
        done(libc::unshare(libc::CLONE_FS))?;
        done(libc::fchdir(root.as_raw_fd()))?;
        done(libc::chroot(c".".as_ptr()))?;
        done(libc::fchdir(cwd.as_raw_fd()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_a_container_lead_nowhere_outside_of_it() {
        // SAFETY: takes no arguments and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            eprintln!("SKIP: not root, so no other root can be entered");
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        fs::create_dir_all(root.join("work/deep")).unwrap();
        fs::create_dir_all(root.join("etc")).unwrap();
        fs::write(place.path().join("secret"), "ours").unwrap();
        fs::write(root.join("etc/name"), "theirs").unwrap();
        fs::write(root.join("work/deep/a.csv"), "1").unwrap();
        std::os::unix::fs::symlink("/etc/name", root.join("work/absolute.csv")).unwrap();
        std::os::unix::fs::symlink(place.path().join("secret"), root.join("work/out.csv")).unwrap();
        std::os::unix::fs::symlink("../../secret", root.join("work/up.csv")).unwrap();
        let mut found = Vec::new();
        let patterns = ["*.csv".to_string(), "/work/**/a.csv".to_string(), "none*".to_string()];
        let result = export_container_files(&root, &root.join("work"), &patterns, &mut |name, content| {
            let mut text = String::new();
            content.read_to_string(&mut text).unwrap();
            found.push((name.to_string(), text));
            true
        });
        assert_eq!(
            found,
            [("absolute.csv", "theirs"), ("/work/deep/a.csv", "1")]
                .map(|(a, b)| (a.to_string(), b.to_string()))
        );
        assert!(result.unwrap_err().contains("none*"));
    }
}
