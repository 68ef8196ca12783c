//! The targets, one file each. A target is a function of bytes that panics where a property does
//! not hold, and its seeds.

mod application;
mod archive;
mod engine;
mod estimate;
mod exposition;
mod jenkins;
mod onnx;
mod passport;
mod pipeline;
mod power_predictor;
mod prometheus;
mod run_file;
mod series;
mod server;
mod tegrastats;
mod upload;
mod xgboost;

use std::path::{Path, PathBuf};

pub struct FuzzTarget {
    pub name: &'static str,
    /// Inputs that show the structure of the format.
    pub seeds: fn() -> Vec<Vec<u8>>,
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [FuzzTarget; 16] = [
    application::TARGET,
    archive::TARGET,
    engine::TARGET,
    estimate::TARGET,
    exposition::TARGET,
    jenkins::TARGET,
    onnx::TARGET,
    passport::TARGET,
    pipeline::TARGET,
    power_predictor::TARGET,
    prometheus::TARGET,
    run_file::TARGET,
    series::TARGET,
    tegrastats::TARGET,
    upload::TARGET,
    xgboost::TARGET,
];

/// The files of the repository below a folder whose names end so.
fn repository_files(folder: &str, end: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(end))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no {end} in {}", folder.display());
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Texts as inputs.
fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
