//! Samples the processes of the run and builds its process tree.
//!
//! A walk reads a few files of each living process. Its measured cost determines when the next one
//! may start, so that walking takes a small share of the time: a smaller share if events report
//! every process anyway.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use metier_types::schema::RecordSchema;
use metier_types::{Bytes, ExtraFields, ProcessRecord, ProcessSource, ProcessTree, RunId, Seconds};

use metier_linux::cgroup::RunCgroup;
use metier_linux::kernel_file::kib_field;
use metier_linux::proc_stat;
use metier_linux::process_events::ProcessRoot;
use metier_linux::process_events::{MAX_LISTED_PROCESSES, ProcessWatch};

/// Maximum number of processes in one walk.
const MAX_WALKED: usize = 1024;
/// Walking takes at most one part in this many of the time: with events, and without them.
const WALK_PAUSE_FACTORS: (u32, u32) = (10_000, 3_000);

/// A process as seen by walks.
#[derive(Debug, Clone)]
struct ProcessSighting {
    parent: u32,
    name: String,
    command: Option<String>,
    first: Seconds,
    last: Seconds,
    cpu: Option<Seconds>,
    peak: Option<u64>,
    called: Option<(u64, u64)>,
    stored: Option<(u64, u64)>,
    queued_ns: Option<u64>,
}

/// Sums of a walk over all living processes.
#[derive(Debug, Clone, Copy, Default)]
pub struct WalkTotals {
    pub processes: u64,
    /// Sum of their resident memory; shared pages count more than once.
    pub resident: u64,
    /// Bytes read from and written to storage so far, over living and ended processes as last seen.
    pub stored: Option<(u64, u64)>,
}

/// Walks the run's living processes.
pub struct ProcessWalker {
    proc: PathBuf,
    root: ProcessRoot,
    /// Processes above the run; they are not parents in its tree.
    above: Vec<u32>,
    tick: f64,
    page: u64,
    next: Instant,
    share: u32,
    has_events: bool,
    seen: HashMap<u32, ProcessSighting>,
    /// Largest sum of resident memory.
    pub peak_resident: Option<u64>,
    /// Traffic of the run's own network namespace, bytes received and sent, where it has one.
    pub network: Option<(u64, u64)>,
    own_network: Option<String>,
}

