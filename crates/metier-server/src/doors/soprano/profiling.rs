//! `POST /api/profiling`.

use std::collections::BTreeMap;

use axum::http::{StatusCode, header};
use metier_work::choose::{Candidate, Described, Question};
use serde_json::Value;

use super::reply::{Profiling, Seen, Winner};
use super::request::{self, DEVICE, Device};
use crate::problem::{FieldError, Problem};
use crate::routes::{Call, Reply};
use crate::serve::App;
use crate::starter;

/// Nodes whose reason is told when none can be chosen.
const MOST_REASONS: usize = 8;

/// Says on which node a graph would be fastest.
pub fn profiling(app: &App, call: &Call) -> Result<Reply, Problem> {
    if !matches!(call.media_type().as_str(), "application/json" | "text/json") {
        let fault = FieldError::new("Content-Type", &call.media_type(), "application/json");
        return Err(Problem::fields(StatusCode::UNSUPPORTED_MEDIA_TYPE, vec![fault]));
    }
    let asked = request::read(&call.body, app.soprano.nodes.is_some())?;
    if asked.apply {
        // Who may not place must not learn more than that.
        starter::admit(&app.config, "/api/profiling", &call.headers, call.line.as_ref())?;
        return Err(unplaced());
    }
    let question = Question { counts: asked.counts, graph: None };
    let answer = answered(app, asked.model, asked.device.as_ref(), &question, asked.echo)?;
    Reply::json(&answer)
}

/// Counts alone are no graph: there is nothing to place.
fn unplaced() -> Problem {
    let want =
        "false or absent: counts alone are nothing that can run; `metier place --graph FILE` places a graph";
    Problem::fields(StatusCode::UNPROCESSABLE_ENTITY, vec![FieldError::new("apply", "true", want)])
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
        None => Winner::Node {
            class: winner.class.clone(),
            device_model: winner.device_model.clone(),
            model,
            node: winner.node.clone(),
            node_uuid: winner.node_uuid.clone(),
            predicted_execution_time,
        },
    };
    Ok(Profiling {
        candidates,
        filepath: None,
        message: "Profiling data received",
        model_characteristics: echo,
        profiling_prediction,
        snapshot,
        status: "success",
    })
}

fn unavailable(detail: String) -> Problem {
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
