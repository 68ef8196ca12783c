//! Cache of the latest snapshot, refreshed in the background of the requests that read it.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use metier_place::NodeInventory;
use metier_prom::query::{PromClient, PromEndpoint, QueryError};
use tokio::sync::watch;

use super::queries::{QUERY_TIMEOUT, QUERY_TRIES, take_snapshot};
use super::{PrometheusSnapshot, SampleAgeLimits};
use crate::inventory::join_sources;

/// Interval and age limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotPace {
    /// Time from the end of one snapshot to the start of the next.
    pub every: Duration,
    /// Largest age of a used snapshot.
    pub most_age: Duration,
    /// Largest ages of its values.
    pub ages: SampleAgeLimits,
}

impl Default for SnapshotPace {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(5),
            most_age: Duration::from_secs(60),
            ages: SampleAgeLimits::default(),
        }
    }
}

/// Why there is no usable snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no nodes are known: {why}")]
pub struct NodesUnknown {
    pub why: String,
}

/// A snapshot, its inventory without Kubernetes, and its start time.
type TakenSnapshot = (Arc<PrometheusSnapshot>, Arc<NodeInventory>, Instant);

#[derive(Default)]
struct SnapshotState {
    taken: Option<TakenSnapshot>,
    trouble: Option<String>,
}

/// The latest snapshot of a Prometheus.
pub struct SnapshotCache {
    client: PromClient,
    pace: SnapshotPace,
    state: RwLock<SnapshotState>,
    taken: watch::Sender<u64>,
}

/// A snapshot for a request.
#[derive(Debug, Clone)]
pub struct LatestNodes {
    pub snapshot: Arc<PrometheusSnapshot>,
    /// Its nodes as an inventory without Kubernetes.
    pub inventory: Arc<NodeInventory>,
    /// Age of the snapshot.
    pub age: Duration,
    /// Error of later refreshes, if any.
    pub trouble: Option<String>,
}

impl SnapshotCache {
    /// A cache for a Prometheus, without a first snapshot. Each query has 2 seconds and two
    /// attempts.
    pub fn new(mut endpoint: PromEndpoint, pace: SnapshotPace) -> Result<Self, QueryError> {
        endpoint.bounds.time = QUERY_TIMEOUT;
        endpoint.bounds.tries = QUERY_TRIES;
        let (taken, _) = watch::channel(0);
        Ok(Self { client: PromClient::new(endpoint)?, pace, state: RwLock::default(), taken })
    }

    /// The address of the Prometheus, without secrets.
    pub fn source(&self) -> String {
        self.client.endpoint().to_string()
    }

    /// Refreshes the snapshot until the future is dropped.
    pub async fn run(&self) {
        loop {
            self.refresh().await;
            tokio::time::sleep(self.pace.every.max(Duration::from_millis(100))).await;
        }
    }

    /// Takes one snapshot. On failure the previous snapshot stays.
    pub async fn refresh(&self) {
        let began = Instant::now();
        let asked = take_snapshot(&self.client, self.pace.ages).await;
        let mut guard = self.state.write().unwrap_or_else(PoisonError::into_inner);
        match asked {
            Ok(snapshot) => {
                if guard.trouble.take().is_some() {
                    tracing::info!(source = %self.source(), "nodes are known again");
                }
                let inventory = join_sources(None, Some(Ok(&snapshot)));
                guard.taken = Some((Arc::new(snapshot), Arc::new(inventory), began));
            }
            Err(error) => {
                // Logged once per outage, so that a long outage does not fill the log.
                if guard.trouble.is_none() {
                    tracing::warn!(%error, "no snapshot of the nodes could be taken");
                }
                guard.trouble = Some(error.to_string());
            }
        }
        drop(guard);
        self.taken.send_modify(|count| *count += 1);
    }

    /// Completes after the first attempt.
    pub async fn wait_for_first_try(&self) {
        let _ = self.taken.subscribe().wait_for(|count| *count > 0).await;
    }

    /// The latest snapshot, if it is within the age limit.
    pub fn latest(&self) -> Result<LatestNodes, NodesUnknown> {
        let guard = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let trouble = guard.trouble.clone();
        match &guard.taken {
            Some((snapshot, inventory, at)) if at.elapsed() <= self.pace.most_age => Ok(LatestNodes {
                snapshot: snapshot.clone(),
                inventory: inventory.clone(),
                age: at.elapsed(),
                trouble,
            }),
            Some((.., at)) => {
                let age = at.elapsed().as_secs();
                let why = trouble.unwrap_or_else(|| "no newer snapshot has arrived".to_string());
                Err(NodesUnknown {
                    why: format!(
                        "the last snapshot is {age} s old, more than {} s; {why}",
                        self.pace.most_age.as_secs()
                    ),
                })
            }
            None => Err(NodesUnknown {
                why: trouble.unwrap_or_else(|| "the first snapshot is being taken".to_string()),
            }),
        }
    }
}
