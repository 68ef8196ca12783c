//! System calls of the launcher, declared by hand because it has no dependencies. Linux with glibc
//! or musl, 64-bit and 32-bit: every structure passed is either all C `long`s or larger than in any
//! libc.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_ulong, c_void};

pub const SIGINT: c_int = 2;
pub const SIGKILL: c_int = 9;
pub const SIGTERM: c_int = 15;
pub const SIGCONT: c_int = 18;
pub const SIGHUP: c_int = 1;
const SIGQUIT: c_int = 3;
const SIGPIPE: c_int = 13;
const SIGCHLD: c_int = 17;
const SIG_DFL: usize = 0;
const SIG_IGN: usize = 1;
const SIG_BLOCK: c_int = 0;
const SIG_SETMASK: c_int = 2;
const F_SETFD: c_int = 2;
const FD_CLOEXEC: c_int = 1;
const O_WRONLY: c_int = 1;
const O_CLOEXEC: c_int = 0o2000000;
const PR_SET_NAME: c_int = 15;
const PR_SET_CHILD_SUBREAPER: c_int = 36;
const WNOHANG: c_int = 1;
const ECHILD: c_int = 10;
const EINTR: c_int = 4;
const POLLIN: i16 = 1;
const POLLHUP: i16 = 16;
const AF_UNIX: u16 = 1;
const SOCK_SEQPACKET: c_int = 5;
const MSG_NOSIGNAL: c_int = 0x4000;
#[cfg(target_pointer_width = "64")]
const POSIX_FADV_DONTNEED: c_int = 4;
const CLOCK_MONOTONIC: c_int = 1;
const CLOCK_PROCESS_CPUTIME_ID: c_int = 2;

/// Signals that the C library reserves. Its `posix_spawn` leaves them ignored and its `signal`
/// rejects them, so they are reset by a direct system call.
const LIBC_SIGNALS: [c_int; 2] = [32, 33];
#[cfg(target_arch = "x86_64")]
const RT_SIGACTION: c_long = 13;
#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
const RT_SIGACTION: c_long = 134;
#[cfg(any(target_arch = "arm", target_arch = "x86"))]
const RT_SIGACTION: c_long = 174;

/// Kinds of [`LaunchReport`].
pub const STARTED: u64 = 1;
pub const MAIN_ENDED: u64 = 2;
pub const ESCALATED: u64 = 3;
pub const ALL_ENDED: u64 = 4;
/// Stages at which a start can fail; `status` of the report is the errno.
pub const FAILED_FORK: u64 = 16;
pub const FAILED_JOIN: u64 = 17;
pub const FAILED_EXEC: u64 = 18;

/// Resource use reported by `wait4`, in integer units.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct ResourceUsage {
    pub user_us: u64,
    pub system_us: u64,
    pub max_rss_kib: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub blocks_in: u64,
    pub blocks_out: u64,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
}

impl ResourceUsage {
    pub fn add(&mut self, other: &ResourceUsage) {
        self.user_us += other.user_us;
        self.system_us += other.system_us;
        self.max_rss_kib = self.max_rss_kib.max(other.max_rss_kib);
        self.minor_faults += other.minor_faults;
        self.major_faults += other.major_faults;
        self.blocks_in += other.blocks_in;
        self.blocks_out += other.blocks_out;
        self.voluntary_switches += other.voluntary_switches;
        self.involuntary_switches += other.involuntary_switches;
    }
}

/// One packet to the measuring program: 14 words of 64 bits in native byte order.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct LaunchReport {
    pub kind: u64,
    pub pid: u64,
    pub status: i64,
    pub time_ns: u64,
    pub own_cpu_ns: u64,
    pub usage: ResourceUsage,
}

#[repr(C)]
struct LauncherTimespec {
    sec: c_long,
    nsec: c_long,
}

#[repr(C)]
struct RawRusage {
    utime: [c_long; 2],
    stime: [c_long; 2],
    rest: [c_long; 14],
    /// Reserve for libcs with more fields.
    reserve: [c_long; 16],
}

