//! What a run is asked to be: the command and how to measure it, checked before anything starts.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use metier_types::{BatchId, WorkloadId};

use crate::Error;

/// Shortest and longest time between samples.
pub const INTERVALS: std::ops::RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(10);

/// A program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Name to look up in PATH, or a path.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

impl Command {
    /// All words, for people and records; bytes that are not UTF-8 are shown as replacement characters.
    pub fn words(&self) -> Vec<String> {
        std::iter::once(&self.program)
            .chain(&self.arguments)
            .map(|w| w.to_string_lossy().into_owned())
            .collect()
    }
}

/// How a run's use may be accounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Accounting {
    /// The best that the host offers: a control group, else a systemd scope, else `wait4`.
    #[default]
    Best,
    /// `wait4` only, as on a host that offers nothing better.
    Wait4,
}

/// What a run is asked to be.
#[derive(Debug, Clone)]
pub struct Spec {
    /// What to run.
    pub command: Command,
    /// Name of the workload; without one its identity is a digest of what it is.
    pub name: Option<WorkloadId>,
    /// Words to find the run by.
    pub tags: Vec<String>,
    /// File or folder whose content the run works on, for the record.
    pub input: Option<PathBuf>,
    /// Time between samples.
    pub interval: Duration,
    /// Longest time that it may take.
    pub timeout: Option<Duration>,
    /// Time between the rungs of the signal ladder.
    pub grace: Duration,
    /// How long processes that the main process left behind may go on before the ladder starts.
    pub linger: Duration,
    /// The batch that the run belongs to.
    pub batch: BatchId,
    /// Which repetition it is, from 1.
    pub repetition: u32,
    /// Of how many.
    pub repetitions: u32,
    /// Whether it only warms up.
    pub warmup: bool,
    /// How its use may be accounted.
    pub accounting: Accounting,
}

impl Spec {
    /// A run of a command with the default way to measure.
    pub fn new(command: Command) -> Self {
        Self {
            command,
            name: None,
            tags: Vec::new(),
            input: None,
            interval: Duration::from_millis(100),
            timeout: None,
            grace: Duration::from_secs(5),
            linger: Duration::from_secs(10),
            batch: BatchId::new(),
            repetition: 1,
            repetitions: 1,
            warmup: false,
            accounting: Accounting::Best,
        }
    }

    /// Refuses what makes no sense, naming the field.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |field, got: String, want| Err(Error::Spec { field, got, want });
        if self.command.program.is_empty() {
            return wrong("command", "empty".into(), "a program to run after `--`");
        }
        if !INTERVALS.contains(&self.interval) {
            return wrong("interval", format!("{:?}", self.interval), "1ms to 10s");
        }
        if self.timeout.is_some_and(|timeout| timeout.is_zero()) {
            return wrong("timeout", "0".into(), "a time above 0, or no limit at all");
        }
        if self.grace > Duration::from_secs(3600) {
            return wrong("grace", format!("{:?}", self.grace), "at most 1h");
        }
        if let Some(tag) = self
            .tags
            .iter()
            .find(|tag| tag.is_empty() || tag.len() > 200 || tag.chars().any(char::is_control))
        {
            return wrong("tag", format!("{tag:?}"), "1 to 200 printable characters");
        }
        Ok(())
    }
}
