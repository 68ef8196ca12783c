//! Listening to one run, by every way that was asked for.
//!
//! Everything is bound before the first instruction of the application, so that no message is missed; who belongs to the run
//! is told later ([`Listening::open`]), and sockets wait in the kernel until then. A source that cannot be had is a
//! reason in the record, never the end of the run.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use metier_types::{LockUnpoisoned, Missing, RunId, Series, StageSource};

use super::descriptor;
use super::follow::Follow;
use super::frame::{Form, Frames};
use super::heard::Heard;
use super::intake::{Intake, Limits};
use super::lines;
use super::member::{Members, Standing};
use super::pump::{Port, Pump};
use super::pywaggle;
use super::queue::{Queue, WAITING_BYTES};
use super::rows::Rows;
use super::scrape::Scraper;
use super::socket::{self, Sockets};
use crate::http_get::Url;
use crate::spec::ListenSources;

/// Where a container sees the folder of [`Listening`].
pub const INSIDE: &str = "/metrics";
/// The socket's name, which the Waggle class has built in.
pub const SOCKET: &str = "live_metrics.sock";
pub const FIFO: &str = "lines";
/// The name of pywaggle's log folder.
pub const LOG: &str = "pywaggle";
/// What the pipe holds, where the system allows it.
const PIPE_BYTES: usize = 1 << 20;
/// How often, and for how long, understanding steps back when somebody wants to look.
const YIELDS: u32 = 20;
const YIELD: Duration = Duration::from_micros(50);
/// Files are looked at this often.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Listening to one run.
pub struct Listening {
    folder: PathBuf,
    ways: ListenSources,
    is_private: bool,
    log: Option<PathBuf>,
    writer: Option<OwnedFd>,
    pump: Pump<()>,
    worker: Option<JoinHandle<()>>,
    intake: Arc<Mutex<Intake<()>>>,
    /// Somebody waits to look at the intake.
    is_wanted: Arc<AtomicBool>,
    scrapers: Vec<Scraper>,
    rows: Rows,
    problems: Vec<(String, Missing)>,
    sockets: Vec<PathBuf>,
}

impl Listening {
    /// Binds everything below `folder`, which is made, must not exist yet, and is removed at the end. `elsewhere` is a log folder
    /// that the application is told about already (`PYWAGGLE_LOG_DIR`); it is then followed from its end.
    pub fn start(
        ways: &ListenSources,
        folder: &Path,
        run: RunId,
        elsewhere: Option<&Path>,
    ) -> io::Result<Self> {
        fs::create_dir(folder)?;
        let made = Removed(Some(folder.to_path_buf()));
        // A container's user may be anybody; on this host the folder above keeps others out.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777))?;
        let mut problems = Vec::new();
        let mut ports = Vec::new();
        let mut sockets = Vec::new();
        if ways.socket {
            let path = ways.socket_path.clone().unwrap_or_else(|| folder.join(SOCKET));
            match Sockets::bind(&path) {
                Ok(bound) => {
                    sockets.push(path);
                    ports.push(Port::Stream(bound.stream));
                    ports.extend(bound.datagrams.map(Port::Datagrams));
                }
                Err(error) => problems.push(refused("socket", &path, &error)),
            }
        }
        let mut writer = None;
        if ways.lines {
            let path = folder.join(FIFO);
            match fifo(&path) {
                Ok((reader, end)) => {
                    writer = Some(end);
                    ports.push(Port::Pipe(reader, ()));
                }
                Err(error) => problems.push(refused("lines", &path, &error)),
            }
        }
        let log = ways.pywaggle.then(|| elsewhere.map_or_else(|| folder.join(LOG), Path::to_path_buf));
        let mut follow = None;
        if let Some(log) = &log {
            let file = log.join(pywaggle::FILE);
            follow = Some(match elsewhere {
                Some(_) => Follow::from_end(file, Form::Json),
                None => Follow::from_start(file, Form::Json),
            });
            let made = fs::create_dir_all(log)
                .and_then(|()| fs::set_permissions(log, fs::Permissions::from_mode(0o777)));
            if let (Err(error), None) = (made, elsewhere) {
                problems.push(refused("pywaggle", log, &error));
            }
        }
        let queue = Arc::new(Queue::new(WAITING_BYTES));
        let intake = Arc::new(Mutex::new(Intake::new(Limits { speakers: 1, ..Limits::default() })));
        let pump = Pump::start(ports, queue.clone())?;
        let is_wanted = Arc::new(AtomicBool::new(false));
        let worker = {
            let (intake, is_wanted) = (intake.clone(), is_wanted.clone());
            std::thread::Builder::new()
                .name("metier-understand".into())
                .spawn(move || work(&queue, &intake, &is_wanted, follow))?
        };
        made.keep();
        Ok(Self {
            folder: folder.to_path_buf(),
            is_private: ways.socket_path.is_none(),
            ways: ways.clone(),
            log,
            writer,
            pump,
            worker: Some(worker),
            intake,
            is_wanted,
            scrapers: Vec::new(),
            rows: Rows::new(run),
            problems,
            sockets,
        })
    }

