//! Interfaces of the Linux kernel, one module each.
//!
//! Readers take the folders of `/proc`, `/sys` and `/etc` as a parameter ([`KernelRoots`]). An
//! absent value is `None`, never 0. This crate is independent of runs and stores.
//!
//! - [`allocator`] tunes the C library's allocator.
//! - [`cgroup`] creates and reads control groups; [`group_owner`] names them after the creating
//!   process.
//! - [`process_events`] observes process events; [`read_counters`] counts processor events.
//! - [`host`] reads load, pressure, clocks and temperatures.
//! - [`cpu_consumers`] attributes CPU time to processes.
//! - [`open_files`] raises the limit of open files, and restores it for started programs.
//! - [`packet_socket`] opens unix packet sockets.
//! - [`proc_stat`] parses the CPU times of processes and processors.
//! - [`scratch_folder`] makes temporary folders that outlive no killed owner for long.
//! - [`socket_file`] removes the file of a bound socket, and no other.
//! - [`socket_owner`] finds the user of a TCP socket.
//! - [`signals`] blocks stop signals and reads them from a descriptor.
//! - [`stop_request`] handles the signals that stop a long-running process.

pub mod allocator;
pub mod cgroup;
pub mod cpu_consumers;
pub mod dbus;
pub mod firmware_throttling;
pub mod group_owner;
pub mod host;
pub mod kernel_file;
mod kernel_roots;
pub mod netlink;
pub mod open_files;
pub mod packet_socket;
pub mod perf_counters;
pub mod proc_stat;
pub mod process_events;
pub mod scratch_folder;
pub mod signals;
pub mod socket_file;
pub mod socket_owner;
pub mod stop_request;
pub mod wakeup;

pub use kernel_roots::KernelRoots;
