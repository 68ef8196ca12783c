//! Starts the measuring program, for a session and for a co-runner.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use metier_linux::{open_files, signals};

/// The measuring program and the flags to start it with.
#[derive(Debug, Clone)]
pub struct MeasuringProgram {
    /// Path of the program: the current executable.
    pub program: PathBuf,
    /// Flags that select the same store and settings.
    pub flags: Vec<OsString>,
    /// Environment variables with secrets, hidden from the program and its workload.
    pub hidden: Vec<OsString>,
}

impl MeasuringProgram {
    /// The program in its own process group, so that the terminal's Ctrl-C reaches it only through
    /// its parent. The kernel sends it TERM when the thread that started it ends.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.flags).process_group(0);
        for name in &self.hidden {
            command.env_remove(name);
        }
        open_files::restore_limit_for(&mut command);
        let parent = std::process::id() as libc::pid_t;
        // SAFETY: the closure makes only async-signal-safe calls between fork and exec.
        unsafe {
            command.pre_exec(move || {
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
                // A session blocks these signals; the measuring process and its workload need them.
                signals::unblock();
                // The parent may have ended before prctl took effect.
                if libc::getppid() != parent {
                    return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
                }
                Ok(())
            });
        }
        command
    }
}
