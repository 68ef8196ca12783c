//! Who used the processors between two looks: every process of `/proc`, joined by command and by the container, pod, run or unit around it.
//!
//! What a process used is the growth of its own counters. What its children used that ended meanwhile falls to it: the kernel adds their time to the parent
//! that waits for them, and what earlier looks saw of them is taken out again. What nobody can be found for (interrupts, processes that ended unseen) is
//! `unseen`, so that all together is what the processors did.
//!
//! A look costs one small read for each process; whose a process is is read when it is met and when it becomes another program. Bounded: processes of a look.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use metier_types::Seconds;

use crate::Roots;
use crate::cgroup::naming::{self, Kind};
use crate::file::Held;
use crate::proc_stat::{self, CpuTimes};

/// Processes of a look.
const MOST_PROCESSES: usize = 32_768;
/// The most that is read of a file.
const FILE_BYTES: u64 = 16 << 10;
/// The command of all kernel threads.
const KERNEL: &str = "[kernel]";

/// A command, and what is around it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Who {
    /// Its name, as the kernel cuts it.
    pub name: String,
    /// The container, pod, run or unit that it is in.
    pub owner: Option<Kind>,
}

/// What a command used between two looks.
#[derive(Debug, Clone, PartialEq)]
pub struct Used {
    pub who: Arc<Who>,
    /// Processes that it has now.
    pub processes: u32,
    pub cpu: Seconds,
}

/// What was used between two looks.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// Time between the looks.
    pub elapsed: Seconds,
    /// Time that all processors together were busy; `None` where the kernel does not say.
    pub busy: Option<Seconds>,
    /// Those that used any.
    pub used: Vec<Used>,
    /// What of `busy` nobody was found for.
    pub unseen: Seconds,
    /// Processes that were not looked at.
    pub left_out: u64,
}

#[derive(Debug)]
struct Seen {
    started: u64,
    own: u64,
    children: u64,
    parent: u32,
    who: Arc<Who>,
    look: u64,
}

/// The processes of this host.
#[derive(Debug)]
pub struct Consumers {
    proc: PathBuf,
    stat: Option<Held>,
    tick: f64,
    seen: HashMap<u32, Seen>,
    names: HashSet<Arc<Who>>,
    last: Option<(Instant, Option<u64>)>,
    look: u64,
    buffer: Vec<u8>,
}

/// What one process used, in ticks.
struct Grown {
    pid: u32,
    who: Arc<Who>,
    own: u64,
    /// By children that ended; with what was seen of them before.
    children: u64,
}

impl Consumers {
    /// Those below a `/proc`.
    pub fn new(roots: &Roots) -> Self {
        Self {
            proc: roots.proc.clone(),
            stat: Held::open(roots.proc.join("stat")),
            tick: proc_stat::ticks_per_second() as f64,
            seen: HashMap::new(),
            names: HashSet::new(),
            last: None,
            look: 0,
            buffer: Vec::new(),
        }
    }

    /// Looks at every process; `None` the first time, when there is nothing to compare with.
    pub fn look(&mut self) -> Option<Look> {
        self.look += 1;
        let now = Instant::now();
        let busy = self.stat.as_mut().and_then(|held| Some(CpuTimes::of_host(held.text()?)?.busy()));
        let is_first = self.last.is_none();
        let mut grown = Vec::new();
        let mut left_out = 0;
        for pid in proc_stat::pids(&self.proc) {
            if grown.len() >= MOST_PROCESSES {
                left_out += 1;
                continue;
            }
            grown.extend(self.note(pid, is_first));
        }
        let ended = self.ended();
        let (look, names) = (self.look, &mut self.names);
        self.seen.retain(|_, seen| seen.look == look);
        let (then, before) = self.last.replace((now, busy))?;
        let busy = busy.zip(before).map(|(now, before)| now.saturating_sub(before));
        let (used, unseen) = joined(grown, &ended, busy, self.tick);
        names.retain(|who| Arc::strong_count(who) > 1);
        let seconds = |ticks: u64| Seconds(ticks as f64 / self.tick);
        Some(Look {
            elapsed: Seconds((now - then).as_secs_f64()),
            busy: busy.map(seconds),
            used,
            unseen: Seconds(unseen),
            left_out,
        })
    }

