//! The limit of open files of this process (`ulimit -n`).
//!
//! The soft limit is raised at the start, since many shells and units set it low. The measured
//! command must not notice: programs that metier starts for the user get the original limit back.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

/// More is never needed. Some hosts allow a billion, which slows programs that loop over all
/// descriptors.
const MOST_USEFUL: u64 = 16_384;
/// What a measurement or a server needs: its connections, the store, and the descriptors from 100
/// on that started programs inherit.
const LEAST_NEEDED: u64 = 320;

/// The limit before it was raised.
static ORIGINAL: OnceLock<libc::rlimit> = OnceLock::new();

/// Fewer files may be open than metier needs.
#[derive(Debug, PartialEq, Eq)]
pub struct FewOpenFiles {
    limit: u64,
}

impl std::error::Error for FewOpenFiles {}

impl std::fmt::Display for FewOpenFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the limit of open files (ulimit -n) is {}, and at least {LEAST_NEEDED} are needed; raise it: `ulimit -n {LEAST_NEEDED}` as root, nofile in /etc/security/limits.conf, LimitNOFILE= of a unit, or --ulimit nofile={LEAST_NEEDED} of a container",
            self.limit
        )
    }
}

/// Raises the soft limit as far as it is useful and the hard limit allows; returns the limit then.
pub fn raise_limit() -> u64 {
    let Ok(limit) = current_limit() else { return MOST_USEFUL };
    let original = *ORIGINAL.get_or_init(|| limit);
    let want = original.rlim_max.min(MOST_USEFUL);
    if limit.rlim_cur < want {
        let raised = libc::rlimit { rlim_cur: want, ..limit };
        // Refused only by a sandbox; the lower limit then stays.
        let _ = set_limit(&raised);
    }
    current_limit().map_or(limit.rlim_cur, |now| now.rlim_cur).min(MOST_USEFUL)
}

/// Checks that the limit suffices for a measurement or a server.
pub fn check_limit() -> Result<(), FewOpenFiles> {
    match raise_limit() {
        limit if limit < LEAST_NEEDED => Err(FewOpenFiles { limit }),
        _ => Ok(()),
    }
}

/// Gives the original limit back to a program before it starts.
pub fn restore_limit_for(program: &mut Command) {
    let Some(original) = ORIGINAL.get() else { return };
    // SAFETY: one system call on a copied value, which may be made between fork and exec.
    unsafe { program.pre_exec(move || set_limit(original)) };
}

fn current_limit() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is valid for the call.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } {
        0 => Ok(limit),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set_limit(limit: &libc::rlimit) -> io::Result<()> {
    // SAFETY: the structure is valid for the call.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_started_program_has_the_original_limit() {
        let before = current_limit().unwrap().rlim_cur;
        let raised = raise_limit();
        assert!(raised >= before.min(MOST_USEFUL));
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -Sn"]);
        restore_limit_for(&mut shell);
        let shown = String::from_utf8(shell.output().unwrap().stdout).unwrap();
        let original = ORIGINAL.get().unwrap().rlim_cur;
        assert!(shown.trim() == original.to_string() || shown.trim() == "unlimited", "{shown}");
    }
}
