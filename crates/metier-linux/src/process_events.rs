//! Every process of the run from kernel events: starts and ends from the process connector,
//! resource use from the task statistics that the kernel sends when a task ends.
//!
//! Both sources cover the whole host; only descendants of the launcher are kept. The sockets are
//! drained at sample ticks instead of waking the process for each event. A process's figures are
//! those of the kernel's last tick, so they underestimate short processes. The run's totals
//! therefore come from the control group.
//!
//! Needs `CAP_NET_ADMIN` in the initial namespaces (ordinary users may listen to the connector from
//! Linux 6.6).

use std::collections::HashMap;
use std::io;

use metier_types::{Bytes, ExtraFields, MissingReason, ProcessRecord, Seconds};

use crate::netlink::{NetlinkSocket, for_each_attribute, u32_at, u64_at};

const NETLINK_CONNECTOR: libc::c_int = 11;
const NETLINK_GENERIC: libc::c_int = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const GENL_CONTROLLER: u16 = 0x10;
const FORK: u32 = 0x1;
const EXEC: u32 = 0x2;
const COMM: u32 = 0x200;
const EXIT: u32 = 0x8000_0000;
/// Largest number of listed processes; more are only counted.
pub const MAX_LISTED_PROCESSES: usize = 20_000;

/// Observed facts of one process.
#[derive(Debug, Clone, Default)]
pub struct ObservedProcess {
    pub pid: u32,
    pub parent: u32,
    pub name: String,
    /// Start time on the monotonic clock.
    pub started_ns: u64,
    /// End time on the monotonic clock.
    pub ended_ns: Option<u64>,
    pub status: Option<i32>,
    /// CPU time in the task statistics.
    pub cpu_ns: Option<u64>,
    pub peak_kib: Option<u64>,
    /// Bytes transferred by read and write calls.
    pub called: Option<(u64, u64)>,
    /// Bytes transferred from and to storage.
    pub stored: Option<(u64, u64)>,
    /// Time in the run queue, in nanoseconds, and minor and major page faults.
    pub queued_ns: Option<u64>,
    pub faults: Option<(u64, u64)>,
}

/// Selects the processes of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessRoot {
    /// All descendants of this process, without the process itself.
    DescendantsOf(u32),
    /// These processes and their descendants.
    Processes(Vec<u32>),
}

/// Observes the host's process events and keeps those of one run.
pub struct ProcessWatch {
    connector: Option<NetlinkSocket>,
    statistics: Option<NetlinkSocket>,
    family: u16,
    root: u32,
    list: Vec<ObservedProcess>,
    /// Index of the latest entry of a running or just ended process.
    by_pid: HashMap<u32, usize>,
    /// Process of each thread.
    threads: HashMap<u32, u32>,
    /// Number of members beyond the list.
    unlisted: u64,
    total: u64,
}

impl ProcessWatch {
    /// Opens the sockets, or returns the reason why that fails.
    pub fn open() -> Result<Self, MissingReason> {
        let reason = |error: io::Error| {
            MissingReason::with_fix(
                format!("the kernel's process events are not available ({error})"),
                "run as root, or give metier the capability: setcap cap_net_admin+ep metier",
            )
        };
        let mut connector = NetlinkSocket::open(NETLINK_CONNECTOR, 1).map_err(reason)?;
        connector.send(NLMSG_DONE, 0, &connector_message(1)).map_err(reason)?;
        // The kernel acknowledges with an event; without it no event would ever arrive.
        let mut heard = Err(io::Error::new(io::ErrorKind::Unsupported, "no acknowledgement"));
        connector.receive_answer(|_, payload| heard = check_acknowledgement(payload)).map_err(reason)?;
        heard.map_err(reason)?;
        let (statistics, family) = match open_statistics() {
            Ok((socket, family)) => (Some(socket), family),
            Err(_) => (None, 0),
        };
        Ok(Self {
            connector: Some(connector),
            statistics,
            family,
            root: u32::MAX,
            list: Vec::new(),
            by_pid: HashMap::new(),
            threads: HashMap::new(),
            unlisted: 0,
            total: 0,
        })
    }

