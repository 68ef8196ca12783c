//! The online trainer: queries Prometheus repeatedly for the exporter's measurements.
//! `metier_power::online_trainer` learns from them and decides on promotion; the outcome is logged
//! and exported.
//!
//! One thread, one round at a time. A round that fails (no Prometheus, no exporter, too few rows)
//! is logged and counted, and changes nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use metier_power::Error as PowerError;
use metier_power::catalog::PipelineCatalog;
use metier_power::estimate::PowerEstimator;
use metier_power::kepler_terms::{EnergySource, OutputType, shorten};
use metier_power::online::{self, OnlineSettings, PromotionVerdict};
use metier_power::query::{self, KeplerQuery, TimeSpan};
use metier_power::response::{KeplerResponse, KeplerSeries};
use metier_power::stored_pipelines::TrainedPipelineRecorder;
use metier_predict::lifecycle::PromotionDecision;
use metier_prom::query::{BlockingClient, PromClient, PromEndpoint};
use metier_prom::{MetricKind, MetricsPage, RenderedLabels};
use metier_types::{LockUnpoisoned, UtcTimestamp};

use crate::error::Error;

/// Most metrics of a query.
const MAX_METRICS: usize = 200;

/// Configuration of the online trainer.
#[derive(Debug, Clone)]
pub struct OnlineTrainerConfig {
    /// The Prometheus that scrapes the exporter.
    pub prometheus: PromEndpoint,
    /// Time between rounds.
    pub interval: Duration,
    /// Time range of a round's query.
    pub window: Duration,
    /// Time between rows.
    pub step: Duration,
    /// Labels that select its series.
    pub only: Vec<(String, String)>,
    /// Name of this machine, to select its series where Prometheus scrapes several nodes.
    pub node: Option<String>,
    pub settings: OnlineSettings,
}

#[derive(Default)]
struct OnlineTrainerState {
    rounds: [u64; 2],
    decisions: BTreeMap<(EnergySource, OutputType, PromotionDecision), u64>,
    latest: Vec<PromotionVerdict>,
    at: Option<UtcTimestamp>,
    is_stopped: bool,
}

/// Counters of the trainer, and its stop flag.
#[derive(Default)]
pub struct OnlineTrainerStats {
    state: Mutex<OnlineTrainerState>,
    wake: Condvar,
}

impl OnlineTrainerStats {
    fn lock_state(&self) -> MutexGuard<'_, OnlineTrainerState> {
        self.state.lock_unpoisoned()
    }

    /// Waits; returns whether to stop.
    fn wait_or_stop(&self, time: Duration) -> bool {
        let state = self.lock_state();
        let waited = self
            .wake
            .wait_timeout_while(state, time, |online_trainer_state| !online_trainer_state.is_stopped);
        waited.map_or(true, |(online_trainer_state, _)| online_trainer_state.is_stopped)
    }

    /// Writes the trainer's metrics.
    pub fn write(&self, page: &mut MetricsPage) {
        let state = self.lock_state();
        let mut family = page.begin_family(
            "metier_power_online_rounds_total",
            MetricKind::Counter,
            "Rounds of the online trainer, by outcome.",
        );
        for (outcome, count) in ["done", "failed"].iter().zip(state.rounds) {
            family.add_sample(&RenderedLabels::default().with_label("outcome", outcome), count as f64);
        }
        let mut family = page.begin_family(
            "metier_power_online_decisions_total",
            MetricKind::Counter,
            "Decisions on candidates: promoted, kept (the running predictor is as good), short (too few rows).",
        );
        for ((source, output_type, decision), count) in &state.decisions {
            family.add_sample(
                &source_labels(*source, *output_type).with_label("decision", decision.name()),
                *count as f64,
            );
        }
        let mut family = page.begin_family(
            "metier_power_online_error_watts",
            MetricKind::Gauge,
            "Mean error of the worst component on fresh rows of the latest round.",
        );
        for verdict in &state.latest {
            for (role, judged) in [("running", &verdict.running), ("candidate", &verdict.candidate)] {
                if let Some((judged, error)) = judged.as_ref().and_then(|error| Some((error, error.error?))) {
                    let labels = source_labels(verdict.source, verdict.output_type);
                    family.add_sample(
                        &labels.with_label("who", role).with_label("predictor", &judged.name),
                        error,
                    );
                }
            }
        }
        let mut family = page.begin_family(
            "metier_power_online_rows",
            MetricKind::Gauge,
            "Rows of the latest round: learned from, and fresh for comparison.",
        );
        for verdict in &state.latest {
            for (what, rows) in [("learned", verdict.rows), ("fresh", verdict.fresh_rows)] {
                family.add_sample(
                    &source_labels(verdict.source, verdict.output_type).with_label("rows", what),
                    rows as f64,
                );
            }
        }
        if let Some(at) = state.at {
            let mut family = page.begin_family(
                "metier_power_online_last_round_timestamp_seconds",
                MetricKind::Gauge,
                "When the latest round ended.",
            );
            family.add_sample(&RenderedLabels::default(), at.as_millisecond() as f64 / 1000.0);
        }
    }
}

fn source_labels(source: EnergySource, output_type: OutputType) -> RenderedLabels {
    RenderedLabels::default()
        .with_label("source", source.name())
        .with_label("output_type", output_type.name())
}

