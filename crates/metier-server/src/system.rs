//! What operators and their tools ask: is it alive, can it work, what does it use, what does it answer.

use std::time::{SystemTime, UNIX_EPOCH};

use metier_prom::{Format, Kind, Page};
use metier_store::RunFilter;
use metier_types::RunState;

use crate::app::App;
use crate::http::metrics::TEXT_FORMAT;
use crate::http::problem::Problem;
use crate::http::{Call, Reply};
use crate::process;
use crate::storage;

const PLAIN: &str = "text/plain; charset=utf-8";

/// The process is alive if it can say so.
pub fn health(_: &App, _: &Call) -> Result<Reply, Problem> {
    Ok(Reply::new(PLAIN, "ok\n"))
}

/// Ready is who gets an answer from the store. Why not is told to those who may know: it names paths and hosts.
pub fn ready(app: &App, call: &Call) -> Result<Reply, Problem> {
    let answered = app.storage.store().and_then(|store| store.recall("readyz").map_err(storage::problem));
    match answered {
        Ok(_) => Ok(Reply::new(PLAIN, "ready\n")),
        Err(problem) if call.is_trusted => Err(Problem::unavailable(problem.detail)),
        Err(_) => Err(Problem::unavailable("the store does not answer; the reason is shown with the token")),
    }
}

/// The server's own figures. Those of a store that does not answer are left out, and `metier_store_up` is 0.
pub fn metrics(app: &App, _: &Call) -> Result<Reply, Problem> {
    let mut page = Page::new(Format::Text);
    page.family("metier_build_info", Kind::Info, "Which program this is; always 1.")
        .sample(&[("version", app.config.version.as_str())], 1u64);
    app.http.requests.write(&mut page);
    stored(app, &mut page);

    let own = process::read();
    page.single("process_cpu_seconds_total", Kind::Counter, "CPU time of the server.", own.cpu_seconds);
    page.single_if(
        "process_resident_memory_bytes",
        Kind::Gauge,
        "Resident memory of the server.",
        own.resident_bytes,
    );
    page.single_if("process_open_fds", Kind::Gauge, "Files that the server has open.", own.open_files);
    let started = app.started.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    if app.started > SystemTime::UNIX_EPOCH {
        page.single(
            "process_start_time_seconds",
            Kind::Gauge,
            "When the server started, Unix time.",
            started,
        );
    }
    Ok(Reply::new(TEXT_FORMAT, page.finish()))
}

fn stored(app: &App, page: &mut Page) {
    const STATES: [(&str, RunState); 3] = [
        ("running", RunState::Running),
        ("finished", RunState::Finished),
        ("interrupted", RunState::Interrupted),
    ];
    let count = |state: RunState| {
        let filter = RunFilter { state: Some(state), warmup: true, limit: 1, ..RunFilter::default() };
        let store = app.storage.store().ok()?;
        store.runs(&filter).ok().map(|page| page.total)
    };
    let counts: Option<Vec<(&str, u64)>> =
        STATES.into_iter().map(|(name, state)| Some((name, count(state)?))).collect();
    let up = u8::from(counts.is_some());
    page.single("metier_store_up", Kind::Gauge, "Whether the store answers.", up);
    let Some(counts) = counts else { return };
    let mut runs =
        page.family("metier_runs", Kind::Gauge, "Runs in the store, by state; warm-up runs included.");
    for (state, count) in counts {
        runs.sample(&[("state", state)], count);
    }
    if let Some(counts) = app.storage.store().ok().and_then(|store| store.session_counts().ok()) {
        let mut sessions = page.family("metier_sessions", Kind::Gauge, "Sessions in the store, by state.");
        for (state, count) in counts {
            sessions.sample(&[("state", state.word())], count);
        }
    }
    if let Some(bytes) = app.storage.store().ok().and_then(|store| app.storage.size(&store)) {
        page.single("metier_store_size_bytes", Kind::Gauge, "Space that the store takes.", bytes.get());
    }
}
