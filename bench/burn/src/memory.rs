//! Memory workloads: a ramp with a brief spike, and several processes at once.

use std::process::ExitCode;
use std::time::Instant;

use crate::arguments::{Arguments, MOST_MIB, MOST_SECONDS, Problem};
use crate::report::{Report, Target};
use crate::system::{self, Mapping, Side};

/// `ramp MIB [--spike MIB] [--spike-ms MS] [--hold-ms MS]`.
///
/// `--spike-ms` is the time at the top. Touching the pages before it takes extra time, which
/// depends on the machine and is reported as `above_base_seconds`.
pub fn ramp(arguments: &mut Arguments) -> Result<ExitCode, Problem> {
    let base = arguments.next_whole("MIB", MOST_MIB)? as usize;
    let spike = arguments.option_whole("--spike", MOST_MIB)?.unwrap_or(0) as usize;
    let spike_ms = arguments.option_number("--spike-ms", MOST_SECONDS * 1e3)?.unwrap_or(60.0);
    let hold_ms = arguments.option_number("--hold-ms", MOST_SECONDS * 1e3)?.unwrap_or(200.0);
    let target = Target::last_of(arguments)?;
    if spike != 0 && spike < base {
        return Err(Problem::usage(format!(
            "--spike {spike} is below MIB {base}; it is the top, not the step"
        )));
    }
    let mut memory = Mapping::reserve(base.max(spike) << 20)?;
    // Twenty steps, so that a time series shows a ramp instead of a jump.
    let step = base.div_ceil(20).max(1);
    let mut at = 0;
    while at < base {
        let next = (at + step).min(base);
        memory.touch(at, next);
        at = next;
        system::pause(hold_ms / 20.0);
    }
    system::pause(hold_ms);
    let mut above = 0.0;
    if spike > base {
        let start = Instant::now();
        memory.touch(base, spike);
        system::pause(spike_ms);
        memory.give_back(base);
        above = start.elapsed().as_secs_f64();
    }
    system::pause(hold_ms);
    memory.give_back(0);
    let mut report = Report::of("ramp");
    report.whole("touched_bytes", (base.max(spike) as u64) << 20).seconds("above_base_seconds", above);
    report.finish(&target)?;
    Ok(ExitCode::SUCCESS)
}

/// `multi CHILDREN MIB [--hold-ms MS]`: no child frees memory before all have touched all of
/// theirs.
pub fn multi(arguments: &mut Arguments) -> Result<ExitCode, Problem> {
    let n = arguments.next_whole("CHILDREN", 1000)?;
    let mib = arguments.next_whole("MIB", MOST_MIB)? as usize;
    let hold_ms = arguments.option_number("--hold-ms", MOST_SECONDS * 1e3)?.unwrap_or(200.0);
    let target = Target::last_of(arguments)?;
    let (ready_in, ready_out) = system::pipe()?;
    let (go_in, go_out) = system::pipe()?;
    let mut children = Vec::new();
    for _ in 0..n {
        match system::fork()? {
            Side::Child => {
                // The child's copy must be closed, else `go` never reaches its end.
                system::close(go_out);
                system::leave(i32::from(hold(mib, ready_out, go_in).is_err()));
            }
            Side::Parent(child) => children.push(child),
        }
    }
    system::close(ready_out);
    let ready = (0..n).filter(|_| system::read_byte(ready_in)).count() as u64;
    system::pause(hold_ms);
    system::close(go_out);
    children.into_iter().try_for_each(system::wait)?;
    if ready != n {
        return Err(Problem::failed(format!("only {ready} of {n} children could touch {mib} MiB")));
    }
    let mut report = Report::of("multi");
    report.whole("touched_bytes", n * ((mib as u64) << 20)).whole("processes", n + 1);
    report.finish(&target)?;
    Ok(ExitCode::SUCCESS)
}

fn hold(mib: usize, ready: std::os::fd::RawFd, go: std::os::fd::RawFd) -> Result<(), Problem> {
    let mut memory = Mapping::reserve(mib << 20)?;
    memory.touch(0, mib);
    if !system::write_bytes(ready, &[1]) {
        return Err(Problem::failed("tell the parent that the memory is touched"));
    }
    while system::read_byte(go) {}
    Ok(())
}
