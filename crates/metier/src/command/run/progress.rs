//! Progress of repetitions, printed between them and never during one.
//!
//! The command shares metier's stderr, so its output would tear a bar that is redrawn in place.
//! Each report is therefore a line of its own: it stays visible while the next repetition runs, and
//! the command's output starts on a fresh line. On a terminal the line has a bar.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use metier_types::{Run, Seconds};

use crate::console::OutputConsole;
use crate::output::figures;

/// Up to this many repetitions each print a line; more print occasionally.
const MAX_SINGLE_REPORTS: u32 = 20;
const NOTE_INTERVAL: Duration = Duration::from_secs(2);
/// Remaining seconds below which no estimate is printed.
const MIN_SECONDS_LEFT: f64 = 1.0;
/// Width of the bar.
const BAR_CELLS: u32 = 20;

/// Progress of the repetitions.
pub struct RepetitionProgress<'a> {
    console: &'a OutputConsole,
    done: u32,
    of: u32,
    spent: Duration,
    last: Instant,
    is_terminal: bool,
}

impl<'a> RepetitionProgress<'a> {
    /// Progress of a number of repetitions, including warm-up.
    pub fn new(console: &'a OutputConsole, of: u32) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self { console, done: 0, of, spent: Duration::ZERO, last: Instant::now(), is_terminal }
    }

    /// Reports a finished repetition.
    pub fn report_finished(&mut self, run: &Run, took: Duration) {
        self.done += 1;
        self.spent += took;
        let ending = figures::ending_word(run.state, run.exit.as_ref());
        let left = self.spent.as_secs_f64() / f64::from(self.done) * f64::from(self.of - self.done);
        let is_time = self.of <= MAX_SINGLE_REPORTS || self.last.elapsed() >= NOTE_INTERVAL;
        let is_worth_it = ending != "ok" || (is_time && left >= MIN_SECONDS_LEFT);
        if self.done == self.of || self.console.quiet || !is_worth_it {
            return;
        }
        self.last = Instant::now();
        let context = &run.context;
        let kind = if context.warmup { "warm-up" } else { "repetition" };
        let wall = run.summary.wall_seconds.map(|wall| format!(" {wall}")).unwrap_or_default();
        let bar =
            if self.is_terminal { format!("{} ", progress_bar(self.done, self.of)) } else { String::new() };
        let (n, of) = (context.repetition, context.repetitions);
        let text = format!("metier: {bar}{kind} {n} of {of}:{wall}, {ending}; about {} left", Seconds(left));
        self.console.note(self.console.paint_err.dim(&text));
    }
}

fn progress_bar(done: u32, of: u32) -> String {
    let full = (u64::from(done) * u64::from(BAR_CELLS) / u64::from(of.max(1))) as usize;
    format!("{}{}", "█".repeat(full), "░".repeat(BAR_CELLS as usize - full.min(BAR_CELLS as usize)))
}
