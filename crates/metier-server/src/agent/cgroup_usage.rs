//! Resource use of a cgroup. Its files stay open between scrapes.
//!
//! A value that the host does not offer is `None` and has no series. On cgroup v1, pressure comes
//! from the v2 tree if the runtime made the group there too.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use metier_linux::kernel_file::{self, keyed_value, pressure_micros};
use metier_linux::open_files;
use metier_types::{Bytes, Seconds};

/// How long cached limits are used; limits rarely change.
const LIMITS_CACHE_TIME: Duration = Duration::from_secs(30);
/// Largest file that is read; a process list may be long.
const MAX_FILE_BYTES: usize = 1 << 20;
/// Ticks per second in `cpuacct.stat`: the kernel's USER_HZ, whatever its own timer rate is.
const TICKS_PER_SECOND: u64 = 100;

/// Folders of one group, hierarchy by hierarchy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CgroupFolders {
    /// Version 2.
    pub v2: Option<PathBuf>,
    /// Version 1: scheduling.
    pub cpu: Option<PathBuf>,
    /// Version 1: CPU time.
    pub cpuacct: Option<PathBuf>,
    /// Version 1: memory.
    pub memory: Option<PathBuf>,
    /// Version 1: tasks.
    pub pids: Option<PathBuf>,
    /// Version 1: devices.
    pub blkio: Option<PathBuf>,
}

impl CgroupFolders {
    /// The folder of a hierarchy, by the name of its controller or `v2`.
    pub fn folder_mut(&mut self, controller: &str) -> Option<&mut Option<PathBuf>> {
        Some(match controller {
            "v2" => &mut self.v2,
            "cpu" => &mut self.cpu,
            "cpuacct" => &mut self.cpuacct,
            "memory" => &mut self.memory,
            "pids" => &mut self.pids,
            "blkio" => &mut self.blkio,
            _ => return None,
        })
    }
}

/// Current and accumulated resource use of a group.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CgroupUsage {
    pub cpu: Option<Seconds>,
    /// CPU time in user mode.
    pub user: Option<Seconds>,
    /// CPU time in kernel mode.
    pub system: Option<Seconds>,
    /// Periods of the CPU quota in which the group ran.
    pub periods: Option<u64>,
    /// Of those periods, the throttled ones.
    pub throttled_periods: Option<u64>,
    /// Time for which the quota throttled the group.
    pub throttled: Option<Seconds>,
    /// CPU limit in cores.
    pub cpu_limit: Option<f64>,
    /// Time in which some task waited for a core, for memory, for IO (pressure stall information).
    pub pressure: [Option<Seconds>; 3],
    pub memory: Option<Bytes>,
    pub memory_peak: Option<Bytes>,
    pub anonymous: Option<Bytes>,
    pub file: Option<Bytes>,
    /// Memory without inactive page cache.
    pub working_set: Option<Bytes>,
    pub memory_limit: Option<Bytes>,
    /// Page faults that waited for IO.
    pub major_faults: Option<u64>,
    /// Processes killed for lack of memory.
    pub oom_kills: Option<u64>,
    /// Bytes read from devices.
    pub read: Option<Bytes>,
    /// Bytes written to devices.
    pub written: Option<Bytes>,
    pub processes: Option<u64>,
    pub threads: Option<u64>,
    /// First process; it leads to the network namespace.
    pub first_process: Option<u32>,
}

/// Number of files that may stay open. Beyond it, files are opened for each reading.
#[derive(Debug)]
pub struct OpenFileBudget {
    left: usize,
}

impl OpenFileBudget {
    pub const fn new(files: usize) -> Self {
        Self { left: files }
    }

    fn try_reserve(&mut self) -> bool {
        let is_some = self.left > 0;
        self.left -= usize::from(is_some);
        is_some
    }
}

#[derive(Debug)]
struct CgroupFile {
    path: PathBuf,
    held: Option<File>,
}

