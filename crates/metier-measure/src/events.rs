//! Every process of the run, from the kernel's own events: starts and ends from the process connector, what
//! each used from the task statistics that the kernel sends when a task ends.
//!
//! Both tell of the whole host; only descendants of the launcher are kept. The sockets are emptied at sample
//! ticks instead of waking us for each event. What each process used is what the kernel had booked at its last
//! tick, so tiny processes show less than they used: the run's totals come from the control group instead.
//!
//! Needs `CAP_NET_ADMIN` in the first namespaces (ordinary users may listen to the connector from Linux 6.6).

use std::collections::HashMap;
use std::io;

use metier_types::{Bytes, Extra, Missing, Process, Seconds};

use crate::netlink::{Socket, each_attribute, u32_at, u64_at};

const NETLINK_CONNECTOR: libc::c_int = 11;
const NETLINK_GENERIC: libc::c_int = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const GENL_CONTROLLER: u16 = 0x10;
const FORK: u32 = 0x1;
const EXEC: u32 = 0x2;
const COMM: u32 = 0x200;
const EXIT: u32 = 0x8000_0000;
/// Processes that are kept one by one; beyond it they are only counted.
pub const LISTED: usize = 20_000;

/// What one process is known to have done.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Its process id.
    pub pid: u32,
    /// Who started it.
    pub parent: u32,
    /// Short name.
    pub name: String,
    /// Start by the monotonic clock.
    pub started_ns: u64,
    /// End by the monotonic clock.
    pub ended_ns: Option<u64>,
    /// Raw wait status.
    pub status: Option<i32>,
    /// CPU time that was booked.
    pub cpu_ns: Option<u64>,
    /// Largest resident size.
    pub peak_kib: Option<u64>,
    /// Bytes through read and write calls.
    pub called: Option<(u64, u64)>,
    /// Bytes from and to storage.
    pub stored: Option<(u64, u64)>,
}

/// Listens to the host's process events and keeps those of one run.
pub struct Watch {
    connector: Socket,
    statistics: Option<Socket>,
    family: u16,
    root: u32,
    list: Vec<Seen>,
    /// Latest entry of a living or just ended process.
    by_pid: HashMap<u32, usize>,
    /// Process of each thread.
    threads: HashMap<u32, u32>,
    /// Members that ended and may still get their statistics, or are beyond the list.
    unlisted: u64,
    total: u64,
}

impl Watch {
    /// Starts to listen, or says why it cannot.
    pub fn open() -> Result<Self, Missing> {
        let reason = |error: io::Error| {
            Missing::fixable(
                format!("the kernel's process events cannot be had ({error})"),
                "run as root, or give metier the capability: setcap cap_net_admin+ep metier",
            )
        };
        let mut connector = Socket::open(NETLINK_CONNECTOR, 1).map_err(reason)?;
        connector.send(NLMSG_DONE, 0, &connector_message(1)).map_err(reason)?;
        // The kernel acknowledges with an event; without it we would wait for events that never come.
        let mut heard = Err(io::Error::new(io::ErrorKind::Unsupported, "no acknowledgement"));
        connector.answer(|_, payload| heard = acknowledged(payload)).map_err(reason)?;
        heard.map_err(reason)?;
        let (statistics, family) = match open_statistics() {
            Ok((socket, family)) => (Some(socket), family),
            Err(_) => (None, 0),
        };
        Ok(Self {
            connector,
            statistics,
            family,
            root: 0,
            list: Vec::new(),
            by_pid: HashMap::new(),
            threads: HashMap::new(),
            unlisted: 0,
            total: 0,
        })
    }

    /// Whether each end brings what the process used.
    pub fn has_statistics(&self) -> bool {
        self.statistics.is_some()
    }

    /// Names the launcher: its descendants are the run.
    pub fn follow(&mut self, launcher: u32) {
        self.root = launcher;
    }

    /// Takes in what has happened since the last look.
    pub fn drain(&mut self) {
        let mut events = Vec::new();
        self.connector.drain(&mut |_, payload| events.extend(Event::parse(payload)));
        events.into_iter().for_each(|event| self.take(event));
        let Some(mut statistics) = self.statistics.take() else { return };
        let family = self.family;
        statistics.drain(&mut |kind, payload| {
            if kind == family {
                task_ends(payload, &mut |pid, stats| self.book(pid, stats));
            }
        });
        self.statistics = Some(statistics);
    }

    /// Events that were lost because they came too fast.
    pub fn lost(&self) -> u64 {
        self.connector.overruns + self.statistics.as_ref().map_or(0, |s| s.overruns)
    }

