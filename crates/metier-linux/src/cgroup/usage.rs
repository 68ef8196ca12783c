//! Reader of the run's control group: cheap samples during the run, exact totals at its end.

use std::os::unix::fs::FileExt;

use metier_types::{Bytes, Seconds};

use super::RunCgroup;
use crate::kernel_file::{self, KernelFile, keyed_value, pressure_micros};

/// Values at one moment of the run, for its time line.
#[derive(Debug, Clone, Copy, Default)]
pub struct CgroupSample {
    /// CPU time used so far, in nanoseconds.
    pub cpu_ns: Option<u64>,
    pub memory: Option<u64>,
    /// Anonymous part of `memory`.
    pub anonymous: Option<u64>,
    pub file: Option<u64>,
    pub kernel: Option<u64>,
    /// Bytes read from devices so far.
    pub read: Option<u64>,
    /// Bytes written to devices so far.
    pub written: Option<u64>,
}

/// Number of reads until a group counts as not settled, and the interval between two reads.
const SETTLE_READS: u32 = 50;
const SETTLE_INTERVAL: std::time::Duration = std::time::Duration::from_millis(1);

/// Totals of the run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CgroupTotals {
    pub cpu: Option<Seconds>,
    /// CPU time in user mode; the split is by scheduler ticks, only the sum is exact.
    pub user: Option<Seconds>,
    /// CPU time in the kernel.
    pub system: Option<Seconds>,
    /// High-water mark of memory.
    pub peak_memory: Option<Bytes>,
    /// Minor and major page faults.
    pub faults: Option<u64>,
    /// Page faults that waited for IO.
    pub major_faults: Option<u64>,
    /// Processes killed for lack of memory.
    pub oom_kills: Option<u64>,
    /// Bytes read from devices.
    pub device_read: Option<Bytes>,
    /// Bytes written to devices.
    pub device_written: Option<Bytes>,
    /// Time in which some task waited for a core.
    pub cpu_pressure: Option<Seconds>,
    /// Time in which some task waited for memory.
    pub memory_pressure: Option<Seconds>,
    /// Time in which some task waited for IO.
    pub io_pressure: Option<Seconds>,
    /// Whether the high-water mark may predate the run; then it is an upper bound of the run's own.
    pub is_peak_foreign: bool,
}

/// The group's files, held open.
#[derive(Debug)]
pub struct CgroupMeter {
    cpu: Option<CpuUsageFile>,
    memory: Option<KernelFile>,
    stat: Option<KernelFile>,
    kernel: Option<KernelFile>,
    io: Option<KernelFile>,
    is_v1_memory: bool,
    /// CPU time that the group had used before the run.
    before_ns: u64,
}

#[derive(Debug)]
enum CpuUsageFile {
    /// `cpuacct.usage`, in nanoseconds.
    V1(KernelFile),
    /// `cpu.stat`, in microseconds.
    V2(KernelFile),
}

impl CgroupMeter {
    /// Opens the existing files; CPU time of the baseline is subtracted from samples.
    pub fn open(group: &RunCgroup, baseline: &CgroupTotals) -> Self {
        let v1 = |controller: &str, name: &str| {
            group.v1.get(controller).and_then(|f| KernelFile::open(f.join(name)))
        };
        let v2 = |name: &str| group.v2.as_ref().and_then(|f| KernelFile::open(f.join(name)));
        let is_v1_memory = group.v1.contains_key("memory");
        Self {
            cpu: v1("cpuacct", "cpuacct.usage")
                .map(CpuUsageFile::V1)
                .or_else(|| v2("cpu.stat").map(CpuUsageFile::V2)),
            memory: v1("memory", "memory.usage_in_bytes").or_else(|| v2("memory.current")),
            stat: v1("memory", "memory.stat").or_else(|| v2("memory.stat")),
            kernel: v1("memory", "memory.kmem.usage_in_bytes"),
            io: v2("io.stat"),
            is_v1_memory,
            before_ns: baseline.cpu.map_or(0, |cpu| (cpu.get() * 1e9).round() as u64),
        }
    }

    /// Whether device traffic is charged to the group as it happens.
    pub fn has_io(&self) -> bool {
        self.io.is_some()
    }

