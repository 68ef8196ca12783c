//! Receives application messages of one run from all configured sources.
//!
//! Everything is bound before the first instruction of the application, so that no message is
//! missed. The members of the run become known later ([`RunMessageListener::admit_members`]); until
//! then connections wait in the kernel. An unavailable source becomes a reason in the record and
//! never ends the run.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use metier_linux::socket_file::SocketFile;
use metier_types::{LockUnpoisoned, MissingReason, RunId, Series, StageSource};

use super::descriptor;
use super::file_follower::FileFollower;
use super::intake::{IntakeLimits, MessageIntake};
use super::line_protocol;
use super::membership::{MemberProcesses, RunMembership};
use super::message_framer::{FrameFormat, MessageFrames};
use super::message_queue::{MAX_QUEUED_BYTES, MessageQueue};
use super::message_reader::{MessageInput, MessageReader};
use super::pywaggle;
use super::record::AppRecord;
use super::scrape::PageScraper;
use super::socket::{self, AppSockets};
use super::stage_cpu::{StageCpuSpan, note_stage_cpu};
use super::stage_timeline::StageTimeline;
use crate::http_get::HttpUrl;
use crate::spec::ListenSources;

/// Where a container sees the folder of [`RunMessageListener`].
pub const CONTAINER_FOLDER: &str = "/metrics";
/// The socket's name; the Waggle class has it built in.
pub const SOCKET_NAME: &str = "live_metrics.sock";
pub const FIFO_NAME: &str = "lines";
/// The name of pywaggle's log folder.
pub const LOG_FOLDER_NAME: &str = "pywaggle";
/// Requested capacity of the pipe.
const PIPE_BYTES: usize = 1 << 20;
/// How often, and for how long, the worker yields the lock when another thread waits for the
/// intake.
const MAX_YIELDS: u32 = 20;
const YIELD_TIME: Duration = Duration::from_micros(50);
/// Poll interval of followed files.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(100);

/// Receives the messages of one run.
pub struct RunMessageListener {
    folder: PathBuf,
    ways: ListenSources,
    is_private: bool,
    log: Option<PathBuf>,
    writer: Option<OwnedFd>,
    pump: MessageReader<()>,
    worker: Option<JoinHandle<()>>,
    intake: Arc<Mutex<MessageIntake<()>>>,
    /// Another thread waits for the intake's lock.
    is_wanted: Arc<AtomicBool>,
    scrapers: Vec<PageScraper>,
    rows: StageTimeline,
    spans: Vec<StageCpuSpan>,
    last_cpu_ns: Option<u64>,
    problems: Vec<(String, MissingReason)>,
    sockets: Vec<SocketFile>,
}

