//! The run's own control group, the reference for its resource use.
//!
//! [`mounts`] locates the control groups of this host. [`group`] creates and removes a group, and
//! [`counters`] reads it. [`scope`] requests one from systemd for an ordinary user, and [`slice`]
//! requests one around a container whose engine uses the systemd cgroup driver. [`naming`]
//! identifies the container, pod, run or unit of any group.

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
