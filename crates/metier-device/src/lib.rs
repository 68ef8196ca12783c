//! Who a device is and what it can do.
//!
//! [`identity`] gives a device its id and describes its hardware, [`passport`] holds what micro-benchmarks measured
//! on it. [`sensors`] are its energy meters, [`gpu`] its GPUs, [`boards`] the formats of single-board computers, and
//! [`local_board`] the board this program runs on. A part that is not there is left out with the reason.

pub mod boards;
mod error;
pub mod gpu;
pub mod identity;
pub mod local_board;
pub mod passport;
pub mod process_owner;
pub mod sensors;

pub use error::Error;
