//! The online trainer: asks Prometheus again and again for what the exporter measured, has `metier_power::online` learn from it and decide, and says what became of it.
//!
//! One thread, one round at a time. A round that fails (no Prometheus, no exporter, too few rows) is said and counted, and changes nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use metier_power::Error as PowerError;
use metier_power::catalog::PipelineCatalog;
use metier_power::estimate::Estimator;
use metier_power::online::{self, Settings, Verdict};
use metier_power::query::{self, Question, Span};
use metier_power::response::{Response, Series};
use metier_power::stored::PipelineRecorder;
use metier_power::vocabulary::{OutputType, Source, shorten};
use metier_predict::lifecycle::PromotionDecision;
use metier_prom::query::{Blocking, Client, Endpoint};
use metier_prom::{Kind, Labels, Page};
use metier_types::{LockUnpoisoned, Timestamp};

use crate::error::Error;

/// Most metrics that are asked for.
const METRICS: usize = 200;

/// What the online trainer is told.
#[derive(Debug, Clone)]
pub struct Online {
    /// Who knows what the exporter measured.
    pub prometheus: Endpoint,
    /// From round to round.
    pub interval: Duration,
    /// How far back a round looks.
    pub window: Duration,
    /// From row to row.
    pub step: Duration,
    /// Labels that its series have.
    pub only: Vec<(String, String)>,
    /// What this machine is called, to know its series by where Prometheus scrapes several.
    pub node: Option<String>,
    pub settings: Settings,
}

#[derive(Default)]
struct Told {
    rounds: [u64; 2],
    decisions: BTreeMap<(Source, OutputType, PromotionDecision), u64>,
    latest: Vec<Verdict>,
    at: Option<Timestamp>,
    is_stopped: bool,
}

/// What it did, and whether it is to end.
#[derive(Default)]
pub struct Figures {
    told: Mutex<Told>,
    wake: Condvar,
}

impl Figures {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock_unpoisoned()
    }

    /// Waits; whether it is to end.
    fn rest(&self, time: Duration) -> bool {
        let told = self.told();
        let waited = self.wake.wait_timeout_while(told, time, |told| !told.is_stopped);
        waited.map_or(true, |(told, _)| told.is_stopped)
    }

    /// What Prometheus is told of it.
    pub fn write(&self, page: &mut Page) {
        let told = self.told();
        let mut family = page.family(
            "metier_power_online_rounds_total",
            Kind::Counter,
            "Rounds of the online trainer, by outcome.",
        );
        for (outcome, count) in ["done", "failed"].iter().zip(told.rounds) {
            family.sample(&Labels::default().and("outcome", outcome), count as f64);
        }
        let mut family = page.family(
            "metier_power_online_decisions_total",
            Kind::Counter,
            "What became of candidates: promoted, kept (the running predictor is as good), short (too few rows).",
        );
        for ((source, output_type, decision), count) in &told.decisions {
            family.sample(&of(*source, *output_type).and("decision", decision.name()), *count as f64);
        }
        let mut family = page.family(
            "metier_power_online_error_watts",
            Kind::Gauge,
            "Mean error of the worst component on fresh rows of the latest round.",
        );
        for verdict in &told.latest {
            for (who, judged) in [("running", &verdict.running), ("candidate", &verdict.candidate)] {
                if let Some((judged, error)) = judged.as_ref().and_then(|one| Some((one, one.error?))) {
                    let labels = of(verdict.source, verdict.output_type);
                    family.sample(&labels.and("who", who).and("predictor", &judged.name), error);
                }
            }
        }
        let mut family = page.family(
            "metier_power_online_rows",
            Kind::Gauge,
            "Rows of the latest round: learned from, and fresh for comparison.",
        );
        for verdict in &told.latest {
            for (what, rows) in [("learned", verdict.rows), ("fresh", verdict.fresh_rows)] {
                family.sample(&of(verdict.source, verdict.output_type).and("rows", what), rows as f64);
            }
        }
        if let Some(at) = told.at {
            let mut family = page.family(
                "metier_power_online_last_round_timestamp_seconds",
                Kind::Gauge,
                "When the latest round ended.",
            );
            family.sample(&Labels::default(), at.as_millisecond() as f64 / 1000.0);
        }
    }
}

