//! Stop requests to a session from any thread: a queue that cancels, or another interrupted session
//! of the same program. A request acts like a signal to this process.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::Error;
use metier_linux::wakeup;

/// Stops the run of a session.
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

    /// Acts as if this signal had been received: `SIGINT` starts the ladder at its first rung, any
    /// other at `SIGTERM`. A second request kills the run. A request between two runs stops the
    /// next one at its start.
    pub fn stop(&self, signal: i32) {
        self.signal.store(signal, Ordering::SeqCst);
        wakeup::signal_event(&self.bell);
    }

    /// Whether a request is pending.
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
