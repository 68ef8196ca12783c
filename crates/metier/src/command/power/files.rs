//! Files by the original's names: relative to one folder, with their endings added.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use metier_power::frame::Frame;
use metier_power::pipeline::{self, Pipeline};
use metier_power::response::Response;

use crate::exit::usage;

/// Largest file that is read: a response of a day and a large machine.
const BYTES: u64 = 4 << 30;

#[derive(Debug, Clone)]
pub struct Data(pub PathBuf);

impl Data {
    /// Where a file of that name is, or would be: the ending is added where it is not there.
    pub fn path(&self, name: &str, ending: &str) -> PathBuf {
        let end = format!(".{ending}");
        self.0.join(if name.ends_with(&end) { name.to_string() } else { format!("{name}{end}") })
    }

    /// A file that a flag names, as it is or with its ending.
    pub fn read(&self, flag: &str, name: &str, ending: &str) -> anyhow::Result<(PathBuf, Vec<u8>)> {
        let plain = self.0.join(name);
        let path = if plain.is_file() { plain } else { self.path(name, ending) };
        let wrong = |why: String| usage(format!("{flag} {name}: {}: {why}", path.display()));
        let file = std::fs::File::open(&path).map_err(|error| wrong(error.to_string()))?;
        let mut bytes = Vec::new();
        file.take(BYTES + 1).read_to_end(&mut bytes).map_err(|error| wrong(error.to_string()))?;
        if bytes.len() as u64 > BYTES {
            return Err(wrong(format!("has more than {BYTES} bytes")));
        }
        Ok((path, bytes))
    }

    pub fn response(&self, flag: &str, name: &str) -> anyhow::Result<Response> {
        let (path, text) = self.read(flag, name, "json")?;
        Response::read(&text).map_err(|error| usage(format!("{flag} {}: {error}", path.display())))
    }

    pub fn table(&self, flag: &str, name: &str) -> anyhow::Result<Frame> {
        let (path, text) = self.read(flag, name, "csv")?;
        let wrong = |why: String| usage(format!("{flag} {}: {why}", path.display()));
        let frame = Frame::read_csv(text.as_slice()).map_err(|error| wrong(error.to_string()))?;
        if frame.is_empty() { Err(wrong("has no rows".to_string())) } else { Ok(frame) }
    }

    pub fn write_table(&self, name: &str, frame: &Frame) -> anyhow::Result<PathBuf> {
        let mut bytes = Vec::new();
        frame.write_csv(&mut bytes)?;
        self.write(&self.path(name, "csv"), &bytes)
    }

    /// Writes a file, whole or not at all; its folder is made.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> anyhow::Result<PathBuf> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)
                .map_err(|error| usage(format!("--data-path: {}: {error}", folder.display())))?;
        }
        pipeline::replace(path, bytes)?;
        Ok(path.to_path_buf())
    }

    /// A pipeline: a folder or zip below the folder, or elsewhere.
    pub fn pipeline(&self, flag: &str, name: &str) -> anyhow::Result<Pipeline> {
        let path =
            [self.0.join(name), self.0.join(format!("{name}.zip"))].into_iter().find(|path| path.exists());
        let Some(path) = path else {
            let folder = self.0.display();
            return Err(usage(format!(
                "{flag} {name}: no such pipeline; want a folder or zip of that name in {folder}"
            )));
        };
        pipeline::load(&path).map_err(|error| usage(format!("{flag} {name}: {error}")))
    }

    /// Where a machine's specification is.
    pub fn spec(&self, id: &str) -> anyhow::Result<PathBuf> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if id.is_empty() || id.starts_with('.') || id.len() > 200 || !id.chars().all(is_plain) {
            return Err(usage(format!("--id is {id:?}; want letters, digits, '-', '_' or '.'")));
        }
        Ok(self.0.join("machine_spec").join(format!("{id}.json")))
    }
}
