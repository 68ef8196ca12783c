//! Nodes, predictors and passports in memory, so that a placement waits neither for Prometheus nor
//! for the store. One task polls Prometheus; another reads the store once a minute.

use std::fmt;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use metier_cluster::deployer::ClusterAccess;
use metier_cluster::inventory::prometheus::{SnapshotCache, SnapshotPace};
use metier_predict::latency::{self, LatencyPredictor, SopranoCounts};
use metier_predict::passport_resolver::{LocalNode, PassportResolver};
use metier_prom::query::PromEndpoint;
use metier_store::RecordStore;
use metier_types::ShareUnpoisoned;

use crate::error::Error;
use crate::http::HttpState;
use crate::http::blocking_lanes::LaneKind;
use crate::http::problem::ProblemDetails;
use crate::storage::StoreHandle;

/// How long predictors and passports are used before the store is read again.
const RELOAD_INTERVAL: Duration = Duration::from_secs(60);
/// How long the start of the server waits for the first snapshot.
const FIRST_SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(3);

/// Configuration of the SOPRANO interface.
#[derive(Debug, Clone, Default)]
pub struct SopranoConfig {
    /// The Prometheus of the nodes; without it, requests must describe the device.
    pub prometheus: Option<PromEndpoint>,
    /// How often Prometheus is queried.
    pub pace: SnapshotPace,
    /// A predictor file that replaces metier's predictors.
    pub predictor: Option<Arc<dyn FilePredictor>>,
    /// The cluster for placements on request.
    pub cluster: ClusterAccess,
    /// This machine, in case it is one of the nodes.
    pub local: Option<LocalNode>,
}

/// Inputs of a predictor file.
#[derive(Debug, Clone, Copy)]
pub struct FileInputs<'a> {
    pub counts: SopranoCounts,
    /// Per cent of all cores' time in use.
    pub cpu_percent: Option<f64>,
    /// Per cent of the root file system in use.
    pub disk_percent: Option<f64>,
    pub device: Option<&'a str>,
}

/// A predictor of another system: a time without an interval.
pub trait FilePredictor: fmt::Debug + Send + Sync {
    /// Predicted seconds, or the name of a missing input.
    fn predict(&self, inputs: &FileInputs<'_>) -> Result<f32, &'static str>;
}

/// Predictors and passports, read at one time.
#[derive(Debug)]
pub struct PlacementPredictors {
    pub latency: LatencyPredictor,
    pub passports: PassportResolver,
    /// A predictor file that replaces metier's predictors.
    pub file: Option<Arc<dyn FilePredictor>>,
}

impl PlacementPredictors {
    /// Reads predictors and passports from a store; blocks.
    fn read(store: &RecordStore, settings: &SopranoConfig) -> Result<Self, latency::LatencyError> {
        Ok(Self {
            latency: LatencyPredictor::open(store)?,
            passports: PassportResolver::read(Some(store), settings.local.clone()),
            file: settings.predictor.clone(),
        })
    }

    /// The shipped passports, without trained predictors.
    pub fn without_store(settings: &SopranoConfig) -> Self {
        Self {
            latency: LatencyPredictor::from_passports(),
            passports: PassportResolver::read(None, settings.local.clone()),
            file: settings.predictor.clone(),
        }
    }
}

/// The data in memory.
pub struct PlacementCache {
    pub nodes: Option<Arc<SnapshotCache>>,
    predictors: RwLock<Arc<PlacementPredictors>>,
    settings: SopranoConfig,
}

impl PlacementCache {
    /// An empty cache; nothing is queried yet.
    pub fn new(settings: &SopranoConfig) -> Result<Self, Error> {
        let warm =
            |endpoint: &PromEndpoint| SnapshotCache::new(endpoint.clone(), settings.pace).map(Arc::new);
        let nodes = settings.prometheus.as_ref().map(warm).transpose();
        Ok(Self {
            nodes: nodes.map_err(|error| Error::Prometheus { reason: error.to_string() })?,
            predictors: RwLock::new(Arc::new(PlacementPredictors::without_store(settings))),
            settings: settings.clone(),
        })
    }

    pub fn predictors(&self) -> Arc<PlacementPredictors> {
        self.predictors.read_unpoisoned().clone()
    }

    /// Reads predictors and passports; on failure the previous ones stay in use.
    fn reload(&self, storage: &StoreHandle) -> Result<(), ProblemDetails> {
        let store = storage.store()?;
        match PlacementPredictors::read(&store, &self.settings) {
            Ok(read) => *self.predictors.write_unpoisoned() = Arc::new(read),
            Err(error) => tracing::warn!(%error, "predictors could not be read; those from before are used"),
        }
        Ok(())
    }
}

/// The tasks that keep a cache up to date; dropping this ends them.
pub struct CacheTasks(tokio::task::JoinSet<()>);

impl CacheTasks {
    /// Starts the tasks, and waits a little for the first snapshot.
    pub async fn start(
        cache: &Arc<PlacementCache>,
        storage: &Arc<StoreHandle>,
        http: &Arc<HttpState>,
    ) -> Self {
        let mut tasks = tokio::task::JoinSet::new();
        if let Some(nodes) = cache.nodes.clone() {
            tasks.spawn(async move { nodes.run().await });
        }
        let (inner, storage, http) = (cache.clone(), storage.clone(), http.clone());
        let (read, first) = tokio::sync::oneshot::channel::<()>();
        tasks.spawn(async move {
            let mut read = Some(read);
            loop {
                let (cache, storage) = (inner.clone(), storage.clone());
                let done = http.lanes.run(LaneKind::Store, move || cache.reload(&storage)).await;
                if let Err(problem) = done {
                    tracing::debug!(detail = problem.detail, "predictors were not read again");
                }
                drop(read.take());
                tokio::time::sleep(RELOAD_INTERVAL).await;
            }
        });
        let ready = async {
            let _ = first.await;
            if let Some(nodes) = &cache.nodes {
                nodes.wait_for_first_try().await;
            }
        };
        let _ = tokio::time::timeout(FIRST_SNAPSHOT_TIMEOUT, ready).await;
        Self(tasks)
    }

    pub async fn stop(mut self) {
        self.0.shutdown().await;
    }
}
