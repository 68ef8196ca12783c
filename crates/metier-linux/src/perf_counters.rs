//! Hardware counters of the whole host: cycles, instructions and last-level cache misses, counted
//! by the kernel on every processor (`perf_event_open`).
//!
//! Each processor has one group of events, read with one call. If the kernel multiplexed the
//! counters, values are scaled to the whole time. A host that does not offer counters (most virtual
//! machines) or does not permit them reports the reason. The number of processors is bounded.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use metier_types::MissingReason;
use perf_event_open_sys as sys;
use perf_event_open_sys::bindings as b;

use crate::KernelRoots;

/// Largest number of processors; more would need too many file descriptors.
const MAX_CPUS: usize = 256;
/// Number of events in a group.
const EVENT_COUNT: usize = 3;

/// Counts between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PerfCounts {
    /// Cycles in which a processor was not halted.
    pub cycles: f64,
    /// Retired instructions.
    pub instructions: f64,
    /// Last-level cache misses.
    pub cache_misses: f64,
}

/// An event: its type and its number.
type PerfEvent = (u32, u64);

const HARDWARE_EVENTS: [PerfEvent; EVENT_COUNT] = [
    (b::PERF_TYPE_HARDWARE, b::PERF_COUNT_HW_CPU_CYCLES as u64),
    (b::PERF_TYPE_HARDWARE, b::PERF_COUNT_HW_INSTRUCTIONS as u64),
    (b::PERF_TYPE_HARDWARE, b::PERF_COUNT_HW_CACHE_MISSES as u64),
];

/// Group of one processor: reading the leader returns all of its events.
struct PerfGroup {
    leader: OwnedFd,
    _others: Vec<OwnedFd>,
    last: [f64; EVENT_COUNT],
}

/// The counters of all processors.
pub struct PerfCounters {
    groups: Vec<PerfGroup>,
}

impl PerfCounters {
    /// Opens the counters, or returns the reason why that fails.
    pub fn open(roots: &KernelRoots) -> Result<Self, MissingReason> {
        Self::open_events(roots, &HARDWARE_EVENTS).map_err(|error| explain_refusal(roots, &error))
    }

    fn open_events(roots: &KernelRoots, events: &[PerfEvent; EVENT_COUNT]) -> io::Result<Self> {
        let cpus = crate::host::online_cpus(roots);
        if cpus.is_empty() || cpus.len() > MAX_CPUS {
            let why = format!("{} processors; counters are opened for 1 to {MAX_CPUS}", cpus.len());
            return Err(io::Error::other(why));
        }
        let groups = cpus.into_iter().map(|cpu| PerfGroup::open(cpu, events)).collect::<io::Result<_>>()?;
        Ok(Self { groups })
    }

    /// Counts of all processors since the last reading; `None` if one could not be read.
    pub fn read_delta(&mut self) -> Option<PerfCounts> {
        let mut sums = [0.0; EVENT_COUNT];
        for group in &mut self.groups {
            let now = group.read_scaled()?;
            for (place, sum) in sums.iter_mut().enumerate() {
                *sum += (now[place] - group.last[place]).max(0.0);
            }
            group.last = now;
        }
        let [cycles, instructions, cache_misses] = sums;
        Some(PerfCounts { cycles, instructions, cache_misses })
    }
}

impl PerfGroup {
    fn open(cpu: i32, events: &[PerfEvent; EVENT_COUNT]) -> io::Result<Self> {
        let leader = open_event(events[0], cpu, -1)?;
        let others = events[1..].iter().map(|event| open_event(*event, cpu, leader.as_raw_fd()));
        let others = others.collect::<io::Result<_>>()?;
        let mut group = Self { leader, _others: others, last: [0.0; EVENT_COUNT] };
        group.last = group.read_scaled().unwrap_or_default();
        Ok(group)
    }

