//! Archives of runs (`metier export`, `metier import`): JSON Lines, one object a line, each with
//! its `schema`.
//!
//! ```text
//! {"schema":"metier.export/1","metier":"0.1.0"}            first line
//! {"schema":"metier.device/1", …}                          each device of the runs, by id
//! {"schema":"metier.workload/1", …}                        each workload of the runs, by id
//! {"schema":"metier.artefact/1","digest":"sha256:…","size_bytes":N,"offset":0,"base64":"…"}
//! {"schema":"metier.run/1", …}                             the record, as `metier show -o json` gives it
//! {"schema":"metier.series/1", …}                          each series of that run, by name
//! {"schema":"metier.export-end/1","runs":N,"lines":N}      last line: nothing was cut off
//! ```
//!
//! Runs come in the order of their ids, which is the order of time. A file of a run (its process
//! tree among them) comes before the first run that has it, once, in parts of at most 3 MiB, in
//! order. A value of a series that JSON cannot carry (not finite) is written as absent. The same
//! store content gives the same bytes.
//!
//! Reading is in two passes: [`check()`] checks everything, also against the store; only then
//! [`import`] writes. Limits: lines of at most 1 GiB, a million runs.

mod check;
mod error;
mod lines;
mod read;
mod write;

use metier_types::schema::{RecordSchema, VersionedRecord};
use metier_types::{Bytes, ContentDigest, ExtraFields};
use serde::{Deserialize, Serialize};

pub use check::{ArchiveContents, check};
pub use error::ArchiveError;
pub use read::import;
pub(crate) use read::{merge_device, merge_workload};
pub use write::{ExportedRun, export};

/// Most bytes of one part of an artefact, before base64.
const PART_BYTES: usize = 3 << 20;
const LINE_BYTES: u64 = 1 << 30;
/// Most runs of one archive.
const MOST_RUNS: usize = 1_000_000;

#[derive(Debug, Serialize, Deserialize)]
struct ArchiveHead {
    /// `metier.export/1`.
    schema: RecordSchema<ArchiveHead>,
    /// The version of the program that wrote it.
    metier: Option<String>,
    /// Fields of later versions.
    #[serde(flatten)]
    extra: ExtraFields,
}

impl VersionedRecord for ArchiveHead {
    const SCHEMA: &'static str = "metier.export/1";
}

#[derive(Debug, Serialize, Deserialize)]
struct ArchiveEnd {
    /// `metier.export-end/1`.
    schema: RecordSchema<ArchiveEnd>,
    /// Number of runs.
    runs: u64,
    /// Number of lines, including this one.
    lines: u64,
    /// Fields of later versions.
    #[serde(flatten)]
    extra: ExtraFields,
}

impl VersionedRecord for ArchiveEnd {
    const SCHEMA: &'static str = "metier.export-end/1";
}

/// A part of a file of a run.
#[derive(Debug, Serialize, Deserialize)]
struct ArtefactPart {
    /// `metier.artefact/1`.
    schema: RecordSchema<ArtefactPart>,
    digest: ContentDigest,
    /// The size of the whole.
    size_bytes: Bytes,
    /// Where this part begins.
    offset: u64,
    base64: String,
    /// Fields of later versions.
    #[serde(flatten)]
    extra: ExtraFields,
}

impl VersionedRecord for ArtefactPart {
    const SCHEMA: &'static str = "metier.artefact/1";
}
