//! Single-board computers: formats in which they report their state.
//!
//! A [`Snapshot`] is a board at one moment. It comes from a `tegrastats` line ([`tegrastats`],
//! [`log`] for recorded files) or from the kernel's files on the board itself
//! ([`crate::local_board`]). [`power`] selects the rails that make up the whole board. [`energy`]
//! integrates power and reports its own error. [`exporter`] renders a snapshot under the metric
//! names of jetson-exporter.
//!
//! A missing value is `None`, never 0: a load that was not printed is unknown, and a switched-off
//! core or engine is off.

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
