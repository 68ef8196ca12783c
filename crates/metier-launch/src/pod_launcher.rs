//! The launcher in a remote pod. It gets no orders, and reports the resource use once at the end,
//! in the container's termination message for Kubernetes.
//!
//! Started as `metier-launch --pod GRACE_MS LINGER_MS LIMIT_MS HOLD_MS MARK FILE -- COMMAND…`. It
//! waits until every descendant has ended. The escalation starts LINGER_MS after the end of the
//! main process, LIMIT_MS (0: never) after the start, or when the container gets a TERM or an INT.
//! Then one JSON object of less than 2 kB is written to FILE. The launcher ends with the command's
//! exit code, or 128 plus the signal. `{"metier":1,"errno":N}` means that the command could not be
//! started.
//!
//! If HOLD_MS is not 0, the launcher then waits, so that the run's artefacts can be fetched
//! ([`crate::send_artefacts`]). A line with MARK on the standard output announces this, a HUP
//! reports progress, and a TERM reports completion. HOLD_MS after the last of these events it ends
//! anyway. If MARK ends in `@FOLDER`, the command starts when the listener in that folder is ready.
//!
//! The control group's figures are differences between the moments before the command's first and
//! after its last instruction. The launcher's own CPU time in between is reported separately.
//! Counters that are not visible in the container are omitted.

use std::ffi::{CStr, OsStr};
use std::fmt::Write;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::app_listener::{LAUNCHER_SOCKET, READY_FILE};
use crate::sys::{self, ResourceUsage};
use crate::{EscalationStage, KILL_LIMIT_MS, ProcessLauncher};

const ENOENT: i32 = 2;
/// Timeout for the listener to become ready.
const LISTENER_TIMEOUT_MS: u64 = 10_000;

/// Runs the launcher in a pod; returns the container's exit code.
pub fn run_in_pod(arguments: &[&CStr]) -> i32 {
    let number =
        |i: usize| arguments.get(i).and_then(|a: &&CStr| a.to_str().ok()).and_then(|t| t.parse::<u64>().ok());
    let (Some(grace_ms), Some(linger_ms), Some(limit_ms)) = (number(2), number(3), number(4)) else {
        return 125;
    };
    let Some(hold_ms) = number(5) else { return 125 };
    if arguments.len() < 10 || arguments[8] != c"--" {
        return 125;
    }
    let mark = String::from_utf8_lossy(arguments[6].to_bytes());
    let (mark, ears) = mark.split_once('@').map_or((&*mark, None), |(mark, folder)| (mark, Some(folder)));
    let file = Path::new(OsStr::from_bytes(arguments[7].to_bytes()));
    sys::prepare_process(-1);
    // No measuring program reads reports.
    let mut launcher = ProcessLauncher { alone: true, ..ProcessLauncher::new(-1, grace_ms) };
    let signals = sys::SignalState::take_over(0, true);
    // Kept open while the launcher lives.
    let _life = ears.and_then(|folder| wait_for_listener(Path::new(folder)));
    let group = ContainerCgroup::find_own();
    let before = group.read(true);
    let own_before = sys::own_cpu_ns();
    let started_ns = match sys::start_command(&arguments[9..], &[], &signals) {
        Ok((pid, started_ns)) => {
            launcher.main = pid;
            started_ns
        }
        Err((_, errno)) => {
            let _ = fs::write(file, format!("{{\"metier\":1,\"errno\":{errno}}}"));
            return if errno == ENOENT { 127 } else { 126 };
        }
    };
    let limit_ns = if limit_ms == 0 { u64::MAX } else { limit_ms.saturating_mul(1_000_000) };
    let mut end = PodRunEnd { started_ns, ..PodRunEnd::default() };
    end.wait_for_end(&mut launcher, &signals, linger_ms, started_ns.saturating_add(limit_ns));
    end.own_ns = sys::own_cpu_ns().saturating_sub(own_before);
    let text = format_report(launcher.status, &end, &launcher.used, &group.read(false).since(&before));
    let _ = fs::write(file, text);
    if hold_ms > 0 {
        wait_for_fetch(&signals, hold_ms, mark);
    }
    sys::exit_code(launcher.status)
}

