//! Trials: graphs that are timed in order to learn. [`network`] makes up networks, [`measure`] times them while the host is [`calm`], [`record`] is how they are kept,
//! [`stress`] is what runs beside them, and [`collect`] decides what is tried next.

pub mod calm;
pub mod collect;
pub mod measure;
pub mod network;
pub mod record;
pub mod stress;

pub use metier_infer::Engine;

pub use collect::{Given, Load, Probe, Progress, Wanted, collect, point};

#[cfg(test)]
mod tests;
