//! Follows the status and the log of a run's pod.
//!
//! The pod is listed once and then watched. A watch stream that ends or fails starts again with a
//! list, so no change is missed. Requests are at least [`RETRY_DELAY`] apart. The log is streamed
//! while the container runs. A broken log stream is requested again and its known bytes are
//! skipped, so that no byte is lost or duplicated.
//!
//! Kubernetes merges both streams of a container into one log. The whole log goes to stdout; its
//! first [`MAX_KEPT_BYTES`] bytes go into the record.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::{AsyncReadExt, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, LogParams, WatchEvent, WatchParams};
use metier_types::{LockUnpoisoned, RunId};
use tokio::sync::watch;

use crate::cluster_client::ClusterClient;
use crate::job;
use crate::pod_state::{self, PodState, RUN_CONTAINER};

/// Delay before a retry.
pub const RETRY_DELAY: Duration = Duration::from_millis(250);
/// Bytes of the log in the record.
pub const MAX_KEPT_BYTES: usize = 16 << 20;
/// Time limit for the container's end to appear in the status, after the end of its log.
const END_TIMEOUT: Duration = Duration::from_secs(20);
/// Text that some kubelets send in place of a deleted log.
const MISSING_LOG_PREFIXES: [&[u8]; 2] =
    [b"unable to retrieve container logs for", b"failed to try resolving symlinks in path"];
/// Most requests for a broken log.
const MAX_LOG_TRIES: u32 = 20;

/// Latest observation of a run's pod.
#[derive(Debug, Clone, Default)]
pub struct ObservedPod {
    /// The last received object.
    pub pod: Option<Pod>,
    /// Whether the pod existed and is deleted.
    pub is_gone: bool,
    /// Error of the last request, if it failed.
    pub trouble: Option<String>,
}

impl ObservedPod {
    /// The interpreted status.
    pub fn state(&self) -> PodState {
        match &self.pod {
            Some(pod) => pod_state::pod_state(pod),
            None => {
                let why = self.trouble.clone().unwrap_or_else(|| "the Job has not made its pod yet".into());
                PodState::Waiting { why, is_final: false }
            }
        }
    }
}

