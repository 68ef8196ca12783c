//! `metier session`: queues runs, measured one at a time.

mod add;
mod list;
mod wait;
pub mod work;

use std::ffi::OsString;

use clap::{Args, Subcommand};
use metier_store::CancelOutcome;
use metier_types::SessionRecord as Record;

use super::CommandContext;
use crate::config::FlagSettings;
use crate::exit::CliExitCode;
use crate::output::{self, DataFormat};
pub use work::build_worker;

const EXAMPLES: &str = "Examples:
  metier session add train.yaml                 put a run file in the queue
  metier session add --repeat 5 -- ./train.sh   or a command
  metier session list                           queued, running and finished sessions
  metier session wait last                      until it is over; ends with its exit code
  metier session cancel 12                      whether it waits or runs
  metier session work                           measure what waits, without the page";

const AFTER: &str = "Sessions are kept in the store and measured by `metier up` or `metier session work`, one at a time on each device. \
ID is the number of a session, its id or 4 or more digits of that, or `last`.";

/// Queue runs, to be measured one at a time
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = AFTER)]
pub struct SessionArgs {
    #[command(subcommand)]
    then: SessionCommand,
}

#[derive(Debug, Subcommand)]
enum SessionCommand {
    /// Put a run file or a command in the queue
    Add(Box<add::SessionAddArgs>),
    /// List sessions
    List(list::SessionListArgs),
    /// Show everything about a session
    Show(SessionIdArgs),
    /// Print the output of a session
    Log(wait::SessionLogArgs),
    /// Wait until a session is over; end with its exit code
    Wait(wait::SessionWaitArgs),
    /// Cancel a queued or running session
    Cancel(SessionIdArgs),
    /// Work the queue, until INT or TERM
    Work(work::SessionWorkArgs),
}

/// One session.
#[derive(Debug, Args)]
struct SessionIdArgs {
    /// Number, id, 4 or more digits of that, or `last`
    #[arg(value_name = "ID")]
    id: String,
}

impl SessionArgs {
    /// The settings that these flags set.
    pub fn setting_values(&self) -> FlagSettings {
        match &self.then {
            SessionCommand::Add(add) => add.run.setting_values(),
            _ => FlagSettings::new(),
        }
    }

    /// The arguments with `--file` before the run file, as in `metier run`.
    pub fn with_file_flag(&self, typed: &[OsString]) -> Option<Vec<OsString>> {
        match &self.then {
            SessionCommand::Add(add) => add.run.with_file_flag(typed),
            _ => None,
        }
    }

    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        super::sweep_jobs();
        match &self.then {
            SessionCommand::Add(add) => add.run(context),
            SessionCommand::List(list) => list.run(context),
            SessionCommand::Show(which) => {
                let session = context.store()?.find_session(&which.id)?;
                print_session(context, &session)
            }
            SessionCommand::Log(log) => log.run(context),
            SessionCommand::Wait(wait) => wait.run(context),
            SessionCommand::Cancel(which) => cancel_session(context, which),
            SessionCommand::Work(work) => work.run(context),
        }
    }
}

fn print_session(context: &CommandContext, session: &Record) -> anyhow::Result<CliExitCode> {
    match context.console.format {
        DataFormat::Json => context.console.write_data(|out| output::write_json(out, session))?,
        DataFormat::Yaml => context.console.write_data(|out| output::write_yaml(out, session))?,
        DataFormat::Csv => context
            .console
            .write_data(|out| output::write_csv(out, list::CSV_COLUMNS, [list::session_cells(session)]))?,
        DataFormat::Table => context.console.print(&list::session_details(session, context.console.paint))?,
    }
    Ok(CliExitCode::OK)
}

fn cancel_session(context: &CommandContext, which: &SessionIdArgs) -> anyhow::Result<CliExitCode> {
    let store = context.writable_store()?;
    let session = store.find_session(&which.id)?;
    let by = match login_name() {
        Some(user) => format!("by {user}"),
        None => "on the command line".to_string(),
    };
    let number = session.number;
    match store.cancel_session(session.id, &by)? {
        CancelOutcome::Removed => context.console.note(format!("session {number} is cancelled")),
        CancelOutcome::WorkerNotified => context
            .console
            .note(format!("session {number} is ending; `metier session wait {number}` waits for that")),
        CancelOutcome::AlreadyOver => {
            let state = session.state.word();
            return Err(anyhow::anyhow!("session {number} is {state} already; nothing was changed"));
        }
    }
    Ok(CliExitCode::OK)
}

fn login_name() -> Option<String> {
    ["LOGNAME", "USER"].into_iter().find_map(|name| std::env::var(name).ok().filter(|user| !user.is_empty()))
}
