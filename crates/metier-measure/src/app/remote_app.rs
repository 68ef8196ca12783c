//! Messages of an application on another machine: its pages, scraped from here while it runs, and
//! the recording of its pod's listener, parsed here after its end.
//!
//! The recording is written by `metier-launch/src/app_listener.rs`, which documents its format. It
//! comes from another machine and is not trusted: lengths are checked, connections are bounded, and
//! inconsistent content ends the reading with a reason.
//!
//! The time line comes from the pages as they are scraped; without pages, from the recording and
//! its times. The two are never mixed, because the rows would be out of order.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use metier_types::{LockUnpoisoned, MissingReason, RunId, Series, StageSource};

use super::descriptor;
use super::file_follower::FileFollower;
use super::intake::{IntakeLimits, MessageIntake};
use super::listener::{
    CONTAINER_FOLDER, FIFO_NAME, LOG_FOLDER_NAME, SOCKET_NAME, collect_record, parse_frames,
};
use super::message_framer::{FrameFormat, MessageFramer, MessageFrames};
use super::record::AppRecord;
use super::scrape::PageScraper;
use super::socket;
use super::stage_timeline::StageTimeline;
use crate::http_get::HttpPage;
use crate::spec::ListenSources;

/// The name of the file in the folder that the two containers share.
pub const RECORDING_NAME: &str = "heard";
/// Name in `missing`, after `stages.`, of a recording that did not arrive completely.
pub const PROBLEM_FIELD: &str = "relayed";
/// First bytes of the recording.
const FILE_MAGIC: &[u8; 16] = b"metier-heard-1\n\0";
const MAX_RECORD_BYTES: usize = 1 << 17;
/// Maximum number of open connections.
const MAX_CONNECTIONS: usize = 1024;
/// Minimum distance of time line rows.
const ROW_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of rows from the recording.
const MAX_ROWS: u32 = 20_000;

/// Letters that tell the pod's listener its sources; empty if it has none.
pub fn source_letters(ways: &ListenSources) -> String {
    [(ways.socket, 's'), (ways.lines, 'l'), (ways.pywaggle, 'p')]
        .into_iter()
        .filter_map(|(is_asked, letter)| is_asked.then_some(letter))
        .collect()
}

/// Environment variables with the addresses of the pod's listener.
pub fn remote_environment(ways: &ListenSources) -> Vec<(String, String)> {
    let inside = Path::new(CONTAINER_FOLDER);
    let mut variables = Vec::new();
    let mut tell = |name: &str, path: PathBuf| {
        variables.push((name.to_string(), path.to_string_lossy().into_owned()));
    };
    if ways.socket {
        let path = inside.join(SOCKET_NAME);
        tell("METIER_DATAGRAMS", socket::datagram_path(&path));
        tell("METIER_SOCKET", path);
    }
    if ways.lines {
        tell("METIER_LINES", inside.join(FIFO_NAME));
    }
    if ways.pywaggle {
        tell("PYWAGGLE_LOG_DIR", inside.join(LOG_FOLDER_NAME));
    }
    variables
}

/// Files downloaded from the pod at its end.
#[derive(Debug, Clone, Copy, Default)]
pub struct RemoteAppFiles<'a> {
    pub heard: Option<&'a Path>,
    pub log: Option<&'a Path>,
    /// Start of the run by the remote clock, in nanoseconds since 1970, if known.
    pub began_ns: Option<i64>,
}

/// Aggregates the messages of a remote application.
pub struct RemoteAppIntake {
    intake: Arc<Mutex<MessageIntake<()>>>,
    scrapers: Vec<PageScraper>,
    has_pages: bool,
    rows: StageTimeline,
    next_row: Duration,
    problems: Vec<(String, MissingReason)>,
}

impl RemoteAppIntake {
    pub fn new(run: RunId) -> Self {
        Self {
            intake: Arc::new(Mutex::new(MessageIntake::new(IntakeLimits {
                speakers: 1,
                ..IntakeLimits::default()
            }))),
            scrapers: Vec::new(),
            has_pages: false,
            rows: StageTimeline::new(run),
            next_row: Duration::ZERO,
            problems: Vec::new(),
        }
    }

