//! `metier session`: ask for runs now, have them measured one at a time when it is their turn.

mod add;
mod list;
mod wait;
pub mod work;

use std::ffi::OsString;

use clap::{Args, Subcommand};
use metier_store::Cancelled;
use metier_types::Session as Record;

use super::Room;
use crate::config::Typed;
use crate::exit::Code;
use crate::output::{self, Format};
pub use work::worker;

const EXAMPLES: &str = "Examples:
  metier session add train.yaml                 put a run file in the queue
  metier session add --repeat 5 -- ./train.sh   or a command
  metier session list                           who waits, who runs, what became of the others
  metier session wait last                      until it is over; ends with its exit code
  metier session cancel 12                      whether it waits or runs
  metier session work                           measure what waits, without the page";

const AFTER: &str = "Sessions are kept in the store and measured by `metier up` or `metier session work`, one at a time on each device. \
ID is the number of a session, its id or 4 or more digits of that, or `last`.";

/// Queue runs, to be measured one at a time
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = AFTER)]
pub struct Session {
    #[command(subcommand)]
    then: Then,
}

#[derive(Debug, Subcommand)]
enum Then {
    /// Put a run file or a command in the queue
    Add(Box<add::Add>),
    /// List sessions
    List(list::List),
    /// Show everything about a session
    Show(Which),
    /// Print what a session printed
    Log(wait::LogOf),
    /// Wait until a session is over; end with its exit code
    Wait(wait::Wait),
    /// Cancel a session that waits or runs
    Cancel(Which),
    /// Measure what waits, until INT or TERM
    Work(work::Work),
}

/// One session.
#[derive(Debug, Args)]
struct Which {
    /// Number, id, 4 or more digits of that, or `last`
    #[arg(value_name = "ID")]
    id: String,
}

impl Session {
    /// What of it is a setting.
    pub fn typed(&self) -> Typed {
        match &self.then {
            Then::Add(add) => add.run.typed(),
            _ => Typed::new(),
        }
    }

    /// What was typed with the run file behind its flag, as `metier run` has it.
    pub fn with_file(&self, typed: &[OsString]) -> Option<Vec<OsString>> {
        match &self.then {
            Then::Add(add) => add.run.with_file(typed),
            _ => None,
        }
    }

    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        match &self.then {
            Then::Add(add) => add.run(room),
            Then::List(list) => list.run(room),
            Then::Show(which) => {
                let session = room.store()?.find_session(&which.id)?;
                print(room, &session)
            }
            Then::Log(log) => log.run(room),
            Then::Wait(wait) => wait.run(room),
            Then::Cancel(which) => cancel(room, which),
            Then::Work(work) => work.run(room),
        }
    }
}

fn print(room: &Room, session: &Record) -> anyhow::Result<Code> {
    match room.console.format {
        Format::Json => room.console.data(|out| output::json(out, session))?,
        Format::Yaml => room.console.data(|out| output::yaml(out, session))?,
        Format::Csv => room.console.data(|out| output::csv(out, &list::COLUMNS, [list::cells(session)]))?,
        Format::Table => room.console.print(&list::details(session, room.console.paint))?,
    }
    Ok(Code::OK)
}

fn cancel(room: &Room, which: &Which) -> anyhow::Result<Code> {
    let store = room.writable_store()?;
    let session = store.find_session(&which.id)?;
    let by = match user() {
        Some(user) => format!("by {user}"),
        None => "on the command line".to_string(),
    };
    let number = session.number;
    match store.cancel_session(session.id, &by)? {
        Cancelled::Removed => room.console.note(format!("session {number} is cancelled")),
        Cancelled::Told => room
            .console
            .note(format!("session {number} is told to end; `metier session wait {number}` waits for that")),
        Cancelled::Over => {
            let state = session.state.word();
            return Err(anyhow::anyhow!("session {number} is {state} already; nothing was changed"));
        }
    }
    Ok(Code::OK)
}

fn user() -> Option<String> {
    ["LOGNAME", "USER"].into_iter().find_map(|name| std::env::var(name).ok().filter(|user| !user.is_empty()))
}