#[repr(C)]
struct PollFd {
    fd: c_int,
    events: i16,
    revents: i16,
}

#[repr(C)]
struct UnixAddress {
    family: u16,
    path: [u8; 108],
}

/// As large as the largest `sigset_t` (1024 bits).
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct SignalSet([u64; 16]);

unsafe extern "C" {
    fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int;
    fn fcntl(fd: c_int, command: c_int, argument: c_int) -> c_int;
    fn fork() -> c_int;
    fn execvp(file: *const c_char, argv: *const *const c_char) -> c_int;
    fn _exit(code: c_int) -> !;
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn read(fd: c_int, buffer: *mut c_void, length: usize) -> isize;
    fn write(fd: c_int, buffer: *const c_void, length: usize) -> isize;
    #[link_name = "send"]
    fn c_send(fd: c_int, buffer: *const c_void, length: usize, flags: c_int) -> isize;
    fn recv(fd: c_int, buffer: *mut c_void, length: usize, flags: c_int) -> isize;
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    #[link_name = "connect"]
    fn c_connect(fd: c_int, address: *const UnixAddress, length: u32) -> c_int;
    fn pipe2(fds: *mut c_int, flags: c_int) -> c_int;
    fn poll(fds: *mut PollFd, count: c_ulong, timeout: c_int) -> c_int;
    fn signal(signal: c_int, handler: usize) -> usize;
    fn sigemptyset(set: *mut SignalSet) -> c_int;
    fn sigaddset(set: *mut SignalSet, signal: c_int) -> c_int;
    fn sigprocmask(how: c_int, set: *const SignalSet, old: *mut SignalSet) -> c_int;
    fn signalfd(fd: c_int, set: *const SignalSet, flags: c_int) -> c_int;
    fn wait4(pid: c_int, status: *mut c_int, options: c_int, usage: *mut RawRusage) -> c_int;
    #[link_name = "kill"]
    fn c_kill(pid: c_int, signal: c_int) -> c_int;
    fn clock_gettime(clock: c_int, time: *mut LauncherTimespec) -> c_int;
    fn usleep(micros: u32) -> c_int;
    fn mkfifo(path: *const c_char, mode: u32) -> c_int;
    #[cfg(target_pointer_width = "64")]
    fn posix_fadvise(fd: c_int, offset: i64, length: i64, advice: c_int) -> c_int;
    fn syscall(number: c_long, ...) -> c_long;
}

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn clock_ns(clock: c_int) -> u64 {
    let mut time = LauncherTimespec { sec: 0, nsec: 0 };
    // SAFETY: `time` is a valid timespec for the call to fill.
    unsafe { clock_gettime(clock, &mut time) };
    time.sec as u64 * 1_000_000_000 + time.nsec as u64
}

pub fn now_ns() -> u64 {
    clock_ns(CLOCK_MONOTONIC)
}

pub fn own_cpu_ns() -> u64 {
    clock_ns(CLOCK_PROCESS_CPUTIME_ID)
}

pub fn sleep_ms(ms: u32) {
    // SAFETY: no memory is passed.
    unsafe { usleep(ms * 1000) };
}

pub fn kill(pid: i32, signal: c_int) {
    // SAFETY: no memory is passed; the error for a pid that is gone is ignored.
    unsafe { c_kill(pid, signal) };
}

/// Creates a named pipe.
pub fn make_fifo(path: &std::path::Path) -> std::io::Result<()> {
    let path = CString::new(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()))?;
    // SAFETY: the path is NUL-terminated.
    match unsafe { mkfifo(path.as_ptr(), 0o666) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Lets the kernel drop a file's written pages.
///
/// Only on targets where file offsets have the same size in every libc.
pub fn forget_pages(fd: c_int) {
    #[cfg(not(target_pointer_width = "64"))]
    let _ = fd;
    // SAFETY: no memory is passed.
    #[cfg(target_pointer_width = "64")]
    unsafe {
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED)
    };
}

