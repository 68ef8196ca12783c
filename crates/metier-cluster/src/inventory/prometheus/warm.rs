//! A snapshot that is kept warm: taken again and again beside the requests that read it.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use metier_place::NodeInventory;
use metier_prom::query::{Client, Endpoint, Error};
use tokio::sync::watch;

use super::ask::{TIME, TRIES, ask};
use super::{PrometheusSnapshot, SampleAges};
use crate::inventory::join;

/// How often, and how old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotPace {
    /// From the end of one snapshot to the start of the next.
    pub every: Duration,
    /// Age beyond which a snapshot is not used any more.
    pub most_age: Duration,
    /// Age beyond which a value in it is not.
    pub ages: SampleAges,
}

impl Default for SnapshotPace {
    fn default() -> Self {
        Self { every: Duration::from_secs(5), most_age: Duration::from_secs(60), ages: SampleAges::default() }
    }
}

/// Why there is no snapshot to be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no nodes are known: {why}")]
pub struct NodesUnknown {
    pub why: String,
}

/// A snapshot, the inventory of it alone, and when it was begun.
type TakenNodes = (Arc<PrometheusSnapshot>, Arc<NodeInventory>, Instant);

#[derive(Default)]
struct WarmState {
    taken: Option<TakenNodes>,
    trouble: Option<String>,
}

/// The latest snapshot of a Prometheus.
pub struct WarmNodes {
    client: Client,
    pace: SnapshotPace,
    kept: RwLock<WarmState>,
    taken: watch::Sender<u64>,
}

/// A snapshot as a request sees it.
#[derive(Debug, Clone)]
pub struct LatestNodes {
    pub snapshot: Arc<PrometheusSnapshot>,
    /// Its nodes as an inventory without Kubernetes.
    pub inventory: Arc<NodeInventory>,
    /// How long ago it was taken.
    pub age: Duration,
    /// What went wrong since.
    pub trouble: Option<String>,
}

impl WarmNodes {
    /// For a Prometheus; nothing is asked yet. Each question has 2 seconds and two tries.
    pub fn new(mut endpoint: Endpoint, pace: SnapshotPace) -> Result<Self, Error> {
        endpoint.bounds.time = TIME;
        endpoint.bounds.tries = TRIES;
        let (taken, _) = watch::channel(0);
        Ok(Self { client: Client::new(endpoint)?, pace, kept: RwLock::default(), taken })
    }

    /// The address of the Prometheus, without secrets.
    pub fn source(&self) -> String {
        self.client.endpoint().to_string()
    }

    /// Takes snapshots until it is dropped.
    pub async fn keep(&self) {
        loop {
            self.refresh().await;
            tokio::time::sleep(self.pace.every.max(Duration::from_millis(100))).await;
        }
    }

    /// Takes one snapshot. One that fails leaves the one before where it is.
    pub async fn refresh(&self) {
        let began = Instant::now();
        let asked = ask(&self.client, self.pace.ages).await;
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        match asked {
            Ok(snapshot) => {
                if kept.trouble.take().is_some() {
                    tracing::info!(source = %self.source(), "nodes are known again");
                }
                let inventory = join(None, Some(Ok(&snapshot)));
                kept.taken = Some((Arc::new(snapshot), Arc::new(inventory), began));
            }
            Err(error) => {
                // Once for each outage: a Prometheus that is down for a night should not fill a
                // log.
                if kept.trouble.is_none() {
                    tracing::warn!(%error, "no snapshot of the nodes could be taken");
                }
                kept.trouble = Some(error.to_string());
            }
        }
        drop(kept);
        self.taken.send_modify(|count| *count += 1);
    }

    /// Done when it was tried once.
    pub async fn tried(&self) {
        let _ = self.taken.subscribe().wait_for(|count| *count > 0).await;
    }

    /// The latest snapshot, if it is not too old.
    pub fn latest(&self) -> Result<LatestNodes, NodesUnknown> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        let trouble = kept.trouble.clone();
        match &kept.taken {
            Some((snapshot, inventory, at)) if at.elapsed() <= self.pace.most_age => Ok(LatestNodes {
                snapshot: snapshot.clone(),
                inventory: inventory.clone(),
                age: at.elapsed(),
                trouble,
            }),
            Some((.., at)) => {
                let age = at.elapsed().as_secs();
                let why = trouble.unwrap_or_else(|| "no newer one has come".to_string());
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
