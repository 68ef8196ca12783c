//! Starts the launcher and exchanges packets with it. `crates/metier-launch/src/main.rs` documents
//! what the launcher does.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use crate::observer::ObserverProvision;
use crate::running_target::{ProcessUsage, SignalRung, StartStage, TargetReport};
use crate::{CommandSpec, Error, RunSpec};
use metier_linux::open_files;

/// The launcher's program file, built by `build.rs`.
pub(crate) static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/metier-launch"));

/// The launcher's program as an executable file; created once, used for all repetitions.
pub struct LauncherProgram {
    path: PathBuf,
    /// Keeps the memory file open, if there is one.
    _file: Option<File>,
    /// Whether the program is a file on disk.
    on_disk: bool,
}

impl LauncherProgram {
    /// Writes the program into a memory file, or into a private file if the kernel refuses to
    /// execute memory files.
    pub fn create(fallback: &Path) -> Result<Self, Error> {
        let fail = |reason| Error::Launcher { doing: "making its program file", reason };
        // SAFETY: the name is NUL-terminated; the flag is a plain number.
        let fd = unsafe { libc::memfd_create(c"metier-launch".as_ptr(), libc::MFD_CLOEXEC) };
        if fd >= 0 && !is_memfd_exec_refused() {
            // SAFETY: the descriptor was just created and has no other owner.
            let file = unsafe { File::from_raw_fd(fd) };
            let mut file = File::from(duplicate_high(&file).map_err(fail)?);
            file.write_all(PROGRAM).map_err(fail)?;
            let fd = file.as_raw_fd();
            return Ok(Self {
                path: format!("/proc/self/fd/{fd}").into(),
                _file: Some(file),
                on_disk: false,
            });
        }
        std::fs::create_dir_all(fallback).map_err(fail)?;
        let path = fallback.join(format!("metier-launch-{}", std::process::id()));
        std::fs::write(&path, PROGRAM).map_err(fail)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).map_err(fail)?;
        Ok(Self { path, _file: None, on_disk: true })
    }
}

