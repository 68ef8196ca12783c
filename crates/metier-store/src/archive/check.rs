//! The first pass of an import: checks the whole archive, also against the store, before anything
//! is written.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use metier_types::{ColumnValues, ContentDigest, Run, RunId, RunState, Series};
use sha2::{Digest as _, Sha256};

use super::error::refuse;
use super::lines::{ArchiveLine, ArchiveLines};
use super::{ArchiveError, ArtefactPart, MOST_RUNS, PART_BYTES};
use crate::RecordStore;

/// Contents of a checked archive.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ArchiveContents {
    /// Runs that are not in the store yet.
    pub new_runs: u64,
    /// Runs that are already in the store with equal content.
    pub known_runs: BTreeSet<RunId>,
}

/// Checks a whole archive. Returns its contents, or the first defect.
pub fn check(archive: impl BufRead, store: &RecordStore) -> Result<ArchiveContents, ArchiveError> {
    let mut lines = ArchiveLines::new(archive);
    let mut checker = ArchiveChecker::new(store);
    while let Some(line) = lines.next()? {
        checker.line(line, lines.number()).map_err(|error| error.at(lines.number()))?;
    }
    checker.end(lines.number())
}

struct ArchiveChecker<'a> {
    store: &'a RecordStore,
    contents: ArchiveContents,
    runs: BTreeSet<RunId>,
    /// Files that are complete.
    files: BTreeMap<ContentDigest, u64>,
    /// The artefact whose parts are being read.
    coming: Option<PartialArtefact>,
    /// The run whose series are being read, with the series names so far and the stored record, if
    /// there is one.
    current: Option<(RunId, BTreeSet<String>, Option<Vec<Series>>)>,
    seen_head: bool,
    seen_end: bool,
}

struct PartialArtefact {
    digest: ContentDigest,
    size: u64,
    offset: u64,
    hash: Sha256,
}

impl<'a> ArchiveChecker<'a> {
    fn new(store: &'a RecordStore) -> Self {
        Self {
            store,
            contents: ArchiveContents::default(),
            runs: BTreeSet::new(),
            files: BTreeMap::new(),
            coming: None,
            current: None,
            seen_head: false,
            seen_end: false,
        }
    }

    fn line(&mut self, line: ArchiveLine, number: u64) -> Result<(), ArchiveError> {
        if self.seen_end {
            refuse!("something comes after the end line; want one archive, not several in a row");
        }
        if !self.seen_head {
            self.seen_head = matches!(line, ArchiveLine::Head);
            return match self.seen_head {
                true => Ok(()),
                false => refuse!(
                    "field schema: the first line is no metier.export/1; want an archive of `metier export`"
                ),
            };
        }
        if let (Some(coming), false) = (&self.coming, matches!(line, ArchiveLine::Part(_))) {
            refuse!(
                "file {} ends at byte {} of {}; want all of its parts in a row",
                coming.digest,
                coming.offset,
                coming.size
            );
        }
        match line {
            ArchiveLine::Head => refuse!("a second first line; want one archive"),
            ArchiveLine::Device(_) | ArchiveLine::Workload(_) => Ok(()),
            ArchiveLine::Part(part) => self.part(part),
            ArchiveLine::Run(run) => self.run(&run),
            ArchiveLine::Series(series) => self.series(series),
            ArchiveLine::End(end) => {
                self.close()?;
                self.seen_end = true;
                if (end.runs, end.lines) != (self.runs.len() as u64, number) {
                    refuse!(
                        "field runs or lines: {} runs in {} lines were announced, {} in {number} are there; the archive is not whole",
                        end.runs,
                        end.lines,
                        self.runs.len()
                    );
                }
                Ok(())
            }
        }
    }

    fn part(&mut self, part: ArtefactPart) -> Result<(), ArchiveError> {
        let bytes = decode(&part)?;
        let size = part.size_bytes.get();
        let mut coming = match self.coming.take() {
            Some(coming) => coming,
            None => PartialArtefact { digest: part.digest, size, offset: 0, hash: Sha256::new() },
        };
        if (coming.digest, coming.size, coming.offset) != (part.digest, size, part.offset) {
            refuse!(
                "field offset: part of {} at byte {}; want that of {} at byte {}",
                part.digest,
                part.offset,
                coming.digest,
                coming.offset
            );
        }
        coming.hash.update(&bytes);
        coming.offset += bytes.len() as u64;
        if coming.offset > size || (bytes.is_empty() && size > 0) {
            refuse!(
                "field base64: {} bytes at byte {}; want parts that make {size} bytes",
                bytes.len(),
                part.offset
            );
        }
        if coming.offset < size {
            self.coming = Some(coming);
            return Ok(());
        }
        let found = ContentDigest::from_bytes(coming.hash.finalize().into());
        if found != part.digest {
            refuse!(
                "field digest: {} was announced, the content has {found}; the archive is damaged",
                part.digest
            );
        }
        self.files.insert(part.digest, size);
        Ok(())
    }