impl CgroupFile {
    fn open(folder: Option<&PathBuf>, name: &str, budget: &mut OpenFileBudget) -> Option<Self> {
        let path = folder?.join(name);
        let file = File::open(&path).ok()?;
        let held = budget.try_reserve().then_some(file);
        Some(Self { path, held })
    }

    fn read_text<'b>(&self, buffer: &'b mut Vec<u8>) -> Option<&'b str> {
        match &self.held {
            Some(file) => read_file_text(file, buffer),
            None => read_file_text(&File::open(&self.path).ok()?, buffer),
        }
    }

    fn read_number(&self, buffer: &mut Vec<u8>) -> Option<u64> {
        self.read_text(buffer)?.trim_end().parse().ok()
    }
}

/// Reads the whole text of a file into a buffer that all files share.
pub fn read_file_text<'b>(file: &File, buffer: &'b mut Vec<u8>) -> Option<&'b str> {
    if buffer.len() < 16 << 10 {
        buffer.resize(16 << 10, 0);
    }
    let mut length = 0;
    loop {
        let got = file.read_at(&mut buffer[length..], length as u64).ok()?;
        length += got;
        // The kernel gives lists in pieces of about a page, so only an empty read means the end.
        if got == 0 || (length < 3500) {
            break;
        }
        if length == buffer.len() {
            if length >= MAX_FILE_BYTES {
                break;
            }
            buffer.resize(length * 2, 0);
        }
    }
    std::str::from_utf8(&buffer[..length]).ok()
}

/// The files of one group.
#[derive(Debug)]
pub struct CgroupReader {
    folders: CgroupFolders,
    cpu_v2: Option<CgroupFile>,
    cpuacct: Option<CgroupFile>,
    cpuacct_stat: Option<CgroupFile>,
    throttling: Option<CgroupFile>,
    pressure: [Option<CgroupFile>; 3],
    memory: Option<CgroupFile>,
    peak: Option<CgroupFile>,
    memory_stat: Option<CgroupFile>,
    oom: Option<CgroupFile>,
    io_v2: Option<CgroupFile>,
    io_v1: Option<CgroupFile>,
    threads: Option<CgroupFile>,
    processes: Option<CgroupFile>,
    limits: Option<(Instant, Option<f64>, Option<Bytes>)>,
}

impl CgroupReader {
    /// Opens the files of the group; its process list only if `processes` is set.
    pub fn open(folders: &CgroupFolders, processes: bool, budget: &mut OpenFileBudget) -> Self {
        let CgroupFolders { v2, cpu, cpuacct, memory, pids, blkio } = folders;
        let mut open = |folder: &Option<PathBuf>, name: &str| CgroupFile::open(folder.as_ref(), name, budget);
        // Beside v1, a runtime may create the v2 group and leave its processes elsewhere. The
        // hierarchy with the CPU account is used.
        let cpu_v2 = if cpuacct.is_some() { None } else { open(v2, "cpu.stat") };
        let lists = [pids, memory, cpuacct, v2];
        Self {
            cpuacct: open(cpuacct, "cpuacct.usage"),
            cpuacct_stat: open(cpuacct, "cpuacct.stat"),
            cpu_v2,
            throttling: open(cpu, "cpu.stat"),
            pressure: ["cpu.pressure", "memory.pressure", "io.pressure"].map(|name| open(v2, name)),
            memory: open(memory, "memory.usage_in_bytes").or_else(|| open(v2, "memory.current")),
            peak: open(memory, "memory.max_usage_in_bytes").or_else(|| open(v2, "memory.peak")),
            memory_stat: open(memory, "memory.stat").or_else(|| open(v2, "memory.stat")),
            oom: open(memory, "memory.oom_control").or_else(|| open(v2, "memory.events")),
            io_v2: open(v2, "io.stat"),
            io_v1: open(blkio, "blkio.throttle.io_service_bytes_recursive"),
            threads: open(pids, "pids.current").or_else(|| open(v2, "pids.current")),
            processes: if processes {
                lists.into_iter().find_map(|folder| open(folder, "cgroup.procs"))
            } else {
                None
            },
            folders: folders.clone(),
            limits: None,
        }
    }

