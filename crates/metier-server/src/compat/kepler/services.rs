//! All Kepler-compatible services: the estimator's socket, the model server, the offline and the
//! online trainer.
//!
//! A single role serves until INT or TERM ([`KeplerServices::run`]). Beside another server, all
//! roles run on a thread of their own ([`KeplerServices::run_in_background`]). There, an address in
//! use is skipped with a warning.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use metier_power::catalog::PipelineCatalog;
use metier_power::estimate::PowerEstimator;
use metier_power::stored_pipelines::TrainedPipelineRecorder;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::estimator_socket::EstimatorSocket;
use super::model_fetcher::{FetchConfig, ModelFetcher};
use super::model_server::{self, ModelServerState};
use super::online_trainer::{OnlineTrainer, OnlineTrainerConfig};
use super::trainer::{self, TrainerState, TrainingJobQueue};
use crate::error::Error;
use crate::http::config::{AccessToken, HttpConfig};
use crate::http::{HttpState, listener};

/// How often pipelines are checked for replacement, for example by a trainer in the same process.
const CHANGE_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Which services run, and their configuration.
pub struct KeplerServices {
    pub socket: Option<PathBuf>,
    /// Where the model server listens.
    pub models: Option<SocketAddr>,
    /// Where the trainer listens.
    pub trainer: Option<SocketAddr>,
    /// Where an estimator without a model server serves health and metrics.
    pub metrics: Option<SocketAddr>,
    /// Training from Prometheus during operation.
    pub online: Option<OnlineTrainerConfig>,
    /// Whether the model server (or the metrics alone) serves without the token on an address that
    /// is not loopback.
    pub is_open: bool,
    /// Token for changes.
    pub token: Option<AccessToken>,
    /// Further settings of the HTTP layer: host names, limits, the token of the user, shared
    /// bounds.
    pub http: HttpConfig,
    pub shelf: Arc<PipelineCatalog>,
    /// The estimator behind the socket.
    pub estimator: Option<Arc<PowerEstimator>>,
    /// Sources of predictors that the estimator lacks.
    pub asking: Option<FetchConfig>,
    /// The error metric by which the model server compares predictors.
    pub error_key: String,
    /// Records new pipelines in the store; without a store they stay in folders.
    pub recorder: Option<TrainedPipelineRecorder>,
}

/// Addresses of the open services.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenedServices {
    pub socket: Option<PathBuf>,
    pub models: Option<SocketAddr>,
    pub trainer: Option<SocketAddr>,
    /// Health and metrics of the estimator.
    pub metrics: Option<SocketAddr>,
}

impl OpenedServices {
    /// Describes the open services; `None` without any.
    pub fn describe(&self) -> Option<String> {
        let address = |name: &str, address: SocketAddr| format!("http://{address}/ ({name})");
        let models = self.models.map(|addr| address("models", addr));
        let trainer = self.trainer.map(|addr| address("trainer", addr));
        let socket = self.socket.as_ref().map(|socket| format!("{} (estimator)", socket.display()));
        let metrics = self.metrics.map(|addr| address("metrics", addr));
        let all: Vec<String> = models.into_iter().chain(trainer).chain(metrics).chain(socket).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }
}

/// The service behind one address.
struct ServiceListener {
    listener: TcpListener,
    http: Arc<HttpState>,
    router: axum::Router,
}

fn build_runtime() -> Result<tokio::runtime::Runtime, Error> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(2)
        .thread_name("metier-power")
        .build()
        .map_err(|source| Error::Runtime { source })
}

fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

impl KeplerServices {
    /// No service yet, over these predictors.
    pub fn new(shelf: Arc<PipelineCatalog>) -> Self {
        Self {
            socket: None,
            models: None,
            trainer: None,
            metrics: None,
            online: None,
            is_open: false,
            token: None,
            http: HttpConfig::default().with_shared_bounds(),
            shelf,
            estimator: None,
            asking: None,
            error_key: "mae".to_string(),
            recorder: None,
        }
    }

