//! Run files: what is to run and how, in YAML or JSON.
//!
//! Three steps, three types. A document becomes a tree in which each value knows its place
//! (`node`); the tree becomes a [`RunFile`], as the table of its fields says (`file`, made by
//! `fields`, read by `read` and `forms`); and that, with flags laid over it (`overlay`), becomes a
//! [`Checked`] run (`check`, `checked`). A command line makes a `RunFile` without any document.
//! Each step finds all faults at once, and each [`Fault`] names its line, its field, what was given
//! and what would be right. Only a `Checked` can be run.

#[macro_use]
mod fields;

mod address;
mod check;
mod checked;
mod fault;
mod file;
mod form;
mod forms;
mod nearest;
mod node;
mod overlay;
pub mod quantity;
mod read;
mod source;
mod words;

pub use address::without_secrets;
pub use checked::{Checked, DATASET_TARGET, Readiness, Sign, Source, WITHIN, Wanted};
pub use fault::{Fault, Faults, Origins};
pub use fields::{FlagGroup, RunFlag};
pub use file::{Container, Dataset, Limits, Listen, Mount, Other, Pod, Probe, Ready, RunFile, run_flags};
pub use node::{MOST_BYTES, Place};
pub use overlay::GivenFlag;
pub use source::{is_run_file, load, parse, read_text};
pub use words::words;
