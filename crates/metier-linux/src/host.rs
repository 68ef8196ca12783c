//! State of the host around a run: load, steal, frequency, temperature, pressure.

use std::path::PathBuf;

use metier_types::{Bytes, Celsius, Hertz, HostReading, HostState, Ratio, Seconds};

use crate::KernelRoots;
use crate::firmware_throttling;
use crate::kernel_file::{self, KernelFile, kib_field, pressure_micros};
use crate::proc_stat::{self, CpuTimes};

/// Counters of the whole host at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostCounters {
    /// Busy time over all cores in nanoseconds, without steal.
    pub busy_ns: Option<u64>,
    /// Time that the hypervisor gave to other guests.
    pub steal_ns: Option<u64>,
    /// Total time over all cores.
    pub total_ns: Option<u64>,
    /// Time in which some task waited for a core, for memory, for IO.
    pub pressure_ns: [Option<u64>; 3],
}

/// Repeatedly reads the host's state.
pub struct HostMeter {
    stat: Option<KernelFile>,
    load: Option<KernelFile>,
    memory: Option<KernelFile>,
    pressure: [Option<KernelFile>; 3],
    frequencies: Vec<KernelFile>,
    zones: Vec<KernelFile>,
    /// Why the firmware throttles the board (Raspberry Pi).
    throttling: Option<KernelFile>,
    governor: Option<String>,
    tick_ns: u64,
}

impl HostMeter {
    /// Opens the files that exist.
    pub fn open(roots: &KernelRoots) -> Self {
        let cpus = roots.sys.join("devices/system/cpu");
        let governors: std::collections::BTreeSet<String> = numbered_folders(&cpus, "cpu")
            .filter_map(|cpu| kernel_file::read_text(cpu.join("cpufreq/scaling_governor")))
            .collect();
        Self {
            stat: KernelFile::open(roots.proc.join("stat")),
            load: KernelFile::open(roots.proc.join("loadavg")),
            memory: KernelFile::open(roots.proc.join("meminfo")),
            pressure: ["cpu", "memory", "io"]
                .map(|name| KernelFile::open(roots.proc.join("pressure").join(name))),
            frequencies: numbered_folders(&cpus, "cpu")
                .filter_map(|cpu| KernelFile::open(cpu.join("cpufreq/scaling_cur_freq")))
                .take(64)
                .collect(),
            zones: numbered_folders(&roots.sys.join("class/thermal"), "thermal_zone")
                .filter_map(|zone| KernelFile::open(zone.join("temp")))
                .take(32)
                .collect(),
            throttling: firmware_throttling::open_flags(roots),
            governor: (governors.len() == 1).then(|| governors.into_iter().next()).flatten(),
            tick_ns: 1_000_000_000 / proc_stat::ticks_per_second(),
        }
    }

    pub fn read(&mut self) -> HostReading {
        let mut reading = HostReading::default();
        if let Some(text) = self.load.as_mut().and_then(KernelFile::read_text) {
            let mut words = text.split_whitespace();
            reading.load1 = words.next().and_then(|word| word.parse().ok());
            reading.runnable = words.nth(2).and_then(|word| word.split_once('/')?.0.parse().ok());
        }
        let memory = self.memory.as_mut().and_then(KernelFile::read_text);
        reading.memory_available_bytes = memory.and_then(|text| kib_field(text, "MemAvailable")).map(Bytes);
        let khz: Vec<f64> =
            self.frequencies.iter_mut().filter_map(|f| f.read_number()).map(|khz| khz as f64).collect();
        if !khz.is_empty() {
            reading.frequency_hertz = Some(Hertz(khz.iter().sum::<f64>() / khz.len() as f64 * 1e3));
        }
        // Switched-off zones report about -256 °C; running hosts are above freezing.
        let hottest = self
            .zones
            .iter_mut()
            .filter_map(|z| z.read_text()?.trim().parse::<i64>().ok())
            .filter(|t| *t > 0)
            .max();
        reading.temperature_celsius = hottest.map(|milli| Celsius(milli as f64 / 1e3));
        if let Some(held) = self.throttling.as_mut().and_then(firmware_throttling::read_flags)
            && let Ok(held) = serde_json::to_value(held)
        {
            reading.extra.insert("throttling".into(), held);
        }
        reading
    }

    /// Reads the host's counters.
    pub fn read_counters(&mut self) -> HostCounters {
        let mut counters = HostCounters::default();
        if let Some(times) = self.stat.as_mut().and_then(KernelFile::read_text).and_then(CpuTimes::parse_host)
        {
            counters.busy_ns = Some(times.busy() * self.tick_ns);
            counters.steal_ns = times.steal.map(|ticks| ticks * self.tick_ns);
            counters.total_ns = Some(times.total() * self.tick_ns);
        }
        for (value, held) in counters.pressure_ns.iter_mut().zip(&mut self.pressure) {
            *value = held
                .as_mut()
                .and_then(KernelFile::read_text)
                .and_then(pressure_micros)
                .map(|micros| micros * 1000);
        }
        counters
    }

    /// Whether the host reports its CPU frequencies.
    pub fn has_frequency(&self) -> bool {
        !self.frequencies.is_empty()
    }

    /// Whether the host has a temperature sensor.
    pub fn has_temperature(&self) -> bool {
        !self.zones.is_empty()
    }

