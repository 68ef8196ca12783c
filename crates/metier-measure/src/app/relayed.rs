//! What an application on another machine says of itself: its pages, read from here while it runs, and what the ears of its pod
//! heard, understood here after its end.
//!
//! The ears' file is that of `metier-launch/src/ears.rs`, which says its form. It comes from another machine, so nothing in it is believed: lengths are
//! checked, connections are bounded, and what makes no sense ends the reading with a reason.
//!
//! The time line is made of the pages while they are read; where there are none, of what the ears heard, by when that came. It is never
//! made of both: what came last would not be in the order of its rows.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use metier_types::{LockUnpoisoned, Missing, RunId, Series, StageSource};

use super::descriptor;
use super::follow::Follow;
use super::frame::{Form, Framer, Frames};
use super::heard::Heard;
use super::intake::{Intake, Limits};
use super::listening::{FIFO, INSIDE, LOG, SOCKET, heard_of, understand};
use super::rows::Rows;
use super::scrape::Scraper;
use super::socket;
use crate::http_get::Page;
use crate::spec::ListenSources;

/// The name of the file in the folder that the two containers share.
pub const HEARD: &str = "heard";
/// What is missing where it did not come whole, after `stages.`.
pub const PROBLEM: &str = "relayed";
/// How the file begins.
const HEAD: &[u8; 16] = b"metier-heard-1\n\0";
const LONGEST: usize = 1 << 17;
/// Connections that are open at once.
const CALLERS: usize = 1024;
/// Rows of the time line are not closer than this.
const ROW_EVERY: Duration = Duration::from_millis(100);
/// Rows that are made of what the ears heard.
const ROWS: u32 = 20_000;

/// The letters by which the ears are told what to listen to; none of them: there is nothing that they could do.
pub fn letters(ways: &ListenSources) -> String {
    [(ways.socket, 's'), (ways.lines, 'l'), (ways.pywaggle, 'p')]
        .into_iter()
        .filter_map(|(is_asked, letter)| is_asked.then_some(letter))
        .collect()
}

/// Variables that tell the application where the ears are.
pub fn environment(ways: &ListenSources) -> Vec<(String, String)> {
    let inside = Path::new(INSIDE);
    let mut variables = Vec::new();
    let mut tell = |name: &str, path: PathBuf| {
        variables.push((name.to_string(), path.to_string_lossy().into_owned()));
    };
    if ways.socket {
        let path = inside.join(SOCKET);
        tell("METIER_DATAGRAMS", socket::datagram_path(&path));
        tell("METIER_SOCKET", path);
    }
    if ways.lines {
        tell("METIER_LINES", inside.join(FIFO));
    }
    if ways.pywaggle {
        tell("PYWAGGLE_LOG_DIR", inside.join(LOG));
    }
    variables
}

/// What was brought from the pod at its end.
#[derive(Debug, Clone, Copy, Default)]
pub struct Brought<'a> {
    pub heard: Option<&'a Path>,
    pub log: Option<&'a Path>,
    /// When the run began by the clock there, in nanoseconds since 1970, where that is known.
    pub began_ns: Option<i64>,
}

/// Takes what an application elsewhere says of itself.
pub struct Relaying {
    intake: Arc<Mutex<Intake<()>>>,
    scrapers: Vec<Scraper>,
    has_pages: bool,
    rows: Rows,
    next_row: Duration,
    problems: Vec<(String, Missing)>,
}

impl Relaying {
    pub fn new(run: RunId) -> Self {
        Self {
            intake: Arc::new(Mutex::new(Intake::new(Limits { speakers: 1, ..Limits::default() }))),
            scrapers: Vec::new(),
            has_pages: false,
            rows: Rows::new(run),
            next_row: Duration::ZERO,
            problems: Vec::new(),
        }
    }

    /// Reads a page from now on, by `get`, which is called from a thread of its own.
    pub fn read(
        &mut self,
        address: &str,
        get: impl FnMut() -> Result<Page, String> + Send + 'static,
    ) -> io::Result<()> {
        self.has_pages = true;
        self.scrapers.push(Scraper::start_by(address, get, self.intake.clone(), ())?);
        Ok(())
    }

    /// Adds a row to the time line, where one is due.
    pub fn tick(&mut self, at: Duration) {
        if self.has_pages && at >= self.next_row {
            self.rows.add(at, lock(&self.intake).get(&()).map(|who| who.stages()).unwrap_or_default());
            self.next_row = at + ROW_EVERY;
        }
    }

    /// Rows since the last call.
    pub fn rows(&mut self) -> Option<Series> {
        self.rows.take()
    }

