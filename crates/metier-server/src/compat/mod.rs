//! Interfaces for the clients of other systems: their requests and responses, over metier's queue,
//! store and predictors.

pub mod jenkins;
pub mod kepler;
pub mod soprano;
