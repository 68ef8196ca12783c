//! `POST /api/profiling`.

use std::collections::BTreeMap;
use std::time::Instant;

use axum::http::{StatusCode, header};
use metier_types::Prediction;
use metier_work::choose::{Candidate, Described, Question};
use serde_json::Value;

use super::placed::Plan;
use super::reply::{Profiling, Seen, Winner};
use super::request::{self, DEVICE, Device};
use crate::app::{App, Server};
use crate::http::lanes::Lane;
use crate::http::problem::{FieldError, Problem};
use crate::http::starter;
use crate::http::{Call, Reply, Stage};

/// Nodes whose reason is told when none can be chosen.
const MOST_REASONS: usize = 8;

/// Says on which node a graph would be fastest, and puts it there where that is asked for.
pub fn profiling(app: &App, call: &Call) -> Result<Stage<Server>, Problem> {
    if !matches!(call.media_type().as_str(), "application/json" | "text/json") {
        let fault = FieldError::new("Content-Type", &call.media_type(), "application/json");
        return Err(Problem::fields(StatusCode::UNSUPPORTED_MEDIA_TYPE, vec![fault]));
    }
    let fields = request::object(&call.body)?;
    if request::applies(&fields) {
        admit(app, call)?;
    }
    let asked = request::checked(fields, app.soprano.nodes.is_some())?;
    let threads = asked.deployment.as_ref().map(|wanted| wanted.threads);
    let question = Question { counts: asked.counts, graph: None, threads };
    let answer = answered(app, asked.model.clone(), asked.device.as_ref(), &question, asked.echo)?;
    match asked.deployment {
        None => Reply::json(&answer).map(Stage::Done),
        Some(wanted) => {
            let memory = memory(app, &question)?;
            let plan = Plan { model: asked.model, answer, memory, wanted, graph: None };
            Ok(Stage::Then(Lane::Place, Box::new(move |app| Reply::json(&plan.carry_out(app)?))))
        }
    }
}

/// Whether a caller may place graphs, and not too often.
fn admit(app: &App, call: &Call) -> Result<(), Problem> {
    starter::admit(&app.http.config, "/api/profiling", &call.headers, call.line.as_ref())?;
    match app.http.starts.allows(Instant::now()) {
        true => Ok(()),
        false => {
            let detail = "graphs are placed too fast; try again in a moment";
            Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, detail).with(header::RETRY_AFTER, "1"))
        }
    }
}

/// The memory that a graph needs wherever it is placed.
pub fn memory(app: &App, question: &Question<'_>) -> Result<Prediction, Problem> {
    app.soprano.chooser().memory(question).map_err(|why| {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, format!("apply: {why}"))
            .because(vec![FieldError::new("apply", "true", "false or absent where a predictor file answers")])
    })
}

/// The answer for a described device, or for the nodes that are known.
pub fn answered(
    app: &App,
    model: String,
    device: Option<&Device>,
    question: &Question<'_>,
    echo: BTreeMap<String, Value>,
) -> Result<Profiling, Problem> {
    let chooser = app.soprano.chooser();
    let (candidates, snapshot) = match (device, &app.soprano.nodes) {
        (Some(device), _) => {
            let described = Described {
                model: &device.model,
                cpu_percent: device.cpu_percent,
                disk_percent: device.disk_percent,
            };
            (vec![chooser.device(&described, question)], None)
        }
        (None, Some(nodes)) => {
            let latest = nodes.latest().map_err(|silence| unavailable(silence.to_string()))?;
            (chooser.rank(&latest.snapshot, question), Some(Seen::of(&latest, nodes.source())))
        }
        (None, None) => return Err(unavailable("this server knows no Prometheus".to_string())),
    };
    let best = candidates.first().and_then(|first| Some((first, first.predicted_execution_time?)));
    let Some((winner, predicted_execution_time)) = best else {
        return Err(match device {
            Some(device) => {
                let reason = candidates.first().map(|one| one.reason.clone()).unwrap_or_default();
                Problem::new(StatusCode::UNPROCESSABLE_ENTITY, format!("{DEVICE}: {reason}"))
                    .because(vec![FieldError::new(DEVICE, &device.model, "a device that has a passport")])
            }
            None => nobody(&candidates),
        });
    };
    let profiling_prediction = match device {
        Some(_) => Winner::Device { model, predicted_execution_time },
        None => Winner::node(winner, &model).ok_or_else(|| nobody(&candidates))?,
    };
    Ok(Profiling {
        candidates,
        filepath: None,
        message: "Profiling data received",
        model_characteristics: echo,
        placement: None,
        profiling_prediction,
        snapshot,
        status: "success",
    })
}

pub fn unavailable(detail: String) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).with(header::RETRY_AFTER, "5")
}

/// Nodes are known, and none of them can be chosen.
fn nobody(candidates: &[Candidate]) -> Problem {
    if candidates.is_empty() {
        let detail = "Prometheus knows no nodes: want char_node_device_model with node_cpu_seconds_total (char_agent and node_exporter), or the series of `metier agent`";
        return unavailable(detail.to_string());
    }
    let reason = |one: &Candidate| format!("{}: {}", one.node.as_deref().unwrap_or("?"), one.reason);
    let mut reasons: Vec<String> = candidates.iter().take(MOST_REASONS).map(reason).collect();
    if candidates.len() > MOST_REASONS {
        reasons.push(format!("and {} more", candidates.len() - MOST_REASONS));
    }
    unavailable(format!("none of {} nodes can be chosen: {}", candidates.len(), reasons.join("; ")))
}
