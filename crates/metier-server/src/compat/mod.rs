//! Doors for the clients of other systems: what they send and expect, over the same queue, store and predictors.

mod docker_flags;
pub mod jenkins;
pub mod kepler;
pub mod soprano;
