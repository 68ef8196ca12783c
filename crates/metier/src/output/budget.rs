//! Long work that ends when its time is used up: a bar on a terminal, a line now and then elsewhere.

use std::cell::Cell;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use metier_types::Seconds;

use super::steps::NOW_AND_THEN;

/// Work of so much time at most.
pub struct Budget {
    bar: ProgressBar,
    begin: Instant,
    of: Duration,
    said: Cell<Instant>,
    quiet: bool,
}

impl Budget {
    pub fn new(of: Duration, quiet: bool) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(of.as_secs().max(1)), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}") {
            bar.set_style(style);
        }
        let now = Instant::now();
        Self { bar, begin: now, of, said: Cell::new(now), quiet }
    }

    /// How far it has come.
    pub fn tell(&self, what: &str) {
        let spent = self.begin.elapsed();
        let left = Seconds(self.of.saturating_sub(spent).as_secs_f64().round());
        self.bar.set_position(spent.as_secs().min(self.of.as_secs()));
        self.bar.set_message(format!("{what}, at most {left} left"));
        if self.bar.is_hidden() && !self.quiet && self.said.get().elapsed() >= NOW_AND_THEN {
            self.said.set(Instant::now());
            super::complain(&format!("{what}, at most {left} left"));
        }
    }

    /// It has ended; how long it took.
    pub fn end(self) -> Seconds {
        self.bar.finish_and_clear();
        Seconds(self.begin.elapsed().as_secs_f64())
    }
}