impl ProcessWalker {
    /// A walker of a run's processes.
    pub fn new(proc: &Path, root: &ProcessRoot, has_events: bool) -> Self {
        let parent = |pid: &u32| Some(proc_stat::read_process(proc, *pid)?.parent);
        let above = match root {
            ProcessRoot::DescendantsOf(launcher) => vec![*launcher],
            ProcessRoot::Processes(pids) => pids.iter().filter_map(parent).collect(),
        };
        // SAFETY: sysconf takes and returns plain numbers.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        Self {
            proc: proc.into(),
            root: root.clone(),
            above,
            tick: proc_stat::ticks_per_second() as f64,
            page: if page > 0 { page as u64 } else { 4096 },
            next: Instant::now(),
            share: if has_events { WALK_PAUSE_FACTORS.0 } else { WALK_PAUSE_FACTORS.1 },
            has_events,
            seen: HashMap::new(),
            peak_resident: None,
            network: None,
            own_network: network_namespace(proc, "self"),
        }
    }

    /// Living processes of the run: those in its control group, or below the launcher if it has
    /// none.
    pub fn living_pids(&self, group: Option<&RunCgroup>) -> Vec<u32> {
        group.map_or_else(
            || match &self.root {
                ProcessRoot::DescendantsOf(launcher) => descendants(&self.proc, *launcher),
                ProcessRoot::Processes(pids) => {
                    let living =
                        pids.iter().filter(|pid| proc_stat::read_process(&self.proc, **pid).is_some());
                    living.flat_map(|pid| [vec![*pid], descendants(&self.proc, *pid)].concat()).collect()
                }
            },
            |group| {
                // A container's launcher is in its control group, but not part of the run.
                let mut members = group.list_members();
                members.retain(|pid| self.root != ProcessRoot::DescendantsOf(*pid));
                members
            },
        )
    }

    /// Walks if it is due.
    pub fn walk(&mut self, group: Option<&RunCgroup>, since_start: Duration) -> Option<WalkTotals> {
        let begun = Instant::now();
        if begun < self.next {
            return None;
        }
        let pids = self.living_pids(group);
        let now = Seconds(since_start.as_secs_f64());
        let mut walked = WalkTotals { processes: pids.len() as u64, ..WalkTotals::default() };
        for pid in pids.into_iter().take(MAX_WALKED) {
            self.sample_process(pid, now, &mut walked);
        }
        walked.stored = self.storage_traffic();
        self.peak_resident = self.peak_resident.max(Some(walked.resident));
        // Frequent at first, because short runs would otherwise be missed, then increasingly rare.
        let pause = (begun.elapsed() * self.share).min(since_start / 2).max(Duration::from_millis(20));
        self.next = Instant::now() + pause;
        Some(walked)
    }

    fn sample_process(&mut self, pid: u32, now: Seconds, walked: &mut WalkTotals) {
        let folder = self.proc.join(pid.to_string());
        let Some(stat) = proc_stat::read_process(&self.proc, pid) else {
            return;
        };
        walked.resident += stat.resident_pages * self.page;
        let is_new = !self.seen.contains_key(&pid);
        if is_new && self.seen.len() >= MAX_LISTED_PROCESSES {
            return;
        }
        let sighting = self.seen.entry(pid).or_insert_with(|| ProcessSighting {
            parent: stat.parent,
            name: String::new(),
            command: None,
            first: now,
            last: now,
            cpu: None,
            peak: None,
            called: None,
            stored: None,
            queued_ns: None,
        });
        // A new name means a new program: its command line has changed, and maybe its namespaces.
        let is_changed = is_new || sighting.name != stat.name;
        if is_changed {
            sighting.command = command_line(&folder);
            sighting.name = stat.name.to_string();
        }
        sighting.last = now;
        sighting.cpu = Some(Seconds(stat.cpu_ticks() as f64 / self.tick));
        sighting.peak = sighting.peak.max(Some(stat.resident_pages * self.page));
        if let Some((called, stored)) =
            fs::read_to_string(folder.join("io")).ok().as_deref().and_then(parse_io)
        {
            sighting.called = Some(called);
            sighting.stored = Some(stored);
        }
        // Events bring it for every process, at its end.
        if !self.has_events {
            sighting.queued_ns = sighting.queued_ns.max(proc_stat::run_queue_ns(&self.proc, pid));
        }
        if is_changed || self.network.is_some() {
            self.sample_network(pid, &folder);
        }
    }

    /// A run in its own network namespace has its own counters.
    fn sample_network(&mut self, pid: u32, folder: &Path) {
        let theirs = network_namespace(&self.proc, &pid.to_string());
        if theirs.is_some()
            && self.own_network.is_some()
            && theirs != self.own_network
            && let Ok(text) = fs::read_to_string(folder.join("net/dev"))
        {
            let (received, sent) = network_bytes(&text);
            let (r, s) = self.network.unwrap_or_default();
            self.network = Some((received.max(r), sent.max(s)));
        }
    }

    /// Bytes read and written through system calls, over all processes as last seen.
    pub fn call_traffic(&self) -> Option<(u64, u64)> {
        let all = self.seen.values().filter_map(|s| s.called);
        all.fold(None, |sum, (r, w)| sum.map_or(Some((r, w)), |(x, y)| Some((x + r, y + w))))
    }

    /// Bytes read from and written to storage, over all processes as last seen.
    pub fn storage_traffic(&self) -> Option<(u64, u64)> {
        let all = self.seen.values().filter_map(|s| s.stored);
        all.fold(None, |sum, (r, w)| sum.map_or(Some((r, w)), |(x, y)| Some((x + r, y + w))))
    }

    /// Time in the run queue, over all processes as last seen.
    pub fn queued_ns(&self) -> Option<u64> {
        self.seen.values().filter_map(|s| s.queued_ns).reduce(|sum, queued| sum + queued)
    }

    /// Number of processes that walks have seen.
    pub fn process_count(&self) -> u64 {
        self.seen.len() as u64
    }

    /// Builds the process tree: from events if available, completed by walks.
    pub fn build_tree(&self, run: RunId, watch: Option<&ProcessWatch>, started_ns: u64) -> ProcessTree {
        let mut tree = ProcessTree {
            schema: RecordSchema::new(),
            run,
            source: ProcessSource::Sampled,
            total: self.process_count(),
            omitted: 0,
            processes: Vec::new(),
            extra: ExtraFields::new(),
        };
        if let Some(watch) = watch.filter(|watch| watch.total() > 0) {
            tree.source = ProcessSource::Events;
            tree.total = watch.total();
            tree.omitted = watch.unlisted();
            tree.processes = watch.list().iter().map(|seen| seen.to_process(started_ns)).collect();
            for process in &mut tree.processes {
                if let Some(sighting) = self.seen.get(&process.pid) {
                    process.command = sighting.command.clone();
                    process.cpu_seconds = process.cpu_seconds.or(sighting.cpu);
                    process.peak_resident_bytes = process.peak_resident_bytes.or(sighting.peak.map(Bytes));
                }
            }
            return tree;
        }
        tree.processes =
            self.seen.iter().map(|(pid, sighting)| sighting.to_process(*pid, &self.above)).collect();
        tree.processes.sort_by(|a, b| {
            a.started_seconds.get().total_cmp(&b.started_seconds.get()).then(a.pid.cmp(&b.pid))
        });
        tree
    }
}

