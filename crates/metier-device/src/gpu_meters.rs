//! GPU meters: NVIDIA cards through NVML, and the integrated GPU of a Jetson through sysfs.
//!
//! NVML is loaded only if a driver is present. Some Jetsons also have NVML; it lists their GPU as
//! `nvgpu` with hardly any readings, so sysfs replaces it.

use std::path::Path;

use metier_types::{Bytes, ExtraFields, GpuUse, Joules, MissingReason, Ratio};
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::Clock;
use nvml_wrapper::enums::device::UsedGpuMemory;

use crate::local_board::IntegratedGpu;
use metier_linux::KernelRoots;

/// Device files of NVIDIA drivers; without one of them NVML is not loaded.
const DRIVER_FILES: [&str; 3] = ["/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-ctrl-gpu"];

/// Use of one GPU since the start.
#[derive(Default)]
struct GpuAccount {
    name: String,
    uuid: Option<String>,
    start_millijoules: Option<u64>,
    millijoules: Option<u64>,
    utilisation: f64,
    samples: u32,
    peak_utilisation: f64,
    frequency: f64,
    frequencies: u32,
    peak_memory: Option<u64>,
    /// The latest reading.
    now: GpuReading,
}

impl GpuAccount {
    fn add_reading(&mut self, now: GpuReading) {
        if let Some(share) = now.utilisation {
            self.utilisation += share;
            self.peak_utilisation = self.peak_utilisation.max(share);
            self.samples += 1;
        }
        if let Some(hertz) = now.frequency {
            self.frequency += hertz;
            self.frequencies += 1;
        }
        self.now = now;
    }
}

/// State of a GPU at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct GpuReading {
    /// Share of time in which it was busy.
    pub utilisation: Option<f64>,
    /// Clock in hertz.
    pub frequency: Option<f64>,
}

/// All GPUs of the device.
pub struct GpuMeters {
    nvml: Option<Nvml>,
    /// NVML index and account of each card.
    cards: Vec<(u32, GpuAccount)>,
    integrated: Vec<(IntegratedGpu, GpuAccount)>,
    missing: Option<MissingReason>,
}

impl GpuMeters {
    /// Finds every GPU: those that NVML lists, and those of a Jetson in sysfs. `library` overrides
    /// the default path of NVML.
    pub fn find(roots: &KernelRoots, library: Option<&Path>) -> Self {
        let mut gpus = Self::open_nvml(library);
        let integrated = IntegratedGpu::find(roots);
        if integrated.is_empty() {
            return gpus;
        }
        gpus.cards.retain(|(_, account)| !account.name.contains("nvgpu"));
        gpus.missing = None;
        gpus.integrated = integrated
            .into_iter()
            .map(|gpu| {
                let name = format!("Jetson {}", gpu.name);
                (gpu, GpuAccount { name, ..GpuAccount::default() })
            })
            .collect();
        gpus
    }

    /// Loads NVML from `library` or its default path; on failure the result records the reason.
    pub fn open_nvml(library: Option<&Path>) -> Self {
        let none =
            |missing| Self { nvml: None, cards: Vec::new(), integrated: Vec::new(), missing: Some(missing) };
        if library.is_none() && !DRIVER_FILES.iter().any(|file| Path::new(file).exists()) {
            return none(MissingReason::without_fix("no NVIDIA driver on this host"));
        }
        let mut builder = Nvml::builder();
        if let Some(path) = library {
            builder.lib_path(path.as_os_str());
        }
        let nvml = match builder.init() {
            Ok(nvml) => nvml,
            Err(error) => {
                let fix = "install the driver's management library (libnvidia-ml.so.1)";
                return none(MissingReason::with_fix(format!("NVML is not usable ({error})"), fix));
            }
        };
        let count = nvml.device_count().unwrap_or(0).min(64);
        let cards: Vec<(u32, GpuAccount)> = (0..count)
            .filter_map(|index| {
                let device = nvml.device_by_index(index).ok()?;
                let name = device.name().unwrap_or_else(|_| "GPU".into());
                let account = GpuAccount {
                    name: format!("{name} #{index}"),
                    uuid: device.uuid().ok(),
                    ..GpuAccount::default()
                };
                Some((index, account))
            })
            .collect();
        let missing = cards.is_empty().then(|| MissingReason::without_fix("the NVIDIA driver lists no GPU"));
        Self { nvml: Some(nvml), cards, integrated: Vec::new(), missing }
    }

    fn accounts(&self) -> impl Iterator<Item = &GpuAccount> {
        self.cards
            .iter()
            .map(|(_, account)| account)
            .chain(self.integrated.iter().map(|(_, account)| account))
    }

    /// Whether there is no GPU to measure.
    pub fn is_empty(&self) -> bool {
        self.accounts().next().is_none()
    }

    /// Why there is no GPU.
    pub fn missing(&self) -> Option<MissingReason> {
        self.missing.clone()
    }

