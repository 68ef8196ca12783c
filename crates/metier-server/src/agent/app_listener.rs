//! Live metrics that applications on this node send to the agent over the Waggle socket.
//!
//! The sender is identified by kernel credentials and by the control group of its process: program,
//! container, pod or run. Messages of one program in one container add up, however many processes
//! send them. `metier-measure` reads and parses the messages. Applications never wait for the
//! agent, and dropped messages are counted on the page. A sender that was silent for 15 minutes is
//! dropped.
//!
//! The labels of a sender are fixed when it is first on a page, and stay to its end, also after the
//! end of its container. So the sum of a counter over all series that ever were is what was sent.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use metier_linux::cgroup::group_identity::{self, CgroupKind as Whose};
use metier_linux::socket_file::SocketFile;
use metier_measure::app::listener::parse_frames;
use metier_measure::app::message_queue::{MessageQueue, QueueClosed};
use metier_measure::app::message_reader::{MessageInput, MessageReader, RejectionCounts};
use metier_measure::app::socket::AppSockets;
use metier_measure::app::{IntakeLimits, MessageIntake, StageStats};
use metier_prom::{MetricKind, MetricsPage, RenderedLabels};
use metier_types::{LockUnpoisoned, StageKind};

use super::config::AgentLimits;
use super::metrics_page::short_container_id;
use super::name_resolver::NameTable;

/// Bytes of messages that may wait to be parsed.
const MAX_QUEUED_BYTES: usize = 8 << 20;
/// A sender is dropped after this time without a message.
const APP_EXPIRY: Duration = Duration::from_secs(15 * 60);
/// Quantiles reported for values that are not times.
const VALUE_QUANTILES: [f64; 3] = [0.5, 0.95, 0.99];
/// Interpreters: their first argument names the program better than their own file.
const INTERPRETERS: [&str; 9] = ["python", "pypy", "node", "ruby", "perl", "java", "sh", "bash", "dash"];

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct AppIdentity {
    app: String,
    container: Option<String>,
    pod: Option<String>,
    run: Option<String>,
}

impl AppIdentity {
    /// Identifies a process by its command line and control group.
    fn from_process(proc: &Path, pid: u32) -> Self {
        let folder = proc.join(pid.to_string());
        let read = |name: &str| std::fs::read(folder.join(name)).unwrap_or_default();
        let command = String::from_utf8_lossy(&read("comm")).trim().to_string();
        let mut identity = Self { app: program_name(&read("cmdline"), &command), ..Self::default() };
        for line in String::from_utf8_lossy(&read("cgroup")).lines() {
            let Some(named) = line.splitn(3, ':').nth(2).and_then(group_identity::identify_enclosing) else {
                continue;
            };
            if identity.pod.is_none() {
                identity.pod = named.pod;
            }
            match named.kind {
                Whose::Container(id) => identity.container = Some(id),
                Whose::Run(run) => identity.run = Some(run),
                Whose::Pod(_) | Whose::Unit(_) => {}
            }
        }
        identity
    }

    /// Whether its names will not change any more.
    fn is_settled(&self, book: &NameTable) -> bool {
        self.container.as_ref().or(self.pod.as_ref()).is_none_or(|id| book.is_settled(id))
    }

    /// What names are looked up for.
    fn group_kind(&self) -> Option<Whose> {
        let pod = || self.pod.clone().map(Whose::Pod);
        self.container.clone().map(Whose::Container).or_else(pod)
    }

    fn labels(&self, book: &NameTable) -> RenderedLabels {
        let short = |id: &str| short_container_id(id).to_string();
        let container = self.container.as_deref();
        let name = container.and_then(|id| book.container(id));
        let pod = self.pod.as_deref().and_then(|uid| book.pod(uid));
        let called = name.and_then(|name| name.container.clone()).or_else(|| container.map(short));
        let or_pod = |own: Option<&String>, pods: Option<&String>| own.or(pods).cloned();
        let pod_name = or_pod(name.and_then(|n| n.pod.as_ref()), pod.and_then(|p| p.pod.as_ref()));
        let namespace =
            or_pod(name.and_then(|n| n.namespace.as_ref()), pod.and_then(|p| p.namespace.as_ref()));
        let run = or_pod(name.and_then(|n| n.run_id.as_ref()), pod.and_then(|p| p.run_id.as_ref()));
        RenderedLabels::new()
            .with_label("app", &self.app)
            // Containers that follow each other under one name have series of their own.
            .with_optional_label("id", container.map(short_container_id))
            .with_optional_label("container", called.as_deref())
            .with_optional_label("pod", pod_name.as_deref())
            .with_optional_label("namespace", namespace.as_deref())
            .with_optional_label("image", name.and_then(|name| name.image.as_deref()))
            .with_optional_label("run_id", self.run.as_deref().or(run.as_deref()))
    }
}

