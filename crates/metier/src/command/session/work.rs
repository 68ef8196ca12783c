//! `metier session work`, and its parts that `metier up` shares.

use std::ffi::OsString;
use std::path::absolute;

use anyhow::Context as _;
use clap::Args;
use metier_linux::KernelRoots;
use metier_linux::stop_request::StopRequest;
use metier_session::queue::{MeasuringProgram, QueueWorker, WorkUntil};
use metier_store::{RecordStore, StoreLocation};

use super::super::CommandContext;
use crate::config::{SettingOrigin, data_folder, runtime_folder};
use crate::exit::CliExitCode;

/// Work the queue, until INT or TERM
#[derive(Debug, Args)]
pub struct SessionWorkArgs {
    /// End when the queue is empty
    #[arg(long)]
    until_empty: bool,
}

impl SessionWorkArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        // Blocks signals before the store opens: its threads must not receive metier's signals.
        let stop = StopRequest::on_signals();
        let store = context.writable_store()?;
        let worker = build_worker(context, store)?;
        context.console.note("metier: working the queue; Ctrl-C ends it");
        let until = if self.until_empty { WorkUntil::Empty } else { WorkUntil::Asked };
        let worked = worker.run(&stop, until)?;
        context.console.note(format!("metier: {worked} sessions worked"));
        Ok(CliExitCode::OK)
    }
}

/// A worker on this device.
pub fn build_worker(context: &CommandContext, store: RecordStore) -> anyhow::Result<QueueWorker> {
    let roots = KernelRoots::default();
    let device = metier_device::identity::identify_device(&roots, data_folder().as_deref())?;
    let launch = launch_spec(context, store.location())?;
    let spool = super::super::spool_of(store.location());
    Ok(QueueWorker::new(store, device, roots, launch, runtime_folder(), spool))
}

/// The command line of a session's child: same store and settings, independent of its working
/// directory.
pub fn launch_spec(context: &CommandContext, store: &StoreLocation) -> anyhow::Result<MeasuringProgram> {
    let program = std::env::current_exe().context("cannot tell which program this is")?;
    let mut flags: Vec<OsString> = Vec::new();
    let setting = context.settings.get("store");
    match (store, setting) {
        (StoreLocation::Sqlite(path), _) => {
            flags
                .extend(["--store".into(), absolute(path).context("cannot tell where the store is")?.into()]);
        }
        // A server's address may contain a password: it is passed on through the same source, never
        // as an argument.
        (_, Some(setting)) if matches!(setting.origin, SettingOrigin::Flag(_)) => {
            flags.extend(["--store".into(), setting.value.clone().unwrap_or_default().into()]);
        }
        _ => {}
    }
    if let Some((path, true)) = context.settings.file() {
        flags.extend([
            "--config".into(),
            absolute(path).context("cannot tell where the settings are")?.into(),
        ]);
    }
    let hidden = ["METIER_TOKEN", "METIER_CONFIG", "METIER_OUTPUT", "METIER_QUIET"];
    Ok(MeasuringProgram { program, flags, hidden: hidden.into_iter().map(OsString::from).collect() })
}