    /// Whether each end event comes with task statistics.
    pub fn has_statistics(&self) -> bool {
        self.statistics.is_some()
    }

    /// Selects the run: all descendants of a launcher, or existing processes and their descendants.
    pub fn watch_root(&mut self, root: &ProcessRoot) {
        match root {
            ProcessRoot::DescendantsOf(launcher) => self.root = *launcher,
            ProcessRoot::Processes(pids) => {
                self.drain();
                pids.iter().for_each(|pid| self.add_existing(*pid));
            }
        }
    }

    fn add_existing(&mut self, pid: u32) {
        let name = crate::kernel_file::read_text(format!("/proc/{pid}/comm")).unwrap_or_default();
        self.total += 1;
        self.by_pid.insert(pid, self.list.len());
        let started_ns = crate::wakeup::monotonic_ns();
        self.list.push(ObservedProcess { pid, parent: 0, name, started_ns, ..ObservedProcess::default() });
        for entry in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            if let Some(task) = entry.file_name().to_str().and_then(|t| t.parse().ok()).filter(|t| *t != pid)
            {
                self.threads.insert(task, pid);
            }
        }
    }

    /// Raw wait status of an ended process.
    pub fn status_of(&self, pid: u32) -> Option<i32> {
        self.list.iter().find(|seen| seen.pid == pid)?.status
    }

    /// Storage bytes of all ended processes; `None` if one has no statistics.
    pub fn storage_bytes(&self) -> Option<(u64, u64)> {
        self.sum_statistics(|seen| seen.stored)
    }

    /// Time in which tasks were ready to run and had no core, summed over all of them; `None` if
    /// one has no statistics.
    pub fn queued_ns(&self) -> Option<u64> {
        self.sum_statistics(|seen| Some((seen.queued_ns?, 0))).map(|(queued, _)| queued)
    }

    /// Minor and major page faults of all ended processes; `None` if one has no statistics.
    pub fn page_faults(&self) -> Option<(u64, u64)> {
        self.sum_statistics(|seen| seen.faults)
    }

    /// Largest resident high-water mark of a process; `None` if one has no statistics.
    pub fn largest_resident(&self) -> Option<Bytes> {
        self.sum_statistics(|seen| seen.stored)?;
        self.list.iter().filter_map(|seen| seen.peak_kib).max().map(|kib| Bytes(kib * 1024))
    }

    /// Processes pending events and returns the number of messages. Most concern other processes,
    /// so no message is copied before it is known to belong to the run.
    pub fn drain(&mut self) -> u64 {
        let mut messages = 0;
        if let Some(mut connector) = self.connector.take() {
            connector.drain(&mut |_, payload| {
                messages += 1;
                self.handle_event(payload);
            });
            self.connector = Some(connector);
        }
        if let Some(mut statistics) = self.statistics.take() {
            let family = self.family;
            statistics.drain(&mut |kind, payload| {
                messages += 1;
                if kind == family {
                    for_each_task_end(payload, &mut |pid, raw| self.add_statistics(pid, raw));
                }
            });
            self.statistics = Some(statistics);
        }
        messages
    }

    /// Number of receive overruns, in which the kernel dropped events.
    pub fn lost_events(&self) -> u64 {
        [&self.connector, &self.statistics].into_iter().flatten().map(|socket| socket.overruns).sum()
    }

    /// Total number of processes.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Number of processes that are not listed.
    pub fn unlisted(&self) -> u64 {
        self.unlisted
    }

    /// The processes in order of their start.
    pub fn list(&self) -> &[ObservedProcess] {
        &self.list
    }

    /// Bytes of read and write calls of all ended processes; `None` if one has no statistics.
    pub fn call_bytes(&self) -> Option<(u64, u64)> {
        self.sum_statistics(|seen| seen.called)
    }

    fn sum_statistics(&self, what: impl Fn(&ObservedProcess) -> Option<(u64, u64)>) -> Option<(u64, u64)> {
        if self.statistics.is_none() || self.unlisted > 0 || self.lost_events() > 0 || self.list.is_empty() {
            return None;
        }
        self.list.iter().map(what).try_fold((0, 0), |sum, one| {
            let (read, written) = one?;
            Some((sum.0 + read, sum.1 + written))
        })
    }

    /// Parses a connector message: 20 bytes of header, then the event with type, CPU, time and
    /// data.
    fn handle_event(&mut self, payload: &[u8]) -> Option<()> {
        let event = payload.get(20..)?;
        let time_ns = u64_at(event, 8)?;
        let word = |i: usize| u32_at(event, 16 + 4 * i);
        match u32_at(event, 0)? {
            FORK => self.handle_fork(word(1)?, word(2)?, word(3)?, time_ns),
            EXEC => {
                let pid = word(1)?;
                if let Some(seen) = self.find_entry(pid)
                    && let Some(name) = crate::kernel_file::read_text(format!("/proc/{pid}/comm"))
                {
                    seen.name = name;
                }
            }
            COMM if word(0) == word(1) => self.find_entry(word(1)?)?.name = text_from_c(event.get(24..40)?),
            // Only the end of the whole process; threads end separately.
            EXIT if word(0) == word(1) => {
                let status = word(2)? as i32;
                let seen = self.find_entry(word(1)?)?;
                seen.ended_ns = Some(time_ns);
                seen.status = Some(status);
            }
            _ => {}
        }
        Some(())
    }

    fn handle_fork(&mut self, parent: u32, child: u32, thread_of: u32, time_ns: u64) {
        if thread_of != child {
            if self.by_pid.contains_key(&thread_of) {
                self.threads.insert(child, thread_of);
            }
            return;
        }
        let Some(name) = (if parent == self.root {
            Some(String::new())
        } else {
            self.by_pid
                .get(&parent)
                .map(|at| self.list.get(*at).map(|seen| seen.name.clone()).unwrap_or_default())
        }) else {
            // The kernel reused the pid of a run's process for a foreign one.
            self.by_pid.remove(&child);
            return;
        };
        self.total += 1;
        let at = if self.list.len() < MAX_LISTED_PROCESSES { self.list.len() } else { usize::MAX };
        self.by_pid.insert(child, at);
        if at == usize::MAX {
            self.unlisted += 1;
            return;
        }
        let parent = if parent == self.root { 0 } else { parent };
        self.list.push(ObservedProcess {
            pid: child,
            parent,
            name,
            started_ns: time_ns,
            ..ObservedProcess::default()
        });
    }

    fn find_entry(&mut self, pid: u32) -> Option<&mut ObservedProcess> {
        self.by_pid.get(&pid).and_then(|at| self.list.get_mut(*at))
    }

    fn add_statistics(&mut self, task: u32, raw: &[u8]) {
        let pid = self.threads.remove(&task).unwrap_or(task);
        let Some(seen) = self.find_entry(pid) else { return };
        let Some(stats) = TaskStatistics::parse(task, raw) else { return };
        if task == pid && !stats.name.is_empty() {
            seen.name = stats.name;
        }
        let add = |sum: &mut Option<(u64, u64)>, (a, b): (u64, u64)| {
            let (x, y) = sum.unwrap_or_default();
            *sum = Some((x + a, y + b));
        };
        seen.cpu_ns = Some(seen.cpu_ns.unwrap_or(0) + stats.cpu_ns);
        seen.peak_kib = Some(seen.peak_kib.unwrap_or(0).max(stats.peak_kib));
        add(&mut seen.called, stats.called);
        add(&mut seen.stored, stats.stored);
        add(&mut seen.faults, stats.faults);
        if let Some(queued) = stats.queued_ns {
            seen.queued_ns = Some(seen.queued_ns.unwrap_or(0) + queued);
        }
    }
}

