//! Flame graphs from collapsed stacks: time by function, and the differences between two runs.
//!
//! - [`collapsed_stacks`]: the text form `frame;frame;frame count`, one stack per line, which most
//!   profiling tools read and write.
//! - [`lay_out_frames`]: selects the frames that are wide enough, and places them.
//! - [`draw`]: the picture as SVG. It is readable without scripts (tooltips); a small script adds
//!   zoom and search.
//!
//! Invariants: the same stacks give the same bytes, in any order of their lines. Frame names are
//! untrusted and always escaped. Depth, number of frames and picture size are bounded; omissions
//! are reported.

pub mod collapsed_stacks;
pub mod draw;
pub mod layout;

pub use collapsed_stacks::{CollapsedStacks, StackError};
pub use draw::{FlameBaseline, embedded_svg, standalone_svg};

/// The script for all flame graphs of a page.
pub const SCRIPT: &str = include_str!("../templates/flame.js");
/// Digest of the script for the content security policy; a test compares them.
pub const SCRIPT_DIGEST: &str = "sha256-K7GtF2ubBocKStCd0A6oic1W+9QTI2ynEEsh26jugqw=";