/// Watches the first pod of a run until all receivers are dropped.
pub async fn watch_pod(cluster: ClusterClient, run: RunId, tell: watch::Sender<ObservedPod>) {
    let pods = cluster.pods();
    let labels = job::run_selector(run);
    while !tell.is_closed() {
        let list = match pods.list(&ListParams::default().labels(&labels)).await {
            Ok(list) => list,
            Err(error) => {
                tell.send_modify(|seen| seen.trouble = Some(crate::error::api_message(&error)));
                tokio::time::sleep(RETRY_DELAY).await;
                continue;
            }
        };
        let version = list.metadata.resource_version.clone().unwrap_or_default();
        tell.send_modify(|seen| {
            seen.trouble = None;
            match list.items.into_iter().find(|pod| is_same_pod(seen, pod)) {
                Some(pod) => seen.pod = Some(pod),
                None => seen.is_gone = seen.pod.is_some(),
            }
        });
        let parameters = WatchParams::default().labels(&labels).timeout(240).disable_bookmarks();
        let Ok(stream) = pods.watch(&parameters, &version).await else {
            tokio::time::sleep(RETRY_DELAY).await;
            continue;
        };
        let mut stream = std::pin::pin!(stream);
        loop {
            let event = tokio::select! {
                event = stream.next() => event,
                () = tell.closed() => return,
            };
            match event {
                Some(Ok(WatchEvent::Added(pod) | WatchEvent::Modified(pod))) => tell.send_modify(|seen| {
                    if is_same_pod(seen, &pod) {
                        seen.pod = Some(pod);
                    }
                }),
                Some(Ok(WatchEvent::Deleted(pod))) => tell.send_modify(|seen| {
                    if is_same_pod(seen, &pod) {
                        seen.pod = Some(pod);
                        seen.is_gone = true;
                    }
                }),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => break,
            }
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

/// Whether a pod is the followed one. A Job creates another pod when its first one is removed.
fn is_same_pod(seen: &ObservedPod, pod: &Pod) -> bool {
    seen.pod.as_ref().is_none_or(|known| known.metadata.uid == pod.metadata.uid)
}

/// The shared log buffer of a pod.
#[derive(Debug, Clone, Default)]
pub struct PodLog {
    buffer: Arc<Mutex<LogBuffer>>,
}

/// The beginning of a log.
#[derive(Debug, Clone, Default)]
pub struct LogBuffer {
    /// Its bytes, at most [`MAX_KEPT_BYTES`].
    pub bytes: Vec<u8>,
    /// Total number of bytes.
    pub length: u64,
    /// Why bytes may be missing.
    pub trouble: Option<String>,
}

impl PodLog {
    /// Takes the log so far.
    pub fn take_buffer(&self) -> LogBuffer {
        std::mem::take(&mut self.buffer.lock_unpoisoned())
    }

    fn with_buffer<T>(&self, change: impl FnOnce(&mut LogBuffer) -> T) -> T {
        change(&mut self.buffer.lock_unpoisoned())
    }

    fn add(&self, bytes: &[u8]) {
        self.with_buffer(|buffer| {
            buffer.length += bytes.len() as u64;
            let room = MAX_KEPT_BYTES.saturating_sub(buffer.bytes.len()).min(bytes.len());
            buffer.bytes.extend_from_slice(&bytes[..room]);
        });
    }
}

/// The text that marks the end of the log before the end of the container, and its notification.
pub struct LogEndMark {
    /// Empty if there is no mark.
    pub text: String,
    /// Receives `true` when the mark has appeared.
    pub tell: watch::Sender<bool>,
}

/// Copies the log of the run's container to `out`, from its start to its end or the mark.
pub async fn copy_log(
    cluster: ClusterClient,
    mut seen: watch::Receiver<ObservedPod>,
    log: PodLog,
    out: Arc<Mutex<dyn Write + Send>>,
    mark: LogEndMark,
) {
    let started =
        |seen: &ObservedPod| matches!(seen.state(), PodState::Running | PodState::Ended(_)) || seen.is_gone;
    let Ok(name) = seen.wait_for(started).await.map(|seen| pod_name(&seen)) else { return };
    let pods = cluster.pods();
    let is_over = |seen: &ObservedPod| {
        let is_deleted = seen.pod.as_ref().is_some_and(pod_state::is_being_deleted);
        seen.is_gone || is_deleted || matches!(seen.state(), PodState::Ended(_) | PodState::Gone { .. })
    };
    for _ in 0..MAX_LOG_TRIES {
        let parameters =
            LogParams { container: Some(RUN_CONTAINER.into()), follow: true, ..LogParams::default() };
        let trouble = match pods.log_stream(&name, &parameters).await {
            Ok(stream) => match copy_stream(stream, &log, &out, mark.text.as_bytes()).await {
                Ok(true) => {
                    mark.tell.send_replace(true);
                    log.with_buffer(|buffer| buffer.trouble = None);
                    return;
                }
                Ok(false) => None,
                Err(trouble) => Some(trouble),
            },
            Err(error) => Some(crate::error::api_message(&error)),
        };
        log.with_buffer(|buffer| buffer.trouble.clone_from(&trouble));
        if trouble.is_some() {
            tokio::time::sleep(RETRY_DELAY).await;
            if seen.borrow().is_gone {
                return;
            }
            continue;
        }
        // A stream ends with its container, or because a proxy closed it. The pod's status
        // distinguishes both.
        if tokio::time::timeout(END_TIMEOUT, seen.wait_for(is_over)).await.is_ok() {
            return;
        }
    }
}

/// Copies a stream from the end of the previous one. Returns true if the mark appeared.
async fn copy_stream(
    stream: impl futures_util::AsyncRead,
    log: &PodLog,
    out: &Arc<Mutex<dyn Write + Send>>,
    mark: &[u8],
) -> Result<bool, String> {
    let mut stream = std::pin::pin!(stream);
    let mut skip = log.with_buffer(|buffer| buffer.length);
    let mut buffer = vec![0; 1 << 16];
    let mut search = MarkSearch::new(mark);
    let mut is_first = true;
    let mut pass = |bytes: &[u8]| {
        let known = skip.min(bytes.len() as u64) as usize;
        skip -= known as u64;
        let fresh = &bytes[known..];
        log.add(fresh);
        let mut out = out.lock_unpoisoned();
        // A closed stdout does not end the run; the log is in the record.
        let _ = out.write_all(fresh).and_then(|()| out.flush());
    };
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) => {
                pass(&search.held);
                return Ok(false);
            }
            Ok(length) => {
                if std::mem::take(&mut is_first)
                    && MISSING_LOG_PREFIXES.iter().any(|words| buffer[..length].starts_with(words))
                {
                    return Err(String::from_utf8_lossy(&buffer[..length]).into_owned());
                }
                if search.feed(&buffer[..length], &mut pass) {
                    return Ok(true);
                }
            }
            Err(error) => return Err(crate::error::error_chain(&error)),
        }
    }
}

