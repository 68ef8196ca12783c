//! The destination of runs under way: their store, or the spool while that fails.
//!
//! The first failed write of a run diverts it: all that follows, its end included, goes to the
//! spool. So what the store has comes before what the spool has. The end of a diverted run is
//! delivered at once if the store is back.

use std::io::{self, Read, Seek as _, Write as _};
use std::sync::{Arc, Mutex, MutexGuard};

use metier_types::{ArtefactRef, Device, LockUnpoisoned, Run, RunId, Series, Workload};

use crate::spool::RunSpool;
use crate::{Error, OwnerProcess, RecordStore, StoreLocation};

/// The destination of runs. Clones share one state.
#[derive(Debug, Clone)]
pub struct RunSink {
    shared: Arc<Mutex<SinkState>>,
}

#[derive(Debug)]
struct SinkState {
    location: StoreLocation,
    /// `None` if the store was away when the sink was opened.
    store: Option<RecordStore>,
    spool: Option<RunSpool>,
    begun: Option<(Run, OwnerProcess)>,
    /// The open spool, once the run was diverted.
    diverted: Option<RecordStore>,
    notice: Option<SpoolNotice>,
}

/// Runs that wait in a spool, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpoolNotice {
    /// Number of runs.
    pub runs: u64,
    /// File of the spool.
    pub spool: std::path::PathBuf,
    /// First error of the store.
    pub cause: String,
}

impl RunSink {
    /// A sink for a store whose server may be away. Without a spool, that is an error.
    pub fn open(location: &StoreLocation, spool: Option<RunSpool>) -> Result<Self, Error> {
        let store = match RecordStore::open(location) {
            Err(error) if spool.is_some() && error.is_server_away() => None,
            opened => Some(opened?),
        };
        Ok(Self::new(location.clone(), store, spool))
    }

    /// A sink for an open store.
    pub fn with_store(store: RecordStore, spool: Option<RunSpool>) -> Self {
        Self::new(store.location().clone(), Some(store), spool)
    }

    fn new(location: StoreLocation, store: Option<RecordStore>, spool: Option<RunSpool>) -> Self {
        let state = SinkState { location, store, spool, begun: None, diverted: None, notice: None };
        Self { shared: Arc::new(Mutex::new(state)) }
    }

    /// The open store; `None` if it was away.
    pub fn store(&self) -> Option<RecordStore> {
        self.lock().store.clone()
    }

    /// The runs that were spooled, once.
    pub fn take_notice(&self) -> Option<SpoolNotice> {
        self.lock().notice.take()
    }

    /// Records that a run is active. A store that answers but cannot be written is an error, so
    /// that nothing is measured in vain.
    pub fn begin_run(&self, run: &Run, owner: &OwnerProcess) -> Result<(), Error> {
        let mut state = self.lock();
        (state.begun, state.diverted) = (Some((run.clone(), owner.clone())), None);
        let begun = match &state.store {
            Some(store) => store.begin_run(run, owner),
            None => RecordStore::open(&state.location).and_then(|store| {
                store.begin_run(run, owner)?;
                state.store = Some(store);
                Ok(())
            }),
        };
        match begun {
            Err(error) if error.is_server_away() => state.divert(error).map(|_| ()),
            begun => begun,
        }
    }

    /// Appends samples to the run.
    pub fn append_series(&self, run: RunId, chunk: &[Series]) -> Result<(), Error> {
        let mut state = self.lock();
        if let Some(spool) = &state.diverted {
            return spool.append_series(run, chunk);
        }
        let Some(store) = &state.store else { return Ok(()) };
        let chunks = store.encode_chunks(run, chunk)?;
        match store.insert_chunks(run, &chunks) {
            Err(error) if error.is_store_failure() => state.divert(error)?.insert_chunks(run, &chunks),
            done => done,
        }
    }

    /// Stores a file of the run and links it.
    pub fn put_file(
        &self,
        run: RunId,
        name: &str,
        media_type: &str,
        content: &mut dyn Read,
    ) -> Result<ArtefactRef, Error> {
        let mut state = self.lock();
        let put = |store: &RecordStore, content: &mut dyn Read| {
            let (digest, size_bytes) = store.put_artefact(content)?;
            let artefact = ArtefactRef::new(name, media_type, digest, size_bytes);
            store.link_artefact(run, &artefact).map(|()| artefact)
        };
        if let Some(spool) = &state.diverted {
            return put(spool, content);
        }
        let Some(store) = &state.store else {
            return Err(Error::Absent { store: state.location.to_string() });
        };
        let may_divert = state.spool.is_some() && matches!(state.location, StoreLocation::Postgres(_));
        if !may_divert {
            return put(store, content);
        }
        // What was read cannot be read again: a copy is kept until the server has it.
        let mut copied = CopyingReader { inner: content, copy: tempfile::tempfile().map_err(copy_error)? };
        match put(store, &mut copied) {
            Err(error) if error.is_store_failure() => {
                let spool = state.divert(error)?;
                let CopyingReader { inner, mut copy } = copied;
                copy.rewind().map_err(copy_error)?;
                put(&spool, &mut copy.chain(inner))
            }
            done => done,
        }
    }

