//! `metier-burn`: synthetic workloads with known resource use.
//!
//! Each workload uses a known amount of a resource (CPU time, memory, files, processes). `--report`
//! writes its own count, obtained independently of the measuring program. The `nested` workload
//! runs any command in a cgroup of its own and reports the kernel's counts.
//!
//! Limits: Linux only. Sizes, counts and times are bounded (see `arguments`), so that a typing
//! error does not exhaust the machine.

mod arguments;
mod children;
mod clock;
mod control_group;
mod files;
mod memory;
mod nested;
mod report;
mod system;

use std::io::Write;
use std::process::ExitCode;

use arguments::{Arguments, Problem};

const HELP: &str = "\
Synthetic workloads that know what they used.

Examples:
  metier-burn cpu 1.5 --report -                      burn 1.5 s of CPU time and say so
  metier-burn cpu 2 --threads 2                       the same on two threads, 1 s each
  metier-burn forktrue 1000                           start /bin/true 1000 times, one after the other
  metier-burn forkburn 200 5                          200 children, 5 ms of CPU time each
  metier-burn orphan 1 --memory 64 --report o.json    a daemon that burns 1 s after its parent is gone
  metier-burn ramp 400 --spike 1000 --spike-ms 60     memory up to 400 MiB, a spike to 1000 MiB, down
  metier-burn multi 4 200 --hold-ms 300               4 children hold 200 MiB each at the same time
  metier-burn write big.bin 512 --fsync               write 512 MiB and wait for the disk
  metier-burn nested --report n.json -- make -j2      run a command in a control group of its own

Usage: metier-burn WORKLOAD [ARGUMENTS] [--report FILE|-]

Workloads:
  cpu SECONDS [--threads N] [--from-now]     exactly that CPU time in all, spread evenly over the threads; from now
                                             on where the process was another program before
  forktrue N [--self]                        N x /bin/true, in sequence; --self starts `metier-burn noop` instead
  forkburn N MS                              N children in sequence, MS milliseconds of CPU time each
  orphan SECONDS [--memory MIB]              fork twice, new session; the parent exits at once, the orphan burns
                                             and writes the report
  ramp MIB [--spike MIB] [--spike-ms MS] [--hold-ms MS]
                                             touch memory up to MIB, up to the spike's MIB for MS at the top,
                                             back, and down; --hold-ms is the time before and after the spike
  multi CHILDREN MIB [--hold-ms MS]          children that hold MIB each, all at the same time for MS
  write FILE MIB [--fsync]                   write a file of that size
  read FILE                                  read a file to its end
  stubborn SECONDS [--children N]            sleep that long and ignore INT and TERM, children too
  tree DEPTH WIDTH [--burn-ms MS]            a tree of processes that are all alive at once; each burns MS
  noop                                       end at once
  sleep MS                                   sleep
  wake TIMES MS                              sleep that long that many times: what waking up alone costs here
  nested CMD...                              run CMD in a control group inside the one we are in; wait until it
                                             is empty, orphans included; report the kernel's own counters; exit
                                             with CMD's code

Options:
  --report FILE|-    write what was used as JSON, to a file (complete or not there) or to stdout
  -h, --help         this text
  -V, --version      the version

Exit codes: 0 ok, 1 failed, 2 wrong usage; `nested`: CMD's code, 128+n if signal n ended it, 126 and 127 if it
cannot be started.
";

fn main() -> ExitCode {
    match start() {
        Ok(code) => code,
        Err(problem) => {
            // A closed stderr must not hide the exit code.
            let _ = writeln!(std::io::stderr(), "metier-burn: {}", problem.text());
            ExitCode::from(problem.code())
        }
    }
}

fn start() -> Result<ExitCode, Problem> {
    let mut words = std::env::args_os().skip(1);
    let Some(workload) = words.next() else {
        return Err(Problem::usage("no workload given; `metier-burn --help` lists them"));
    };
    let name = workload.to_string_lossy().into_owned();
    match name.as_str() {
        "-h" | "--help" | "help" => return print(HELP),
        "-V" | "--version" => return print(concat!("metier-burn ", env!("CARGO_PKG_VERSION"), "\n")),
        "nested" => return nested::run(words),
        _ => {}
    }
    let mut arguments = Arguments::read(words)?;
    if arguments.help {
        return print(HELP);
    }
    match name.as_str() {
        "cpu" => clock::cpu(&mut arguments),
        "forktrue" => children::forktrue(&mut arguments),
        "forkburn" => children::forkburn(&mut arguments),
        "orphan" => children::orphan(&mut arguments),
        "stubborn" => children::stubborn(&mut arguments),
        "tree" => children::tree(&mut arguments),
        "ramp" => memory::ramp(&mut arguments),
        "multi" => memory::multi(&mut arguments),
        "write" => files::write(&mut arguments),
        "read" => files::read(&mut arguments),
        "sleep" => clock::sleep(&mut arguments),
        "wake" => clock::wake(&mut arguments),
        "noop" => clock::noop(&mut arguments),
        other => {
            Err(Problem::usage(format!("no workload {other:?}; `metier-burn --help` lists those there are")))
        }
    }
}

fn print(text: &str) -> Result<ExitCode, Problem> {
    std::io::stdout().write_all(text.as_bytes()).map_err(|e| Problem::failed(format!("write help: {e}")))?;
    Ok(ExitCode::SUCCESS)
}
