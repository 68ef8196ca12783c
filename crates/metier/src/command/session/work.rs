//! `metier session work`, and what `metier up` needs to do the same.

use std::ffi::OsString;
use std::path::absolute;

use anyhow::Context as _;
use clap::Args;
use metier_linux::Roots;
use metier_linux::stop_request::StopRequest;
use metier_session::queue::{Launch, Until, Worker};
use metier_store::{Location, Store};

use super::super::Room;
use crate::config::{Origin, data_folder, runtime_folder};
use crate::exit::Code;

/// Measure what waits, until INT or TERM
#[derive(Debug, Args)]
pub struct Work {
    /// End when no session waits any more
    #[arg(long)]
    until_empty: bool,
}

impl Work {
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        // Before the store is opened: threads that it starts must not be ended by signals meant for us.
        let stop = StopRequest::on_signals();
        let store = room.writable_store()?;
        let worker = worker(room, store)?;
        room.console.note("metier: working the queue; Ctrl-C ends it");
        let until = if self.until_empty { Until::Empty } else { Until::Asked };
        let worked = worker.run(&stop, until)?;
        room.console.note(format!("metier: {worked} sessions worked"));
        Ok(Code::OK)
    }
}

/// A worker on this device.
pub fn worker(room: &Room, store: Store) -> anyhow::Result<Worker> {
    let roots = Roots::default();
    let device = metier_device::identity::this(&roots, data_folder().as_deref())?;
    let launch = launch(room, store.location())?;
    Ok(Worker::new(store, device, roots, launch, runtime_folder()))
}

/// How this program starts itself for a session: with the same store and settings, wherever the session is.
pub fn launch(room: &Room, store: &Location) -> anyhow::Result<Launch> {
    let program = std::env::current_exe().context("cannot tell which program this is")?;
    let mut flags: Vec<OsString> = Vec::new();
    let setting = room.settings.get("store");
    match (store, setting) {
        (Location::Sqlite(path), _) => {
            flags
                .extend(["--store".into(), absolute(path).context("cannot tell where the store is")?.into()]);
        }
        // A server's address may have a password: it is handed on only by the way it came.
        (_, Some(setting)) if matches!(setting.origin, Origin::Flag(_)) => {
            flags.extend(["--store".into(), setting.value.clone().unwrap_or_default().into()]);
        }
        _ => {}
    }
    if let Some((path, true)) = room.settings.file() {
        flags.extend([
            "--config".into(),
            absolute(path).context("cannot tell where the settings are")?.into(),
        ]);
    }
    let hidden = ["METIER_TOKEN", "METIER_CONFIG", "METIER_OUTPUT", "METIER_QUIET"];
    Ok(Launch { program, flags, hidden: hidden.into_iter().map(OsString::from).collect() })
}