    /// Reads a sample; the parts of memory and the IO only if `whole`, since they cost more.
    pub fn sample(&mut self, whole: bool) -> CgroupSample {
        let cpu_ns = self.cpu.as_mut().and_then(|cpu| match cpu {
            CpuUsageFile::V1(held) => held.read_number(),
            CpuUsageFile::V2(held) => {
                keyed_value(held.read_text()?, "usage_usec").map(|micros| micros * 1000)
            }
        });
        let cpu_ns = cpu_ns.map(|ns| ns.saturating_sub(self.before_ns));
        let mut sample = CgroupSample {
            cpu_ns,
            memory: self.memory.as_mut().and_then(KernelFile::read_number),
            ..CgroupSample::default()
        };
        if !whole {
            return sample;
        }
        if let Some(text) = self.stat.as_mut().and_then(KernelFile::read_text) {
            if self.is_v1_memory {
                sample.anonymous = keyed_value(text, "total_rss").or_else(|| keyed_value(text, "rss"));
                sample.file = keyed_value(text, "total_cache").or_else(|| keyed_value(text, "cache"));
            } else {
                sample.anonymous = keyed_value(text, "anon");
                sample.file = keyed_value(text, "file");
                sample.kernel = kernel_memory_bytes(text);
            }
        }
        if let Some(held) = &mut self.kernel {
            sample.kernel = held.read_number();
        }
        if let Some((read, written)) = self.io.as_mut().and_then(KernelFile::read_text).map(device_bytes) {
            sample.read = Some(read);
            sample.written = Some(written);
        }
        sample
    }
}

impl CgroupTotals {
    /// Difference to an earlier reading; the peak is not subtracted.
    pub fn since(self, baseline: &Self) -> Self {
        let seconds = |now: Option<Seconds>, then: Option<Seconds>| {
            now.map(|now| Seconds((now.get() - then.unwrap_or_default().get()).max(0.0)))
        };
        let count = |now: Option<u64>, then: Option<u64>| now.map(|n| n.saturating_sub(then.unwrap_or(0)));
        let bytes =
            |now: Option<Bytes>, then: Option<Bytes>| count(now.map(|b| b.0), then.map(|b| b.0)).map(Bytes);
        Self {
            cpu: seconds(self.cpu, baseline.cpu),
            user: seconds(self.user, baseline.user),
            system: seconds(self.system, baseline.system),
            peak_memory: self.peak_memory,
            faults: count(self.faults, baseline.faults),
            major_faults: count(self.major_faults, baseline.major_faults),
            oom_kills: count(self.oom_kills, baseline.oom_kills),
            device_read: bytes(self.device_read, baseline.device_read),
            device_written: bytes(self.device_written, baseline.device_written),
            cpu_pressure: seconds(self.cpu_pressure, baseline.cpu_pressure),
            memory_pressure: seconds(self.memory_pressure, baseline.memory_pressure),
            io_pressure: seconds(self.io_pressure, baseline.io_pressure),
            is_peak_foreign: baseline.is_peak_foreign && self.peak_memory <= baseline.peak_memory,
        }
    }

    /// Reads a group whose main process has just ended, until it is empty and its counters are
    /// stable. Returns whether that was observed. It takes milliseconds, and an engine usually
    /// removes the group later, so these counters are final.
    pub fn read_until_settled(&mut self, group: &RunCgroup) -> bool {
        for _ in 0..SETTLE_READS {
            std::thread::sleep(SETTLE_INTERVAL);
            let is_empty = group.list_members().is_empty();
            let now = Self::read(group);
            // The engine removes the group's hierarchies one after the other.
            if now.cpu.is_none() || now.peak_memory.is_some() != self.peak_memory.is_some() {
                return false;
            }
            let before = std::mem::replace(self, now);
            if is_empty && before.cpu == self.cpu {
                return true;
            }
        }
        false
    }

