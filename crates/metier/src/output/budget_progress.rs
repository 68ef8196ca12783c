//! Progress of work with a time budget: a bar on a terminal, occasional lines elsewhere.

use std::cell::Cell;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use metier_types::Seconds;

use super::step_progress::NOTE_INTERVAL;

/// Progress of work with a time budget.
pub struct BudgetProgress {
    bar: ProgressBar,
    begin: Instant,
    of: Duration,
    instant: Cell<Instant>,
    quiet: bool,
}

impl BudgetProgress {
    pub fn new(of: Duration, quiet: bool) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(of.as_secs().max(1)), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}") {
            bar.set_style(style);
        }
        let now = Instant::now();
        Self { bar, begin: now, of, instant: Cell::new(now), quiet }
    }

    /// Reports progress.
    pub fn report(&self, what: &str) {
        let spent = self.begin.elapsed();
        let left = Seconds(self.of.saturating_sub(spent).as_secs_f64().round());
        self.bar.set_position(spent.as_secs().min(self.of.as_secs()));
        self.bar.set_message(format!("{what}, at most {left} left"));
        if self.bar.is_hidden() && !self.quiet && self.instant.get().elapsed() >= NOTE_INTERVAL {
            self.instant.set(Instant::now());
            super::print_error(&format!("{what}, at most {left} left"));
        }
    }

    /// Ends the progress; returns the elapsed time.
    pub fn finish(self) -> Seconds {
        self.bar.finish_and_clear();
        Seconds(self.begin.elapsed().as_secs_f64())
    }
}
