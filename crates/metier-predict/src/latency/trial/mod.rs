//! Trials: graphs timed for training. [`network`] generates networks, [`measure`] times them while
//! [`noise_probe`] monitors the host, [`stress`] generates load, [`record`] is the stored form, and
//! [`collect`] selects the next trial.

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
