//! Processes by command: CPU time, memory, threads, IO.
//!
//! A pid becomes a label only on request, since each process would add a series. Counters sum the
//! growth of each process between two scans, so they never fall when a process ends. Use after a
//! process's last scan is not counted. The page shows the leading commands by recent CPU time or by
//! memory. A command that falls behind stays for some scans, so that series do not flicker.
//!
//! Bounded: processes of a scan, commands shown. Kernel threads count as one command.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use metier_linux::proc_stat::{self, ProcessStat};
use metier_types::{Bytes, Seconds};

use super::cgroup_usage;

/// Most processes of a scan.
const MAX_PROCESSES: usize = 32_768;
/// Commands with more processes than this have no IO figures; reading them would cost too much.
const MAX_IO_PROCESSES: u64 = 32;
/// Scans for which a command stays after it fell behind.
const SHOWN_SCANS: u32 = 20;
/// Weight of earlier scans' CPU time in the ranking.
const CPU_TIME_DECAY: f64 = 0.9;
/// Command name for all kernel threads.
const KERNEL_COMMAND: &str = "[kernel]";

/// Resource use of a command.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CommandUsage {
    /// Its name, truncated by the kernel.
    pub name: String,
    /// Its pid, if processes are shown one by one.
    pub pid: Option<u32>,
    /// CPU time in user mode.
    pub user: Seconds,
    /// CPU time in kernel mode.
    pub system: Seconds,
    /// Resident memory; shared pages count for each process.
    pub resident: Bytes,
    pub processes: u64,
    pub threads: u64,
    /// Bytes read from and written to devices, if known.
    pub io: Option<(Bytes, Bytes)>,
}

#[derive(Debug, Default)]
struct CommandAccount {
    pid: Option<u32>,
    user: u64,
    system: u64,
    read: u64,
    written: u64,
    has_io: bool,
    resident: u64,
    processes: u64,
    threads: u64,
    recent: f64,
    shown: u32,
}

#[derive(Debug)]
struct ScannedProcess {
    started: u64,
    user: u64,
    system: u64,
    io: Option<(u64, u64)>,
    account: Arc<str>,
    scan: u64,
}

/// The processes of this host.
#[derive(Debug)]
pub struct ProcessScanner {
    proc: PathBuf,
    most: usize,
    by_pid: bool,
    tick: f64,
    page: u64,
    scan: u64,
    seen: HashMap<u32, ScannedProcess>,
    accounts: HashMap<Arc<str>, CommandAccount>,
    /// Processes of the last scan that were left out.
    pub left_out: u64,
    /// Commands of the last scan that are not shown.
    pub not_shown: u64,
    /// Processes of the last scan.
    pub total: u64,
}

impl ProcessScanner {
    /// Scans the processes below a `/proc`; shows `most` commands by CPU time and as many by
    /// memory.
    pub fn new(proc: PathBuf, most: usize, by_pid: bool) -> Self {
        Self {
            proc,
            most,
            by_pid,
            tick: proc_stat::ticks_per_second() as f64,
            page: rustix::param::page_size() as u64,
            scan: 0,
            seen: HashMap::new(),
            accounts: HashMap::new(),
            left_out: 0,
            not_shown: 0,
            total: 0,
        }
    }

    /// Scans all processes.
    pub fn scan(&mut self, buffer: &mut Vec<u8>) {
        self.scan += 1;
        (self.left_out, self.total) = (0, 0);
        for account in self.accounts.values_mut() {
            (account.resident, account.processes, account.threads) = (0, 0, 0);
            account.recent *= CPU_TIME_DECAY;
        }
        for pid in proc_stat::list_pids(&self.proc) {
            if self.total as usize >= MAX_PROCESSES {
                self.left_out += 1;
                continue;
            }
            let stat = proc_stat::read_into(&self.proc, pid, buffer);
            // A zombie uses nothing.
            let Some(stat) = stat.filter(|stat| !stat.has_ended()) else { continue };
            self.total += 1;
            self.account_process(pid, &stat);
        }
        let scan = self.scan;
        self.seen.retain(|_, seen| seen.scan == scan);
        self.rank_commands();
        self.read_io(buffer);
        // Drop commands that are not shown and have no process left.
        self.accounts.retain(|_, account| account.shown > 0 || account.processes > 0);
    }

