//! The thread that drains the ring buffers during the run.
//!
//! Each CPU has its own buffer, so records arrive out of order and are sorted by time. Records
//! younger than the start of a pass wait for the next pass, when all earlier records have arrived.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::code_modules::CodeModules;
use super::fold::{FoldedStacks, StackCounts, UnresolvedFrame};
use super::jit_symbols::JitMapFolders;
use super::kernel_symbols::KernelSymbols;
use super::perf_event::{PerfEvents, PerfRingBuffer};
use super::perf_record::{ExecutableMapping, PerfRecord, parse_records};
use super::sampled_processes::SampledProcesses;
use metier_linux::KernelRoots;
use metier_linux::wakeup::monotonic_ns;

/// Interval of draining. At 1000 samples per second of the deepest stacks, a buffer lasts 250 ms.
const DRAIN_INTERVAL: Duration = Duration::from_millis(100);
/// Thread name of the launcher of commands.
const LAUNCHER_NAME: &str = "metier-launch";

/// Counts of samples.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SampleCounts {
    pub samples: u64,
    pub lost: u64,
}

pub(super) struct StackSampler {
    stop: Sender<()>,
    thread: JoinHandle<SamplerState>,
}

impl StackSampler {
    /// Starts the thread. `launcher` is not part of the run; `there` are processes that already
    /// run.
    pub(super) fn start(
        roots: &KernelRoots,
        events: PerfEvents,
        launcher: Option<u32>,
        there: &[u32],
    ) -> io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let (roots, there) = (roots.clone(), there.to_vec());
        let mut rings = events.rings;
        let thread = std::thread::Builder::new().name("metier-stacks".into()).spawn(move || {
            let mut state = SamplerState::new(&roots, launcher);
            there.iter().for_each(|pid| state.add_existing_process(*pid));
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(DRAIN_INTERVAL) {
                state.drain_rings(&mut rings, false);
            }
            state.drain_rings(&mut rings, true);
            state
        })?;
        Ok(Self { stop, thread })
    }

    /// Ends the thread and returns the collected stacks; `None` if they were lost.
    pub(super) fn stop(self) -> Option<CollectedStacks> {
        drop(self.stop);
        let state = self.thread.join().ok()?;
        Some(CollectedStacks { counts: state.tally, state })
    }
}

pub(super) struct CollectedStacks {
    pub counts: SampleCounts,
    state: SamplerState,
}

impl CollectedStacks {
    /// Resolves the names and folds the stacks.
    pub(super) fn fold(self, roots: &KernelRoots) -> FoldedStacks {
        let SamplerState { stacks, mut modules, jit, .. } = self.state;
        let kernel = if stacks.has_kernel() { KernelSymbols::read(roots) } else { KernelSymbols::default() };
        stacks.fold_stacks(&mut modules, &kernel, &jit.read_symbols(roots))
    }
}

struct SamplerState {
    roots: KernelRoots,
    launcher: Option<u32>,
    processes: SampledProcesses,
    modules: CodeModules,
    jit: JitMapFolders,
    stacks: StackCounts,
    tally: SampleCounts,
    /// Records that wait for earlier ones.
    pending: Vec<(u64, PerfRecord)>,
    buffer: Vec<u8>,
}

impl SamplerState {
    fn new(roots: &KernelRoots, launcher: Option<u32>) -> Self {
        Self {
            roots: roots.clone(),
            launcher,
            processes: SampledProcesses::default(),
            modules: CodeModules::new(roots),
            jit: JitMapFolders::default(),
            stacks: StackCounts::default(),
            tally: SampleCounts::default(),
            pending: Vec::new(),
            buffer: Vec::new(),
        }
    }

    /// Adds a process that started before the first record.
    fn add_existing_process(&mut self, pid: u32) {
        let process = self.roots.proc.join(pid.to_string());
        let Some(name) = metier_linux::kernel_file::read_text(process.join("comm")) else { return };
        self.processes.set_thread_name(pid, pid, &name, false);
        let maps = std::fs::read_to_string(process.join("maps")).unwrap_or_default();
        for mapping in maps.lines().filter_map(|line| parse_maps_line(pid, line)) {
            self.processes.add_mapping(&mapping, &mut self.modules);
        }
    }

