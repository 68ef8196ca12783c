//! `--save-json`: the record as a file, whole or not at all.
//!
//! The file is made beside its place before the command starts, so that a folder that cannot be written is
//! noticed before an hour of measuring, and takes its place at the end. Pipes and devices are written directly.

use std::fs::{File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use metier_types::Run;
use serde::Serialize;
use tempfile::NamedTempFile;

/// Where the record will be written.
pub struct Destination {
    path: PathBuf,
    target: Target,
}

enum Target {
    Beside(NamedTempFile),
    Stream(File),
}

#[derive(Serialize)]
struct Runs<'a> {
    schema: &'static str,
    runs: &'a [Run],
}

impl Destination {
    /// Tries whether it can be written.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let cannot =
            || format!("--save-json {}: cannot be written; name a file in a folder of yours", path.display());
        let is_stream = std::fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir());
        let target = if is_stream {
            Target::Stream(OpenOptions::new().write(true).open(path).with_context(cannot)?)
        } else {
            if path.is_dir() {
                anyhow::bail!("--save-json {}: is a folder; name a file in it", path.display());
            }
            let folder = match path.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder,
                _ => Path::new("."),
            };
            let file = tempfile::Builder::new()
                .prefix(".metier-")
                .suffix(".json")
                // As any other program would make it; the umask takes away what it should.
                .permissions(Permissions::from_mode(0o666))
                .tempfile_in(folder)
                .with_context(cannot)?;
            Target::Beside(file)
        };
        Ok(Self { path: path.to_path_buf(), target })
    }

    /// Writes one run as its record, several as a list of records.
    pub fn write(self, runs: &[Run], is_batch: bool) -> anyhow::Result<()> {
        let mut text = match runs {
            [run] if !is_batch => serde_json::to_vec_pretty(run)?,
            runs => serde_json::to_vec_pretty(&Runs { schema: "metier.runs/1", runs })?,
        };
        text.push(b'\n');
        let cannot = || format!("cannot write {}", self.path.display());
        match self.target {
            Target::Stream(mut file) => file.write_all(&text).with_context(cannot),
            Target::Beside(mut file) => {
                file.write_all(&text).with_context(cannot)?;
                file.as_file().sync_all().with_context(cannot)?;
                file.persist(&self.path).map_err(|error| error.error).with_context(cannot)?;
                Ok(())
            }
        }
    }
}
