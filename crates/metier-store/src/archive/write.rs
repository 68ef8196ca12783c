//! Writes an archive.

use std::collections::BTreeSet;
use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use metier_types::schema::RecordSchema;
use metier_types::{ArtefactRef, Bytes, ContentDigest, DeviceId, ExtraFields, RunId, WorkloadId};
use serde::Serialize;

use super::{ArchiveEnd, ArchiveError, ArchiveHead, ArtefactPart, PART_BYTES};
use crate::RecordStore;

/// A run to export, with its references.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExportedRun {
    pub run: RunId,
    pub workload: WorkloadId,
    pub device: DeviceId,
}

/// Writes lines and counts them.
struct ArchiveWriter<'a> {
    out: &'a mut dyn Write,
    written: u64,
}

impl ArchiveWriter<'_> {
    fn add(&mut self, record: &impl Serialize) -> Result<(), ArchiveError> {
        serde_json::to_writer(&mut *self.out, record)?;
        self.out.write_all(b"\n")?;
        self.written += 1;
        Ok(())
    }
}

/// Exports runs with everything that belongs to them; `done` is called after each.
pub fn export(
    store: &RecordStore,
    exported_runs: &BTreeSet<ExportedRun>,
    out: &mut dyn Write,
    mut done: impl FnMut(),
) -> Result<(), ArchiveError> {
    let mut lines = ArchiveWriter { out, written: 0 };
    let metier = Some(env!("CARGO_PKG_VERSION").to_string());
    lines.add(&ArchiveHead { schema: RecordSchema::new(), metier, extra: ExtraFields::new() })?;
    let devices: BTreeSet<&DeviceId> = exported_runs.iter().map(|run| &run.device).collect();
    for id in devices {
        if let Some(device) = store.device(id)? {
            lines.add(&device)?;
        }
    }
    let workloads: BTreeSet<&WorkloadId> = exported_runs.iter().map(|run| &run.workload).collect();
    for id in workloads {
        if let Some(workload) = store.workload(id)? {
            lines.add(&workload)?;
        }
    }
    let mut files = BTreeSet::new();
    for ExportedRun { run: id, .. } in exported_runs {
        let run = store
            .run(*id)?
            .ok_or_else(|| ArchiveError::Content(format!("run {id} was removed while it was exported")))?;
        for artefact in &run.artefacts {
            if files.insert(artefact.digest) {
                file(store, artefact, &mut lines)?;
            }
        }
        lines.add(&run)?;
        for mut series in store.series(*id, None)? {
            series.mask_infinities();
            lines.add(&series)?;
        }
        done();
    }
    let (runs, all) = (exported_runs.len() as u64, lines.written + 1);
    lines.add(&ArchiveEnd { schema: RecordSchema::new(), runs, lines: all, extra: ExtraFields::new() })
}

/// Writes a file of a run in parts.
fn file(
    store: &RecordStore,
    artefact: &ArtefactRef,
    lines: &mut ArchiveWriter<'_>,
) -> Result<(), ArchiveError> {
    let mut parts = PartsWriter {
        lines,
        digest: artefact.digest,
        size: artefact.size_bytes,
        offset: 0,
        buffer: Vec::new(),
    };
    store.read_artefact(&artefact.digest, &mut parts)?;
    // An empty file gets one empty part, so that it is part of the archive.
    if !parts.buffer.is_empty() || parts.offset == 0 {
        parts.emit()?;
    }
    Ok(())
}

/// Splits the written bytes into parts.
struct PartsWriter<'a, 'b> {
    lines: &'a mut ArchiveWriter<'b>,
    digest: ContentDigest,
    size: Bytes,
    offset: u64,
    buffer: Vec<u8>,
}

impl PartsWriter<'_, '_> {
    fn emit(&mut self) -> Result<(), ArchiveError> {
        self.lines.add(&ArtefactPart {
            schema: RecordSchema::new(),
            digest: self.digest,
            size_bytes: self.size,
            offset: self.offset,
            base64: STANDARD.encode(&self.buffer),
            extra: ExtraFields::new(),
        })?;
        self.offset += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl Write for PartsWriter<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(PART_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        if self.buffer.len() == PART_BYTES {
            self.emit().map_err(io::Error::other)?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
