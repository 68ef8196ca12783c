//! The launcher: the small parent process of every measured command.
//!
//! It exists for two reasons. `ru_maxrss` of a process starts at the size of its parent, so the
//! parent has to be small. The measured processes must not outlive the measuring program, so the
//! parent has to outlive it. When its control socket closes, the launcher escalates through the
//! signals INT, TERM and KILL, removes the control groups and ends.
//!
//! Started as `metier-launch FD GRACE_MS MASK -- COMMAND…` with a SOCK_SEQPACKET socket at FD. MASK
//! is the set of signals that the command starts with blocked (bit n-1 for signal n). The measuring
//! program sends orders, one packet each:
//!
//! - `J path`: join that `cgroup.procs` before exec
//! - `P path`: the `cgroup.procs` with the processes to signal
//! - `K path`: the `cgroup.kill` to use
//! - `R path`: remove that folder at the end
//! - `G`: start the command
//! - later `I`, `T`, `X`: start the escalation at INT, TERM or KILL
//! - `B`: clean up and end
//!
//! Reports go back as [`LaunchReport`].
//!
//! `W` in place of `G` means that there is no command. The launcher then watches a group that
//! another program fills (an engine's container), and escalates on request; COMMAND is unused. If
//! the measuring program disappears, the launcher kills the group, and then removes files and
//! groups. Further orders apply to this case:
//!
//! - `E path NUL request`: the engine's socket, and the request to send after the kill
//! - `F path`: remove that file at the end
//! - `S folder NUL path NUL request`: a group that systemd owns. At the end, in any case, send the
//!   request to that socket and wait until the folder is gone
//!
//! As the first process of a container, FD is the path of a mounted socket of the measuring
//! program. Then the launcher forwards the container's signals, and ends with the command's own
//! status after its `B`. The container, its control group and its files thus stay until they have
//! been read.
//!
//! In a remote pod there is no socket at all: see [`pod_launcher`], and [`dataset_receiver`],
//! [`listen_to_app`] and [`send_artefacts`] for its input and output.
//!
//! Invariants: the launcher is the child subreaper of all descendants, so `ECHILD` means that every
//! descendant has ended. It never writes to the command's standard streams. It has no dependencies
//! and no Rust runtime (`no_main`), which keeps it under a megabyte of memory and leaves the signal
//! state untouched.
#![cfg_attr(not(test), no_main)]

mod app_listener;
mod artefact_sender;
mod dataset_receiver;
mod find;
mod pod_launcher;
mod sha256;
mod stream_frame;
mod sys;

