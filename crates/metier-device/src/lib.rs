//! Identity and capabilities of a device.
//!
//! [`device_id`] assigns a device its id and describes its hardware. [`passport`] holds the results
//! of micro-benchmarks. [`sensors`] are energy meters and [`gpu`] GPU meters. [`boards`] parses the
//! formats of single-board computers, and [`local_board`] reads the local board. A missing part is
//! reported with its reason.

pub mod boards;
mod error;
pub mod gpu_meters;
pub mod identity;
pub mod local_board;
pub mod passport;
pub mod process_owner;
pub mod sensors;

pub use error::Error;