    fn account_process(&mut self, pid: u32, stat: &ProcessStat<'_>) {
        let (user, system) = (stat.user_ticks, stat.system_ticks);
        let is_kernel = stat.is_kernel_thread(pid);
        let name = if is_kernel { KERNEL_COMMAND } else { &*stat.name };
        let own = self.by_pid && !is_kernel;
        let earlier = self.seen.get_mut(&pid).filter(|seen| seen.started == stat.start_ticks);
        let is_named = |account: &str| match own {
            true => account.split_once(' ').is_some_and(|(_, rest)| rest == name),
            false => account == name,
        };
        let (grown, account) = match earlier {
            Some(seen) => {
                let grown = (user.saturating_sub(seen.user), system.saturating_sub(seen.system));
                (seen.user, seen.system, seen.scan) = (user, system, self.scan);
                if !is_named(&seen.account) {
                    // The process ran exec and has a new name.
                    seen.account = if own { format!("{pid} {name}").into() } else { name.into() };
                }
                (grown, seen.account.clone())
            }
            None => {
                let text = if own { format!("{pid} {name}").into() } else { Arc::from(name) };
                // All processes of a command share one name string.
                let account = self
                    .accounts
                    .get_key_value(&text)
                    .map_or(text, |(known, _): (&Arc<str>, _)| known.clone());
                let seen = ScannedProcess {
                    started: stat.start_ticks,
                    user,
                    system,
                    io: None,
                    account: account.clone(),
                    scan: self.scan,
                };
                self.seen.insert(pid, seen);
                ((user, system), account)
            }
        };
        let account = self.accounts.entry(account).or_default();
        account.pid = own.then_some(pid);
        account.user += grown.0;
        account.system += grown.1;
        account.recent += (grown.0 + grown.1) as f64;
        account.resident += stat.resident_pages * self.page;
        account.processes += 1;
        account.threads += stat.threads;
    }

    /// Chooses the commands that are shown.
    fn rank_commands(&mut self) {
        let mut by_cpu: Vec<(f64, Arc<str>)> =
            self.accounts.iter().map(|(name, account)| (account.recent, name.clone())).collect();
        let mut by_memory: Vec<(u64, Arc<str>)> =
            self.accounts.iter().map(|(name, account)| (account.resident, name.clone())).collect();
        by_cpu.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        by_memory.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        self.accounts.values_mut().for_each(|account| account.shown = account.shown.saturating_sub(1));
        let leading = by_cpu.into_iter().take(self.most).map(|(_, name)| name);
        for name in leading.chain(by_memory.into_iter().take(self.most).map(|(_, name)| name)) {
            if let Some(account) = self.accounts.get_mut(&name) {
                account.shown = SHOWN_SCANS;
            }
        }
        // Where too many are shown, drop the trailing commands first, longest behind first.
        let mut shown: Vec<(u32, Arc<str>)> = self
            .accounts
            .iter()
            .filter(|(_, account)| account.shown > 0)
            .map(|(name, account)| (account.shown, name.clone()))
            .collect();
        shown.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        for (_, name) in shown.into_iter().skip(self.most * 3) {
            if let Some(account) = self.accounts.get_mut(&name) {
                account.shown = 0;
            }
        }
        self.not_shown = self.accounts.values().filter(|account| account.shown == 0).count() as u64;
    }

    fn read_io(&mut self, buffer: &mut Vec<u8>) {
        for (pid, seen) in &mut self.seen {
            let Some(account) = self.accounts.get_mut(&seen.account) else { continue };
            if account.shown == 0 || account.processes > MAX_IO_PROCESSES || &*seen.account == KERNEL_COMMAND
            {
                continue;
            }
            let path = self.proc.join(pid.to_string()).join("io");
            // Only root may read the IO figures of other users.
            let Ok(file) = File::open(path) else { continue };
            let Some(now) = cgroup_usage::read_file_text(&file, buffer).and_then(device_bytes) else {
                continue;
            };
            let before = seen.io.replace(now).unwrap_or_default();
            account.read += now.0.saturating_sub(before.0);
            account.written += now.1.saturating_sub(before.1);
            account.has_io = true;
        }
    }

    /// The shown commands, by name.
    pub fn commands(&self) -> Vec<CommandUsage> {
        let seconds = |ticks: u64| Seconds(ticks as f64 / self.tick);
        let mut commands: Vec<CommandUsage> = self
            .accounts
            .iter()
            .filter(|(_, account)| account.shown > 0)
            .map(|(name, account)| CommandUsage {
                name: match account.pid {
                    Some(_) => name.split_once(' ').map_or("", |(_, name)| name).to_string(),
                    None => name.to_string(),
                },
                pid: account.pid,
                user: seconds(account.user),
                system: seconds(account.system),
                resident: Bytes(account.resident),
                processes: account.processes,
                threads: account.threads,
                io: account.has_io.then_some((Bytes(account.read), Bytes(account.written))),
            })
            .collect();
        commands.sort_by(|a, b| (&a.name, a.pid).cmp(&(&b.name, b.pid)));
        commands
    }
}

