//! Resource use of the server itself, for `/metrics`. A value that cannot be read is left out.

/// Resource use of this process.
#[derive(Debug, Default)]
pub struct ServerProcessUsage {
    pub cpu_seconds: f64,
    pub resident_bytes: Option<u64>,
    pub open_files: Option<u64>,
}

/// Reads the resource use of this process.
pub fn read_process_usage() -> ServerProcessUsage {
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    ServerProcessUsage {
        cpu_seconds: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
        resident_bytes: std::fs::read_to_string("/proc/self/status")
            .ok()
            .and_then(|text| resident_bytes(&text)),
        open_files: std::fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as u64),
    }
}

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_found_in_the_kernels_words() {
        assert_eq!(resident_bytes("VmPeak:\t  10 kB\nVmRSS:\t    5400 kB\n"), Some(5400 * 1024));
        assert_eq!(resident_bytes("VmPeak:\t 10 kB\n"), None);
        let own = read_process_usage();
        assert!(own.cpu_seconds >= 0.0 && own.resident_bytes.is_some_and(|bytes| bytes > 0));
    }
}
