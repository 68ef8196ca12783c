//! Clocks, and descriptors that wake the loop of a run: a counting event, and waiting for several
//! descriptors at once.
//!
//! The event is an eventfd in semaphore mode: it is readable while it was signalled more often than
//! consumed. A message sent before each signal is therefore never missed.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Creates an event that is not signalled.
pub fn create_event() -> io::Result<OwnedFd> {
    // SAFETY: flags are plain numbers; the descriptor is checked before it is owned.
    unsafe {
        let fd = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK | libc::EFD_SEMAPHORE);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

pub fn signal_event(bell: &OwnedFd) {
    let bytes = 1u64.to_ne_bytes();
    // SAFETY: writes eight bytes, as an eventfd requires; it overflows only after 2^64 signals.
    unsafe { libc::write(bell.as_raw_fd(), bytes.as_ptr().cast(), 8) };
}

/// Consumes one signal of the event.
pub fn consume_event(bell: &OwnedFd) {
    let mut count = [0u8; 8];
    // SAFETY: the buffer has the eight bytes that an eventfd returns.
    unsafe { libc::read(bell.as_raw_fd(), count.as_mut_ptr().cast(), 8) };
}

/// Waits up to `longest` until a descriptor is readable; returns which ones are.
pub fn wait_readable<const N: usize>(descriptors: [RawFd; N], longest: Duration) -> [bool; N] {
    let mut fds = descriptors.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    let time =
        libc::timespec { tv_sec: longest.as_secs() as libc::time_t, tv_nsec: longest.subsec_nanos().into() };
    // SAFETY: valid entries and their number, and a valid time; the signal mask is unchanged.
    unsafe { libc::ppoll(fds.as_mut_ptr(), N as libc::nfds_t, &time, std::ptr::null()) };
    fds.map(|fd| fd.revents != 0)
}

/// The monotonic clock, used for all times of a run.
pub fn monotonic_ns() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC).as_nanos() as u64
}

/// The clock that includes suspend; the kernel dates processes by it.
pub fn boottime_ns() -> u64 {
    read_clock(libc::CLOCK_BOOTTIME).as_nanos() as u64
}

/// CPU time of this process so far, all threads.
pub fn own_cpu_time() -> Duration {
    read_clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn read_clock(which: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec for the call to fill.
    unsafe { libc::clock_gettime(which, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_is_heard_as_often_as_it_was_rung() {
        let bell = create_event().unwrap();
        let heard = || wait_readable([bell.as_raw_fd()], Duration::ZERO)[0];
        assert!(!heard());
        signal_event(&bell);
        signal_event(&bell);
        consume_event(&bell);
        assert!(heard());
        consume_event(&bell);
        assert!(!heard());
    }
}