fn of(source: Source, output_type: OutputType) -> Labels {
    Labels::default().and("source", source.name()).and("output_type", output_type.name())
}

/// The thread that learns.
pub struct Teacher {
    pub figures: Arc<Figures>,
    thread: Option<JoinHandle<()>>,
}

impl Teacher {
    /// Starts it; the first round begins at once.
    pub fn start(
        online: Online,
        shelf: Arc<PipelineCatalog>,
        estimator: Arc<Estimator>,
        recorder: Option<PipelineRecorder>,
    ) -> Result<Self, Error> {
        let client = Blocking::new(online.prometheus.clone())
            .map_err(|error| Error::Prometheus { reason: error.to_string() })?;
        let figures = Arc::new(Figures::default());
        let inner = figures.clone();
        let work = move || {
            let live = online.settings.root.join(&online.settings.name);
            loop {
                round(&online, &client, &shelf, &estimator, &inner);
                if let Some(recorder) = &recorder {
                    recorder.record_promoted(&live);
                }
                if inner.rest(online.interval) {
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

impl Drop for Teacher {
    fn drop(&mut self) {
        self.figures.told().is_stopped = true;
        self.figures.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn round(
    online: &Online,
    client: &Blocking,
    shelf: &PipelineCatalog,
    estimator: &Estimator,
    figures: &Figures,
) {
    let now = Timestamp::now();
    let start = now.checked_sub(online.window).unwrap_or(now);
    let only = online.only.clone();
    let question = Question { step: online.step, only, ..Question::new(Span { start, end: now }) };
    let verdicts = client
        .ask(async |client| Ok(gather(client, &question, online.node.as_deref()).await))
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
        Err(error) => tracing::warn!(%error, "a round of the online trainer failed; what is in use stays"),
    }
    if is_new {
        for warning in shelf.reread() {
            tracing::warn!("{warning}");
        }
        estimator.follow(shelf);
    }
    // Told when it is in use, not before.
    let mut told = figures.told();
    told.rounds[usize::from(verdicts.is_err())] += 1;
    told.at = Some(Timestamp::now());
    if let Ok(verdicts) = verdicts {
        for verdict in &verdicts {
            let place = (verdict.source, verdict.output_type, verdict.decision);
            *told.decisions.entry(place).or_default() += 1;
        }
        told.latest = verdicts;
    }
}

/// The same question of one node: a Prometheus may scrape many, and what they take must not be added up.
async fn of_one_node(
    client: &Client,
    question: &Question,
    node: Option<&str>,
) -> Result<Question, PowerError> {
    let all = query::instances(client, question).await?;
    let mut question = question.clone();
    if all.len() < 2 {
        return Ok(question);
    }
    let host = |one: &str| one.rsplit_once(':').map_or(one, |(host, _)| host).to_string();
    let is_own = |one: &&String| node.is_some_and(|node| **one == node || host(one) == node);
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

/// Everything that is learned from: counters of containers, and the node's energy.
async fn gather(client: &Client, question: &Question, node: Option<&str>) -> Result<Response, PowerError> {
    let question = &of_one_node(client, question, node).await?;
    let is_ours = |name: &&String| {
        let of = |begin: &str, end: &str| name.starts_with(begin) && name.ends_with(end);
        let is_energy = name.ends_with("_joules_total");
        (of("kepler_container_", "_total") && !is_energy) || query::is_energy(name)
    };
    let mut response = Response::default();
    for name in query::names(client, question).await?.iter().filter(is_ours).take(METRICS) {
        let series = query::metric(client, name, question).await?;
        response.0.insert(name.clone(), series.iter().map(Series::of).collect());
    }
    Ok(response)
}
