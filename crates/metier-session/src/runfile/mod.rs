//! Run files: the description of a run, in YAML or JSON.
//!
//! There are three steps with one type each. A document becomes a tree of values with positions
//! (`document`). The tree becomes a [`RunFile`] by the table of its fields (`file`, with the macros
//! of `fields` and the readers of `document_reader` and `forms`). The run file, with flags applied
//! (`flag_overlay`), becomes a [`CheckedRun`] (`check`, `checked`). A command line makes a
//! `RunFile` without a document. Each step reports all faults at once. Each [`RunFileFault`] names
//! its line, its field, the given value and the expected one. Only a `CheckedRun` can be run.

#[macro_use]
mod fields;

mod address;
mod check;
mod checked;
mod document;
mod document_reader;
mod fault;
mod file;
mod flag_overlay;
mod forms;
mod nearest;
pub mod quantity;
mod schema_forms;
mod shell_words;
mod source;

pub use address::without_secrets;
pub use checked::{
    CheckedDataset, CheckedRun, DATASET_TARGET, DEFAULT_READY_TIMEOUT, DatasetSource, ReadinessRule,
    ReadinessSign,
};
pub use document::{MAX_RUN_FILE_BYTES, TextPosition};
pub use fault::{FieldOrigins, RunFileFault, RunFileFaults};
pub use fields::{FlagGroup, RunFlag};
pub use file::{Container, Dataset, Limits, Listen, Mount, NestedRun, Pod, Probe, Ready, RunFile, run_flags};
pub use flag_overlay::GivenFlag;
pub use shell_words::split_words;
pub use source::{is_run_file, load, parse, read_text};