    /// Reads the exact counters. Call it after the last process has ended and before the folders
    /// are removed.
    pub fn read(group: &RunCgroup) -> Self {
        let v1 = |controller: &str, name: &str| {
            group.v1.get(controller).and_then(|f| kernel_file::read_text(f.join(name)))
        };
        let v2 = |name: &str| group.v2.as_ref().and_then(|f| std::fs::read_to_string(f.join(name)).ok());
        let v1_number = |controller: &str, name: &str| v1(controller, name)?.parse::<u64>().ok();
        let mut totals = Self::default();

        let stat = v2("cpu.stat").unwrap_or_default();
        totals.cpu = v1_number("cpuacct", "cpuacct.usage")
            .map(Seconds::from_nanos)
            .or_else(|| keyed_value(&stat, "usage_usec").map(Seconds::from_micros));
        (totals.user, totals.system) =
            split_cpu_time(&stat, v1("cpuacct", "cpuacct.stat").as_deref(), totals.cpu);

        totals.peak_memory = v1_number("memory", "memory.max_usage_in_bytes")
            .or_else(|| {
                let since = group.peak.as_ref().and_then(|file| {
                    let mut text = [0u8; 32];
                    let length = file.read_at(&mut text, 0).ok()?;
                    Some(String::from_utf8_lossy(&text[..length]).into_owned())
                });
                since.or_else(|| v2("memory.peak"))?.trim().parse().ok()
            })
            .map(Bytes);
        if let Some(text) = v1("memory", "memory.stat") {
            totals.faults = keyed_value(&text, "total_pgfault");
            totals.major_faults = keyed_value(&text, "total_pgmajfault");
        } else if let Some(text) = v2("memory.stat") {
            totals.faults = keyed_value(&text, "pgfault");
            totals.major_faults = keyed_value(&text, "pgmajfault");
        }
        totals.oom_kills = v1("memory", "memory.oom_control")
            .and_then(|text| keyed_value(&text, "oom_kill"))
            .or_else(|| keyed_value(&v2("memory.events")?, "oom_kill"));
        // Version 1 charges buffered writes to the root group, so only version 2's figures are
        // used.
        if let Some((read, written)) = v2("io.stat").as_deref().map(device_bytes) {
            totals.device_read = Some(Bytes(read));
            totals.device_written = Some(Bytes(written));
        }
        let pressure = |name| pressure_micros(&v2(name)?).map(Seconds::from_micros);
        totals.cpu_pressure = pressure("cpu.pressure");
        totals.memory_pressure = pressure("memory.pressure");
        totals.io_pressure = pressure("io.pressure");
        totals
    }
}

/// Splits CPU time into user and system time that add up to the exact sum.
fn split_cpu_time(
    v2_stat: &str,
    v1_stat: Option<&str>,
    cpu: Option<Seconds>,
) -> (Option<Seconds>, Option<Seconds>) {
    let from_v2 = keyed_value(v2_stat, "user_usec").zip(keyed_value(v2_stat, "system_usec"));
    let from_v1 = || v1_stat.and_then(|text| keyed_value(text, "user").zip(keyed_value(text, "system")));
    let Some(((user, system), cpu)) = from_v2.or_else(from_v1).zip(cpu) else { return (None, None) };
    // In whole nanoseconds, so that a part of zero stays exactly zero.
    let nanos = (cpu.get() * 1e9).round() as u64;
    let parts = u128::from(user + system);
    let user = (u128::from(nanos) * u128::from(user)).checked_div(parts).map_or(nanos, |user| user as u64);
    (Some(Seconds::from_nanos(user)), Some(Seconds::from_nanos(nanos - user)))
}

/// Kernel memory in a version 2 `memory.stat`; before Linux 5.18 only its parts are listed.
fn kernel_memory_bytes(text: &str) -> Option<u64> {
    keyed_value(text, "kernel").or_else(|| {
        let parts = ["kernel_stack", "pagetables", "percpu", "sock", "vmalloc", "slab"];
        let mut known = parts.iter().filter_map(|part| keyed_value(text, part)).peekable();
        known.peek()?;
        Some(known.sum())
    })
}