    /// Returns its share of the budget.
    pub fn close(self, budget: &mut OpenFileBudget) {
        let [a, b, c] = &self.pressure;
        let probes = [
            &self.cpu_v2,
            &self.cpuacct,
            &self.cpuacct_stat,
            &self.throttling,
            a,
            b,
            c,
            &self.memory,
            &self.peak,
            &self.memory_stat,
            &self.oom,
            &self.io_v2,
            &self.io_v1,
            &self.threads,
            &self.processes,
        ];
        budget.left += probes.into_iter().flatten().filter(|probe| probe.held.is_some()).count();
    }

    /// Reads the current resource use.
    pub fn read_usage(&mut self, buffer: &mut Vec<u8>) -> CgroupUsage {
        let mut usage = CgroupUsage::default();
        (usage.cpu_limit, usage.memory_limit) = self.read_limits(buffer);
        self.read_cpu(&mut usage, buffer);
        for (value, probe) in usage.pressure.iter_mut().zip(&self.pressure) {
            let text = probe.as_ref().and_then(|probe| probe.read_text(buffer));
            *value = text.and_then(pressure_micros).map(Seconds::from_micros);
        }
        self.read_memory(&mut usage, buffer);
        usage.threads = self.threads.as_ref().and_then(|probe| probe.read_number(buffer));
        if let Some(text) = self.io_v2.as_ref().and_then(|probe| probe.read_text(buffer)) {
            let (read, written) = device_bytes_v2(text);
            (usage.read, usage.written) = (Some(Bytes(read)), Some(Bytes(written)));
        } else if let Some(text) = self.io_v1.as_ref().and_then(|probe| probe.read_text(buffer)) {
            let (read, written) = device_bytes_v1(text);
            (usage.read, usage.written) = (Some(Bytes(read)), Some(Bytes(written)));
        }
        if let Some(text) = self.processes.as_ref().and_then(|probe| probe.read_text(buffer)) {
            usage.first_process = text.lines().find_map(|line| line.parse().ok());
            // The group has no process of its own, but groups below it have. Counting them would
            // need a walk through the subtree.
            let count = text.lines().count() as u64;
            usage.processes =
                (count > 0 || usage.threads.is_none_or(|threads| threads == 0)).then_some(count);
        }
        usage
    }

    fn read_cpu(&self, usage: &mut CgroupUsage, buffer: &mut Vec<u8>) {
        if let Some(text) = self.cpu_v2.as_ref().and_then(|probe| probe.read_text(buffer)) {
            let seconds = |key: &str| keyed_value(text, key).map(Seconds::from_micros);
            usage.cpu = seconds("usage_usec");
            (usage.user, usage.system) = (seconds("user_usec"), seconds("system_usec"));
            if usage.cpu_limit.is_some() {
                usage.periods = keyed_value(text, "nr_periods");
                usage.throttled_periods = keyed_value(text, "nr_throttled");
                usage.throttled = seconds("throttled_usec");
            }
        }
        if let Some(text) = self.cpuacct_stat.as_ref().and_then(|probe| probe.read_text(buffer)) {
            let seconds = |key: &str| {
                keyed_value(text, key).map(|ticks| Seconds(ticks as f64 / TICKS_PER_SECOND as f64))
            };
            (usage.user, usage.system) = (seconds("user"), seconds("system"));
        }
        if let Some(nanos) = self.cpuacct.as_ref().and_then(|probe| probe.read_number(buffer)) {
            usage.cpu = Some(Seconds::from_nanos(nanos));
        }
        // Only a quota throttles, so a group without one does not need this file read.
        let throttling = self.throttling.as_ref().filter(|_| usage.cpu_limit.is_some());
        if let Some(text) = throttling.and_then(|probe| probe.read_text(buffer)) {
            usage.periods = keyed_value(text, "nr_periods");
            usage.throttled_periods = keyed_value(text, "nr_throttled");
            usage.throttled = keyed_value(text, "throttled_time").map(Seconds::from_nanos);
        }
    }