    /// Starts to scrape a page through `get`, which is called from its own thread.
    pub fn scrape_page(
        &mut self,
        address: &str,
        get: impl FnMut() -> Result<HttpPage, String> + Send + 'static,
    ) -> io::Result<()> {
        self.has_pages = true;
        self.scrapers.push(PageScraper::start_with(address, get, self.intake.clone(), ())?);
        Ok(())
    }

    /// Adds a row to the time line if it is due.
    pub fn add_row_if_due(&mut self, at: Duration) {
        if self.has_pages && at >= self.next_row {
            self.rows.add_row(
                at,
                lock_intake(&self.intake).sender(&()).map(|sender| sender.stages()).unwrap_or_default(),
            );
            self.next_row = at + ROW_INTERVAL;
        }
    }

    /// Takes the rows since the last call.
    pub fn take_rows(&mut self) -> Option<Series> {
        self.rows.take_rows()
    }

    /// Stops scraping after the application has ended. Returns the pages that never answered, with
    /// the reason.
    pub fn stop_scraping(&mut self, at: Duration) -> Vec<(String, String)> {
        let mut unread = Vec::new();
        for scraper in std::mem::take(&mut self.scrapers) {
            let address = scraper.address.clone();
            let went = scraper.finish();
            if let (0, Some(problem)) = (went.pages, went.problem) {
                unread.push((address, problem));
            }
        }
        self.next_row = Duration::ZERO;
        self.add_row_if_due(at);
        unread
    }

    /// Parses the downloaded files; the run took `wall`.
    pub fn read_files(&mut self, brought: RemoteAppFiles<'_>, wall: Duration) {
        let mut intake = lock_intake(&self.intake);
        let mut rows =
            (!self.has_pages).then_some(&mut self.rows).zip(brought.began_ns).map(|(rows, began)| {
                TimelineReplay {
                    rows,
                    began_ns: began,
                    every: ROW_INTERVAL.max(wall / MAX_ROWS),
                    next: Duration::ZERO,
                }
            });
        if let Some(path) = brought.heard {
            let read = std::fs::File::open(path)
                .and_then(|file| read_records(&mut io::BufReader::new(file), &mut intake, &mut rows));
            if let Err(error) = read {
                let reason = format!("the recording of the pod's messages is damaged: {error}");
                self.problems.push((PROBLEM_FIELD.to_string(), MissingReason::without_fix(reason)));
            }
        }
        if let Some(path) = brought.log {
            let mut follow = FileFollower::from_start(path.into(), FrameFormat::Json);
            loop {
                let mut frames = MessageFrames::default();
                let more = follow.read_messages(&mut frames).unwrap_or_default();
                if !more {
                    follow.finish(&mut frames);
                }
                parse_frames(&mut intake, &(), StageSource::Pywaggle, &frames, descriptor::unix_time_ns());
                if !more {
                    break;
                }
            }
        }
        if let Some(TimelineReplay { rows, .. }) = rows {
            rows.add_row(wall, intake.sender(&()).map(|sender| sender.stages()).unwrap_or_default());
        }
    }

    /// Takes the record of all messages.
    pub fn take_record(&mut self) -> AppRecord {
        collect_record(&lock_intake(&self.intake), 0, 0, std::mem::take(&mut self.problems))
    }
}

/// Builds time line rows afterwards, from the recorded times.
struct TimelineReplay<'a> {
    rows: &'a mut StageTimeline,
    began_ns: i64,
    every: Duration,
    next: Duration,
}

impl TimelineReplay<'_> {
    /// Advances to the time of a message: adds a row with the state until then, if it is due.
    fn replay_until(&mut self, at_ns: i64, intake: &MessageIntake<()>) {
        let at = Duration::from_nanos(u64::try_from(at_ns.saturating_sub(self.began_ns)).unwrap_or(0));
        if at >= self.next {
            self.rows.add_row(at, intake.sender(&()).map(|sender| sender.stages()).unwrap_or_default());
            self.next = at + self.every;
        }
    }
}

fn lock_intake<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock_unpoisoned()
}

