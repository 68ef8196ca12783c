//! Sessions as rows and as text.

use clap::Args;
use metier_store::SessionFilter;
use metier_types::{SessionRecord as Record, SessionState, UtcTimestamp};
use serde::Serialize;

use super::super::CommandContext;
use crate::exit::CliExitCode;
use crate::output::{
    self, DataFormat, StreamPaint, TableCell, TextTable, csv_cell, serialised_word, word_parser,
};
use crate::time;

/// List sessions
#[derive(Debug, Args)]
pub struct SessionListArgs {
    /// Only sessions in this state
    #[arg(long, value_parser = word_parser(&SessionState::ALL, SessionState::word))]
    state: Option<SessionState>,
    /// Limit of listed sessions
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

/// The list as a record.
#[derive(Serialize)]
struct SessionsRecord<'a> {
    schema: &'static str,
    sessions: &'a [Record],
}

impl SessionListArgs {
    pub fn run(&self, context: &CommandContext) -> anyhow::Result<CliExitCode> {
        let filter = SessionFilter { state: self.state, limit: self.limit, ..SessionFilter::default() };
        let sessions = context.store()?.sessions(&filter)?;
        let list = SessionsRecord { schema: "metier.sessions/1", sessions: &sessions };
        match context.console.format {
            DataFormat::Json => context.console.write_data(|out| output::write_json(out, &list))?,
            DataFormat::Yaml => context.console.write_data(|out| output::write_yaml(out, &list))?,
            DataFormat::Csv => context
                .console
                .write_data(|out| output::write_csv(out, CSV_COLUMNS, sessions.iter().map(session_cells)))?,
            DataFormat::Table if sessions.is_empty() => {
                context.console.note("no session fits; `metier session add` puts one in the queue");
            }
            DataFormat::Table => {
                context
                    .console
                    .print(&sessions_table(&sessions, UtcTimestamp::now()).render(context.console.paint))?;
            }
        }
        Ok(CliExitCode::OK)
    }
}

fn state_style(state: SessionState) -> fn(StreamPaint, &str) -> String {
    match state {
        SessionState::Finished => StreamPaint::green,
        SessionState::Running => StreamPaint::cyan,
        SessionState::Queued => StreamPaint::dim,
        SessionState::Cancelled | SessionState::Interrupted => StreamPaint::yellow,
        SessionState::Failed => StreamPaint::red,
    }
}

fn state_text(session: &Record) -> String {
    match session.position {
        Some(place) => format!("queued, place {place}"),
        None => session.state.word().to_string(),
    }
}

fn requester_text(session: &Record) -> String {
    let origin = serialised_word(&session.asker.door);
    match &session.asker.user {
        Some(user) => format!("{user} ({origin})"),
        None => origin,
    }
}

fn sessions_table(sessions: &[Record], now: UtcTimestamp) -> TextTable {
    let mut table = TextTable::with_header(&["NO", "NAME", "STATE", "ASKED", "BY", "RUNS", "WHY"]);
    for session in sessions {
        table.add_row(vec![
            TableCell::text(session.number.to_string()).styled(StreamPaint::cyan),
            TableCell::text(&session.name).truncated(40),
            TableCell::text(state_text(session)).styled(state_style(session.state)),
            TableCell::text(time::time_ago(session.asked, now)),
            TableCell::text(requester_text(session)).truncated(30),
            TableCell::text(session.runs.len().to_string()),
            TableCell::text(session.reason.clone().unwrap_or_default())
                .truncated(60)
                .styled(StreamPaint::dim),
        ]);
    }
    table
}

/// A session as text.
pub fn session_details(session: &Record, paint: StreamPaint) -> String {
    let mut lines = vec![
        ("session", format!("{} ({})", session.number, session.id)),
        ("name", session.name.clone()),
        ("state", state_style(session.state)(paint, &state_text(session))),
        ("asked", format!("{} by {}", session.asked, requester_text(session))),
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
pub const CSV_COLUMNS: [&str; 14] = [
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
pub fn session_cells(session: &Record) -> Vec<String> {
    let runs: Vec<String> = session.runs.iter().map(ToString::to_string).collect();
    vec![
        session.number.to_string(),
        session.id.to_string(),
        session.name.clone(),
        session.state.word().to_string(),
        csv_cell(session.position),
        serialised_word(&session.asker.door),
        csv_cell(session.asker.user.as_ref()),
        csv_cell(session.job.as_ref()),
        session.asked.to_string(),
        csv_cell(session.started),
        csv_cell(session.ended),
        csv_cell(session.exit_code),
        runs.join(";"),
        csv_cell(session.reason.as_ref()),
    ]
}
