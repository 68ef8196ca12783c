//! Summarises a run in one sentence.

use metier_types::{ExitCause, Ratio, Run, RunState, Seconds};

/// How the run ended, how long it took, what it used, and what limited it.
pub fn verdict(run: &Run) -> String {
    let summary = &run.summary;
    if run.state == RunState::Running {
        return format!("{} is running since {}.", run.workload.name, run.started);
    }
    let Some(exit) = &run.exit else {
        return format!("{} was interrupted: the measuring program ended before it.", run.workload.name);
    };
    let ended = match exit.cause {
        ExitCause::Exited => match exit.code {
            Some(0) if oom_kill_text(run).is_some() => "exited with code 0".to_string(),
            Some(0) | None => "succeeded".to_string(),
            Some(code) => format!("failed with exit code {code}"),
        },
        ExitCause::Signalled => {
            format!("was ended by signal {}", exit.signal.map_or("?".into(), |n| n.to_string()))
        }
        ExitCause::Timeout if exit.planned => "ran for its planned duration and was ended".to_string(),
        ExitCause::Timeout => "was stopped at its time limit".to_string(),
        ExitCause::Oom => match &exit.detail {
            Some(detail) => format!("was killed by the kernel for want of memory ({detail})"),
            None => "was killed by the kernel for want of memory".to_string(),
        },
        ExitCause::Interrupted => "was interrupted".to_string(),
        ExitCause::Unstarted => match &exit.detail {
            Some(detail) => format!("never started: {detail}"),
            None => "never started".to_string(),
        },
        ExitCause::Lost => match &exit.detail {
            Some(detail) => format!("was lost sight of: {detail}"),
            None => "was lost sight of: the measuring program ended before it".to_string(),
        },
    };
    let mut parts = vec![format!("{} {ended}", run.workload.name)];
    if let Some(wall) = summary.wall_seconds {
        parts.push(format!("after {wall}"));
    }
    if let Some(cores) = run.mean_busy_cores() {
        parts.push(format!("using {cores:.2} cores on average"));
    }
    if let Some(memory) = summary.peak_memory_bytes {
        parts.push(format!("and {memory} at its peak"));
    }
    let mut sentence = parts.join(" ");
    if let Some(limit) = dominant_limit(run) {
        sentence.push_str("; ");
        sentence.push_str(&limit);
    }
    // A reason may already be a whole sentence.
    if !sentence.ends_with(['.', '?', '!']) {
        sentence.push('.');
    }
    sentence
}

/// What held the run back, if the record can tell.
fn dominant_limit(run: &Run) -> Option<String> {
    if let Some(killed) = oom_kill_text(run).filter(|_| !is_oom_exit(run)) {
        return Some(killed);
    }
    let life = run.lifetime_seconds()?.get();
    if life < 0.05 {
        return None;
    }
    let cores = run.mean_busy_cores()?;
    let share = |seconds: Option<Seconds>| seconds.map_or(0.0, |s| (s.get() / life).min(1.0));
    // Throttled time is summed over the cores, so it may exceed the lifetime; periods do not.
    let throttled = match run.cpu.throttled_periods.zip(run.cpu.quota_periods) {
        Some((throttled, periods)) => throttled as f64 / periods.max(1) as f64,
        None => share(run.cpu.throttled_seconds),
    };
    // Time in the run queue includes the time in which a limit throttled the tasks.
    let queued = run.cpu.run_queue_ratio.filter(|_| throttled == 0.0).map_or(0.0, Ratio::get);
    let waits = [
        (throttled, "a CPU limit throttled it in", "of the periods"),
        (share(run.pressure.memory_seconds), "some of its tasks waited for memory for", "of the time"),
        (share(run.pressure.io_seconds), "some of its tasks waited for storage for", "of the time"),
        (queued, "its tasks stood in the run queue for up to", "of the time"),
    ];
    let (most, what, of) = waits.into_iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    if most > 0.2 {
        return Some(format!("{what} {:.0} % {of}", most * 100.0));
    }
    // The mean alone does not tell one core throughout from two cores for half of the time.
    let whole = cores.round();
    let is_steady = run.cpu.peak_cores.is_some_and(|peak| peak < whole + 0.2);
    if cores > 0.9 && (cores - whole).abs() < 0.08 && is_steady {
        let noun = if whole == 1.0 { "one core".to_string() } else { format!("{whole:.0} cores") };
        return Some(format!("it kept {noun} busy throughout"));
    }
    (cores < 0.1).then(|| "it mostly waited".to_string())
}

