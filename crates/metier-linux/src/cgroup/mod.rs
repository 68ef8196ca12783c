//! A control group of the run's own: the source of truth for what it used.
//!
//! [`mounts`] finds where groups live on this host, [`group`] makes one and takes it away again, [`counters`]
//! reads it, [`scope`] asks systemd for one where an ordinary user may not make any, [`slice`] for one around a container whose
//! engine leaves groups to systemd. [`naming`] tells whose any group is.

pub mod baseline;
pub mod counters;
pub mod group;
pub mod limit;
pub mod mounts;
pub mod naming;
pub mod scope;
pub mod slice;

pub use counters::{Meter, Sample, Totals};
pub use group::{Group, GroupFolders};
pub use mounts::Place;