/// Waits up to `timeout_ms` and returns which descriptors are readable; negative ones never are.
pub fn wait_for_any(descriptors: &[c_int], timeout_ms: c_int) -> Vec<bool> {
    let mut fds: Vec<PollFd> =
        descriptors.iter().map(|fd| PollFd { fd: *fd, events: POLLIN, revents: 0 }).collect();
    // SAFETY: all entries are valid; a negative descriptor is skipped by the kernel.
    unsafe { poll(fds.as_mut_ptr(), fds.len() as c_ulong, timeout_ms) };
    fds.iter().map(|fd| fd.revents != 0).collect()
}

/// Connects to the measuring program's socket.
pub fn connect(path: &CStr) -> Option<c_int> {
    let bytes = path.to_bytes_with_nul();
    let mut address = UnixAddress { family: AF_UNIX, path: [0; 108] };
    address.path.get_mut(..bytes.len())?.copy_from_slice(bytes);
    // SAFETY: the address is initialised and its size is passed; the descriptor is checked before
    // use.
    unsafe {
        let fd = socket(i32::from(AF_UNIX), SOCK_SEQPACKET | O_CLOEXEC, 0);
        if fd < 0 {
            return None;
        }
        if c_connect(fd, &address, size_of::<UnixAddress>() as u32) == 0 {
            return Some(fd);
        }
        close(fd);
        None
    }
}

/// Exit code of a container for a wait status.
pub fn exit_code(status: c_int) -> c_int {
    match status & 0x7f {
        0 => status >> 8 & 0xff,
        signal => 128 + signal,
    }
}

/// Names the process, makes it the child subreaper, and closes the control socket on exec.
pub fn prepare_process(control: c_int) {
    // SAFETY: the name is a NUL-terminated string; the other calls pass no memory.
    unsafe {
        prctl(PR_SET_NAME, c"metier-launch".as_ptr() as c_ulong, 0, 0, 0);
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        fcntl(control, F_SETFD, FD_CLOEXEC);
    }
}

/// Signal state of the launcher, and the one with which the command starts.
pub struct SignalState {
    descriptor: c_int,
    mask: SignalSet,
    hangup: usize,
}

impl SignalState {
    /// Ignores signals that a terminal or a service stop sends to the whole process group, and
    /// receives SIGCHLD through a descriptor. The command gets those signals itself, and the
    /// measuring program decides about the rest.
    ///
    /// In a container only the first process gets signals, so there the descriptor receives them
    /// too.
    pub fn take_over(mask: u64, is_first: bool) -> SignalState {
        let mut chld = SignalSet([0; 16]);
        // SAFETY: both sets are valid and large enough for any libc; handlers are SIG_IGN or
        // SIG_DFL.
        unsafe {
            signal(SIGINT, SIG_IGN);
            signal(SIGQUIT, SIG_IGN);
            signal(SIGTERM, SIG_IGN);
            signal(SIGPIPE, SIG_IGN);
            let hangup = signal(SIGHUP, SIG_IGN);
            sigemptyset(&mut chld);
            sigaddset(&mut chld, SIGCHLD);
            if is_first {
                // The kernel drops signals that the first process ignores, so these are blocked
                // instead.
                for number in [SIGINT, SIGQUIT, SIGTERM, SIGHUP] {
                    signal(number, SIG_DFL);
                    sigaddset(&mut chld, number);
                }
            }
            sigprocmask(SIG_BLOCK, &chld, std::ptr::null_mut());
            let descriptor = signalfd(-1, &chld, O_CLOEXEC);
            let mut words = [0; 16];
            words[0] = mask;
            SignalState { descriptor, mask: SignalSet(words), hangup }
        }
    }

