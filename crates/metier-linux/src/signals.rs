//! Signals that ask this program to stop, taken as a descriptor so that a loop can wait for them,
//! or left pending and looked at.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

const BLOCKED_SIGNALS: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
/// Those of them that ask a batch of runs to stop.
const STOPPING: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

fn set_of(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: the set is plain data that the calls fill.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in signals {
            libc::sigaddset(&mut set, *signal);
        }
        set
    }
}

/// Lets this thread get them again; may be called between fork and exec.
pub fn unblock() {
    // SAFETY: the set is plain data.
    unsafe { libc::sigprocmask(libc::SIG_UNBLOCK, &set_of(&BLOCKED_SIGNALS), std::ptr::null_mut()) };
}

/// Whether a blocked signal waits that asks to stop.
pub fn is_stop_pending() -> bool {
    // SAFETY: the set is plain data that the call fills.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigpending(&mut set) == 0 && STOPPING.iter().any(|signal| libc::sigismember(&set, *signal) == 1)
    }
}

/// Takes pending signals, so that unblocking them later does not end the process; true if there was
/// one.
pub fn take_pending_stop() -> bool {
    let is_pending = is_stop_pending();
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let set = set_of(&STOPPING);
    // SAFETY: only signals that are pending and blocked are taken.
    while is_pending && unsafe { libc::sigtimedwait(&set, std::ptr::null_mut(), &now) } > 0 {}
    is_pending
}

/// A signal that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedSignal {
    pub signal: i32,
    /// Whether the terminal sent it, and so to the command as well.
    pub from_terminal: bool,
}

/// INT, TERM, HUP and QUIT, blocked for this thread and those it starts, until dropped.
pub struct StopSignals {
    fd: OwnedFd,
    before: libc::sigset_t,
}

impl StopSignals {
    pub fn take() -> io::Result<Self> {
        let set = set_of(&BLOCKED_SIGNALS);
        // SAFETY: the old set is plain data that the call fills; the descriptor is checked before
        // it is owned.
        unsafe {
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut before);
            let fd = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Self { fd: OwnedFd::from_raw_fd(fd), before })
        }
    }

    /// The descriptor to wait on.
    pub fn descriptor(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// What was blocked before we came, and is to be blocked for commands: bit n-1 for signal n.
    pub fn previous_mask(&self) -> u64 {
        // SAFETY: the set was filled by the kernel.
        let is_blocked = |signal: i32| unsafe { libc::sigismember(&self.before, signal) == 1 };
        (1..=64).filter(|signal| is_blocked(*signal)).fold(0, |mask, signal| mask | 1 << (signal - 1))
    }

    /// The next one that has come.
    pub fn next(&self) -> Option<ReceivedSignal> {
        // SAFETY: the structure is plain data, its size is passed, and it is used only when filled
        // whole.
        unsafe {
            let mut info: libc::signalfd_siginfo = std::mem::zeroed();
            let size = size_of::<libc::signalfd_siginfo>();
            let got = libc::read(self.fd.as_raw_fd(), (&raw mut info).cast(), size);
            (got == size as isize).then_some(ReceivedSignal {
                signal: info.ssi_signo as i32,
                from_terminal: info.ssi_code == libc::SI_KERNEL,
            })
        }
    }
}

impl Drop for StopSignals {
    fn drop(&mut self) {
        // SAFETY: the set is the one that was in force before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}
