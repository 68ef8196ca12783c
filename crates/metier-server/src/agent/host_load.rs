//! Load of the device: processor time by mode, memory and root file system, each with the node's
//! name.
//!
//! The metric names are metier's own, so that they do not clash with a node_exporter's.

use std::path::{Path, PathBuf};

use metier_linux::KernelRoots;
use metier_linux::proc_stat::{self, CpuTimes};
use metier_prom::{MetricKind, MetricsPage, RenderedLabels};
use metier_types::Bytes;

/// Sources of the load figures.
pub struct HostLoadMetrics {
    common: RenderedLabels,
    proc: PathBuf,
    ticks: f64,
}

impl HostLoadMetrics {
    /// For the node of this name.
    pub fn new(roots: &KernelRoots, node: &str) -> Self {
        Self {
            common: RenderedLabels::new().with_label("char_node_name", node),
            proc: roots.proc.clone(),
            ticks: proc_stat::ticks_per_second() as f64,
        }
    }

    /// Reads and writes all figures. A figure that the host does not offer has no series.
    pub fn write(&self, page: &mut MetricsPage) {
        let stat = std::fs::read_to_string(self.proc.join("stat")).unwrap_or_default();
        let help = "Time of all processors together, by mode.";
        let mut family = page.begin_family("metier_device_cpu_seconds_total", MetricKind::Counter, help);
        for (mode, ticks) in CpuTimes::parse_host(&stat).iter().flat_map(CpuTimes::by_mode) {
            family.add_sample(&self.common.join(&[("mode", mode)]), ticks as f64 / self.ticks);
        }
        let meminfo = std::fs::read_to_string(self.proc.join("meminfo")).unwrap_or_default();
        let available = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
        let available = available.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        page.begin_family(
            "metier_device_memory_available_bytes",
            MetricKind::Gauge,
            "Memory available to a new program without swapping.",
        )
        .add_optional_sample(&self.common, available.map(|kilobytes| Bytes(kilobytes.saturating_mul(1024))));
        let (size, free) = match root_filesystem(&self.proc) {
            Some(about) => (
                Some(Bytes(about.f_blocks.saturating_mul(about.f_frsize))),
                Some(Bytes(about.f_bavail.saturating_mul(about.f_frsize))),
            ),
            None => (None, None),
        };
        let place = [("mountpoint", "/")];
        page.begin_family(
            "metier_device_disk_size_bytes",
            MetricKind::Gauge,
            "Size of the root file system.",
        )
        .add_optional_sample(&self.common.join(&place), size);
        page.begin_family(
            "metier_device_disk_available_bytes",
            MetricKind::Gauge,
            "Bytes of the root file system that ordinary users can still write.",
        )
        .add_optional_sample(&self.common.join(&place), free);
    }
}

/// The host's root as its first process sees it, if permitted; else the root beside its /proc.
pub fn root_filesystem(proc: &Path) -> Option<rustix::fs::StatVfs> {
    let beside = proc.parent().unwrap_or(Path::new("/"));
    rustix::fs::statvfs(proc.join("1/root/")).or_else(|_| rustix::fs::statvfs(beside)).ok()
}

#[cfg(test)]
mod tests {
    use metier_prom::{ExpositionFormat, ScrapeLimits, parse_page};

    use super::*;

    #[test]
    fn modes_memory_and_root_are_shown_with_the_node_and_absent_figures_are_absent() {
        let folder = tempfile::tempdir().unwrap();
        let roots = KernelRoots { proc: folder.path().join("proc"), ..KernelRoots::default() };
        std::fs::create_dir_all(&roots.proc).unwrap();
        let shown = || {
            let mut page = MetricsPage::new(ExpositionFormat::Text);
            HostLoadMetrics::new(&roots, "edge-1").write(&mut page);
            parse_page(page.finish().as_bytes(), ExpositionFormat::Text, &ScrapeLimits::default()).unwrap()
        };
        assert!(
            shown().family("metier_device_memory_available_bytes").is_none_or(|all| all.samples.is_empty())
        );
        std::fs::write(roots.proc.join("stat"), "cpu  100 1 200 5000 30 4 5 6 70 0\ncpu0 1 1 1 1\n").unwrap();
        std::fs::write(roots.proc.join("meminfo"), "MemTotal: 9 kB\nMemAvailable:    7 kB\n").unwrap();
        let page = shown();
        let cpu = &page.family("metier_device_cpu_seconds_total").unwrap().samples;
        assert_eq!(cpu.len(), 8, "guests are not counted twice");
        let idle = cpu.iter().find(|sample| sample.label("mode") == Some("idle")).unwrap();
        assert_eq!(idle.value, 5000.0 / rustix::param::clock_ticks_per_second() as f64);
        assert_eq!(idle.label("char_node_name"), Some("edge-1"));
        let value = |name: &str| page.family(name).unwrap().samples[0].value;
        assert_eq!(value("metier_device_memory_available_bytes"), 7.0 * 1024.0);
        let (size, free) =
            (value("metier_device_disk_size_bytes"), value("metier_device_disk_available_bytes"));
        assert!(size > 0.0 && free <= size);
    }
}
