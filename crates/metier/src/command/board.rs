//! `metier board`: shows a recorded log of `tegrastats`, or the current figures of this board.

mod current_board;
mod log_output;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use metier_device::boards::TegrastatsLine;
use metier_device::boards::tegrastats_log::{
    DEFAULT_INTERVAL, LineRole, RecordingSummary, TegrastatsRecording,
};
use metier_types::Watts;
use serde::Serialize;

use super::CommandContext;
use crate::exit::{CliExitCode, usage_error};
use crate::output::{DataFormat, figures};
use crate::time;

const EXAMPLES: &str = "Examples:
  metier board                            what this board shows of itself now
  metier board tegrastats.log             each line of a recorded log, and what it says as a whole
  metier board tegrastats.log --summary   only the whole: power, energy with its error, load
  metier board tegrastats.log -o csv      one row a line, for other programs
  tegrastats | head -60 | metier board -  lines as they come, timed on receipt";

/// Longest line; longer lines are cut.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// Limit of lines to show; the summary includes all lines.
const MAX_SHOWN_LINES: usize = 1_000_000;

/// Show a recorded tegrastats log, or this board now
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct BoardArgs {
    /// Log of tegrastats, of any Jetson and release; - for stdin
    #[arg(value_name = "FILE|-")]
    file: Option<PathBuf>,
    /// Only the summary of the log
    #[arg(short, long, requires = "file")]
    summary: bool,
    /// Time between lines without a timestamp [default: 1s]
    #[arg(long, value_name = "DURATION", requires = "file")]
    interval: Option<String>,
}

/// A line with its number.
#[derive(Serialize)]
struct BoardLogRow {
    number: u64,
    role: LineRole,
    #[serde(flatten)]
    line: TegrastatsLine,
    /// Figures of the whole board.
    #[serde(skip_serializing_if = "Option::is_none")]
    power_watts: Option<Watts>,
}

#[derive(Serialize)]
struct BoardLog {
    schema: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lines: Vec<BoardLogRow>,
    summary: RecordingSummary,
}

impl BoardArgs {
    /// Prints the log, or the board.
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let Some(file) = &self.file else { return current_board::print_current_board(&context.console) };
        let interval = match &self.interval {
            None => DEFAULT_INTERVAL,
            Some(text) => {
                time::parse_duration(text).filter(|interval| !interval.is_zero()).ok_or_else(|| {
                    usage_error(format!("--interval is {text:?}; want a time such as 1s or 500ms"))
                })?
            }
        };
        let is_stdin = file.as_os_str() == "-";
        let mut input: Box<dyn BufRead> = if is_stdin {
            Box::new(BufReader::new(std::io::stdin()))
        } else {
            let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
            Box::new(BufReader::new(opened))
        };
        let log = self
            .read_log(&mut input, interval, is_stdin, context.console.format)
            .with_context(|| format!("cannot read {}", file.display()))?;
        if log.summary.samples == 0 && log.summary.dropped == 0 {
            anyhow::bail!(
                "{} has no line of tegrastats among its {}; want lines such as: RAM 1923/3964MB (lfb 2x2MB) CPU [5%@1224,…] …",
                file.display(),
                log.summary.lines
            );
        }
        let console = &context.console;
        if self.summary {
            let rows = figures::leaf_rows(&log.summary)?;
            console.print_record(&log, ["field", "value"], rows, |paint| {
                log_output::summary_table(&log.summary, paint)
            })?;
        } else {
            console.print_record(
                &log,
                log_output::HEADER.split(','),
                log.lines.iter().flat_map(log_output::rows),
                |paint| {
                    format!(
                        "{}\n{}",
                        log_output::log_table(&log.lines, paint),
                        log_output::summary_table(&log.summary, paint)
                    )
                },
            )?;
        }
        Ok(CliExitCode::OK)
    }

    fn read_log(
        &self,
        input: &mut dyn BufRead,
        interval: Duration,
        live: bool,
        format: DataFormat,
    ) -> std::io::Result<BoardLog> {
        let begun = std::time::Instant::now();
        let mut recording = TegrastatsRecording::new(interval);
        let mut rows = Vec::new();
        let mut bytes = Vec::new();
        let keep = !self.summary;
        let mut number = 0;
        while next_line(input, &mut bytes)? {
            number += 1;
            let (line, role) = if live {
                recording.add_received(&bytes, metier_types::Seconds(begun.elapsed().as_secs_f64()))
            } else {
                recording.add_line(&bytes)
            };
            let is_blank =
                role == LineRole::Foreign && format == DataFormat::Table && line.unknown.is_empty();
            if keep && !is_blank && rows.len() < MAX_SHOWN_LINES {
                let power_watts = line.board.power();
                rows.push(BoardLogRow { number, role, line, power_watts });
            }
        }
        Ok(BoardLog { schema: "metier.board-log/1", lines: rows, summary: recording.summarise() })
    }
}

/// Reads a line of bounded length without its end; `false` at the end of the file.
fn next_line(input: &mut dyn BufRead, bytes: &mut Vec<u8>) -> std::io::Result<bool> {
    bytes.clear();
    if input.take(MAX_LINE_BYTES).read_until(b'\n', bytes)? == 0 {
        return Ok(false);
    }
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    } else if bytes.len() as u64 == MAX_LINE_BYTES {
        // Skips the rest of an overlong line, in pieces.
        let mut rest = Vec::new();
        while input.take(MAX_LINE_BYTES).read_until(b'\n', &mut rest)? > 0 && rest.last() != Some(&b'\n') {
            rest.clear();
        }
    }
    Ok(true)
}
