//! How the measuring program is started, for a session and for a co-runner.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use metier_linux::signals;

/// How the measuring program is started.
#[derive(Debug, Clone)]
pub struct MeasuringProgram {
    /// The program: this very one.
    pub program: PathBuf,
    /// Flags that lead it to the same store and settings.
    pub flags: Vec<OsString>,
    /// Variables of ours that neither it nor what it measures may see: those with secrets.
    pub hidden: Vec<OsString>,
}

impl MeasuringProgram {
    /// The program in a process group of its own, so that the terminal's Ctrl-C reaches it only by
    /// way of us. The kernel sends it TERM when the thread that starts it is gone.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.flags).process_group(0);
        for name in &self.hidden {
            command.env_remove(name);
        }
        let parent = std::process::id() as libc::pid_t;
        // SAFETY: between fork and exec only calls that are allowed there are made.
        unsafe {
            command.pre_exec(move || {
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
                // A session has blocked these; a measuring process, and what it measures, must get them.
                signals::unblock();
                // We may have gone before the wish was known to the kernel.
                if libc::getppid() != parent {
                    return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
                }
                Ok(())
            });
        }
        command
    }
}