    /// Reads one process; `None` where it is gone.
    fn note(&mut self, pid: u32, is_first: bool) -> Option<Grown> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let grown = self.noted(pid, is_first, &mut buffer);
        self.buffer = buffer;
        grown
    }

    fn noted(&mut self, pid: u32, is_first: bool, buffer: &mut Vec<u8>) -> Option<Grown> {
        let folder = self.proc.join(pid.to_string());
        let stat = proc_stat::read_into(&self.proc, pid, buffer)?;
        let is_kernel = stat.is_kernel_thread(pid);
        let name = if is_kernel { KERNEL } else { &stat.name };
        let (own_now, children_now) = (stat.cpu_ticks(), stat.children_ticks);
        let (started, parent) = (stat.start_ticks, stat.parent);
        let earlier = self.seen.get(&pid).filter(|seen| seen.started == started);
        let (own, children) = match earlier {
            Some(seen) => (own_now.saturating_sub(seen.own), children_now.saturating_sub(seen.children)),
            // What it used before anybody looked is of no interest; one that is new began since.
            None if is_first => (0, 0),
            None => (own_now, children_now),
        };
        let known = earlier.filter(|seen| seen.who.name == name).map(|seen| seen.who.clone());
        let new_name = if known.is_none() { name.to_string() } else { String::new() };
        let who = match known {
            Some(who) => who,
            None => {
                let owner = if is_kernel { None } else { owner(&folder, buffer) };
                self.named(Who { name: new_name, owner })
            }
        };
        let look = self.look;
        let now = Seen { started, own: own_now, children: children_now, parent, who: who.clone(), look };
        self.seen.insert(pid, now);
        Some(Grown { pid, who, own, children })
    }

    /// One text for all processes of a command.
    fn named(&mut self, who: Who) -> Arc<Who> {
        match self.names.get(&who) {
            Some(known) => known.clone(),
            None => {
                let who = Arc::new(who);
                self.names.insert(who.clone());
                who
            }
        }
    }

    /// What was seen of processes that are gone, by the nearest ancestor that is still there: the kernel has added their time to it.
    fn ended(&self) -> HashMap<u32, u64> {
        let is_here = |pid: &u32| self.seen.get(pid).is_some_and(|seen| seen.look == self.look);
        let mut ended: HashMap<u32, u64> = HashMap::new();
        for gone in self.seen.values().filter(|seen| seen.look != self.look) {
            let mut ancestor = gone.parent;
            // A chain of parents has an end, unless numbers were given again.
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

/// Joins what processes used by command. Children that ended never make it more than the processors did.
fn joined(grown: Vec<Grown>, ended: &HashMap<u32, u64>, busy: Option<u64>, tick: f64) -> (Vec<Used>, f64) {
    let own: u64 = grown.iter().map(|one| one.own).sum();
    let inherited =
        |one: &Grown| one.children.saturating_sub(ended.get(&one.pid).copied().unwrap_or_default());
    let all: u64 = grown.iter().map(inherited).sum();
    let room = busy.map_or(all, |busy| busy.saturating_sub(own));
    let part = if all > room { room as f64 / all as f64 } else { 1.0 };
    let mut by: HashMap<Arc<Who>, (u32, f64)> = HashMap::new();
    for one in &grown {
        let entry = by.entry(one.who.clone()).or_default();
        entry.0 += 1;
        entry.1 += one.own as f64 + inherited(one) as f64 * part;
    }
    let seen = own as f64 + all as f64 * part;
    let unseen = busy.map_or(0.0, |busy| (busy as f64 - seen).max(0.0)) / tick;
    let mut used: Vec<Used> = by
        .into_iter()
        .filter(|(_, (_, ticks))| *ticks > 0.0)
        .map(|(who, (processes, ticks))| Used { who, processes, cpu: Seconds(ticks / tick) })
        .collect();
    used.sort_by(|a, b| b.cpu.get().total_cmp(&a.cpu.get()).then_with(|| a.who.cmp(&b.who)));
    (used, unseen)
}

/// The container, pod, run or unit around a process.
fn owner(folder: &std::path::Path, buffer: &mut Vec<u8>) -> Option<Kind> {
    read(&folder.join("cgroup"), buffer)?;
    let text = String::from_utf8_lossy(buffer);
    let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let mut unit = None;
    for named in paths.filter_map(naming::around) {
        match named.kind {
            Kind::Unit(_) => unit = unit.or(Some(named.kind)),
            other => return Some(other),
        }
    }
    unit
}

fn read(path: &std::path::Path, buffer: &mut Vec<u8>) -> Option<()> {
    buffer.clear();
    File::open(path).ok()?.take(FILE_BYTES).read_to_end(buffer).ok()?;
    Some(())
}
