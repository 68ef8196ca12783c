//! The program `metier`: parses what was typed, calls the room that does it, prints the answer.
//!
//! No logic lives here beyond that. Data goes to stdout, everything else to stderr; an error is one line that
//! says what went wrong and what would be right; the exit codes are those of [`exit`]. A reader that closes
//! our stdout early has what it wanted: that is success.
//!
//! Nothing is opened before a command needs it, so `--version`, `--help` and completions touch no store.

mod allocator;
mod cli;
mod command;
mod config;
mod console;
mod dispatch;
mod exit;
mod log;
mod output;
mod time;

use std::process::ExitCode;

use crate::cli::CommandLine;

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|info| {
        let at = info.location().map(|at| format!(" at {}:{}", at.file(), at.line())).unwrap_or_default();
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let what = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown");
        console::print_error(&format!("this is a defect of metier{at}: {what}; please report it"));
    }));
    let arguments: Vec<std::ffi::OsString> = std::env::args_os().collect();
    let code = match CommandLine::parse(&arguments) {
        Ok(cli) => dispatch::dispatch(cli),
        Err(error) => cli::report_clap_error(&error),
    };
    ExitCode::from(code.get())
}
