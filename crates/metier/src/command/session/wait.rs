//! `metier session wait` and `metier session log`.

use std::time::{Duration, Instant};

use clap::Args;
use metier_store::{RecordStore, SessionFilter};
use metier_types::{SessionRecord as Record, SessionState};

use super::super::CommandContext;
use crate::exit::{CliExitCode, usage_error};
use crate::time;

/// Interval between reads of the store.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// A first-in-queue session that stays unclaimed for this long prints the reason.
const IDLE_HINT_DELAY: Duration = Duration::from_secs(3);

/// Wait until a session is over, and exit with its exit code
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: that of the run; 124 the time was up (--timeout), 125 it could not be measured or its worker went away, 130 cancelled."
)]
pub struct SessionWaitArgs {
    /// Number, id, 4 or more digits of that, or `last`
    #[arg(value_name = "ID")]
    id: String,
    /// Longest time to wait; the session continues
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
    /// Print its output
    #[arg(long)]
    log: bool,
}

/// Print the output of a session
#[derive(Debug, Args)]
pub struct SessionLogArgs {
    /// Number, id, 4 or more digits of that, or `last`
    #[arg(value_name = "ID")]
    id: String,
    /// Follow the output until the session is over
    #[arg(short, long)]
    follow: bool,
}

impl SessionLogArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let store = context.store()?;
        let session = store.find_session(&self.id)?;
        let mut part = 0;
        loop {
            // Read before the log: a finished session writes no more output.
            let is_over = store.session(session.id)?.is_none_or(|now| now.state.is_over());
            part = copy_log(context, &store, &session, part)?;
            if is_over || !self.follow {
                return Ok(CliExitCode::OK);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

impl SessionWaitArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let wrong = |text: &String| usage_error(format!("--timeout is {text:?}; want {}", time::DURATION));
        let longest = match &self.timeout {
            Some(text) => Some(time::parse_duration(text).ok_or_else(|| wrong(text))?),
            None => None,
        };
        let store = context.store()?;
        let session = store.find_session(&self.id)?;
        let begun = Instant::now();
        let (mut text, mut part, mut has_hinted) = (String::new(), 0, false);
        loop {
            let Some(now) = store.session(session.id)? else {
                return Err(anyhow::anyhow!("session {} is not in the store any more", session.number));
            };
            let line = progress_line(&now);
            if line != text {
                context.console.note(&line);
                text = line;
            }
            if self.log {
                part = copy_log(context, &store, &session, part)?;
            }
            if now.state.is_over() {
                return Ok(session_exit_code(&now));
            }
            if !has_hinted && begun.elapsed() > IDLE_HINT_DELAY && is_queue_idle(&store, &now)? {
                context.console.note("no worker takes the queue; start `metier up` or `metier session work`");
                has_hinted = true;
            }
            if longest.is_some_and(|longest| begun.elapsed() >= longest) {
                context.console.note(format!("session {} is still {}", now.number, now.state.word()));
                return Ok(CliExitCode::from_raw(124));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

fn copy_log(
    context: &CommandContext,
    store: &RecordStore,
    session: &Record,
    part: u32,
) -> anyhow::Result<u32> {
    let (text, next) = store.session_log(session.id, part)?;
    if !text.is_empty() {
        context.console.write_data(|out| Ok(out.write_all(&text)?))?;
    }
    Ok(next)
}

/// Whether the session is first in the queue while no session runs.
fn is_queue_idle(store: &RecordStore, session: &Record) -> anyhow::Result<bool> {
    let running = SessionFilter { state: Some(SessionState::Running), limit: 1, ..SessionFilter::default() };
    Ok(session.position == Some(1) && store.sessions(&running)?.is_empty())
}

fn progress_line(session: &Record) -> String {
    let what = match (session.state, session.position) {
        (SessionState::Queued, Some(place)) => format!("waits at place {place}"),
        (SessionState::Running, _) if !session.runs.is_empty() => {
            format!("runs; {} so far", session.runs.len())
        }
        (state, _) => state.word().to_string(),
    };
    let why = session.reason.as_ref().filter(|_| session.state.is_over());
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    format!("session {} ({}) {what}{why}", session.number, session.name)
}

fn session_exit_code(session: &Record) -> CliExitCode {
    match (session.state, session.exit_code) {
        (SessionState::Finished, _) => CliExitCode::OK,
        (SessionState::Cancelled, _) => CliExitCode::from_raw(130),
        (SessionState::Interrupted, _) => CliExitCode::OWN_FAILURE,
        (_, Some(code)) => CliExitCode::from_raw(code),
        _ => CliExitCode::OWN_FAILURE,
    }
}