impl Drop for ProcessWatch {
    fn drop(&mut self) {
        // Kernels before 6.5 keep counting a listener that does not unsubscribe.
        if let Some(connector) = &self.connector {
            let _ = connector.send(NLMSG_DONE, 0, &connector_message(2));
        }
    }
}

impl ObservedProcess {
    /// Converts to the record's format; times are relative to the start of the run.
    pub fn to_process(&self, run_started_ns: u64) -> ProcessRecord {
        let since = |ns: u64| Seconds((ns as f64 - run_started_ns as f64) / 1e9);
        let (exit_code, signal) = match self.status {
            Some(status) if status & 0x7f == 0 => (Some(status >> 8 & 0xff), None),
            Some(status) => (None, Some(status & 0x7f)),
            None => (None, None),
        };
        ProcessRecord {
            pid: self.pid,
            parent: (self.parent != 0).then_some(self.parent),
            name: self.name.clone(),
            command: None,
            // The fork precedes the first instruction, at which the run starts.
            started_seconds: Seconds(since(self.started_ns).get().max(0.0)),
            ended_seconds: self.ended_ns.map(since),
            cpu_seconds: self.cpu_ns.map(Seconds::from_nanos),
            peak_resident_bytes: self.peak_kib.map(|kib| Bytes(kib * 1024)),
            read_bytes: self.stored.map(|(read, _)| Bytes(read)),
            written_bytes: self.stored.map(|(_, written)| Bytes(written)),
            exit_code,
            signal,
            extra: ExtraFields::new(),
        }
    }
}