    /// GPU names, for the device record.
    pub fn names(&self) -> Vec<String> {
        self.accounts().map(|account| account.name.clone()).collect()
    }

    /// Resets all accounts.
    pub fn reset(&mut self) {
        let cards = self.cards.iter_mut().map(|(_, account)| account);
        for account in cards.chain(self.integrated.iter_mut().map(|(_, account)| account)) {
            let (name, uuid) = (std::mem::take(&mut account.name), account.uuid.take());
            *account = GpuAccount { name, uuid, ..GpuAccount::default() };
        }
        self.sample(&[]);
    }

    /// Reads every GPU; counts only the memory of the given processes.
    pub fn sample(&mut self, pids: &[u32]) {
        for (gpu, account) in &mut self.integrated {
            let engine = gpu.read();
            account.add_reading(GpuReading {
                utilisation: engine.load_ratio.map(|load| load.get()),
                frequency: engine.highest_frequency().map(|hertz| hertz.get()),
            });
        }
        let Some(nvml) = &self.nvml else { return };
        for (index, account) in &mut self.cards {
            let Ok(device) = nvml.device_by_index(*index) else { continue };
            account.millijoules = device.total_energy_consumption().ok();
            account.start_millijoules = account.start_millijoules.or(account.millijoules);
            account.add_reading(GpuReading {
                utilisation: device.utilization_rates().ok().map(|rates| f64::from(rates.gpu) / 100.0),
                frequency: device.clock_info(Clock::Graphics).ok().map(|mhz| f64::from(mhz) * 1e6),
            });
            if let Ok(processes) = device.running_compute_processes() {
                let ours = processes.iter().filter(|process| pids.contains(&process.pid));
                let used = ours.filter_map(|process| match process.used_gpu_memory {
                    UsedGpuMemory::Used(bytes) => Some(bytes),
                    UsedGpuMemory::Unavailable => None,
                });
                account.peak_memory = account.peak_memory.max(used.reduce(|a, b| a + b));
            }
        }
    }

    /// Latest reading of each GPU, in the order of [`GpuMeters::names`], for the time line.
    pub fn latest_readings(&self) -> Vec<GpuReading> {
        self.accounts().map(|account| account.now).collect()
    }

    /// Use of each GPU since [`GpuMeters::start`].
    pub fn usage(&self) -> Vec<GpuUse> {
        let one = |account: &GpuAccount| {
            let mut extra = ExtraFields::new();
            if account.samples > 0 {
                extra.insert("peak_utilisation_ratio".into(), account.peak_utilisation.into());
            }
            if account.frequencies > 0 {
                let mean = account.frequency / f64::from(account.frequencies);
                extra.insert("mean_frequency_hertz".into(), mean.into());
            }
            GpuUse {
                name: account.name.clone(),
                uuid: account.uuid.clone(),
                mean_utilisation_ratio: (account.samples > 0)
                    .then(|| Ratio(account.utilisation / f64::from(account.samples))),
                peak_memory_bytes: account.peak_memory.map(Bytes),
                energy_joules: account
                    .start_millijoules
                    .zip(account.millijoules)
                    .map(|(start, end)| Joules(end.saturating_sub(start) as f64 / 1e3)),
                extra,
            }
        };
        self.accounts().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_none_is_said_not_feared() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libnvidia-ml.so.1");
        std::fs::write(&path, "this is no library").unwrap();
        let mut gpus = GpuMeters::open_nvml(Some(&path));
        gpus.reset();
        gpus.sample(&[1]);
        assert!(gpus.is_empty() && gpus.usage().is_empty());
        assert!(gpus.missing().unwrap().to_string().contains("NVML"));
    }

    #[test]
    fn the_gpu_of_a_jetson_is_in_the_result_without_any_library() {
        let folder = tempfile::tempdir().unwrap();
        let roots =
            KernelRoots { proc: folder.path().into(), sys: folder.path().into(), etc: folder.path().into() };
        let gpu = folder.path().join("class/devfreq/17000000.ga10b");
        std::fs::create_dir_all(gpu.join("device")).unwrap();
        std::fs::write(gpu.join("cur_freq"), "306000000\n").unwrap();
        std::fs::write(gpu.join("device/load"), "0\n").unwrap();
        let mut gpus = GpuMeters::find(&roots, None);
        assert_eq!((gpus.missing(), gpus.names()), (None, vec!["Jetson 17000000.ga10b".to_string()]));
        gpus.reset();
        std::fs::write(gpu.join("device/load"), "900\n").unwrap();
        gpus.sample(&[]);
        assert_eq!(gpus.latest_readings(), [GpuReading { utilisation: Some(0.9), frequency: Some(306e6) }]);
        let result = gpus.usage();
        assert_eq!(result[0].mean_utilisation_ratio, Some(Ratio(0.45)));
        assert_eq!(result[0].extra["peak_utilisation_ratio"], 0.9);
        assert_eq!((result[0].energy_joules, result[0].peak_memory_bytes), (None, None));
    }
}