/// Bytes that devices read and wrote: `read_bytes: 1`.
fn device_bytes(text: &str) -> Option<(u64, u64)> {
    let field = |key: &str| {
        text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": ")?.trim().parse::<u64>().ok())
    };
    Some((field("read_bytes")?, field("write_bytes")?))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A process in a simulated `/proc`: pid, name, ticks, pages.
    fn process(proc: &std::path::Path, pid: u32, name: &str, started: u64, ticks: u64, pages: u64) {
        let folder = proc.join(pid.to_string());
        fs::create_dir_all(&folder).unwrap();
        let stat = format!(
            "{pid} ({name}) S 1 1 1 0 -1 4194560 1 0 0 0 {ticks} {ticks} 0 0 20 0 3 0 {started} 1000 {pages} 18446744073709551615 1\n"
        );
        fs::write(folder.join("stat"), stat).unwrap();
        fs::write(folder.join("io"), format!("rchar: 1\nread_bytes: {ticks}\nwrite_bytes: 7\n")).unwrap();
    }

    fn command<'a>(commands: &'a [CommandUsage], name: &str) -> &'a CommandUsage {
        commands.iter().find(|command| command.name == name).unwrap()
    }

    #[test]
    fn counters_of_a_command_do_not_fall_when_a_process_ends() {
        let folder = tempfile::tempdir().unwrap();
        let proc = folder.path();
        process(proc, 10, "worker", 5, 100, 2);
        process(proc, 11, "worker", 6, 300, 1);
        let mut processes = ProcessScanner::new(proc.into(), 10, false);
        let tick = processes.tick;
        processes.scan(&mut Vec::new());
        let commands = processes.commands();
        let worker = command(&commands, "worker");
        assert_eq!((worker.user, worker.processes, worker.threads), (Seconds(400.0 / tick), 2, 6));
        assert_eq!(worker.resident, Bytes(3 * processes.page));
        assert_eq!(worker.io, Some((Bytes(400), Bytes(14))));

        fs::remove_dir_all(proc.join("11")).unwrap();
        process(proc, 10, "worker", 5, 150, 2);
        processes.scan(&mut Vec::new());
        let worker = command(&processes.commands(), "worker").clone();
        assert_eq!((worker.user, worker.processes), (Seconds(450.0 / tick), 1));
        assert_eq!(worker.io, Some((Bytes(450), Bytes(14))));

        // The pid is reused by another process.
        process(proc, 10, "worker", 99, 20, 2);
        processes.scan(&mut Vec::new());
        assert_eq!(command(&processes.commands(), "worker").user, Seconds(470.0 / tick));

        // The process runs exec; from then on the new name grows.
        process(proc, 10, "other", 99, 25, 2);
        processes.scan(&mut Vec::new());
        assert_eq!(command(&processes.commands(), "worker").user, Seconds(470.0 / tick));
        assert_eq!(command(&processes.commands(), "other").user, Seconds(5.0 / tick));
    }

    #[test]
    fn only_those_that_lead_are_shown_and_the_rest_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        for n in 0..100u32 {
            process(folder.path(), n + 10, &format!("cmd{n:03}"), 1, u64::from(n), u64::from(100 - n));
        }
        let mut processes = ProcessScanner::new(folder.path().into(), 5, false);
        for _ in 0..30 {
            processes.scan(&mut Vec::new());
        }
        let names: Vec<String> = processes.commands().into_iter().map(|command| command.name).collect();
        assert_eq!(names.len(), 10);
        assert!(names.contains(&"cmd099".to_string()) && names.contains(&"cmd000".to_string()), "{names:?}");
        assert_eq!((processes.not_shown, processes.total), (90, 100));
    }

    #[test]
    fn a_pid_is_a_label_only_when_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        process(folder.path(), 10, "a b) (c", 1, 1, 1);
        process(folder.path(), 11, "a b) (c", 1, 1, 1);
        let shown = |by_pid| {
            let mut processes = ProcessScanner::new(folder.path().into(), 5, by_pid);
            processes.scan(&mut Vec::new());
            processes.commands().into_iter().map(|c| (c.name, c.pid)).collect::<Vec<_>>()
        };
        assert_eq!(shown(false), [("a b) (c".to_string(), None)]);
        assert_eq!(shown(true), [("a b) (c".to_string(), Some(10)), ("a b) (c".to_string(), Some(11))]);
    }

    #[test]
    fn a_process_that_has_ended_and_one_that_cannot_be_read_are_no_processes() {
        let folder = tempfile::tempdir().unwrap();
        process(folder.path(), 10, "worker", 1, 1, 1);
        let ended = "11 (x) Z 1 1 1 0 -1 4 1 0 0 0 1 1 0 0 20 0 3 0 5 1000 7 1";
        for (pid, text) in [("11", ended), ("12", ""), ("13", "13 (x) S a")] {
            fs::create_dir(folder.path().join(pid)).unwrap();
            fs::write(folder.path().join(pid).join("stat"), text).unwrap();
        }
        let mut processes = ProcessScanner::new(folder.path().into(), 5, false);
        processes.scan(&mut Vec::new());
        assert_eq!((processes.total, processes.commands().len()), (1, 1));
    }
}