    /// State over a run: readings before and after, and the differences of the counters.
    pub fn state_over_run(
        &self,
        (before, at_start): (HostReading, HostCounters),
        (after, at_end): (HostReading, HostCounters),
        wall: Seconds,
        ours: Seconds,
    ) -> HostState {
        let grown = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| b.saturating_sub(a) as f64);
        let total = grown(at_start.total_ns, at_end.total_ns).filter(|total| *total > 0.0);
        let share =
            |part: Option<f64>| part.zip(total).map(|(part, total)| Ratio((part / total).clamp(0.0, 1.0)));
        let waited = |i: usize| {
            let part = grown(at_start.pressure_ns[i], at_end.pressure_ns[i])?;
            (wall.get() > 0.0).then(|| Ratio((part / 1e9 / wall.get()).clamp(0.0, 1.0)))
        };
        // Ticks are coarse: with fewer than 20 in all, the ratios would be noise.
        let enough = total.is_some_and(|total| total >= 20.0 * self.tick_ns as f64);
        HostState {
            before,
            after,
            governor: self.governor.clone(),
            steal_ratio: enough.then(|| share(grown(at_start.steal_ns, at_end.steal_ns))).flatten(),
            others_ratio: enough
                .then(|| {
                    share(
                        grown(at_start.busy_ns, at_end.busy_ns)
                            .map(|busy| (busy - ours.get() * 1e9).max(0.0)),
                    )
                })
                .flatten(),
            cpu_pressure_ratio: waited(0),
            memory_pressure_ratio: waited(1),
            io_pressure_ratio: waited(2),
            extra: Default::default(),
        }
    }
}

/// Largest number of processors.
const MAX_CPUS: usize = 1024;

/// Online CPUs from a list such as `0-3,5`; empty if the kernel does not report them.
pub fn online_cpus(roots: &KernelRoots) -> Vec<i32> {
    let text = crate::kernel_file::read_text(roots.sys.join("devices/system/cpu/online")).unwrap_or_default();
    let range = |part: &str| -> Option<std::ops::RangeInclusive<i32>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    text.split(',').filter_map(range).flatten().take(MAX_CPUS).collect()
}

/// Folders `cpu0`, `cpu1` … in numeric order.
pub fn numbered_folders(folder: &std::path::Path, prefix: &str) -> impl Iterator<Item = PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            Some((entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok()?, entry.path()))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn tree() -> (tempfile::TempDir, KernelRoots) {
        let folder = tempfile::tempdir().unwrap();
        let roots = KernelRoots {
            proc: folder.path().join("proc"),
            sys: folder.path().join("sys"),
            etc: folder.path().into(),
        };
        fs::create_dir_all(roots.proc.join("pressure")).unwrap();
        fs::create_dir_all(&roots.sys).unwrap();
        (folder, roots)
    }

    #[test]
    fn a_host_without_sensors_gives_none_not_zero() {
        let (_folder, roots) = tree();
        let mut meter = HostMeter::open(&roots);
        assert_eq!(meter.read(), HostReading::default());
        assert!(meter.read_counters().busy_ns.is_none());
        assert!(!meter.has_frequency() && !meter.has_temperature());
    }

    #[test]
    fn readings_are_in_base_units() {
        let (_folder, roots) = tree();
        let write = |path: PathBuf, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(roots.proc.join("loadavg"), "1.50 0.40 0.20 3/120 999\n");
        write(roots.proc.join("meminfo"), "MemTotal: 10 kB\nMemAvailable:    5 kB\n");
        for cpu in 0..2 {
            let folder = roots.sys.join(format!("devices/system/cpu/cpu{cpu}/cpufreq"));
            write(folder.join("scaling_cur_freq"), &format!("{}\n", 1_000_000 + cpu * 1_000_000));
            write(folder.join("scaling_governor"), "powersave\n");
        }
        for (zone, temp) in [(0, "-256000"), (1, "41500"), (2, "40000")] {
            write(roots.sys.join(format!("class/thermal/thermal_zone{zone}/temp")), temp);
        }
        let mut meter = HostMeter::open(&roots);
        let reading = meter.read();
        assert_eq!((reading.load1, reading.runnable), (Some(1.5), Some(3)));
        assert_eq!(reading.memory_available_bytes, Some(Bytes(5120)));
        assert_eq!(reading.frequency_hertz, Some(Hertz(1.5e9)));
        assert_eq!(reading.temperature_celsius, Some(Celsius(41.5)));
    }

    #[test]
    fn a_board_that_its_firmware_holds_back_says_so() {
        let (_folder, roots) = tree();
        let path = roots.sys.join("devices/platform/soc/soc:firmware/get_throttled");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "50005\n").unwrap();
        let reading = HostMeter::open(&roots).read();
        assert_eq!(reading.extra["throttling"]["under_voltage"], true);
        assert_eq!(reading.extra["throttling"]["frequency_capped"], false);
    }

    #[test]
    fn steal_and_others_are_shares_of_all_cores() {
        let (_folder, roots) = tree();
        let at = |busy: u64, steal: u64, total: u64| HostCounters {
            busy_ns: Some(busy * 1_000_000_000),
            steal_ns: Some(steal * 1_000_000_000),
            total_ns: Some(total * 1_000_000_000),
            pressure_ns: [Some(0), None, Some(500_000_000 * busy)],
        };
        let reading = HostReading::default;
        let state = HostMeter::open(&roots).state_over_run(
            (reading(), at(0, 0, 0)),
            (reading(), at(4, 2, 10)),
            Seconds(5.0),
            Seconds(1.0),
        );
        assert_eq!(state.steal_ratio, Some(Ratio(0.2)));
        assert_eq!(state.others_ratio, Some(Ratio(0.3)));
        assert_eq!(state.cpu_pressure_ratio, Some(Ratio(0.0)));
        assert_eq!(state.memory_pressure_ratio, None);
        assert_eq!(state.io_pressure_ratio, Some(Ratio(0.4)));
    }
}
