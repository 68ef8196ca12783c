//! Routes for operators and their tools: liveness, readiness, metrics.

use std::time::{SystemTime, UNIX_EPOCH};

use metier_prom::{ExpositionFormat, MetricKind, MetricsPage};
use metier_store::RunFilter;
use metier_types::RunState;

use crate::app_state::SharedAppState;
use crate::http::credentials;
use crate::http::problem::ProblemDetails;
use crate::http::request_metrics::TEXT_FORMAT;
use crate::http::{HandlerRequest, HandlerResponse};
use crate::process_usage;
use crate::storage;

const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// The process is alive if it responds.
pub fn health(_: &SharedAppState, _: &HandlerRequest) -> Result<HandlerResponse, ProblemDetails> {
    Ok(HandlerResponse::new(PLAIN_TEXT, "ok\n"))
}

/// Ready means that the store responds. Only callers that may read the runs get the reason of a
/// failure, since it names paths and hosts.
pub fn ready(app: &SharedAppState, call: &HandlerRequest) -> Result<HandlerResponse, ProblemDetails> {
    let answered =
        app.storage.store().and_then(|store| store.get_memo("readyz").map_err(storage::store_problem));
    match answered {
        Ok(_) => Ok(HandlerResponse::new(PLAIN_TEXT, "ready\n")),
        Err(problem) => {
            let config = &app.http.config;
            match credentials::identify_reader(config, "/readyz", &call.headers, call.line.as_ref()) {
                Ok(_) => Err(ProblemDetails::unavailable(problem.detail)),
                Err(_) => Err(ProblemDetails::unavailable(
                    "the store does not answer; the reason is shown with the token",
                )),
            }
        }
    }
}

/// The server's own metrics. Those of a store that does not respond are left out, and
/// `metier_store_up` is 0.
pub fn metrics(app: &SharedAppState, _: &HandlerRequest) -> Result<HandlerResponse, ProblemDetails> {
    let mut page = MetricsPage::new(ExpositionFormat::Text);
    page.begin_family("metier_build_info", MetricKind::Info, "Version of the server; always 1.")
        .add_sample(&[("version", app.config.version.as_str())], 1u64);
    app.http.requests.write(&mut page);
    write_store_metrics(app, &mut page);

    let own = process_usage::read_process_usage();
    page.add_single(
        "process_cpu_seconds_total",
        MetricKind::Counter,
        "CPU time of the server.",
        own.cpu_seconds,
    );
    page.add_optional_single(
        "process_resident_memory_bytes",
        MetricKind::Gauge,
        "Resident memory of the server.",
        own.resident_bytes,
    );
    page.add_optional_single(
        "process_open_fds",
        MetricKind::Gauge,
        "Open files of the server.",
        own.open_files,
    );
    let started = app.started.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    if app.started > SystemTime::UNIX_EPOCH {
        page.add_single(
            "process_start_time_seconds",
            MetricKind::Gauge,
            "When the server started, Unix time.",
            started,
        );
    }
    Ok(HandlerResponse::new(TEXT_FORMAT, page.finish()))
}

fn write_store_metrics(app: &SharedAppState, page: &mut MetricsPage) {
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
    page.add_single("metier_store_up", MetricKind::Gauge, "Whether the store responds.", up);
    let Some(counts) = counts else { return };
    let mut runs = page.begin_family(
        "metier_runs",
        MetricKind::Gauge,
        "Runs in the store, by state; warm-up runs included.",
    );
    for (state, count) in counts {
        runs.add_sample(&[("state", state)], count);
    }
    if let Some(counts) = app.storage.store().ok().and_then(|store| store.session_counts().ok()) {
        let mut sessions =
            page.begin_family("metier_sessions", MetricKind::Gauge, "Sessions in the store, by state.");
        for (state, count) in counts {
            sessions.add_sample(&[("state", state.word())], count);
        }
    }
    if let Some(bytes) = app.storage.store().ok().and_then(|store| app.storage.size(&store)) {
        page.add_single("metier_store_size_bytes", MetricKind::Gauge, "Size of the store.", bytes.get());
    }
}