/// Waits for the listener, which is started first. After the timeout the run continues without it,
/// and its record reports that.
fn wait_for_listener(folder: &Path) -> Option<UnixStream> {
    let end = sys::now_ns() + LISTENER_TIMEOUT_MS * 1_000_000;
    while !folder.join(READY_FILE).exists() {
        if sys::now_ns() >= end {
            return None;
        }
        sys::sleep_ms(5);
    }
    UnixStream::connect(folder.join(LAUNCHER_SOCKET)).ok()
}

/// Waits until the artefacts have been fetched, or until the timeout.
fn wait_for_fetch(signals: &sys::SignalState, hold_ms: u64, mark: &str) {
    let mut out = std::io::stdout();
    let _ = out.write_all(mark.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
    let until = || sys::now_ns().saturating_add(hold_ms.saturating_mul(1_000_000));
    let mut end = until();
    loop {
        let now = sys::now_ns();
        if now >= end {
            return;
        }
        let wait_ms = ((end - now) / 1_000_000 + 1).min(60_000) as i32;
        if sys::wait_ready(-1, signals.descriptor(), wait_ms).signal {
            for signal in signals.take_pending() {
                match signal {
                    sys::SIGHUP => end = until(),
                    _ => return,
                }
            }
        }
    }
}

#[derive(Default)]
struct PodRunEnd {
    started_ns: u64,
    ended_ns: u64,
    gone_ns: u64,
    /// Processes that outlived the main process.
    left: usize,
    /// Processes that could not be killed.
    stuck: usize,
    own_ns: u64,
    /// Whether the time limit was reached.
    is_late: bool,
    /// Highest stage of the escalation, from 0 (none) to 3 (KILL).
    rung: u8,
}

impl PodRunEnd {
    /// Waits until every descendant has ended; meanwhile forwards signals and escalates.
    fn wait_for_end(
        &mut self,
        launcher: &mut ProcessLauncher,
        signals: &sys::SignalState,
        linger_ms: u64,
        limit_at: u64,
    ) {
        // Time at which the escalation starts without a signal.
        let mut patience = limit_at;
        loop {
            let is_over = launcher.reap_children();
            let now = sys::now_ns();
            if launcher.main_ended && self.ended_ns == 0 {
                self.ended_ns = now;
                patience = now.saturating_add(linger_ms.saturating_mul(1_000_000));
                self.left = if is_over { 0 } else { launcher.list_members().len() };
            }
            self.gone_ns = now;
            self.rung = launcher.rung as u8;
            if is_over {
                return;
            }
            if launcher.rung == EscalationStage::Kill
                && now.saturating_sub(launcher.killed_at) > KILL_LIMIT_MS * 1_000_000
            {
                self.stuck = launcher.list_members().len();
                return;
            }
            if now >= patience && launcher.rung == EscalationStage::None {
                self.is_late = !launcher.main_ended;
                launcher.escalate_to(EscalationStage::Interrupt);
                continue;
            }
            if now >= launcher.next_rung_at {
                launcher.escalate();
                continue;
            }
            let patience = if launcher.rung == EscalationStage::None { patience } else { u64::MAX };
            let wait_ms = match launcher.next_rung_at.min(patience) {
                u64::MAX => -1,
                until => ((until - now) / 1_000_000 + 1).min(60_000) as i32,
            };
            if sys::wait_ready(-1, signals.descriptor(), wait_ms).signal {
                for signal in signals.take_pending() {
                    match signal {
                        sys::SIGTERM => launcher.escalate_to(EscalationStage::Terminate),
                        sys::SIGINT => launcher.escalate_to(EscalationStage::Interrupt),
                        other => launcher.signal_all(other),
                    }
                }
            }
        }
    }
}

fn format_report(status: i32, end: &PodRunEnd, used: &ResourceUsage, group: &CgroupReading) -> String {
    let mut text = String::with_capacity(1024);
    let wall_ns = end.ended_ns.saturating_sub(end.started_ns);
    let gone_ns = end.gone_ns.saturating_sub(end.started_ns);
    let (left, stuck, own_ns) = (end.left, end.stuck, end.own_ns);
    let (is_late, rung) = (end.is_late, end.rung);
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "{{\"metier\":1,\"end\":{{\"status\":{status},\"wall_ns\":{wall_ns},\"gone_ns\":{gone_ns},\"left\":{left},\"stuck\":{stuck},\"own_ns\":{own_ns},\"is_late\":{is_late},\"rung\":{rung},"
    );
    let names = [
        ("user_us", used.user_us),
        ("system_us", used.system_us),
        ("max_rss_kib", used.max_rss_kib),
        ("minor_faults", used.minor_faults),
        ("major_faults", used.major_faults),
        ("blocks_in", used.blocks_in),
        ("blocks_out", used.blocks_out),
        ("voluntary_switches", used.voluntary_switches),
        ("involuntary_switches", used.involuntary_switches),
    ];
    write_object(&mut text, "used", names.into_iter());
    text.push(',');
    let names = [
        ("cpu_ns", group.cpu_ns),
        ("user_us", group.user_us),
        ("system_us", group.system_us),
        ("peak_bytes", group.peak),
        ("peak_before_bytes", group.peak_before),
        ("oom_kills", group.oom_kills),
        ("limit_hits", group.limit_hits),
    ];
    write_object(&mut text, "group", names.into_iter().filter_map(|(name, value)| Some((name, value?))));
    text.push_str("}}");
    text
}

