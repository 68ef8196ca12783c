//! Long work in steps: a bar with the time left on a terminal, a line now and then elsewhere.

use std::cell::Cell;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often a line is said where there is no terminal.
pub(super) const NOTE_INTERVAL: Duration = Duration::from_secs(5);

/// Work of so many steps.
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
    /// Of so many steps; `noun` says what they are, `verb` what became of them.
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