    /// The HTTP state of a service at this address.
    fn http_state(&self, listener: &TcpListener, address: SocketAddr, open: &[&str]) -> Arc<HttpState> {
        let open = if self.is_open { open.iter().map(|name| name.to_string()).collect() } else { Vec::new() };
        let listen = listener.local_addr().unwrap_or(address);
        let config = HttpConfig {
            listen,
            open,
            token: self.token.clone(),
            doors: Vec::new(),
            tls: None,
            ..self.http.clone()
        };
        Arc::new(HttpState::new(config, listen))
    }

    /// Checks before the start: a reachable address needs a token. A service that only serves
    /// predictors may be opened by name instead.
    pub fn check(&self) -> Result<(), Error> {
        let reachable = |address: &SocketAddr| !is_loopback(*address) && self.token.is_none();
        if let Some(address) = self.models.filter(reachable).filter(|_| !self.is_open) {
            return Err(Error::ClosedModels { address });
        }
        if let Some(address) = self.metrics.filter(|address| !is_loopback(*address) && !self.is_open) {
            return Err(Error::ClosedEstimatorMetrics { address });
        }
        match self.trainer.filter(reachable) {
            Some(address) => Err(Error::ClosedTrainer { address }),
            None => Ok(()),
        }
    }

    /// Serves until INT or TERM; HUP fetches and reads pipelines again.
    pub fn run(self, on_ready: impl FnOnce(&OpenedServices)) -> Result<(), Error> {
        self.check()?;
        let (shelf, estimator) = (self.shelf.clone(), self.estimator.clone());
        build_runtime()?.block_on(async {
            let future = listener::shutdown_signal()?;
            let mut hang_up = signal(SignalKind::hangup()).map_err(|source| Error::Signals { source })?;
            let until = async move {
                tokio::pin!(future);
                loop {
                    tokio::select! {
                        () = &mut future => return,
                        _ = hang_up.recv() => reload_pipelines(&shelf, estimator.as_ref(), true),
                    }
                }
            };
            self.serve(false, on_ready, until).await
        })
    }

    /// Serves on a thread of its own until stopped. A service that cannot be opened is logged and
    /// skipped.
    pub fn run_in_background(self) -> Result<BackgroundServices, Error> {
        self.check()?;
        let (stop, mut stopping) = watch::channel(false);
        let (ready, opened) = std::sync::mpsc::channel();
        let runtime = build_runtime()?;
        let work = move || {
            let until = async move { drop(stopping.wait_for(|stopping| *stopping).await) };
            let on_ready = |opened: &OpenedServices| drop(ready.send(opened.clone()));
            if let Err(error) = runtime.block_on(self.serve(true, on_ready, until)) {
                tracing::warn!(%error, "the Kepler-compatible services are closed");
            }
        };
        let thread = std::thread::Builder::new()
            .name("metier-power".to_string())
            .spawn(work)
            .map_err(|source| Error::Runtime { source })?;
        // Nothing arrives if no service could be opened.
        let opened = opened.recv().unwrap_or_default();
        Ok(BackgroundServices { opened, stop, thread })
    }