fn write_object(text: &mut String, name: &str, values: impl Iterator<Item = (&'static str, u64)>) {
    let _ = write!(text, "\"{name}\":{{");
    for (at, (name, value)) in values.enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let _ = write!(text, "{comma}\"{name}\":{value}");
    }
    text.push('}');
}

/// The container's control group as visible inside it.
#[derive(Default)]
struct ContainerCgroup {
    cpu_v1: Option<PathBuf>,
    memory_v1: Option<PathBuf>,
    v2: Option<PathBuf>,
}

/// Its counters; `None` if not available.
#[derive(Default)]
struct CgroupReading {
    cpu_ns: Option<u64>,
    user_us: Option<u64>,
    system_us: Option<u64>,
    peak: Option<u64>,
    /// The high-water mark before the command started.
    peak_before: Option<u64>,
    oom_kills: Option<u64>,
    limit_hits: Option<u64>,
}

impl ContainerCgroup {
    fn find_own() -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self {
            cpu_v1: find_group_folder(&mounts, &groups, "cpuacct"),
            memory_v1: find_group_folder(&mounts, &groups, "memory"),
            v2: find_group_folder(&mounts, &groups, ""),
        }
    }

    /// Reads the counters; at the start, resets the memory high-water mark if possible.
    fn read(&self, is_start: bool) -> CgroupReading {
        let mut reading = CgroupReading::default();
        if let Some(folder) = &self.v2 {
            let cpu = read_text(folder, "cpu.stat");
            let events = read_text(folder, "memory.events");
            // On newer kernels a group without the cpu controller has a usage, too.
            reading.cpu_ns = parse_value(&cpu, "usage_usec").map(|us| us.saturating_mul(1000));
            reading.user_us = parse_value(&cpu, "user_usec");
            reading.system_us = parse_value(&cpu, "system_usec");
            reading.peak = read_number(folder, "memory.peak");
            reading.oom_kills = parse_value(&events, "oom_kill");
            reading.limit_hits = parse_value(&events, "max");
        }
        if let Some(usage) = self.cpu_v1.as_ref().and_then(|folder| read_number(folder, "cpuacct.usage")) {
            reading.cpu_ns = Some(usage);
            (reading.user_us, reading.system_us) = (None, None);
        }
        if let Some(folder) = &self.memory_v1 {
            let mark = "memory.max_usage_in_bytes";
            if is_start {
                let _ = fs::write(folder.join(mark), "0");
            }
            reading.peak = read_number(folder, mark).or(reading.peak);
            reading.oom_kills =
                parse_value(&read_text(folder, "memory.oom_control"), "oom_kill").or(reading.oom_kills);
            reading.limit_hits = read_number(folder, "memory.failcnt").or(reading.limit_hits);
        }
        reading
    }
}

