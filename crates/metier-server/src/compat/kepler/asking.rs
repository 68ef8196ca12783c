//! Looks elsewhere for predictors that clients of the estimator want: at a model server, and at the addresses that Kepler's settings name.
//!
//! Nobody waits for it: until something came, the estimator answers with what it has. What came is kept in a folder of the shelf and answers after a restart, too. What cannot be had
//! is tried again, ever more seldom. One thread, bounded kinds of requests.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use metier_power::catalog::PipelineCatalog;
use metier_power::estimate::Estimator;
use metier_power::pipeline::{Lacking, ModelServer, Purpose, bring_initial};
use metier_power::settings::Initial;

use crate::error::Error;

/// Most kinds of requests that are looked for, and that wait.
const KINDS: usize = 64;
/// Until it is tried again after the first failure; each further one doubles it.
const AGAIN: Duration = Duration::from_secs(15);
/// Longest until it is tried again.
const SELDOM: Duration = Duration::from_secs(600);
/// How often it is looked whether it is to end.
const LOOK: Duration = Duration::from_millis(250);

/// Where predictors are looked for.
#[derive(Debug, Clone, Default)]
pub struct Asking {
    pub server: Option<ModelServer>,
    /// Predictors by themselves; asked where the model server has none.
    pub initial: Vec<Initial>,
    /// The pipeline that what came is kept in, below a folder of the shelf.
    pub folder: PathBuf,
}

/// How it stands with one kind of request.
enum Standing {
    /// It came, or there is nowhere to look.
    Settled,
    /// It is looked for, at that time.
    Again { at: Instant, after: Duration },
}

/// The thread that looks.
pub struct Asker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Asker {
    /// Starts it; the estimator tells it what is wanted.
    pub fn start(
        asking: Asking,
        shelf: Arc<PipelineCatalog>,
        estimator: Arc<Estimator>,
    ) -> Result<Self, Error> {
        let (tell, told) = sync_channel(KINDS);
        estimator.tell(tell);
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = stop.clone();
        let thread = std::thread::Builder::new()
            .name("metier-asking".to_string())
            .spawn(move || work(&asking, &shelf, &estimator, &told, &stopping))
            .map_err(|source| Error::Runtime { source })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Where it waits for a server that does not answer, the process need not.
        if let Some(thread) = self.thread.take().filter(JoinHandle::is_finished) {
            let _ = thread.join();
        }
    }
}

fn work(
    asking: &Asking,
    shelf: &PipelineCatalog,
    estimator: &Estimator,
    told: &Receiver<Lacking>,
    stopping: &AtomicBool,
) {
    let mut known: BTreeMap<Lacking, Standing> = BTreeMap::new();
    while !stopping.load(Ordering::SeqCst) {
        match told.recv_timeout(LOOK) {
            Ok(wanted) if known.len() < KINDS || known.contains_key(&wanted) => {
                known.entry(wanted).or_insert(Standing::Again { at: Instant::now(), after: AGAIN });
            }
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let mut is_new = false;
        for (wanted, standing) in &mut known {
            let Standing::Again { at, after } = standing else { continue };
            if *at > Instant::now() || stopping.load(Ordering::SeqCst) {
                continue;
            }
            let (source, output_type) = (wanted.purpose.source.name(), wanted.purpose.output_type.name());
            match asking.bring(wanted, estimator) {
                Ok(came) => {
                    if let Some(predictor) = came {
                        tracing::info!(source, output_type, predictor, "a predictor came");
                        is_new = true;
                    }
                    *standing = Standing::Settled;
                }
                Err(error) => {
                    let seconds = after.as_secs();
                    tracing::warn!(
                        source,
                        output_type,
                        error,
                        "no predictor came; tried again in {seconds} s"
                    );
                    let (at, after) = (Instant::now() + *after, (*after * 2).min(SELDOM));
                    *standing = Standing::Again { at, after };
                }
            }
        }
        if is_new {
            for warning in shelf.reread() {
                tracing::warn!("{warning}");
            }
            estimator.follow(shelf);
        }
    }
}

impl Asking {
    /// The predictor that came, by name; `None` where there is nowhere to look; else why none did.
    fn bring(&self, wanted: &Lacking, estimator: &Estimator) -> Result<Option<String>, String> {
        let mut why = Vec::new();
        if let Some(server) = &self.server {
            match server.bring(wanted, estimator.machine(), &self.folder) {
                Ok(name) => return Ok(Some(name)),
                Err(error) => why.push(error.to_string()),
            }
        }
        let is_for =
            |one: &&Initial| wanted.purpose == Purpose { output_type: one.output_type, source: one.source };
        if let Some(initial) = self.initial.iter().find(is_for) {
            match bring_initial(&initial.address, wanted.purpose, &self.folder) {
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
