//! Cores: load from `/proc/stat`, clock and state from sysfs.

use std::collections::HashMap;

use metier_types::{Hertz, Ratio};

use crate::boards::BoardCore;
use metier_linux::KernelRoots;
use metier_linux::host::numbered_folders;
use metier_linux::kernel_file::KernelFile;
use metier_linux::proc_stat::CpuTimes;

/// Largest number of cores read.
const MAX_CORES: usize = 1024;

struct CoreFiles {
    number: u32,
    /// `None` for the first core on most hosts: it cannot be switched off.
    online: Option<KernelFile>,
    clock: Option<KernelFile>,
}

pub(super) struct CoreReader {
    stat: Option<KernelFile>,
    files: Vec<CoreFiles>,
    /// Busy and total ticks of each core at the last reading.
    before: HashMap<u32, (u64, u64)>,
}

impl CoreReader {
    pub(super) fn open(roots: &KernelRoots) -> Self {
        let folder = roots.sys.join("devices/system/cpu");
        let files = numbered_folders(&folder, "cpu").take(MAX_CORES).filter_map(|core| {
            Some(CoreFiles {
                number: core.file_name()?.to_str()?.strip_prefix("cpu")?.parse().ok()?,
                online: KernelFile::open(core.join("online")),
                clock: KernelFile::open(core.join("cpufreq/scaling_cur_freq")),
            })
        });
        Self {
            stat: KernelFile::open(roots.proc.join("stat")),
            files: files.collect(),
            before: HashMap::new(),
        }
    }

    pub(super) fn read(&mut self) -> Vec<BoardCore> {
        let now: HashMap<u32, (u64, u64)> = self
            .stat
            .as_mut()
            .and_then(KernelFile::read_text)
            .map(|text| CpuTimes::parse_cores(text).take(MAX_CORES).map(busy_and_total).collect())
            .unwrap_or_default();
        let before = std::mem::replace(&mut self.before, now);
        let now = &self.before;
        let core = |files: &mut CoreFiles| {
            if files.online.as_mut().and_then(KernelFile::read_number) == Some(0) {
                return BoardCore { off: true, ..BoardCore::default() };
            }
            let load_ratio = now.get(&files.number).zip(before.get(&files.number)).and_then(|(now, then)| {
                let all = now.1.checked_sub(then.1).filter(|ticks| *ticks > 0)?;
                Some(Ratio((now.0.saturating_sub(then.0) as f64 / all as f64).min(1.0)))
            });
            let kilohertz = files.clock.as_mut().and_then(KernelFile::read_number);
            BoardCore {
                off: false,
                load_ratio,
                frequency_hertz: kilohertz.map(|khz| Hertz(khz as f64 * 1e3)),
            }
        };
        self.files.iter_mut().map(core).collect()
    }
}

/// Number, busy and total ticks of a core; time stolen by other guests counts as busy.
fn busy_and_total((number, times): (u32, CpuTimes)) -> (u32, (u64, u64)) {
    (number, (times.busy() + times.steal.unwrap_or(0), times.total()))
}
