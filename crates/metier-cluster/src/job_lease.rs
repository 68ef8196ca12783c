//! The lease of a Job: its deadline is near, and its measuring program moves it on.
//!
//! The cluster itself ends a Job at `activeDeadlineSeconds`. A Job is made with a deadline of
//! [`LEASE_TIME`], and the measuring program moves it on every [`RENEWAL_INTERVAL`], never beyond
//! the time limit of the run. So a pod ends at most [`LEASE_TIME`] after its program was killed,
//! though no metier is ever started again. An annotation has the end of the lease for other hosts.
//! An account without the right to patch Jobs gets a fixed deadline.

use std::time::{Duration, Instant};

use k8s_openapi::api::batch::v1::Job;
use kube::api::{Patch, PatchParams};
use metier_measure::RunSpec;
use metier_types::UtcTimestamp;
use serde_json::json;

use crate::cluster_client::ClusterClient;

/// Annotation with the end of the lease.
pub const LEASE_ANNOTATION: &str = "metier.lease-until";
/// Time for which a Job goes on without its measuring program.
pub const LEASE_TIME: Duration = Duration::from_secs(15 * 60);
/// Time between renewals.
pub const RENEWAL_INTERVAL: Duration = Duration::from_secs(20);
/// Deadline of a Job without time limit whose lease cannot be renewed.
pub const UNRENEWED_DEADLINE: Duration = Duration::from_secs(7 * 24 * 3600);
/// Margin of the cluster's deadline over metier's time limit.
const DEADLINE_MARGIN: Duration = Duration::from_secs(300);
/// Difference between the clocks of hosts that a sweep tolerates.
const CLOCK_MARGIN_SECONDS: i64 = 5 * 60;

/// The latest end of a run's Job, counted from its start; `None` without a time limit.
pub(crate) fn latest_deadline(spec: &RunSpec) -> Option<Duration> {
    spec.time_limit().map(|limit| limit + spec.grace * 2 + DEADLINE_MARGIN)
}

/// The deadline of a Job of this age, in seconds since its start.
pub(crate) fn deadline_at(spec: &RunSpec, age: Duration, is_renewed: bool) -> u64 {
    let latest = latest_deadline(spec);
    let deadline = match is_renewed {
        true => (age + LEASE_TIME).min(latest.unwrap_or(Duration::MAX)),
        false => latest.unwrap_or(UNRENEWED_DEADLINE),
    };
    deadline.as_secs().max(1)
}

/// The annotation of a lease that begins now; `None` if it is not renewed.
pub(crate) fn lease_end(is_renewed: bool) -> Option<String> {
    is_renewed.then(|| (UtcTimestamp::now() + LEASE_TIME).to_string())
}

/// Whether the lease of a Job has ended. A Job without lease has none that could end.
pub(crate) fn is_lease_over(job: &Job, now: UtcTimestamp) -> bool {
    let text = job.metadata.annotations.as_ref().and_then(|all| all.get(LEASE_ANNOTATION));
    let end = text.and_then(|text| text.parse::<UtcTimestamp>().ok());
    end.is_some_and(|end| end.as_second().saturating_add(CLOCK_MARGIN_SECONDS) < now.as_second())
}

/// Renews the lease of a Job, until the task is aborted. A renewal that fails is tried again at the
/// next interval.
pub(crate) async fn renew_lease(cluster: ClusterClient, name: String, spec: RunSpec, made: Instant) {
    loop {
        tokio::time::sleep(RENEWAL_INTERVAL).await;
        let renewal = json!({
            "metadata": {"annotations": {LEASE_ANNOTATION: lease_end(true)}},
            "spec": {"activeDeadlineSeconds": deadline_at(&spec, made.elapsed(), true)},
        });
        let parameters = PatchParams::default();
        if let Err(error) = cluster.jobs().patch(&name, &parameters, &Patch::Merge(&renewal)).await {
            tracing::warn!(%error, job = name, "the lease of a Job could not be renewed; trying again");
        }
    }
}

#[cfg(test)]
mod tests {
    use metier_measure::spec::{PodSpec, RunTarget};

    use super::*;

    #[test]
    fn a_deadline_is_near_and_never_beyond_the_time_limit() {
        let mut spec = RunSpec::for_target(RunTarget::Pod(PodSpec::default()));
        let lease = LEASE_TIME.as_secs();
        assert_eq!(deadline_at(&spec, Duration::ZERO, true), lease);
        assert_eq!(deadline_at(&spec, Duration::from_secs(100), true), lease + 100);
        assert_eq!(deadline_at(&spec, Duration::ZERO, false), UNRENEWED_DEADLINE.as_secs());
        spec.timeout = Some(Duration::from_secs(3600));
        let latest = 3600 + 2 * spec.grace.as_secs() + 300;
        assert_eq!(deadline_at(&spec, Duration::ZERO, true), lease);
        assert_eq!(deadline_at(&spec, Duration::from_secs(5000), true), latest);
        assert_eq!(deadline_at(&spec, Duration::ZERO, false), latest);
    }

    #[test]
    fn a_lease_is_over_only_after_its_end_by_any_clock() {
        let now = UtcTimestamp::now();
        let job = |end: &str| -> Job {
            serde_json::from_value(json!({"metadata": {"annotations": {LEASE_ANNOTATION: end}}})).unwrap()
        };
        assert!(is_lease_over(&job("2026-01-01T00:00:00Z"), now));
        assert!(!is_lease_over(&job(&now.to_string()), now), "clocks differ");
        assert!(!is_lease_over(&job("soon"), now) && !is_lease_over(&Job::default(), now));
    }
}
