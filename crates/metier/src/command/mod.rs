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
pub mod store;
pub mod token;
pub mod train;
pub mod up;

use anyhow::Context as _;
use metier_cluster::job_ledger;
use metier_linux::KernelRoots;
use metier_store::{RecordStore, RunFilter, RunSink, RunSpool, SpoolDelivery, StoreLocation};
use metier_types::{Run, RunState};

use crate::config::{Settings, data_folder, runtime_folder};
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
        let spool = spool_of(&location).filter(RunSpool::may_hold_runs);
        if let Some(spool) = spool
            && let Ok(writable) = RecordStore::open(&location)
        {
            self.deliver_spooled(&spool, &writable);
        }
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
        let store = RecordStore::open(&self.settings.store()?)?;
        if let Some(spool) = spool_of(store.location()) {
            self.deliver_spooled(&spool, &store);
        }
        Ok(store)
    }

    /// The destination of runs that are about to be measured: the store, and a spool in case that
    /// its server is away.
    pub fn run_sink(&self) -> anyhow::Result<RunSink> {
        let location = self.settings.store()?;
        let spool = spool_of(&location);
        let sink = RunSink::open(&location, spool.clone())?;
        if let (Some(spool), Some(store)) = (spool, sink.store()) {
            self.deliver_spooled(&spool, &store);
        }
        Ok(sink)
    }

    /// Delivers what was spooled while the store was away, and says so.
    fn deliver_spooled(&self, spool: &RunSpool, store: &RecordStore) {
        if !spool.may_hold_runs() {
            return;
        }
        let roots = KernelRoots::default();
        let delivered = metier_device::identity::identify_device(&roots, data_folder().as_deref())
            .map_err(anyhow::Error::from)
            .and_then(|device| Ok(metier_measure::leftovers::deliver_spool(&roots, spool, store, &device)?));
        match delivered {
            Ok(delivered) if delivered == SpoolDelivery::default() => {}
            Ok(SpoolDelivery { runs, sessions }) => {
                let sessions = match sessions {
                    0 => String::new(),
                    count => format!(" and the end of {count} session(s)"),
                };
                self.console.note(format!(
                    "metier: {runs} run(s){sessions} delivered that were spooled while store {} was away",
                    store.location()
                ));
            }
            Err(error) => self.console.warn(format!(
                "what is spooled in {} could not be delivered: {error:#}",
                spool.path().display()
            )),
        }
    }
}

/// The spool of a store, below the data folder.
pub fn spool_of(store: &StoreLocation) -> Option<RunSpool> {
    data_folder().map(|folder| RunSpool::of_store(&folder.join("spool"), store))
}

/// Removes Jobs that killed programs of this host left in clusters. Reaches no cluster where there
/// are none.
pub fn sweep_jobs() {
    match job_ledger::sweep_recorded_jobs(&KernelRoots::default(), &runtime_folder()) {
        Ok(swept) if swept.is_empty() => {}
        Ok(swept) => tracing::info!(jobs = ?swept, "removed Jobs of killed programs"),
        Err(error) => tracing::warn!(%error, "Jobs of killed programs could not be removed"),
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