/// `PROC_CN_MCAST_LISTEN` (1) or `PROC_CN_MCAST_IGNORE` (2).
fn connector_message(order: u32) -> Vec<u8> {
    let mut message = Vec::with_capacity(24);
    for word in [1u32, 1, 0, 0] {
        message.extend(word.to_ne_bytes());
    }
    message.extend(4u16.to_ne_bytes());
    message.extend(0u16.to_ne_bytes());
    message.extend(order.to_ne_bytes());
    message
}

/// Checks that a connector message is or follows an acknowledgement without error.
fn check_acknowledgement(payload: &[u8]) -> io::Result<()> {
    let event = payload.get(20..).unwrap_or_default();
    match (u32_at(event, 0), u32_at(event, 16)) {
        (Some(0), Some(code)) if code != 0 => Err(io::Error::from_raw_os_error(code as i32)),
        (Some(_), _) => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "short acknowledgement")),
    }
}

/// Statistics of an ended task.
struct TaskStatistics {
    name: String,
    cpu_ns: u64,
    peak_kib: u64,
    called: (u64, u64),
    stored: (u64, u64),
    faults: (u64, u64),
    /// Time in the run queue; `None` where the kernel does not count it: a task that ran was
    /// scheduled at least once.
    queued_ns: Option<u64>,
}

fn open_statistics() -> io::Result<(NetlinkSocket, u16)> {
    let mut socket = NetlinkSocket::open(NETLINK_GENERIC, 0)?;
    socket.send(GENL_CONTROLLER, 1, &generic_message(3, 2, b"TASKSTATS\0"))?;
    let mut family = None;
    socket.receive_answer(|kind, payload| {
        if kind == GENL_CONTROLLER {
            for_each_attribute(payload.get(4..).unwrap_or_default(), &mut |attribute, value| {
                if attribute == 1 && value.len() >= 2 {
                    family = Some(u16::from_ne_bytes([value[0], value[1]]));
                }
            });
        }
    })?;
    let family = family.ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "no task statistics"))?;
    let mut cpus =
        crate::kernel_file::read_text("/sys/devices/system/cpu/possible").unwrap_or_else(|| "0".into());
    cpus.push('\0');
    // Registers for task ends on these cores; the flags request an acknowledgement.
    socket.send(family, 1 | 4, &generic_message(1, 3, cpus.as_bytes()))?;
    let mut acknowledged = Err(io::Error::new(io::ErrorKind::Unsupported, "no acknowledgement"));
    socket.receive_answer(|kind, payload| {
        if kind == NLMSG_ERROR {
            acknowledged = match u32_at(payload, 0).map(|code| code as i32) {
                Some(0) => Ok(()),
                Some(code) => Err(io::Error::from_raw_os_error(-code)),
                None => Err(io::Error::new(io::ErrorKind::InvalidData, "short acknowledgement")),
            };
        }
    })?;
    acknowledged.map(|()| (socket, family))
}

