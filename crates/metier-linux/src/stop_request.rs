//! A request to stop a long-running thread, from another thread or by SIGINT and SIGTERM.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time between looks at the request.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Set by the signal handler, which may do nothing else.
static SIGNALLED: AtomicBool = AtomicBool::new(false);

/// Whether a worker should stop; clones share one request.
#[derive(Debug, Clone, Default)]
pub struct StopRequest {
    asked: Arc<AtomicBool>,
    signals: bool,
}

impl StopRequest {
    /// A request that only [`StopRequest::request`] makes.
    pub fn new() -> Self {
        Self::default()
    }

    /// A request that SIGINT and SIGTERM make too, for a process that only works on the queue.
    pub fn on_signals() -> Self {
        for signal in [libc::SIGINT, libc::SIGTERM] {
            let handler: extern "C" fn(libc::c_int) = record_signal;
            // SAFETY: the handler only stores to an atomic.
            unsafe { libc::signal(signal, handler as libc::sighandler_t) };
        }
        Self { signals: true, ..Self::default() }
    }

    pub fn request(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Sleeps in small steps, until the time is up or the request is made.
    pub fn wait(&self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until && !self.is_requested() {
            std::thread::sleep(POLL_INTERVAL.min(time));
        }
    }

    /// Whether the request was made.
    pub fn is_requested(&self) -> bool {
        self.asked.load(Ordering::Relaxed) || (self.signals && SIGNALLED.load(Ordering::Relaxed))
    }
}

extern "C" fn record_signal(_: libc::c_int) {
    SIGNALLED.store(true, Ordering::Relaxed);
}
