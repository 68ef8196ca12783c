//! Reads run files from a file or stdin.

use std::ffi::OsStr;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::document::{DocumentNode, MAX_RUN_FILE_BYTES};
use super::fault::{FieldOrigins, RunFileFault, RunFileFaults};
use super::file::{Probe, RunFile};
use super::forms;

/// Parses a document. [`RunFile::check`] reports fields of the wrong type with all other faults,
/// from the returned origins. They also hold the position of each field.
pub fn parse(text: &str) -> Result<(RunFile, FieldOrigins), RunFileFaults> {
    RunFile::from_node(DocumentNode::parse(text)?)
}

/// Reads the text of a run file, up to a size limit.
pub fn read_text(path: &Path) -> std::io::Result<String> {
    read_text_of(std::fs::File::open(path)?)
}

fn read_text_of(source: impl std::io::Read) -> std::io::Result<String> {
    let mut text = String::new();
    let length = source.take(MAX_RUN_FILE_BYTES as u64 + 1).read_to_string(&mut text)?;
    if length > MAX_RUN_FILE_BYTES {
        return Err(std::io::Error::other("it is larger than 1 MiB"));
    }
    Ok(text)
}

/// Whether a word is a run file rather than a command: `-`, a name that ends in .yaml or .yml, or
/// an existing .json.
pub fn is_run_file(word: &OsStr) -> bool {
    word == "-" || is_named_like_run_file(word)
}

/// The same, without stdin (`-`).
pub fn is_named_like_run_file(word: &OsStr) -> bool {
    let path = Path::new(word);
    match path.extension().and_then(OsStr::to_str) {
        Some("yaml" | "yml") => true,
        Some("json") => path.is_file(),
        _ => false,
    }
}

/// Reads a run file, or stdin for `-`. Returns it with the file name for faults. Relative paths are
/// resolved against the file's folder, or against `folder` if given.
pub fn load(path: &Path, folder: Option<&Path>) -> Result<(PathBuf, RunFile, FieldOrigins), RunFileFaults> {
    let is_stdin = path == Path::new("-");
    let name = if is_stdin { Path::new("(stdin)") } else { path };
    let text = match is_stdin {
        true => read_text_of(std::io::stdin().lock()),
        false => read_text(path),
    };
    let text = text.map_err(|why| {
        let got = format!("cannot read the run file {}: {why}", name.display());
        RunFileFault::document(&got, "YAML or JSON, or - for stdin")
    })?;
    let (mut file, origins) = parse(&text).map_err(|faults| faults.in_file(name))?;
    if let Some(folder) = folder {
        file.resolve_paths(folder);
    } else if !is_stdin {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        file.resolve_paths(&std::path::absolute(folder).unwrap_or_else(|_| PathBuf::from(folder)));
    }
    Ok((name.to_path_buf(), file, origins))
}

/// Reads a probe from its own file.
pub fn load_probe(path: &Path) -> Result<Probe, RunFileFaults> {
    let text = read_text(path).map_err(|why| {
        RunFileFault::document(&format!("cannot read the probe {}: {why}", path.display()), "a YAML file")
    })?;
    let probe = DocumentNode::parse(&text).and_then(forms::probe_from_node);
    let mut probe = probe.map_err(|faults| faults.in_file(path))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    for mount in &mut probe.mounts {
        let source = folder.join(&mount.source);
        mount.source = std::path::absolute(&source).unwrap_or(source).display().to_string();
    }
    Ok(probe)
}
