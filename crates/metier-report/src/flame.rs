//! Flame graphs from collapsed stacks: where a run spends its time, function by function, and where two runs differ.
//!
//! - [`stacks`]: the text form `frame;frame;frame count`, one stack a line, as most profilers' tools write and read it.
//! - [`layout`]: which frames are wide enough to be drawn, and where.
//! - [`draw`]: the picture as SVG. It can be read without scripts (tooltips); a small one adds zoom and search.
//!
//! Invariants: the same stacks give the same bytes, in whatever order their lines come; frames are hostile text until
//! escaped; depth, number of frames and size of a picture are bounded, and what is left out is told.

pub mod draw;
pub mod layout;
pub mod stacks;

pub use draw::{Against, embedded, standalone};
pub use stacks::{StackError, Stacks};

/// The script of all flame graphs of a page.
pub const SCRIPT: &str = include_str!("../templates/flame.js");
/// Its digest, for the page's policy; a test holds the two together.
pub const SCRIPT_DIGEST: &str = "sha256-K7GtF2ubBocKStCd0A6oic1W+9QTI2ynEEsh26jugqw=";