    /// Same as [`RunSink::put_file`] for a content that can be written twice.
    pub fn put_bytes(
        &self,
        run: RunId,
        name: &str,
        media_type: &str,
        content: &[u8],
    ) -> Result<ArtefactRef, Error> {
        match self.put_file(run, name, media_type, &mut &content[..]) {
            Err(error) if error.is_store_failure() => {
                self.lock().divert(error)?;
                self.put_file(run, name, media_type, &mut &content[..])
            }
            done => done,
        }
    }

    /// Records the end of the run, its workload and, if given, its device. Returns whether the
    /// store has them; otherwise they are in the spool.
    pub fn finish_run(&self, run: &Run, workload: &Workload, device: Option<&Device>) -> Result<bool, Error> {
        let mut state = self.lock();
        if state.diverted.is_none()
            && let Some(store) = &state.store
        {
            let finished = store
                .finish_run(run)
                .and_then(|()| store.put_workload(workload))
                .and_then(|()| device.map_or(Ok(()), |device| store.put_device(device)));
            match finished {
                Err(error) if error.is_store_failure() => drop(state.divert(error)?),
                done => return done.map(|()| true),
            }
        }
        let Some(spool) = state.diverted.clone() else {
            return Err(Error::Absent { store: state.location.to_string() });
        };
        spool.put_workload(workload)?;
        device.map_or(Ok(()), |device| spool.put_device(device))?;
        spool.spool_ended_run(run)?;
        Ok(state.deliver_now(run.id))
    }

    /// Removes a run that could not be started.
    pub fn discard_run(&self, run: RunId) {
        let state = self.lock();
        for store in state.store.iter().chain(&state.diverted) {
            // A run that cannot be deleted stays listed as interrupted.
            let _ = store.delete_run(run);
        }
    }

    fn lock(&self) -> MutexGuard<'_, SinkState> {
        self.shared.lock_unpoisoned()
    }
}

impl From<RecordStore> for RunSink {
    fn from(store: RecordStore) -> Self {
        Self::with_store(store, None)
    }
}

impl SinkState {
    /// Opens the spool for this run. Without one, or if it fails too, returns the store's error.
    fn divert(&mut self, error: Error) -> Result<RecordStore, Error> {
        let (Some(spool), Some((run, owner)), None) = (&self.spool, &self.begun, &self.diverted) else {
            return Err(error);
        };
        let Ok(store) = spool.open().and_then(|store| store.begin_run(run, owner).map(|()| store)) else {
            return Err(error);
        };
        let spool = spool.path().to_path_buf();
        let notice =
            self.notice.get_or_insert_with(|| SpoolNotice { runs: 0, spool, cause: error.to_string() });
        notice.runs += 1;
        Ok(self.diverted.insert(store).clone())
    }

    /// Delivers the ended run if the store is back; otherwise it waits in the spool.
    fn deliver_now(&mut self, run: RunId) -> bool {
        let Some(spool) = &self.spool else { return false };
        let opened = match &self.store {
            Some(store) => Ok(store.clone()),
            None => RecordStore::open(&self.location),
        };
        let Ok(store) = opened else { return false };
        if !spool.deliver_run(&store, run).is_ok_and(|is_delivered| is_delivered) {
            return false;
        }
        self.store = Some(store);
        match &mut self.notice {
            Some(notice) if notice.runs > 1 => notice.runs -= 1,
            notice => *notice = None,
        }
        true
    }
}

/// Copies what is read into a file.
struct CopyingReader<'a> {
    inner: &'a mut dyn Read,
    copy: std::fs::File,
}

impl Read for CopyingReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.copy.write_all(buffer.get(..count).unwrap_or_default())?;
        Ok(count)
    }
}

fn copy_error(source: io::Error) -> Error {
    Error::Io { doing: "keeping a copy of a file of the run; set TMPDIR to a folder with free space", source }
}
