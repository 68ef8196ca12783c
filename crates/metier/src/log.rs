//! Logs on stderr: text on a terminal, JSON lines elsewhere. `METIER_LOG` filters them.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::console::OutputConsole;
use crate::exit::usage_error;

/// Default log level of a server: each step of its life cycle.
pub const SERVER_LEVEL: &str = "info";
/// Default log level of a command: only its data and errors.
pub const COMMAND_LEVEL: &str = "off";

/// Starts logging; each `-v` raises the default level, up to everything with `-vv`.
pub fn start_logging(console: &OutputConsole, verbose: u8, otherwise: &str) -> anyhow::Result<()> {
    let level = match (console.quiet, verbose) {
        (true, _) => "error",
        (_, 0) => otherwise,
        (_, 1) => "debug",
        _ => "trace",
    };
    let filter = match std::env::var("METIER_LOG").ok().filter(|text| !text.is_empty()) {
        Some(text) => EnvFilter::try_new(&text).map_err(|_| {
            usage_error(format!("METIER_LOG is {text:?}; want a filter such as debug or metier_server=debug"))
        })?,
        None => EnvFilter::new(level),
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match std::io::stderr().is_terminal() {
        true => builder.with_target(false).try_init(),
        false => builder.json().try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))
}