/// Searches a stream for a mark, and holds back bytes that may be its beginning.
struct MarkSearch<'a> {
    mark: &'a [u8],
    held: Vec<u8>,
}

impl<'a> MarkSearch<'a> {
    fn new(mark: &'a [u8]) -> Self {
        Self { mark, held: Vec::new() }
    }

    /// Passes on bytes that are not part of the mark. Returns true if the mark is complete.
    fn feed(&mut self, bytes: &[u8], pass: &mut impl FnMut(&[u8])) -> bool {
        if self.mark.is_empty() {
            pass(bytes);
            return false;
        }
        self.held.extend_from_slice(bytes);
        if let Some(at) = self.held.windows(self.mark.len()).position(|part| part == self.mark) {
            pass(&self.held[..at]);
            return true;
        }
        let longest = self.held.len().min(self.mark.len() - 1);
        let may_be = (0..=longest).rev().find(|size| self.held.ends_with(&self.mark[..*size])).unwrap_or(0);
        let sure = self.held.len() - may_be;
        pass(&self.held[..sure]);
        self.held.drain(..sure);
        false
    }
}

/// Why a pod will not start, or `None` while it still may.
pub(crate) fn start_failure(seen: &ObservedPod, until: Instant) -> Option<String> {
    if seen.is_gone {
        return Some("its pod was deleted before it had started".into());
    }
    match seen.state() {
        PodState::Waiting { why, is_final } if is_final => Some(why),
        PodState::Waiting { why, .. } if Instant::now() >= until => {
            Some(format!("it did not start in time; at last {why}"))
        }
        PodState::Ended(ended) => Some(
            format!("its container ended before it had started: {} {}", ended.reason, ended.message)
                .trim_end()
                .into(),
        ),
        PodState::Gone { why } => Some(why),
        PodState::Running if Instant::now() >= until => {
            Some("its container started, but not the launcher in it".into())
        }
        _ => None,
    }
}

pub(crate) fn pod_name(seen: &ObservedPod) -> String {
    seen.pod.as_ref().and_then(|pod| pod.metadata.name.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_found_wherever_the_stream_is_cut_and_is_not_passed_on() {
        let text = b"one mar\nmamark-7\n";
        for cut in 0..=text.len() {
            let mut search = MarkSearch::new(b"mark-7");
            let mut passed = Vec::new();
            let mut pass = |bytes: &[u8]| passed.extend_from_slice(bytes);
            let first = search.feed(&text[..cut], &mut pass);
            assert!(first || search.feed(&text[cut..], &mut pass), "{cut}");
            assert_eq!(passed, b"one mar\nma", "{cut}");
        }
        let mut search = MarkSearch::new(b"mark-7");
        let mut passed = Vec::new();
        assert!(!search.feed(b"no mark-", &mut |bytes: &[u8]| passed.extend_from_slice(bytes)));
        assert_eq!((passed.as_slice(), search.held.as_slice()), (&b"no "[..], &b"mark-"[..]));
    }
}
