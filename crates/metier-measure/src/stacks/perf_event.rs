//! The kernel's perf events and their ring buffers.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use perf_event_open_sys as sys;
use perf_event_open_sys::bindings as b;

use metier_linux::KernelRoots;

/// Data pages of each ring buffer, a power of two; with the header page, below the memory that an
/// ordinary user may lock.
const DATA_PAGES: usize = 64;

pub(super) enum PerfTarget {
    /// All processes in this control group.
    Group(File),
    /// This process and its future children.
    Task(u32),
}

impl PerfTarget {
    /// Name of the mode in the record.
    pub(super) fn record_name(&self) -> &'static str {
        match self {
            Self::Group(_) => "group",
            Self::Task(_) => "task",
        }
    }
}

/// One event per CPU.
pub(super) struct PerfEvents {
    pub rings: Vec<PerfRingBuffer>,
    /// Whether samples contain kernel frames.
    pub has_kernel: bool,
}

/// Opens an event on every CPU; without kernel frames if these are not permitted.
pub(super) fn open_on_all_cpus(
    roots: &KernelRoots,
    target: &PerfTarget,
    hertz: u32,
) -> io::Result<PerfEvents> {
    let mut cpus = metier_linux::host::online_cpus(roots);
    if cpus.is_empty() {
        cpus.push(0);
    }
    let open = |has_kernel: bool| -> io::Result<PerfEvents> {
        let rings =
            cpus.iter().map(|cpu| open_on_cpu(target, *cpu, hertz, has_kernel)).collect::<io::Result<_>>()?;
        Ok(PerfEvents { rings, has_kernel })
    };
    match open(true) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM)) => open(false),
        other => other,
    }
}

fn open_on_cpu(target: &PerfTarget, cpu: i32, hertz: u32, has_kernel: bool) -> io::Result<PerfRingBuffer> {
    let mut attr = b::perf_event_attr {
        type_: b::PERF_TYPE_SOFTWARE,
        size: std::mem::size_of::<b::perf_event_attr>() as u32,
        config: b::PERF_COUNT_SW_CPU_CLOCK.into(),
        sample_type: (b::PERF_SAMPLE_IP
            | b::PERF_SAMPLE_TID
            | b::PERF_SAMPLE_TIME
            | b::PERF_SAMPLE_CALLCHAIN)
            .into(),
        clockid: libc::CLOCK_MONOTONIC,
        ..Default::default()
    };
    // The period of the software clock is in nanoseconds.
    attr.__bindgen_anon_1.sample_period = 1_000_000_000 / u64::from(hertz.max(1));
    attr.set_sample_id_all(1);
    attr.set_use_clockid(1);
    attr.set_mmap(1);
    attr.set_mmap2(1);
    attr.set_comm(1);
    attr.set_comm_exec(1);
    attr.set_task(1);
    attr.set_exclude_hv(1);
    attr.set_exclude_kernel(u64::from(!has_kernel));
    attr.set_exclude_callchain_kernel(u64::from(!has_kernel));
    let (pid, extra) = match target {
        PerfTarget::Group(folder) => (folder.as_raw_fd(), b::PERF_FLAG_PID_CGROUP),
        PerfTarget::Task(pid) => {
            attr.set_inherit(1);
            (*pid as i32, 0)
        }
    };
    let flags = (b::PERF_FLAG_FD_CLOEXEC | extra) as libc::c_ulong;
    // SAFETY: the attributes are initialised, with their true size; the descriptor has no other
    // owner.
    let fd = unsafe { sys::perf_event_open(&mut attr, pid, cpu, -1, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor.
    PerfRingBuffer::map_ring(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A ring buffer that the kernel fills and this process drains.
pub(super) struct PerfRingBuffer {
    _fd: OwnedFd,
    page: *mut b::perf_event_mmap_page,
    length: usize,
    data: *const u8,
    size: u64,
}

// SAFETY: the mapping belongs to this value alone, and no other thread accesses it.
unsafe impl Send for PerfRingBuffer {}

impl PerfRingBuffer {
    fn map_ring(fd: OwnedFd) -> io::Result<Self> {
        // SAFETY: sysconf takes and returns plain numbers.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let length = page * (1 + DATA_PAGES);
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, fd.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping is `length` long, so its second page lies inside it.
        let data = unsafe { at.cast::<u8>().add(page) };
        Ok(Self { _fd: fd, page: at.cast(), length, data, size: (page * DATA_PAGES) as u64 })
    }

    /// Appends the new content to `into`.
    pub(super) fn drain(&mut self, into: &mut Vec<u8>) {
        // SAFETY: the first page is the header, and both positions in it are aligned; the kernel
        // changes the head only.
        let (head, tail) = unsafe {
            (
                AtomicU64::from_ptr(&raw mut (*self.page).data_head),
                AtomicU64::from_ptr(&raw mut (*self.page).data_tail),
            )
        };
        let end = head.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        let begin = tail.load(Ordering::Relaxed);
        let length = end.wrapping_sub(begin).min(self.size);
        let at = begin % self.size;
        let first = length.min(self.size - at);
        // SAFETY: both pieces lie inside the data pages, and the kernel does not write to them
        // until the tail moves.
        unsafe {
            into.extend_from_slice(std::slice::from_raw_parts(self.data.add(at as usize), first as usize));
            into.extend_from_slice(std::slice::from_raw_parts(self.data, (length - first) as usize));
        }
        tail.store(end, Ordering::Release);
    }
}

impl Drop for PerfRingBuffer {
    fn drop(&mut self) {
        // SAFETY: `map_ring` created this mapping with this length, and it has no other owner.
        unsafe { libc::munmap(self.page.cast(), self.length) };
    }
}
