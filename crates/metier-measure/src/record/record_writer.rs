//! Writes figures into a record, each with its quality or the reason why it is missing.

use metier_types::{
    Bytes, ExtraFields, Joules, MissingReason, NetworkUse, Run, Seconds, ValueQuality, Watts,
};

use crate::instruments::HostInstruments;
use crate::run_facts::CollectedRunFacts;
use metier_linux::process_events::ProcessWatch;

/// Writes values with their quality or the reason why they are missing.
pub(super) struct RecordWriter<'a> {
    pub run: &'a mut Run,
    /// Quality of the control group's counters.
    pub totals: ValueQuality,
}

impl RecordWriter<'_> {
    pub(super) fn set_value<T>(
        &mut self,
        path: &str,
        quality: ValueQuality,
        field: impl FnOnce(&mut Run) -> &mut Option<T>,
        value: Option<T>,
    ) {
        if value.is_some() {
            self.run.quality.insert(path.to_string(), quality);
        }
        *field(self.run) = value;
    }

    fn note_missing(&mut self, path: &str, missing: MissingReason) {
        self.run.missing.insert(path.to_string(), missing);
    }

    pub(super) fn write_cpu(&mut self, facts: &CollectedRunFacts) {
        let totals = &facts.totals;
        // `wait4` stands in for missing control group counters.
        let waited = facts.end.used.filter(|_| totals.cpu.is_none());
        let quality = if waited.is_some() { ValueQuality::Estimated } else { self.totals };
        let cpu = totals.cpu.or(waited.map(|used| Seconds::from_micros(used.user_us + used.system_us)));
        self.set_value("summary.cpu_seconds", quality, |r| &mut r.summary.cpu_seconds, cpu);
        let user = totals.user.or(waited.map(|used| Seconds::from_micros(used.user_us)));
        let system = totals.system.or(waited.map(|used| Seconds::from_micros(used.system_us)));
        self.set_value(
            "summary.cpu_user_seconds",
            ValueQuality::Estimated,
            |r| &mut r.summary.cpu_user_seconds,
            user,
        );
        self.set_value(
            "summary.cpu_system_seconds",
            ValueQuality::Estimated,
            |r| &mut r.summary.cpu_system_seconds,
            system,
        );
        self.write_run_queue(facts);
        self.set_value(
            "cpu.peak_cores",
            ValueQuality::Sampled,
            |r| &mut r.cpu.peak_cores,
            facts.log.peak_cores,
        );
        if facts.log.peak_cores.is_none() {
            let reason = "no CPU time of the run's control group was sampled";
            self.note_missing("cpu.peak_cores", MissingReason::without_fix(reason));
        }
        // The usage of wait4 is complete if its CPU time equals the group's: then no process
        // escaped it.
        let complete =
            if self.is_wait_complete(facts) { ValueQuality::Exact } else { ValueQuality::Estimated };
        let switches =
            facts.end.used.map(|used| (used.voluntary_switches, used.involuntary_switches)).unzip();
        self.set_value("cpu.voluntary_switches", complete, |r| &mut r.cpu.voluntary_switches, switches.0);
        self.set_value("cpu.involuntary_switches", complete, |r| &mut r.cpu.involuntary_switches, switches.1);
        if facts.end.used.is_none() {
            let missing = MissingReason::without_fix(
                "context switches are reported only to the parent that waits for a process",
            );
            self.note_missing("cpu.voluntary_switches", missing.clone());
            self.note_missing("cpu.involuntary_switches", missing);
        }
        match facts.before.throttling.zip(facts.after.throttling) {
            Some((before, after)) => {
                let quota = Some(after.periods.saturating_sub(before.periods));
                let periods = Some(after.throttled_periods.saturating_sub(before.throttled_periods));
                let time = Some(Seconds::from_micros(after.throttled_us.saturating_sub(before.throttled_us)));
                self.set_value("cpu.quota_periods", self.totals, |r| &mut r.cpu.quota_periods, quota);
                self.set_value(
                    "cpu.throttled_periods",
                    self.totals,
                    |r| &mut r.cpu.throttled_periods,
                    periods,
                );
                self.set_value("cpu.throttled_seconds", self.totals, |r| &mut r.cpu.throttled_seconds, time);
            }
            None => {
                let reason = "no CPU limit is accounted in the group around the run";
                self.note_missing("cpu.throttled_seconds", MissingReason::without_fix(reason));
            }
        }
        if let Err(missing) = &facts.group {
            let how = if facts.end.used.is_some() { "counted by wait4 only" } else { "not counted" };
            let reason = format!("{how}, because {}", missing.reason);
            let missing = MissingReason { reason, fix: missing.fix.clone() };
            self.note_missing("context.control_group", missing.clone());
            if cpu.is_none() {
                for name in ["cpu_seconds", "cpu_user_seconds", "cpu_system_seconds"] {
                    self.note_missing(&format!("summary.{name}"), missing.clone());
                }
            }
        } else if cpu.is_none() {
            let missing = MissingReason::without_fix("the control group vanished before it could be read");
            for name in ["cpu_seconds", "cpu_user_seconds", "cpu_system_seconds"] {
                self.note_missing(&format!("summary.{name}"), missing.clone());
            }
        }
        if let Some(missing) = &facts.about.inexact {
            self.note_missing("context.start_up", missing.clone());
        }
        if let Some(missing) =
            facts.about.fleeting.as_ref().filter(|_| facts.totals_quality != ValueQuality::Exact)
        {
            self.note_missing("context.end_counters", missing.clone());
        }
    }

    /// Pressure does not tell this: it counts the time in which any task waits while others run.
    fn write_run_queue(&mut self, facts: &CollectedRunFacts) {
        let counted = facts.watch.as_ref().ok().and_then(ProcessWatch::queued_ns);
        let found = counted
            .map(|queued| (queued, self.totals))
            .or_else(|| Some((facts.walker.queued_ns()?, ValueQuality::Sampled)));
        let Some((queued, quality)) = found else {
            let missing = MissingReason::with_fix(
                "the kernel reported no scheduling statistics for every task of the run",
                "run as root, with a kernel that has CONFIG_TASKSTATS and CONFIG_TASK_DELAY_ACCT",
            );
            self.note_missing("cpu.run_queue_seconds", missing.clone());
            self.note_missing("cpu.run_queue_ratio", missing);
            return;
        };
        let queued = Seconds::from_nanos(queued);
        let share = self.run.explained_by_run_queue(queued);
        self.set_value("cpu.run_queue_seconds", quality, |r| &mut r.cpu.run_queue_seconds, Some(queued));
        self.set_value("cpu.run_queue_ratio", ValueQuality::Estimated, |r| &mut r.cpu.run_queue_ratio, share);
    }

    /// Whether the waited-for descendants account for all CPU time, to within 1 % or 10 ms.
    fn is_wait_complete(&self, facts: &CollectedRunFacts) -> bool {
        let waited = facts.end.used.map(|used| (used.user_us + used.system_us) as f64 / 1e6);
        let both = facts.totals.cpu.zip(waited);
        both.is_some_and(|(cpu, waited)| (cpu.get() - waited).abs() <= (cpu.get() * 0.01).max(0.01))
    }

    pub(super) fn write_memory(&mut self, facts: &CollectedRunFacts) {
        let totals = &facts.totals;
        let watched = || facts.watch.as_ref().ok().and_then(|watch| watch.largest_resident());
        let largest = facts.end.used.map(|used| Bytes(used.max_rss_kib * 1024)).or_else(watched);
        match totals.peak_memory {
            Some(peak) => {
                let quality = if totals.is_peak_foreign { ValueQuality::Estimated } else { self.totals };
                self.set_value(
                    "summary.peak_memory_bytes",
                    quality,
                    |r| &mut r.summary.peak_memory_bytes,
                    Some(peak),
                );
                if totals.is_peak_foreign {
                    let reason = "the high-water mark includes the engine's own start-up, so the run's is at most that";
                    let fix = "Linux 6.12 can reset it";
                    self.note_missing("memory.kernel_peak", MissingReason::with_fix(reason, fix));
                }
            }
            None => {
                // The larger of the sampled sum over processes and the kernel's high-water mark of
                // the largest one.
                let value = facts.walker.peak_resident.map(Bytes).max(largest);
                if value.is_none() {
                    let reason = "neither a group with memory nor a process could be read";
                    self.note_missing("summary.peak_memory_bytes", MissingReason::without_fix(reason));
                }
                self.set_value(
                    "summary.peak_memory_bytes",
                    ValueQuality::Estimated,
                    |r| &mut r.summary.peak_memory_bytes,
                    value,
                );
                let reason = "no memory controller for the run; this is the largest process, or the largest sum in a sample";
                self.note_missing("memory.kernel_peak", MissingReason::with_fix(reason, "`metier doctor` shows how to get a control group with memory accounting; memory.peak needs Linux 5.19"));
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
            self.set_value(
                &format!("memory.peak_{name}_bytes"),
                ValueQuality::Sampled,
                field,
                value.map(Bytes),
            );
        }
        self.set_value(
            "memory.peak_process_bytes",
            ValueQuality::Exact,
            |r| &mut r.memory.peak_process_bytes,
            largest,
        );
        if facts.log.peaks.anonymous.is_none() {
            self.note_missing(
                "memory.peak_anonymous_bytes",
                MissingReason::without_fix(
                    "no memory controller for the run, or it was over before a sample",
                ),
            );
        }
        let complete =
            if self.is_wait_complete(facts) { ValueQuality::Exact } else { ValueQuality::Estimated };
        // A group's fault counters are brought up to date in batches, so a short run may read 0.
        let counted = facts.watch.as_ref().ok().and_then(ProcessWatch::page_faults);
        let waited = facts.end.used.map(|used| (used.minor_faults, used.major_faults));
        let batched = || totals.faults.zip(totals.major_faults);
        let faults = counted
            .map(|faults| (faults, ValueQuality::Exact))
            .or(waited.map(|faults| (faults, complete)))
            .or_else(|| {
                batched().map(|(all, major)| ((all.saturating_sub(major), major), ValueQuality::Estimated))
            });
        if let Some(((minor, major), quality)) = faults {
            // Every source counts from the fork, so the launcher's copied pages are among them.
            self.set_value(
                "memory.minor_faults",
                ValueQuality::Estimated,
                |r| &mut r.memory.minor_faults,
                Some(minor),
            );
            self.set_value("memory.major_faults", quality, |r| &mut r.memory.major_faults, Some(major));
        }
        let counted = facts.outcome.oom_kills.max(totals.oom_kills);
        let (oom_kills, quality) = count_oom_kills(counted, facts.outcome.oom, self.totals);
        self.set_value("memory.oom_kills", quality, |r| &mut r.memory.oom_kills, oom_kills);
    }

    pub(super) fn write_io(&mut self, facts: &CollectedRunFacts) {
        // wait4 counts blocks of 512 bytes when a page is dirtied or read, which includes buffered
        // writes; the cgroup v1 block controller would miss them.
        let waited = facts.end.used.map(|used| {
            let complete =
                if self.is_wait_complete(facts) { ValueQuality::Exact } else { ValueQuality::Estimated };
            (used.blocks_in * 512, used.blocks_out * 512, complete)
        });
        // Without wait4, the kernel's event at the end of each process, else the samples of walks.
        let watched = || Some((facts.watch.as_ref().ok()?.storage_bytes()?, ValueQuality::Exact));
        let walked = || Some((facts.walker.storage_traffic()?, ValueQuality::Sampled));
        let counted = || watched().or_else(walked).map(|((read, written), quality)| (read, written, quality));
        match waited.or_else(counted) {
            Some((read, written, quality)) => {
                let (read, written) = (Some(Bytes(read)), Some(Bytes(written)));
                self.set_value("summary.read_bytes", quality, |r| &mut r.summary.read_bytes, read);
                self.set_value("summary.written_bytes", quality, |r| &mut r.summary.written_bytes, written);
            }
            None => {
                let missing =
                    MissingReason::without_fix("the traffic of the run's processes could not be read");
                self.note_missing("summary.read_bytes", missing.clone());
                self.note_missing("summary.written_bytes", missing);
            }
        }
        let totals = &facts.totals;
        self.set_value(
            "io.device_read_bytes",
            self.totals,
            |r| &mut r.io.device_read_bytes,
            totals.device_read,
        );
        self.set_value(
            "io.device_written_bytes",
            self.totals,
            |r| &mut r.io.device_written_bytes,
            totals.device_written,
        );
        if totals.device_read.is_none() {
            let missing = match facts.group.as_ref().map(|group| !group.v1.is_empty()) {
                Ok(true) => MissingReason::without_fix(
                    "version 1 of control groups charges buffered writes to the root group; see summary.written_bytes",
                ),
                _ => MissingReason::with_fix(
                    "the io controller is not delegated to the run",
                    "for a user's session: systemctl edit user@.service, [Service] Delegate=cpu io memory pids",
                ),
            };
            self.note_missing("io.device_read_bytes", missing.clone());
            self.note_missing("io.device_written_bytes", missing);
        }
        let exact = facts.watch.as_ref().ok().and_then(|watch| watch.call_bytes());
        let (called, quality) = match exact {
            Some(called) => (Some(called), ValueQuality::Exact),
            None => (facts.walker.call_traffic(), ValueQuality::Sampled),
        };
        self.set_value(
            "io.call_read_bytes",
            quality,
            |r| &mut r.io.call_read_bytes,
            called.map(|(read, _)| Bytes(read)),
        );
        self.set_value(
            "io.call_written_bytes",
            quality,
            |r| &mut r.io.call_written_bytes,
            called.map(|(_, written)| Bytes(written)),
        );
        if called.is_none() {
            self.note_missing(
                "io.call_read_bytes",
                MissingReason::without_fix("no process lived long enough to be read"),
            );
        }
    }

    pub(super) fn write_pressure(&mut self, facts: &CollectedRunFacts) {
        let totals = &facts.totals;
        let exact = self.totals;
        self.set_value("pressure.cpu_seconds", exact, |r| &mut r.pressure.cpu_seconds, totals.cpu_pressure);
        self.set_value(
            "pressure.memory_seconds",
            exact,
            |r| &mut r.pressure.memory_seconds,
            totals.memory_pressure,
        );
        self.set_value("pressure.io_seconds", exact, |r| &mut r.pressure.io_seconds, totals.io_pressure);
        if totals.cpu_pressure.is_none() {
            let missing = MissingReason::with_fix(
                "the kernel gives no pressure figures for the run",
                "boot with psi=1 and a version 2 control group",
            );
            for name in ["cpu", "memory", "io"] {
                self.note_missing(&format!("pressure.{name}_seconds"), missing.clone());
            }
        }
    }

    pub(super) fn write_processes(&mut self, facts: &CollectedRunFacts) {
        match &facts.watch {
            Ok(watch) if watch.total() > 0 => {
                let quality =
                    if watch.lost_events() == 0 { ValueQuality::Exact } else { ValueQuality::Sampled };
                self.set_value(
                    "summary.processes",
                    quality,
                    |r| &mut r.summary.processes,
                    Some(watch.total()),
                );
                if !watch.has_statistics() {
                    let reason = "the kernel sends no task statistics to metier, so each process's use is as last sampled";
                    self.note_missing(
                        "processes.cpu_seconds",
                        MissingReason::with_fix(
                            reason,
                            "run as root, with a kernel that has CONFIG_TASKSTATS",
                        ),
                    );
                }
            }
            other => {
                // The main process existed even if no sample saw it.
                let seen = facts.walker.process_count().max(1);
                self.set_value(
                    "summary.processes",
                    ValueQuality::Sampled,
                    |r| &mut r.summary.processes,
                    Some(seen),
                );
                let missing = match other {
                    Err(missing) => missing.clone(),
                    Ok(_) => MissingReason::with_fix(
                        "the kernel's process events do not cover this process namespace",
                        "run metier outside the container",
                    ),
                };
                let reason = format!("processes between two samples are not listed: {}", missing.reason);
                self.note_missing("processes.short_lived", MissingReason { reason, fix: missing.fix });
            }
        }
    }

    pub(super) fn write_network(&mut self, facts: &CollectedRunFacts) {
        let sampled = facts.walker.network.map(|network| (network, ValueQuality::Sampled));
        let read = facts.outcome.network.map(|network| (network, ValueQuality::Exact));
        match read.or(sampled) {
            Some(((received, sent), quality)) => {
                self.run.quality.insert("network".into(), quality);
                self.run.network = Some(NetworkUse {
                    received_bytes: Bytes(received),
                    sent_bytes: Bytes(sent),
                    extra: ExtraFields::new(),
                });
            }
            None => self.note_missing(
                "network",
                MissingReason::with_fix(
                    "the run shares the host's network namespace, whose counters cover all processes",
                    "run it in a namespace of its own, for example with `ip netns exec`",
                ),
            ),
        }
    }

    pub(super) fn write_energy(&mut self, instruments: &mut HostInstruments) {
        let (meters, counters_only) = instruments.meters.usage();
        self.run.gpus = instruments.gpus.usage();
        let of_gpus = self.run.gpus.iter().filter_map(|gpu| gpu.energy_joules);
        let gpu: Joules = of_gpus.filter(|_| !instruments.meters.includes_whole_machine()).sum();
        let counted: Vec<Joules> = meters.iter().filter(|m| m.counted).map(|m| m.energy_joules).collect();
        if !counted.is_empty() || gpu.get() > 0.0 {
            let total = counted.into_iter().sum::<Joules>() + gpu;
            let quality = if counters_only { ValueQuality::Exact } else { ValueQuality::Sampled };
            self.set_value("summary.energy_joules", quality, |r| &mut r.summary.energy_joules, Some(total));
            let life = self.run.lifetime_seconds().map_or(0.0, Seconds::get);
            let power = (life > 0.0).then(|| Watts(total.get() / life));
            self.set_value("energy.mean_power_watts", quality, |r| &mut r.energy.mean_power_watts, power);
        } else if let Some(missing) = instruments.meters.missing() {
            self.note_missing("summary.energy_joules", missing);
        }
        self.run.energy.meters = meters;
        if let Some(missing) = instruments.gpus.missing() {
            self.note_missing("gpus", missing);
        }
    }
}

/// Number of out-of-memory kills, with its quality. A cgroup v1 parent does not count those of its
/// children, and the container's own group may be gone before it is read: then the engine reports
/// one kill at most.
fn count_oom_kills(
    counted: Option<u64>,
    is_told: bool,
    quality: ValueQuality,
) -> (Option<u64>, ValueQuality) {
    match is_told && counted < Some(1) {
        true => (Some(1), ValueQuality::Estimated),
        false => (counted, quality),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_that_the_engine_tells_is_never_counted_as_none() {
        let exact = ValueQuality::Exact;
        assert_eq!(count_oom_kills(Some(0), true, exact), (Some(1), ValueQuality::Estimated));
        assert_eq!(count_oom_kills(None, true, exact), (Some(1), ValueQuality::Estimated));
        assert_eq!(count_oom_kills(Some(3), true, exact), (Some(3), exact));
        assert_eq!(count_oom_kills(Some(0), false, exact), (Some(0), exact));
        assert_eq!(count_oom_kills(None, false, exact), (None, exact));
    }
}
