//! Nodes, predictors and passports kept in memory, so that a placement waits neither for Prometheus nor for the
//! store: one task asks Prometheus again and again, another reads the store once a minute.

use std::sync::{Arc, RwLock};
use std::time::Duration;

use metier_prom::query::Endpoint;
use metier_types::ShareUnpoisoned;
use metier_work::choose::{Chooser, Columns};
use metier_work::nodes::{Pace, Warm};
use metier_work::placing::Access;

use crate::error::Error;
use crate::http::HttpState;
use crate::http::lanes::Lane;
use crate::http::problem::Problem;
use crate::storage::Storage;

/// How long predictors and passports are used before the store is read again.
const REREAD: Duration = Duration::from_secs(60);
/// How long the start of the server waits for the first snapshot.
const FIRST: Duration = Duration::from_secs(3);

/// What the doors are told at the server's start.
#[derive(Debug, Clone, Default)]
pub struct Soprano {
    /// Who knows the nodes; without, requests must describe the device.
    pub prometheus: Option<Endpoint>,
    /// How often it is asked.
    pub pace: Pace,
    /// A predictor file in place of ours.
    pub predictor: Option<Arc<Columns>>,
    /// The cluster that graphs are placed in, where a request asks for that.
    pub cluster: Access,
}

/// What is at hand.
pub struct Desk {
    pub nodes: Option<Arc<Warm>>,
    chooser: RwLock<Arc<Chooser>>,
    predictor: Option<Arc<Columns>>,
}

impl Desk {
    /// Nothing is asked yet.
    pub fn new(told: &Soprano) -> Result<Self, Error> {
        let warm = |endpoint: &Endpoint| Warm::new(endpoint.clone(), told.pace).map(Arc::new);
        let nodes = told.prometheus.as_ref().map(warm).transpose();
        Ok(Self {
            nodes: nodes.map_err(|error| Error::Prometheus { reason: error.to_string() })?,
            chooser: RwLock::new(Arc::new(Chooser::without_store(told.predictor.clone()))),
            predictor: told.predictor.clone(),
        })
    }

    pub fn chooser(&self) -> Arc<Chooser> {
        self.chooser.read_unpoisoned().clone()
    }

    /// Reads predictors and passports; where that fails, those from before go on being used.
    fn reread(&self, storage: &Storage) -> Result<(), Problem> {
        let store = storage.store()?;
        match Chooser::read(&store, self.predictor.clone()) {
            Ok(chooser) => *self.chooser.write_unpoisoned() = Arc::new(chooser),
            Err(error) => tracing::warn!(%error, "predictors could not be read; those from before are used"),
        }
        Ok(())
    }
}

/// Brings everything to hand once, and keeps it there until it is dropped.
pub struct Kept(tokio::task::JoinSet<()>);

impl Kept {
    /// Starts the tasks, and waits a little for what they bring first.
    pub async fn start(desk: &Arc<Desk>, storage: &Arc<Storage>, http: &Arc<HttpState>) -> Self {
        let mut tasks = tokio::task::JoinSet::new();
        if let Some(nodes) = desk.nodes.clone() {
            tasks.spawn(async move { nodes.keep().await });
        }
        let (inner, storage, http) = (desk.clone(), storage.clone(), http.clone());
        let (told, first) = tokio::sync::oneshot::channel::<()>();
        tasks.spawn(async move {
            let mut told = Some(told);
            loop {
                let (desk, storage) = (inner.clone(), storage.clone());
                let read = http.lanes.run(Lane::Store, move || desk.reread(&storage)).await;
                if let Err(problem) = read {
                    tracing::debug!(detail = problem.detail, "predictors were not read again");
                }
                drop(told.take());
                tokio::time::sleep(REREAD).await;
            }
        });
        let ready = async {
            let _ = first.await;
            if let Some(nodes) = &desk.nodes {
                nodes.tried().await;
            }
        };
        let _ = tokio::time::timeout(FIRST, ready).await;
        Self(tasks)
    }

    pub async fn end(mut self) {
        self.0.shutdown().await;
    }
}