/// Name of a program: its file, or that of the script which an interpreter runs.
fn program_name(cmdline: &[u8], command: &str) -> String {
    let words: Vec<String> = cmdline
        .split(|byte| *byte == 0)
        .take(16)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .filter(|word| !word.is_empty())
        .collect();
    let base = |word: &str| word.rsplit('/').next().unwrap_or(word).to_string();
    let program = words.first().map_or_else(|| command.to_string(), |word| base(word));
    let stem = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let mut name = program.clone();
    if INTERPRETERS.contains(&stem) {
        let mut rest = words.iter().skip(1);
        while let Some(word) = rest.next() {
            match word.as_str() {
                "-m" => {
                    name = rest.next().cloned().unwrap_or(program);
                    break;
                }
                "-c" | "-e" => break,
                flag if flag.starts_with('-') => {}
                script => {
                    name = base(script);
                    break;
                }
            }
        }
    }
    if name.is_empty() {
        name = "unknown".into();
    }
    name.chars().take(64).collect()
}

/// A sender as the pages have it.
struct HeardSender {
    /// Messages at the last scrape.
    messages: u64,
    /// Since when that count has not changed.
    since: Instant,
    /// `None` until its names are settled.
    labels: Option<RenderedLabels>,
}

pub struct AppListener {
    files: Vec<SocketFile>,
    intake: Arc<Mutex<MessageIntake<AppIdentity>>>,
    doorstep: Arc<RejectionCounts>,
    heard: HashMap<AppIdentity, HeardSender>,
    pump: Option<MessageReader<AppIdentity>>,
    worker: Option<JoinHandle<()>>,
}

impl AppListener {
    /// Binds the sockets. A socket that cannot be bound is logged and skipped. `None` if none is
    /// left.
    pub fn listen(paths: &[PathBuf], proc: &Path, bounds: &AgentLimits) -> Option<Self> {
        let mut ports = Vec::new();
        let mut bound = Vec::new();
        for path in paths {
            let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
            match made.and_then(|()| AppSockets::bind(path)) {
                Ok(sockets) => {
                    ports.push(MessageInput::Stream(sockets.stream));
                    ports.extend(sockets.datagrams.map(MessageInput::Datagrams));
                    bound.extend(sockets.files);
                }
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "cannot listen for messages of applications; name another socket with --socket");
                }
            }
        }
        if bound.is_empty() {
            return None;
        }
        let limits = IntakeLimits { speakers: bounds.apps, stages: bounds.metrics_per_app };
        let intake = Arc::new(Mutex::new(MessageIntake::new(limits)));
        let queue = Arc::new(MessageQueue::new(MAX_QUEUED_BYTES));
        let started = MessageReader::start(ports, queue.clone()).and_then(|pump| {
            let intake = intake.clone();
            let worker = std::thread::Builder::new()
                .name("metier-understand".into())
                .spawn(move || process_messages(&queue, &intake))?;
            Ok((pump, worker))
        });
        let (pump, worker) = match started {
            Ok(started) => started,
            Err(error) => {
                tracing::warn!(%error, "cannot listen for messages of applications");
                bound.iter().for_each(SocketFile::remove);
                return None;
            }
        };
        let proc = proc.to_path_buf();
        pump.admit_peers(Box::new(move |peer| Some(AppIdentity::from_process(&proc, peer.pid))));
        Some(Self {
            files: bound,
            intake,
            doorstep: pump.rejections(),
            heard: HashMap::new(),
            pump: Some(pump),
            worker: Some(worker),
        })
    }

    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(SocketFile::path)
    }

    /// Containers and pods of the senders that have no labels yet, with the enclosing pod.
    pub fn unnamed_senders(&self) -> Vec<(Whose, Option<String>)> {
        let intake = lock_intake(&self.intake);
        let is_unnamed =
            |sender: &AppIdentity| self.heard.get(sender).is_none_or(|heard| heard.labels.is_none());
        intake
            .senders()
            .filter(|(sender, _)| is_unnamed(sender))
            .filter_map(|(sender, _)| Some((sender.group_kind()?, sender.pod.clone())))
            .collect()
    }

    /// Writes all metrics, then drops senders that were silent for [`APP_EXPIRY`].
    pub fn write_metrics(&mut self, book: &NameTable, page: &mut MetricsPage) {
        let mut intake = lock_intake(&self.intake);
        let now = Instant::now();
        for (sender, speaker) in intake.senders() {
            let messages = speaker.counts.messages;
            let heard = self.heard.entry(sender.clone()).or_insert(HeardSender {
                messages,
                since: now,
                labels: None,
            });
            if heard.messages != messages {
                (heard.messages, heard.since) = (messages, now);
            }
            if heard.labels.is_none() && sender.is_settled(book) {
                heard.labels = Some(sender.labels(book));
            }
        }
        let heard = &mut self.heard;
        intake.retain(|sender| heard.get(sender).is_some_and(|heard| now - heard.since < APP_EXPIRY));
        heard.retain(|sender, _| intake.sender(sender).is_some());
        write_app_families(&intake, &self.doorstep, heard, page);
    }
}

