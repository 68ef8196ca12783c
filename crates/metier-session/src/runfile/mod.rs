//! Run files: what is to run and how, in YAML or JSON.
//!
//! Three steps, three types. A document becomes a tree in which each value knows its place (`node`); the tree becomes a
//! [`RunFile`], where every field is the text that was written (`file`, `read`); and that, with flags laid over it, becomes
//! a [`Checked`] run (`check`, `checked`). Each step finds all faults at once, and each [`Fault`] names its line, its field, what
//! was given and what would be right. Only a `Checked` can be run.

mod address;
mod check;
mod checked;
mod fault;
mod file;
mod form;
mod nearest;
mod node;
pub mod quantity;
mod read;
mod words;

pub use address::without_secrets;
pub use checked::{Checked, DATASET_TARGET, Readiness, Sign, Source, WITHIN, Wanted};
pub use fault::{Fault, Faults, Origins};
pub use file::{
    Container, Dataset, Limits, Listen, MOUNT, Mount, Other, Pod, Probe, Ready, RunFile, STACKS, mount,
};
pub use node::{MOST_BYTES, Place};
pub use words::words;

/// Reads a document. Fields of the wrong shape are told by [`RunFile::check`], with everything else that is wrong: it takes
/// what is given here beside the file, which also says where each field is written.
pub fn parse(text: &str) -> Result<(RunFile, Origins), Faults> {
    RunFile::from_node(node::Node::parse(text)?)
}

/// Reads a probe alone.
pub fn parse_probe(text: &str) -> Result<Probe, Faults> {
    Probe::from_node(node::Node::parse(text)?)
}

/// Reads the text of a run file, which is never large.
pub fn read_text(path: &std::path::Path) -> std::io::Result<String> {
    read_text_of(std::fs::File::open(path)?)
}

/// The same, from anything.
pub fn read_text_of(source: impl std::io::Read) -> std::io::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    let length = source.take(MOST_BYTES as u64 + 1).read_to_string(&mut text)?;
    if length > MOST_BYTES {
        return Err(std::io::Error::other("it is larger than 1 MiB"));
    }
    Ok(text)
}