    /// Restores default actions for the command, so that INT works below a shell that ignores it
    /// for background jobs. An ignored hang-up (`nohup`) stays ignored, as the user requested.
    /// Called in the child.
    fn restore_for_command(&self) {
        // SAFETY: the mask is a valid set; handlers are SIG_DFL or SIG_IGN.
        unsafe {
            for number in [SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGCHLD] {
                signal(number, SIG_DFL);
            }
            signal(SIGHUP, if self.hangup == SIG_IGN { SIG_IGN } else { SIG_DFL });
            for number in LIBC_SIGNALS {
                // An all-zero `struct sigaction` of the kernel is SIG_DFL on every architecture.
                let default = [0u64; 8];
                let none = std::ptr::null_mut::<c_void>();
                syscall(RT_SIGACTION, c_long::from(number), default.as_ptr(), none, 8 as c_long);
            }
            sigprocmask(SIG_SETMASK, &self.mask, std::ptr::null_mut());
        }
    }

    pub fn descriptor(&self) -> c_int {
        self.descriptor
    }

    /// Takes all pending signals; returns those to forward.
    pub fn take_pending(&self) -> Vec<c_int> {
        // The kernel's `struct signalfd_siginfo` has 128 bytes and begins with the signal number.
        let mut buffer = [[0u32; 32]; 8];
        // SAFETY: the buffer is valid for the passed length.
        let got = unsafe { read(self.descriptor, buffer.as_mut_ptr().cast(), size_of_val(&buffer)) };
        let came = buffer.iter().take(got.max(0) as usize / 128).map(|info| info[0] as c_int);
        came.filter(|number| *number != SIGCHLD).collect()
    }
}

/// Starts the command inside the groups. Returns its process id and the time just before its first
/// instruction, or the failed stage and its errno.
pub fn start_command(
    command: &[&CStr],
    join: &[CString],
    signals: &SignalState,
) -> Result<(c_int, u64), (u64, c_int)> {
    let mut argv: Vec<*const c_char> = command.iter().map(|argument| argument.as_ptr()).collect();
    argv.push(std::ptr::null());
    let mut ends = [0 as c_int; 2];
    // SAFETY: the array has room for two descriptors.
    if unsafe { pipe2(ends.as_mut_ptr(), O_CLOEXEC) } != 0 {
        return Err((FAILED_FORK, errno()));
    }
    // SAFETY: this process has one thread, so the child may call any function.
    let pid = unsafe { fork() };
    if pid < 0 {
        return Err((FAILED_FORK, errno()));
    }
    if pid == 0 {
        for path in join {
            if let Err(code) = join_group(path) {
                report_failure(ends[1], FAILED_JOIN, code);
            }
        }
        signals.restore_for_command();
        let now = [STARTED, now_ns()];
        // SAFETY: `now` and `argv` are valid; argv ends with a null pointer.
        unsafe {
            write(ends[1], now.as_ptr().cast(), 16);
            execvp(argv[0], argv.as_ptr());
        }
        report_failure(ends[1], FAILED_EXEC, errno());
    }
    // SAFETY: a descriptor that this function opened.
    unsafe { close(ends[1]) };
    let mut words = [0u64; 4];
    let mut length = 0;
    loop {
        // SAFETY: passes the remaining space of `words`.
        let got = unsafe { read(ends[0], words.as_mut_ptr().cast::<u8>().add(length).cast(), 32 - length) };
        match got {
            n if n > 0 && length + (n as usize) < 32 => length += n as usize,
            n if n < 0 && errno() == EINTR => {}
            n => {
                length += n.max(0) as usize;
                break;
            }
        }
    }
    // SAFETY: a descriptor that this function opened.
    unsafe { close(ends[0]) };
    // Either the time alone (exec succeeded and closed the pipe), a failure alone, or a failure
    // after the time.
    let failure = match length {
        16 if words[0] == STARTED => return Ok((pid, words[1])),
        16 => (words[0], words[1] as c_int),
        32 => (words[2], words[3] as c_int),
        _ => (FAILED_EXEC, 0),
    };
    let mut status = 0;
    // SAFETY: `status` is valid; no usage is requested.
    unsafe { wait4(pid, &mut status, 0, std::ptr::null_mut()) };
    Err(failure)
}