    fn run(&mut self, run: &Run) -> Result<(), ArchiveError> {
        self.close()?;
        if run.state == RunState::Running {
            refuse!("field state: run {} is under way; want runs that are over", run.id);
        }
        if !self.runs.insert(run.id) {
            refuse!("field id: run {} comes twice; want each run once", run.id);
        }
        if self.runs.len() > MOST_RUNS {
            refuse!("more than {MOST_RUNS} runs; want several smaller archives");
        }
        for artefact in &run.artefacts {
            match self.files.get(&artefact.digest) {
                Some(size) if *size == artefact.size_bytes.get() => {}
                Some(size) => refuse!(
                    "field artefacts: {:?} has {} bytes in the record, {size} in the archive",
                    artefact.name,
                    artefact.size_bytes.get()
                ),
                None => refuse!(
                    "field artefacts: the content of {:?} ({}) does not come before its run",
                    artefact.name,
                    artefact.digest
                ),
            }
        }
        let known = match self.store.run(run.id)? {
            None => None,
            Some(known) if known == *run => Some(self.store.series(run.id, None)?),
            Some(_) => refuse!(
                "run {} is already in store {} with another content; remove it there first (`metier runs rm`), or leave it out",
                run.id,
                self.store.location()
            ),
        };
        self.current = Some((run.id, BTreeSet::new(), known));
        Ok(())
    }

    fn series(&mut self, mut series: Series) -> Result<(), ArchiveError> {
        let Some((run, names, known)) = &mut self.current else {
            refuse!("series {:?} comes before any run; want the series of a run after it", series.name);
        };
        if series.run != *run {
            refuse!(
                "field run: {} in the series of run {run}; want the series of a run right after it",
                series.run
            );
        }
        if let Some(defect) = series.find_defect() {
            refuse!("field columns: {defect}");
        }
        if !names.insert(series.name.clone()) {
            refuse!("field name: series {:?} comes twice in run {run}", series.name);
        }
        if let Some(known) = known {
            let is_same = known.iter().any(|other| {
                let mut other = other.clone();
                zero_absent(&mut other);
                zero_absent(&mut series);
                other == series
            });
            if !is_same {
                refuse!(
                    "run {run} is already in the store with another series {:?}; nothing was changed",
                    series.name
                );
            }
        }
        Ok(())
    }

    /// Completes the current run.
    fn close(&mut self) -> Result<(), ArchiveError> {
        match self.current.take() {
            Some((run, names, Some(known))) => {
                if names.len() != known.len() {
                    refuse!(
                        "run {run} is already in the store with {} series, not {}; nothing was changed",
                        known.len(),
                        names.len()
                    );
                }
                self.contents.known_runs.insert(run);
            }
            Some((_, _, None)) => self.contents.new_runs += 1,
            None => {}
        }
        Ok(())
    }

    fn end(self, lines: u64) -> Result<ArchiveContents, ArchiveError> {
        match (self.seen_head, self.seen_end) {
            (false, _) => refuse!("it is empty; want an archive of `metier export`"),
            (true, false) => refuse!(
                "it breaks off after line {lines}; want an archive with its end line (metier.export-end/1)"
            ),
            (true, true) => Ok(self.contents),
        }
    }
}

/// The bytes of a part.
pub(super) fn decode(part: &ArtefactPart) -> Result<Vec<u8>, ArchiveError> {
    let bytes = STANDARD
        .decode(&part.base64)
        .map_err(|error| ArchiveError::Content(format!("field base64: {error}")))?;
    if bytes.len() > PART_BYTES {
        refuse!("field base64: {} bytes; want at most {PART_BYTES} in one part", bytes.len());
    }
    Ok(bytes)
}

/// Zeroes the values of absent rows, which have no meaning, so that series compare equal.
fn zero_absent(series: &mut Series) {
    series.mask_infinities();
    for column in &mut series.columns {
        for row in column.absent.iter().map(|row| *row as usize) {
            match &mut column.values {
                ColumnValues::Integer(values) => values.get_mut(row).into_iter().for_each(|value| *value = 0),
                ColumnValues::Float(values) => values.get_mut(row).into_iter().for_each(|value| *value = 0.0),
            }
        }
    }
}
