//! The event log of a group of co-runners: a file with one line per event, appended by each run.
//!
//! Each line is one short append, so lines of different processes never interleave. Times are from
//! the monotonic clock, which all processes of a machine share. Unreadable lines are skipped.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use metier_types::{CoRunner, CoRunnerKind, ExtraFields, RunId, Seconds};
use serde::{Deserialize, Serialize};

/// Bytes of the log that are read. A neighbour of a few milliseconds writes many lines during a run
/// of hours.
const MAX_LOG_BYTES: u64 = 64 << 20;
/// Most co-runners in one record.
const MAX_OVERLAPS: usize = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunGroupRole {
    /// The main run of the group.
    Main,
    /// A run that the main run needs.
    Companion,
    /// A run that loads the device during the main run.
    Neighbour,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CoRunEvent {
    Start,
    Ready,
    /// The last process of the run has ended.
    End,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoRunLogLine {
    pub run: RunId,
    /// Display name.
    pub name: String,
    /// Role of the run in the group.
    pub part: RunGroupRole,
    pub event: CoRunEvent,
    pub at_ns: u64,
}

#[derive(Debug, Clone)]
pub struct CoRunLog {
    path: PathBuf,
}

impl CoRunLog {
    pub fn create(path: PathBuf) -> io::Result<Self> {
        OpenOptions::new().create_new(true).append(true).mode(0o600).open(&path)?;
        Ok(Self { path })
    }

    /// An existing log.
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_path_buf() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn append_line(&self, line: &CoRunLogLine) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        OpenOptions::new().append(true).open(&self.path)?.write_all(&text)
    }

    /// All lines so far.
    pub fn lines(&self) -> Vec<CoRunLogLine> {
        let Ok(file) = File::open(&self.path) else { return Vec::new() };
        let lines = BufReader::new(file.take(MAX_LOG_BYTES)).split(b'\n').map_while(Result::ok);
        lines.filter_map(|line| serde_json::from_slice(&line).ok()).collect()
    }
}

/// The runs that overlapped with a run, and for how long. The main run overlaps with all
/// co-runners; a co-runner only with the main run.
pub fn overlapping_runs(
    lines: &[CoRunLogLine],
    run: RunId,
    part: RunGroupRole,
    from_ns: u64,
    to_ns: u64,
) -> Vec<CoRunner> {
    let is_met = |line: &&CoRunLogLine| {
        line.run != run && (part == RunGroupRole::Main) != (line.part == RunGroupRole::Main)
    };
    let mut company = Vec::new();
    for start in lines.iter().filter(|line| line.event == CoRunEvent::Start).filter(is_met) {
        let end = lines.iter().find(|line| line.run == start.run && line.event == CoRunEvent::End);
        let last = end.map_or(to_ns, |end| end.at_ns).min(to_ns);
        let overlap = last.saturating_sub(start.at_ns.max(from_ns));
        if overlap == 0 || company.len() >= MAX_OVERLAPS {
            continue;
        }
        let other = if part == RunGroupRole::Main { start.part } else { part };
        company.push(CoRunner {
            run: start.run,
            name: start.name.clone(),
            role: if other == RunGroupRole::Companion {
                CoRunnerKind::Companion
            } else {
                CoRunnerKind::Neighbour
            },
            overlap_seconds: Some(Seconds::from_nanos(overlap)),
            extra: ExtraFields::new(),
        });
    }
    company
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(run: RunId, part: RunGroupRole, event: CoRunEvent, at_ns: u64) -> CoRunLogLine {
        CoRunLogLine { run, name: "x".into(), part, event, at_ns }
    }

    #[test]
    fn overlap_is_the_time_in_which_both_were_under_way() {
        let [main, needed, beside, gone, later] = std::array::from_fn(|_| RunId::new());
        let lines = [
            line(needed, RunGroupRole::Companion, CoRunEvent::Start, 100),
            line(gone, RunGroupRole::Neighbour, CoRunEvent::Start, 120),
            line(gone, RunGroupRole::Neighbour, CoRunEvent::End, 180),
            line(beside, RunGroupRole::Neighbour, CoRunEvent::Start, 150),
            line(main, RunGroupRole::Main, CoRunEvent::Start, 200),
            line(beside, RunGroupRole::Neighbour, CoRunEvent::End, 1_000_000_200),
            line(later, RunGroupRole::Neighbour, CoRunEvent::Start, 3_000_000_200),
        ];
        let company = overlapping_runs(&lines, main, RunGroupRole::Main, 200, 2_000_000_200);
        let overlaps: Vec<_> =
            company.iter().map(|c| (c.run, c.role, c.overlap_seconds.unwrap().0)).collect();
        assert_eq!(
            overlaps,
            [(needed, CoRunnerKind::Companion, 2.0), (beside, CoRunnerKind::Neighbour, 1.0)]
        );
        let back = overlapping_runs(&lines, beside, RunGroupRole::Neighbour, 150, 1_000_000_200);
        assert_eq!(
            back.iter().map(|c| (c.run, c.role)).collect::<Vec<_>>(),
            [(main, CoRunnerKind::Neighbour)]
        );
        assert_eq!(back[0].overlap_seconds, Some(Seconds(1.0)));
    }

    #[test]
    fn lines_are_added_by_many_and_torn_ones_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let log = CoRunLog::create(folder.path().join("log")).unwrap();
        let run = RunId::new();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    (0..50).for_each(|n| {
                        log.append_line(&line(run, RunGroupRole::Main, CoRunEvent::Start, n)).unwrap()
                    })
                });
            }
        });
        OpenOptions::new().append(true).open(log.path()).unwrap().write_all(b"{\"run\": torn\n").unwrap();
        assert_eq!(CoRunLog::at(log.path()).lines().len(), 400);
        assert!(CoRunLog::create(log.path().to_path_buf()).is_err(), "an existing log is never reused");
    }
}
