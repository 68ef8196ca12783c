//! The two streams: data to stdout, everything else to stderr.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Write};

use serde::Serialize;

use crate::config::Settings;
use crate::exit::ClosedPipe;
pub use crate::output::print_error;
use crate::output::{self, DataFormat, OutputFile, StepProgress, StreamPaint};

/// Output streams and their form.
#[derive(Debug, Clone, Copy)]
pub struct OutputConsole {
    /// The form of data.
    pub format: DataFormat,
    pub paint: StreamPaint,
    pub paint_err: StreamPaint,
    /// Whether to print only data and errors.
    pub quiet: bool,
}

impl OutputConsole {
    /// Reads form, colours and quiet mode from the settings.
    pub fn new(settings: &Settings) -> anyhow::Result<Self> {
        let when = settings.color()?;
        Ok(Self {
            format: settings.format()?,
            paint: StreamPaint::new(when, io::stdout().is_terminal()),
            paint_err: StreamPaint::new(when, io::stderr().is_terminal()),
            quiet: settings.flag("quiet")?,
        })
    }

    /// Writes data to stdout.
    pub fn write_data(&self, write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>) -> anyhow::Result<()> {
        write_stdout(write)
    }

    /// Writes data to the file that a flag names, else to stdout.
    pub fn write_data_to(
        &self,
        file: Option<OutputFile>,
        write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        match file {
            None => self.write_data(write),
            Some(mut file) => {
                write(&mut file)?;
                file.commit()
            }
        }
    }

    /// Prints a record in the requested form: JSON and YAML unchanged, CSV as rows, else the text.
    pub fn print_record(
        &self,
        record: &(impl Serialize + ?Sized),
        header: impl IntoIterator<Item = impl AsRef<[u8]>>,
        rows: impl IntoIterator<Item = Vec<String>>,
        text: impl FnOnce(StreamPaint) -> String,
    ) -> anyhow::Result<()> {
        match self.format {
            DataFormat::Json => self.write_data(|out| output::write_json(out, record)),
            DataFormat::Yaml => self.write_data(|out| output::write_yaml(out, record)),
            DataFormat::Csv => self.write_data(|out| output::write_csv(out, header, rows)),
            DataFormat::Table => self.print(&text(self.paint)),
        }
    }

    /// Prints a text to stdout.
    pub fn print(&self, text: &str) -> anyhow::Result<()> {
        self.write_data(|out| Ok(out.write_all(text.as_bytes())?))
    }

    /// Prints a note to stderr, unless quiet.
    pub fn note(&self, text: impl Display) {
        if !self.quiet {
            let _ = writeln!(io::stderr().lock(), "{text}");
        }
    }

    /// Prints several notes in one write, so that no other output separates them.
    pub fn print_stderr(&self, text: &str) {
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }

    /// Progress of work with a known number of steps.
    pub fn step_progress(&self, of: u64, noun: &'static str, verb: &'static str) -> StepProgress {
        StepProgress::new(of, noun, verb, self.quiet)
    }

    /// Prints a warning to stderr, also when quiet.
    pub fn warn(&self, text: impl Display) {
        let word = self.paint_err.yellow("warning:");
        let _ = writeln!(io::stderr().lock(), "metier: {word} {text}");
    }
}

/// Writes to stdout through a buffer that is flushed at the end.
pub fn write_stdout(write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut out = StdoutWriter(BufWriter::with_capacity(64 << 10, io::stdout().lock()));
    write(&mut out).and_then(|()| Ok(out.flush()?)).map_err(|error| match is_stdout_closed(&error) {
        true => ClosedPipe.into(),
        false => error,
    })
}

/// stdout that marks its own closing, unlike other broken pipes such as that of a store's
/// connection.
struct StdoutWriter<W>(W);

#[derive(Debug, thiserror::Error)]
#[error("stdout was closed")]
struct StdoutClosed;

fn mark_closed(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => io::Error::new(io::ErrorKind::BrokenPipe, StdoutClosed),
        _ => io::Error::new(error.kind(), format!("cannot write to stdout: {error}")),
    }
}

impl<W: Write> Write for StdoutWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(mark_closed)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(mark_closed)
    }
}

/// Whether the chain of errors contains a closed stdout.
fn is_stdout_closed(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>().or_else(|| {
            match cause.downcast_ref::<csv::Error>().map(csv::Error::kind) {
                Some(csv::ErrorKind::Io(error)) => Some(error),
                _ => None,
            }
        });
        let json = cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        cause.is::<StdoutClosed>()
            || io.and_then(io::Error::get_ref).is_some_and(|inner| inner.is::<StdoutClosed>())
            || json == Some(io::ErrorKind::BrokenPipe)
    })
}