/// A generic netlink command with one attribute.
fn generic_message(command: u8, attribute: u16, value: &[u8]) -> Vec<u8> {
    let mut message = vec![command, 1, 0, 0];
    message.extend(((4 + value.len()) as u16).to_ne_bytes());
    message.extend(attribute.to_ne_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
    message
}

/// Calls `take` for each task of a statistics message: attribute 4 holds a task id (1) and its
/// figures (3).
fn for_each_task_end(payload: &[u8], take: &mut impl FnMut(u32, &[u8])) {
    for_each_attribute(payload.get(4..).unwrap_or_default(), &mut |kind, value| {
        if kind != 4 {
            return;
        }
        let mut pid = None;
        for_each_attribute(value, &mut |kind, value| match kind {
            1 => pid = u32_at(value, 0),
            3 => pid.into_iter().for_each(|pid| take(pid, value)),
            _ => {}
        });
    });
}

impl TaskStatistics {
    /// Parses the kernel's `struct taskstats`. Its offsets are stable up to version 14. A later
    /// layout is detected by the task id, which then has another offset.
    fn parse(pid: u32, raw: &[u8]) -> Option<Self> {
        if u32_at(raw, 128)? != pid {
            return None;
        }
        let word = |at| u64_at(raw, at);
        Some(Self {
            name: text_from_c(raw.get(80..112)?),
            cpu_ns: word(72)?,
            peak_kib: word(200)?,
            called: (word(216)?, word(224)?),
            stored: (word(248)?, word(256)?),
            faults: (word(168)?, word(176)?),
            queued_ns: (word(16)? > 0).then_some(word(24)?),
        })
    }
}

fn text_from_c(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A watch without sockets.
    fn quiet() -> ProcessWatch {
        ProcessWatch {
            connector: None,
            statistics: None,
            family: 0,
            root: 0,
            list: Vec::new(),
            by_pid: HashMap::new(),
            threads: HashMap::new(),
            unlisted: 0,
            total: 0,
        }
    }

    #[test]
    fn descendants_of_the_launcher_are_kept_and_others_are_not() {
        let mut watch = quiet();
        watch.watch_root(&ProcessRoot::DescendantsOf(10));
        for (parent, child, group) in
            [(10, 11, 11), (11, 12, 12), (7, 8, 8), (8, 9, 9), (12, 13, 12), (12, 14, 14)]
        {
            watch.handle_fork(parent, child, group, 5);
        }
        let pids: Vec<(u32, u32)> = watch.list().iter().map(|seen| (seen.pid, seen.parent)).collect();
        assert_eq!(pids, [(11, 0), (12, 11), (14, 12)]);
        assert_eq!(watch.threads, HashMap::from([(13, 12)]));
        // A foreign process that reuses a pid of the run is not part of it.
        watch.handle_fork(7, 12, 12, 6);
        watch.handle_fork(12, 15, 15, 7);
        assert_eq!(watch.total(), 3);
    }

    #[test]
    fn beyond_the_list_processes_are_counted() {
        let mut watch = quiet();
        watch.watch_root(&ProcessRoot::DescendantsOf(1));
        for pid in 2..=MAX_LISTED_PROCESSES as u32 + 11 {
            watch.handle_fork(1, pid, pid, 5);
        }
        assert_eq!(
            (watch.list().len(), watch.unlisted(), watch.total()),
            (MAX_LISTED_PROCESSES, 10, MAX_LISTED_PROCESSES as u64 + 10)
        );
    }

    proptest! {
        #[test]
        fn no_bytes_from_the_kernel_make_us_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let mut watch = quiet();
            watch.watch_root(&ProcessRoot::DescendantsOf(1));
            let _ = watch.handle_event(&bytes);
            let _ = check_acknowledgement(&bytes);
            for_each_task_end(&bytes, &mut |pid, raw| watch.add_statistics(pid, raw));
            let _ = TaskStatistics::parse(1, &bytes);
        }
    }

    #[test]
    fn a_statistics_record_whose_places_moved_is_left_out() {
        let mut raw = vec![0u8; 328];
        raw[128..132].copy_from_slice(&7u32.to_ne_bytes());
        raw[72..80].copy_from_slice(&5u64.to_ne_bytes());
        assert_eq!(TaskStatistics::parse(7, &raw).unwrap().cpu_ns, 5);
        assert!(TaskStatistics::parse(8, &raw).is_none());
    }
}
