//! Single-board computers: formats in which they report their state.
//!
//! A [`BoardSnapshot`] is a board at one moment. It comes from a `tegrastats` line ([`tegrastats`],
//! [`tegrastats_log`] for recorded files) or from the kernel's files on the board itself
//! ([`crate::local_board`]). [`board_power`] selects the rails that make up the whole board.
//! [`energy_integral`] integrates power and reports its own error. [`jetson_exporter`] renders a
//! snapshot under the metric names of jetson-exporter.
//!
//! A missing value is `None`, never 0: a load that was not printed is unknown, and a switched-off
//! core or engine is off.

mod board_kind;
pub mod board_power;
pub mod energy_integral;
pub mod jetson_exporter;
mod nvpmodel;
#[cfg(test)]
mod recorded;
pub mod snapshot;
pub mod tegrastats;
pub mod tegrastats_log;

pub(crate) use board_kind::device_tree_property;
pub use board_kind::{BoardKind, detect_board_kind};
pub use energy_integral::{EnergyIntegrator, IntegratedEnergy};
pub use nvpmodel::power_mode;
pub use snapshot::{
    BoardCore, BoardEngine, BoardMemory, BoardSnapshot, BoardTemperature, CodeMorphing, FreeBlocks, PowerRail,
};
pub use tegrastats::TegrastatsLine;
