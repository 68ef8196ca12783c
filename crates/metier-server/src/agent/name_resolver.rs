//! Resolves names of containers and pods.
//!
//! A cgroup path contains identifiers only. A thread of its own looks up each new identifier at an
//! engine or a cluster. It retries unresolved identifiers at growing intervals. A scrape only reads
//! the table and never waits. Names of removed groups are dropped.
//!
//! The name of a series must not change: a counter under two names counts twice in a sum. So a
//! series begins when its names are settled, and keeps them to its end. Names are settled when they
//! are resolved by all sources together, or after [`MAX_NAME_WAIT`].

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use metier_linux::cgroup::group_identity::CgroupKind;
use metier_types::LockUnpoisoned;

use super::group_tracker::GroupTracker;

/// First delay before a failed lookup is repeated; it doubles each time.
const FIRST_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(300);
/// After this time without a name, the identifier stands in for good.
const MAX_NAME_WAIT: Duration = Duration::from_secs(20);

/// Names of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerName {
    pub container: Option<String>,
    pub image: Option<String>,
    /// Name of its pod.
    pub pod: Option<String>,
    /// Namespace of that pod.
    pub namespace: Option<String>,
    /// The metier run that it belongs to.
    pub run_id: Option<String>,
}

/// Names of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodName {
    pub pod: Option<String>,
    pub namespace: Option<String>,
    /// The metier run that it belongs to.
    pub run_id: Option<String>,
}

/// Identifiers to resolve.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NameRequest {
    pub containers: Vec<String>,
    pub pods: Vec<String>,
}

impl NameRequest {
    pub fn is_empty(&self) -> bool {
        self.containers.is_empty() && self.pods.is_empty()
    }
}

/// Resolved names, by identifier.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResolvedNames {
    pub containers: Vec<(String, ContainerName)>,
    pub pods: Vec<(String, PodName)>,
}

/// A source of names. A lookup may block for some seconds, but not indefinitely.
pub trait NameSource: Send + 'static {
    /// Its name, for metrics and log lines.
    fn source_name(&self) -> &'static str;

    /// Looks up names. The result may contain more than the request.
    fn look_up(&mut self, request: &NameRequest) -> Result<ResolvedNames, String>;
}

/// Number of lookups at a source.
#[derive(Debug, Default)]
pub struct NameSourceStats {
    pub source: &'static str,
    pub times: AtomicU64,
    /// Of those, the failed ones.
    pub failures: AtomicU64,
}

#[derive(Debug, Default)]
pub struct NameTable {
    containers: HashMap<String, ContainerName>,
    pods: HashMap<String, PodName>,
    /// Whether names may still come.
    has_sources: bool,
    /// Identifiers without a name for too long.
    given_up: HashSet<String>,
}

impl NameTable {
    /// The names of a container.
    pub fn container(&self, id: &str) -> Option<&ContainerName> {
        self.containers.get(id)
    }

    /// The names of a pod.
    pub fn pod(&self, uid: &str) -> Option<&PodName> {
        self.pods.get(uid)
    }

    /// Whether the names of a container or pod will not change any more.
    pub fn is_settled(&self, id: &str) -> bool {
        let is_known = self.containers.contains_key(id) || self.pods.contains_key(id);
        !self.has_sources || is_known || self.given_up.contains(id)
    }

    fn add_resolved(&mut self, found: ResolvedNames, request: &NameRequest) {
        let is_wanted: HashSet<&str> =
            request.containers.iter().chain(&request.pods).map(String::as_str).collect();
        for (id, name) in found.containers {
            if is_wanted.contains(id.as_str()) {
                let known = self.containers.entry(id).or_default();
                let ContainerName { container, image, pod, namespace, run_id } = name;
                set_if_unknown(&mut known.container, container);
                // An engine has only the digest of an image that the kubelet pulled by digest; the
                // cluster has its name.
                known.image = known.image.take().filter(|known| !is_digest(known) || image.is_none());
                set_if_unknown(&mut known.image, image);
                set_if_unknown(&mut known.pod, pod);
                set_if_unknown(&mut known.namespace, namespace);
                set_if_unknown(&mut known.run_id, run_id);
            }
        }
        for (uid, name) in found.pods {
            if is_wanted.contains(uid.as_str()) {
                let known = self.pods.entry(uid).or_default();
                set_if_unknown(&mut known.pod, name.pod);
                set_if_unknown(&mut known.namespace, name.namespace);
                set_if_unknown(&mut known.run_id, name.run_id);
            }
        }
    }
}

/// Whether an image's name is only a digest.
fn is_digest(image: &str) -> bool {
    image.starts_with("sha256:")
}

/// The first value wins.
fn set_if_unknown(known: &mut Option<String>, name_text: Option<String>) {
    if known.is_none() {
        *known = name_text.filter(|text| !text.is_empty());
    }
}

/// The name table, and the thread that fills it.
pub struct NameResolver {
    book: Arc<Mutex<NameTable>>,
    asked: Arc<Vec<NameSourceStats>>,
    wake: Option<SyncSender<NameRequest>>,
    waits: HashMap<String, NameWait>,
}

/// The wait for the name of an identifier.
#[derive(Debug, Clone, Copy)]
struct NameWait {
    first_seen: Instant,
    /// When it is looked up again.
    due: Instant,
    delay: Duration,
}