impl Drop for LauncherProgram {
    fn drop(&mut self) {
        if self.on_disk {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Whether this kernel refuses to execute memory files (`vm.memfd_noexec`).
fn is_memfd_exec_refused() -> bool {
    metier_linux::kernel_file::read_number("/proc/sys/vm/memfd_noexec").is_some_and(|value| value >= 1)
}

/// A launcher that waits for its orders, or supervises a command.
pub struct LauncherProcess {
    /// The child process; `None` if the launcher is the first process of a container.
    child: Option<Child>,
    pid: u32,
    socket: OwnedFd,
}

impl LauncherProcess {
    /// Starts the launcher, which then waits for orders. The command will start with the signals of
    /// `mask` blocked.
    pub fn spawn(
        program: &LauncherProgram,
        command: &CommandSpec,
        spec: &RunSpec,
        mask: u64,
        provision: &ObserverProvision,
    ) -> Result<Self, Error> {
        let fail = |doing| move |reason| Error::Launcher { doing, reason };
        if let Some(folder) = spec.working_directory.as_deref().filter(|folder| !folder.is_dir()) {
            let got = folder.display().to_string();
            return Err(Error::Spec { field: "workdir", got, want: "a folder that exists" });
        }
        let (ours, theirs) = socket_pair().map_err(fail("making its socket"))?;
        let mut start = std::process::Command::new(&program.path);
        start
            .arg(theirs.as_raw_fd().to_string())
            .arg(spec.grace.as_millis().to_string())
            .arg(mask.to_string())
            .arg("--")
            .arg(&command.program)
            .args(&command.arguments)
            .envs(provision.environment.iter().map(|(name, value)| (name, value)))
            .envs(spec.environment.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &spec.working_directory {
            start.current_dir(folder);
        }
        open_files::restore_limit_for(&mut start);
        let copies =
            pass_descriptors(&mut start, &provision.descriptors).map_err(fail("handing down descriptors"))?;
        let child = start.spawn().map_err(fail("starting it"))?;
        drop(copies);
        Ok(Self { pid: child.id(), child: Some(child), socket: ours })
    }

    /// A launcher that another program started and that waits for orders at the other end of a
    /// socket.
    pub fn from_socket(socket: OwnedFd, pid: u32) -> Self {
        Self { child: None, pid, socket }
    }

    /// Starts a launcher that supervises a control group filled by another program.
    pub fn spawn_watcher(program: &LauncherProgram, grace: Duration) -> Result<Self, Error> {
        let fail = |doing| move |reason| Error::Launcher { doing, reason };
        let (ours, theirs) = socket_pair().map_err(fail("making its socket"))?;
        let mut start = std::process::Command::new(&program.path);
        start.arg(theirs.as_raw_fd().to_string()).arg(grace.as_millis().to_string()).args(["0", "--", ""]);
        // In a process group of its own: otherwise a terminal's interrupt would end it before it
        // has cleaned up.
        let child = start.process_group(0).spawn().map_err(fail("starting it"))?;
        Ok(Self { pid: child.id(), child: Some(child), socket: ours })
    }

    pub fn start_watching(&self) -> Result<(), Error> {
        self.send_packet(b"W")
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The descriptor that becomes readable when a report is available.
    pub fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Sends orders about files and folders.
    pub fn send_path_orders(&self, orders: &[(u8, PathBuf)]) -> Result<(), Error> {
        let bytes = orders.iter().map(|(order, path)| (*order, OsStr::as_bytes(path.as_os_str()).to_vec()));
        self.send_orders(&bytes.collect::<Vec<_>>())
    }

    /// Sends the orders that precede the start.
    pub fn send_orders(&self, orders: &[(u8, Vec<u8>)]) -> Result<(), Error> {
        for (order, rest) in orders {
            let mut packet = vec![*order, b' '];
            packet.extend(rest);
            self.send_packet(&packet)?;
        }
        Ok(())
    }

    /// Lets the command start.
    pub fn start(&self) -> Result<(), Error> {
        self.send_packet(b"G")
    }

    /// Starts the signal ladder, or advances it.
    pub fn escalate(&self, from: SignalRung) {
        let order = match from {
            SignalRung::Interrupt => b"I",
            SignalRung::Terminate => b"T",
            SignalRung::Kill => b"X",
        };
        // A launcher that has ended has already cleaned up.
        let _ = self.send_packet(order);
    }

    /// Receives the next report.
    pub fn next_report(&self) -> TargetReport {
        let mut words = [0u64; 14];
        let size = std::mem::size_of_val(&words);
        let got = loop {
            // SAFETY: the buffer is local and its size is passed.
            let got = unsafe { libc::recv(self.socket.as_raw_fd(), words.as_mut_ptr().cast(), size, 0) };
            if got >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                break got;
            }
        };
        if got != size as isize {
            return TargetReport::Lost;
        }
        decode_report(&words)
    }

    /// Tells the launcher to clean up and exit.
    pub fn release(mut self) {
        let _ = self.send_packet(b"B");
        if let Some(child) = &mut self.child {
            let _ = child.wait();
        }
    }

    fn send_packet(&self, packet: &[u8]) -> Result<(), Error> {
        // SAFETY: the packet is valid for its length.
        let sent = unsafe {
            libc::send(self.socket.as_raw_fd(), packet.as_ptr().cast(), packet.len(), libc::MSG_NOSIGNAL)
        };
        if sent == packet.len() as isize {
            Ok(())
        } else {
            Err(Error::Launcher { doing: "giving it orders", reason: io::Error::last_os_error() })
        }
    }
}

/// Makes the next started program inherit descriptors under the requested numbers; no other program
/// inherits them. The returned copies must live until the start.
fn pass_descriptors(
    start: &mut std::process::Command,
    descriptors: &[(RawFd, OwnedFd)],
) -> io::Result<Vec<OwnedFd>> {
    // Copy to numbers above the requested ones, so that no dup2 overwrites a descriptor that is
    // still needed.
    let mut copies = Vec::with_capacity(descriptors.len());
    for (_, descriptor) in descriptors {
        copies.push(duplicate_high(descriptor)?);
    }
    if descriptors.is_empty() {
        return Ok(copies);
    }
    let pairs: Vec<(RawFd, RawFd)> =
        copies.iter().zip(descriptors).map(|(copy, (number, _))| (copy.as_raw_fd(), *number)).collect();
    let keep = move || {
        for (copy, number) in &pairs {
            // SAFETY: dup2 passes no memory and may be called between fork and exec.
            if unsafe { libc::dup2(*copy, *number) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: the closure allocates nothing and takes no locks.
    unsafe { start.pre_exec(keep) };
    Ok(copies)
}

/// A copy of a descriptor above all numbers that observers request; not inherited.
fn duplicate_high(descriptor: &impl AsRawFd) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers; the new descriptor is checked before it is owned.
    unsafe {
        let copy = libc::fcntl(descriptor.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 100);
        if copy < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(copy)) }
    }
}

fn decode_report(words: &[u64; 14]) -> TargetReport {
    let [kind, pid, status, time_ns, own_cpu_ns, usage @ ..] = *words;
    let used = ProcessUsage {
        user_us: usage[0],
        system_us: usage[1],
        max_rss_kib: usage[2],
        minor_faults: usage[3],
        major_faults: usage[4],
        blocks_in: usage[5],
        blocks_out: usage[6],
        voluntary_switches: usage[7],
        involuntary_switches: usage[8],
    };
    match kind {
        1 => TargetReport::Started { pid: pid as u32, time_ns },
        2 => TargetReport::MainEnded { status: status as i32, time_ns },
        3 => TargetReport::Rung { signal: status as i32 },
        4 => TargetReport::Gone { stuck: status, time_ns, own_cpu_ns, used: Some(used) },
        16 => TargetReport::Failed { stage: StartStage::Fork, errno: status as i32 },
        17 => TargetReport::Failed { stage: StartStage::Join, errno: status as i32 },
        18 => TargetReport::Failed { stage: StartStage::Exec, errno: status as i32 },
        _ => TargetReport::Lost,
    }
}

/// A pair of packet sockets; the next started program inherits the second.
fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: the array has room for two descriptors, which have no other owner.
    unsafe {
        if libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0, fds.as_mut_ptr())
            != 0
        {
            return Err(io::Error::last_os_error());
        }
        let pair = (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1]));
        let theirs = duplicate_high(&pair.1)?;
        if libc::fcntl(theirs.as_raw_fd(), libc::F_SETFD, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((pair.0, theirs))
    }
}
