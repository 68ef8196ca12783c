//! Progress of fetching a dataset: a bar on a terminal, occasional lines elsewhere.

use std::cell::Cell;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use metier_session::dataset::DatasetProgress;
use metier_types::Bytes;

use crate::console::OutputConsole;

/// Interval between lines without a terminal.
const NOTE_INTERVAL: Duration = Duration::from_secs(5);

/// Shows the progress on stderr.
pub struct FetchProgress<'a> {
    console: &'a OutputConsole,
    bar: ProgressBar,
    here: Cell<u64>,
    all: Cell<Option<u64>>,
    instant: Cell<Instant>,
}

impl<'a> FetchProgress<'a> {
    pub fn new(console: &'a OutputConsole) -> Self {
        let target = if console.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(None, target);
        let form = "dataset {bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(form) {
            bar.set_style(style);
        }
        Self { console, bar, here: Cell::new(0), all: Cell::new(None), instant: Cell::new(Instant::now()) }
    }
}

impl FetchProgress<'_> {
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl DatasetProgress for FetchProgress<'_> {
    fn expects(&self, all: u64) {
        self.all.set(Some(all));
        self.bar.set_length(all);
    }

    fn advanced(&self, bytes: u64) {
        self.here.set(self.here.get() + bytes);
        self.bar.set_position(self.here.get());
        if self.bar.is_hidden() && self.instant.get().elapsed() >= NOTE_INTERVAL {
            self.instant.set(Instant::now());
            let of = self.all.get().map(|all| format!(" of {}", Bytes(all))).unwrap_or_default();
            self.console.note(format!("metier: dataset: {}{of} are here", Bytes(self.here.get())));
        }
    }

    fn back(&self, bytes: u64) {
        self.here.set(self.here.get().saturating_sub(bytes));
        self.bar.set_position(self.here.get());
    }

    fn note(&self, text: &str) {
        self.bar.suspend(|| self.console.note(format!("metier: dataset: {text}")));
    }
}
