//! Process workloads: many short processes, daemons, processes that ignore signals, trees.

use std::process::{Command, ExitCode};

use crate::arguments::{Arguments, MOST_MIB, MOST_PROCESSES, MOST_SECONDS, Problem};
use crate::clock;
use crate::report::{Report, Target};
use crate::system::{self, Mapping, Side};

/// `forktrue N [--self]`: starts a program that does nothing, N times in sequence.
pub fn forktrue(arguments: &mut Arguments) -> Result<ExitCode, Problem> {
    let n = arguments.next_whole("N", MOST_PROCESSES)?;
    let itself = arguments.flag("--self");
    let target = Target::last_of(arguments)?;
    let program = match itself {
        true => std::env::current_exe().map_err(|e| Problem::failed(format!("find this program: {e}")))?,
        false => "/bin/true".into(),
    };
    for _ in 0..n {
        let mut command = Command::new(&program);
        if itself {
            command.arg("noop");
        }
        let status =
            command.status().map_err(|e| Problem::failed(format!("start {}: {e}", program.display())))?;
        if !status.success() {
            return Err(Problem::failed(format!("{} ended with {status}", program.display())));
        }
    }
    let mut report = Report::of("forktrue");
    report.whole("processes", n + 1);
    report.finish(&target)?;
    Ok(ExitCode::SUCCESS)
}

/// `forkburn N MS`: N children in sequence, each with MS milliseconds of CPU time.
pub fn forkburn(arguments: &mut Arguments) -> Result<ExitCode, Problem> {
    let n = arguments.next_whole("N", MOST_PROCESSES)?;
    let milliseconds = arguments.next_number("MS", MOST_SECONDS * 1e3)?;
    let target = Target::last_of(arguments)?;
    let each = (milliseconds * 1e6) as u64;
    for _ in 0..n {
        match system::fork()? {
            Side::Child => {
                clock::burn_process_until(each);
                system::leave(0);
            }
            Side::Parent(child) => system::wait(child)?,
        }
    }
    let mut report = Report::of("forkburn");
    report.whole("asked_cpu_nanoseconds", each * n).whole("processes", n + 1);
    report.finish(&target)?;
    Ok(ExitCode::SUCCESS)
}

/// `orphan SECONDS [--memory MIB]`: a daemon that burns CPU time after its parents have ended.
pub fn orphan(arguments: &mut Arguments) -> Result<ExitCode, Problem> {
    let seconds = arguments.next_number("SECONDS", MOST_SECONDS)?;
    let mib = arguments.option_whole("--memory", MOST_MIB)?.unwrap_or(0) as usize;
    let target = Target::last_of(arguments)?;
    // CPU time of this process so far; the child reports it too, since the parent writes no report.
    let parent_cpu = system::process_cpu_nanoseconds();
    if let Side::Parent(_) = system::fork()? {
        // Not reaped here: a daemon's parent exits at once, and the adopting process reaps the
        // child.
        return Ok(ExitCode::SUCCESS);
    }
    let end = orphan_life(seconds, mib, parent_cpu, &target);
    system::leave(i32::from(end.is_err()));
}

fn orphan_life(seconds: f64, mib: usize, parent_cpu: u64, target: &Target) -> Result<(), Problem> {
    system::new_session()?;
    let parents_cpu = parent_cpu + system::process_cpu_nanoseconds();
    if let Side::Parent(_) = system::fork()? {
        return Ok(());
    }
    let mut memory = Mapping::reserve(mib << 20)?;
    memory.touch(0, mib);
    let asked = (seconds * 1e9) as u64;
    clock::burn_process_until(asked);
    let mut report = Report::of("orphan");
    report.whole("asked_cpu_nanoseconds", asked).whole("touched_bytes", (mib as u64) << 20);
    report.whole("parents_cpu_nanoseconds", parents_cpu);
    report.finish(target)
}

/// `stubborn SECONDS [--children N]`: sleeps and ignores INT and TERM, as do its children.
pub fn stubborn(arguments: &mut Arguments) -> Result<ExitCode, Problem> {
    let seconds = arguments.next_number("SECONDS", MOST_SECONDS)?;
    let n = arguments.option_whole("--children", 1000)?.unwrap_or(2);
    let target = Target::last_of(arguments)?;
    system::ignore_polite_signals();
    let mut children = Vec::new();
    for _ in 0..n {
        match system::fork()? {
            Side::Child => {
                system::pause(seconds * 1e3);
                system::leave(0);
            }
            Side::Parent(child) => children.push(child),
        }
    }
    system::pause(seconds * 1e3);
    children.into_iter().try_for_each(system::wait)?;
    let mut report = Report::of("stubborn");
    report.whole("processes", n + 1);
    report.finish(&target)?;
    Ok(ExitCode::SUCCESS)
}

/// `tree DEPTH WIDTH [--burn-ms MS]`: each process has WIDTH children, with DEPTH levels below the
/// first process.
pub fn tree(arguments: &mut Arguments) -> Result<ExitCode, Problem> {
    let depth = arguments.next_whole("DEPTH", 100)?;
    let width = arguments.next_whole("WIDTH", 1000)?;
    let milliseconds = arguments.option_number("--burn-ms", MOST_SECONDS * 1e3)?.unwrap_or(0.0);
    let target = Target::last_of(arguments)?;
    let total = (0..=depth)
        .try_fold(0u64, |sum, level| sum.checked_add(width.checked_pow(level as u32)?))
        .filter(|n| *n <= 5_000)
        .ok_or_else(|| {
            Problem::usage(format!("a tree of depth {depth} and width {width} has more than 5000 processes"))
        })?;
    grow(depth, width, (milliseconds * 1e6) as u64)?;
    let mut report = Report::of("tree");
    report.whole("processes", total);
    report.finish(&target)?;
    Ok(ExitCode::SUCCESS)
}

fn grow(depth: u64, width: u64, burn: u64) -> Result<(), Problem> {
    let mut children = Vec::new();
    for _ in 0..if depth == 0 { 0 } else { width } {
        match system::fork()? {
            Side::Child => system::leave(i32::from(grow(depth - 1, width, burn).is_err())),
            Side::Parent(child) => children.push(child),
        }
    }
    clock::burn_thread(burn);
    children.into_iter().try_for_each(system::wait)
}
