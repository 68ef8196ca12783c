//! The SOPRANO profiler's doors: `POST /api/profiling` and `POST /upload`, as its clients know them.
//!
//! A door translates. What is asked is checked in [`request`], the nodes come from `metier_work::nodes`, the times and the order
//! from `metier_work::choose`, and [`reply`] writes them with the original's names. Both are kept at hand ([`Desk`]): the nodes by a task that asks Prometheus
//! again and again, predictors and passports by one that reads the store once a minute; so a request neither asks Prometheus nor the store. Only what is to be
//! placed ([`placed`]) goes to a cluster, in a lane of its own.
//!
//! How it differs from the original, and why: docs/soprano.md.

mod deployment;
mod placed;
mod profiling;
mod reply;
mod request;
mod upload;

use std::sync::{Arc, RwLock};
use std::time::Duration;

use metier_prom::query::Endpoint;
use metier_types::ShareUnpoisoned;
use metier_work::choose::{Chooser, Columns};
use metier_work::nodes::{Pace, Warm};
use metier_work::placing::Access;

pub use profiling::profiling;
pub use reply::Profiling;
pub use request::Asked;
pub use upload::{Upload, upload};

use crate::error::Error;
use crate::problem::Problem;
use crate::serve::App;
use crate::storage::Lane;

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
    nodes: Option<Arc<Warm>>,
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

    fn chooser(&self) -> Arc<Chooser> {
        self.chooser.read_unpoisoned().clone()
    }

    /// Reads predictors and passports; where that fails, those from before go on being used.
    fn reread(&self, app: &App) -> Result<(), Problem> {
        let store = app.storage.store()?;
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
    pub async fn start(app: &App) -> Self {
        let mut tasks = tokio::task::JoinSet::new();
        if let Some(nodes) = app.soprano.nodes.clone() {
            tasks.spawn(async move { nodes.keep().await });
        }
        let inner = app.clone();
        let (told, first) = tokio::sync::oneshot::channel::<()>();
        tasks.spawn(async move {
            let mut told = Some(told);
            loop {
                let desk = inner.clone();
                let read = inner.storage.blocking(Lane::Store, move || desk.soprano.reread(&desk)).await;
                if let Err(problem) = read {
                    tracing::debug!(detail = problem.detail, "predictors were not read again");
                }
                drop(told.take());
                tokio::time::sleep(REREAD).await;
            }
        });
        let ready = async {
            let _ = first.await;
            if let Some(nodes) = &app.soprano.nodes {
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