fn read_records(
    input: &mut impl Read,
    intake: &mut MessageIntake<()>,
    rows: &mut Option<TimelineReplay<'_>>,
) -> io::Result<()> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "its format is unknown");
    let mut head = [0; 24];
    input.read_exact(&mut head)?;
    if head[..16] != FILE_MAGIC[..] {
        return Err(wrong());
    }
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |all, byte| all << 8 | u64::from(*byte));
    let dropped = number(&head[16..]);
    if dropped > 0 {
        intake.count_dropped(&(), dropped);
    }
    let mut callers: BTreeMap<u64, MessageFramer> = BTreeMap::new();
    let mut lines = MessageFramer::new(FrameFormat::Lines);
    let mut content = Vec::new();
    let mut head = [0; 17];
    let mut last_ns = descriptor::unix_time_ns();
    loop {
        match input.read(&mut head[..1])? {
            0 => break,
            _ => input.read_exact(&mut head[1..])?,
        }
        let (kind, caller, length) = (head[0], number(&head[1..5]), number(&head[13..]) as usize);
        last_ns = i64::try_from(number(&head[5..13])).map_err(|_| wrong())?;
        if length > MAX_RECORD_BYTES {
            return Err(wrong());
        }
        content.resize(length, 0);
        input.read_exact(&mut content)?;
        let mut frames = MessageFrames::default();
        let source = match kind {
            b'l' => {
                lines.push(&content, &mut frames);
                StageSource::Lines
            }
            b'g' => {
                let mut framer = MessageFramer::new(FrameFormat::Json);
                framer.push(&content, &mut frames);
                framer.finish(&mut frames);
                StageSource::Socket
            }
            b's' if callers.len() < MAX_CONNECTIONS || callers.contains_key(&caller) => {
                callers
                    .entry(caller)
                    .or_insert_with(|| MessageFramer::new(FrameFormat::Json))
                    .push(&content, &mut frames);
                StageSource::Socket
            }
            b'e' => {
                if let Some(mut framer) = callers.remove(&caller) {
                    framer.finish(&mut frames);
                }
                StageSource::Socket
            }
            _ => return Err(wrong()),
        };
        rows.iter_mut().for_each(|rows| rows.replay_until(last_ns, intake));
        parse_frames(intake, &(), source, &frames, last_ns);
    }
    let mut frames = MessageFrames::default();
    lines.finish(&mut frames);
    parse_frames(intake, &(), StageSource::Lines, &frames, last_ns);
    let mut frames = MessageFrames::default();
    callers.values_mut().for_each(|framer| framer.finish(&mut frames));
    parse_frames(intake, &(), StageSource::Socket, &frames, last_ns);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, caller: u32, seconds: u64, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![kind];
        bytes.extend(caller.to_le_bytes());
        bytes.extend((seconds * 1_000_000_000).to_le_bytes());
        bytes.extend((content.len() as u32).to_le_bytes());
        bytes.extend(content);
        bytes
    }

    fn file(dropped: u64, records: &[Vec<u8>]) -> Vec<u8> {
        [FILE_MAGIC.to_vec(), dropped.to_le_bytes().to_vec(), records.concat()].concat()
    }

    fn heard_in(path: &Path) -> AppRecord {
        let mut relaying = RemoteAppIntake::new(RunId::new());
        relaying.read_files(
            RemoteAppFiles { heard: Some(path), ..RemoteAppFiles::default() },
            Duration::from_secs(1),
        );
        relaying.take_record()
    }

    #[test]
    fn what_the_ears_heard_has_its_time_line_by_the_clock_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(RECORDING_NAME);
        let records: Vec<Vec<u8>> = (0..10).map(|n| record(b'l', 0, 1000 + n, b"frames 2 count\n")).collect();
        std::fs::write(&path, file(0, &records)).unwrap();
        let mut relaying = RemoteAppIntake::new(RunId::new());
        let brought = RemoteAppFiles { heard: Some(&path), log: None, began_ns: Some(999_000_000_000) };
        relaying.read_files(brought, Duration::from_secs(11));
        let rows = relaying.take_rows().unwrap();
        assert_eq!(rows.find_defect(), None);
        let count = rows.column("frames count").unwrap();
        let values: Vec<(i64, Option<f64>)> = (0..rows.times.len())
            .map(|at| (rows.times[at] / 1_000_000_000, count.values.value_at(at)))
            .collect();
        // Each row holds the state before its moment; the last row holds everything.
        let mut want: Vec<(i64, Option<f64>)> = (2..=10).map(|s| (s, Some((s as f64 - 1.0) * 2.0))).collect();
        want.push((11, Some(20.0)));
        assert_eq!(values, want);
    }

    #[test]
    fn a_page_is_read_by_whoever_can_and_its_stages_stand_beside_what_was_heard() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(RECORDING_NAME);
        std::fs::write(&path, file(0, &[record(b'l', 0, 1, b"frames 2 count\n")])).unwrap();
        let mut relaying = RemoteAppIntake::new(RunId::new());
        let (tell, receiver) = std::sync::mpsc::channel();
        let mut asked = 0;
        let page = move || {
            asked += 1;
            if asked == 1 {
                return Err("not yet".to_string());
            }
            let _ = tell.send(asked);
            let body = format!("# TYPE done counter\ndone {}\n", asked * 10).into_bytes();
            Ok(HttpPage { media_type: "text/plain".into(), body })
        };
        relaying.scrape_page("http://localhost:1/metrics", page).unwrap();
        relaying.scrape_page("http://localhost:2/metrics", || Err("refused".into())).unwrap();
        // Wait for one more request: then the page before has been processed.
        while receiver.recv().unwrap() < 3 {}
        relaying.add_row_if_due(Duration::from_secs(1));
        let unread = relaying.stop_scraping(Duration::from_secs(2));
        assert_eq!(unread, [("http://localhost:2/metrics".to_string(), "refused".to_string())]);
        let brought = RemoteAppFiles { heard: Some(&path), log: None, began_ns: Some(0) };
        relaying.read_files(brought, Duration::from_secs(2));
        let record = relaying.take_record();
        let mut found: Vec<(&str, u64)> = record.stages.iter().map(|s| (s.name.as_str(), s.count)).collect();
        found.sort_unstable();
        assert!(found[0].0 == "done" && found[0].1 >= 10, "{found:?}");
        assert_eq!(found[1], ("frames", 2));
        let rows = relaying.take_rows().unwrap();
        assert_eq!((rows.find_defect(), rows.times.len()), (None, 2), "{rows:?}");
        assert!(rows.column("frames count").is_none(), "it came when the pages' rows were over");
    }

    #[test]
    fn messages_of_two_connections_that_arrived_in_pieces_are_understood() {
        let bytes = file(
            3,
            &[
                record(b's', 1, 10, b"{\"one\":{\"value\":1,"),
                record(b's', 2, 10, b"{\"two\":2}\n\n"),
                record(b's', 1, 11, b"\"timestamp\":11}}"),
                record(b'l', 0, 12, b"frames 2 co"),
                record(b'l', 0, 13, b"unt\n"),
                record(b'g', 0, 14, b"{\"three\":3}"),
                record(b'e', 1, 15, b""),
            ],
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(RECORDING_NAME);
        std::fs::write(&path, &bytes).unwrap();
        let record = heard_in(&path);
        let mut found: Vec<(&str, u64)> = record.stages.iter().map(|s| (s.name.as_str(), s.count)).collect();
        found.sort_unstable();
        assert_eq!(found, [("frames", 2), ("one", 1), ("three", 1), ("two", 1)]);
        assert_eq!(record.counts.dropped, 3);
        assert!(record.problems.is_empty(), "{:?}", record.problems);
    }

    #[test]
    fn no_bytes_do_harm_and_what_is_broken_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(RECORDING_NAME);
        let good = file(0, &[record(b'l', 0, 1, b"a 1\n"), record(b'l', 0, 2, b"b 2\n")]);
        for cut in 0..good.len() {
            std::fs::write(&path, &good[..cut]).unwrap();
            let record = heard_in(&path);
            let is_whole = cut == 24 || cut == 24 + 21;
            assert_eq!(record.problems.is_empty(), is_whole, "{cut}");
        }
        let mut wrong = good.clone();
        wrong[24 + 13..24 + 17].copy_from_slice(&u32::MAX.to_le_bytes());
        std::fs::write(&path, &wrong).unwrap();
        assert_eq!(heard_in(&path).problems.len(), 1);
    }
}