    fn read_memory(&self, usage: &mut CgroupUsage, buffer: &mut Vec<u8>) {
        let bytes =
            |probe: &Option<CgroupFile>, buffer: &mut Vec<u8>| probe.as_ref()?.read_number(buffer).map(Bytes);
        usage.memory = bytes(&self.memory, buffer);
        usage.memory_peak = bytes(&self.peak, buffer);
        let is_v1 = self.folders.memory.is_some();
        if let Some(text) = self.memory_stat.as_ref().and_then(|probe| probe.read_text(buffer)) {
            let names = match is_v1 {
                true => ["total_rss", "total_cache", "total_inactive_file", "total_pgmajfault"],
                false => ["anon", "file", "inactive_file", "pgmajfault"],
            };
            let mut found = [None; 4];
            for line in text.lines() {
                let Some((key, value)) = line.split_once(' ') else { continue };
                if let Some(at) = names.iter().position(|name| *name == key) {
                    found[at] = value.trim_end().parse::<u64>().ok();
                }
            }
            let [anonymous, file, inactive, faults] = found;
            (usage.anonymous, usage.file) = (anonymous.map(Bytes), file.map(Bytes));
            usage.major_faults = faults;
            usage.working_set = usage
                .memory
                .zip(inactive)
                .map(|(memory, inactive)| Bytes(memory.get().saturating_sub(inactive)));
        }
        usage.oom_kills =
            self.oom.as_ref().and_then(|probe| keyed_value(probe.read_text(buffer)?, "oom_kill"));
    }

    fn read_limits(&mut self, buffer: &mut Vec<u8>) -> (Option<f64>, Option<Bytes>) {
        if let Some((at, cpu, memory)) = self.limits
            && at.elapsed() < LIMITS_CACHE_TIME
        {
            return (cpu, memory);
        }
        let mut text = |folder: &Option<PathBuf>, name: &str| -> Option<String> {
            let file = File::open(folder.as_ref()?.join(name)).ok()?;
            Some(read_file_text(&file, buffer)?.trim().to_string())
        };
        let folders = &self.folders;
        let number = |text: Option<String>| text?.parse::<u64>().ok();
        let cpu = match text(&folders.v2, "cpu.max") {
            Some(both) => both.split_once(' ').and_then(|(quota, period)| {
                Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok().filter(|period| *period > 0.0)?)
            }),
            None => {
                let quota = number(text(&folders.cpu, "cpu.cfs_quota_us"));
                let period = number(text(&folders.cpu, "cpu.cfs_period_us")).filter(|period| *period > 0);
                quota.zip(period).map(|(quota, period)| quota as f64 / period as f64)
            }
        };
        // "No limit" is `max` on v2 and a number larger than any memory on v1.
        let memory = number(
            text(&folders.memory, "memory.limit_in_bytes").or_else(|| text(&folders.v2, "memory.max")),
        )
        .filter(|bytes| *bytes < 1 << 62)
        .map(Bytes);
        self.limits = Some((Instant::now(), cpu, memory));
        (cpu, memory)
    }
}

/// Bytes read and written over all devices: `8:0 rbytes=1 wbytes=2 rios=…`.
fn device_bytes_v2(text: &str) -> (u64, u64) {
    let mut sums = (0u64, 0u64);
    for word in text.split_ascii_whitespace() {
        if let Some(bytes) = word.strip_prefix("rbytes=") {
            sums.0 = sums.0.saturating_add(bytes.parse().unwrap_or(0));
        } else if let Some(bytes) = word.strip_prefix("wbytes=") {
            sums.1 = sums.1.saturating_add(bytes.parse().unwrap_or(0));
        }
    }
    sums
}

