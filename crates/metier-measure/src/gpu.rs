//! NVIDIA GPUs through NVML, which is loaded only where a driver is there.

use std::path::Path;

use metier_types::{Bytes, Extra, GpuUse, Joules, Missing, Ratio};
use nvml_wrapper::Nvml;
use nvml_wrapper::enums::device::UsedGpuMemory;

/// Device files that a driver makes; without one of them the library is not looked for.
const DRIVERS: [&str; 3] = ["/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-ctrl-gpu"];

/// What one GPU did since the start.
#[derive(Default)]
struct Account {
    name: String,
    uuid: Option<String>,
    start_millijoules: Option<u64>,
    millijoules: Option<u64>,
    utilisation: f64,
    samples: u32,
    peak_memory: Option<u64>,
}

/// All GPUs of the device.
pub struct Gpus {
    nvml: Option<Nvml>,
    accounts: Vec<Account>,
    missing: Option<Missing>,
}

impl Gpus {
    /// Loads NVML from its usual place or the one named, or says why there is no GPU to measure.
    pub fn open(library: Option<&Path>) -> Self {
        let none = |missing| Self { nvml: None, accounts: Vec::new(), missing: Some(missing) };
        if library.is_none() && !DRIVERS.iter().any(|file| Path::new(file).exists()) {
            return none(Missing::because("no NVIDIA driver on this host"));
        }
        let mut builder = Nvml::builder();
        if let Some(path) = library {
            builder.lib_path(path.as_os_str());
        }
        let nvml = match builder.init() {
            Ok(nvml) => nvml,
            Err(error) => {
                let fix = "install the driver's management library (libnvidia-ml.so.1)";
                return none(Missing::fixable(format!("NVML cannot be used ({error})"), fix));
            }
        };
        let count = nvml.device_count().unwrap_or(0).min(64);
        let accounts: Vec<Account> = (0..count)
            .filter_map(|index| {
                let device = nvml.device_by_index(index).ok()?;
                let name = device.name().unwrap_or_else(|_| "GPU".into());
                Some(Account {
                    name: format!("{name} #{index}"),
                    uuid: device.uuid().ok(),
                    ..Account::default()
                })
            })
            .collect();
        let missing = accounts.is_empty().then(|| Missing::because("the NVIDIA driver lists no GPU"));
        Self { nvml: Some(nvml), accounts, missing }
    }

    /// Whether there is none to measure.
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// Why there is none.
    pub fn missing(&self) -> Option<Missing> {
        self.missing.clone()
    }

    /// Names, for the device's record.
    pub fn names(&self) -> Vec<String> {
        self.accounts.iter().map(|account| account.name.clone()).collect()
    }

    /// Starts the accounts anew.
    pub fn start(&mut self) {
        for account in &mut self.accounts {
            let (name, uuid) = (std::mem::take(&mut account.name), account.uuid.take());
            *account = Account { name, uuid, ..Account::default() };
        }
        self.tick(&[]);
    }

    /// Reads every GPU; memory is that of the given processes.
    pub fn tick(&mut self, pids: &[u32]) {
        let Some(nvml) = &self.nvml else { return };
        for (index, account) in self.accounts.iter_mut().enumerate() {
            let Ok(device) = nvml.device_by_index(index as u32) else { continue };
            account.millijoules = device.total_energy_consumption().ok();
            account.start_millijoules = account.start_millijoules.or(account.millijoules);
            if let Ok(rates) = device.utilization_rates() {
                account.utilisation += f64::from(rates.gpu) / 100.0;
                account.samples += 1;
            }
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

    /// What each did since [`Gpus::start`].
    pub fn result(&self) -> Vec<GpuUse> {
        let one = |account: &Account| GpuUse {
            name: account.name.clone(),
            uuid: account.uuid.clone(),
            mean_utilisation_ratio: (account.samples > 0)
                .then(|| Ratio(account.utilisation / f64::from(account.samples))),
            peak_memory_bytes: account.peak_memory.map(Bytes),
            energy_joules: account
                .start_millijoules
                .zip(account.millijoules)
                .map(|(start, end)| Joules(end.saturating_sub(start) as f64 / 1e3)),
            extra: Extra::new(),
        };
        self.accounts.iter().map(one).collect()
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
        let mut gpus = Gpus::open(Some(&path));
        gpus.start();
        gpus.tick(&[1]);
        assert!(gpus.is_empty() && gpus.result().is_empty());
        assert!(gpus.missing().unwrap().to_string().contains("NVML"));
    }
}
