//! Run files: what is to run and how, in YAML or JSON.
//!
//! Three steps, three types. A document becomes a tree in which each value knows its place
//! (`node`); the tree becomes a [`RunFile`], as the table of its fields says (`file`, made by
//! `fields`, read by `read` and `forms`); and that, with flags laid over it (`overlay`), becomes a
//! [`CheckedRun`] run (`check`, `checked`). A command line makes a `RunFile` without any document.
//! Each step finds all faults at once, and each [`RunFileFault`] names its line, its field, what was given
//! and what would be right. Only a `CheckedRun` can be run.

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
