//! Single-board computers: what they show of themselves, whatever the way it is asked.
//!
//! A [`Snapshot`] is a board at one moment. It comes from a line that the vendor's `tegrastats` printed
//! ([`tegrastats`], [`log`] for recorded files), or from the kernel's files on the board itself
//! ([`crate::local_board`]). [`power`] says which rails make up the whole board, [`energy`]
//! integrates power and states its own error, [`exporter`] gives a snapshot the names of jetson-exporter.
//!
//! Absent is `None`: a load that was not printed is unknown, a core or an engine that is off is off, and neither
//! is 0.

pub mod energy;
pub mod exporter;
mod kind;
pub mod log;
mod mode;
pub mod power;
#[cfg(test)]
mod recorded;
pub mod snapshot;
pub mod tegrastats;

pub use energy::{Energy, Integrator};
pub(crate) use kind::of_tree;
pub use kind::{Kind, kind};
pub use mode::power_mode;
pub use snapshot::{Blocks, Core, Engine, Memory, Morphing, Rail, Snapshot, Temperature};
pub use tegrastats::Line;
