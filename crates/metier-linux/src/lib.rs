//! Interfaces of the Linux kernel, one module each.
//!
//! Readers take the folders of `/proc`, `/sys` and `/etc` as a parameter ([`Roots`]). An absent
//! value is `None`, never 0. This crate is independent of runs and stores.
//!
//! - [`cgroup`] creates and reads control groups; [`group_owner`] names them after the creating
//!   process.
//! - [`events`] observes process events; [`counters`] counts processor events.
//! - [`host`] reads load, pressure, clocks and temperatures.
//! - [`consumers`] attributes CPU time to processes.
//! - [`packet_socket`] opens unix packet sockets.
//! - [`proc_stat`] parses the CPU times of processes and processors.
//! - [`signals`] blocks stop signals and reads them from a descriptor.
//! - [`stop_request`] handles the signals that stop a long-running process.

pub mod cgroup;
pub mod consumers;
pub mod counters;
pub mod dbus;
pub mod events;
pub mod file;
pub mod group_owner;
pub mod host;
pub mod netlink;
pub mod packet_socket;
pub mod proc_stat;
mod roots;
pub mod signals;
pub mod stop_request;
pub mod throttling;
pub mod wake;

pub use roots::Roots;
