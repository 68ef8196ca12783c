//! The one thread that writes series while runs are under way, so that a slow disk never delays a sample.
//!
//! The queue is bounded: a store that stays away costs samples, which are counted, and never memory or time of the sampler.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use metier_types::{RunId, Series};

use crate::{Error, Store};

/// Appends that may wait: two minutes of a run that appends once a second.
const QUEUE: usize = 128;

/// The writing thread and the bounded queue before it.
pub struct Writer {
    queue: Option<SyncSender<(RunId, Vec<Series>)>>,
    thread: Option<JoinHandle<Outcome>>,
    dropped: Arc<AtomicU64>,
}

#[derive(Default)]
struct Outcome {
    chunks: u64,
    dropped: u64,
    problem: Option<Error>,
}

/// What a writer did.
#[derive(Debug)]
pub struct Written {
    /// Appends that are in the store.
    pub chunks: u64,
    /// Appends that are not: the queue was full, or the store refused them.
    pub dropped: u64,
    /// Why the store refused the first that it refused.
    pub problem: Option<Error>,
}

impl Writer {
    pub fn start(store: Store) -> Writer {
        let (queue, waiting) = sync_channel(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        let thread = std::thread::Builder::new()
            .name("metier-writer".to_string())
            .spawn(move || write_all(&store, &waiting));
        // Without a thread everything is dropped and counted, and `finish` says so.
        Writer { queue: Some(queue), thread: thread.ok(), dropped }
    }

    /// Queues samples to be appended. Never waits: when the queue is full the samples are dropped and counted.
    pub fn append(&self, run: RunId, chunk: Vec<Series>) {
        let is_queued = self.queue.as_ref().is_some_and(|queue| queue.try_send((run, chunk)).is_ok());
        if !is_queued {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes what is queued, ends the thread and says what became of everything.
    pub fn finish(mut self) -> Result<Written, Error> {
        drop(self.queue.take());
        let outcome = self.thread.take().and_then(|thread| thread.join().ok()).ok_or(Error::Io {
            doing: "writing samples",
            source: std::io::Error::other("the writing thread could not start, or ended early"),
        })?;
        Ok(Written {
            chunks: outcome.chunks,
            dropped: outcome.dropped + self.dropped.load(Ordering::Relaxed),
            problem: outcome.problem,
        })
    }
}

impl Drop for Writer {
    /// A writer that is not finished still writes what is queued.
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write_all(store: &Store, waiting: &Receiver<(RunId, Vec<Series>)>) -> Outcome {
    let mut outcome = Outcome::default();
    for (run, chunk) in waiting {
        match store.append(run, &chunk) {
            Ok(()) => outcome.chunks += 1,
            // The next may succeed: space may be freed, a server may come back.
            Err(error) => {
                outcome.dropped += 1;
                outcome.problem.get_or_insert(error);
            }
        }
    }
    outcome
}
