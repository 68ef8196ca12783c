//! Files with Kepler's names: relative to one folder, with their extensions added.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use metier_power::frame::FeatureFrame;
use metier_power::pipeline::{self, PredictorPipeline};
use metier_power::response::KeplerResponse;

use crate::exit::usage_error;

/// Largest file: a response of a day on a large machine.
const MAX_FILE_BYTES: u64 = 4 << 30;

#[derive(Debug, Clone)]
pub struct DataFolder(pub PathBuf);

impl DataFolder {
    /// Path of a named file; the extension is added if missing.
    pub fn file_path(&self, name: &str, ending: &str) -> PathBuf {
        let end = format!(".{ending}");
        self.0.join(if name.ends_with(&end) { name.to_string() } else { format!("{name}{end}") })
    }

    /// Reads a file that a flag names, with or without its extension.
    pub fn read_file(&self, flag: &str, name: &str, ending: &str) -> anyhow::Result<(PathBuf, Vec<u8>)> {
        let plain = self.0.join(name);
        let path = if plain.is_file() { plain } else { self.file_path(name, ending) };
        let wrong = |why: String| usage_error(format!("{flag} {name}: {}: {why}", path.display()));
        let file = std::fs::File::open(&path).map_err(|error| wrong(error.to_string()))?;
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| wrong(error.to_string()))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(wrong(format!("has more than {MAX_FILE_BYTES} bytes")));
        }
        Ok((path, bytes))
    }

    pub fn read_response(&self, flag: &str, name: &str) -> anyhow::Result<KeplerResponse> {
        let (path, text) = self.read_file(flag, name, "json")?;
        KeplerResponse::read(&text)
            .map_err(|error| usage_error(format!("{flag} {}: {error}", path.display())))
    }

    pub fn read_table(&self, flag: &str, name: &str) -> anyhow::Result<FeatureFrame> {
        let (path, text) = self.read_file(flag, name, "csv")?;
        let wrong = |why: String| usage_error(format!("{flag} {}: {why}", path.display()));
        let frame = FeatureFrame::read_csv(text.as_slice()).map_err(|error| wrong(error.to_string()))?;
        if frame.is_empty() { Err(wrong("has no rows".to_string())) } else { Ok(frame) }
    }

    pub fn write_table(&self, name: &str, frame: &FeatureFrame) -> anyhow::Result<PathBuf> {
        let mut bytes = Vec::new();
        frame.write_csv(&mut bytes)?;
        self.write_file(&self.file_path(name, "csv"), &bytes)
    }

    /// Writes a file whole or not at all; creates its folder.
    pub fn write_file(&self, path: &Path, bytes: &[u8]) -> anyhow::Result<PathBuf> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)
                .map_err(|error| usage_error(format!("--data-path: {}: {error}", folder.display())))?;
        }
        pipeline::replace(path, bytes)?;
        Ok(path.to_path_buf())
    }

    /// Path of a pipeline: a folder or zip in the folder, or elsewhere.
    pub fn load_pipeline(&self, flag: &str, name: &str) -> anyhow::Result<PredictorPipeline> {
        let path =
            [self.0.join(name), self.0.join(format!("{name}.zip"))].into_iter().find(|path| path.exists());
        let Some(path) = path else {
            let folder = self.0.display();
            return Err(usage_error(format!(
                "{flag} {name}: no such pipeline; want a folder or zip of that name in {folder}"
            )));
        };
        pipeline::load(&path).map_err(|error| usage_error(format!("{flag} {name}: {error}")))
    }

    /// Path of a machine's specification.
    pub fn machine_spec_path(&self, id: &str) -> anyhow::Result<PathBuf> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if id.is_empty() || id.starts_with('.') || id.len() > 200 || !id.chars().all(is_plain) {
            return Err(usage_error(format!("--id is {id:?}; want letters, digits, '-', '_' or '.'")));
        }
        Ok(self.0.join("machine_spec").join(format!("{id}.json")))
    }
}
