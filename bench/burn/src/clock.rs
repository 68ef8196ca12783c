//! Workloads that use CPU time, measured by the kernel's CPU clocks, or no CPU time.

use std::process::ExitCode;

use crate::arguments::{Arguments, MOST_SECONDS, Problem};
use crate::report::{Report, Target};
use crate::system;

/// About 10 µs of arithmetic between two clock reads. A read is a system call, so frequent reads
/// would turn the burn into system time.
fn spin() {
    let mut x: u64 = 0x9e37_79b9_7f4a_7c15;
    for _ in 0..8_000 {
        x = std::hint::black_box(x ^ (x << 7)).wrapping_mul(0x2545_f491_4f6c_dd1d);
    }
    std::hint::black_box(x);
}

/// Burns until this process has used this much CPU time since its start.
pub fn burn_process_until(nanoseconds: u64) {
    while system::process_cpu_nanoseconds() < nanoseconds {
        spin();
    }
}

/// Burns this much CPU time on the calling thread, from now.
pub fn burn_thread(nanoseconds: u64) {
    let end = system::thread_cpu_nanoseconds() + nanoseconds;
    while system::thread_cpu_nanoseconds() < end {
        spin();
    }
}

/// `cpu SECONDS [--threads N] [--from-now]`: the process's total CPU time at its end is the
/// requested time, including its start. `--from-now` counts from here, for a process that was
/// another program before (the first one of a container).
pub fn cpu(arguments: &mut Arguments) -> Result<ExitCode, Problem> {
    let seconds = arguments.next_number("SECONDS", MOST_SECONDS)?;
    let threads = arguments.option_whole("--threads", 1024)?.unwrap_or(1).max(1);
    let before = if arguments.flag("--from-now") { system::process_cpu_nanoseconds() } else { 0 };
    let target = Target::last_of(arguments)?;
    let asked = (seconds * 1e9) as u64;
    if threads > 1 {
        // 2 ms less per thread, so that the start of the threads does not exceed the sum.
        let share = (asked / threads).saturating_sub(2_000_000);
        let workers: Vec<_> = (0..threads).map(|_| std::thread::spawn(move || burn_thread(share))).collect();
        for worker in workers {
            worker.join().map_err(|_| Problem::failed("a burning thread panicked"))?;
        }
    }
    burn_process_until(before + asked);
    let mut report = Report::of("cpu");
    report
        .whole("before_nanoseconds", before)
        .whole("asked_cpu_nanoseconds", asked)
        .whole("threads", threads);
    report.finish(&target)?;
    Ok(ExitCode::SUCCESS)
}

/// `sleep MS`.
pub fn sleep(arguments: &mut Arguments) -> Result<ExitCode, Problem> {
    let milliseconds = arguments.next_number("MS", MOST_SECONDS * 1e3)?;
    let target = Target::last_of(arguments)?;
    system::pause(milliseconds);
    Report::of("sleep").finish(&target)?;
    Ok(ExitCode::SUCCESS)
}

/// `wake TIMES MS`.
pub fn wake(arguments: &mut Arguments) -> Result<ExitCode, Problem> {
    let times = arguments.next_whole("TIMES", 1_000_000)?;
    let milliseconds = arguments.next_number("MS", MOST_SECONDS * 1e3)?;
    let target = Target::last_of(arguments)?;
    (0..times).for_each(|_| system::pause(milliseconds));
    Report::of("wake").finish(&target)?;
    Ok(ExitCode::SUCCESS)
}

/// `noop`.
pub fn noop(arguments: &mut Arguments) -> Result<ExitCode, Problem> {
    let target = Target::last_of(arguments)?;
    Report::of("noop").finish(&target)?;
    Ok(ExitCode::SUCCESS)
}