    /// The application is gone: nothing is read any more. Gives the pages that never came, with the reason.
    pub fn end(&mut self, at: Duration) -> Vec<(String, String)> {
        let mut unread = Vec::new();
        for scraper in std::mem::take(&mut self.scrapers) {
            let address = scraper.address.clone();
            let went = scraper.finish();
            if let (0, Some(problem)) = (went.pages, went.problem) {
                unread.push((address, problem));
            }
        }
        self.next_row = Duration::ZERO;
        self.tick(at);
        unread
    }

    /// Understands what was brought; the run took `wall`.
    pub fn take(&mut self, brought: Brought<'_>, wall: Duration) {
        let mut intake = lock(&self.intake);
        let mut rows =
            (!self.has_pages).then_some(&mut self.rows).zip(brought.began_ns).map(|(rows, began)| Late {
                rows,
                began_ns: began,
                every: ROW_EVERY.max(wall / ROWS),
                next: Duration::ZERO,
            });
        if let Some(path) = brought.heard {
            let read = std::fs::File::open(path)
                .and_then(|file| records(&mut io::BufReader::new(file), &mut intake, &mut rows));
            if let Err(error) = read {
                let reason = format!("what was heard in the pod came back broken: {error}");
                self.problems.push((PROBLEM.to_string(), Missing::because(reason)));
            }
        }
        if let Some(path) = brought.log {
            let mut follow = Follow::from_start(path.into(), Form::Json);
            loop {
                let mut frames = Frames::default();
                let more = follow.read(&mut frames).unwrap_or_default();
                if !more {
                    follow.end(&mut frames);
                }
                understand(&mut intake, &(), StageSource::Pywaggle, &frames, descriptor::now_ns());
                if !more {
                    break;
                }
            }
        }
        if let Some(Late { rows, .. }) = rows {
            rows.add(wall, intake.get(&()).map(|who| who.stages()).unwrap_or_default());
        }
    }

    /// All that was heard.
    pub fn heard(&mut self) -> Heard {
        heard_of(&lock(&self.intake), 0, 0, std::mem::take(&mut self.problems))
    }
}

/// Rows that are made afterwards, of what came when.
struct Late<'a> {
    rows: &'a mut Rows,
    began_ns: i64,
    every: Duration,
    next: Duration,
}

