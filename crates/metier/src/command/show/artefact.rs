//! A file of a run, unchanged: to stdout or to a file.

use std::io::IsTerminal;
use std::path::Path;

use metier_store::RecordStore;
use metier_types::Run;

use crate::command::CommandContext;
use crate::exit::usage_error;
use crate::output::{OutputFile, printable_text};

/// Writes the named file.
pub fn write_artefact(
    context: &CommandContext,
    store: &RecordStore,
    run: &Run,
    name: &str,
    save: Option<&Path>,
) -> anyhow::Result<()> {
    let Some(file) = run.artefacts.iter().find(|file| file.name == name) else {
        let known: Vec<String> =
            run.artefacts.iter().take(50).map(|file| printable_text(&file.name)).collect();
        let want = if known.is_empty() {
            "it has none".to_string()
        } else {
            format!("want one of {}", known.join(", "))
        };
        anyhow::bail!("run {} has no file {name:?}; {want}", run.id.short());
    };
    if let Some(path) = save {
        let mut destination = OutputFile::open("--save", path)?;
        store.read_artefact(&file.digest, &mut destination)?;
        destination.commit()?;
        context.console.note(format!("{} written to {}", file.size_bytes, path.display()));
        return Ok(());
    }
    let is_text = file.media_type.starts_with("text/") || file.media_type.contains("json");
    if !is_text && std::io::stdout().is_terminal() {
        return Err(usage_error(format!(
            "{} is {}, which is not for a terminal; want --save FILE, or redirect stdout",
            printable_text(&file.name),
            printable_text(&file.media_type)
        )));
    }
    context.console.write_data(|out| Ok(store.read_artefact(&file.digest, out).map(|_| ())?))
}
