//! Records the end of a pod from the cluster's status: image, node, log, and the cause of the end
//! if the launcher could not report it.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use metier_measure::observer::{ArtefactKeeper, RunObserver};
use metier_types::{Bytes, ContentDigest, ExitCause, MissingReason, Run, RunExit, RunId, RunWarning};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::cluster_client::ClusterClient;
use crate::launcher_report::{self, LauncherReport};
use crate::leftovers;
use crate::pod_state::{self, PodState};
use crate::pod_watch::{MAX_KEPT_BYTES, ObservedPod, PodLog};

/// Time limit for the cluster to report the end of a container.
const END_NOTICE_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit for the exit status of a pod that is being deleted.
const DELETED_POD_TIMEOUT: Duration = Duration::from_secs(3);
/// Time limit for the rest of the log after that.
const LOG_TIMEOUT: Duration = Duration::from_secs(15);

/// Name of the log artefact.
pub const LOG_ARTEFACT: &str = "pod.log";

/// Source of a pod's resource use.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum UsageReporter {
    /// This process, on the pod's node.
    ThisMachine,
    /// The launcher in the pod, at the end.
    Launcher,
    Unavailable(MissingReason),
}

/// Observer that records the end of a pod.
pub(crate) struct PodEndObserver {
    pub handle: Handle,
    pub cluster: ClusterClient,
    pub id: RunId,
    pub seen: watch::Receiver<ObservedPod>,
    pub log: PodLog,
    pub logging: Option<JoinHandle<()>>,
    pub memory_limit: Option<Bytes>,
    /// The first word of the command.
    pub program: String,
    pub teller: UsageReporter,
}

impl RunObserver for PodEndObserver {
    fn on_finish(&mut self, run: &mut Run, keep: &mut ArtefactKeeper<'_>) {
        let is_over = |seen: &ObservedPod| {
            seen.is_gone || matches!(seen.state(), PodState::Ended(_) | PodState::Gone { .. })
        };
        let mut seen = self.seen.clone();
        let is_deleted = |seen: &ObservedPod| seen.pod.as_ref().is_some_and(pod_state::is_being_deleted);
        // A pod that was lost with its node sends no further status.
        let is_lost =
            run.exit.as_ref().is_some_and(|exit| exit.cause == ExitCause::Lost && exit.detail.is_some());
        let within = if is_lost { DELETED_POD_TIMEOUT } else { END_NOTICE_TIMEOUT };
        let noticed = self.handle.block_on(async {
            let either = |seen: &ObservedPod| is_over(seen) || is_deleted(seen);
            let found = tokio::time::timeout(within, seen.wait_for(either)).await;
            let found = found.is_ok_and(|found| found.is_ok());
            // A deleted pod may disappear without a final status.
            let _ = tokio::time::timeout(DELETED_POD_TIMEOUT, seen.wait_for(is_over)).await;
            found
        });
        if !noticed && !is_lost {
            let text =
                "the cluster did not report the end of the pod, so its exit is from the launcher's report";
            run.warnings.push(RunWarning::new("pod-end-unknown", text));
        }
        self.take_log(run, keep, if is_lost { DELETED_POD_TIMEOUT } else { LOG_TIMEOUT });
        let now = self.seen.borrow().clone();
        if let Some(pod) = &now.pod {
            record_place(run, pod);
        }
        if let Some(exit) = &mut run.exit {
            explain_exit(exit, &now, self.memory_limit);
        }
        self.take_report(run, &now);
        // No exit code was reported; a missing code must not become 0.
        if self.teller != UsageReporter::ThisMachine
            && !matches!(now.state(), PodState::Ended(_))
            && let Some(exit) = &mut run.exit
            && exit.cause != ExitCause::Exited
        {
            exit.code = None;
        }
        run.verdict = Some(metier_measure::verdict(run));
        // The pod's own count may have come with the report.
        if !run.warnings.iter().any(|warning| warning.code == "oom-kill") {
            run.warnings.extend(metier_measure::find_oom_warning(run));
        }
        // Deletes the Job now; the caller waits until its pods are gone.
        let removed =
            self.handle.block_on(leftovers::delete_job(&self.cluster, &crate::job::job_name(self.id)));
        if let Err(error) = removed {
            run.warnings.push(RunWarning::new("pod-left-behind", error.to_string()));
        }
    }
}

impl PodEndObserver {
    /// Records the resource use of a pod on another machine, or the reason why it is missing.
    fn take_report(&self, run: &mut Run, seen: &ObservedPod) {
        let why = match &self.teller {
            UsageReporter::ThisMachine => return,
            // The scheduler may have chosen this machine; then the pod was measured from outside.
            UsageReporter::Unavailable(_) if run.summary.cpu_seconds.is_some() => return,
            UsageReporter::Unavailable(why) => why.clone(),
            UsageReporter::Launcher => {
                launcher_report::forget_this_machine(run);
                let report =
                    match seen.state() {
                        PodState::Ended(ended) => LauncherReport::parse(&ended),
                        _ => Err("the end of its container was not reported, so its resource use is unknown"
                            .into()),
                    };
                match report {
                    Ok(launcher_report) => return launcher_report.fill(run, &self.program),
                    Err(why) => MissingReason::without_fix(why),
                }
            }
        };
        launcher_report::mark_missing(run, &why, false);
    }

