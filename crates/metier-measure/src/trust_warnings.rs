//! Warnings about how far a run can be trusted, derived from its own record.

use metier_types::{Run, RunWarning};

use crate::verdict::oom_kill_text;
use metier_linux::firmware_throttling::FirmwareThrottling;

/// A larger steal share of the cores' time makes wall times doubtful.
const MAX_STEAL_RATIO: f64 = 0.02;
/// A larger share of other processes makes wall times doubtful.
const MAX_OTHERS_RATIO: f64 = 0.20;
/// Maximum share of the run that its time in the run queue explains.
const MAX_RUN_QUEUE_RATIO: f64 = 0.10;
/// Maximum own cost as a share of a core.
const MAX_OVERHEAD_RATIO: f64 = 0.01;
/// A larger share of late samples leaves gaps in the time line.
const MAX_LATE_RATIO: f64 = 0.05;

/// Derives warnings from the record.
pub fn find_trust_warnings(run: &Run, cores: u32) -> Vec<RunWarning> {
    let mut warnings = Vec::new();
    let mut warn = |code: &str, text: String| warnings.push(RunWarning::new(code, text));
    let percent = |ratio: f64| format!("{:.1} %", ratio * 100.0);
    let host = &run.host;
    if let Some(steal) = host.steal_ratio.map(|r| r.get()).filter(|r| *r > MAX_STEAL_RATIO) {
        warn(
            "steal",
            format!(
                "the hypervisor gave {} of the cores' time to other guests; wall times are not comparable, CPU times are",
                percent(steal)
            ),
        );
    }
    if let Some(others) = host.others_ratio.map(|r| r.get()).filter(|r| *r > MAX_OTHERS_RATIO) {
        warn(
            "busy-host",
            format!(
                "other programs used {} of this host's {cores} cores during the run; stop them or compare CPU time",
                percent(others)
            ),
        );
    }
    let mut held = [&host.after, &host.before].into_iter().filter_map(|reading| {
        let flags = reading.extra.get("throttling")?.clone();
        serde_json::from_value::<FirmwareThrottling>(flags).ok().filter(FirmwareThrottling::is_active)
    });
    if let Some(held) = held.next() {
        let why = if held.under_voltage {
            "its supply is too weak"
        } else {
            "it is too hot or its clock is capped"
        };
        warn("held-back", format!("the board's firmware throttled it during the run: {why}"));
    }
    let life = run.lifetime_seconds().map_or(0.0, |s| s.get());
    if let Some(queued) = run.cpu.run_queue_ratio.map(|r| r.get()).filter(|r| *r > MAX_RUN_QUEUE_RATIO) {
        warn(
            "cpu-pressure",
            format!(
                "its tasks stood in the run queue for {}, which explains up to {} of its time: fewer cores were free than tasks were ready",
                run.cpu.run_queue_seconds.unwrap_or_default(),
                percent(queued)
            ),
        );
    }
    if let Some(throttled) =
        run.cpu.throttled_seconds.map(|s| s.get()).filter(|s| life > 0.0 && *s / life > 0.01)
    {
        warn("throttled", format!("a CPU limit throttled the run for {:.2} s", throttled));
    }
    if let Some(own) =
        run.summary.own_overhead_ratio.map(|r| r.get()).filter(|r| *r > MAX_OVERHEAD_RATIO && life > 0.5)
    {
        warn(
            "overhead",
            format!("measuring took {} of a core; a longer --interval costs less", percent(own)),
        );
    }
    if let Some(sampling) = &run.context.sampling
        && sampling.samples > 20
        && sampling.late as f64 / sampling.samples as f64 > MAX_LATE_RATIO
    {
        warn(
            "late-samples",
            format!(
                "{} of {} samples came late; totals are exact, the time line has gaps",
                sampling.late, sampling.samples
            ),
        );
    }
    if let Some(lost) = run.overhead.lost_events.filter(|lost| *lost > 0) {
        warn(
            "lost-events",
            format!(
                "processes started faster than the kernel could report ({lost} overruns); the process list has gaps, totals are exact"
            ),
        );
    }
    if let Some(exit) = run.exit.as_ref().filter(|exit| exit.left_behind > 0) {
        warn(
            "left-behind",
            format!(
                "the command left {} processes behind; their use is counted, and none is left now",
                exit.left_behind
            ),
        );
    }
    let heat = |reading: &metier_types::HostReading| reading.temperature_celsius.map(|t| t.get());
    if let Some(after) = heat(&host.after).filter(|t| *t > 90.0) {
        warn(
            "hot",
            format!("the hottest sensor showed {after:.0} °C at the end; the cores may have slowed down"),
        );
    }
    warnings.extend(find_oom_warning(run));
    warnings
}

/// Warns of processes that the kernel killed for want of memory.
pub fn find_oom_warning(run: &Run) -> Option<RunWarning> {
    let killed = oom_kill_text(run)?;
    Some(RunWarning::new("oom-kill", format!("{killed}; its figures are those of a run that lacked memory")))
}

#[cfg(test)]
mod tests {
    use metier_types::RunId;

    use super::*;

    #[test]
    fn a_board_that_was_held_back_is_told_with_the_reason() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../metier/tests/fixtures/archive.jsonl");
        let text = std::fs::read_to_string(path).unwrap();
        let line = text.lines().find(|line| line.contains("\"metier.run/1\"")).unwrap();
        let mut run: Run = serde_json::from_str(line).unwrap();
        run.id = RunId::new();
        let codes =
            |run: &Run| find_trust_warnings(run, 4).into_iter().map(|w| (w.code, w.text)).collect::<Vec<_>>();
        assert!(codes(&run).iter().all(|(code, _)| code != "held-back"));
        let flags =
            serde_json::to_value(FirmwareThrottling { under_voltage: true, ..FirmwareThrottling::default() })
                .unwrap();
        run.host.after.extra.insert("throttling".into(), flags);
        let warnings = codes(&run);
        assert!(
            warnings.iter().any(|(code, text)| code == "held-back" && text.contains("supply is too weak")),
            "{warnings:?}"
        );
    }
}
