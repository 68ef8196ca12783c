//! Sessions as rows and in detail.

use clap::Args;
use metier_store::SessionFilter;
use metier_types::{Session as Record, SessionState, Timestamp};
use serde::Serialize;

use super::super::Room;
use crate::exit::Code;
use crate::output::{self, Cell, Format, Paint, Table, parse_word, plain, word_of};
use crate::time;

/// List sessions
#[derive(Debug, Args)]
pub struct List {
    /// Only in this state
    #[arg(long, value_parser = parse_word(&SessionState::ALL, SessionState::word))]
    state: Option<SessionState>,
    /// How many at most
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

/// The list as programs get it.
#[derive(Serialize)]
struct Sessions<'a> {
    schema: &'static str,
    sessions: &'a [Record],
}

impl List {
    pub fn run(&self, room: &Room) -> anyhow::Result<Code> {
        let filter = SessionFilter { state: self.state, limit: self.limit, ..SessionFilter::default() };
        let sessions = room.store()?.sessions(&filter)?;
        let list = Sessions { schema: "metier.sessions/1", sessions: &sessions };
        match room.console.format {
            Format::Json => room.console.data(|out| output::json(out, &list))?,
            Format::Yaml => room.console.data(|out| output::yaml(out, &list))?,
            Format::Csv => room.console.data(|out| output::csv(out, &COLUMNS, sessions.iter().map(cells)))?,
            Format::Table if sessions.is_empty() => {
                room.console.note("no session fits; `metier session add` puts one in the queue");
            }
            Format::Table => {
                room.console.print(&table(&sessions, Timestamp::now()).render(room.console.paint))?;
            }
        }
        Ok(Code::OK)
    }
}

fn style(state: SessionState) -> fn(Paint, &str) -> String {
    match state {
        SessionState::Finished => Paint::green,
        SessionState::Running => Paint::cyan,
        SessionState::Queued => Paint::dim,
        SessionState::Cancelled | SessionState::Interrupted => Paint::yellow,
        SessionState::Failed => Paint::red,
    }
}

fn state(session: &Record) -> String {
    match session.position {
        Some(place) => format!("queued, place {place}"),
        None => session.state.word().to_string(),
    }
}

fn asker(session: &Record) -> String {
    let door = word_of(&session.asker.door);
    match &session.asker.user {
        Some(user) => format!("{user} ({door})"),
        None => door,
    }
}

fn table(sessions: &[Record], now: Timestamp) -> Table {
    let mut table = Table::with_header(&["NO", "NAME", "STATE", "ASKED", "BY", "RUNS", "WHY"]);
    for session in sessions {
        table.row(vec![
            Cell::text(session.number.to_string()).styled(Paint::cyan),
            Cell::text(&session.name).at_most(40),
            Cell::text(state(session)).styled(style(session.state)),
            Cell::text(time::ago(session.asked, now)),
            Cell::text(asker(session)).at_most(30),
            Cell::text(session.runs.len().to_string()),
            Cell::text(session.reason.clone().unwrap_or_default()).at_most(60).styled(Paint::dim),
        ]);
    }
    table
}

/// One session, for people.
pub fn details(session: &Record, paint: Paint) -> String {
    let mut lines = vec![
        ("session", format!("{} ({})", session.number, session.id)),
        ("name", session.name.clone()),
        ("state", style(session.state)(paint, &state(session))),
        ("asked", format!("{} by {}", session.asked, asker(session))),
    ];
    let mut add = |name: &'static str, text: Option<String>| lines.extend(text.map(|text| (name, text)));
    add("why", session.reason.clone());
    add("job", session.job.clone());
    add("for", session.device.clone());
    add("folder", session.folder.clone());
    add("started", session.started.map(|at| at.to_string()));
    add("ended", session.ended.map(|at| at.to_string()));
    add("device", session.measured_by.as_ref().map(|device| device.name.clone()));
    add("exit code", session.exit_code.map(|code| code.to_string()));
    add("batch", Some(session.batch.to_string()));
    let runs: Vec<String> = session.runs.iter().map(|run| run.short()).collect();
    add("runs", (!runs.is_empty()).then(|| runs.join(" ")));
    add("file", Some(session.file.to_string()));
    lines.iter().map(|(name, text)| format!("{} {text}\n", paint.dim(&format!("{name:<10}")))).collect()
}

/// The header of CSV.
pub const COLUMNS: [&str; 14] = [
    "number",
    "id",
    "name",
    "state",
    "position",
    "door",
    "user",
    "job",
    "asked",
    "started",
    "ended",
    "exit_code",
    "runs",
    "reason",
];

/// A session as a row of CSV.
pub fn cells(session: &Record) -> Vec<String> {
    let runs: Vec<String> = session.runs.iter().map(ToString::to_string).collect();
    vec![
        session.number.to_string(),
        session.id.to_string(),
        session.name.clone(),
        session.state.word().to_string(),
        plain(session.position),
        word_of(&session.asker.door),
        plain(session.asker.user.as_ref()),
        plain(session.job.as_ref()),
        session.asked.to_string(),
        plain(session.started),
        plain(session.ended),
        plain(session.exit_code),
        runs.join(";"),
        plain(session.reason.as_ref()),
    ]
}