    fn take_log(&mut self, run: &mut Run, keep: &mut ArtefactKeeper<'_>, within: Duration) {
        if let Some(mut logging) = self.logging.take() {
            let whole = self.handle.block_on(async { tokio::time::timeout(within, &mut logging).await });
            if whole.is_err() {
                logging.abort();
                let text = "the end of the pod's log did not come in time, so some of it may be missing";
                run.warnings.push(RunWarning::new("log-cut", text));
            }
        }
        let log = self.log.take_buffer();
        if let Some(trouble) = log.trouble {
            let text = format!("some of the pod's log may be missing: {trouble}");
            run.warnings.push(RunWarning::new("log-cut", text));
        }
        if log.length > MAX_KEPT_BYTES as u64 {
            let text = format!(
                "the record has the first {MAX_KEPT_BYTES} of {} bytes of log; stdout had all of them",
                log.length
            );
            run.warnings.push(RunWarning::new("log-cut", text));
        }
        if !log.bytes.is_empty() {
            keep.keep_artefact(run, LOG_ARTEFACT, "text/plain", &mut log.bytes.as_slice());
        }
    }
}

/// Records the actual image and node.
fn record_place(run: &mut Run, pod: &Pod) {
    if let Some(place) = &mut run.context.pod {
        place.node = pod_state::pod_node(pod).map(str::to_string).or(place.node.take());
    }
    if let (Some(image), Some((id, container))) = (&mut run.context.image, pod_state::pod_image(pod)) {
        image.container = container.map(str::to_string);
        // `docker-pullable://name@sha256:…`, `docker://sha256:…`, `registry/name@sha256:…`
        image.digest = id.find("sha256:").and_then(|at| id[at..].parse::<ContentDigest>().ok());
    }
}

/// Adds the cause of the end from the cluster's status, if the launcher did not report it
/// completely.
fn explain_exit(exit: &mut RunExit, seen: &ObservedPod, limit: Option<Bytes>) {
    let lost = exit.cause == ExitCause::Lost;
    let is_deleted = seen.is_gone || seen.pod.as_ref().is_some_and(pod_state::is_being_deleted);
    if let PodState::Ended(ended) = seen.state() {
        if ended.is_out_of_memory()
            && matches!(exit.cause, ExitCause::Lost | ExitCause::Signalled | ExitCause::Exited)
        {
            exit.cause = ExitCause::Oom;
            exit.ended_by = Some("the kernel, for want of memory".into());
            exit.code = exit.code.or(Some(ended.code)).filter(|_| exit.signal.is_none());
            let limit = limit.map(|limit| format!("it reached its limit of {limit} of memory"));
            exit.detail = limit.or_else(|| Some("its container was killed for want of memory".into()));
            return;
        }
        if lost && !is_deleted {
            exit.code = Some(ended.code);
            exit.cause = if ended.code > 128 { ExitCause::Signalled } else { ExitCause::Exited };
            exit.detail =
                Some(format!("its container ended as {} {}", ended.reason, ended.message).trim_end().into());
        }
    }
    if is_deleted && matches!(exit.cause, ExitCause::Lost | ExitCause::Signalled | ExitCause::Exited) {
        exit.ended_by = Some("the cluster".into());
        let deleted = || "its pod was deleted from outside while it ran".to_string();
        exit.detail.get_or_insert_with(deleted);
    }
    if let PodState::Gone { why } = seen.state()
        && !is_deleted
    {
        exit.detail = Some(why);
    }
    if lost && exit.detail.is_none() {
        exit.detail = Some("its pod was lost, and the cluster gives no reason".into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(pod: serde_json::Value) -> ObservedPod {
        ObservedPod { pod: Some(serde_json::from_value(pod).unwrap()), ..ObservedPod::default() }
    }

    fn ended(code: i32, reason: &str) -> serde_json::Value {
        json!([{"name": "run", "image": "x", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": code, "reason": reason}}}])
    }

    #[test]
    fn a_container_that_was_killed_as_a_whole_for_want_of_memory_is_told_so() {
        let mut exit = RunExit::from_cause(ExitCause::Lost);
        let status = json!({"phase": "Failed", "containerStatuses": ended(137, "OOMKilled")});
        explain_exit(&mut exit, &seen(json!({"metadata": {}, "status": status})), Some(Bytes(1 << 24)));
        assert_eq!((exit.cause, exit.code), (ExitCause::Oom, Some(137)));
        assert!(exit.detail.unwrap().contains("16"), "the limit is named");
    }

    #[test]
    fn a_pod_that_somebody_deleted_is_lost_and_says_so() {
        let mut exit = RunExit::from_cause(ExitCause::Lost);
        let metadata = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        explain_exit(&mut exit, &seen(json!({"metadata": metadata, "status": {"phase": "Running"}})), None);
        assert_eq!(exit.cause, ExitCause::Lost);
        assert!(exit.detail.unwrap().contains("deleted"));
    }
}
