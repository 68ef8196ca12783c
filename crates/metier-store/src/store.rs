//! The store: one interface over both engines.

use std::io::{Read, Write};
use std::sync::Arc;

use metier_types::{
    ArtefactRef, BatchId, Bytes, Device, DeviceId, Digest, Run, RunId, Series, Workload, WorkloadId,
};

use crate::{Error, Health, Location, Owner, RunFilter, RunPage};

/// Runs, series, artefacts, devices and workloads. Cheap to clone; all clones are the same store.
#[derive(Clone)]
pub struct Store {
    location: Arc<Location>,
}

impl Store {
    fn unbuilt<T>(&self) -> Result<T, Error> {
        let why = "not built yet".to_string();
        Err(Error::Engine { store: self.location.to_string(), doing: "everything", why })
    }

    /// Opens the store for reading and writing. Makes the folder (for its owner only) and the file where they do
    /// not exist, and brings an older schema up to date. Waits at most 5 seconds for a server.
    pub fn open(at: &Location) -> Result<Store, Error> {
        Store { location: Arc::new(at.clone()) }.unbuilt()
    }

    /// Opens the store for reading only; makes and changes nothing, also works on a read-only file system.
    pub fn open_read_only(at: &Location) -> Result<Store, Error> {
        Self::open(at)
    }

    /// Where it is.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Records that a run is under way and who measures it. The run's workload and device are recorded by
    /// [`Store::put_workload`] and [`Store::put_device`], in any order.
    pub fn begin_run(&self, run: &Run, owner: &Owner) -> Result<(), Error> {
        let _ = (run, owner);
        self.unbuilt()
    }

    /// Adds samples to a run under way: any number of named series, whose columns may differ from earlier ones.
    pub fn append(&self, run: RunId, chunk: &[Series]) -> Result<(), Error> {
        let _ = (run, chunk);
        self.unbuilt()
    }

    /// Replaces the record of a run that is over, joins its samples into blocks and forgets its owner; all at once.
    pub fn finish_run(&self, run: &Run) -> Result<(), Error> {
        let _ = run;
        self.unbuilt()
    }

    /// Stores a whole run, as an import does. `false` if it is already there and equal.
    pub fn put_run(&self, run: &Run, series: &[Series]) -> Result<bool, Error> {
        let _ = (run, series);
        self.unbuilt()
    }

    /// The run of that id.
    pub fn run(&self, id: RunId) -> Result<Option<Run>, Error> {
        let _ = id;
        self.unbuilt()
    }

    /// The run that a person means: a full id, the first or last 4 or more digits of one, `last`, `last~2` (the
    /// one two before it), or a workload's name or id (its latest run). A name that matches wholly wins over
    /// digits, since digits can be lengthened. Warm-up runs are found by id only.
    pub fn find_run(&self, text: &str) -> Result<RunId, Error> {
        let _ = text;
        self.unbuilt()
    }

    /// All runs of a batch, oldest first.
    pub fn batch(&self, id: BatchId) -> Result<Vec<Run>, Error> {
        let _ = id;
        self.unbuilt()
    }

    /// Runs that fit a filter, newest first.
    pub fn runs(&self, filter: &RunFilter) -> Result<RunPage, Error> {
        let _ = filter;
        self.unbuilt()
    }

    /// The series of a run by name, or that one of them; also of a run under way.
    pub fn series(&self, run: RunId, name: Option<&str>) -> Result<Vec<Series>, Error> {
        let _ = (run, name);
        self.unbuilt()
    }

    /// Removes a run, its series, and artefacts that no other run has. `false` if there is no such run.
    pub fn delete_run(&self, id: RunId) -> Result<bool, Error> {
        let _ = id;
        self.unbuilt()
    }

    /// Marks runs under way as interrupted whose owner is gone; returns them. Only runs whose `owner.host` is `host`
    /// are asked about: what another device measures, only that device can know.
    pub fn sweep(&self, host: &str, is_alive: &dyn Fn(&Owner) -> bool) -> Result<Vec<RunId>, Error> {
        let _ = (host, is_alive);
        self.unbuilt()
    }

    /// Stores a content once, by its SHA-256; at most 4 GiB.
    pub fn put_artefact(&self, content: &mut dyn Read) -> Result<(Digest, Bytes), Error> {
        let _ = content;
        self.unbuilt()
    }

    /// Writes a stored content out, and checks it on the way.
    pub fn artefact(&self, digest: &Digest, into: &mut dyn Write) -> Result<Bytes, Error> {
        let _ = (digest, into);
        self.unbuilt()
    }

    /// Makes a stored content a file of a run; it is in `Run.artefacts` from then on. A file of the same name is
    /// replaced.
    pub fn link_artefact(&self, run: RunId, artefact: &ArtefactRef) -> Result<(), Error> {
        let _ = (run, artefact);
        self.unbuilt()
    }

    /// Records a device, in place of what was known of it.
    pub fn put_device(&self, device: &Device) -> Result<(), Error> {
        let _ = device;
        self.unbuilt()
    }

    /// The device of that id.
    pub fn device(&self, id: &DeviceId) -> Result<Option<Device>, Error> {
        let _ = id;
        self.unbuilt()
    }

    /// All devices, by name.
    pub fn devices(&self) -> Result<Vec<Device>, Error> {
        self.unbuilt()
    }

    /// Records a workload, in place of what was known of it; the earliest `first_seen` is kept.
    pub fn put_workload(&self, workload: &Workload) -> Result<(), Error> {
        let _ = workload;
        self.unbuilt()
    }

    /// The workload of that id.
    pub fn workload(&self, id: &WorkloadId) -> Result<Option<Workload>, Error> {
        let _ = id;
        self.unbuilt()
    }

    /// All workloads, by name.
    pub fn workloads(&self) -> Result<Vec<Workload>, Error> {
        self.unbuilt()
    }

    /// Keeps a small text (64 KiB at most) under a key, in place of what was there; for caches.
    pub fn remember(&self, key: &str, value: &str) -> Result<(), Error> {
        let _ = (key, value);
        self.unbuilt()
    }

    /// What was kept under a key.
    pub fn recall(&self, key: &str) -> Result<Option<String>, Error> {
        let _ = key;
        self.unbuilt()
    }

    /// Whether the store can be used: engine, version, size and a quick check of its integrity.
    pub fn check(&self) -> Result<Health, Error> {
        self.unbuilt()
    }
}