use std::ffi::{CStr, CString, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use sys::{LaunchReport, ResourceUsage};

/// Time after which killed processes that remain are reported as stuck.
const KILL_LIMIT_MS: u64 = 10_000;
/// Timeout for another program to remove a folder.
const GROUP_REMOVAL_LIMIT_MS: u64 = 5_000;
/// Timeout for removing a folder.
const REMOVE_LIMIT_MS: u64 = 2_000;

/// Stages of the signal escalation.
#[derive(Clone, Copy, PartialEq)]
enum EscalationStage {
    None,
    Interrupt,
    Terminate,
    Kill,
}

/// Orders of the measuring program before the start.
#[derive(Default)]
struct LaunchOrders {
    join: Vec<CString>,
    procs: Option<PathBuf>,
    kill: Option<PathBuf>,
    remove: Vec<PathBuf>,
    files: Vec<PathBuf>,
    /// A Unix socket, and the request sent to it after the measuring program has disappeared.
    engine: Option<(PathBuf, Vec<u8>)>,
    /// A folder, and the Unix socket and request that make its owner remove it.
    farewell: Option<(PathBuf, PathBuf, Vec<u8>)>,
    /// Whether no command is started and a group is watched instead.
    is_watch: bool,
}

struct ProcessLauncher {
    control: i32,
    /// Whether the measuring program is gone, so that no report is read.
    alone: bool,
    grace_ms: u64,
    orders: LaunchOrders,
    main: i32,
    main_ended: bool,
    /// Wait status of the main process.
    status: i32,
    /// The launcher's own CPU time before the start, to subtract from the report.
    spent_before_ns: u64,
    rung: EscalationStage,
    next_rung_at: u64,
    killed_at: u64,
    reaped: u64,
    used: ResourceUsage,
}

/// Program entry; see the module header for the arguments.
#[cfg(not(test))]
#[unsafe(no_mangle)]
extern "C" fn main(argc: i32, argv: *const *const std::ffi::c_char) -> i32 {
    // SAFETY: the C runtime passes argc valid, NUL-terminated strings that live as long as the
    // process.
    let arguments: Vec<&CStr> = (0..argc as usize).map(|i| unsafe { CStr::from_ptr(*argv.add(i)) }).collect();
    run_launcher(&arguments)
}

/// Runs the launcher; returns its exit code, visible only when it is started from a shell.
fn run_launcher(arguments: &[&CStr]) -> i32 {
    match arguments.get(1).map(|word| word.to_bytes()) {
        Some(b"--pod") => return pod_launcher::run_in_pod(arguments),
        Some(b"--fetch") => return artefact_sender::send_artefacts(arguments),
        Some(b"--ears") => return app_listener::listen_to_app(arguments),
        Some(b"--until") => return dataset_receiver::wait_for_file(arguments),
        Some(b"--take") => return dataset_receiver::receive_dataset(arguments),
        _ => {}
    }
    let number =
        |i: usize| arguments.get(i).and_then(|a: &&CStr| a.to_str().ok()).and_then(|t| t.parse::<u64>().ok());
    let (Some(grace_ms), Some(mask)) = (number(2), number(3)) else { return 125 };
    if arguments.len() < 6 || arguments[4] != c"--" {
        return 125;
    }
    let is_first = number(1).is_none();
    let Some(control) = number(1).map(|fd| fd as i32).or_else(|| sys::connect(arguments[1])) else {
        return 125;
    };
    let command = &arguments[5..];
    sys::prepare_process(control);
    let mut launcher = ProcessLauncher::new(control, grace_ms);
    if !launcher.receive_orders() {
        launcher.clean_up();
        return 125;
    }
    if is_first {
        launcher.spent_before_ns = sys::own_cpu_ns();
    }
    let signals = sys::SignalState::take_over(mask, is_first);
    if launcher.orders.is_watch {
        launcher.watch_group();
        launcher.request_engine_cleanup();
        launcher.clean_up();
        return 0;
    }
    match sys::start_command(command, &launcher.orders.join, &signals) {
        Ok((pid, started_ns)) => {
            launcher.main = pid;
            launcher.send_report(LaunchReport {
                kind: sys::STARTED,
                pid: pid as u64,
                time_ns: started_ns,
                ..LaunchReport::default()
            });
        }
        Err((stage, errno)) => {
            launcher.send_report(LaunchReport {
                kind: stage,
                status: errno as i64,
                ..LaunchReport::default()
            });
            launcher.wait_for_release();
            launcher.clean_up();
            return 125;
        }
    }
    launcher.wait_for_descendants(&signals);
    launcher.wait_for_release();
    launcher.clean_up();
    if is_first { sys::exit_code(launcher.status) } else { 0 }
}

impl LaunchOrders {
    /// Stores an order that only carries data; `false` for any other packet.
    fn record_order(&mut self, packet: &[u8]) -> bool {
        let Some((&order, rest)) = packet.split_first() else { return false };
        let rest = rest.get(1..).unwrap_or_default();
        let path = || PathBuf::from(OsStr::from_bytes(rest));
        match order {
            b'J' => self.join.extend(CString::new(rest).ok()),
            b'P' => self.procs = Some(path()),
            b'K' => self.kill = Some(path()),
            b'R' => self.remove.push(path()),
            b'F' => self.files.push(path()),
            b'E' => {
                let mut parts = rest.splitn(2, |byte| *byte == 0);
                let socket = parts.next().unwrap_or_default();
                let request = parts.next().unwrap_or_default();
                self.engine = Some((OsStr::from_bytes(socket).into(), request.to_vec()));
            }
            b'S' => {
                let mut parts = rest.splitn(3, |byte| *byte == 0);
                let mut part = || parts.next().unwrap_or_default();
                let mut path = || PathBuf::from(OsStr::from_bytes(part()));
                self.farewell = Some((path(), path(), part().to_vec()));
            }
            _ => return false,
        }
        true
    }
}

impl ProcessLauncher {
    fn new(control: i32, grace_ms: u64) -> Self {
        Self {
            control,
            alone: false,
            grace_ms,
            orders: LaunchOrders::default(),
            main: 0,
            main_ended: false,
            status: 0,
            spent_before_ns: 0,
            rung: EscalationStage::None,
            next_rung_at: u64::MAX,
            killed_at: 0,
            reaped: 0,
            used: ResourceUsage::default(),
        }
    }

    /// Reads orders up to `G` or `W`. Returns `false` if the measuring program disconnected first.
    fn receive_orders(&mut self) -> bool {
        let mut packet = [0u8; 65536];
        loop {
            let Some(length) = sys::receive(self.control, &mut packet) else { return false };
            match packet[..length].first() {
                Some(b'G') => return true,
                Some(b'W') => {
                    self.orders.is_watch = true;
                    return true;
                }
                _ if self.orders.record_order(&packet[..length]) => {}
                _ => return false,
            }
        }
    }

    /// Watches a group that another program fills, and escalates on request. Ends at `B`, or when
    /// the measuring program is gone and the group is empty.
    fn watch_group(&mut self) {
        let mut packet = [0u8; 65536];
        loop {
            if self.alone && self.rung == EscalationStage::None {
                self.escalate_to(EscalationStage::Interrupt);
            }
            let now = sys::now_ns();
            let is_stuck = self.rung == EscalationStage::Kill
                && now.saturating_sub(self.killed_at) > KILL_LIMIT_MS * 1_000_000;
            if self.alone && (is_stuck || self.list_members().is_empty()) {
                return;
            }
            if now >= self.next_rung_at {
                match self.list_members().is_empty() || is_stuck {
                    true => self.next_rung_at = u64::MAX,
                    false => self.escalate(),
                }
                continue;
            }
            let until = self.next_rung_at.saturating_sub(now) / 1_000_000 + 1;
            let wait_ms = match (self.alone, self.next_rung_at) {
                (false, u64::MAX) => -1,
                (false, _) => until as i32,
                (true, _) => until.min(50) as i32,
            };
            if !sys::wait_ready(if self.alone { -1 } else { self.control }, -1, wait_ms).control {
                continue;
            }
            match sys::receive(self.control, &mut packet) {
                None => self.alone = true,
                Some(length) => match packet[..length].first() {
                    Some(b'B') => return,
                    Some(b'I') => self.escalate_to(EscalationStage::Interrupt),
                    Some(b'T') => self.escalate_to(EscalationStage::Terminate),
                    Some(b'X') => self.escalate_to(EscalationStage::Kill),
                    _ => {
                        self.orders.record_order(&packet[..length]);
                    }
                },
            }
        }
    }

    /// Requests the engine to delete its record of the container, if the measuring program can no
    /// longer do it.
    fn request_engine_cleanup(&self) {
        use std::io::{Read, Write};
        let Some((socket, request)) = self.orders.engine.as_ref().filter(|_| self.alone) else { return };
        let Ok(mut stream) = std::os::unix::net::UnixStream::connect(socket) else { return };
        let limit = Some(std::time::Duration::from_secs(30));
        let _ = stream.set_read_timeout(limit);
        if stream.write_all(request).is_ok() {
            // The response arrives when the engine is done; its content is irrelevant.
            let _ = stream.read(&mut [0u8; 256]);
        }
    }

    /// Waits until every descendant has ended; meanwhile obeys orders and escalates.
    fn wait_for_descendants(&mut self, signals: &sys::SignalState) {
        loop {
            if self.reap_children() {
                self.report_gone(0);
                return;
            }
            // A failed report may reveal the disconnect too; then no later event would wake the
            // loop.
            if self.alone && self.rung == EscalationStage::None {
                self.escalate_to(EscalationStage::Interrupt);
            }
            let now = sys::now_ns();
            if self.rung == EscalationStage::Kill
                && now.saturating_sub(self.killed_at) > KILL_LIMIT_MS * 1_000_000
            {
                self.report_gone(self.list_members().len() as u64);
                return;
            }
            if now >= self.next_rung_at {
                self.escalate();
                continue;
            }
            let wait_ms = if self.next_rung_at == u64::MAX {
                -1
            } else {
                ((self.next_rung_at - now) / 1_000_000 + 1) as i32
            };
            let ready =
                sys::wait_ready(if self.alone { -1 } else { self.control }, signals.descriptor(), wait_ms);
            if ready.signal {
                for signal in signals.take_pending() {
                    if self.main > 0 && !self.main_ended {
                        sys::kill(self.main, signal);
                    }
                }
            }
            if ready.control {
                self.handle_order();
            }
        }
    }

    /// Collects every ended child. Returns whether none is left.
    fn reap_children(&mut self) -> bool {
        loop {
            match sys::reap_child() {
                sys::ReapResult::Child { pid, status, usage } => {
                    self.reaped += 1;
                    self.used.add(&usage);
                    if pid == self.main {
                        self.main_ended = true;
                        self.status = status;
                        self.send_report(LaunchReport {
                            kind: sys::MAIN_ENDED,
                            pid: pid as u64,
                            status: status as i64,
                            time_ns: sys::now_ns(),
                            usage,
                            ..LaunchReport::default()
                        });
                    }
                }
                sys::ReapResult::NoneYet => return false,
                sys::ReapResult::NoneLeft => return true,
            }
        }
    }

    fn handle_order(&mut self) {
        let mut packet = [0u8; 64];
        let Some(length) = sys::receive(self.control, &mut packet) else {
            self.alone = true;
            return;
        };
        match packet[..length].first() {
            Some(b'I') => self.escalate_to(EscalationStage::Interrupt),
            Some(b'T') => self.escalate_to(EscalationStage::Terminate),
            Some(b'X') => self.escalate_to(EscalationStage::Kill),
            _ => {}
        }
    }

    /// Starts the escalation or moves it up; never down.
    fn escalate_to(&mut self, at: EscalationStage) {
        if (at as u8) > (self.rung as u8) {
            self.rung = match at {
                EscalationStage::Terminate => EscalationStage::Interrupt,
                EscalationStage::Kill => EscalationStage::Terminate,
                _ => EscalationStage::None,
            };
            self.next_rung_at = 0;
            self.escalate();
        }
    }

    fn escalate(&mut self) {
        let (rung, signal, wait_ms) = match self.rung {
            EscalationStage::None => (EscalationStage::Interrupt, sys::SIGINT, self.grace_ms),
            EscalationStage::Interrupt => (EscalationStage::Terminate, sys::SIGTERM, self.grace_ms),
            // A process that survives a kill for a moment (a fork in flight) is killed again.
            EscalationStage::Terminate | EscalationStage::Kill => (EscalationStage::Kill, sys::SIGKILL, 50),
        };
        if rung != self.rung {
            self.send_report(LaunchReport {
                kind: sys::ESCALATED,
                status: signal as i64,
                time_ns: sys::now_ns(),
                ..LaunchReport::default()
            });
            if rung == EscalationStage::Kill {
                self.killed_at = sys::now_ns();
            }
        }
        self.rung = rung;
        if rung == EscalationStage::Kill {
            self.kill_all();
        } else {
            self.signal_all(signal);
        }
        self.next_rung_at = sys::now_ns() + wait_ms * 1_000_000;
    }

    fn kill_all(&self) {
        if let Some(file) = &self.orders.kill
            && fs::write(file, "1").is_ok()
        {
            return;
        }
        self.signal_all(sys::SIGKILL);
    }

    fn signal_all(&self, signal: i32) {
        for pid in self.list_members() {
            sys::kill(pid, signal);
            if signal != sys::SIGKILL {
                // A stopped process would not handle the signal until it is continued.
                sys::kill(pid, sys::SIGCONT);
            }
        }
    }

    /// All measured processes: the control group with its subgroups, and the launcher's
    /// descendants, which may have moved to another group.
    fn list_members(&self) -> Vec<i32> {
        let mut pids = Vec::new();
        if let Some(folder) = self.orders.procs.as_deref().and_then(|file| file.parent()) {
            read_group(folder, &mut pids, 0);
        }
        let own = std::process::id() as i32;
        let parents: Vec<(i32, i32)> = fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter_map(|pid: i32| {
                Some((pid, parent_of(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))
            })
            .collect();
        let mut found = vec![own];
        let mut at = 0;
        while at < found.len() {
            let parent = found[at];
            found.extend(parents.iter().filter(|(_, p)| *p == parent).map(|(pid, _)| *pid));
            at += 1;
        }
        pids.extend(&found[1..]);
        pids.sort_unstable();
        pids.dedup();
        pids.retain(|pid| *pid != own && *pid > 1);
        pids
    }

    fn send_report(&mut self, report: LaunchReport) {
        if !self.alone && !sys::send(self.control, &report) {
            self.alone = true;
        }
    }

    fn report_gone(&mut self, stuck: u64) {
        let report = LaunchReport {
            kind: sys::ALL_ENDED,
            pid: self.reaped,
            status: stuck as i64,
            time_ns: sys::now_ns(),
            own_cpu_ns: sys::own_cpu_ns().saturating_sub(self.spent_before_ns),
            usage: self.used,
        };
        self.send_report(report);
    }

    /// Keeps the control groups until the measuring program has read them.
    fn wait_for_release(&mut self) {
        let mut packet = [0u8; 64];
        while !self.alone {
            match sys::receive(self.control, &mut packet) {
                None => self.alone = true,
                Some(length) if packet[..length].first() == Some(&b'B') => return,
                Some(_) => {}
            }
        }
    }

    /// Requests another program to remove its group. The connection stays open until then, because
    /// systemd asks the bus for the caller's identity.
    fn request_group_removal(&self) {
        use std::io::Write;
        let Some((folder, socket, request)) = &self.orders.farewell else { return };
        let Ok(mut stream) = std::os::unix::net::UnixStream::connect(socket) else { return };
        let deadline = sys::now_ns() + GROUP_REMOVAL_LIMIT_MS * 1_000_000;
        let is_said = stream.write_all(request).is_ok();
        while is_said && folder.exists() && sys::now_ns() < deadline {
            sys::sleep_ms(2);
        }
    }

    fn clean_up(&self) {
        for file in &self.orders.files {
            let _ = fs::remove_file(file);
        }
        self.request_group_removal();
        let deadline = sys::now_ns() + REMOVE_LIMIT_MS * 1_000_000;
        for folder in &self.orders.remove {
            while folder.exists() && !remove_group(folder, 0) && sys::now_ns() < deadline {
                sys::sleep_ms(2);
            }
        }
    }
}

/// Collects the process ids of a control group and its subgroups.
fn read_group(folder: &std::path::Path, pids: &mut Vec<i32>, depth: u32) {
    let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
    if depth < 32 {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                read_group(&entry.path(), pids, depth + 1);
            }
        }
    }
}

