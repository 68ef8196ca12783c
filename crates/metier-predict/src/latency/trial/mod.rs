//! Trials: graphs that are timed in order to learn. [`network`] makes up networks, [`measure`] times them while the host is [`noise_probe`], [`record`] is how they are kept,
//! [`stress`] is what runs beside them, and [`collect`] decides what is tried next.

pub mod collect;
pub mod measure;
pub mod network;
pub mod noise_probe;
pub mod record;
pub mod stress;

pub use metier_infer::InferenceEngine;

pub use collect::{
    StressCoverage, TrialCampaign, TrialPoint, TrialProgress, UserGraph, collect, measure_point,
};

#[cfg(test)]
mod tests;
