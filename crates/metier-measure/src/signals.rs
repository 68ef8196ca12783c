//! Signals to the measuring program, taken as a descriptor so that the loop of a run can wait for them.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::Error;

const TAKEN: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// A signal that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Came {
    pub signal: i32,
    /// Whether the terminal sent it, and so to the command as well.
    pub from_terminal: bool,
}

/// INT, TERM, HUP and QUIT, blocked for this thread and those it starts, until dropped.
pub struct Signals {
    fd: OwnedFd,
    before: libc::sigset_t,
}

impl Signals {
    pub fn take() -> Result<Self, Error> {
        let fail = || Error::System { doing: "taking over signals", reason: io::Error::last_os_error() };
        // SAFETY: both sets are plain data that the calls fill; the descriptor is checked before it is owned.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in TAKEN {
                libc::sigaddset(&mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut before);
            let fd = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(fail());
            }
            Ok(Self { fd: OwnedFd::from_raw_fd(fd), before })
        }
    }

    /// The descriptor to wait on.
    pub fn descriptor(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// What was blocked before we came, and is to be blocked for commands: bit n-1 for signal n.
    pub fn mask_before(&self) -> u64 {
        // SAFETY: the set was filled by the kernel.
        let is_blocked = |signal: i32| unsafe { libc::sigismember(&self.before, signal) == 1 };
        (1..=64).filter(|signal| is_blocked(*signal)).fold(0, |mask, signal| mask | 1 << (signal - 1))
    }

    /// The next one that has come.
    pub fn next(&self) -> Option<Came> {
        // SAFETY: the structure is plain data, its size is passed, and it is used only when filled whole.
        unsafe {
            let mut info: libc::signalfd_siginfo = std::mem::zeroed();
            let size = size_of::<libc::signalfd_siginfo>();
            let got = libc::read(self.fd.as_raw_fd(), (&raw mut info).cast(), size);
            (got == size as isize).then_some(Came {
                signal: info.ssi_signo as i32,
                from_terminal: info.ssi_code == libc::SI_KERNEL,
            })
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: the set is the one that was in force before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}
