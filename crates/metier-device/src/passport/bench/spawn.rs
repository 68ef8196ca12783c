//! Time to start an empty process and wait for its end.

use std::process::{Command, Stdio};
use std::time::Instant;

use metier_types::{Passport, Seconds};

use super::{BenchContext, RepetitionSpread, mark_missing};

/// Largest number of processes started.
const MAX_SPAWNS: usize = 400;

/// See [`super::BENCH_PARTS`].
pub fn measure(bench: &mut BenchContext, passport: &mut Passport) {
    let deadline = bench.deadline();
    let mut times = Vec::new();
    while times.is_empty() || (times.len() < MAX_SPAWNS && Instant::now() < deadline) {
        let start = Instant::now();
        let ended = Command::new("true")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .status();
        match ended {
            Ok(status) if status.success() => times.push(start.elapsed().as_secs_f64()),
            Ok(status) => {
                return mark_missing(passport, "spawn_seconds", format!("`true` ended with {status}"));
            }
            Err(reason) => {
                return mark_missing(passport, "spawn_seconds", format!("cannot start `true`: {reason}"));
            }
        }
    }
    if let Some(spread) = RepetitionSpread::from_times(times) {
        passport.spawn_seconds = Some(Seconds(spread.best));
        passport.spawn_spread_ratio = Some(spread.ratio());
    }
}