impl Late<'_> {
    /// Something came at this moment: adds a row of what there was until then, where one is due.
    fn until(&mut self, at_ns: i64, intake: &Intake<()>) {
        let at = Duration::from_nanos(u64::try_from(at_ns.saturating_sub(self.began_ns)).unwrap_or(0));
        if at >= self.next {
            self.rows.add(at, intake.get(&()).map(|who| who.stages()).unwrap_or_default());
            self.next = at + self.every;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock_unpoisoned()
}

fn records(input: &mut impl Read, intake: &mut Intake<()>, rows: &mut Option<Late<'_>>) -> io::Result<()> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "it has another form");
    let mut head = [0; 24];
    input.read_exact(&mut head)?;
    if head[..16] != HEAD[..] {
        return Err(wrong());
    }
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |all, byte| all << 8 | u64::from(*byte));
    let dropped = number(&head[16..]);
    if dropped > 0 {
        intake.dropped(&(), dropped);
    }
    let mut callers: BTreeMap<u64, Framer> = BTreeMap::new();
    let mut lines = Framer::new(Form::Lines);
    let mut content = Vec::new();
    let mut head = [0; 17];
    let mut last_ns = descriptor::now_ns();
    loop {
        match input.read(&mut head[..1])? {
            0 => break,
            _ => input.read_exact(&mut head[1..])?,
        }
        let (kind, caller, length) = (head[0], number(&head[1..5]), number(&head[13..]) as usize);
        last_ns = i64::try_from(number(&head[5..13])).map_err(|_| wrong())?;
        if length > LONGEST {
            return Err(wrong());
        }
        content.resize(length, 0);
        input.read_exact(&mut content)?;
        let mut frames = Frames::default();
        let source = match kind {
            b'l' => {
                lines.push(&content, &mut frames);
                StageSource::Lines
            }
            b'g' => {
                let mut framer = Framer::new(Form::Json);
                framer.push(&content, &mut frames);
                framer.end(&mut frames);
                StageSource::Socket
            }
            b's' if callers.len() < CALLERS || callers.contains_key(&caller) => {
                callers.entry(caller).or_insert_with(|| Framer::new(Form::Json)).push(&content, &mut frames);
                StageSource::Socket
            }
            b'e' => {
                if let Some(mut framer) = callers.remove(&caller) {
                    framer.end(&mut frames);
                }
                StageSource::Socket
            }
            _ => return Err(wrong()),
        };
        rows.iter_mut().for_each(|rows| rows.until(last_ns, intake));
        understand(intake, &(), source, &frames, last_ns);
    }
    let mut frames = Frames::default();
    lines.end(&mut frames);
    understand(intake, &(), StageSource::Lines, &frames, last_ns);
    let mut frames = Frames::default();
    callers.values_mut().for_each(|framer| framer.end(&mut frames));
    understand(intake, &(), StageSource::Socket, &frames, last_ns);
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
        [HEAD.to_vec(), dropped.to_le_bytes().to_vec(), records.concat()].concat()
    }

    fn heard_in(path: &Path) -> Heard {
        let mut relaying = Relaying::new(RunId::new());
        relaying.take(Brought { heard: Some(path), ..Brought::default() }, Duration::from_secs(1));
        relaying.heard()
    }

    #[test]
    fn what_the_ears_heard_has_its_time_line_by_the_clock_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(HEARD);
        let records: Vec<Vec<u8>> = (0..10).map(|n| record(b'l', 0, 1000 + n, b"frames 2 count\n")).collect();
        std::fs::write(&path, file(0, &records)).unwrap();
        let mut relaying = Relaying::new(RunId::new());
        let brought = Brought { heard: Some(&path), log: None, began_ns: Some(999_000_000_000) };
        relaying.take(brought, Duration::from_secs(11));
        let rows = relaying.rows().unwrap();
        assert_eq!(rows.defect(), None);
        let count = rows.column("frames count").unwrap();
        let told: Vec<(i64, Option<f64>)> = (0..rows.times.len())
            .map(|at| (rows.times[at] / 1_000_000_000, count.values.number(at)))
            .collect();
        // Each row has what there was before its moment; the last one has all.
        let mut want: Vec<(i64, Option<f64>)> = (2..=10).map(|s| (s, Some((s as f64 - 1.0) * 2.0))).collect();
        want.push((11, Some(20.0)));
        assert_eq!(told, want);
    }

    #[test]
    fn a_page_is_read_by_whoever_can_and_its_stages_stand_beside_what_was_heard() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(HEARD);
        std::fs::write(&path, file(0, &[record(b'l', 0, 1, b"frames 2 count\n")])).unwrap();
        let mut relaying = Relaying::new(RunId::new());
        let (tell, told) = std::sync::mpsc::channel();
        let mut asked = 0;
        let page = move || {
            asked += 1;
            if asked == 1 {
                return Err("not yet".to_string());
            }
            let _ = tell.send(asked);
            let body = format!("# TYPE done counter\ndone {}\n", asked * 10).into_bytes();
            Ok(Page { media_type: "text/plain".into(), body })
        };
        relaying.read("http://localhost:1/metrics", page).unwrap();
        relaying.read("http://localhost:2/metrics", || Err("refused".into())).unwrap();
        // Asked once more: the page before has been taken.
        while told.recv().unwrap() < 3 {}
        relaying.tick(Duration::from_secs(1));
        let unread = relaying.end(Duration::from_secs(2));
        assert_eq!(unread, [("http://localhost:2/metrics".to_string(), "refused".to_string())]);
        let brought = Brought { heard: Some(&path), log: None, began_ns: Some(0) };
        relaying.take(brought, Duration::from_secs(2));
        let heard = relaying.heard();
        let mut found: Vec<(&str, u64)> = heard.stages.iter().map(|s| (s.name.as_str(), s.count)).collect();
        found.sort_unstable();
        assert!(found[0].0 == "done" && found[0].1 >= 10, "{found:?}");
        assert_eq!(found[1], ("frames", 2));
        let rows = relaying.rows().unwrap();
        assert_eq!((rows.defect(), rows.times.len()), (None, 2), "{rows:?}");
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
        let path = folder.path().join(HEARD);
        std::fs::write(&path, &bytes).unwrap();
        let heard = heard_in(&path);
        let mut found: Vec<(&str, u64)> = heard.stages.iter().map(|s| (s.name.as_str(), s.count)).collect();
        found.sort_unstable();
        assert_eq!(found, [("frames", 2), ("one", 1), ("three", 1), ("two", 1)]);
        assert_eq!(heard.counts.dropped, 3);
        assert!(heard.problems.is_empty(), "{:?}", heard.problems);
    }

    #[test]
    fn no_bytes_do_harm_and_what_is_broken_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(HEARD);
        let good = file(0, &[record(b'l', 0, 1, b"a 1\n"), record(b'l', 0, 2, b"b 2\n")]);
        for cut in 0..good.len() {
            std::fs::write(&path, &good[..cut]).unwrap();
            let heard = heard_in(&path);
            let is_whole = cut == 24 || cut == 24 + 21;
            assert_eq!(heard.problems.is_empty(), is_whole, "{cut}");
        }
        let mut wrong = good.clone();
        wrong[24 + 13..24 + 17].copy_from_slice(&u32::MAX.to_le_bytes());
        std::fs::write(&path, &wrong).unwrap();
        assert_eq!(heard_in(&path).problems.len(), 1);
    }
}