/// The same for version 1: `8:0 Read 1`.
fn device_bytes_v1(text: &str) -> (u64, u64) {
    let mut sums = (0u64, 0u64);
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (Some(what), Some(bytes)) = (words.next(), words.next()) else { continue };
        let bytes: u64 = bytes.parse().unwrap_or(0);
        match what {
            "Read" => sums.0 = sums.0.saturating_add(bytes),
            "Write" => sums.1 = sums.1.saturating_add(bytes),
            _ => {}
        }
    }
    sums
}

/// How many files may stay open, after the limit was raised.
pub fn open_file_budget(proc: &Path) -> usize {
    let limit = open_files::raise_limit();
    let most = kernel_file::read_number(proc.join("sys/fs/file-max")).unwrap_or(u64::MAX) / 4;
    // A quarter stays for connections, sockets and short-lived files.
    usize::try_from((limit - limit / 4).min(most)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write(folder: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(folder).unwrap();
        files.iter().for_each(|(name, text)| fs::write(folder.join(name), text).unwrap());
    }

    #[test]
    fn version_2_is_read_whole() {
        let folder = tempfile::tempdir().unwrap();
        let v2 = folder.path().to_path_buf();
        write(
            &v2,
            &[
                (
                    "cpu.stat",
                    "usage_usec 3000000\nuser_usec 1000000\nsystem_usec 2000000\nnr_periods 4\nnr_throttled 3\nthrottled_usec 500000\n",
                ),
                ("cpu.max", "50000 100000\n"),
                ("cpu.pressure", "some avg10=0 avg60=0 avg300=0 total=1500000\n"),
                ("memory.current", "1000\n"),
                ("memory.peak", "2000\n"),
                ("memory.max", "max\n"),
                ("memory.stat", "anon 500\nfile 400\ninactive_file 300\npgmajfault 7\n"),
                ("memory.events", "oom 1\noom_kill 2\n"),
                ("io.stat", "8:0 rbytes=10 wbytes=20 rios=1\n8:16 rbytes=1 wbytes=2\n"),
                ("pids.current", "9\n"),
                ("cgroup.procs", "41\n42\n"),
            ],
        );
        let folders = CgroupFolders { v2: Some(v2), ..CgroupFolders::default() };
        let mut budget = OpenFileBudget::new(3);
        let mut meter = CgroupReader::open(&folders, true, &mut budget);
        let usage = meter.read_usage(&mut Vec::new());
        assert_eq!(
            (usage.cpu, usage.user, usage.system),
            (Some(Seconds(3.0)), Some(Seconds(1.0)), Some(Seconds(2.0)))
        );
        assert_eq!(
            (usage.periods, usage.throttled_periods, usage.throttled),
            (Some(4), Some(3), Some(Seconds(0.5)))
        );
        assert_eq!((usage.cpu_limit, usage.memory_limit), (Some(0.5), None));
        assert_eq!(usage.pressure, [Some(Seconds(1.5)), None, None]);
        assert_eq!(
            (usage.memory, usage.memory_peak, usage.working_set),
            (Some(Bytes(1000)), Some(Bytes(2000)), Some(Bytes(700)))
        );
        assert_eq!(
            (usage.anonymous, usage.file, usage.major_faults, usage.oom_kills),
            (Some(Bytes(500)), Some(Bytes(400)), Some(7), Some(2))
        );
        assert_eq!((usage.read, usage.written), (Some(Bytes(11)), Some(Bytes(22))));
        assert_eq!((usage.threads, usage.processes, usage.first_process), (Some(9), Some(2), Some(41)));
        assert_eq!(budget.left, 0, "what is held stays within the budget");
        meter.close(&mut budget);
        assert_eq!(budget.left, 3);
    }

    #[test]
    fn version_1_is_read_whole() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| Some(folder.path().join(name));
        write(
            &folder.path().join("cpu"),
            &[
                ("cpu.stat", "nr_periods 4\nnr_throttled 3\nthrottled_time 500000000\n"),
                ("cpu.cfs_quota_us", "200000\n"),
                ("cpu.cfs_period_us", "100000\n"),
            ],
        );
        write(
            &folder.path().join("cpuacct"),
            &[("cpuacct.usage", "1500000001\n"), ("cpuacct.stat", "user 100\nsystem 50\n")],
        );
        write(
            &folder.path().join("memory"),
            &[
                ("memory.usage_in_bytes", "1000\n"),
                ("memory.max_usage_in_bytes", "2000\n"),
                ("memory.limit_in_bytes", "9223372036854771712\n"),
                (
                    "memory.stat",
                    "rss 1\ntotal_rss 500\ntotal_cache 400\ntotal_inactive_file 300\ntotal_pgmajfault 7\n",
                ),
                ("memory.oom_control", "oom_kill_disable 0\noom_kill 2\n"),
                ("cgroup.procs", ""),
            ],
        );
        write(
            &folder.path().join("blkio"),
            &[(
                "blkio.throttle.io_service_bytes_recursive",
                "8:0 Read 10\n8:0 Write 20\n8:0 Total 30\n8:16 Read 1\nTotal 31\n",
            )],
        );
        write(&folder.path().join("pids"), &[("pids.current", "3\n")]);
        let folders = CgroupFolders {
            v2: None,
            cpu: at("cpu"),
            cpuacct: at("cpuacct"),
            memory: at("memory"),
            pids: at("pids"),
            blkio: at("blkio"),
        };
        let usage =
            CgroupReader::open(&folders, true, &mut OpenFileBudget::new(0)).read_usage(&mut Vec::new());
        assert_eq!(
            (usage.cpu, usage.user, usage.system),
            (Some(Seconds(1.500000001)), Some(Seconds(1.0)), Some(Seconds(0.5)))
        );
        assert_eq!(
            (usage.cpu_limit, usage.throttled, usage.memory_limit),
            (Some(2.0), Some(Seconds(0.5)), None)
        );
        assert_eq!(
            (usage.working_set, usage.anonymous, usage.oom_kills),
            (Some(Bytes(700)), Some(Bytes(500)), Some(2))
        );
        assert_eq!((usage.read, usage.written, usage.threads), (Some(Bytes(11)), Some(Bytes(20)), Some(3)));
        assert_eq!(usage.processes, None, "they are in groups below; 0 would be wrong");
    }

    #[test]
    fn a_group_without_files_or_with_nonsense_gives_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let folders = CgroupFolders { v2: Some(folder.path().into()), ..CgroupFolders::default() };
        let all =
            || CgroupReader::open(&folders, true, &mut OpenFileBudget::new(99)).read_usage(&mut Vec::new());
        assert_eq!(all(), CgroupUsage::default());
        for name in [
            "cpu.stat",
            "memory.current",
            "memory.stat",
            "io.pressure",
            "cpu.max",
            "pids.current",
            "memory.max",
        ] {
            fs::write(folder.path().join(name), b"x\xff \n: =").unwrap();
        }
        assert_eq!(all(), CgroupUsage::default());
    }

    #[test]
    fn a_list_longer_than_a_page_is_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let list: String = (1..=20_000).map(|n| format!("{n}\n")).collect();
        fs::write(folder.path().join("cgroup.procs"), list).unwrap();
        let folders = CgroupFolders { v2: Some(folder.path().into()), ..CgroupFolders::default() };
        let usage =
            CgroupReader::open(&folders, true, &mut OpenFileBudget::new(9)).read_usage(&mut Vec::new());
        assert_eq!(usage.processes, Some(20_000));
    }
}