    /// Reads its counters, scaled to the whole time.
    fn read_scaled(&self) -> Option<[f64; EVENT_COUNT]> {
        // Number of events, enabled time, running time, and the values.
        let mut read = [0u64; 3 + EVENT_COUNT];
        let bytes = std::mem::size_of_val(&read);
        // SAFETY: the buffer is valid for `bytes` bytes; the descriptor is open.
        let got = unsafe { libc::read(self.leader.as_raw_fd(), read.as_mut_ptr().cast(), bytes) };
        if got != bytes as isize || read[0] != EVENT_COUNT as u64 {
            return None;
        }
        let (value, ran) = (read[1] as f64, read[2] as f64);
        let scale = if ran > 0.0 { value / ran } else { 0.0 };
        Some([read[3] as f64 * scale, read[4] as f64 * scale, read[5] as f64 * scale])
    }
}

fn open_event((kind, config): PerfEvent, cpu: i32, leader: i32) -> io::Result<OwnedFd> {
    let mut attr = b::perf_event_attr {
        type_: kind,
        size: std::mem::size_of::<b::perf_event_attr>() as u32,
        config,
        read_format: u64::from(
            b::PERF_FORMAT_GROUP | b::PERF_FORMAT_TOTAL_TIME_ENABLED | b::PERF_FORMAT_TOTAL_TIME_RUNNING,
        ),
        ..Default::default()
    };
    // SAFETY: the attributes are initialised with their true size; the returned descriptor is not
    // shared.
    let fd =
        unsafe { sys::perf_event_open(&mut attr, -1, cpu, leader, b::PERF_FLAG_FD_CLOEXEC as libc::c_ulong) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Why the kernel refuses, with a fix.
fn explain_refusal(roots: &KernelRoots, error: &io::Error) -> MissingReason {
    let level = crate::kernel_file::read_text(roots.proc.join("sys/kernel/perf_event_paranoid"));
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            let level = level.map(|level| format!(" (kernel.perf_event_paranoid is {level})"));
            MissingReason::with_fix(
                format!("the kernel does not permit counters of the whole host{}", level.unwrap_or_default()),
                "run as root, or: sysctl kernel.perf_event_paranoid=0",
            )
        }
        Some(libc::ENOENT | libc::ENOSYS | libc::EOPNOTSUPP | libc::ENODEV) => {
            MissingReason::without_fix("this host has no hardware counters; virtual machines rarely do")
        }
        _ => MissingReason::without_fix(format!("hardware counters cannot be opened: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_processors_count_grows_and_is_told_since_the_last_reading() {
        // Software events that every kernel has replace the hardware ones: clock, context switches
        // and page faults.
        let software = [
            (b::PERF_TYPE_SOFTWARE, b::PERF_COUNT_SW_CPU_CLOCK as u64),
            (b::PERF_TYPE_SOFTWARE, b::PERF_COUNT_SW_CONTEXT_SWITCHES as u64),
            (b::PERF_TYPE_SOFTWARE, b::PERF_COUNT_SW_PAGE_FAULTS as u64),
        ];
        let mut counters = match PerfCounters::open_events(&KernelRoots::default(), &software) {
            Ok(counters) => counters,
            Err(error) => {
                println!(
                    "SKIP: counters of the whole host, because {}",
                    explain_refusal(&KernelRoots::default(), &error)
                );
                return;
            }
        };
        std::thread::sleep(std::time::Duration::from_millis(20));
        let first = counters.read_delta().unwrap();
        assert!(
            first.cycles >= 1e6 * counters.groups.len() as f64,
            "the clock counts nanoseconds: {first:?}"
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
        let second = counters.read_delta().unwrap();
        assert!(second.cycles > 0.0 && second.cycles < first.cycles * 1e4, "{first:?} {second:?}");
    }

    #[test]
    fn counters_that_cannot_be_had_say_why_and_what_would_help() {
        let roots = KernelRoots::default();
        let of = |code: i32| explain_refusal(&roots, &io::Error::from_raw_os_error(code));
        assert!(of(libc::EACCES).fix.unwrap().contains("perf_event_paranoid=0"));
        assert!(of(libc::ENOENT).reason.contains("virtual machines") && of(libc::ENOENT).fix.is_none());
        assert!(of(libc::EMFILE).reason.contains("cannot be opened"));
        match PerfCounters::open(&roots) {
            Ok(mut counters) => assert!(counters.read_delta().is_some()),
            Err(missing) => eprintln!("SKIP: reading processor counters, because {}", missing.reason),
        }
    }
}
