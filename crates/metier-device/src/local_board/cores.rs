//! Cores: load from `/proc/stat`, clock and state from sysfs.

use std::collections::HashMap;

use metier_types::{Hertz, Ratio};

use crate::boards::Core;
use metier_linux::Roots;
use metier_linux::file::Held;
use metier_linux::host::numbered;
use metier_linux::proc_stat::CpuTimes;

/// Largest number of cores read.
const MOST: usize = 1024;

struct Files {
    number: u32,
    /// `None` for the first core on most hosts: it cannot be switched off.
    online: Option<Held>,
    clock: Option<Held>,
}

pub(super) struct Cores {
    stat: Option<Held>,
    files: Vec<Files>,
    /// Busy and total ticks of each core at the last reading.
    before: HashMap<u32, (u64, u64)>,
}

impl Cores {
    pub(super) fn open(roots: &Roots) -> Self {
        let folder = roots.sys.join("devices/system/cpu");
        let files = numbered(&folder, "cpu").take(MOST).filter_map(|core| {
            Some(Files {
                number: core.file_name()?.to_str()?.strip_prefix("cpu")?.parse().ok()?,
                online: Held::open(core.join("online")),
                clock: Held::open(core.join("cpufreq/scaling_cur_freq")),
            })
        });
        Self { stat: Held::open(roots.proc.join("stat")), files: files.collect(), before: HashMap::new() }
    }

    pub(super) fn read(&mut self) -> Vec<Core> {
        let now: HashMap<u32, (u64, u64)> = self
            .stat
            .as_mut()
            .and_then(Held::text)
            .map(|text| CpuTimes::of_each_core(text).take(MOST).map(busy_and_total).collect())
            .unwrap_or_default();
        let before = std::mem::replace(&mut self.before, now);
        let now = &self.before;
        let core = |files: &mut Files| {
            if files.online.as_mut().and_then(Held::number) == Some(0) {
                return Core { off: true, ..Core::default() };
            }
            let load_ratio = now.get(&files.number).zip(before.get(&files.number)).and_then(|(now, then)| {
                let all = now.1.checked_sub(then.1).filter(|ticks| *ticks > 0)?;
                Some(Ratio((now.0.saturating_sub(then.0) as f64 / all as f64).min(1.0)))
            });
            let kilohertz = files.clock.as_mut().and_then(Held::number);
            Core { off: false, load_ratio, frequency_hertz: kilohertz.map(|khz| Hertz(khz as f64 * 1e3)) }
        };
        self.files.iter_mut().map(core).collect()
    }
}

/// Number, busy and total ticks of a core; time stolen by other guests counts as busy.
fn busy_and_total((number, times): (u32, CpuTimes)) -> (u32, (u64, u64)) {
    (number, (times.busy() + times.steal.unwrap_or(0), times.total()))
}
