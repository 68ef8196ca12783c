//! The thread that writes series during runs, so that a slow disk never delays a sample.
//!
//! The queue is bounded. An unresponsive store causes lost samples, which are counted; it never
//! costs the sampler memory or time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use metier_types::{RunId, Series};

use crate::{Error, RunSink};

/// Queue capacity: two minutes of a run that appends once per second.
const QUEUE_LEN: usize = 128;

/// The writing thread and its bounded queue.
pub struct SeriesWriter {
    queue: Option<SyncSender<(RunId, Vec<Series>)>>,
    thread: Option<JoinHandle<WriterCounts>>,
    dropped: Arc<AtomicU64>,
}

#[derive(Default)]
struct WriterCounts {
    chunks: u64,
    dropped: u64,
    problem: Option<Error>,
}

/// Counts of a writer after its end.
#[derive(Debug)]
pub struct WriterReport {
    /// Appends that were stored.
    pub chunks: u64,
    /// Appends that were lost: the queue was full, or the store refused them.
    pub dropped: u64,
    /// First error of the store.
    pub problem: Option<Error>,
}

impl SeriesWriter {
    pub fn start(sink: impl Into<RunSink>) -> SeriesWriter {
        let sink = sink.into();
        let (queue, waiting) = sync_channel(QUEUE_LEN);
        let dropped = Arc::new(AtomicU64::new(0));
        let thread = std::thread::Builder::new()
            .name("metier-writer".to_string())
            .spawn(move || append_queued(&sink, &waiting));
        // Without a thread all samples are dropped and counted, and `finish` reports it.
        SeriesWriter { queue: Some(queue), thread: thread.ok(), dropped }
    }

    /// Queues samples for appending. Never blocks: if the queue is full, the samples are dropped
    /// and counted.
    pub fn append(&self, run: RunId, chunk: Vec<Series>) {
        let is_queued = self.queue.as_ref().is_some_and(|queue| queue.try_send((run, chunk)).is_ok());
        if !is_queued {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes the queued samples, ends the thread and returns the counts.
    pub fn finish(mut self) -> Result<WriterReport, Error> {
        drop(self.queue.take());
        let outcome = self.thread.take().and_then(|thread| thread.join().ok()).ok_or(Error::Io {
            doing: "writing samples",
            source: std::io::Error::other("the writing thread could not start, or ended early"),
        })?;
        Ok(WriterReport {
            chunks: outcome.chunks,
            dropped: outcome.dropped + self.dropped.load(Ordering::Relaxed),
            problem: outcome.problem,
        })
    }
}

impl Drop for SeriesWriter {
    /// Without `finish`, queued samples are still written.
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn append_queued(sink: &RunSink, waiting: &Receiver<(RunId, Vec<Series>)>) -> WriterCounts {
    let mut outcome = WriterCounts::default();
    for (run, chunk) in waiting {
        match sink.append_series(run, &chunk) {
            Ok(()) => outcome.chunks += 1,
            // A later append may succeed: space may be freed, or the server may return.
            Err(error) => {
                outcome.dropped += 1;
                outcome.problem.get_or_insert(error);
            }
        }
    }
    outcome
}
