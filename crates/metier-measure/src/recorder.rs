//! Stores a run while it is measured: in a store, or not at all.

use std::io::Read;

use metier_store::{OwnerProcess, RunSink, SeriesWriter};
use metier_types::schema::RecordSchema;
use metier_types::{
    ArtefactRef, Device, ExtraFields, ProcessTree, Run, RunId, Series, Workload, WorkloadKind,
};

use crate::Error;
use metier_device::process_owner;
use metier_linux::KernelRoots;
use metier_store::digest;

/// Stores runs as they are measured.
pub trait RunRecorder {
    /// The run is about to start.
    fn begin_run(&mut self, run: &Run) -> Result<(), Error>;
    /// The run could not be started after all.
    fn discard_run(&mut self, _run: RunId) {}
    /// Stores the samples of about the last second.
    fn record_samples(&mut self, run: RunId, chunk: Vec<Series>);
    /// The run is over.
    fn finish_run(&mut self, run: &mut Run, tree: &ProcessTree) -> Result<(), Error>;
    /// Stores a file with an unfinished run. `None` if the recorder stores nothing.
    fn store_artefact(
        &mut self,
        _run: RunId,
        _name: &str,
        _media_type: &str,
        _content: &mut dyn Read,
    ) -> Result<Option<ArtefactRef>, Error> {
        Ok(None)
    }
    /// A cached value, for digests that take long to compute.
    fn cached_value(&self, _key: &str) -> Option<String> {
        None
    }
    /// Caches a value.
    fn cache_value(&self, _key: &str, _value: &str) {}
}

pub struct NoRecorder;

impl RunRecorder for NoRecorder {
    fn begin_run(&mut self, _: &Run) -> Result<(), Error> {
        Ok(())
    }
    fn record_samples(&mut self, _: RunId, _: Vec<Series>) {}
    fn finish_run(&mut self, _: &mut Run, _: &ProcessTree) -> Result<(), Error> {
        Ok(())
    }
}

/// Stores runs in a record store, or in its spool; samples go through a single writer thread.
pub struct StoreRecorder {
    sink: RunSink,
    owner: OwnerProcess,
    device: Device,
    is_device_kept: bool,
    writer: Option<SeriesWriter>,
}

impl StoreRecorder {
    /// A recorder for runs on this device.
    pub fn new(sink: impl Into<RunSink>, device: &Device) -> Self {
        let owner = process_owner::current_owner(&KernelRoots::default(), device);
        Self { sink: sink.into(), owner, device: device.clone(), is_device_kept: false, writer: None }
    }
}

impl RunRecorder for StoreRecorder {
    fn begin_run(&mut self, run: &Run) -> Result<(), Error> {
        self.sink.begin_run(run, &self.owner)?;
        self.writer = Some(SeriesWriter::start(self.sink.clone()));
        Ok(())
    }

    fn discard_run(&mut self, run: RunId) {
        self.writer = None;
        self.sink.discard_run(run);
    }

    fn record_samples(&mut self, run: RunId, chunk: Vec<Series>) {
        if let Some(writer) = &self.writer {
            writer.append(run, chunk);
        }
    }

    fn store_artefact(
        &mut self,
        run: RunId,
        name: &str,
        media_type: &str,
        content: &mut dyn Read,
    ) -> Result<Option<ArtefactRef>, Error> {
        Ok(Some(self.sink.put_file(run, name, media_type, content)?))
    }

    fn finish_run(&mut self, run: &mut Run, tree: &ProcessTree) -> Result<(), Error> {
        if let Some(written) = self.writer.take().map(SeriesWriter::finish).transpose()?
            && written.dropped > 0
        {
            let cause = written.problem.map(|p| format!(": {p}")).unwrap_or_default();
            let text =
                format!("{} chunks of samples could not be stored{cause}; totals are exact", written.dropped);
            run.warnings.push(metier_types::RunWarning::new("dropped-samples", text));
        }
        if !tree.processes.is_empty()
            && let Ok(json) = serde_json::to_vec(tree)
        {
            let name = ProcessTree::ARTEFACT_NAME;
            let artefact = self.sink.put_bytes(run.id, name, "application/json", &json)?;
            run.artefacts.retain(|other| other.name != name);
            run.artefacts.push(artefact);
        }
        let workload = Workload {
            schema: RecordSchema::new(),
            id: run.workload.id.clone(),
            name: run.workload.name.clone(),
            kind: match (&run.context.graph, &run.context.image) {
                (Some(_), _) => WorkloadKind::Graph,
                (None, Some(_)) => WorkloadKind::Image,
                (None, None) => WorkloadKind::Command,
            },
            command: run.context.command.clone(),
            digest: run
                .context
                .graph
                .as_ref()
                .map(|graph| graph.digest)
                .or(run.context.executable_digest)
                .or_else(|| run.context.image.as_ref().and_then(|image| image.digest)),
            first_seen: run.started,
            extra: ExtraFields::new(),
        };
        let device = (!self.is_device_kept).then_some(&self.device);
        self.is_device_kept = self.sink.finish_run(run, &workload, device)?;
        Ok(())
    }

    fn cached_value(&self, key: &str) -> Option<String> {
        self.sink.store()?.get_memo(key).ok().flatten()
    }

    fn cache_value(&self, key: &str, value: &str) {
        // A failed cache write costs time only.
        let _ = self.sink.store().map(|store| store.put_memo(key, value));
    }
}

/// The digest of a program file, cached by the recorder until the file changes.
pub fn cached_digest(
    recorder: &dyn RunRecorder,
    path: &std::path::Path,
) -> Option<metier_types::ContentDigest> {
    let key = digest::file_fingerprint(path).map(|print| format!("executable-digest {print}"));
    if let Some(known) =
        key.as_ref().and_then(|key| recorder.cached_value(key)).and_then(|text| text.parse().ok())
    {
        return Some(known);
    }
    let fresh = digest::digest_file(path).ok()?;
    if let Some(key) = key {
        recorder.cache_value(&key, &fresh.to_string());
    }
    Some(fresh)
}
