//! The run's own control group, the reference for its resource use.
//!
//! [`mounts`] locates the control groups of this host. [`group`] creates and removes a group, and
//! [`read_counters`] reads it. [`systemd_scope`] requests one from systemd for an ordinary user,
//! and [`systemd_slice`] requests one around a container whose engine uses the systemd cgroup
//! driver. [`group_identity`] identifies the container, pod, run or unit of any group.

pub mod baseline;
pub mod group;
pub mod group_identity;
pub mod limit;
pub mod mounts;
pub mod systemd_scope;
pub mod systemd_slice;
pub mod usage;

pub use group::{GroupFolders, RunCgroup};
pub use mounts::CgroupMembership;
pub use usage::{CgroupMeter, CgroupSample, CgroupTotals};
