//! The second pass of an import: writes what [`check`](super::check) found good.

use std::io::{self, BufRead, Read};

use anyhow::{Context as _, bail};
use metier_store::Store;
use metier_types::{Device, Run, Series, Workload};

use super::Part;
use super::check::{Contents, decode};
use super::lines::{Line, Lines};

/// Writes an archive that was checked into the store; `done` is told after each run.
pub fn import(
    archive: impl BufRead,
    store: &Store,
    contents: &Contents,
    mut done: impl FnMut(),
) -> anyhow::Result<()> {
    let mut lines = Lines::new(archive);
    let mut current: Option<(Box<Run>, Vec<Series>)> = None;
    let mut put = |run: Option<(Box<Run>, Vec<Series>)>| -> anyhow::Result<()> {
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
            Line::Series(series) => match &mut current {
                Some((_, all)) => all.push(series),
                None => bail!("line {}: changed since it was checked", lines.number()),
            },
            Line::Run(run) => put(current.replace((run, Vec::new())))?,
            Line::Device(device) => put_device(store, &device)?,
            Line::Workload(workload) => put_workload(store, &workload)?,
            Line::Part(part) => {
                // Its own run comes after it; the one before is complete.
                put(current.take())?;
                put_file(store, part, &mut lines)?;
            }
            Line::Head | Line::End(_) => put(current.take())?,
        }
    }
    put(current.take())
}

/// What was seen last is what holds.
fn put_device(store: &Store, device: &Device) -> anyhow::Result<()> {
    match store.device(&device.id)? {
        Some(known) if known.seen >= device.seen => Ok(()),
        _ => Ok(store.put_device(device)?),
    }
}

/// What the store knows of a workload stays, except that it may have been seen earlier elsewhere.
fn put_workload(store: &Store, workload: &Workload) -> anyhow::Result<()> {
    match store.workload(&workload.id)? {
        None => Ok(store.put_workload(workload)?),
        Some(known) if workload.first_seen < known.first_seen => {
            Ok(store.put_workload(&Workload { first_seen: workload.first_seen, ..known })?)
        }
        Some(_) => Ok(()),
    }
}

fn put_file<R: BufRead>(store: &Store, first: Part, lines: &mut Lines<R>) -> anyhow::Result<()> {
    let digest = first.digest;
    let mut content = Parts { size: first.size_bytes.get(), read: 0, at: 0, bytes: decode(&first)?, lines };
    let (stored, _) = store.put_artefact(&mut content)?;
    if stored != digest {
        bail!("file {digest}: changed since it was checked");
    }
    Ok(())
}

/// Parts that follow each other, as one content.
struct Parts<'a, R> {
    size: u64,
    /// Bytes of the parts before this one.
    read: u64,
    at: usize,
    bytes: Vec<u8>,
    lines: &'a mut Lines<R>,
}

impl<R: BufRead> Parts<'_, R> {
    fn advance(&mut self) -> anyhow::Result<()> {
        self.read += self.bytes.len() as u64;
        self.at = 0;
        self.bytes = match self.lines.next()? {
            Some(Line::Part(part)) => decode(&part)?,
            _ => bail!("line {}: changed since it was checked", self.lines.number()),
        };
        Ok(())
    }
}

impl<R: BufRead> Read for Parts<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.bytes.len() && self.read + (self.bytes.len() as u64) < self.size {
            self.advance().context("reading a file of a run").map_err(io::Error::other)?;
        }
        let count = (&self.bytes[self.at..]).read(into)?;
        self.at += count;
        Ok(count)
    }
}
