//! GPUs through NVML's own interface. No host here has one, so a small library of the same shape
//! stands in.

use std::path::{Path, PathBuf};
use std::process::Command;

use metier_device::gpu_meters::GpuMeters;

fn library(folder: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gpu/nvml.c");
    let library = folder.join("libnvidia-ml.so.1");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-w", "-o"]).arg(&library).arg(source).status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("SKIP: no C compiler to build the stand-in for NVML");
        return None;
    }
    Some(library)
}

#[test]
fn energy_and_use_of_a_board_are_counted_over_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = library(folder.path()) else { return };
    let mut gpus = GpuMeters::open_nvml(Some(&library));
    assert_eq!(gpus.missing(), None);
    assert_eq!(gpus.names(), ["Stand-in #0"]);
    gpus.reset();
    let begun = std::time::Instant::now();
    std::thread::sleep(std::time::Duration::from_millis(40));
    gpus.sample(&[1, 2]);
    let most = begun.elapsed().as_secs_f64() + 0.01;
    let [gpu] = &gpus.usage()[..] else { panic!("{:?}", gpus.usage()) };
    assert_eq!(gpu.uuid.as_deref(), Some("GPU-stand-in"));
    assert_eq!(gpu.mean_utilisation_ratio.unwrap().get(), 0.75);
    let joules = gpu.energy_joules.unwrap().get();
    assert!((0.03 * 250.0..=most * 250.0).contains(&joules), "{joules} J at 250 W");
    assert_eq!(gpu.peak_memory_bytes, None, "no process of ours is on it");
}
