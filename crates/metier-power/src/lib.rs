//! Power of machines, containers and processes, with a meter or without: everything that Kepler's
//! exporter, estimator, model server and trainers speak of, and the predictors behind it.
//!
//! ```text
//! Prometheus' answer ──► frame of features and watts ──► isolated frame ──► trainers ──► pipeline of predictors ──► watts
//! ```
//!
//! [`kepler_terms`] holds the closed lists of words (sources, components, groups of features,
//! trainers), [`third_party`] the one group that users fill; [`formula`] says how weights become
//! watts; [`estimate_node`] says which machine is like which; [`query`] asks Prometheus; [`response`],
//! [`extract`], [`isolate`] and [`subtract_profile`] make the tables ([`frame`]) that [`trainers`] learn
//! from; [`training`] does all that in order, and writes the pipeline; [`pipeline`] is what was
//! learned, [`selection`] which of it answers, [`catalog`] what keeps it up to date; [`assess`]
//! tries them on tables; [`online`] learns while others work; [`defaults`] is what is shipped;
//! [`kepler_settings`] are Kepler's own; [`estimate`] answers the exporter; [`share`] keeps the sum of
//! parts equal to the whole; [`ledger`] does that for a node over time. The field names and
//! formulas are those of the Kepler Model Server 0.7, so that its clients need no change; where it
//! is wrong we are right, and `docs/how-to/migrate-from-kepler.md` lists each such place.
//!
//! No pickle is ever loaded: a predictor is JSON, or it is opaque bytes that we only pass on.
//! Nothing here panics on input.

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
