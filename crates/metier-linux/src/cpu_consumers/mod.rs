//! CPU consumers of the host between two samples: every process of `/proc`, grouped by command and
//! by its container, pod, run or unit.
//!
//! A process used the growth of its own counters. The kernel adds the time of ended children to the
//! parent that waits for them, so it is attributed to that parent, minus the part that earlier
//! samples had already attributed. Time without a process (interrupts, processes that started and
//! ended between samples) is `unseen`, so that the sum equals the busy time of the processors.
//!
//! A sample costs one small read per process. The owner of a process is read when the process is
//! new or executes another program. The number of processes per sample is bounded.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use metier_types::Seconds;

use crate::KernelRoots;
use crate::cgroup::group_identity::{self, CgroupKind};
use crate::kernel_file::KernelFile;
use crate::proc_stat::{self, CpuTimes};

/// Largest number of processes per sample.
const MAX_PROCESSES: usize = 32_768;
/// Largest number of bytes read from a file.
const MAX_FILE_BYTES: u64 = 16 << 10;
/// Command name for all kernel threads.
const KERNEL_COMMAND: &str = "[kernel]";

/// A command with its owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConsumerIdentity {
    /// Command name, truncated by the kernel.
    pub name: String,
    /// The container, pod, run or unit of its processes.
    pub owner: Option<CgroupKind>,
}

/// CPU use of a command between two samples.
#[derive(Debug, Clone, PartialEq)]
pub struct ConsumerUsage {
    pub identity: Arc<ConsumerIdentity>,
    /// Current number of its processes.
    pub processes: u32,
    pub cpu: Seconds,
}

/// CPU use of the host between two samples.
#[derive(Debug, Clone, PartialEq)]
pub struct ConsumerInterval {
    /// Time between the samples.
    pub elapsed: Seconds,
    /// Busy time of all processors; `None` if the kernel does not report it.
    pub busy: Option<Seconds>,
    /// Commands with a CPU time above 0.
    pub used: Vec<ConsumerUsage>,
    /// Part of `busy` without a process.
    pub unseen: Seconds,
    /// Processes beyond the limit, not read.
    pub left_out: u64,
}

#[derive(Debug)]
struct TrackedProcess {
    started: u64,
    own: u64,
    children: u64,
    parent: u32,
    identity: Arc<ConsumerIdentity>,
    look: u64,
}

/// CPU use of this host's processes.
#[derive(Debug)]
pub struct CpuConsumers {
    proc: PathBuf,
    stat: Option<KernelFile>,
    tick: f64,
    seen: HashMap<u32, TrackedProcess>,
    names: HashSet<Arc<ConsumerIdentity>>,
    last: Option<(Instant, Option<u64>)>,
    look: u64,
    buffer: Vec<u8>,
}

/// CPU time of one process between two samples, in ticks.
struct ProcessGrowth {
    pid: u32,
    identity: Arc<ConsumerIdentity>,
    own: u64,
    /// Time of ended children, including the part that earlier samples attributed.
    children: u64,
}

impl CpuConsumers {
    /// Creates a reader without an earlier sample.
    pub fn new(roots: &KernelRoots) -> Self {
        Self {
            proc: roots.proc.clone(),
            stat: KernelFile::open(roots.proc.join("stat")),
            tick: proc_stat::ticks_per_second() as f64,
            seen: HashMap::new(),
            names: HashSet::new(),
            last: None,
            look: 0,
            buffer: Vec::new(),
        }
    }

    /// Samples every process; `None` for the first sample, which has no earlier one to compare
    /// with.
    pub fn sample(&mut self) -> Option<ConsumerInterval> {
        self.look += 1;
        let now = Instant::now();
        let busy = self.stat.as_mut().and_then(|held| Some(CpuTimes::parse_host(held.read_text()?)?.busy()));
        let is_first = self.last.is_none();
        let mut grown = Vec::new();
        let mut left_out = 0;
        for pid in proc_stat::list_pids(&self.proc) {
            if grown.len() >= MAX_PROCESSES {
                left_out += 1;
                continue;
            }
            grown.extend(self.read_process(pid, is_first));
        }
        let ended = self.ended_children_ticks();
        let (look, names) = (self.look, &mut self.names);
        self.seen.retain(|_, seen| seen.look == look);
        let (then, before) = self.last.replace((now, busy))?;
        let busy = busy.zip(before).map(|(now, before)| now.saturating_sub(before));
        let (used, unseen) = join_by_command(grown, &ended, busy, self.tick);
        names.retain(|identity| Arc::strong_count(identity) > 1);
        let seconds = |ticks: u64| Seconds(ticks as f64 / self.tick);
        Some(ConsumerInterval {
            elapsed: Seconds((now - then).as_secs_f64()),
            busy: busy.map(seconds),
            used,
            unseen: Seconds(unseen),
            left_out,
        })
    }

