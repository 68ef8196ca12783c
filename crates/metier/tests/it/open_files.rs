//! The limit of open files: too low a limit is said, and a low soft limit is raised for metier alone.

use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use crate::common::{Place, refusal, stdout};

/// The outcome of a command under a soft and a hard limit.
fn under_limits(mut command: Command, soft: u64, hard: u64) -> Output {
    // SAFETY: one system call with plain numbers between fork and exec.
    unsafe {
        command.pre_exec(move || {
            let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
            match libc::setrlimit(libc::RLIMIT_NOFILE, &limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    command.output().unwrap()
}

#[test]
fn too_few_open_files_are_said_with_the_way_out() {
    let place = Place::new();
    let socket = place.text("e.sock");
    for (arguments, code) in [
        (&["run", "--", "true"][..], 125),
        (&["up", "--listen", "127.0.0.1:0"], 1),
        (&["agent", "--listen", "127.0.0.1:0"], 1),
        (&["serve", "estimator", "--socket", &socket], 1),
    ] {
        let (got, error) = refusal(&under_limits(place.command(arguments), 64, 64));
        let is_clear =
            ["is 64,", "at least 320", "ulimit -n 320", "LimitNOFILE"].map(|it| error.contains(it));
        assert!(got == code && is_clear == [true; 4], "{arguments:?}: {got} {error}");
    }
    // What needs few works.
    assert!(under_limits(place.command(&["config"]), 64, 64).status.success());
}

#[test]
fn the_command_gets_the_limit_that_metier_was_started_with() {
    let place = Place::new();
    let command = place.command(&["run", "--quiet", "--", "sh", "-c", "ulimit -Sn; ulimit -Hn"]);
    let output = under_limits(command, 64, 4096);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(stdout(&output), "64\n4096\n");
}
