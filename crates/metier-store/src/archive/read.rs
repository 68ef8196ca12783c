//! The second pass of an import: writes what [`check`](super::check()) accepted.

use std::io::{self, BufRead, Read};

use metier_types::{Device, Run, Series, Workload};

use super::check::{ArchiveContents, decode};
use super::error::refuse;
use super::lines::{ArchiveLine, ArchiveLines};
use super::{ArchiveError, ArtefactPart};
use crate::{Error, RecordStore};

/// Imports a checked archive into the store; `done` is called after each run.
pub fn import(
    archive: impl BufRead,
    store: &RecordStore,
    contents: &ArchiveContents,
    mut done: impl FnMut(),
) -> Result<(), ArchiveError> {
    let mut lines = ArchiveLines::new(archive);
    let mut current: Option<(Box<Run>, Vec<Series>)> = None;
    let mut put = |run: Option<(Box<Run>, Vec<Series>)>| -> Result<(), ArchiveError> {
        if let Some((run, series)) = run {
            if !contents.known_runs.contains(&run.id) {
                store.put_run(&run, &series)?;
            }
            done();
        }
        Ok(())
    };
    while let Some(line) = lines.next()? {
        match line {
            ArchiveLine::Series(series) => match &mut current {
                Some((_, all)) => all.push(series),
                None => return Err(changed().at(lines.number())),
            },
            ArchiveLine::Run(run) => put(current.replace((run, Vec::new())))?,
            ArchiveLine::Device(device) => merge_device(store, &device)?,
            ArchiveLine::Workload(workload) => merge_workload(store, &workload)?,
            ArchiveLine::Part(part) => {
                // The artefact's own run follows it; the previous run is complete.
                put(current.take())?;
                put_file(store, part, &mut lines)?;
            }
            ArchiveLine::Head | ArchiveLine::End(_) => put(current.take())?,
        }
    }
    put(current.take())
}

/// The error for an archive that has changed since it was checked.
fn changed() -> ArchiveError {
    ArchiveError::Content("changed since it was checked".to_string())
}

/// Stores the device unless the stored record is at least as recent.
pub(crate) fn merge_device(store: &RecordStore, device: &Device) -> Result<(), Error> {
    match store.device(&device.id)? {
        Some(known) if known.seen >= device.seen => Ok(()),
        _ => store.put_device(device),
    }
}

/// Stores the workload; an existing record stays, with the earlier `first_seen` of both.
pub(crate) fn merge_workload(store: &RecordStore, workload: &Workload) -> Result<(), Error> {
    match store.workload(&workload.id)? {
        None => store.put_workload(workload),
        Some(known) if workload.first_seen < known.first_seen => {
            store.put_workload(&Workload { first_seen: workload.first_seen, ..known })
        }
        Some(_) => Ok(()),
    }
}

fn put_file<R: BufRead>(
    store: &RecordStore,
    first: ArtefactPart,
    lines: &mut ArchiveLines<R>,
) -> Result<(), ArchiveError> {
    let digest = first.digest;
    let mut content =
        PartsReader { size: first.size_bytes.get(), read: 0, at: 0, bytes: decode(&first)?, lines };
    let (stored, _) = store.put_artefact(&mut content)?;
    if stored != digest {
        refuse!("file {digest}: changed since it was checked");
    }
    Ok(())
}

/// Reads consecutive parts as one content.
struct PartsReader<'a, R> {
    size: u64,
    /// Bytes of the previous parts.
    read: u64,
    at: usize,
    bytes: Vec<u8>,
    lines: &'a mut ArchiveLines<R>,
}

impl<R: BufRead> PartsReader<'_, R> {
    fn advance(&mut self) -> Result<(), ArchiveError> {
        self.read += self.bytes.len() as u64;
        self.at = 0;
        self.bytes = match self.lines.next()? {
            Some(ArchiveLine::Part(part)) => decode(&part)?,
            _ => return Err(changed().at(self.lines.number())),
        };
        Ok(())
    }
}

impl<R: BufRead> Read for PartsReader<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.bytes.len() && self.read + (self.bytes.len() as u64) < self.size {
            self.advance().map_err(io::Error::other)?;
        }
        let count = (&self.bytes[self.at..]).read(into)?;
        self.at += count;
        Ok(count)
    }
}