    fn drain_rings(&mut self, rings: &mut [PerfRingBuffer], is_last: bool) {
        let now = monotonic_ns();
        for ring in rings {
            self.buffer.clear();
            ring.drain(&mut self.buffer);
            parse_records(&self.buffer, &mut self.pending);
        }
        self.pending.sort_by_key(|(time, _)| *time);
        let ripe = match is_last {
            true => self.pending.len(),
            false => self.pending.partition_point(|(time, _)| *time <= now),
        };
        let young = self.pending.split_off(ripe);
        for (_, record) in std::mem::replace(&mut self.pending, young) {
            self.handle_record(record);
        }
    }

    fn handle_record(&mut self, record: PerfRecord) {
        match record {
            PerfRecord::Sample { pid, tid, kernel, user } => self.count_sample(pid, tid, &kernel, &user),
            PerfRecord::Mapped(mapping) => self.processes.add_mapping(&mapping, &mut self.modules),
            PerfRecord::Named { pid, tid, name, exec } => {
                self.processes.set_thread_name(pid, tid, &name, exec)
            }
            PerfRecord::Forked { pid, parent, tid, parent_tid } => {
                self.processes.add_fork(pid, parent, tid, parent_tid);
            }
            PerfRecord::Ended { pid, tid } => self.processes.mark_ended(pid, tid),
            PerfRecord::Lost(count) => self.tally.lost += count,
        }
    }

    fn count_sample(&mut self, pid: u32, tid: u32, kernel: &[u64], user: &[u64]) {
        if Some(pid) == self.launcher || pid == 0 {
            return;
        }
        let name = match self.processes.thread_name(pid, tid) {
            // The launcher's child, before it execs the command.
            Some(name) if name.starts_with(LAUNCHER_NAME) => return,
            None if self.tally.lost == 0 => return,
            Some(name) => name,
            None => Arc::from("[unknown]"),
        };
        self.tally.samples += 1;
        // All but the innermost are return addresses: the call is just before.
        let call = |(depth, address): (usize, &u64)| address.saturating_sub(u64::from(depth > 0));
        let mut frames: Vec<UnresolvedFrame> =
            kernel.iter().enumerate().map(call).map(UnresolvedFrame::Kernel).collect();
        for address in user.iter().enumerate().map(call) {
            let frame = self.processes.frame_at(pid, address);
            frames.push(frame);
            match frame {
                UnresolvedFrame::Anonymous(..) => self.jit.track_process(&self.roots, pid),
                // A program without frame pointers uses their register otherwise: the rest of the
                // chain is noise.
                UnresolvedFrame::Unmapped => break,
                UnresolvedFrame::Code(..) | UnresolvedFrame::Kernel(_) => {}
            }
        }
        self.stacks.count_stack(name, frames);
    }
}

/// An executable mapping out of a line of `/proc/PID/maps`.
fn parse_maps_line(pid: u32, line: &str) -> Option<ExecutableMapping> {
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
    Some(ExecutableMapping { pid, start, length: hex(end)?.checked_sub(start)?, offset, file, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_that_can_be_executed_are_found_in_the_list_of_a_process() {
        let line = "7f1c2a000000-7f1c2a100000 r-xp 00028000 fd:01 1234   /usr/lib/x y.so";
        let found = parse_maps_line(7, line).unwrap();
        assert_eq!((found.start, found.length, found.offset), (0x7f1c_2a00_0000, 0x10_0000, 0x28000));
        assert_eq!((found.file, found.path.as_str()), ((0xfd, 1, 1234), "/usr/lib/x y.so"));
        assert_eq!(parse_maps_line(7, &line.replace("r-xp", "r--p")), None);
        assert_eq!(parse_maps_line(7, "nonsense"), None);
    }
}
