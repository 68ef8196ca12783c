//! Progress in steps: a bar with the remaining time on a terminal, occasional lines elsewhere.

use std::cell::Cell;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Interval between lines without a terminal.
pub(super) const NOTE_INTERVAL: Duration = Duration::from_secs(5);

/// Progress of work with a known number of steps.
pub struct StepProgress {
    bar: ProgressBar,
    done: Cell<u64>,
    of: u64,
    instant: Cell<Instant>,
    noun: &'static str,
    verb: &'static str,
    quiet: bool,
}

impl StepProgress {
    /// Starts a progress of `of` steps; `noun` names them, `verb` their completion.
    pub fn new(of: u64, noun: &'static str, verb: &'static str, quiet: bool) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(of), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos} of {len} {msg}, {eta} left") {
            bar.set_style(style);
        }
        bar.set_message(format!("{noun} {verb}"));
        Self { bar, done: Cell::new(0), of, instant: Cell::new(Instant::now()), noun, verb, quiet }
    }

    pub fn advance(&self) {
        self.done.set(self.done.get() + 1);
        self.bar.inc(1);
        if self.bar.is_hidden() && !self.quiet && self.instant.get().elapsed() >= NOTE_INTERVAL {
            self.instant.set(Instant::now());
            let (done, of) = (self.done.get(), self.of);
            super::print_error(&format!("{done} of {of} {} {}", self.noun, self.verb));
        }
    }

    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}
