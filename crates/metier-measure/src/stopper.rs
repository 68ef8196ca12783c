//! A wish to stop what a session runs, from any thread: a queue that cancels, or another session of the same
//! program that was interrupted. It works like a signal to us.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::Error;
use metier_linux::wakeup;

/// Stops what a session runs.
#[derive(Debug, Clone)]
pub struct SessionStopper {
    bell: Arc<OwnedFd>,
    signal: Arc<AtomicI32>,
}

impl SessionStopper {
    pub(crate) fn new() -> Result<Self, Error> {
        let fail = |reason| Error::System { doing: "making an event descriptor", reason };
        Ok(Self { bell: Arc::new(wakeup::create_event().map_err(fail)?), signal: Arc::default() })
    }

    /// As if this signal had been sent to us: `SIGINT` starts the ladder at its first rung, any other at `SIGTERM`.
    /// Asked for once more, the run is killed. Asked for between two runs, the next one is stopped as it starts.
    pub fn stop(&self, signal: i32) {
        self.signal.store(signal, Ordering::SeqCst);
        wakeup::signal_event(&self.bell);
    }

    /// Whether somebody has asked and was not yet heard.
    pub fn is_requested(&self) -> bool {
        self.signal.load(Ordering::SeqCst) != 0
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.bell.as_raw_fd()
    }

    pub(crate) fn take_signal(&self) -> Option<i32> {
        wakeup::consume_event(&self.bell);
        Some(self.signal.swap(0, Ordering::SeqCst)).filter(|signal| *signal != 0)
    }
}