    /// Reads one process; `None` if it has ended.
    fn read_process(&mut self, pid: u32, is_first: bool) -> Option<ProcessGrowth> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let grown = self.read_process_into(pid, is_first, &mut buffer);
        self.buffer = buffer;
        grown
    }

    fn read_process_into(&mut self, pid: u32, is_first: bool, buffer: &mut Vec<u8>) -> Option<ProcessGrowth> {
        let folder = self.proc.join(pid.to_string());
        let stat = proc_stat::read_into(&self.proc, pid, buffer)?;
        let is_kernel = stat.is_kernel_thread(pid);
        let name = if is_kernel { KERNEL_COMMAND } else { &stat.name };
        let (own_now, children_now) = (stat.cpu_ticks(), stat.children_ticks);
        let (started, parent) = (stat.start_ticks, stat.parent);
        let earlier = self.seen.get(&pid).filter(|seen| seen.started == started);
        let (own, children) = match earlier {
            Some(seen) => (own_now.saturating_sub(seen.own), children_now.saturating_sub(seen.children)),
            // Time before the first sample is ignored; a process that is new since then counts in
            // full.
            None if is_first => (0, 0),
            None => (own_now, children_now),
        };
        let known = earlier.filter(|seen| seen.identity.name == name).map(|seen| seen.identity.clone());
        let new_name = if known.is_none() { name.to_string() } else { String::new() };
        let identity = match known {
            Some(identity) => identity,
            None => {
                let owner = if is_kernel { None } else { find_owner(&folder, buffer) };
                self.intern_identity(ConsumerIdentity { name: new_name, owner })
            }
        };
        let look = self.look;
        let now = TrackedProcess {
            started,
            own: own_now,
            children: children_now,
            parent,
            identity: identity.clone(),
            look,
        };
        self.seen.insert(pid, now);
        Some(ProcessGrowth { pid, identity, own, children })
    }

    /// Returns one shared identity for all processes of a command.
    fn intern_identity(&mut self, identity: ConsumerIdentity) -> Arc<ConsumerIdentity> {
        match self.names.get(&identity) {
            Some(known) => known.clone(),
            None => {
                let identity = Arc::new(identity);
                self.names.insert(identity.clone());
                identity
            }
        }
    }

    /// Time already attributed to ended processes, by their nearest living ancestor: the kernel has
    /// added their time to it.
    fn ended_children_ticks(&self) -> HashMap<u32, u64> {
        let is_here = |pid: &u32| self.seen.get(pid).is_some_and(|seen| seen.look == self.look);
        let mut ended: HashMap<u32, u64> = HashMap::new();
        for gone in self.seen.values().filter(|seen| seen.look != self.look) {
            let mut ancestor = gone.parent;
            // The loop is bounded because reused pids could form a cycle.
            for _ in 0..64 {
                match self.seen.get(&ancestor) {
                    Some(parent) if !is_here(&ancestor) => ancestor = parent.parent,
                    _ => break,
                }
            }
            *ended.entry(ancestor).or_default() += gone.own + gone.children;
        }
        ended
    }
}

/// Groups the use of processes by command. Time of ended children is scaled down so that the sum
/// does not exceed the busy time.
fn join_by_command(
    grown: Vec<ProcessGrowth>,
    ended: &HashMap<u32, u64>,
    busy: Option<u64>,
    tick: f64,
) -> (Vec<ConsumerUsage>, f64) {
    let own: u64 = grown.iter().map(|growth| growth.own).sum();
    let inherited = |growth: &ProcessGrowth| {
        growth.children.saturating_sub(ended.get(&growth.pid).copied().unwrap_or_default())
    };
    let all: u64 = grown.iter().map(inherited).sum();
    let room = busy.map_or(all, |busy| busy.saturating_sub(own));
    let part = if all > room { room as f64 / all as f64 } else { 1.0 };
    let mut by: HashMap<Arc<ConsumerIdentity>, (u32, f64)> = HashMap::new();
    for process_growth in &grown {
        let entry = by.entry(process_growth.identity.clone()).or_default();
        entry.0 += 1;
        entry.1 += process_growth.own as f64 + inherited(process_growth) as f64 * part;
    }
    let seen = own as f64 + all as f64 * part;
    let unseen = busy.map_or(0.0, |busy| (busy as f64 - seen).max(0.0)) / tick;
    let mut used: Vec<ConsumerUsage> = by
        .into_iter()
        .filter(|(_, (_, ticks))| *ticks > 0.0)
        .map(|(identity, (processes, ticks))| ConsumerUsage {
            identity,
            processes,
            cpu: Seconds(ticks / tick),
        })
        .collect();
    used.sort_by(|a, b| b.cpu.get().total_cmp(&a.cpu.get()).then_with(|| a.identity.cmp(&b.identity)));
    (used, unseen)
}

/// The container, pod, run or unit of a process.
fn find_owner(folder: &std::path::Path, buffer: &mut Vec<u8>) -> Option<CgroupKind> {
    read_file(&folder.join("cgroup"), buffer)?;
    let text = String::from_utf8_lossy(buffer);
    let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let mut unit = None;
    for named in paths.filter_map(group_identity::identify_enclosing) {
        match named.kind {
            CgroupKind::Unit(_) => unit = unit.or(Some(named.kind)),
            other => return Some(other),
        }
    }
    unit
}

fn read_file(path: &std::path::Path, buffer: &mut Vec<u8>) -> Option<()> {
    buffer.clear();
    File::open(path).ok()?.take(MAX_FILE_BYTES).read_to_end(buffer).ok()?;
    Some(())
}