    async fn serve(
        mut self,
        is_lenient: bool,
        on_ready: impl FnOnce(&OpenedServices),
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        let mut opened = OpenedServices::default();
        let door = match (&self.socket, &self.estimator) {
            (Some(socket), Some(estimator)) => {
                let door = ok_or_skip(EstimatorSocket::open(socket, estimator.clone()), is_lenient)?;
                opened.socket = door.as_ref().map(|_| socket.clone());
                door
            }
            _ => None,
        };
        let teacher = match (self.online.take(), &self.estimator) {
            (Some(online), Some(estimator)) => Some(OnlineTrainer::start(
                online,
                self.shelf.clone(),
                estimator.clone(),
                self.recorder.clone(),
            )?),
            _ => None,
        };
        let online = teacher.as_ref().map(|teacher| teacher.figures.clone());
        let mut doors = Vec::new();
        if let Some(address) = self.models
            && let Some(listener) = ok_or_skip(listener::bind_listener(address), is_lenient)?
        {
            opened.models = listener.local_addr().ok();
            let http = self.http_state(&listener, address, &["models", "metrics"]);
            let mut models = ModelServerState::new(self.shelf.clone());
            let figures = door.as_ref().map(|door| door.figures.clone());
            models.estimator = self.estimator.clone().zip(figures);
            models.online.clone_from(&online);
            models.error_key.clone_from(&self.error_key);
            let router = model_server::router(Arc::new(models), &http);
            doors.push(ServiceListener { listener, http, router });
        }
        if let Some(address) = self.metrics
            && let Some(listener) = ok_or_skip(listener::bind_listener(address), is_lenient)?
        {
            opened.metrics = listener.local_addr().ok();
            let http = self.http_state(&listener, address, &["metrics"]);
            let mut models = ModelServerState::new(self.shelf.clone());
            models.estimator = self.estimator.clone().zip(door.as_ref().map(|door| door.figures.clone()));
            models.online.clone_from(&online);
            let router = model_server::metrics_router(Arc::new(models), &http);
            doors.push(ServiceListener { listener, http, router });
        }
        let asker = match (self.asking.take(), &self.estimator) {
            (Some(asking), Some(estimator)) => {
                Some(ModelFetcher::start(asking, self.shelf.clone(), estimator.clone())?)
            }
            _ => None,
        };
        let mut jobs = None;
        if let Some(address) = self.trainer
            && let Some(listener) = ok_or_skip(listener::bind_listener(address), is_lenient)?
        {
            opened.trainer = listener.local_addr().ok();
            let own = TrainingJobQueue::new(self.shelf.clone(), self.recorder.clone())
                .map_err(|source| Error::Runtime { source })?;
            jobs = Some(own.clone());
            let http = self.http_state(&listener, address, &[]);
            let trainer = TrainerState { jobs: own, online: online.clone() };
            let router = trainer::router(Arc::new(trainer), &http);
            doors.push(ServiceListener { listener, http, router });
        }
        if self.shelf.is_waiting() {
            reload_pipelines(&self.shelf, self.estimator.as_ref(), true);
        }
        on_ready(&opened);
        let (stop, stopping) = watch::channel(false);
        let mut serving = JoinSet::new();
        for ServiceListener { listener, http, router } in doors {
            let mut stopping = stopping.clone();
            let until = async move { drop(stopping.wait_for(|stopping| *stopping).await) };
            serving.spawn(listener::serve_connections(listener, None, http, router, until));
        }
        let mut look = tokio::time::interval(CHANGE_CHECK_INTERVAL);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                _ = look.tick() => if self.shelf.has_changed() {
                    reload_pipelines(&self.shelf, self.estimator.as_ref(), false);
                },
            }
        }
        if let Some(jobs) = jobs {
            jobs.stop_all();
        }
        stop.send_replace(true);
        serving.join_all().await;
        drop(teacher);
        drop(asker);
        drop(door);
        Ok(())
    }
}

/// The opened service; in lenient mode a failure is only logged.
fn ok_or_skip<T>(opened: Result<T, Error>, is_lenient: bool) -> Result<Option<T>, Error> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if is_lenient => {
            tracing::warn!(%error, "a Kepler-compatible service is skipped");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Reads pipelines again, on request also those at addresses. It uses a thread of its own, since a
/// download may take long.
fn reload_pipelines(shelf: &Arc<PipelineCatalog>, estimator: Option<&Arc<PowerEstimator>>, fetches: bool) {
    let (shelf, estimator) = (shelf.clone(), estimator.cloned());
    let work = move || {
        for warning in if fetches { shelf.reload() } else { shelf.reread() } {
            tracing::warn!("{warning}");
        }
        if let Some(estimator) = estimator {
            estimator.adopt_catalog(&shelf);
        }
    };
    if let Err(error) = std::thread::Builder::new().name("metier-fetch".to_string()).spawn(work) {
        tracing::warn!(%error, "pipelines cannot be fetched");
    }
}

/// Services on a thread of their own.
pub struct BackgroundServices {
    /// The services that could be opened.
    pub opened: OpenedServices,
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl BackgroundServices {
    /// Closes the services; running requests may finish.
    pub fn stop(self) {
        self.stop.send_replace(true);
        let _ = self.thread.join();
    }
}
