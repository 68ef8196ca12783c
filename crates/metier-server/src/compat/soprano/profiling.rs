//! `POST /api/profiling`.

use std::collections::BTreeMap;
use std::time::Instant;

use axum::http::{StatusCode, header};
use metier_cluster::inventory::prometheus::LatestNodes;
use serde_json::Value;

use super::candidate::{GraphQuestion, ProfilingCandidate};
use super::placed::Plan;
use super::reply::{Profiling, Seen, Winner};
use super::request::{self, DEVICE, DescribedDevice};
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
    let inquiry = Inquiry {
        model: asked.model,
        question: GraphQuestion { counts: asked.counts, graph: None, threads },
        echo: asked.echo,
        filepath: None,
        message: "Profiling data received",
    };
    match asked.deployment {
        None => Reply::json(&inquiry.profiled(app, asked.device.as_ref())?).map(Stage::Done),
        Some(wanted) => {
            let plan = Plan::new(app, inquiry, wanted, None)?;
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

/// What is asked, and what of it comes back.
pub struct Inquiry {
    /// What the graph is called.
    pub model: String,
    pub question: GraphQuestion,
    /// What was sent.
    pub echo: BTreeMap<String, Value>,
    /// Where an uploaded file was taken for.
    pub filepath: Option<String>,
    pub message: &'static str,
}

impl Inquiry {
    /// The answer for a described device, or for the nodes that Prometheus knows.
    pub fn profiled(self, app: &App, device: Option<&DescribedDevice>) -> Result<Profiling, Problem> {
        let predictors = app.soprano.predictors();
        let model = self.model.clone();
        if let Some(device) = device {
            let candidate = self.question.described(&predictors, device);
            let Some(predicted_execution_time) = candidate.predicted_execution_time else {
                let detail = format!("{DEVICE}: {}", candidate.reason);
                let fault = FieldError::new(DEVICE, &device.model, "a device that has a passport");
                return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail).because(vec![fault]));
            };
            let winner = Winner::Device { model, predicted_execution_time };
            return Ok(self.answer(vec![candidate], winner, None));
        }
        let (source, latest) = latest(app)?;
        let candidates = self.question.candidates(&predictors, &latest.inventory);
        let winner = candidates.first().and_then(|first| Winner::node(first, &model));
        let winner = winner.ok_or_else(|| nobody(&candidates))?;
        Ok(self.answer(candidates, winner, Some(Seen::of(&latest, source))))
    }

    /// The answer with the original's fields.
    pub fn answer(
        self,
        candidates: Vec<ProfilingCandidate>,
        profiling_prediction: Winner,
        snapshot: Option<Seen>,
    ) -> Profiling {
        Profiling {
            candidates,
            filepath: self.filepath,
            message: self.message,
            model_characteristics: self.echo,
            placement: None,
            profiling_prediction,
            snapshot,
            status: "success",
        }
    }
}

/// The address of the Prometheus, and the nodes that it showed last.
pub fn latest(app: &App) -> Result<(String, LatestNodes), Problem> {
    let nodes = app.soprano.nodes.as_ref();
    let nodes = nodes.ok_or_else(|| unavailable("this server knows no Prometheus".to_string()))?;
    let latest = nodes.latest().map_err(|unknown| unavailable(unknown.to_string()))?;
    Ok((nodes.source(), latest))
}

pub fn unavailable(detail: String) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).with(header::RETRY_AFTER, "5")
}

/// Nodes are known, and none of them can be chosen.
fn nobody(candidates: &[ProfilingCandidate]) -> Problem {
    if candidates.is_empty() {
        let detail = "Prometheus knows no nodes: want char_node_device_model with node_cpu_seconds_total (char_agent and node_exporter), or the series of `metier agent`";
        return unavailable(detail.to_string());
    }
    let reason = |one: &ProfilingCandidate| format!("{}: {}", one.node.as_deref().unwrap_or("?"), one.reason);
    let mut reasons: Vec<String> = candidates.iter().take(MOST_REASONS).map(reason).collect();
    if candidates.len() > MOST_REASONS {
        reasons.push(format!("and {} more", candidates.len() - MOST_REASONS));
    }
    unavailable(format!("none of {} nodes can be chosen: {}", candidates.len(), reasons.join("; ")))
}