/// Removes a control group and its subgroups. It uses `rmdir` only, so no file can be lost.
fn remove_group(folder: &std::path::Path, depth: u32) -> bool {
    if depth < 32 {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                remove_group(&entry.path(), depth + 1);
            }
        }
    }
    fs::remove_dir(folder).is_ok()
}

/// Parses the parent in a line of `/proc/PID/stat`; the name before it may contain blanks and
/// brackets.
fn parent_of(stat: &str) -> Option<i32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_found_behind_any_name() {
        assert_eq!(parent_of("42 (a) b (c) S 7 42 42"), Some(7));
        assert_eq!(parent_of("42 (x)"), None);
    }

    #[test]
    fn wrong_arguments_end_at_once() {
        assert_eq!(run_launcher(&[c"metier-launch"]), 125);
        assert_eq!(run_launcher(&[c"metier-launch", c"3", c"100", c"0", c"true", c"x"]), 125);
        assert_eq!(run_launcher(&[c"metier-launch", c"x", c"100", c"0", c"--", c"true"]), 125);
        assert_eq!(
            run_launcher(&[
                c"metier-launch",
                c"--pod",
                c"1",
                c"1",
                c"0",
                c"0",
                c"-",
                c"/no/such/file",
                c"true",
                c"x"
            ]),
            125
        );
        for mode in [c"--fetch", c"--ears", c"--until", c"--take"] {
            assert_eq!(run_launcher(&[c"metier-launch", mode, c"x"]), 125);
        }
    }
}
