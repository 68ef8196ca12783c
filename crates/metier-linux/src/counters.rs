//! The processor's counters over the whole host: cycles, instructions and misses of the last cache, which the kernel counts on every processor (`perf_event_open`).
//!
//! One group of events for each processor, read with one call; where the kernel had to share the counters out over time, values are scaled up to the whole
//! time. A host that does not offer them (most virtual machines) or does not permit them says why. Bounded: processors.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use metier_types::Missing;
use perf_event_open_sys as sys;
use perf_event_open_sys::bindings as b;

use crate::Roots;

/// Processors beyond which counters would take too many files.
const MOST_CPUS: usize = 256;
/// How many events a group has.
const EVENTS: usize = 3;

/// What was counted between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Counted {
    /// Cycles in which a processor was not halted.
    pub cycles: f64,
    /// Instructions that were retired.
    pub instructions: f64,
    /// Misses of the last cache.
    pub cache_misses: f64,
}

/// An event: its type and its number.
type Event = (u32, u64);

const HARDWARE: [Event; EVENTS] = [
    (b::PERF_TYPE_HARDWARE, b::PERF_COUNT_HW_CPU_CYCLES as u64),
    (b::PERF_TYPE_HARDWARE, b::PERF_COUNT_HW_INSTRUCTIONS as u64),
    (b::PERF_TYPE_HARDWARE, b::PERF_COUNT_HW_CACHE_MISSES as u64),
];

/// One processor: the leader is read, the others are counted with it.
struct Group {
    leader: OwnedFd,
    _others: Vec<OwnedFd>,
    last: [f64; EVENTS],
}

/// The counters of all processors.
pub struct Counters {
    groups: Vec<Group>,
}

impl Counters {
    /// Opens them, or says why that cannot be.
    pub fn open(roots: &Roots) -> Result<Self, Missing> {
        Self::of(roots, &HARDWARE).map_err(|error| refused(roots, &error))
    }

    fn of(roots: &Roots, events: &[Event; EVENTS]) -> io::Result<Self> {
        let cpus = crate::host::online(roots);
        if cpus.is_empty() || cpus.len() > MOST_CPUS {
            let why = format!("{} processors; counters are opened for 1 to {MOST_CPUS}", cpus.len());
            return Err(io::Error::other(why));
        }
        let groups = cpus.into_iter().map(|cpu| Group::open(cpu, events)).collect::<io::Result<_>>()?;
        Ok(Self { groups })
    }

    /// What was counted since the last reading, by all processors; `None` where one could not be read.
    pub fn read(&mut self) -> Option<Counted> {
        let mut sums = [0.0; EVENTS];
        for group in &mut self.groups {
            let now = group.now()?;
            for (place, sum) in sums.iter_mut().enumerate() {
                *sum += (now[place] - group.last[place]).max(0.0);
            }
            group.last = now;
        }
        let [cycles, instructions, cache_misses] = sums;
        Some(Counted { cycles, instructions, cache_misses })
    }
}

impl Group {
    fn open(cpu: i32, events: &[Event; EVENTS]) -> io::Result<Self> {
        let leader = open(events[0], cpu, -1)?;
        let others = events[1..].iter().map(|event| open(*event, cpu, leader.as_raw_fd()));
        let others = others.collect::<io::Result<_>>()?;
        let mut group = Self { leader, _others: others, last: [0.0; EVENTS] };
        group.last = group.now().unwrap_or_default();
        Ok(group)
    }

    /// Its counters, scaled to the whole time.
    fn now(&self) -> Option<[f64; EVENTS]> {
        // The number of events, the time for which they were wanted, the time for which they ran, and the values.
        let mut read = [0u64; 3 + EVENTS];
        let bytes = std::mem::size_of_val(&read);
        // SAFETY: the buffer is ours and has so many bytes; the descriptor is open.
        let got = unsafe { libc::read(self.leader.as_raw_fd(), read.as_mut_ptr().cast(), bytes) };
        if got != bytes as isize || read[0] != EVENTS as u64 {
            return None;
        }
        let (wanted, ran) = (read[1] as f64, read[2] as f64);
        let scale = if ran > 0.0 { wanted / ran } else { 0.0 };
        Some([read[3] as f64 * scale, read[4] as f64 * scale, read[5] as f64 * scale])
    }
}

