//! Power of machines, containers and processes, with or without a meter: the functions of Kepler's
//! exporter, estimator, model server and trainers, and the predictors behind them.
//!
//! ```text
//! Prometheus response ──► frame of features and watts ──► isolated frame ──► trainers
//! ──► pipeline of predictors ──► watts
//! ```
//!
//! * Terms: [`kepler_terms`] has Kepler's vocabularies (sources, components, feature groups,
//!   trainers), [`third_party`] the feature group that users define.
//! * Data: [`query`] fetches from Prometheus; [`response`], [`extract`], [`isolate`] and
//!   [`subtract_profile`] make the training tables ([`frame`]).
//! * Training: [`trainers`] fit predictors, [`training`] runs all steps and writes the pipeline,
//!   [`online`] trains in the background, [`assess`] evaluates predictors on tables.
//! * Serving: [`pipeline`] reads pipelines, [`selection`] selects a predictor, [`catalog`] reloads
//!   pipelines, [`defaults`] are the shipped predictors, [`estimate_node`] matches similar
//!   machines, [`formula`] maps features to watts, [`estimate`] answers the exporter.
//! * Accounting: [`share`] keeps the sum of parts equal to the whole, [`ledger`] does so for a node
//!   over time. [`kepler_settings`] reads Kepler's settings.
//!
//! Field names and formulas are those of the Kepler Model Server 0.7, so that its clients work
//! unchanged. Its errors are corrected; `docs/how-to/migrate-from-kepler.md` lists each deviation.
//!
//! No pickle is ever loaded: a predictor is JSON, or opaque bytes that are only passed on. No input
//! causes a panic.

pub mod assess;
pub mod catalog;
pub mod defaults;
pub mod error;
pub mod estimate;
pub mod extract;
pub mod formula;
pub mod frame;
pub mod isolate;
pub mod kepler_settings;
pub mod kepler_terms;
pub mod ledger;
pub mod node;
pub mod nonnegative;
pub mod online;
mod packages;
pub mod pipeline;
pub mod profile;
pub mod query;
mod raw_json;
pub mod response;
pub mod response_counts;
pub mod selection;
pub mod share;
pub mod stored_pipelines;
pub mod trainers;
pub mod training;
pub mod weights;

pub use error::Error;
pub use kepler_terms::third_party;