/// The training thread.
pub struct OnlineTrainer {
    pub figures: Arc<OnlineTrainerStats>,
    thread: Option<JoinHandle<()>>,
}

impl OnlineTrainer {
    /// Starts the thread; the first round begins at once.
    pub fn start(
        online: OnlineTrainerConfig,
        shelf: Arc<PipelineCatalog>,
        estimator: Arc<PowerEstimator>,
        recorder: Option<TrainedPipelineRecorder>,
    ) -> Result<Self, Error> {
        let client = BlockingClient::new(online.prometheus.clone())
            .map_err(|error| Error::Prometheus { reason: error.to_string() })?;
        let figures = Arc::new(OnlineTrainerStats::default());
        let inner = figures.clone();
        let work = move || {
            let live = online.settings.root.join(&online.settings.name);
            loop {
                run_round(&online, &client, &shelf, &estimator, &inner);
                if let Some(recorder) = &recorder {
                    recorder.record_promoted(&live);
                }
                if inner.wait_or_stop(online.interval) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("metier-online".to_string())
            .spawn(work)
            .map_err(|source| Error::Runtime { source })?;
        Ok(Self { figures, thread: Some(thread) })
    }
}

impl Drop for OnlineTrainer {
    fn drop(&mut self) {
        self.figures.lock_state().is_stopped = true;
        self.figures.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run_round(
    online: &OnlineTrainerConfig,
    client: &BlockingClient,
    shelf: &PipelineCatalog,
    estimator: &PowerEstimator,
    figures: &OnlineTrainerStats,
) {
    let now = UtcTimestamp::now();
    let start = now.checked_sub(online.window).unwrap_or(now);
    let only = online.only.clone();
    let question = KeplerQuery { step: online.step, only, ..KeplerQuery::new(TimeSpan { start, end: now }) };
    let verdicts = client
        .block_on(async |client| Ok(query_training_series(client, &question, online.node.as_deref()).await))
        .map_err(PowerError::from)
        .and_then(|response| online::round(&response?, estimator, &online.settings, now));
    let mut is_new = false;
    match &verdicts {
        Ok(verdicts) => {
            for verdict in verdicts {
                let (source, output_type) = (verdict.source.name(), verdict.output_type.name());
                let decision = verdict.decision.name();
                tracing::info!(source, output_type, decision, because = verdict.because, "online trainer");
                is_new |= verdict.decision == PromotionDecision::Promoted;
            }
        }
        Err(error) => {
            tracing::warn!(%error, "a round of the online trainer failed; the predictors in use stay")
        }
    }
    if is_new {
        for warning in shelf.reread() {
            tracing::warn!("{warning}");
        }
        estimator.adopt_catalog(shelf);
    }
    // Export a verdict only after its predictor is in use.
    let mut state = figures.lock_state();
    state.rounds[usize::from(verdicts.is_err())] += 1;
    state.at = Some(UtcTimestamp::now());
    if let Ok(verdicts) = verdicts {
        for verdict in &verdicts {
            let place = (verdict.source, verdict.output_type, verdict.decision);
            *state.decisions.entry(place).or_default() += 1;
        }
        state.latest = verdicts;
    }
}

/// Restricts the query to one node: Prometheus may scrape many, and their energy must not be added
/// up.
async fn restrict_to_node(
    client: &PromClient,
    question: &KeplerQuery,
    node: Option<&str>,
) -> Result<KeplerQuery, PowerError> {
    let all = query::instances(client, question).await?;
    let mut question = question.clone();
    if all.len() < 2 {
        return Ok(question);
    }
    let host = |text: &str| text.rsplit_once(':').map_or(text, |(host, _)| host).to_string();
    let is_own =
        |name_text: &&String| node.is_some_and(|node| **name_text == node || host(name_text) == node);
    let mut own = all.iter().filter(is_own);
    match (own.next(), own.next()) {
        (Some(own), None) => {
            question.only.push(("instance".to_string(), own.clone()));
            Ok(question)
        }
        _ => Err(PowerError::Word {
            field: "instance",
            got: format!("{} of {} nodes", shorten(&all.join(", ")), all.len()),
            want:
                "one node's series; say which by --only instance=NAME, or call this machine so in NODE_NAME"
                    .to_string(),
        }),
    }
}

/// All training inputs: counters of containers, and the node's energy.
async fn query_training_series(
    client: &PromClient,
    question: &KeplerQuery,
    node: Option<&str>,
) -> Result<KeplerResponse, PowerError> {
    let question = &restrict_to_node(client, question, node).await?;
    let is_ours = |name: &&String| {
        let of = |begin: &str, end: &str| name.starts_with(begin) && name.ends_with(end);
        let is_energy = name.ends_with("_joules_total");
        (of("kepler_container_", "_total") && !is_energy) || query::is_energy(name)
    };
    let mut response = KeplerResponse::default();
    for name in query::names(client, question).await?.iter().filter(is_ours).take(MAX_METRICS) {
        let series = query::metric(client, name, question).await?;
        response.0.insert(name.clone(), series.iter().map(KeplerSeries::from_query_series).collect());
    }
    Ok(response)
}