fn open((kind, config): Event, cpu: i32, leader: i32) -> io::Result<OwnedFd> {
    let mut attr = b::perf_event_attr {
        type_: kind,
        size: std::mem::size_of::<b::perf_event_attr>() as u32,
        config,
        read_format: u64::from(
            b::PERF_FORMAT_GROUP | b::PERF_FORMAT_TOTAL_TIME_ENABLED | b::PERF_FORMAT_TOTAL_TIME_RUNNING,
        ),
        ..Default::default()
    };
    // SAFETY: the attributes are initialised, with their true size; the descriptor is ours alone.
    let fd =
        unsafe { sys::perf_event_open(&mut attr, -1, cpu, leader, b::PERF_FLAG_FD_CLOEXEC as libc::c_ulong) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Why the kernel refuses, and what would help.
fn refused(roots: &Roots, error: &io::Error) -> Missing {
    let level = crate::file::text(roots.proc.join("sys/kernel/perf_event_paranoid"));
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            let level = level.map(|level| format!(" (kernel.perf_event_paranoid is {level})"));
            Missing::fixable(
                format!("the kernel does not permit counters of the whole host{}", level.unwrap_or_default()),
                "run as root, or: sysctl kernel.perf_event_paranoid=0",
            )
        }
        Some(libc::ENOENT | libc::ENOSYS | libc::EOPNOTSUPP | libc::ENODEV) => {
            Missing::because("this host shows no counters of its processors; virtual machines rarely do")
        }
        _ => Missing::because(format!("counters of the processors cannot be opened: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_processors_count_grows_and_is_told_since_the_last_reading() {
        // Events that every kernel has, in the place of the processor's own: the clock, switches and page faults.
        let software = [
            (b::PERF_TYPE_SOFTWARE, b::PERF_COUNT_SW_CPU_CLOCK as u64),
            (b::PERF_TYPE_SOFTWARE, b::PERF_COUNT_SW_CONTEXT_SWITCHES as u64),
            (b::PERF_TYPE_SOFTWARE, b::PERF_COUNT_SW_PAGE_FAULTS as u64),
        ];
        let mut counters = match Counters::of(&Roots::default(), &software) {
            Ok(counters) => counters,
            Err(error) => {
                println!("SKIP: counters of the whole host, because {}", refused(&Roots::default(), &error));
                return;
            }
        };
        std::thread::sleep(std::time::Duration::from_millis(20));
        let first = counters.read().unwrap();
        assert!(
            first.cycles >= 1e6 * counters.groups.len() as f64,
            "the clock counts nanoseconds: {first:?}"
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
        let second = counters.read().unwrap();
        assert!(second.cycles > 0.0 && second.cycles < first.cycles * 1e4, "{first:?} {second:?}");
    }

    #[test]
    fn counters_that_cannot_be_had_say_why_and_what_would_help() {
        let roots = Roots::default();
        let of = |code: i32| refused(&roots, &io::Error::from_raw_os_error(code));
        assert!(of(libc::EACCES).fix.unwrap().contains("perf_event_paranoid=0"));
        assert!(of(libc::ENOENT).reason.contains("virtual machines") && of(libc::ENOENT).fix.is_none());
        assert!(of(libc::EMFILE).reason.contains("cannot be opened"));
        match Counters::open(&roots) {
            Ok(mut counters) => assert!(counters.read().is_some()),
            Err(missing) => eprintln!("SKIP: reading processor counters, because {}", missing.reason),
        }
    }
}
