//! The gate: the first program of a measured container.
//!
//! An engine's runtime works in the container's control group before the workload's first
//! instruction. The gate separates the two. The engine starts it; it reports to the measuring
//! program and waits until the counters have been read. Then it reports the start time and executes
//! the workload in the same process. The workload thus keeps the user, folder, environment and
//! streams that the engine set.
//!
//! Started as `gate SOCKET PROGRAM ARGUMENTS…`. On the packet socket it sends `R`, waits for `G`,
//! and sends `S` with the monotonic clock in eight bytes. Then it executes the program; on failure
//! it sends `F` with errno in four bytes. It has no dependencies and no Rust runtime, and is linked
//! statically, so that it runs in any image of this architecture.
#![cfg_attr(not(test), no_main)]

use std::ffi::{CStr, c_char, c_int, c_long, c_void};

const AF_UNIX: c_int = 1;
const SOCK_SEQPACKET: c_int = 5;
const SOCK_CLOEXEC: c_int = 0o2000000;
const MSG_NOSIGNAL: c_int = 0x4000;
const CLOCK_MONOTONIC: c_int = 1;
const ENOENT: c_int = 2;
const EINTR: c_int = 4;
/// Size of the path in the kernel's `sockaddr_un`, with its NUL.
const MAX_PATH_BYTES: usize = 108;

#[repr(C)]
struct GateAddress {
    family: u16,
    path: [u8; MAX_PATH_BYTES],
}

#[repr(C)]
struct GateTimespec {
    sec: c_long,
    nsec: c_long,
}

unsafe extern "C" {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn connect(fd: c_int, address: *const GateAddress, length: u32) -> c_int;
    fn send(fd: c_int, buffer: *const c_void, length: usize, flags: c_int) -> isize;
    fn recv(fd: c_int, buffer: *mut c_void, length: usize, flags: c_int) -> isize;
    fn clock_gettime(clock: c_int, time: *mut GateTimespec) -> c_int;
    fn execvp(file: *const c_char, argv: *const *const c_char) -> c_int;
}

/// Program entry; see the module header for the arguments.
#[cfg(not(test))]
#[unsafe(no_mangle)]
extern "C" fn main(argc: c_int, argv: *const *const c_char) -> c_int {
    if argc < 3 {
        return 125;
    }
    // SAFETY: the C runtime passes argc valid strings followed by a null pointer.
    unsafe { wait_and_become(CStr::from_ptr(*argv.add(1)), argv.add(2)) }
}

/// Waits at the gate and executes the program; returns an exit code on failure.
///
/// # Safety
/// `command` is a null-terminated list of at least one string.
#[cfg_attr(test, allow(dead_code))]
unsafe fn wait_and_become(at: &CStr, command: *const *const c_char) -> c_int {
    let Some(fd) = connect_to_measurer(at) else { return 125 };
    if !send_packet(fd, b"R") || receive_order(fd) != Some(b'G') {
        return 125;
    }
    let mut started = [b'S', 0, 0, 0, 0, 0, 0, 0, 0];
    started[1..].copy_from_slice(&now_ns().to_ne_bytes());
    send_packet(fd, &started);
    // SAFETY: guaranteed by the caller.
    unsafe { execvp(*command, command) };
    let errno = errno();
    let mut failed = [b'F', 0, 0, 0, 0];
    failed[1..].copy_from_slice(&errno.to_ne_bytes());
    send_packet(fd, &failed);
    if errno == ENOENT { 127 } else { 126 }
}

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Connects to the socket.
fn connect_to_measurer(at: &CStr) -> Option<c_int> {
    let bytes = at.to_bytes_with_nul();
    let mut address = GateAddress { family: AF_UNIX as u16, path: [0; MAX_PATH_BYTES] };
    address.path.get_mut(..bytes.len())?.copy_from_slice(bytes);
    // SAFETY: the address is valid and its size is passed.
    unsafe {
        let fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        (fd >= 0 && connect(fd, &address, size_of::<GateAddress>() as u32) == 0).then_some(fd)
    }
}

fn send_packet(fd: c_int, packet: &[u8]) -> bool {
    // SAFETY: the packet is valid for its length.
    unsafe { send(fd, packet.as_ptr().cast(), packet.len(), MSG_NOSIGNAL) == packet.len() as isize }
}

/// First byte of the next packet, or `None` after a disconnect.
fn receive_order(fd: c_int) -> Option<u8> {
    let mut packet = [0u8; 8];
    loop {
        // SAFETY: the buffer is valid for the passed length.
        let got = unsafe { recv(fd, packet.as_mut_ptr().cast(), packet.len(), 0) };
        match got {
            n if n > 0 => return Some(packet[0]),
            n if n < 0 && errno() == EINTR => {}
            _ => return None,
        }
    }
}

fn now_ns() -> u64 {
    let mut time = GateTimespec { sec: 0, nsec: 0 };
    // SAFETY: `time` is a valid timespec for the call to fill.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &mut time) };
    time.sec as u64 * 1_000_000_000 + time.nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_too_long_or_leads_nowhere_is_not_reached() {
        let long = std::ffi::CString::new(vec![b'x'; 200]).unwrap_or_default();
        assert!(connect_to_measurer(&long).is_none());
        assert!(connect_to_measurer(c"/no/such/socket").is_none());
        assert!(now_ns() > 0 && !send_packet(-1, b"R") && receive_order(-1).is_none());
    }
}
