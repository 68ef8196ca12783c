//! Interfaces of the Linux kernel, one module each.
//!
//! Readers take the folders where `/proc`, `/sys` and `/etc` are as a parameter ([`Roots`]). Absent is `None`, never 0.
//! Nothing here knows runs or stores: [`cgroup`] makes and reads control groups, [`group_owner`] names them after the
//! process that made them, [`events`] listens to process events, [`host`] reads load, pressure, clocks and
//! temperatures, [`counters`] counts processor events, [`consumers`] says which processes use the processors now,
//! [`packet_socket`] opens unix sockets of packets, [`proc_stat`] parses what processes and processors did so far, [`signals`] blocks
//! the signals that ask to stop and reads them from a descriptor, [`stop_request`] handles them in a long-running process.

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
