//! Where a run file comes from: a file, or stdin.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use metier_session::runfile::{self, Faults, Origins, Probe, RunFile};

use crate::console::complain;
use crate::exit::{Code, usage};

/// A run file with faults in it: each is told on a line of its own.
#[derive(Debug, thiserror::Error)]
#[error("{} is not a run file that can be run", name.as_deref().unwrap_or("what was typed"))]
pub struct Faulty {
    /// The file, if there is one.
    pub name: Option<String>,
    pub faults: Faults,
}

impl Faulty {
    pub fn lines(&self) -> Vec<String> {
        let line = |fault: &runfile::Fault| match (&self.name, &fault.file, &fault.flag) {
            (Some(name), None, None) => {
                let place = match (fault.line(), fault.column()) {
                    (Some(line), Some(column)) => format!(":{line}:{column}"),
                    (Some(line), None) => format!(":{line}"),
                    _ => String::new(),
                };
                format!("{name}{place}: {}", fault.told())
            }
            _ => fault.to_string(),
        };
        self.faults.iter().map(line).collect()
    }
}

/// Says what is wrong in what was typed, a line each; any other error is given back.
pub fn complained(error: anyhow::Error) -> anyhow::Result<Code> {
    let Some(faulty) = error.downcast_ref::<Faulty>() else { return Err(error) };
    faulty.lines().iter().for_each(|line| complain(line));
    Ok(Code::USAGE)
}

/// Whether a word is a run file rather than a command: `-`, a name that ends in .yaml or .yml, or a .json that is there.
pub fn is_run_file(word: &OsStr) -> bool {
    word == "-" || is_named_like_one(word)
}

/// The same without `-`.
pub fn is_named_like_one(word: &OsStr) -> bool {
    let path = Path::new(word);
    match path.extension().and_then(OsStr::to_str) {
        Some("yaml" | "yml") => true,
        Some("json") => path.is_file(),
        _ => false,
    }
}

/// Reads one; its relative paths are meant from where it is, unless they are meant from somewhere else.
pub fn load(path: &Path, from: Option<&Path>) -> anyhow::Result<(String, RunFile, Origins)> {
    let is_stdin = path == Path::new("-");
    let name = if is_stdin { "(stdin)".to_string() } else { path.display().to_string() };
    let text = match is_stdin {
        true => runfile::read_text_of(std::io::stdin().lock()),
        false => runfile::read_text(path),
    };
    let text = text.map_err(|why| {
        usage(format!("cannot read the run file {name}: {why}; want YAML or JSON, or - for stdin"))
    })?;
    let (mut file, origins) =
        runfile::parse(&text).map_err(|faults| Faulty { name: Some(name.clone()), faults })?;
    if let Some(folder) = from {
        file.beside(folder);
    } else if !is_stdin {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        file.beside(&std::path::absolute(folder).unwrap_or_else(|_| PathBuf::from(folder)));
    }
    Ok((name, file, origins))
}

pub fn probe(path: &Path) -> anyhow::Result<Probe> {
    let name = path.display();
    let text = runfile::read_text(path)
        .map_err(|why| usage(format!("cannot read the probe {name}: {why}; want a YAML file")))?;
    let mut probe =
        runfile::parse_probe(&text).map_err(|faults| Faulty { name: Some(name.to_string()), faults })?;
    let folder = path.parent().unwrap_or(Path::new("."));
    for mount in &mut probe.mounts {
        let source = folder.join(&mount.source);
        mount.source = std::path::absolute(&source).unwrap_or(source).display().to_string();
    }
    Ok(probe)
}