impl CgroupReading {
    fn since(&self, before: &CgroupReading) -> CgroupReading {
        let less = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        CgroupReading {
            cpu_ns: less(self.cpu_ns, before.cpu_ns),
            user_us: less(self.user_us, before.user_us),
            system_us: less(self.system_us, before.system_us),
            peak: self.peak,
            peak_before: before.peak,
            oom_kills: less(self.oom_kills, before.oom_kills),
            limit_hits: less(self.limit_hits, before.limit_hits),
        }
    }
}

/// The folder of this process's group for a version 1 controller, or in version 2 (empty name). A
/// mount that does not contain the group is skipped: its counters would be those of other groups.
fn find_group_folder(mounts: &str, groups: &str, controller: &str) -> Option<PathBuf> {
    let path = groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let names = parts.next()?;
        names.split(',').any(|name| name == controller).then(|| parts.next())?
    })?;
    mounts.lines().rev().find_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let kind = system.next()?;
        let is_it = match controller {
            "" => kind == "cgroup2",
            name => kind == "cgroup" && system.nth(1)?.split(',').any(|option| option == name),
        };
        let mut mount = mount.split(' ').skip(3);
        let (root, point) = (mount.next()?, mount.next()?);
        let rest = Path::new(path).strip_prefix(root).ok().filter(|_| is_it)?;
        Some(Path::new(point).join(rest))
    })
}

fn read_text(folder: &Path, file: &str) -> String {
    fs::read_to_string(folder.join(file)).unwrap_or_default()
}

fn read_number(folder: &Path, file: &str) -> Option<u64> {
    read_text(folder, file).trim().parse().ok()
}

/// The value in a line `name value`.
fn parse_value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_with_and_without_a_namespace() {
        let mounts = "1 0 0:1 / /proc rw - proc proc rw\n\
            2 1 0:30 /kubepods/pod1/c /sys/fs/cgroup/cpuacct ro,nosuid - cgroup cgroup rw,cpuacct\n\
            3 1 0:32 / /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
            4 1 0:33 / /sys/fs/cgroup/unified ro - cgroup2 cgroup rw\n";
        let groups = "4:memory:/kubepods/pod1/c\n2:cpuacct:/kubepods/pod1/c\n0::/\n";
        let found = |controller| find_group_folder(mounts, groups, controller);
        assert_eq!(found("cpuacct"), Some("/sys/fs/cgroup/cpuacct".into()));
        assert_eq!(found("memory"), Some("/sys/fs/cgroup/memory/kubepods/pod1/c".into()));
        assert_eq!(found(""), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(found("blkio"), None);
        let other = "2 1 0:30 /another/group /sys/fs/cgroup/cpuacct ro - cgroup cgroup rw,cpuacct\n";
        assert_eq!(find_group_folder(other, groups, "cpuacct"), None, "not our own group");
        let above = "4 1 0:33 /../.. /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        assert_eq!(find_group_folder(above, "0::/\n", ""), None, "that of the whole machine");
    }

    #[test]
    fn the_last_words_are_short_even_where_every_number_is_the_largest() {
        let most = Some(u64::MAX);
        let group = CgroupReading {
            cpu_ns: most,
            user_us: most,
            system_us: most,
            peak: most,
            peak_before: most,
            oom_kills: most,
            limit_hits: most,
        };
        let used = ResourceUsage { user_us: u64::MAX, blocks_in: u64::MAX, ..ResourceUsage::default() };
        let text =
            format_report(i32::MIN, &PodRunEnd { own_ns: u64::MAX, ..PodRunEnd::default() }, &used, &group);
        assert!(text.len() < 2000 && text.starts_with("{\"metier\":1,") && text.ends_with("}}}"), "{text}");
        let none =
            format_report(0, &PodRunEnd::default(), &ResourceUsage::default(), &CgroupReading::default());
        assert!(none.contains("\"group\":{}"), "{none}");
    }
}