fn is_oom_exit(run: &Run) -> bool {
    run.exit.as_ref().is_some_and(|exit| exit.cause == ExitCause::Oom)
}

/// Processes of the run that the kernel killed for want of memory, in words.
pub(crate) fn oom_kill_text(run: &Run) -> Option<String> {
    let kills = run.memory.oom_kills.filter(|kills| *kills > 0)?;
    let limit = run.context.limits.get("memory").map(|limit| format!(", under a limit of {limit}"));
    Some(format!(
        "the kernel killed {kills} of its processes for want of memory{}",
        limit.unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests {
    use metier_types::RunExit;

    use super::*;

    fn finished() -> Run {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../metier/tests/fixtures/archive.jsonl");
        let text = std::fs::read_to_string(path).unwrap();
        let line = text.lines().find(|line| line.contains("\"metier.run/1\"")).unwrap();
        let mut run: Run = serde_json::from_str(line).unwrap();
        run.exit = Some(RunExit { code: Some(0), ..RunExit::from_cause(ExitCause::Exited) });
        run.summary.wall_seconds = Some(Seconds(10.0));
        run.summary.cpu_seconds = Some(Seconds(10.0));
        run.pressure = Default::default();
        run.cpu = Default::default();
        run
    }

    #[test]
    fn pressure_of_some_task_is_no_wait_of_the_run() {
        let mut run = finished();
        run.pressure.cpu_seconds = Some(Seconds(9.9));
        run.cpu.peak_cores = Some(1.0);
        let text = verdict(&run);
        assert!(text.contains("it kept one core busy throughout") && !text.contains("99 %"), "{text}");
        run.cpu.peak_cores = Some(2.0);
        assert!(!verdict(&run).contains("throughout"), "two cores for half of the time have the same mean");
    }

    #[test]
    fn time_in_the_run_queue_never_explains_more_than_the_run() {
        let mut run = finished();
        // Two tasks share a core: each ready one waits while the other runs.
        let share = run.explained_by_run_queue(Seconds(10.0)).unwrap();
        assert!((share.get() - 0.5).abs() < 1e-9, "{share}");
        run.summary.cpu_seconds = Some(Seconds(1.0));
        let share = run.explained_by_run_queue(Seconds(1.0)).unwrap();
        assert!((share.get() - 0.1).abs() < 1e-9, "one task that mostly sleeps: {share}");
        assert!(run.explained_by_run_queue(Seconds(1e6)).unwrap().get() <= 1.0);
        run.cpu.run_queue_ratio = Some(Ratio(0.5));
        assert!(verdict(&run).contains("stood in the run queue for up to 50 % of the time"));
    }

    #[test]
    fn a_throttled_run_is_never_held_back_for_more_than_all_periods() {
        let mut run = finished();
        run.cpu.throttled_seconds = Some(Seconds(15.0));
        assert!(verdict(&run).contains("in 100 % of the periods"));
        (run.cpu.throttled_periods, run.cpu.quota_periods) = (Some(50), Some(100));
        assert!(verdict(&run).contains("throttled it in 50 % of the periods"));
    }

    #[test]
    fn a_killed_child_is_told_also_where_the_command_succeeded() {
        let mut run = finished();
        run.memory.oom_kills = Some(1);
        run.context.limits.insert("memory".into(), "50.0 MiB".into());
        let text = verdict(&run);
        assert!(!text.contains("succeeded"), "{text}");
        let killed = "killed 1 of its processes for want of memory, under a limit of 50.0 MiB";
        assert!(text.contains(killed), "{text}");
    }
}
