//! The program `metier`: parses the arguments, calls the responsible crate, prints the result.
//!
//! It holds no other logic. Data goes to stdout, everything else to stderr. An error is one line
//! that states the fault and the fix; [`exit`] defines the exit codes. A reader that closes stdout
//! early is no error.
//!
//! The store opens only when a command needs it: `--version`, `--help` and completions touch none.

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
