//! System calls that the standard library lacks. All `unsafe` code of this program is here.

use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use crate::arguments::Problem;

fn cpu_clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec for the kernel to fill; both CPU clocks exist on Linux.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPU time of this process, all threads.
pub fn process_cpu_nanoseconds() -> u64 {
    cpu_clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of the calling thread.
pub fn thread_cpu_nanoseconds() -> u64 {
    cpu_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn usage(who: libc::c_int) -> libc::rusage {
    // SAFETY: rusage is plain numbers, for which all zeroes is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid rusage for the kernel to fill.
    unsafe { libc::getrusage(who, &mut usage) };
    usage
}

/// CPU time of reaped children, in steps of a microsecond.
pub fn children_cpu_nanoseconds() -> u64 {
    let usage = usage(libc::RUSAGE_CHILDREN);
    let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    (micros(usage.ru_utime) + micros(usage.ru_stime)) * 1000
}

/// Resident high-water mark of this process.
pub fn peak_resident_bytes() -> u64 {
    usage(libc::RUSAGE_SELF).ru_maxrss as u64 * 1024
}

/// The side of a fork.
pub enum Side {
    /// The new process.
    Child,
    /// The old process, with the child's pid.
    Parent(libc::pid_t),
}

/// Forks. The process is single-threaded then: this program starts no thread before a fork.
pub fn fork() -> Result<Side, Problem> {
    // SAFETY: this process has one thread, so no lock in the child is held by a missing thread.
    match unsafe { libc::fork() } {
        -1 => Err(Problem::failed(format!("fork: {}", std::io::Error::last_os_error()))),
        0 => Ok(Side::Child),
        pid => Ok(Side::Parent(pid)),
    }
}

/// Exits a forked child without running the parent's exit handlers.
pub fn leave(code: i32) -> ! {
    // SAFETY: _exit takes any code and does not return.
    unsafe { libc::_exit(code) }
}

/// Waits for a child; `Ok` only if it exited with code 0.
pub fn wait(pid: libc::pid_t) -> Result<(), Problem> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is a valid place for the result; a foreign pid only gives an error.
        let got = unsafe { libc::waitpid(pid, &mut status, 0) };
        if got == pid {
            break;
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(Problem::failed(format!("wait for child {pid}: {error}")));
        }
    }
    if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 {
        Ok(())
    } else {
        Err(Problem::failed(format!("child {pid} ended with wait status {status:#x}, want exit code 0")))
    }
}

/// Starts a new session, detached from the terminal and the parent's process group.
pub fn new_session() -> Result<(), Problem> {
    // SAFETY: no memory is involved.
    if unsafe { libc::setsid() } == -1 {
        return Err(Problem::failed(format!("setsid: {}", std::io::Error::last_os_error())));
    }
    Ok(())
}

/// Ignores INT and TERM from here on; children inherit this.
pub fn ignore_polite_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: SIG_IGN installs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// A pipe as (read end, write end), both closed on exec.
pub fn pipe() -> Result<(RawFd, RawFd), Problem> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for the two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } == -1 {
        return Err(Problem::failed(format!("pipe: {}", std::io::Error::last_os_error())));
    }
    Ok((ends[0], ends[1]))
}

/// Writes bytes to a descriptor, also between fork and exec. True if all were written.
pub fn write_bytes(descriptor: RawFd, bytes: &[u8]) -> bool {
    // SAFETY: pointer and length are of one slice; a bad descriptor gives an error only.
    let wrote = unsafe { libc::write(descriptor, bytes.as_ptr().cast(), bytes.len()) };
    wrote == bytes.len() as isize
}

/// Makes the command's process write `0` to each file (a cgroup's `cgroup.procs`) before exec.
pub fn enter_first(command: &mut Command, doors: &[File]) {
    let descriptors: Vec<_> = doors.iter().map(AsRawFd::as_raw_fd).collect();
    let enter = move || match descriptors.iter().all(|door| write_bytes(*door, b"0")) {
        true => Ok(()),
        false => Err(std::io::Error::last_os_error()),
    };
    // SAFETY: between fork and exec, `enter` only calls write(2) on open descriptors and reads
    // errno.
    unsafe { command.pre_exec(enter) };
}

/// Reads one byte; false at the end of the stream or on an error.
pub fn read_byte(descriptor: RawFd) -> bool {
    let mut byte = 0u8;
    loop {
        // SAFETY: one byte fits into `byte`.
        match unsafe { libc::read(descriptor, (&raw mut byte).cast(), 1) } {
            1 => return true,
            -1 if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
            _ => return false,
        }
    }
}

/// Closes a descriptor from `pipe`.
pub fn close(descriptor: RawFd) {
    // SAFETY: the descriptor is owned and not used afterwards; a bad one gives an error only.
    unsafe { libc::close(descriptor) };
}

/// Memory from mmap, returned whole on drop; an allocator would keep some of it.
pub struct Mapping {
    start: *mut u8,
    bytes: usize,
}

impl Mapping {
    /// Reserves address space; nothing is resident before `touch`.
    pub fn reserve(bytes: usize) -> Result<Self, Problem> {
        let bytes = bytes.max(4096);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh private mapping at an address that the kernel chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            let error = std::io::Error::last_os_error();
            return Err(Problem::failed(format!("map {} MiB: {error}", bytes >> 20)));
        }
        Ok(Self { start: start.cast(), bytes })
    }

    /// Writes to each page in a range of MiB to make it resident.
    pub fn touch(&mut self, from_mib: usize, to_mib: usize) {
        let end = (to_mib << 20).min(self.bytes);
        let mut at = from_mib << 20;
        while at < end {
            // SAFETY: `at` is inside the mapping, which is writable and not shared.
            unsafe { self.start.add(at).write_volatile(at as u8 | 1) };
            at += 4096;
        }
    }

    /// Returns the pages from a MiB to the end to the kernel; the addresses stay reserved.
    pub fn give_back(&mut self, from_mib: usize) {
        let from = (from_mib << 20).min(self.bytes);
        // SAFETY: the range is inside the mapping, and no reference into it exists.
        unsafe { libc::madvise(self.start.add(from).cast(), self.bytes - from, libc::MADV_DONTNEED) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: start and length are those of the mapping in `reserve`.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

/// Sleeps without using CPU time.
pub fn pause(milliseconds: f64) {
    std::thread::sleep(Duration::from_secs_f64(milliseconds / 1e3));
}

static PASS_TO: std::sync::atomic::AtomicI32 = std::sync::atomic::AtomicI32::new(0);

extern "C" fn pass_on(signal: libc::c_int) {
    let child = PASS_TO.load(std::sync::atomic::Ordering::Relaxed);
    if child > 0 {
        // SAFETY: kill(2) may be called from a handler; a pid that is gone gives an error only.
        unsafe { libc::kill(child, signal) };
    }
}

/// Forwards INT and TERM to the child from here on, because this process must still report.
pub fn pass_signals_on(child: u32) {
    PASS_TO.store(child as i32, std::sync::atomic::Ordering::Relaxed);
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let handler: extern "C" fn(libc::c_int) = pass_on;
        // SAFETY: the handler only loads an atomic and calls kill(2).
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}