    /// How many processes there were.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How many of those are not in the list.
    pub fn unlisted(&self) -> u64 {
        self.unlisted
    }

    /// The processes in the order in which they started.
    pub fn list(&self) -> &[Seen] {
        &self.list
    }

    /// Bytes through read and write calls over all processes that ended, if each brought its figures.
    pub fn called(&self) -> Option<(u64, u64)> {
        if self.statistics.is_none() || self.unlisted > 0 || self.lost() > 0 || self.list.is_empty() {
            return None;
        }
        self.list.iter().map(|seen| seen.called).try_fold((0, 0), |sum, one| {
            let (read, written) = one?;
            Some((sum.0 + read, sum.1 + written))
        })
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Fork { parent, child, thread_of, time_ns } => {
                if thread_of != child {
                    if self.by_pid.contains_key(&thread_of) {
                        self.threads.insert(child, thread_of);
                    }
                    return;
                }
                if parent != self.root && !self.by_pid.contains_key(&parent) {
                    return;
                }
                self.total += 1;
                if self.list.len() >= LISTED {
                    self.unlisted += 1;
                }
                let name =
                    self.by_pid.get(&parent).and_then(|at| self.list.get(*at)).map(|seen| seen.name.clone());
                let at = if self.list.len() < LISTED { self.list.len() } else { usize::MAX };
                self.by_pid.insert(child, at);
                if at != usize::MAX {
                    let parent = if parent == self.root { 0 } else { parent };
                    let name = name.unwrap_or_default();
                    self.list.push(Seen { pid: child, parent, name, started_ns: time_ns, ..Seen::default() });
                }
            }
            Event::Exec { pid } => {
                let name = self
                    .by_pid
                    .contains_key(&pid)
                    .then(|| crate::file::text(format!("/proc/{pid}/comm")))
                    .flatten();
                if let Some((seen, name)) = self.entry(pid).zip(name) {
                    seen.name = name;
                }
            }
            Event::Comm { pid, name } => {
                if let Some(seen) = self.entry(pid) {
                    seen.name = name;
                }
            }
            Event::Exit { pid, status, time_ns } => {
                if let Some(seen) = self.entry(pid) {
                    seen.ended_ns = Some(time_ns);
                    seen.status = Some(status);
                }
            }
        }
    }

    fn entry(&mut self, pid: u32) -> Option<&mut Seen> {
        self.by_pid.get(&pid).and_then(|at| self.list.get_mut(*at))
    }

    fn book(&mut self, task: u32, stats: TaskStatistics) {
        let pid = self.threads.remove(&task).unwrap_or(task);
        let Some(seen) = self.entry(pid) else { return };
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
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Kernels before 6.5 go on counting a listener that leaves without a word.
        let _ = self.connector.send(NLMSG_DONE, 0, &connector_message(2));
    }
}

impl Seen {
    /// As the record shows it; times count from the start of the run.
    pub fn to_process(&self, run_started_ns: u64) -> Process {
        let since = |ns: u64| Seconds((ns as f64 - run_started_ns as f64) / 1e9);
        let (exit_code, signal) = match self.status {
            Some(status) if status & 0x7f == 0 => (Some(status >> 8 & 0xff), None),
            Some(status) => (None, Some(status & 0x7f)),
            None => (None, None),
        };
        Process {
            pid: self.pid,
            parent: (self.parent != 0).then_some(self.parent),
            name: self.name.clone(),
            command: None,
            // The fork comes a moment before the first instruction, from which the run counts.
            started_seconds: Seconds(since(self.started_ns).get().max(0.0)),
            ended_seconds: self.ended_ns.map(since),
            cpu_seconds: self.cpu_ns.map(Seconds::from_nanos),
            peak_resident_bytes: self.peak_kib.map(|kib| Bytes(kib * 1024)),
            read_bytes: self.stored.map(|(read, _)| Bytes(read)),
            written_bytes: self.stored.map(|(_, written)| Bytes(written)),
            exit_code,
            signal,
            extra: Extra::new(),
        }
    }
}

/// An event of the process connector, as far as we care.
enum Event {
    Fork { parent: u32, child: u32, thread_of: u32, time_ns: u64 },
    Exec { pid: u32 },
    Comm { pid: u32, name: String },
    Exit { pid: u32, status: i32, time_ns: u64 },
}

