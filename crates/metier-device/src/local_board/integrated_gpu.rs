//! The integrated GPU of a Jetson: load in per mille, and clock.
//!
//! Its device name differs by generation (`57000000.gpu`, `17000000.gp10b`, `.gv11b`, `.ga10b`,
//! `.gpu`). devfreq shows clock and device in one folder, so it is searched first. Older kernels
//! also have `gpu.0`.

use std::path::PathBuf;

use metier_types::{Hertz, Ratio};

use crate::boards::BoardEngine;
use metier_linux::KernelRoots;
use metier_linux::kernel_file::KernelFile;

/// Suffixes of GPU device names.
const GPU_CHIP_NAMES: [&str; 6] = ["gpu", "gm20b", "gp10b", "gv11b", "ga10b", "gb10b"];

/// Fallback paths of the load file.
const LOAD_PATHS: [&str; 3] =
    ["devices/gpu.0/load", "devices/platform/gpu.0/load", "devices/platform/host1x/gpu.0/load"];

/// An integrated GPU with its files held open.
pub struct IntegratedGpu {
    /// Device name, for example `17000000.ga10b`.
    pub name: String,
    load: Option<KernelFile>,
    clock: Option<KernelFile>,
}

impl IntegratedGpu {
    /// The GPUs of this board, at most one on known boards.
    pub fn find(roots: &KernelRoots) -> Vec<Self> {
        let entries = std::fs::read_dir(roots.sys.join("class/devfreq")).into_iter().flatten().flatten();
        let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        folders.sort();
        let mut found: Vec<Self> = folders
            .into_iter()
            .filter_map(|folder| {
                let name = folder.file_name()?.to_str()?.to_string();
                let (_, chip) = name.rsplit_once('.')?;
                GPU_CHIP_NAMES.contains(&chip).then_some(())?;
                let load = KernelFile::open(folder.join("device/load"));
                let clock = KernelFile::open(folder.join("cur_freq"));
                (load.is_some() || clock.is_some()).then_some(Self { name, load, clock })
            })
            .collect();
        let fallback = || LOAD_PATHS.iter().find_map(|path| KernelFile::open(roots.sys.join(path)));
        match found.first_mut() {
            Some(first) if first.load.is_none() => first.load = fallback(),
            Some(_) => {}
            None => found.extend(fallback().map(|load| Self {
                name: "gpu.0".into(),
                load: Some(load),
                clock: None,
            })),
        }
        found
    }

    /// Reads the load and clock.
    pub fn read(&mut self) -> BoardEngine {
        let mille = self.load.as_mut().and_then(KernelFile::read_number);
        let clock = self.clock.as_mut().and_then(KernelFile::read_number);
        BoardEngine {
            name: self.name.clone(),
            off: false,
            load_ratio: mille.map(|mille| Ratio(mille.min(1000) as f64 / 1e3)),
            frequencies_hertz: clock.map(|hertz| Hertz(hertz as f64)).into_iter().collect(),
        }
    }
}