impl ProcessSighting {
    fn to_process(&self, pid: u32, above: &[u32]) -> ProcessRecord {
        ProcessRecord {
            pid,
            parent: (!above.contains(&self.parent) && self.parent != 0).then_some(self.parent),
            name: self.name.clone(),
            command: self.command.clone(),
            started_seconds: self.first,
            ended_seconds: Some(self.last),
            cpu_seconds: self.cpu,
            peak_resident_bytes: self.peak.map(Bytes),
            read_bytes: self.stored.map(|(read, _)| Bytes(read)),
            written_bytes: self.stored.map(|(_, written)| Bytes(written)),
            exit_code: None,
            signal: None,
            extra: ExtraFields::new(),
        }
    }
}

/// When a process started, by the monotonic clock, to within a clock tick.
pub(crate) fn process_start_ns(proc: &Path, pid: u32) -> Option<u64> {
    let ticks = proc_stat::read_process(proc, pid)?.start_ticks;
    let since_boot = ticks.checked_mul(1_000_000_000 / proc_stat::ticks_per_second())?;
    let asleep = metier_linux::wakeup::boottime_ns().saturating_sub(metier_linux::wakeup::monotonic_ns());
    Some(since_boot.saturating_sub(asleep))
}

/// All descendants of a process, by parent PID.
fn descendants(proc: &Path, of: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut buffer = Vec::new();
    for pid in proc_stat::list_pids(proc) {
        if let Some(stat) = proc_stat::read_into(proc, pid, &mut buffer) {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut next = vec![of];
    while let Some(parent) = next.pop() {
        let below = children.remove(&parent).unwrap_or_default();
        found.extend(&below);
        next.extend(below);
    }
    found
}

fn command_line(folder: &Path) -> Option<String> {
    let bytes = fs::read(folder.join("cmdline")).ok()?;
    let words: Vec<_> =
        bytes.split(|byte| *byte == 0).filter(|w| !w.is_empty()).map(String::from_utf8_lossy).collect();
    let text: String = words.join(" ").chars().take(1000).collect();
    (!text.is_empty()).then_some(text)
}

/// From `/proc/PID/io`: bytes through system calls, and bytes from and to storage.
fn parse_io(text: &str) -> Option<((u64, u64), (u64, u64))> {
    // The fields have no unit, unlike those of meminfo.
    let field = |key: &str| kib_field(text, key).map(|bytes| bytes / 1024);
    Some(((field("rchar")?, field("wchar")?), (field("read_bytes")?, field("write_bytes")?)))
}

fn network_namespace(proc: &Path, process: &str) -> Option<String> {
    let link = fs::read_link(proc.join(process).join("ns/net")).ok()?;
    Some(link.to_string_lossy().into_owned())
}

/// Same as [`network_bytes`], but `None` if loopback is the only interface: an engine removes the
/// others at the end.
pub(crate) fn own_network_bytes(text: &str) -> Option<(u64, u64)> {
    let names = text.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim());
    names.clone().any(|name| name != "lo").then(|| network_bytes(text))
}

/// Bytes received and sent over all interfaces but loopback in a `net/dev`.
fn network_bytes(text: &str) -> (u64, u64) {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| name.trim() != "lo")
        .filter_map(|(_, rest)| {
            let fields: Vec<u64> = rest.split_whitespace().filter_map(|field| field.parse().ok()).collect();
            Some((*fields.first()?, *fields.get(8)?))
        })
        .fold((0, 0), |(r, s), (received, sent)| (r + received, s + sent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_traffic_does_not_count() {
        let text = "Inter-|   Receive\n face |bytes\n    lo: 100 1 0 0 0 0 0 0 100 1 0 0 0 0 0 0\n  eth0: 7 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n";
        assert_eq!(network_bytes(text), (7, 9));
    }

    #[test]
    fn io_figures_have_no_unit() {
        let text = "rchar: 10\nwchar: 20\nsyscr: 1\nsyscw: 1\nread_bytes: 4096\nwrite_bytes: 8192\n";
        assert_eq!(parse_io(text), Some(((10, 20), (4096, 8192))));
    }
}
