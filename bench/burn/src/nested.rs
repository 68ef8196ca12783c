//! `nested CMD...`: runs a command in its own cgroup and reports the kernel's counts.
//!
//! The child enters the cgroup between fork and exec. So all CPU time and memory of the command is
//! counted, and none of the wrapper. The report also has the wrapper's own use (`cpu_nanoseconds`):
//! a measurement from outside sees the sum.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::arguments::{Problem, missing_value};
use crate::control_group::Group;
use crate::report::{Report, Target};
use crate::system;

/// Runs the workload with the arguments after `nested`.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<ExitCode, Problem> {
    let mut words = words.peekable();
    let mut report_to = None;
    while let Some(word) = words.peek() {
        let text = word.to_string_lossy().into_owned();
        if !text.starts_with('-') {
            break;
        }
        words.next();
        match text.as_str() {
            "--" => break,
            "--report" => report_to = Some(words.next().ok_or_else(|| missing_value("--report"))?),
            other => match other.strip_prefix("--report=") {
                Some(value) => report_to = Some(OsString::from(value)),
                None => {
                    return Err(Problem::usage(format!(
                        "nested has no option {other}; only --report FILE|-"
                    )));
                }
            },
        }
    }
    let target = Target::from_option(report_to)?;
    let Some(program) = words.next() else {
        return Err(Problem::usage(
            "CMD is missing; for example `metier-burn nested --report n.json -- true`",
        ));
    };
    let group = Group::make()?;
    let outcome = inside(&group, program, words, &target);
    // The cgroup is removed even after an error; the first error is reported.
    let removed = if outcome.is_err() { group.remove() } else { Ok(()) };
    outcome.and_then(|code| removed.map(|()| code))
}

fn inside(
    group: &Group,
    program: OsString,
    words: impl Iterator<Item = OsString>,
    target: &Target,
) -> Result<ExitCode, Problem> {
    let doors = group.doors()?;
    let mut command = Command::new(&program);
    command.args(words);
    system::enter_first(&mut command, &doors);
    let start = Instant::now();
    let mut child = command.spawn().map_err(|e| {
        let code = if e.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
        Problem::with_code(format!("start {program:?}: {e}"), code)
    })?;
    system::pass_signals_on(child.id());
    let status = child.wait().map_err(|e| Problem::failed(format!("wait for {program:?}: {e}")))?;
    let wall = start.elapsed().as_secs_f64();
    wait_until_empty(group);
    let settled = start.elapsed().as_secs_f64();
    let (cpu, cpu_file) = group.cpu_nanoseconds();
    let (peak, peak_file) = group.peak_memory_bytes();
    group.remove()?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    let mut report = Report::of("nested");
    report.text("command", &program.to_string_lossy());
    report.whole("exit_code", code as u64).seconds("wall_seconds", wall).seconds("settled_seconds", settled);
    report.maybe("group_cpu_nanoseconds", cpu).text("group_cpu_file", cpu_file);
    report.maybe("group_peak_memory_bytes", peak).text("group_memory_file", peak_file);
    if let Some(reason) = &group.memory_missing {
        report.text("group_memory_missing", reason);
    }
    report.finish(target)?;
    Ok(ExitCode::from(code as u8))
}

/// Polls with growing delays, up to 50 ms: each poll costs the wrapper CPU time, and cgroup v1
/// sends no file events.
fn wait_until_empty(group: &Group) {
    let mut pause = 0.5;
    while group.is_populated() {
        system::pause(pause);
        pause = f64::min(pause * 1.5, 50.0);
    }
}