impl RunMessageListener {
    /// Binds all sources below `folder`, which must not exist yet; it is created here and removed
    /// at the end. `elsewhere` is a log folder that the application already has from
    /// `PYWAGGLE_LOG_DIR`; it is then followed from its end.
    pub fn start(
        ways: &ListenSources,
        folder: &Path,
        run: RunId,
        elsewhere: Option<&Path>,
    ) -> io::Result<Self> {
        fs::create_dir(folder)?;
        let made = TempFolderGuard(Some(folder.to_path_buf()));
        // A container may run as any user; on this host the private parent folder keeps other users
        // out.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777))?;
        let mut problems = Vec::new();
        let mut ports = Vec::new();
        let mut sockets = Vec::new();
        if ways.socket {
            let path = ways.socket_path.clone().unwrap_or_else(|| folder.join(SOCKET_NAME));
            match AppSockets::bind(&path) {
                Ok(bound) => {
                    sockets.extend(bound.files);
                    ports.push(MessageInput::Stream(bound.stream));
                    ports.extend(bound.datagrams.map(MessageInput::Datagrams));
                }
                Err(error) => problems.push(binding_problem("socket", &path, &error)),
            }
        }
        let mut writer = None;
        if ways.lines {
            let path = folder.join(FIFO_NAME);
            match open_line_pipe(&path) {
                Ok((reader, end)) => {
                    writer = Some(end);
                    ports.push(MessageInput::Pipe(reader, ()));
                }
                Err(error) => problems.push(binding_problem("lines", &path, &error)),
            }
        }
        let log =
            ways.pywaggle.then(|| elsewhere.map_or_else(|| folder.join(LOG_FOLDER_NAME), Path::to_path_buf));
        let mut follow = None;
        if let Some(log) = &log {
            let file = log.join(pywaggle::DATA_FILE);
            follow = Some(match elsewhere {
                Some(_) => FileFollower::from_end(file, FrameFormat::Json),
                None => FileFollower::from_start(file, FrameFormat::Json),
            });
            let made = fs::create_dir_all(log)
                .and_then(|()| fs::set_permissions(log, fs::Permissions::from_mode(0o777)));
            if let (Err(error), None) = (made, elsewhere) {
                problems.push(binding_problem("pywaggle", log, &error));
            }
        }
        let queue = Arc::new(MessageQueue::new(MAX_QUEUED_BYTES));
        let intake =
            Arc::new(Mutex::new(MessageIntake::new(IntakeLimits { speakers: 1, ..IntakeLimits::default() })));
        let pump = MessageReader::start(ports, queue.clone())?;
        let is_wanted = Arc::new(AtomicBool::new(false));
        let worker = {
            let (intake, is_wanted) = (intake.clone(), is_wanted.clone());
            std::thread::Builder::new()
                .name("metier-understand".into())
                .spawn(move || run_worker(&queue, &intake, &is_wanted, follow))?
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
            rows: StageTimeline::new(run),
            spans: Vec::new(),
            last_cpu_ns: None,
            problems,
            sockets,
        })
    }

    /// The folder; a container sees it as [`CONTAINER_FOLDER`].
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The pipe end that a command inherits; `METIER_FD` carries its number.
    pub fn writer(&self) -> Option<BorrowedFd<'_>> {
        self.writer.as_ref().map(AsFd::as_fd)
    }

    /// Environment variables with the addresses of the sources; `seen` is the folder's path inside
    /// the run.
    pub fn environment(&self, seen: &Path) -> Vec<(String, String)> {
        let mut variables = Vec::new();
        let mut tell = |name: &str, path: PathBuf| {
            variables.push((name.to_string(), path.to_string_lossy().into_owned()));
        };
        if let Some(file) = self.sockets.first() {
            let path = if self.is_private { seen.join(SOCKET_NAME) } else { file.path().to_path_buf() };
            tell("METIER_DATAGRAMS", socket::datagram_path(&path));
            tell("METIER_SOCKET", path);
        }
        if self.writer.is_some() {
            tell("METIER_LINES", seen.join(FIFO_NAME));
        }
        if self.log.as_ref().is_some_and(|log| log.starts_with(&self.folder)) {
            tell("PYWAGGLE_LOG_DIR", seen.join(LOG_FOLDER_NAME));
        }
        variables
    }

    /// Starts to accept the run's processes and to read its pages. `process` is a member;
    /// `localhost` means its network namespace.
    pub fn admit_members(&mut self, members: MemberProcesses, process: Option<u32>, proc: &Path) {
        let is_private = self.is_private;
        let root = proc.to_path_buf();
        self.pump.admit_peers(Box::new(move |peer| match members.membership_of(&root, peer.pid) {
            RunMembership::Member => Some(()),
            // The process ended before the check. Only members can reach the run's private folder.
            // Elsewhere a process of this user is accepted: this user can manipulate the run
            // anyway.
            RunMembership::Unknown if is_private || descriptor::is_own_user(peer.uid) => Some(()),
            _ => None,
        }));
        for address in &self.ways.scrape {
            let started = HttpUrl::parse(address)
                .map_err(|want| io::Error::new(io::ErrorKind::InvalidInput, want))
                .and_then(|url| PageScraper::start(address, url, process, proc, self.intake.clone(), ()));
            match started {
                Ok(scraper) => self.scrapers.push(scraper),
                Err(error) => self.problems.push(scrape_problem(address, &error.to_string())),
            }
        }
    }

    /// Adds a row to the time line.
    pub fn add_row(&mut self, at: Duration, cpu_ns: Option<u64>) {
        self.is_wanted.store(true, Ordering::Relaxed);
        let intake = lock_intake(&self.intake);
        self.is_wanted.store(false, Ordering::Relaxed);
        let stages = intake.sender(&()).map(|speaker| speaker.stages()).unwrap_or_default();
        self.rows.add_row(at, stages);
        if let Some(cpu_ns) = cpu_ns {
            note_stage_cpu(&mut self.spans, stages, cpu_ns, self.last_cpu_ns);
            self.last_cpu_ns = Some(cpu_ns);
        }
    }

    /// Takes the rows since the last call.
    pub fn take_rows(&mut self) -> Option<Series> {
        self.rows.take_rows()
    }

    /// Called after the last process has ended: reads the rest and returns the record.
    pub fn finish(mut self, at: Duration, cpu_ns: Option<u64>) -> (AppRecord, Option<Series>) {
        self.stop();
        for scraper in std::mem::take(&mut self.scrapers) {
            let address = scraper.address.clone();
            let went = scraper.finish();
            if let (0, Some(problem)) = (went.pages, &went.problem) {
                self.problems.push(scrape_problem(&address, problem));
            }
        }
        self.add_row(at, cpu_ns);
        let doorstep = self.pump.rejections();
        let strangers = doorstep.strangers.load(Ordering::Relaxed);
        let refused = doorstep.refused.load(Ordering::Relaxed);
        let intake = lock_intake(&self.intake);
        let mut record = collect_record(&intake, strangers, refused, std::mem::take(&mut self.problems));
        drop(intake);
        record.cpu_spans = std::mem::take(&mut self.spans);
        (record, self.rows.take_rows())
    }

    fn stop(&mut self) {
        self.writer = None;
        self.pump.stop();
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

impl Drop for RunMessageListener {
    fn drop(&mut self) {
        self.stop();
        self.sockets.iter().for_each(SocketFile::remove);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The record of an intake with one sender.
pub fn collect_record(
    intake: &MessageIntake<()>,
    strangers: u64,
    refused: u64,
    problems: Vec<(String, MissingReason)>,
) -> AppRecord {
    let Some(speaker) = intake.sender(&()) else {
        return AppRecord { strangers, refused, problems, ..AppRecord::default() };
    };
    let tallies = speaker.stages();
    AppRecord {
        stages: tallies.iter().map(|tally| tally.to_stage()).collect(),
        bucketed: (0..tallies.len()).filter(|at| tallies[*at].buckets.is_some()).collect(),
        counts: speaker.counts.clone(),
        cpu_spans: Vec::new(),
        strangers,
        refused,
        problems,
    }
}

/// Parses queued messages and reads the followed log file.
fn run_worker(
    queue: &MessageQueue<()>,
    intake: &Mutex<MessageIntake<()>>,
    is_wanted: &AtomicBool,
    mut follow: Option<FileFollower>,
) {
    // Without a followed file no polling is needed: sleep until a message arrives.
    let longest = if follow.is_some() { FOLLOW_INTERVAL } else { Duration::from_secs(3600) };
    let mut looked = std::time::Instant::now();
    loop {
        let next = queue.pop(longest);
        let dropped = queue.take_dropped();
        // Locks are not fair: in a flood of messages the session's loop would wait until its end.
        for _ in 0..MAX_YIELDS {
            if !is_wanted.load(Ordering::Relaxed) {
                break;
            }
            std::thread::sleep(YIELD_TIME);
        }
        let mut intake = lock_intake(intake);
        dropped.iter().for_each(|(sender, count)| intake.count_dropped(sender, *count));
        match &next {
            Ok(Some(block)) => {
                parse_frames(&mut intake, &block.sender, block.source, &block.frames, block.read_ns)
            }
            Ok(None) => {}
            Err(_) => {
                if let Some(follow) = &mut follow {
                    read_followed_file(follow, &mut intake, true);
                }
                return;
            }
        }
        if let Some(follow) = follow.as_mut().filter(|_| looked.elapsed() >= FOLLOW_INTERVAL) {
            read_followed_file(follow, &mut intake, false);
            looked = std::time::Instant::now();
        }
    }
}

/// Reads the new content of the followed file.
fn read_followed_file(follow: &mut FileFollower, intake: &mut MessageIntake<()>, is_last: bool) {
    loop {
        let mut frames = MessageFrames::default();
        // A file that is unreadable now may be readable at the next poll.
        let more = follow.read_messages(&mut frames).unwrap_or_default();
        if !more && is_last {
            follow.finish(&mut frames);
        }
        parse_frames(intake, &(), StageSource::Pywaggle, &frames, descriptor::unix_time_ns());
        if !more {
            return;
        }
    }
}

/// Parses messages from one source.
pub fn parse_frames<K: Eq + std::hash::Hash + Clone>(
    intake: &mut MessageIntake<K>,
    sender: &K,
    source: StageSource,
    frames: &MessageFrames,
    read_ns: i64,
) {
    for text in frames.iter() {
        let understood = match source {
            StageSource::Pywaggle => {
                pywaggle::parse_message(text).map(|message| intake.take_message(sender, &message))
            }
            StageSource::Lines if !text.starts_with(b"{") => line_protocol::parse_line(text, read_ns)
                .map(|message| message.iter().for_each(|message| intake.take_message(sender, message))),
            _ => socket::parse_messages(text, read_ns, |message| intake.take_message(sender, &message)),
        };
        if let Err(want) = understood {
            intake.count_malformed(sender, text, want);
        }
    }
    for _ in 0..frames.too_long {
        intake.count_malformed(sender, b"a longer message", "at most 4 KiB a line, 64 KiB an object");
    }
}

/// A named pipe: the end to read from, and the end to be inherited.
fn open_line_pipe(path: &Path) -> io::Result<(OwnedFd, OwnedFd)> {
    descriptor::make_fifo(path)?;
    let reader = descriptor::open_fifo(path)?;
    // 64 KiB, the default capacity, suffice below a million messages a second.
    let _ = descriptor::grow_pipe(reader.as_fd(), PIPE_BYTES);
    let writer = fs::OpenOptions::new().write(true).open(path)?;
    Ok((reader, writer.into()))
}

/// A folder that is removed on drop unless it is released.
struct TempFolderGuard(Option<PathBuf>);

impl TempFolderGuard {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for TempFolderGuard {
    fn drop(&mut self) {
        self.0.iter().for_each(|folder| drop(fs::remove_dir_all(folder)));
    }
}

fn binding_problem(source: &str, path: &Path, error: &io::Error) -> (String, MissingReason) {
    let reason = format!("{} cannot be created ({error})", path.display());
    (
        source.to_string(),
        MissingReason::with_fix(reason, "choose another path, or stop the process that listens there"),
    )
}

fn scrape_problem(address: &str, problem: &str) -> (String, MissingReason) {
    let reason = format!("{address} could not be read: {problem}");
    (
        "scrape".to_string(),
        MissingReason::with_fix(reason, "check that the application serves its metrics there"),
    )
}

fn lock_intake<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock_unpoisoned()
}
