//! The commands. Each file has a struct of flags and its `run`.

pub mod agent;
pub mod bench;
pub mod board;
pub mod compare;
pub mod completions;
pub mod config;
pub mod device;
pub mod doctor;
pub mod export;
pub mod flame;
pub mod import;
pub mod inspect;
pub mod man;
pub mod place;
pub mod power;
pub mod predict;
pub mod predictors;
pub mod report;
pub mod run;
pub mod runs;
pub mod serve;
pub mod session;
pub mod show;
pub mod signal;
pub mod split;
pub mod token;
pub mod train;
pub mod up;

use anyhow::Context as _;
use metier_linux::KernelRoots;
use metier_store::{RecordStore, RunFilter};
use metier_types::{Run, RunState};

use crate::config::{Settings, data_folder};
use crate::console::OutputConsole;
use crate::output::OutputForm;

/// Context of every command.
pub struct CommandContext {
    pub console: OutputConsole,
    pub settings: Settings,
    /// Verbosity of logs.
    pub verbose: u8,
    /// The requested document form, if any.
    pub form: Option<OutputForm>,
}

impl CommandContext {
    /// Opens the existing store for reading.
    pub fn store(&self) -> anyhow::Result<RecordStore> {
        let location = self.settings.store()?;
        let store = match RecordStore::open_read_only(&location) {
            // A store of an earlier version is migrated if it is writable.
            Err(error @ metier_store::Error::CannotOpen { .. }) => {
                RecordStore::open(&location).map_err(|_| error)?
            }
            other => other?,
        };
        let under_way =
            RunFilter { state: Some(RunState::Running), warmup: true, limit: 1, ..RunFilter::default() };
        // A run marked as running may have been killed; the first reader marks it as interrupted. A
        // store that is read-only stays unchanged.
        if store.runs(&under_way).is_ok_and(|page| page.total > 0)
            && let Ok(device) =
                metier_device::identity::identify_device(&KernelRoots::default(), data_folder().as_deref())
            && let Ok(writable) = RecordStore::open(&location)
        {
            let _ = metier_measure::leftovers::sweep_leftovers(&KernelRoots::default(), &writable, &device);
        }
        Ok(store)
    }

    /// Opens the store for writing; creates it if there is none.
    pub fn writable_store(&self) -> anyhow::Result<RecordStore> {
        Ok(RecordStore::open(&self.settings.store()?)?)
    }
}

/// Finds a run by its id, position or workload.
pub fn find_run(store: &RecordStore, text: &str) -> anyhow::Result<Run> {
    let id = store.find_run(text)?;
    store.run(id)?.with_context(|| format!("run {id} is gone"))
}

/// Largest file of a run that a command loads.
const MAX_RUN_FILE_BYTES: u64 = 256 << 20;

/// The content of a file of a run; `None` where the run has no such file.
pub fn read_run_file(
    store: &RecordStore,
    run: &Run,
    name: &str,
    what: &str,
) -> anyhow::Result<Option<Vec<u8>>> {
    let Some(file) = run.artefacts.iter().find(|file| file.name == name) else { return Ok(None) };
    if file.size_bytes.get() > MAX_RUN_FILE_BYTES {
        anyhow::bail!("{what} of run {} has {}; want at most 256 MiB", run.id.short(), file.size_bytes);
    }
    let mut content = Vec::new();
    store.read_artefact(&file.digest, &mut content)?;
    Ok(Some(content))
}