impl NameResolver {
    /// Starts the thread if there is a source. It ends after this is dropped and the last lookup
    /// returned.
    pub fn start(sources: Vec<Box<dyn NameSource>>) -> Self {
        let book = Arc::new(Mutex::new(NameTable::default()));
        let asked: Vec<NameSourceStats> = sources
            .iter()
            .map(|source| NameSourceStats { source: source.source_name(), ..NameSourceStats::default() })
            .collect();
        let asked = Arc::new(asked);
        let mut wake = None;
        if !sources.is_empty() {
            let (sender, receiver) = sync_channel(1);
            let (shelf, counts) = (book.clone(), asked.clone());
            let started = std::thread::Builder::new()
                .name("metier-names".into())
                .stack_size(512 << 10)
                .spawn(move || resolve_names(sources, &receiver, &shelf, &counts));
            match started {
                Ok(_) => {
                    book.lock_unpoisoned().has_sources = true;
                    wake = Some(sender);
                }
                Err(error) => tracing::warn!(%error, "cannot start the thread that looks up container names"),
            }
        }
        Self { book, asked, wake, waits: HashMap::new() }
    }

    pub fn lock_names(&self) -> MutexGuard<'_, NameTable> {
        self.book.lock_unpoisoned()
    }

    /// Number of lookups, by source.
    pub fn source_stats(&self) -> &[NameSourceStats] {
        &self.asked
    }

    /// Requests the unresolved names of these groups and of the senders' containers and pods, and
    /// drops the names of all others. A sender's container may have ended.
    pub fn request_names(&mut self, groups: &GroupTracker, senders: &[(CgroupKind, Option<String>)]) {
        let groups = groups.iter().map(|group| (&group.named.kind, group.named.pod.as_ref()));
        self.request_names_of(groups.chain(senders.iter().map(|(kind, pod)| (kind, pod.as_ref()))));
    }

    /// The same for groups given by their kind, with the uid of the enclosing pod.
    pub fn request_names_of<'a>(
        &mut self,
        groups: impl Iterator<Item = (&'a CgroupKind, Option<&'a String>)>,
    ) {
        let Some(wake) = &self.wake else { return };
        let now = Instant::now();
        let mut request = NameRequest::default();
        let mut there: HashSet<&str> = HashSet::new();
        {
            let mut book = self.book.lock_unpoisoned();
            let is_due = |waits: &HashMap<String, NameWait>, id: &str| {
                waits.get(id).is_none_or(|wait| wait.due <= now)
            };
            for (kind, pod) in groups {
                match kind {
                    CgroupKind::Container(id) => {
                        there.insert(id);
                        if book.container(id).is_none() && is_due(&self.waits, id) {
                            request.containers.push(id.clone());
                            // A source of pods finds a pod only by the pod's own uid.
                            request.pods.extend(pod.cloned());
                        }
                    }
                    CgroupKind::Pod(uid) => {
                        there.insert(uid);
                        if book.pod(uid).is_none() && is_due(&self.waits, uid) {
                            request.pods.push(uid.clone());
                        }
                    }
                    _ => {}
                }
            }
            self.waits.retain(|id, _| there.contains(id.as_str()));
            book.containers.retain(|id, _| there.contains(id.as_str()));
            book.pods.retain(|uid, _| there.contains(uid.as_str()));
            let is_late =
                |id: &&String| self.waits.get(*id).is_some_and(|wait| now - wait.first_seen >= MAX_NAME_WAIT);
            book.given_up = self.waits.keys().filter(is_late).cloned().collect();
        }
        if request.is_empty() {
            return;
        }
        request.pods.sort();
        request.pods.dedup();
        let asked: Vec<String> = request.containers.iter().chain(&request.pods).cloned().collect();
        match wake.try_send(request) {
            Ok(()) => {
                for id in asked {
                    let wait = match self.waits.get(&id) {
                        Some(wait) => {
                            let delay = (wait.delay * 2).min(MAX_RETRY_DELAY);
                            NameWait { due: now + delay, delay, ..*wait }
                        }
                        None => {
                            let delay = FIRST_RETRY_DELAY;
                            NameWait { first_seen: now, due: now + delay, delay }
                        }
                    };
                    self.waits.insert(id, wait);
                }
            }
            // The thread is still busy with the last request; the next scrape tries again.
            Err(TrySendError::Full(_)) => {}
            Err(TrySendError::Disconnected(_)) => {
                self.wake = None;
                self.book.lock_unpoisoned().has_sources = false;
            }
        }
    }
}

fn resolve_names(
    mut sources: Vec<Box<dyn NameSource>>,
    questions: &Receiver<NameRequest>,
    book: &Mutex<NameTable>,
    asked: &[NameSourceStats],
) {
    while let Ok(request) = questions.recv() {
        // Entered together: a series that began with the names of one source would change with the
        // next.
        let mut resolved = Vec::new();
        for (source, count) in sources.iter_mut().zip(asked) {
            count.times.fetch_add(1, Ordering::Relaxed);
            match source.look_up(&request) {
                Ok(found) => resolved.push(found),
                Err(error) => {
                    // Log only the first failure; the metric counts the others.
                    if count.failures.fetch_add(1, Ordering::Relaxed) == 0 {
                        tracing::warn!(source = source.source_name(), %error, "cannot look up names at this source; identifiers stand in");
                    } else {
                        tracing::debug!(source = source.source_name(), %error, "names cannot be had from there");
                    }
                }
            }
        }
        let mut book = book.lock_unpoisoned();
        resolved.into_iter().for_each(|found| book.add_resolved(found, &request));
    }
}
