//! What runs that keep each other company tell each other: a file of lines, one per event, that each of them adds to.
//!
//! A line is one short write at the end of the file, so lines of different processes never mix. Times are those of the monotonic
//! clock, which all processes of a machine share. A line that cannot be read is passed over.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use metier_types::{CoRunner, CoRunnerKind, ExtraFields, RunId, Seconds};
use serde::{Deserialize, Serialize};

/// Lines that are looked at; a neighbour of a few milliseconds beside a run of hours makes many.
const MAX_LOG_BYTES: u64 = 64 << 20;
/// Entries in one record.
const MAX_OVERLAPS: usize = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunGroupRole {
    /// The run that the others are there for.
    Main,
    /// A run that it needs.
    Companion,
    /// A run that is put beside it.
    Neighbour,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CoRunEvent {
    Start,
    Ready,
    /// Its last process was gone.
    End,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoRunLogLine {
    pub run: RunId,
    /// What people call it.
    pub name: String,
    /// What it is there for.
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

    /// One that is there.
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

/// Whom a run met, and for how long: the main run meets all others, and they meet it.
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
        let told: Vec<_> = company.iter().map(|c| (c.run, c.role, c.overlap_seconds.unwrap().0)).collect();
        assert_eq!(told, [(needed, CoRunnerKind::Companion, 2.0), (beside, CoRunnerKind::Neighbour, 1.0)]);
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
        assert!(CoRunLog::create(log.path().to_path_buf()).is_err(), "never somebody else's");
    }
}