fn join_group(path: &CStr) -> Result<(), c_int> {
    // SAFETY: the path is NUL-terminated; the written byte is a literal.
    unsafe {
        let fd = open(path.as_ptr(), O_WRONLY | O_CLOEXEC);
        if fd < 0 {
            return Err(errno());
        }
        let written = write(fd, c"0".as_ptr().cast(), 1);
        let code = errno();
        close(fd);
        if written == 1 { Ok(()) } else { Err(code) }
    }
}

/// Reports to the parent why the child ends.
fn report_failure(pipe: c_int, stage: u64, code: c_int) -> ! {
    let words = [stage, code as u64];
    // SAFETY: writes 16 bytes of `words`; the child ends without running anything else.
    unsafe {
        write(pipe, words.as_ptr().cast(), 16);
        _exit(127)
    }
}

/// Result of `wait4` for any child.
pub enum ReapResult {
    Child { pid: c_int, status: c_int, usage: ResourceUsage },
    NoneYet,
    NoneLeft,
}

pub fn reap_child() -> ReapResult {
    let mut status = 0;
    let mut raw = RawRusage { utime: [0; 2], stime: [0; 2], rest: [0; 14], reserve: [0; 16] };
    // SAFETY: status and usage are valid for the call to fill.
    let pid = unsafe { wait4(-1, &mut status, WNOHANG, &mut raw) };
    if pid == 0 {
        return ReapResult::NoneYet;
    }
    if pid < 0 {
        return if errno() == ECHILD { ReapResult::NoneLeft } else { ReapResult::NoneYet };
    }
    let micros = |pair: [c_long; 2]| pair[0] as u64 * 1_000_000 + pair[1] as u64;
    // Order of the fields after the two times, from the kernel's struct rusage: maxrss, ixrss,
    // idrss, isrss, minflt, majflt, nswap, inblock, oublock, msgsnd, msgrcv, nsignals, nvcsw,
    // nivcsw.
    let rest = raw.rest.map(|value| value as u64);
    let usage = ResourceUsage {
        user_us: micros(raw.utime),
        system_us: micros(raw.stime),
        max_rss_kib: rest[0],
        minor_faults: rest[4],
        major_faults: rest[5],
        blocks_in: rest[7],
        blocks_out: rest[8],
        voluntary_switches: rest[12],
        involuntary_switches: rest[13],
    };
    ReapResult::Child { pid, status, usage }
}

/// Which descriptors are readable.
pub struct ReadyDescriptors {
    pub control: bool,
    pub signal: bool,
}

pub fn wait_ready(control: c_int, signals: c_int, timeout_ms: c_int) -> ReadyDescriptors {
    let mut fds = [
        PollFd { fd: control, events: POLLIN, revents: 0 },
        PollFd { fd: signals, events: POLLIN, revents: 0 },
    ];
    // SAFETY: two valid entries; a negative descriptor is skipped by the kernel.
    unsafe { poll(fds.as_mut_ptr(), 2, timeout_ms) };
    ReadyDescriptors {
        control: fds[0].revents & (POLLIN | POLLHUP) != 0,
        signal: fds[1].revents & POLLIN != 0,
    }
}

/// Receives one packet, or `None` after a disconnect.
pub fn receive(control: c_int, packet: &mut [u8]) -> Option<usize> {
    loop {
        // SAFETY: the buffer is valid for the passed length.
        let got = unsafe { recv(control, packet.as_mut_ptr().cast(), packet.len(), 0) };
        match got {
            n if n > 0 => return Some(n as usize),
            n if n < 0 && errno() == EINTR => {}
            _ => return None,
        }
    }
}

pub fn send(control: c_int, report: &LaunchReport) -> bool {
    // SAFETY: Report is plain 64-bit words without padding, and its size is passed.
    let sent = unsafe {
        c_send(control, (report as *const LaunchReport).cast(), size_of::<LaunchReport>(), MSG_NOSIGNAL)
    };
    sent == size_of::<LaunchReport>() as isize
}
