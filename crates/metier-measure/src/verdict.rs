//! Summarises a run in one sentence.

use metier_types::{ExitCause, Run, RunState};

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

/// What the run spent most time on, if one cause dominates.
fn dominant_limit(run: &Run) -> Option<String> {
    let life = run.lifetime_seconds()?.get();
    if life < 0.05 {
        return None;
    }
    let cores = run.mean_busy_cores()?;
    let share = |seconds: Option<metier_types::Seconds>| seconds.map_or(0.0, |s| s.get() / life);
    let waits = [
        (share(run.cpu.throttled_seconds), "throttled by a CPU limit"),
        (share(run.pressure.memory_seconds), "short of memory"),
        (share(run.pressure.io_seconds), "waiting for storage"),
        (share(run.pressure.cpu_seconds), "waiting for a core"),
    ];
    let (most, what) = waits.into_iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    if most > 0.2 {
        return Some(format!("it spent {:.0} % of the time {what}", most * 100.0));
    }
    if cores > 0.9 && (cores - cores.round()).abs() < 0.08 {
        let n = cores.round();
        return Some(if n == 1.0 {
            "one core was its limit".into()
        } else {
            format!("{n:.0} cores were its limit")
        });
    }
    (cores < 0.1).then(|| "it mostly waited".to_string())
}
