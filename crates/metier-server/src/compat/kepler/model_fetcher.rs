//! Fetches predictors that clients of the estimator request: from a model server, and from the
//! addresses in Kepler's settings.
//!
//! Requests never wait for it; until a predictor arrives, the estimator uses those it has. A
//! fetched predictor is stored in a folder of the catalog and survives a restart. Failed fetches
//! are retried with growing delays. One thread serves a bounded number of request kinds.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use metier_power::catalog::PipelineCatalog;
use metier_power::estimate::PowerEstimator;
use metier_power::kepler_settings::InitialPredictor;
use metier_power::pipeline::{ModelServerClient, PredictorPurpose, UnmetPredictorRequest, download_initial};

use crate::error::Error;

/// Most request kinds that are tracked, and that wait.
const MAX_REQUEST_KINDS: usize = 64;
/// Delay before the first retry; it doubles with each failure.
const FIRST_RETRY_DELAY: Duration = Duration::from_secs(15);
/// Longest delay before a retry.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(600);
/// How often the thread checks whether to stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Sources of predictors.
#[derive(Debug, Clone, Default)]
pub struct FetchConfig {
    pub server: Option<ModelServerClient>,
    /// Addresses of single predictors; used where the model server has none.
    pub initial: Vec<InitialPredictor>,
    /// Pipeline for fetched predictors, below a folder of the catalog.
    pub folder: PathBuf,
}

/// Fetch state of one request kind.
enum FetchState {
    /// The predictor arrived, or there is no source for it.
    Done,
    /// To be tried at that time.
    Retry { at: Instant, after: Duration },
}

/// The fetching thread.
pub struct ModelFetcher {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ModelFetcher {
    /// Starts the thread; the estimator sends it the missing request kinds.
    pub fn start(
        asking: FetchConfig,
        shelf: Arc<PipelineCatalog>,
        estimator: Arc<PowerEstimator>,
    ) -> Result<Self, Error> {
        let (tell, receiver) = sync_channel(MAX_REQUEST_KINDS);
        estimator.notify_missing(tell);
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = stop.clone();
        let thread = std::thread::Builder::new()
            .name("metier-asking".to_string())
            .spawn(move || run_fetch_loop(&asking, &shelf, &estimator, &receiver, &stopping))
            .map_err(|source| Error::Runtime { source })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for ModelFetcher {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // If the thread waits for a server that does not respond, the process need not wait for it.
        if let Some(thread) = self.thread.take().filter(JoinHandle::is_finished) {
            let _ = thread.join();
        }
    }
}

fn run_fetch_loop(
    asking: &FetchConfig,
    shelf: &PipelineCatalog,
    estimator: &PowerEstimator,
    receiver: &Receiver<UnmetPredictorRequest>,
    stopping: &AtomicBool,
) {
    let mut known: BTreeMap<UnmetPredictorRequest, FetchState> = BTreeMap::new();
    while !stopping.load(Ordering::SeqCst) {
        match receiver.recv_timeout(STOP_CHECK_INTERVAL) {
            Ok(predictor) if known.len() < MAX_REQUEST_KINDS || known.contains_key(&predictor) => {
                known
                    .entry(predictor)
                    .or_insert(FetchState::Retry { at: Instant::now(), after: FIRST_RETRY_DELAY });
            }
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let mut is_new = false;
        for (missing_predictor, standing) in &mut known {
            let FetchState::Retry { at, after } = standing else { continue };
            if *at > Instant::now() || stopping.load(Ordering::SeqCst) {
                continue;
            }
            let (source, output_type) =
                (missing_predictor.purpose.source.name(), missing_predictor.purpose.output_type.name());
            match asking.fetch_predictor(missing_predictor, estimator) {
                Ok(came) => {
                    if let Some(predictor) = came {
                        tracing::info!(source, output_type, predictor, "a predictor came");
                        is_new = true;
                    }
                    *standing = FetchState::Done;
                }
                Err(error) => {
                    let seconds = after.as_secs();
                    tracing::warn!(
                        source,
                        output_type,
                        error,
                        "no predictor came; tried again in {seconds} s"
                    );
                    let (at, after) = (Instant::now() + *after, (*after * 2).min(MAX_RETRY_DELAY));
                    *standing = FetchState::Retry { at, after };
                }
            }
        }
        if is_new {
            for warning in shelf.reread() {
                tracing::warn!("{warning}");
            }
            estimator.adopt_catalog(shelf);
        }
    }
}

impl FetchConfig {
    /// Name of the fetched predictor; `None` without a source; else why the fetch failed.
    fn fetch_predictor(
        &self,
        missing_predictor: &UnmetPredictorRequest,
        estimator: &PowerEstimator,
    ) -> Result<Option<String>, String> {
        let mut why = Vec::new();
        if let Some(server) = &self.server {
            match server.download_predictor(missing_predictor, estimator.machine(), &self.folder) {
                Ok(name) => return Ok(Some(name)),
                Err(error) => why.push(error.to_string()),
            }
        }
        let is_for = |predictor: &&InitialPredictor| {
            missing_predictor.purpose
                == PredictorPurpose { output_type: predictor.output_type, source: predictor.source }
        };
        if let Some(initial) = self.initial.iter().find(is_for) {
            match download_initial(&initial.address, missing_predictor.purpose, &self.folder) {
                Ok(name) => return Ok(Some(name)),
                Err(error) => why.push(error.to_string()),
            }
        }
        match why.is_empty() {
            true => Ok(None),
            false => Err(why.join("; ")),
        }
    }
}
