//! `/proc/PID/stat` and `/proc/stat`: CPU times of processes and processors, in clock ticks.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Longest line of one process: 52 numbers and a name of at most 64 bytes.
const LINE_BYTES: usize = 2048;
/// Limit of threads of one process whose time in the run queue is read.
const MAX_THREADS: usize = 256;
/// Pid of kthreadd, the parent of kernel threads.
const KERNEL_THREAD_PARENT: u32 = 2;

/// The line of one process (proc_pid_stat(5)); times are in clock ticks ([`ticks_per_second`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessStat<'a> {
    /// Name of the executable, truncated by the kernel.
    pub name: Cow<'a, str>,
    pub state: char,
    pub parent: u32,
    pub user_ticks: u64,
    pub system_ticks: u64,
    /// User and system time of waited-for children and their descendants.
    pub children_ticks: u64,
    pub threads: u64,
    /// Start since boot: identifies the process together with its pid.
    pub start_ticks: u64,
    pub resident_pages: u64,
}

impl<'a> ProcessStat<'a> {
    /// Parses a line. A name may hold blanks, brackets and any bytes; it ends at the last closing
    /// bracket.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let name_start = line.iter().position(|byte| *byte == b'(')? + 1;
        let name_end = line.iter().rposition(|byte| *byte == b')')?;
        let name = String::from_utf8_lossy(line.get(name_start..name_end)?);
        let mut fields = std::str::from_utf8(&line[name_end + 1..]).ok()?.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        // Each call skips fields and parses the next one; field 4 was the last one read.
        let mut number_after = |skipped: usize| fields.nth(skipped)?.parse::<u64>().ok();
        Some(Self {
            name,
            state,
            parent,
            user_ticks: number_after(9)?,
            system_ticks: number_after(0)?,
            children_ticks: number_after(0)?.saturating_add(number_after(0)?),
            threads: number_after(2)?,
            start_ticks: number_after(1)?,
            resident_pages: number_after(1)?,
        })
    }

    pub fn cpu_ticks(&self) -> u64 {
        self.user_ticks.saturating_add(self.system_ticks)
    }

    /// Whether the process is a zombie.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// Whether the process with this pid is a kernel thread.
    pub fn is_kernel_thread(&self, pid: u32) -> bool {
        self.parent == KERNEL_THREAD_PARENT || pid == KERNEL_THREAD_PARENT
    }
}

/// Reads one process below `proc`; `None` if it is gone.
pub fn read_process(proc: &Path, pid: u32) -> Option<ProcessStat<'static>> {
    let mut buffer = Vec::new();
    let stat = read_into(proc, pid, &mut buffer)?;
    Some(ProcessStat { name: Cow::Owned(stat.name.into_owned()), ..stat })
}

/// As [`read`], with a buffer reused for many processes to avoid allocations.
pub fn read_into<'b>(proc: &Path, pid: u32, buffer: &'b mut Vec<u8>) -> Option<ProcessStat<'b>> {
    if buffer.len() < LINE_BYTES {
        buffer.resize(LINE_BYTES, 0);
    }
    let mut file = File::open(proc.join(pid.to_string()).join("stat")).ok()?;
    let length = file.read(buffer).ok()?;
    ProcessStat::parse(&buffer[..length])
}

/// Time in the run queue in nanoseconds, summed over a process's living threads: the second number
/// of each `schedstat`. The file of a process covers its first thread only. `None` where the kernel
/// does not count it.
pub fn run_queue_ns(proc: &Path, pid: u32) -> Option<u64> {
    let threads = std::fs::read_dir(proc.join(pid.to_string()).join("task")).ok()?;
    let read = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()
    };
    let mut queued = threads.flatten().take(MAX_THREADS).filter_map(read).peekable();
    queued.peek()?;
    Some(queued.sum())
}

/// Process ids below `proc`.
pub fn list_pids(proc: &Path) -> impl Iterator<Item = u32> + use<> {
    let entries = std::fs::read_dir(proc).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Clock ticks of a second (`USER_HZ`).
pub fn ticks_per_second() -> u64 {
    // SAFETY: sysconf takes and returns plain integers.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).ok().filter(|ticks| *ticks > 0).unwrap_or(100)
}

/// Processor time by mode, in ticks: a `cpu` line of `/proc/stat`. `user` and `nice` include
/// guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuTimes {
    pub user: u64,
    pub nice: u64,
    pub system: u64,
    pub idle: u64,
    pub iowait: u64,
    pub irq: u64,
    pub softirq: u64,
    /// Time that the hypervisor gave to other guests, if the kernel counts it.
    pub steal: Option<u64>,
}

impl CpuTimes {
    /// All processors together: the first line of `/proc/stat`.
    pub fn parse_host(text: &str) -> Option<Self> {
        Self::parse_columns(text.lines().next()?.strip_prefix("cpu ")?)
    }