impl Drop for AppListener {
    fn drop(&mut self) {
        if let Some(mut pump) = self.pump.take() {
            pump.stop();
        }
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
        self.files.iter().for_each(SocketFile::remove);
    }
}

fn lock_intake(intake: &Mutex<MessageIntake<AppIdentity>>) -> MutexGuard<'_, MessageIntake<AppIdentity>> {
    intake.lock_unpoisoned()
}

fn process_messages(queue: &MessageQueue<AppIdentity>, intake: &Mutex<MessageIntake<AppIdentity>>) {
    loop {
        match queue.pop(Duration::from_secs(60)) {
            Ok(Some(block)) => {
                parse_frames(
                    &mut lock_intake(intake),
                    &block.sender,
                    block.source,
                    &block.frames,
                    block.read_ns,
                );
            }
            Ok(None) => {}
            Err(QueueClosed) => return,
        }
        for (sender, messages) in queue.take_dropped() {
            lock_intake(intake).count_dropped(&sender, messages);
        }
    }
}

fn write_app_families(
    intake: &MessageIntake<AppIdentity>,
    doorstep: &RejectionCounts,
    heard: &HashMap<AppIdentity, HeardSender>,
    page: &mut MetricsPage,
) {
    let labels_of = |sender: &AppIdentity| heard.get(sender).and_then(|heard| heard.labels.clone());
    let mut speakers: Vec<(RenderedLabels, &metier_measure::app::SenderStats)> =
        intake.senders().filter_map(|(sender, speaker)| Some((labels_of(sender)?, speaker))).collect();
    speakers.sort_by(|a, b| a.0.as_str().cmp(b.0.as_str()));
    // A page with a series twice would be refused as a whole.
    speakers.dedup_by(|a, b| a.0 == b.0);
    let stages: Vec<(RenderedLabels, &StageStats)> = speakers
        .iter()
        .flat_map(|(labels, speaker)| speaker.stages().iter().map(move |stage| (labels, stage)))
        .map(|(labels, stage)| {
            let more = Some(stage.labels.as_str()).filter(|text| !text.is_empty());
            (labels.clone().with_label("metric", &stage.name).with_optional_label("labels", more), stage)
        })
        .collect();
    let of =
        |kinds: &'static [StageKind]| stages.iter().filter(move |(_, stage)| kinds.contains(&stage.kind));

    let help = "Durations that applications reported, by metric.";
    let mut family = page.begin_family("metier_app_duration_seconds", MetricKind::Histogram, help);
    for (labels, stage) in of(&[StageKind::Duration]) {
        let histogram = &stage.histogram;
        family.add_histogram(labels, stage.cumulative_durations(), histogram.count(), stage.sum);
    }
    let help = "Values that applications reported, by metric: quantiles, sum and count.";
    let mut family = page.begin_family("metier_app_value", MetricKind::Summary, help);
    for (labels, stage) in of(&[StageKind::Value, StageKind::Rate]) {
        let histogram = &stage.histogram;
        let quantiles =
            VALUE_QUANTILES.into_iter().filter_map(|share| Some((share, histogram.quantile(share)?)));
        family.add_summary(labels, quantiles, histogram.count(), stage.sum);
    }
    let help = "Counts that applications reported, by metric.";
    let mut family = page.begin_family("metier_app_items_total", MetricKind::Counter, help);
    of(&[StageKind::Counter]).for_each(|(labels, stage)| family.add_sample(labels, stage.count));
    let help = "Last value that applications reported, by metric.";
    let mut family = page.begin_family("metier_app_last_value", MetricKind::Gauge, help);
    stages.iter().for_each(|(labels, stage)| family.add_sample(labels, stage.last));

    let mut family = page.begin_family("metier_app_messages_total", MetricKind::Counter, "Messages parsed.");
    speakers.iter().for_each(|(labels, speaker)| family.add_sample(labels, speaker.counts.messages));
    let mut family = page.begin_family(
        "metier_app_malformed_total",
        MetricKind::Counter,
        "Messages that could not be parsed.",
    );
    speakers.iter().for_each(|(labels, speaker)| family.add_sample(labels, speaker.counts.malformed));
    let help = "Messages dropped so that the application need not wait.";
    let mut family = page.begin_family("metier_app_dropped_total", MetricKind::Counter, help);
    speakers.iter().for_each(|(labels, speaker)| family.add_sample(labels, speaker.counts.dropped));
    let help = "Messages of metrics beyond the limit of an application.";
    let mut family = page.begin_family("metier_app_beyond_limit_total", MetricKind::Counter, help);
    speakers.iter().for_each(|(labels, speaker)| family.add_sample(labels, speaker.counts.beyond_limit));
    let help = "Messages of applications beyond the limit of applications.";
    page.add_single(
        "metier_agent_app_messages_left_out_total",
        MetricKind::Counter,
        help,
        intake.beyond_speakers,
    );
    let help = "Connections of applications beyond the number that is served at once.";
    let refused = doorstep.refused.load(Ordering::Relaxed);
    page.add_single("metier_agent_app_connections_refused_total", MetricKind::Counter, help, refused);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_is_called_by_its_program_or_script() {
        for (cmdline, command, want) in [
            (&b"/usr/bin/python3.11\0-u\0/app/detect.py\0--x\0"[..], "python3.11", "detect.py"),
            (b"python3\0-m\0plugin.main\0", "python3", "plugin.main"),
            (b"python3\0-c\0import x\0", "python3", "python3"),
            (b"/opt/detector\0--fast\0", "detector", "detector"),
            (b"sh\0/run.sh\0", "sh", "run.sh"),
            (b"", "kthread", "kthread"),
            (b"", "", "unknown"),
            (b"\xff\xfe\0", "x", "\u{fffd}\u{fffd}"),
        ] {
            assert_eq!(program_name(cmdline, command), want);
        }
        assert_eq!(program_name("x".repeat(500).as_bytes(), "").len(), 64);
    }

    #[test]
    fn who_speaks_is_told_by_its_groups() {
        let folder = tempfile::tempdir().unwrap();
        let id = "adbbece5a3fa84b94fa10e9e1cb18fdf04bdf2ceaf0c1f6325e964e017452fea";
        let uid = "8c1f3e5a-0d9b-4a52-9f6e-2b7d1c0e4f11";
        std::fs::create_dir(folder.path().join("7")).unwrap();
        let cgroup =
            format!("4:memory:/kubepods/besteffort/pod{uid}/{id}\n2:cpuacct:/metier-1-2-a1b2c3d4\n0::/\n");
        std::fs::write(folder.path().join("7/cgroup"), cgroup).unwrap();
        std::fs::write(folder.path().join("7/comm"), "detector\n").unwrap();
        let identity = AppIdentity::from_process(folder.path(), 7);
        assert_eq!(identity.container.as_deref(), Some(id));
        assert_eq!((identity.pod.as_deref(), identity.run.as_deref()), (Some(uid), Some("a1b2c3d4")));
        let labels = identity.labels(&NameTable::default());
        assert_eq!(
            labels.as_str(),
            r#"app="detector",id="adbbece5a3fa",container="adbbece5a3fa",run_id="a1b2c3d4""#
        );
        assert_eq!(AppIdentity::from_process(folder.path(), 8).app, "unknown");
    }
}