impl Event {
    /// From a connector message: 20 bytes of header, then the event: what, cpu, time, data.
    fn parse(payload: &[u8]) -> Option<Self> {
        let event = payload.get(20..)?;
        let what = u32_at(event, 0)?;
        let time_ns = u64_at(event, 8)?;
        let word = |i: usize| u32_at(event, 16 + 4 * i);
        match what {
            FORK => Some(Self::Fork { parent: word(1)?, child: word(2)?, thread_of: word(3)?, time_ns }),
            EXEC => Some(Self::Exec { pid: word(1)? }),
            COMM => Some(Self::Comm { pid: word(1)?, name: c_text(event.get(24..40)?) })
                .filter(|_| word(0) == word(1)),
            // Only the end of the whole process; its threads end by themselves.
            EXIT if word(0) == word(1) => {
                Some(Self::Exit { pid: word(1)?, status: word(2)? as i32, time_ns })
            }
            _ => None,
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

/// Whether a connector message is (or follows) an acknowledgement without error.
fn acknowledged(payload: &[u8]) -> io::Result<()> {
    let event = payload.get(20..).unwrap_or_default();
    match (u32_at(event, 0), u32_at(event, 16)) {
        (Some(0), Some(code)) if code != 0 => Err(io::Error::from_raw_os_error(code as i32)),
        (Some(_), _) => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "short acknowledgement")),
    }
}

/// What the kernel says of a task that ended.
struct TaskStatistics {
    name: String,
    cpu_ns: u64,
    peak_kib: u64,
    called: (u64, u64),
    stored: (u64, u64),
}

fn open_statistics() -> io::Result<(Socket, u16)> {
    let mut socket = Socket::open(NETLINK_GENERIC, 0)?;
    socket.send(GENL_CONTROLLER, 1, &generic_message(3, 2, b"TASKSTATS\0"))?;
    let mut family = None;
    socket.answer(|kind, payload| {
        if kind == GENL_CONTROLLER {
            each_attribute(payload.get(4..).unwrap_or_default(), &mut |attribute, value| {
                if attribute == 1 && value.len() >= 2 {
                    family = Some(u16::from_ne_bytes([value[0], value[1]]));
                }
            });
        }
    })?;
    let family = family.ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "no task statistics"))?;
    let mut cpus = crate::file::text("/sys/devices/system/cpu/possible").unwrap_or_else(|| "0".into());
    cpus.push('\0');
    // Registers for the ends of tasks on these cores; the flags ask for an acknowledgement.
    socket.send(family, 1 | 4, &generic_message(1, 3, cpus.as_bytes()))?;
    let mut said = Err(io::Error::new(io::ErrorKind::Unsupported, "no acknowledgement"));
    socket.answer(|kind, payload| {
        if kind == NLMSG_ERROR {
            said = match u32_at(payload, 0).map(|code| code as i32) {
                Some(0) => Ok(()),
                Some(code) => Err(io::Error::from_raw_os_error(-code)),
                None => Err(io::Error::new(io::ErrorKind::InvalidData, "short acknowledgement")),
            };
        }
    })?;
    said.map(|()| (socket, family))
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

/// The tasks of one statistics message: attribute 4 holds a task id (1) and its figures (3).
fn task_ends(payload: &[u8], take: &mut impl FnMut(u32, TaskStatistics)) {
    each_attribute(payload.get(4..).unwrap_or_default(), &mut |kind, value| {
        if kind != 4 {
            return;
        }
        let mut pid = None;
        let mut stats = None;
        each_attribute(value, &mut |kind, value| match kind {
            1 => pid = u32_at(value, 0),
            3 => stats = Some(value.to_vec()),
            _ => {}
        });
        if let Some((pid, stats)) = pid.zip(stats)
            && let Some(stats) = TaskStatistics::parse(pid, &stats)
        {
            take(pid, stats);
        }
    });
}

impl TaskStatistics {
    /// From the kernel's `struct taskstats`. Its places are fixed up to version 14; a version that moved them
    /// is found out by the task id, which then does not stand where it should.
    fn parse(pid: u32, raw: &[u8]) -> Option<Self> {
        if u32_at(raw, 128)? != pid {
            return None;
        }
        let word = |at| u64_at(raw, at);
        Some(Self {
            name: c_text(raw.get(80..112)?),
            cpu_ns: word(72)?,
            peak_kib: word(200)?,
            called: (word(216)?, word(224)?),
            stored: (word(248)?, word(256)?),
        })
    }
}

fn c_text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_from_the_kernel_make_us_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = Event::parse(&bytes);
            let _ = acknowledged(&bytes);
            task_ends(&bytes, &mut |_, _| {});
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