    /// Its folder, which a container gets as [`INSIDE`].
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The end of the pipe that a command inherits; its number is then told as `METIER_FD`.
    pub fn writer(&self) -> Option<BorrowedFd<'_>> {
        self.writer.as_ref().map(AsFd::as_fd)
    }

    /// Variables that tell the application where we listen; `seen` is where it sees our folder.
    pub fn environment(&self, seen: &Path) -> Vec<(String, String)> {
        let mut variables = Vec::new();
        let mut tell = |name: &str, path: PathBuf| {
            variables.push((name.to_string(), path.to_string_lossy().into_owned()));
        };
        if let Some(path) = self.sockets.first() {
            let path = if self.is_private { seen.join(SOCKET) } else { path.clone() };
            tell("METIER_DATAGRAMS", socket::datagram_path(&path));
            tell("METIER_SOCKET", path);
        }
        if self.writer.is_some() {
            tell("METIER_LINES", seen.join(FIFO));
        }
        if self.log.as_ref().is_some_and(|log| log.starts_with(&self.folder)) {
            tell("PYWAGGLE_LOG_DIR", seen.join(LOG));
        }
        variables
    }

    /// The application runs, and these are its processes: sockets are opened to them and pages are read. `process` is one of
    /// them, whose network namespace `localhost` means.
    pub fn open(&mut self, members: Members, process: Option<u32>, proc: &Path) {
        let is_private = self.is_private;
        let root = proc.to_path_buf();
        self.pump.open(Box::new(move |peer| match members.standing(&root, peer.pid) {
            Standing::Member => Some(()),
            // Gone before we could look: a folder that is the run's own only members can reach, and elsewhere the user that we
            // run as could do to the run what he likes anyway.
            Standing::Unknown if is_private || descriptor::is_own_user(peer.uid) => Some(()),
            _ => None,
        }));
        for address in &self.ways.scrape {
            let started = Url::parse(address)
                .map_err(|want| io::Error::new(io::ErrorKind::InvalidInput, want))
                .and_then(|url| Scraper::start(address, url, process, proc, self.intake.clone(), ()));
            match started {
                Ok(scraper) => self.scrapers.push(scraper),
                Err(error) => self.problems.push(unread(address, &error.to_string())),
            }
        }
    }

    /// Adds a row to the time line.
    pub fn tick(&mut self, at: Duration) {
        self.is_wanted.store(true, Ordering::Relaxed);
        let intake = lock(&self.intake);
        self.is_wanted.store(false, Ordering::Relaxed);
        self.rows.add(at, intake.get(&()).map(|speaker| speaker.stages()).unwrap_or_default());
    }

    /// Rows since the last call.
    pub fn rows(&mut self) -> Option<Series> {
        self.rows.take()
    }

    /// The last process is gone: reads what is left, and tells what was heard.
    pub fn finish(mut self, at: Duration) -> (Heard, Option<Series>) {
        self.end();
        for scraper in std::mem::take(&mut self.scrapers) {
            let address = scraper.address.clone();
            let went = scraper.finish();
            if let (0, Some(problem)) = (went.pages, &went.problem) {
                self.problems.push(unread(&address, problem));
            }
        }
        self.tick(at);
        let doorstep = self.pump.doorstep();
        let strangers = doorstep.strangers.load(Ordering::Relaxed);
        let refused = doorstep.refused.load(Ordering::Relaxed);
        let intake = lock(&self.intake);
        let heard = heard_of(&intake, strangers, refused, std::mem::take(&mut self.problems));
        drop(intake);
        (heard, self.rows.take())
    }

    fn end(&mut self) {
        self.writer = None;
        self.pump.stop();
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.end();
        self.sockets.iter().for_each(|path| socket::remove(path));
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What an intake of one speaker has heard.
pub fn heard_of(
    intake: &Intake<()>,
    strangers: u64,
    refused: u64,
    problems: Vec<(String, Missing)>,
) -> Heard {
    let Some(speaker) = intake.get(&()) else {
        return Heard { strangers, refused, problems, ..Heard::default() };
    };
    let tallies = speaker.stages();
    Heard {
        stages: tallies.iter().map(|tally| tally.stage()).collect(),
        bucketed: (0..tallies.len()).filter(|at| tallies[*at].buckets.is_some()).collect(),
        counts: speaker.counts.clone(),
        strangers,
        refused,
        problems,
    }
}

/// Understands what was read, and follows the log file.
fn work(queue: &Queue<()>, intake: &Mutex<Intake<()>>, is_wanted: &AtomicBool, mut follow: Option<Follow>) {
    // Without a file there is nothing to look at now and then: sleep until something comes.
    let longest = if follow.is_some() { LOOK_EVERY } else { Duration::from_secs(3600) };
    let mut looked = std::time::Instant::now();
    loop {
        let next = queue.pop(longest);
        let dropped = queue.take_dropped();
        // Locks are not fair: in a flood whoever wants to look, the session in its loop, would wait for its end.
        for _ in 0..YIELDS {
            if !is_wanted.load(Ordering::Relaxed) {
                break;
            }
            std::thread::sleep(YIELD);
        }
        let mut intake = lock(intake);
        dropped.iter().for_each(|(who, count)| intake.dropped(who, *count));
        match &next {
            Ok(Some(block)) => {
                understand(&mut intake, &block.who, block.source, &block.frames, block.read_ns)
            }
            Ok(None) => {}
            Err(_) => {
                if let Some(follow) = &mut follow {
                    look(follow, &mut intake, true);
                }
                return;
            }
        }
        if let Some(follow) = follow.as_mut().filter(|_| looked.elapsed() >= LOOK_EVERY) {
            look(follow, &mut intake, false);
            looked = std::time::Instant::now();
        }
    }
}

/// Reads what the followed file has gained.
fn look(follow: &mut Follow, intake: &mut Intake<()>, is_last: bool) {
    loop {
        let mut frames = Frames::default();
        // A file that cannot be read now may be readable the next time.
        let more = follow.read(&mut frames).unwrap_or_default();
        if !more && is_last {
            follow.end(&mut frames);
        }
        understand(intake, &(), StageSource::Pywaggle, &frames, descriptor::now_ns());
        if !more {
            return;
        }
    }
}

/// Understands messages that came one way.
pub fn understand<K: Eq + std::hash::Hash + Clone>(
    intake: &mut Intake<K>,
    who: &K,
    source: StageSource,
    frames: &Frames,
    read_ns: i64,
) {
    for text in frames.iter() {
        let understood = match source {
            StageSource::Pywaggle => pywaggle::understand(text).map(|message| intake.take(who, &message)),
            StageSource::Lines if !text.starts_with(b"{") => lines::understand(text, read_ns)
                .map(|message| message.iter().for_each(|message| intake.take(who, message))),
            _ => socket::understand(text, read_ns, |message| intake.take(who, &message)),
        };
        if let Err(want) = understood {
            intake.malformed(who, text, want);
        }
    }
    for _ in 0..frames.too_long {
        intake.malformed(who, b"a longer message", "at most 4 KiB a line, 64 KiB an object");
    }
}

/// A pipe behind a name: our end to read, and one to be inherited.
fn fifo(path: &Path) -> io::Result<(OwnedFd, OwnedFd)> {
    descriptor::make_fifo(path)?;
    let reader = descriptor::open_fifo(path)?;
    // 64 KiB, which every pipe has, are enough below some million messages a second.
    let _ = descriptor::widen(reader.as_fd(), PIPE_BYTES);
    let writer = fs::OpenOptions::new().write(true).open(path)?;
    Ok((reader, writer.into()))
}

/// A folder that is removed again unless it is kept.
struct Removed(Option<PathBuf>);

impl Removed {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Removed {
    fn drop(&mut self) {
        self.0.iter().for_each(|folder| drop(fs::remove_dir_all(folder)));
    }
}

fn refused(source: &str, path: &Path, error: &io::Error) -> (String, Missing) {
    let reason = format!("{} cannot be made ({error})", path.display());
    (source.to_string(), Missing::fixable(reason, "choose another path, or end what listens there"))
}

fn unread(address: &str, problem: &str) -> (String, Missing) {
    let reason = format!("{address} could not be read: {problem}");
    ("scrape".to_string(), Missing::fixable(reason, "check that the application serves its metrics there"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock_unpoisoned()
}
