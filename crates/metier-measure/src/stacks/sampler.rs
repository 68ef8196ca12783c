//! The thread that empties the ring buffers while the run goes on.
//!
//! Each CPU has a buffer of its own, so records come out of order; they are put in order by their time, and those
//! that are younger than the look at the buffers wait for the next one, when all that came before them is there.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::event::{Events, Ring};
use super::fold::{Counts, Folded, Frame};
use super::jit::JitFolders;
use super::kernel::KernelSymbols;
use super::modules::Modules;
use super::processes::Processes;
use super::record::{Mapping, Record, records};
use metier_linux::Roots;
use metier_linux::wake::monotonic_ns;

/// How often buffers are emptied. At 1000 samples a second of the deepest stacks a buffer lasts a quarter of a second.
const EVERY: Duration = Duration::from_millis(100);
/// The name that the launcher of commands has.
const LAUNCHER: &str = "metier-launch";

/// How many samples there are.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub samples: u64,
    pub lost: u64,
}

pub(super) struct Sampler {
    stop: Sender<()>,
    thread: JoinHandle<State>,
}

impl Sampler {
    /// Starts it. `launcher` is not of the run; `there` are processes that have begun before.
    pub(super) fn start(
        roots: &Roots,
        events: Events,
        launcher: Option<u32>,
        there: &[u32],
    ) -> io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let (roots, there) = (roots.clone(), there.to_vec());
        let mut rings = events.rings;
        let thread = std::thread::Builder::new().name("metier-stacks".into()).spawn(move || {
            let mut state = State::new(&roots, launcher);
            there.iter().for_each(|pid| state.look_at(*pid));
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(EVERY) {
                state.drain(&mut rings, false);
            }
            state.drain(&mut rings, true);
            state
        })?;
        Ok(Self { stop, thread })
    }

    /// Ends it and gives what it collected; `None` if it was lost.
    pub(super) fn stop(self) -> Option<Collected> {
        drop(self.stop);
        let state = self.thread.join().ok()?;
        Some(Collected { counts: state.tally, state })
    }
}

pub(super) struct Collected {
    pub counts: Tally,
    state: State,
}

impl Collected {
    /// Finds the names and writes the stacks down.
    pub(super) fn fold(self, roots: &Roots) -> Folded {
        let State { stacks, mut modules, jit, .. } = self.state;
        let kernel = if stacks.has_kernel() { KernelSymbols::read(roots) } else { KernelSymbols::default() };
        stacks.fold(&mut modules, &kernel, &jit.read(roots))
    }
}

struct State {
    roots: Roots,
    launcher: Option<u32>,
    processes: Processes,
    modules: Modules,
    jit: JitFolders,
    stacks: Counts,
    tally: Tally,
    /// Records that wait for others.
    pending: Vec<(u64, Record)>,
    buffer: Vec<u8>,
}

impl State {
    fn new(roots: &Roots, launcher: Option<u32>) -> Self {
        Self {
            roots: roots.clone(),
            launcher,
            processes: Processes::default(),
            modules: Modules::new(roots),
            jit: JitFolders::default(),
            stacks: Counts::default(),
            tally: Tally::default(),
            pending: Vec::new(),
            buffer: Vec::new(),
        }
    }

    /// Learns of a process that has begun before what its records would have told.
    fn look_at(&mut self, pid: u32) {
        let process = self.roots.proc.join(pid.to_string());
        let Some(name) = metier_linux::file::text(process.join("comm")) else { return };
        self.processes.named(pid, pid, &name, false);
        let maps = std::fs::read_to_string(process.join("maps")).unwrap_or_default();
        for mapping in maps.lines().filter_map(|line| mapping(pid, line)) {
            self.processes.mapped(&mapping, &mut self.modules);
        }
    }

    fn drain(&mut self, rings: &mut [Ring], is_last: bool) {
        let now = monotonic_ns();
        for ring in rings {
            self.buffer.clear();
            ring.drain(&mut self.buffer);
            records(&self.buffer, &mut self.pending);
        }
        self.pending.sort_by_key(|(time, _)| *time);
        let ripe = match is_last {
            true => self.pending.len(),
            false => self.pending.partition_point(|(time, _)| *time <= now),
        };
        let young = self.pending.split_off(ripe);
        for (_, record) in std::mem::replace(&mut self.pending, young) {
            self.take(record);
        }
    }

    fn take(&mut self, record: Record) {
        match record {
            Record::Sample { pid, tid, kernel, user } => self.sample(pid, tid, &kernel, &user),
            Record::Mapped(mapping) => self.processes.mapped(&mapping, &mut self.modules),
            Record::Named { pid, tid, name, exec } => self.processes.named(pid, tid, &name, exec),
            Record::Forked { pid, parent, tid, parent_tid } => {
                self.processes.forked(pid, parent, tid, parent_tid);
            }
            Record::Ended { pid, tid } => self.processes.ended(pid, tid),
            Record::Lost(count) => self.tally.lost += count,
        }
    }

    fn sample(&mut self, pid: u32, tid: u32, kernel: &[u64], user: &[u64]) {
        if Some(pid) == self.launcher || pid == 0 {
            return;
        }
        let name = match self.processes.name(pid, tid) {
            // The launcher's child, before it becomes the command.
            Some(name) if name.starts_with(LAUNCHER) => return,
            None if self.tally.lost == 0 => return,
            Some(name) => name,
            None => Arc::from("[unknown]"),
        };
        self.tally.samples += 1;
        // All but the innermost are return addresses: the call is just before.
        let call = |(depth, address): (usize, &u64)| address.saturating_sub(u64::from(depth > 0));
        let mut frames: Vec<Frame> = kernel.iter().enumerate().map(call).map(Frame::Kernel).collect();
        for address in user.iter().enumerate().map(call) {
            let frame = self.processes.frame(pid, address);
            frames.push(frame);
            match frame {
                Frame::Loose(..) => self.jit.remember(&self.roots, pid),
                // A program without frame pointers uses their register for other things: what follows is noise.
                Frame::Nowhere => break,
                Frame::Code(..) | Frame::Kernel(_) => {}
            }
        }
        self.stacks.add(name, frames);
    }
}

/// An executable mapping out of a line of `/proc/PID/maps`.
fn mapping(pid: u32, line: &str) -> Option<Mapping> {
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    words.next().filter(|rights| rights.contains('x'))?;
    let offset = hex(words.next()?)?;
    let (major, minor) = words.next()?.split_once(':')?;
    let inode = words.next()?.parse().ok()?;
    let path = words.next().unwrap_or_default().trim_start().to_string();
    let start = hex(start)?;
    let file = (u32::try_from(hex(major)?).ok()?, u32::try_from(hex(minor)?).ok()?, inode);
    Some(Mapping { pid, start, length: hex(end)?.checked_sub(start)?, offset, file, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_that_can_be_executed_are_found_in_the_list_of_a_process() {
        let line = "7f1c2a000000-7f1c2a100000 r-xp 00028000 fd:01 1234   /usr/lib/x y.so";
        let found = mapping(7, line).unwrap();
        assert_eq!((found.start, found.length, found.offset), (0x7f1c_2a00_0000, 0x10_0000, 0x28000));
        assert_eq!((found.file, found.path.as_str()), ((0xfd, 1, 1234), "/usr/lib/x y.so"));
        assert_eq!(mapping(7, &line.replace("r-xp", "r--p")), None);
        assert_eq!(mapping(7, "nonsense"), None);
    }
}
