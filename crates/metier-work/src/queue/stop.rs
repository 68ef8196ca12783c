//! The wish that a worker ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set by the handler: all that it may do.
static SIGNALLED: AtomicBool = AtomicBool::new(false);

/// Whether a worker should end; clones are the same wish.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    signals: bool,
}

impl Stop {
    /// A wish that only [`Stop::ask`] expresses.
    pub fn new() -> Self {
        Self::default()
    }

    /// A wish that INT and TERM express too, for a process that does nothing but work the queue.
    pub fn on_signals() -> Self {
        for signal in [libc::SIGINT, libc::SIGTERM] {
            let handler: extern "C" fn(libc::c_int) = note;
            // SAFETY: the handler only stores to an atomic.
            unsafe { libc::signal(signal, handler as libc::sighandler_t) };
        }
        Self { signals: true, ..Self::default() }
    }

    pub fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Whether it was expressed.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed) || (self.signals && SIGNALLED.load(Ordering::Relaxed))
    }
}

extern "C" fn note(_: libc::c_int) {
    SIGNALLED.store(true, Ordering::Relaxed);
}
