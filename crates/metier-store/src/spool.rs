//! The spool: an embedded store for runs and ends of sessions that their store could not take.
//!
//! Each store has a spool of its own, an SQLite file whose name is a digest of the store's
//! location. Delivery moves a run in this order: its files, workload and device, then samples and
//! record in one transaction, then its removal from the spool. A process that is killed between the
//! last two leaves a run that the next delivery recognises by its id and end, and only removes. A
//! spool is never deleted, since another process may have it open; an empty one has some 200 KB.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use metier_types::{RunId, SessionRecord};

use crate::archive::{merge_device, merge_workload};
use crate::digest::digest_bytes;
use crate::store::ArtefactReader;
use crate::{Error, OwnerProcess, RecordStore, SessionEnd, StoreLocation};

/// The spool of a store.
#[derive(Debug, Clone)]
pub struct RunSpool {
    path: PathBuf,
}

/// What a delivery moved from a spool to its store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpoolDelivery {
    pub runs: u64,
    pub sessions: u64,
}

impl RunSpool {
    /// The spool of a store, below a folder for all spools. A password does not change the name.
    pub fn of_store(folder: &Path, store: &StoreLocation) -> Self {
        let key = match store {
            StoreLocation::Sqlite(path) => std::path::absolute(path).unwrap_or_else(|_| path.clone()),
            server => server.to_string().into(),
        };
        let digest: String = digest_bytes(key.as_os_str().as_bytes())
            .as_bytes()
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Self { path: folder.join(format!("{digest}.db")) }
    }

    /// The file of the spool.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether something may wait for delivery.
    pub fn may_hold_runs(&self) -> bool {
        self.path.exists()
    }

    /// Opens the spool; creates it if there is none.
    pub(crate) fn open(&self) -> Result<RecordStore, Error> {
        RecordStore::open(&StoreLocation::Sqlite(self.path.clone()))
    }

    /// Keeps the end of a session, the rest of its output with the number of its part, for a store
    /// that is away.
    pub fn keep_session_end(
        &self,
        session: &SessionRecord,
        owner: &OwnerProcess,
        end: &SessionEnd,
        log: Option<(u32, &[u8])>,
    ) -> Result<(), Error> {
        self.open()?.spool_session_end(session, owner, end, log)
    }

    /// Delivers all that waits. Runs under way stay while `is_alive` says so of their process;
    /// later they are delivered as interrupted. If one cannot be delivered, the others still are,
    /// and the first error is returned. While another process delivers, nothing is done.
    pub fn deliver(
        &self,
        store: &RecordStore,
        is_alive: &dyn Fn(&OwnerProcess) -> bool,
    ) -> Result<SpoolDelivery, Error> {
        let mut delivered = SpoolDelivery::default();
        if !self.may_hold_runs() {
            return Ok(delivered);
        }
        let Some(_lock) = self.try_lock()? else { return Ok(delivered) };
        let spool = self.open()?;
        if spool.is_spool_empty()? {
            return Ok(delivered);
        }
        let mut problem = None;
        for (run, owner) in spool.run_owners()? {
            if owner.is_some_and(|owner| is_alive(&owner)) {
                continue;
            }
            match move_run(&spool, store, run) {
                Ok(is_new) => delivered.runs += u64::from(is_new),
                Err(error) => drop(problem.get_or_insert(error)),
            }
        }
        for session in spool.spooled_sessions()? {
            let moved = spool.session_log_parts(session.id).and_then(|parts| {
                if store.session(session.id)?.is_some() {
                    for (part, content) in parts {
                        store.append_session_log(session.id, part, &content)?;
                    }
                }
                let is_new = store.accept_spooled_session(&session)?;
                spool.delete_session(session.id).map(|()| is_new)
            });
            match moved {
                Ok(is_new) => delivered.sessions += u64::from(is_new),
                Err(error) => drop(problem.get_or_insert(error)),
            }
        }
        problem.map_or(Ok(delivered), Err)
    }

    /// Delivers one ended run. Returns `false` if another process delivers just now.
    pub(crate) fn deliver_run(&self, store: &RecordStore, run: RunId) -> Result<bool, Error> {
        let Some(_lock) = self.try_lock()? else { return Ok(false) };
        move_run(&self.open()?, store, run)?;
        Ok(true)
    }

    /// The right to deliver; the kernel releases it when its holder ends.
    fn try_lock(&self) -> Result<Option<File>, Error> {
        let failed = |source| Error::Io { doing: "locking the spool", source };
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).write(true).mode(0o600);
        let file = options.open(self.path.with_extension("lock")).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }
}

/// Moves a run with all that belongs to it. Returns `false` if the store had it.
fn move_run(spool: &RecordStore, store: &RecordStore, id: RunId) -> Result<bool, Error> {
    let Some(run) = spool.run(id)? else { return Ok(false) };
    for artefact in &run.artefacts {
        // Files that were stored before the store failed are there and not here.
        if !store.has_artefact(&artefact.digest)?
            && let Some(mut content) = ArtefactReader::open(spool, &artefact.digest)?
        {
            let (digest, _) = store.put_artefact(&mut content)?;
            if digest != artefact.digest {
                return Err(Error::DamagedArtefact {
                    store: spool.location().to_string(),
                    digest: artefact.digest,
                });
            }
        }
    }
    if let Some(workload) = spool.workload(&run.workload.id)? {
        merge_workload(store, &workload)?;
    }
    if let Some(device) = spool.device(&run.device.id)? {
        merge_device(store, &device)?;
    }
    let is_new = store.accept_spooled_run(&run, spool)?;
    spool.delete_run(id)?;
    Ok(is_new)
}
