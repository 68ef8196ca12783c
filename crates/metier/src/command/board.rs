//! `metier board`: what a recorded log of `tegrastats` says, or what this board shows of itself now.

mod lines;
mod now;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use metier_device::boards::Line;
use metier_device::boards::log::{INTERVAL, Recording, Role, Summary};
use metier_types::Watts;
use serde::Serialize;

use super::Room;
use crate::exit::{Code, usage};
use crate::output::{Format, figures};
use crate::time;

const EXAMPLES: &str = "Examples:
  metier board                            what this board shows of itself now
  metier board tegrastats.log             each line of a recorded log, and what it says as a whole
  metier board tegrastats.log --summary   only the whole: power, energy with its error, load
  metier board tegrastats.log -o csv      one row a line, for other programs
  tegrastats | head -60 | metier board -  lines as they come, timed on receipt";

/// Longest line that is taken as one; what is longer is cut.
const LONGEST: u64 = 64 << 10;

/// Most lines of one log that are kept to be shown; the summary takes all.
const MOST_SHOWN: usize = 1_000_000;

/// Show a recorded tegrastats log, or this board now
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct Board {
    /// A log that tegrastats wrote, of any Jetson and release; - for stdin
    #[arg(value_name = "FILE|-")]
    file: Option<PathBuf>,
    /// Only what the log says as a whole
    #[arg(short, long, requires = "file")]
    summary: bool,
    /// Time between lines that have no stamp [default: 1s]
    #[arg(long, value_name = "TIME", requires = "file")]
    interval: Option<String>,
}

/// One line with its place.
#[derive(Serialize)]
struct Row {
    number: u64,
    role: Role,
    #[serde(flatten)]
    line: Line,
    /// Of the whole board.
    #[serde(skip_serializing_if = "Option::is_none")]
    power_watts: Option<Watts>,
}

#[derive(Serialize)]
struct Log {
    schema: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lines: Vec<Row>,
    summary: Summary,
}

impl Board {
    /// Prints the log, or the board.
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let Some(file) = &self.file else { return now::show(&room.console) };
        let interval = match &self.interval {
            None => INTERVAL,
            Some(text) => time::duration(text)
                .filter(|interval| !interval.is_zero())
                .ok_or_else(|| usage(format!("--interval is {text:?}; want a time such as 1s or 500ms")))?,
        };
        let is_stdin = file.as_os_str() == "-";
        let mut input: Box<dyn BufRead> = if is_stdin {
            Box::new(BufReader::new(std::io::stdin()))
        } else {
            let opened = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
            Box::new(BufReader::new(opened))
        };
        let log = self
            .read(&mut input, interval, is_stdin, room.console.format)
            .with_context(|| format!("cannot read {}", file.display()))?;
        if log.summary.samples == 0 && log.summary.dropped == 0 {
            anyhow::bail!(
                "{} has no line of tegrastats among its {}; want lines such as: RAM 1923/3964MB (lfb 2x2MB) CPU [5%@1224,…] …",
                file.display(),
                log.summary.lines
            );
        }
        let console = &room.console;
        if self.summary {
            let rows = figures::leaf_rows(&log.summary)?;
            console.show(&log, ["field", "value"], rows, |paint| lines::summary(&log.summary, paint))?;
        } else {
            console.show(
                &log,
                lines::HEADER.split(','),
                log.lines.iter().flat_map(lines::rows),
                |paint| {
                    format!("{}\n{}", lines::table(&log.lines, paint), lines::summary(&log.summary, paint))
                },
            )?;
        }
        Ok(Code::OK)
    }

    fn read(
        &self,
        input: &mut dyn BufRead,
        interval: Duration,
        live: bool,
        format: Format,
    ) -> std::io::Result<Log> {
        let begun = std::time::Instant::now();
        let mut recording = Recording::new(interval);
        let mut rows = Vec::new();
        let mut bytes = Vec::new();
        let keep = !self.summary;
        let mut number = 0;
        while next_line(input, &mut bytes)? {
            number += 1;
            let (line, role) = if live {
                recording.add_received(&bytes, metier_types::Seconds(begun.elapsed().as_secs_f64()))
            } else {
                recording.add(&bytes)
            };
            let is_blank = role == Role::Foreign && format == Format::Table && line.unknown.is_empty();
            if keep && !is_blank && rows.len() < MOST_SHOWN {
                let power_watts = line.board.power();
                rows.push(Row { number, role, line, power_watts });
            }
        }
        Ok(Log { schema: "metier.board-log/1", lines: rows, summary: recording.finish() })
    }
}

/// Reads a line of bounded length without its end; `false` at the end of the file.
fn next_line(input: &mut dyn BufRead, bytes: &mut Vec<u8>) -> std::io::Result<bool> {
    bytes.clear();
    if input.take(LONGEST).read_until(b'\n', bytes)? == 0 {
        return Ok(false);
    }
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    } else if bytes.len() as u64 == LONGEST {
        // The rest of an endless line, in pieces.
        let mut rest = Vec::new();
        while input.take(LONGEST).read_until(b'\n', &mut rest)? > 0 && rest.last() != Some(&b'\n') {
            rest.clear();
        }
    }
    Ok(true)
}