/// Bytes read and written, summed over all devices of an `io.stat`: `8:0 rbytes=1 wbytes=2 rios=…`.
fn device_bytes(text: &str) -> (u64, u64) {
    let sum = |key: &str| {
        text.split_whitespace().filter_map(|word| word.strip_prefix(key)?.parse::<u64>().ok()).sum::<u64>()
    };
    (sum("rbytes="), sum("wbytes="))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use metier_types::AccountingMethod;

    use super::*;
    use crate::cgroup::CgroupMembership;

    fn group(folder: &std::path::Path, v1: &[&'static str]) -> RunCgroup {
        let v1: BTreeMap<&'static str, _> = v1.iter().map(|c| (*c, folder.join(c))).collect();
        v1.values().for_each(|f| fs::create_dir_all(f).unwrap());
        fs::create_dir_all(folder.join("v2")).unwrap();
        RunCgroup {
            method: AccountingMethod::CgroupHybrid,
            v2: Some(folder.join("v2")),
            v1,
            remove: vec![],
            around: CgroupMembership::default(),
            peak: None,
        }
    }

    #[test]
    fn a_group_is_read_to_its_last_counters_if_it_is_seen_empty() {
        let folder = tempfile::tempdir().unwrap();
        let group = group(folder.path(), &[]);
        let write = |name: &str, text: &str| fs::write(folder.path().join("v2").join(name), text).unwrap();
        write("cpu.stat", "usage_usec 3000000\nuser_usec 1000000\nsystem_usec 2000000\n");
        write("memory.peak", "1048576\n");
        write("cgroup.procs", "");
        // The group was read shortly before its main process ended.
        let early = CgroupTotals { cpu: Some(Seconds(2.5)), ..CgroupTotals::read(&group) };
        let mut last = early.clone();
        assert!(last.read_until_settled(&group));
        assert_eq!(last.cpu, Some(Seconds(3.0)));
        // A process is still in the group.
        write("cgroup.procs", "7\n");
        assert!(!early.clone().read_until_settled(&group));
        write("cgroup.procs", "");
        // With half of the files removed, then all, the earlier values stay.
        fs::remove_file(folder.path().join("v2/memory.peak")).unwrap();
        let mut last = early.clone();
        assert!(!last.read_until_settled(&group));
        assert_eq!(last, early);
        fs::remove_dir_all(folder.path().join("v2")).unwrap();
        assert!(!last.read_until_settled(&group));
        assert_eq!(last, early);
    }

    #[test]
    fn version_2_files_are_read_to_the_last_digit() {
        let folder = tempfile::tempdir().unwrap();
        let group = group(folder.path(), &[]);
        let write = |name: &str, text: &str| fs::write(folder.path().join("v2").join(name), text).unwrap();
        write("cpu.stat", "usage_usec 3000000\nuser_usec 1000000\nsystem_usec 2000000\nnr_periods 0\n");
        write("memory.peak", "1048576\n");
        write("memory.stat", "anon 5\nfile 6\nkernel 7\npgfault 40\npgmajfault 2\n");
        write("memory.events", "low 0\noom 1\noom_kill 1\n");
        write("io.stat", "8:0 rbytes=10 wbytes=20 rios=1\n8:16 rbytes=1 wbytes=2\n");
        write("io.pressure", "some avg10=0 avg60=0 avg300=0 total=2500000\n");
        let totals = CgroupTotals::read(&group);
        assert_eq!(totals.cpu, Some(Seconds(3.0)));
        assert_eq!((totals.user, totals.system), (Some(Seconds(1.0)), Some(Seconds(2.0))));
        assert_eq!(totals.peak_memory, Some(Bytes(1_048_576)));
        assert_eq!((totals.faults, totals.major_faults, totals.oom_kills), (Some(40), Some(2), Some(1)));
        assert_eq!((totals.device_read, totals.device_written), (Some(Bytes(11)), Some(Bytes(22))));
        assert_eq!(totals.io_pressure, Some(Seconds(2.5)));
        assert_eq!(totals.cpu_pressure, None);
        let sample = CgroupMeter::open(&group, &CgroupTotals::default()).sample(true);
        assert_eq!((sample.anonymous, sample.file, sample.kernel), (Some(5), Some(6), Some(7)));
    }

    #[test]
    fn version_1_counts_the_sub_groups_too() {
        let folder = tempfile::tempdir().unwrap();
        let group = group(folder.path(), &["cpuacct", "memory"]);
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("cpuacct/cpuacct.usage", "1500000001\n");
        write("cpuacct/cpuacct.stat", "user 100\nsystem 50\n");
        write("memory/memory.max_usage_in_bytes", "4096\n");
        write(
            "memory/memory.stat",
            "rss 1\ntotal_rss 11\ntotal_cache 12\ntotal_pgfault 9\ntotal_pgmajfault 0\n",
        );
        write("memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
        let totals = CgroupTotals::read(&group);
        assert_eq!(totals.cpu, Some(Seconds(1.500000001)));
        assert!((totals.user.unwrap().get() - 1.0).abs() < 1e-6);
        assert_eq!(totals.oom_kills, Some(3));
        assert_eq!(totals.device_written, None, "version 1 block figures mislead");
        assert_eq!(CgroupMeter::open(&group, &CgroupTotals::default()).sample(true).anonymous, Some(11));
    }

    #[test]
    fn the_split_adds_up_and_leaves_no_crumbs() {
        // For the first case, `cpu * user / user` in floating point is less than `cpu`.
        for (user, system, cpu) in [(774076, 0, 0.402334308), (0, 7, 1.1), (0, 0, 0.7), (1, 2, 1e-9)] {
            let stat = format!("user_usec {user}\nsystem_usec {system}\n");
            let (u, s) = split_cpu_time(&stat, None, Some(Seconds(cpu)));
            let (u, s) = (u.unwrap().get(), s.unwrap().get());
            assert!((u + s - cpu).abs() < 1e-12, "{u} + {s} is not {cpu}");
            assert!(system > 0 || s == 0.0, "{s}");
            assert!(user > 0 || system == 0 || u == 0.0, "{u}");
        }
    }

    #[test]
    fn a_group_without_files_gives_nothing_and_no_zeros() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(CgroupTotals::read(&group(folder.path(), &["cpuacct"])), CgroupTotals::default());
    }
}