    /// Each processor by its number.
    pub fn parse_cores(text: &str) -> impl Iterator<Item = (u32, Self)> {
        text.lines().filter_map(|line| {
            let (number, columns) = line.strip_prefix("cpu")?.split_once(' ')?;
            Some((number.parse().ok()?, Self::parse_columns(columns)?))
        })
    }

    fn parse_columns(columns: &str) -> Option<Self> {
        let mut columns = columns.split_ascii_whitespace().map_while(|ticks| ticks.parse().ok());
        Some(Self {
            user: columns.next()?,
            nice: columns.next()?,
            system: columns.next()?,
            idle: columns.next()?,
            iowait: columns.next()?,
            irq: columns.next()?,
            softirq: columns.next()?,
            steal: columns.next(),
        })
    }

    /// Busy time: neither idle, nor waiting for storage, nor given to other guests.
    pub fn busy(&self) -> u64 {
        [self.nice, self.system, self.irq, self.softirq]
            .iter()
            .fold(self.user, |sum, n| sum.saturating_add(*n))
    }

    pub fn total(&self) -> u64 {
        self.by_mode().fold(0, |sum, (_, ticks)| sum.saturating_add(ticks))
    }

    /// Name and ticks of each mode, in the kernel's order.
    pub fn by_mode(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let always = [
            ("user", self.user),
            ("nice", self.nice),
            ("system", self.system),
            ("idle", self.idle),
            ("iowait", self.iowait),
            ("irq", self.irq),
            ("softirq", self.softirq),
        ];
        always.into_iter().chain(self.steal.map(|steal| ("steal", steal)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NUMBERS: &str = "3 7 7 0 -1 4194304 1 2 3 4 50 60 7 8 20 0 9 0 900 1000 77 1844";

    proptest! {
        #[test]
        fn every_name_is_kept_and_hides_no_field(name in "[ ()\\\\a-zA-Z0-9:/-]{0,15}|\\PC{0,15}") {
            let line = format!("7 ({name}) S {NUMBERS}\n");
            let stat = ProcessStat::parse(line.as_bytes()).unwrap();
            prop_assert_eq!(&stat.name, &name);
            prop_assert_eq!((stat.state, stat.parent, stat.threads), ('S', 3, 9));
            prop_assert_eq!((stat.user_ticks, stat.system_ticks, stat.children_ticks), (50, 60, 15));
            prop_assert_eq!((stat.start_ticks, stat.resident_pages, stat.cpu_ticks()), (900, 77, 110));
        }

        #[test]
        fn no_line_panics(line in prop::collection::vec(any::<u8>(), 0..200)) {
            ProcessStat::parse(&line);
            CpuTimes::parse_host(&String::from_utf8_lossy(&line));
        }
    }

    #[test]
    fn a_name_that_is_no_text_is_replaced_and_hides_no_field() {
        let line = [b"7 (a\xff) b) Z ".as_slice(), NUMBERS.as_bytes()].concat();
        let stat = ProcessStat::parse(&line).unwrap();
        assert_eq!((stat.name.as_ref(), stat.parent), ("a\u{fffd}) b", 3));
        assert!(stat.has_ended());
    }

    #[test]
    fn incomplete_lines_are_rejected() {
        for line in [
            "",
            ")",
            ")(",
            "1 (x",
            "1 (x) S",
            "1 (x) S a",
            "1 (x) S 1 1 1 0 -1 4 1 0 0 0 1 1 0 0 20 0 3 0 5 1000",
        ] {
            assert_eq!(ProcessStat::parse(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn this_process_is_read_from_the_real_proc() {
        let (proc, own) = (Path::new("/proc"), std::process::id());
        let stat = read_process(proc, own).unwrap();
        assert!(stat.start_ticks > 0 && stat.resident_pages > 0 && !stat.has_ended());
        assert_eq!(stat.parent, std::os::unix::process::parent_id());
        assert!(list_pids(proc).any(|pid| pid == own));
        assert_eq!(read_process(proc, u32::MAX), None);
    }

    #[test]
    fn processor_time_is_sorted_by_mode() {
        let text = "cpu  1 2 3 40 50 6 7 80 1 1\ncpu0 1 2 3 40 50 6 7\ncpu12 0 0 0 9 0 0 0 1\nintr 5\n";
        let host = CpuTimes::parse_host(text).unwrap();
        assert_eq!((host.busy(), host.total(), host.steal), (19, 189, Some(80)));
        let cores: Vec<_> =
            CpuTimes::parse_cores(text).map(|(n, times)| (n, times.busy(), times.total())).collect();
        assert_eq!(cores, [(0, 19, 109), (12, 0, 10)]);
        assert_eq!(CpuTimes::parse_host("cpu  1 2 3\n"), None);
        assert_eq!(CpuTimes::parse_host("cpu0 1 2 3 4 5 6 7\n"), None);
    }
}
