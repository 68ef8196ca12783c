//! Writes figures into a record: each with its quality, or with the reason why it is not there.

use metier_types::{Bytes, Extra, Joules, Missing, NetworkUse, Quality, Run, Seconds, Watts};

use crate::facts::Facts;
use crate::instruments::Instruments;

/// Writes values with their quality, or the reason why they are missing.
pub(super) struct Scribe<'a> {
    pub run: &'a mut Run,
    /// How far the group's counters can be trusted.
    pub totals: Quality,
}

impl Scribe<'_> {
    pub(super) fn set<T>(
        &mut self,
        path: &str,
        quality: Quality,
        field: impl FnOnce(&mut Run) -> &mut Option<T>,
        value: Option<T>,
    ) {
        if value.is_some() {
            self.run.quality.insert(path.to_string(), quality);
        }
        *field(self.run) = value;
    }

    fn missing(&mut self, path: &str, missing: Missing) {
        self.run.missing.insert(path.to_string(), missing);
    }

    pub(super) fn cpu(&mut self, facts: &Facts) {
        let totals = &facts.totals;
        // Without a group's account, what `wait4` knows.
        let waited = facts.end.used.filter(|_| totals.cpu.is_none());
        let quality = if waited.is_some() { Quality::Estimated } else { self.totals };
        let cpu = totals.cpu.or(waited.map(|used| Seconds::from_micros(used.user_us + used.system_us)));
        self.set("summary.cpu_seconds", quality, |r| &mut r.summary.cpu_seconds, cpu);
        let user = totals.user.or(waited.map(|used| Seconds::from_micros(used.user_us)));
        let system = totals.system.or(waited.map(|used| Seconds::from_micros(used.system_us)));
        self.set("summary.cpu_user_seconds", Quality::Estimated, |r| &mut r.summary.cpu_user_seconds, user);
        self.set(
            "summary.cpu_system_seconds",
            Quality::Estimated,
            |r| &mut r.summary.cpu_system_seconds,
            system,
        );
        // What wait4 says is complete when its CPU time is that of the group: nobody escaped it.
        let complete = if self.waited_for_all(facts) { Quality::Exact } else { Quality::Estimated };
        let switches =
            facts.end.used.map(|used| (used.voluntary_switches, used.involuntary_switches)).unzip();
        self.set("cpu.voluntary_switches", complete, |r| &mut r.cpu.voluntary_switches, switches.0);
        self.set("cpu.involuntary_switches", complete, |r| &mut r.cpu.involuntary_switches, switches.1);
        if facts.end.used.is_none() {
            let missing = Missing::because("only who waits for a process is told of its context switches");
            self.missing("cpu.voluntary_switches", missing.clone());
            self.missing("cpu.involuntary_switches", missing);
        }
        match facts.before.throttling.zip(facts.after.throttling) {
            Some(((p0, t0), (p1, t1))) => {
                let periods = Some(p1.saturating_sub(p0));
                let time = Some(Seconds::from_micros(t1.saturating_sub(t0)));
                self.set("cpu.throttled_periods", self.totals, |r| &mut r.cpu.throttled_periods, periods);
                self.set("cpu.throttled_seconds", self.totals, |r| &mut r.cpu.throttled_seconds, time);
            }
            None => {
                let reason = "no CPU limit is accounted in the group around the run";
                self.missing("cpu.throttled_seconds", Missing::because(reason));
            }
        }
        if let Err(missing) = &facts.group {
            let how = if facts.end.used.is_some() { "counted by wait4 only" } else { "not counted" };
            let reason = format!("{how}, because {}", missing.reason);
            let missing = Missing { reason, fix: missing.fix.clone() };
            self.missing("context.control_group", missing.clone());
            if cpu.is_none() {
                for name in ["cpu_seconds", "cpu_user_seconds", "cpu_system_seconds"] {
                    self.missing(&format!("summary.{name}"), missing.clone());
                }
            }
        } else if cpu.is_none() {
            let missing = Missing::because("the control group was gone before it could be read");
            for name in ["cpu_seconds", "cpu_user_seconds", "cpu_system_seconds"] {
                self.missing(&format!("summary.{name}"), missing.clone());
            }
        }
        if let Some(missing) = &facts.about.inexact {
            self.missing("context.start_up", missing.clone());
        }
        if let Some(missing) =
            facts.about.fleeting.as_ref().filter(|_| facts.totals_quality != Quality::Exact)
        {
            self.missing("context.end_counters", missing.clone());
        }
    }

    /// Whether the descendants that were waited for account for all CPU time, to within a hundredth or 10 ms.
    fn waited_for_all(&self, facts: &Facts) -> bool {
        let waited = facts.end.used.map(|used| (used.user_us + used.system_us) as f64 / 1e6);
        let both = facts.totals.cpu.zip(waited);
        both.is_some_and(|(cpu, waited)| (cpu.get() - waited).abs() <= (cpu.get() * 0.01).max(0.01))
    }

    pub(super) fn memory(&mut self, facts: &Facts) {
        let totals = &facts.totals;
        let watched = || facts.watch.as_ref().ok().and_then(|watch| watch.largest());
        let largest = facts.end.used.map(|used| Bytes(used.max_rss_kib * 1024)).or_else(watched);
        match totals.peak_memory {
            Some(peak) => {
                let quality = if totals.is_peak_foreign { Quality::Estimated } else { self.totals };
                self.set(
                    "summary.peak_memory_bytes",
                    quality,
                    |r| &mut r.summary.peak_memory_bytes,
                    Some(peak),
                );
                if totals.is_peak_foreign {
                    let reason =
                        "the high-water mark is of the engine's own start-up, so the run's is at most that";
                    let fix = "Linux 6.12 lets it be set back";
                    self.missing("memory.kernel_peak", Missing::fixable(reason, fix));
                }
            }
            None => {
                // The sum over processes as sampled, or the kernel's mark of the largest one: whichever is more.
                let value = facts.walker.peak_resident.map(Bytes).max(largest);
                if value.is_none() {
                    let reason = "neither a group with memory nor a process could be read";
                    self.missing("summary.peak_memory_bytes", Missing::because(reason));
                }
                self.set(
                    "summary.peak_memory_bytes",
                    Quality::Estimated,
                    |r| &mut r.summary.peak_memory_bytes,
                    value,
                );
                let reason = "no memory controller for the run; this is the largest process, or the largest sum that a sample saw";
                self.missing("memory.kernel_peak", Missing::fixable(reason, "`metier doctor` shows how to get a control group with memory accounting; memory.peak needs Linux 5.19"));
            }
        }
        type PeakField = fn(&mut Run) -> &mut Option<Bytes>;
        let sampled: [(&str, PeakField, Option<u64>); 4] = [
            ("anonymous", |r| &mut r.memory.peak_anonymous_bytes, facts.log.peaks.anonymous),
            ("file", |r| &mut r.memory.peak_file_bytes, facts.log.peaks.file),
            ("kernel", |r| &mut r.memory.peak_kernel_bytes, facts.log.peaks.kernel),
            ("resident_sum", |r| &mut r.memory.peak_resident_sum_bytes, facts.walker.peak_resident),
        ];
        for (name, field, value) in sampled {
            self.set(&format!("memory.peak_{name}_bytes"), Quality::Sampled, field, value.map(Bytes));
        }
        self.set("memory.peak_process_bytes", Quality::Exact, |r| &mut r.memory.peak_process_bytes, largest);
        if facts.log.peaks.anonymous.is_none() {
            self.missing(
                "memory.peak_anonymous_bytes",
                Missing::because("no memory controller for the run, or it was over before a sample"),
            );
        }
        let complete = if self.waited_for_all(facts) { Quality::Exact } else { Quality::Estimated };
        let (minor, major, quality) = match totals.faults.zip(totals.major_faults) {
            Some((all, major)) => (Some(all.saturating_sub(major)), Some(major), self.totals),
            None => {
                let (minor, major) =
                    facts.end.used.map(|used| (used.minor_faults, used.major_faults)).unzip();
                (minor, major, complete)
            }
        };
        self.set("memory.minor_faults", quality, |r| &mut r.memory.minor_faults, minor);
        self.set("memory.major_faults", quality, |r| &mut r.memory.major_faults, major);
        let counted = facts.outcome.oom_kills.max(totals.oom_kills);
        let (oom_kills, quality) = oom_kills(counted, facts.outcome.oom, self.totals);
        self.set("memory.oom_kills", quality, |r| &mut r.memory.oom_kills, oom_kills);
    }

    pub(super) fn io(&mut self, facts: &Facts) {
        // wait4 counts blocks of 512 bytes when a page is dirtied or read, so buffered writes are in it; the
        // version 1 block controller would miss them.
        let waited = facts.end.used.map(|used| {
            let complete = if self.waited_for_all(facts) { Quality::Exact } else { Quality::Estimated };
            (used.blocks_in * 512, used.blocks_out * 512, complete)
        });
        // Without a parent that waits, the kernel's word at the end of each process, else what walks saw.
        let watched = || Some((facts.watch.as_ref().ok()?.stored()?, Quality::Exact));
        let walked = || Some((facts.walker.stored()?, Quality::Sampled));
        let counted = || watched().or_else(walked).map(|((read, written), quality)| (read, written, quality));
        match waited.or_else(counted) {
            Some((read, written, quality)) => {
                let (read, written) = (Some(Bytes(read)), Some(Bytes(written)));
                self.set("summary.read_bytes", quality, |r| &mut r.summary.read_bytes, read);
                self.set("summary.written_bytes", quality, |r| &mut r.summary.written_bytes, written);
            }
            None => {
                let missing = Missing::because("no process of the run could be asked for its traffic");
                self.missing("summary.read_bytes", missing.clone());
                self.missing("summary.written_bytes", missing);
            }
        }
        let totals = &facts.totals;
        self.set("io.device_read_bytes", self.totals, |r| &mut r.io.device_read_bytes, totals.device_read);
        self.set(
            "io.device_written_bytes",
            self.totals,
            |r| &mut r.io.device_written_bytes,
            totals.device_written,
        );
        if totals.device_read.is_none() {
            let missing = match facts.group.as_ref().map(|group| !group.v1.is_empty()) {
                Ok(true) => Missing::because(
                    "version 1 of control groups charges buffered writes to the root group; see summary.written_bytes",
                ),
                _ => Missing::fixable(
                    "the io controller is not handed down to the run",
                    "for a user's session: systemctl edit user@.service, [Service] Delegate=cpu io memory pids",
                ),
            };
            self.missing("io.device_read_bytes", missing.clone());
            self.missing("io.device_written_bytes", missing);
        }
        let exact = facts.watch.as_ref().ok().and_then(|watch| watch.called());
        let (called, quality) = match exact {
            Some(called) => (Some(called), Quality::Exact),
            None => (facts.walker.called(), Quality::Sampled),
        };
        self.set(
            "io.call_read_bytes",
            quality,
            |r| &mut r.io.call_read_bytes,
            called.map(|(read, _)| Bytes(read)),
        );
        self.set(
            "io.call_written_bytes",
            quality,
            |r| &mut r.io.call_written_bytes,
            called.map(|(_, written)| Bytes(written)),
        );
        if called.is_none() {
            self.missing("io.call_read_bytes", Missing::because("no process lived long enough to be asked"));
        }
    }

    pub(super) fn pressure(&mut self, facts: &Facts) {
        let totals = &facts.totals;
        let exact = self.totals;
        self.set("pressure.cpu_seconds", exact, |r| &mut r.pressure.cpu_seconds, totals.cpu_pressure);
        self.set(
            "pressure.memory_seconds",
            exact,
            |r| &mut r.pressure.memory_seconds,
            totals.memory_pressure,
        );
        self.set("pressure.io_seconds", exact, |r| &mut r.pressure.io_seconds, totals.io_pressure);
        if totals.cpu_pressure.is_none() {
            let missing = Missing::fixable(
                "the kernel gives no pressure figures for the run",
                "boot with psi=1 and a version 2 control group",
            );
            for name in ["cpu", "memory", "io"] {
                self.missing(&format!("pressure.{name}_seconds"), missing.clone());
            }
        }
    }

    pub(super) fn processes(&mut self, facts: &Facts) {
        match &facts.watch {
            Ok(watch) if watch.total() > 0 => {
                let quality = if watch.lost() == 0 { Quality::Exact } else { Quality::Sampled };
                self.set("summary.processes", quality, |r| &mut r.summary.processes, Some(watch.total()));
                if !watch.has_statistics() {
                    let reason = "the kernel sends no task statistics to us, so what each process used is as last sampled";
                    self.missing(
                        "processes.cpu_seconds",
                        Missing::fixable(reason, "run as root, with a kernel that has CONFIG_TASKSTATS"),
                    );
                }
            }
            other => {
                // The main process existed whether or not a sample caught it.
                let seen = facts.walker.count().max(1);
                self.set("summary.processes", Quality::Sampled, |r| &mut r.summary.processes, Some(seen));
                let missing = match other {
                    Err(missing) => missing.clone(),
                    Ok(_) => Missing::fixable(
                        "the kernel's process events do not speak of this process namespace",
                        "run metier outside of the container",
                    ),
                };
                let reason = format!("processes between two samples are not listed: {}", missing.reason);
                self.missing("processes.short_lived", Missing { reason, fix: missing.fix });
            }
        }
    }

    pub(super) fn network(&mut self, facts: &Facts) {
        let sampled = facts.walker.network.map(|network| (network, Quality::Sampled));
        let read = facts.outcome.network.map(|network| (network, Quality::Exact));
        match read.or(sampled) {
            Some(((received, sent), quality)) => {
                self.run.quality.insert("network".into(), quality);
                self.run.network = Some(NetworkUse {
                    received_bytes: Bytes(received),
                    sent_bytes: Bytes(sent),
                    extra: Extra::new(),
                });
            }
            None => self.missing(
                "network",
                Missing::fixable(
                    "the run shares the host's network namespace, whose counters speak of everybody",
                    "run it in a namespace of its own, for example with `ip netns exec`",
                ),
            ),
        }
    }

    pub(super) fn energy(&mut self, instruments: &mut Instruments) {
        let (meters, counters_only) = instruments.meters.result();
        self.run.gpus = instruments.gpus.result();
        let of_gpus = self.run.gpus.iter().filter_map(|gpu| gpu.energy_joules);
        let gpu: Joules = of_gpus.filter(|_| !instruments.meters.sum_holds_all()).sum();
        let counted: Vec<Joules> = meters.iter().filter(|m| m.counted).map(|m| m.energy_joules).collect();
        if !counted.is_empty() || gpu.get() > 0.0 {
            let total = counted.into_iter().sum::<Joules>() + gpu;
            let quality = if counters_only { Quality::Exact } else { Quality::Sampled };
            self.set("summary.energy_joules", quality, |r| &mut r.summary.energy_joules, Some(total));
            let life = self.run.life_seconds().map_or(0.0, Seconds::get);
            let power = (life > 0.0).then(|| Watts(total.get() / life));
            self.set("energy.mean_power_watts", quality, |r| &mut r.energy.mean_power_watts, power);
        } else if let Some(missing) = instruments.meters.missing() {
            self.missing("summary.energy_joules", missing);
        }
        self.run.energy.meters = meters;
        if let Some(missing) = instruments.gpus.missing() {
            self.missing("gpus", missing);
        }
    }
}

/// Kills for want of memory, and how good the figure is. A version 1 parent does not count for its children, and the container's own group may
/// be gone before it is read: then the engine knows of one, and nobody of more.
fn oom_kills(counted: Option<u64>, is_told: bool, quality: Quality) -> (Option<u64>, Quality) {
    match is_told && counted < Some(1) {
        true => (Some(1), Quality::Estimated),
        false => (counted, quality),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_that_the_engine_tells_is_never_counted_as_none() {
        let exact = Quality::Exact;
        assert_eq!(oom_kills(Some(0), true, exact), (Some(1), Quality::Estimated));
        assert_eq!(oom_kills(None, true, exact), (Some(1), Quality::Estimated));
        assert_eq!(oom_kills(Some(3), true, exact), (Some(3), exact));
        assert_eq!(oom_kills(Some(0), false, exact), (Some(0), exact));
        assert_eq!(oom_kills(None, false, exact), (None, exact));
    }
}
